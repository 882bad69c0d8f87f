//! Services side by side: none reaches the connections of another, and all share the helper threads in turn.

use crate::for_seeds;
use crate::rig::Talker;
use crate::rig::{MS, Nobody, Rig, RigPlan, at, client, patient};
use corelane_seam::Outcome;
use corelane_sim::{Faults, Peer, Status, World};
use corelane_svc::{ConnectionId, Cx, Hold, Input, Next, Notes, Order, Origin, Output, Says, Silent, StreamService, Ticket};
use corelane_watch::{LaneCounter, ServiceCounter as C};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

fn pair_of<S: StreamService>(world: &World, make: impl Fn(u16) -> S) -> Rig {
    Rig::new(world, &RigPlan::lanes(1), |roster| {
        for number in 0..2 {
            roster.serve(at(8 + number), patient(), make(number));
        }
    })
}

/// Tries what its clients say on the connection of the other service that was opened first, and on its own.
struct Meddler {
    first: Rc<RefCell<Vec<ConnectionId>>>,
}

impl StreamService for Meddler {
    type Talk = Notes<()>;
    type Session = ();

    fn open(&mut self, cx: &mut Cx<'_, Notes<()>>, _peer: &corelane_svc::Peer) {
        self.first.borrow_mut().push(cx.id());
    }

    fn receive(&mut self, cx: &mut Cx<'_, Notes<()>>, _session: &mut (), input: &mut Input, output: &mut Output) -> Next {
        let other = self.first.borrow()[0];
        let Some(word) = input.contiguous(input.len()).map(<[u8]>::to_vec) else { return Next::Continue };
        input.skip(word.len());
        match &word[..] {
            b"close" => cx.close(other),
            b"abort" => cx.abort(other),
            b"tell" => cx.notify(other, ()),
            b"pair" => cx.pair(cx.id(), other),
            b"write" => assert_eq!(cx.connection(other).map(|output| output.write(b"here")), None),
            _ => {}
        }
        output.write(&word).unwrap();
        Next::Continue
    }

    fn message(&mut self, _cx: &mut Cx<'_, Notes<()>>, _session: &mut (), _output: &mut Output, (): ()) -> Next {
        Next::Abort
    }
}

#[test]
fn no_service_reaches_the_connections_of_another() {
    let world = World::new(1, Faults::none());
    let first = Rc::default();
    let mut rig = pair_of(&world, |_| Meddler { first: Rc::clone(&first) });
    let [victim, meddler] = [at(8), at(9)].map(|to| {
        let peer = world.connect(client(1), to).unwrap();
        rig.wait(MS);
        peer
    });
    for (number, word) in ["close", "abort", "tell", "pair", "write"].into_iter().enumerate() {
        assert_eq!(rig.ask(&meddler, word), word);
        assert_eq!(rig.ask(&victim, "well"), "well", "after {word:?}");
        assert_eq!((rig.count_of(1, C::NoticesRefused), rig.count_of(0, C::NoticesRefused)), (number as u64 + 1, 0));
    }
    meddler.reset();
    rig.wait(MS);
    assert_eq!(rig.ask(&victim, "well"), "well", "it is no pair");
    assert_eq!(rig.ask(&victim, "close"), "close");
    assert_eq!((victim.status(), rig.count_of(0, C::NoticesRefused)), (Status::Ended, 0));
    victim.close();
    rig.close(&mut Nobody);
}

#[test]
fn a_message_that_comes_too_late_is_counted() {
    let world = World::new(1, Faults::none());
    let first = Rc::default();
    let mut rig = pair_of(&world, |_| Meddler { first: Rc::clone(&first) });
    let [gone, other] = [1, 2].map(|number| {
        let peer = world.connect(client(number), at(8)).unwrap();
        rig.wait(MS);
        peer
    });
    gone.close();
    rig.wait(MS);
    assert_eq!(rig.ask(&other, "tell"), "tell");
    assert_eq!((rig.count(C::NoticesLate), rig.count(C::NoticesRefused)), (1, 0));
    other.close();
    rig.close(&mut Nobody);
}

/// Takes a line of so many bytes, with memory for the same answer. None while there is no memory, or no ticket.
fn held(input: &mut Input, bytes: usize, output: &mut Output) -> Option<(Ticket, Vec<u8>)> {
    let line = input.contiguous(bytes)?.to_vec();
    let ticket = output.hold(Hold::new(Order::Kept).reserve(bytes)).ok()?;
    input.skip(bytes);
    Some((ticket, line))
}

