//! Datagrams are counted, and have no answer.

use super::small;
use corelane::admin::watch::ServiceCounter as C;
use corelane::testing::{Faults, MS, Nobody, Rig, World, address, patient};
use corelane_push::Discard;

#[test]
fn each_datagram_is_a_request_and_none_is_answered() {
    let world = World::new(1, Faults::none());
    let mut rig = Rig::new(&world, &small(), |roster| roster.serve_datagrams(address(), patient(), Discard));
    let peer = world.bind("192.0.2.7:4000".parse().unwrap()).unwrap();
    for length in [0, 1, 100, 1_400] {
        for _ in 0..25 {
            peer.send(address(), &vec![7; length]).unwrap();
        }
        rig.wait(5 * MS);
    }
    assert_eq!((rig.count(C::Requests), rig.count(C::BytesIn)), (100, 25 * 1_501));
    assert_eq!((peer.receive(), rig.count(C::BytesOut)), (None, 0));
    rig.close(&mut Nobody);
}
