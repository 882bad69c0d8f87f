//! Who pays for what is under way.

use super::cast::pattern;
use super::{list, listen, proxied};
use corelane::admin::watch::{LaneCounter, ServiceCounter as C};
use corelane::testing::{Faults, MS, Nobody, Peer, Play, RigPlan, S, Status, Turn, World, patient};
use corelane_upstreams::Settings;
use std::collections::BTreeMap;

const BYTES: usize = 1 << 20;

/// Servers that have much to say to everybody.
struct Speakers {
    content: Vec<u8>,
    all: Vec<(Peer, usize)>,
}

impl Play for Speakers {
    fn news(&mut self, _: &World, turn: Turn) {
        let peer = match turn {
            Turn::Incoming(peer) => {
                self.all.push((peer.clone(), 0));
                peer
            }
            Turn::Peer(peer) => peer,
            _ => return,
        };
        let Some((peer, said)) = self.all.iter_mut().find(|(known, _)| known.id() == peer.id()) else { return };
        *said += peer.send(&self.content[*said..]);
        if *said == self.content.len() {
            peer.finish();
        }
        if matches!(peer.status(), Status::Ended | Status::Failed(_)) {
            peer.close();
        }
    }

    fn is_over(&self) -> bool {
        true
    }
}

#[test]
fn those_who_read_nothing_pay_themselves_for_what_their_upstream_has_said() {
    let world = World::new(1, Faults::none());
    listen(&world, 1);
    let mut rig = proxied(&world, &RigPlan::lanes(1).memory(16 << 20), patient(), &list(1), Settings::new());
    let mut speakers = Speakers { content: pattern(1, BYTES), all: Vec::new() };
    // Of two addresses, and none of them reads.
    let mut slow = Vec::new();
    for number in 0..40 {
        slow.push(rig.connect(7 + number % 2));
        rig.pass(MS, &mut speakers);
    }
    rig.pass(S / 4, &mut speakers);
    let shares: BTreeMap<_, _> = rig.arenas[0].holders().iter().map(|holder| (holder.peer, holder.peer_bytes)).collect();
    assert!(
        shares.len() == 2 && shares.values().all(|held| *held > 1 << 19),
        "each address pays for its own, but for what is in pipes: {shares:?}"
    );
    let reader = rig.connect(1);
    let (began, mut got) = (world.now(), 0);
    while got < BYTES && world.now() - began < S {
        rig.pass(10 * MS, &mut speakers);
        got += reader.read(usize::MAX).len();
    }
    assert_eq!((got, rig.count(C::MemoryEndings)), (BYTES, 0), "others are served, and nobody has to end for it");
    slow.iter().for_each(Peer::reset);
    reader.close();
    rig.pass(S, &mut speakers);
    assert_eq!((rig.connections(), rig.lane_count(LaneCounter::MemoryUsed)), (0, 0));
    rig.close(&mut Nobody);
}