/// Has helper threads answer each line.
#[derive(Default)]
struct Helped {
    asked: BTreeMap<u64, Ticket>,
    next: u64,
}

impl StreamService for Helped {
    type Talk = Silent;
    type Session = ();

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &corelane_svc::Peer) {}

    fn receive(&mut self, cx: &mut Cx<'_>, _session: &mut (), input: &mut Input, output: &mut Output) -> Next {
        while let Some(end) = input.position(b'\n') {
            if !cx.ask_offload() {
                break;
            }
            let Some((ticket, line)) = held(input, end + 1, output) else { break };
            self.asked.insert(self.next, ticket);
            cx.offload(move || line, self.next);
            cx.count_requests(1);
            self.next += 1;
        }
        Next::Continue
    }

    fn completed(&mut self, cx: &mut Cx<'_>, token: u64, outcome: Outcome) {
        let ticket = self.asked.remove(&token).unwrap();
        let Outcome::Offloaded(line) = outcome else { panic!("{outcome:?}") };
        cx.answer_bytes(ticket, &line.0.downcast::<Vec<u8>>().unwrap()).expect("memory is kept for it");
    }
}

/// All faults but those that end connections; memory is refused too.
fn no_connection_is_lost(seed: u64) -> Faults {
    Faults { reset: 0, aborted_accept: 0, lost_accept: 0, refused_memory: 50, ..Faults::all(seed) }
}

#[test]
fn more_requests_than_helpers_take_are_all_carried_out() {
    for_seeds(20, |seed| {
        let world = World::new(seed, if seed % 2 == 0 { Faults::none() } else { no_connection_is_lost(seed) });
        let mut rig = pair_of(&world, |_| Helped::default());
        let text: String = (0..2_000).map(|number| format!("{number}\n")).collect();
        let talker = |number: usize| {
            let peer = world.connect(client(number), at(8 + number as u16 % 2)).unwrap();
            let lines = if number < 2 { text.len() } else { text.match_indices('\n').nth(20 * number).unwrap().0 + 1 };
            Talker::new(peer, seed, text.as_bytes()[..lines].to_vec())
        };
        let mut talkers: Vec<Talker> = (0..8).map(talker).collect();
        assert!(rig.play(&mut talkers), "clients wait for ever");
        for talker in &talkers {
            assert!(talker.is_complete() && talker.got == talker.to_send, "{} of {}", talker.got.len(), talker.to_send.len());
        }
        assert_eq!(rig.lane_count(LaneCounter::OffloadsRefused), 0);
        assert_eq!(rig.count(C::MemoryEndings), 0, "there is memory, so nobody ends for who was refused some once");
        assert!(rig.count_of(0, C::OffloadMaxHits) > 0 && rig.count_of(0, C::OutputHighHits) == 0);
        rig.close(&mut talkers);
    });
}

#[test]
fn who_waits_for_a_helper_and_goes_away_holds_up_nobody() {
    let world = World::new(1, Faults::none());
    let mut rig = pair_of(&world, |_| Helped::default());
    let text = "line\n".repeat(500);
    let peers: Vec<Peer> = (0..10).map(|number| world.connect(client(number), at(8)).unwrap()).collect();
    rig.wait(MS);
    peers.iter().for_each(|peer| assert_eq!(peer.send(text.as_bytes()), text.len()));
    world.pass(Duration::from_micros(150));
    rig.wait(Duration::from_micros(50));
    peers[..9].iter().for_each(Peer::reset);
    rig.wait(2_000 * MS);
    assert_eq!(peers[9].read(usize::MAX).len(), text.len());
    peers[9].close();
    rig.close(&mut Nobody);
}

/// The same, but not in the calls for its connections; and it goes on only when it is told that there is a place.
#[derive(Default)]
struct Aside {
    waiting: VecDeque<(Ticket, Vec<u8>)>,
    helped: Helped,
}

