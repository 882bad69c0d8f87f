//! Checksums that a sender on the same machine leaves to its card, which there is not.

use crate::alone::Alone;
use crate::frames::{STACK, STACK_V6, TEST, TEST_V6, addresses, udp, udp_in};
use corelane_seam::Address;
use corelane_sim::CardSetup;
use corelane_stack::Drop;
use corelane_wire::packet::IpProtocol;
use std::net::{IpAddr, SocketAddr};

const PAYLOAD: &[u8] = b"summed by nobody";

fn alone(leaves_sums: bool) -> Alone {
    let mut alone = Alone::at(CardSetup { leaves_sums, ..CardSetup::default() }, 256, |settings| settings);
    alone.meet();
    alone
}

/// A datagram with the sum of its pseudo-header alone where the checksum stands, as the kernel hands one on.
fn left_out(alone: &Alone, peer: SocketAddr, local: SocketAddr) -> Vec<u8> {
    let mut frame = udp(alone.mac(), peer, local, PAYLOAD);
    let pseudo = addresses(peer.ip(), local.ip()).pseudo(IpProtocol::UDP, 8 + PAYLOAD.len()).unwrap();
    let place = frame.len() - PAYLOAD.len() - 2;
    frame[place..place + 2].copy_from_slice(&pseudo.partial().to_be_bytes());
    frame
}

#[test]
fn a_checksum_that_was_left_out_is_taken_where_that_may_be_and_counted() {
    for leaves_sums in [true, false] {
        let mut alone = alone(leaves_sums);
        for (ours, theirs) in [(IpAddr::from(STACK), IpAddr::from(TEST)), (STACK_V6.into(), TEST_V6.into())] {
            let (socket, local) = alone.bind(ours, 60_007, None);
            let peer = SocketAddr::new(theirs, 4000);
            let before = *alone.stack.counts();
            alone.test.send(&left_out(&alone, peer, local));
            let taken = if leaves_sums { vec![(Address::from(peer), PAYLOAD.to_vec())] } else { Vec::new() };
            assert_eq!(alone.receive(socket), taken);
            // A checksum that is there is looked at as ever.
            alone.test.send(&udp(alone.mac(), peer, local, PAYLOAD));
            assert_eq!(alone.receive(socket).len(), 1);
            let mut damaged = udp(alone.mac(), peer, local, PAYLOAD);
            *damaged.last_mut().unwrap() ^= 1;
            alone.test.send(&damaged);
            assert!(alone.receive(socket).is_empty());
            let after = *alone.stack.counts();
            let wrong = after.of(Drop::Checksum) - before.of(Drop::Checksum);
            assert_eq!((after.sums_left - before.sums_left, wrong), if leaves_sums { (1, 1) } else { (0, 2) });
        }
    }
}

/// A sender that cuts a datagram sums it before: in fragments, nothing is left out.
#[test]
fn of_fragments_no_sum_is_left_out() {
    let mut alone = alone(true);
    let (socket, local) = alone.bind(STACK, 60_007, None);
    let peer = SocketAddr::new(TEST.into(), 4000);
    let payload = [7; 2000];
    let pseudo = addresses(peer.ip(), local.ip()).pseudo(IpProtocol::UDP, 8 + payload.len()).unwrap();
    let mut frames = udp_in(alone.mac(), peer, local, &payload, 1400, 1);
    frames[0][40..42].copy_from_slice(&pseudo.partial().to_be_bytes());
    frames.iter().for_each(|frame| alone.test.send(frame));
    assert!(alone.receive(socket).is_empty());
    assert_eq!((alone.stack.counts().of(Drop::Checksum), alone.stack.counts().sums_left), (1, 0));
}
