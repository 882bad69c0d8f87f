//! What a lane's histograms say of its turns.

use crate::guard::{Guard, Mine};
use crate::rig::{MS, Rig, at, client, settings};
use crate::streams::Streams;
use corelane_lane::{Budget, Order, Works};
use corelane_watch::{LaneCounter, LaneHistogram, LaneState, Reader};
use std::rc::Rc;

/// Those that have a value for each productive turn. The others count requests and messages, of which there are none here.
const OF_TURNS: [LaneHistogram; 2] = [LaneHistogram::TurnNanoseconds, LaneHistogram::TurnCompletions];

#[test]
fn each_productive_turn_is_measured_once() {
    let budget = Budget { completions: settings().turn_completions, other: settings().turn_other };
    let mut rig = Rig::one(|_, driver| {
        Works::of(Streams::new(Guard::new(1, budget, false, Mine::default(), Rc::default()), driver, at(7)))
    });
    let peer = rig.world.connect(client(1), at(7)).unwrap();
    for _ in 0..3 {
        rig.pass(5 * MS);
        assert_eq!(peer.send(b"again"), 5);
    }
    rig.pass(5 * MS);
    let reader = Reader::of(&rig.page).unwrap();
    let snapshot = reader.snapshot(rig.world.now().nanoseconds());
    let values = &snapshot.lanes[0].values;
    assert_eq!((snapshot.lanes[0].is_whole, snapshot.lanes[0].state()), (true, Some(LaneState::Sleeping)));
    let productive = values.get(LaneCounter::TurnsProductive);
    assert!(productive > 1, "the clients were served");
    for which in OF_TURNS {
        assert_eq!(snapshot.lanes[0].histogram(which).count(), productive, "{which:?}, all known as the lane sleeps");
    }
    let found: u64 = snapshot.histogram(LaneHistogram::TurnCompletions).buckets().map(|(least, _, count)| least * count).sum();
    assert!(0 < found && found <= values.get(LaneCounter::Completions));
    rig.until_ended(Order::Drain);
    let ended = reader.snapshot(rig.world.now().nanoseconds());
    let productive = ended.lanes[0].values.get(LaneCounter::TurnsProductive);
    assert_eq!(OF_TURNS.map(|which| ended.lanes[0].histogram(which).count()), [productive; 2]);
    let others = LaneHistogram::ALL.into_iter().filter(|which| !OF_TURNS.contains(which));
    assert_eq!(others.map(|which| ended.lanes[0].histogram(which).count()).sum::<u64>(), 0);
}