impl StreamService for Aside {
    type Talk = Silent;
    type Session = ();

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &corelane_svc::Peer) {}

    fn receive(&mut self, cx: &mut Cx<'_>, _session: &mut (), input: &mut Input, output: &mut Output) -> Next {
        while let Some(end) = input.position(b'\n') {
            let Some(asked) = held(input, end + 1, output) else { break };
            self.waiting.push_back(asked);
            cx.nudge().nudge();
        }
        Next::Continue
    }

    fn nudged(&mut self, cx: &mut Cx<'_>) {
        while !self.waiting.is_empty() && cx.ask_offload() {
            let (ticket, line) = self.waiting.pop_front().unwrap();
            self.helped.asked.insert(self.helped.next, ticket);
            cx.offload(move || line, self.helped.next);
            self.helped.next += 1;
        }
    }

    fn completed(&mut self, cx: &mut Cx<'_>, token: u64, outcome: Outcome) {
        self.helped.completed(cx, token, outcome);
    }
}

#[test]
fn who_waits_for_a_helper_is_called_when_another_service_has_left_a_place() {
    for_seeds(50, |seed| {
        let world = World::new(seed, if seed % 2 == 0 { Faults::none() } else { no_connection_is_lost(seed) });
        let mut rig = Rig::new(&world, &RigPlan::lanes(1), |roster| {
            roster.serve(at(8), patient(), Helped::default());
            roster.serve(at(9), patient(), Aside::default());
        });
        let talker = |number: usize| {
            // The last one comes when the others have taken all places.
            let peer = world.connect(client(number), at(if number == 4 { 9 } else { 8 })).unwrap();
            Talker::new(peer, seed, "line\n".repeat(if number == 4 { 100 } else { 300 }).into_bytes())
        };
        let mut talkers: Vec<Talker> = (0..4).map(talker).collect();
        while rig.count_of(0, C::OffloadMaxHits) == 0 {
            rig.pass(Duration::from_micros(10), &mut talkers);
        }
        talkers.push(talker(4));
        assert!(rig.play(&mut talkers), "a client waits for ever");
        for talker in &talkers {
            assert!(talker.is_complete() && talker.got == talker.to_send, "{} of {}", talker.got.len(), talker.to_send.len());
        }
        assert_eq!(rig.lane_count(LaneCounter::OffloadsRefused), 0);
        assert_eq!(rig.count(C::MemoryEndings), 0, "there is memory, so nobody ends for who was refused some once");
        rig.close(&mut talkers);
    });
}

/// Sends so many messages to the other lane, and notes when such messages come.
struct Chatter {
    messages: usize,
    heard: Rc<RefCell<Vec<u64>>>,
}

impl StreamService for Chatter {
    type Talk = Says<()>;
    type Session = ();

    fn started(&mut self, cx: &mut Cx<'_, Says<()>>) {
        let other = (cx.lane() + 1) % cx.lanes();
        (0..self.messages).for_each(|_| assert!(cx.send(other, ()).is_ok()));
    }

    fn open(&mut self, _cx: &mut Cx<'_, Says<()>>, _peer: &corelane_svc::Peer) {}

    fn receive(&mut self, _cx: &mut Cx<'_, Says<()>>, _session: &mut (), _input: &mut Input, _output: &mut Output) -> Next {
        Next::Close
    }

    fn lane_message(&mut self, cx: &mut Cx<'_, Says<()>>, _from: Origin, (): ()) {
        self.heard.borrow_mut().push(cx.now().nanoseconds());
    }
}

/// However many messages another lane has sent, one turn takes so many at the most, and the others come all the same.
#[test]
fn a_turn_takes_a_bounded_number_of_messages() {
    const AT_MOST: usize = 8;
    const MESSAGES: usize = 100;
    let world = World::new(1, Faults::none());
    let mut plan = RigPlan::lanes(2);
    (plan.settings.turn_other, plan.settings.channel_messages) = (AT_MOST, 128);
    let heard = [Rc::default(), Rc::default()];
    let mut rig = Rig::new(&world, &plan, |roster| {
        let chatter = Chatter { messages: [MESSAGES, 0][roster.lane()], heard: Rc::clone(&heard[roster.lane()]) };
        roster.client(patient(), chatter);
    });
    rig.wait(MS);
    let turns: Vec<usize> = heard[1].borrow().chunk_by(|one, next| one == next).map(<[u64]>::len).collect();
    assert_eq!(turns, [vec![AT_MOST; MESSAGES / AT_MOST], vec![MESSAGES % AT_MOST]].concat());
    assert!(heard[0].borrow().is_empty());
    rig.close(&mut Nobody);
}
