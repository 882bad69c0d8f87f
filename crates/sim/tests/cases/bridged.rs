//! The system passes bytes on between a pair, as its lane sees it.

use crate::bench::Bench;
use corelane_seam::{Chain, Driver, Handle, Op, Outcome, Reason, Socket, StreamOp, StreamOutcome, Tuning};
use corelane_sim::{Faults, Peer, Planted, Status};

/// Two connections of a lane with room for a pair, and their peers.
fn pair() -> (Bench, [Socket; 2], [Peer; 2]) {
    let mut bench = Bench::with(Faults::none(), Tuning::default().bridged_pairs_max(1));
    let listener = bench.listen(0, "10.0.0.1:7", 4);
    let [(one, first), (other, second)] = [(); 2].map(|()| {
        let accept = bench.push(0, StreamOp::Accept { listener });
        let peer = bench.connect("10.0.0.1:7");
        let Outcome::Stream(StreamOutcome::Accepted { socket, .. }) = bench.end(accept) else { panic!("not accepted") };
        bench.push(0, StreamOp::StopAccept { listener });
        bench.settle();
        (socket, peer)
    });
    bench.close(0, listener);
    (bench, [one, other], [first, second])
}

/// Bridges it, with so many bytes of the first in the lane's hands, and receives from both.
fn bridge(bench: &mut Bench, sockets: [Socket; 2], held: u64) -> [Handle; 2] {
    let receives = sockets.map(|socket| bench.push(0, StreamOp::Receive { socket }));
    bench.push(0, Op::Bridge { one: sockets[0], other: sockets[1], held: [held, 0] });
    bench.settle();
    receives
}

/// Sends bytes one by one; returns how many the lane has received by then, with the last receive.
fn say(bench: &mut Bench, peer: &Peer, (socket, mut receive): (Socket, Handle), bytes: u8) -> (Vec<u8>, Handle) {
    let mut received = Vec::new();
    for byte in 0..bytes {
        assert_eq!(peer.send(&[byte]), 1);
        bench.settle();
        if let Some(completion) = bench.take(receive) {
            match completion.outcome {
                Outcome::Stream(StreamOutcome::Received(got)) => received.extend_from_slice(&got),
                Outcome::Stream(StreamOutcome::Unseen { .. }) => {}
                other => panic!("{other:?}"),
            }
            receive = bench.push(0, StreamOp::Receive { socket });
            bench.settle();
        }
    }
    (received, receive)
}

#[test]
fn bytes_pass_unseen_and_are_told_when_that_is_asked_for_and_in_front_of_an_end() {
    let (mut bench, sockets, [one, other]) = pair();
    let [receive, _] = bridge(&mut bench, sockets, 0);
    assert_eq!(one.send(b"unseen"), 6);
    bench.settle();
    assert!(bench.take(receive).is_none(), "with this seed the system keeps up");
    assert_eq!(other.read(usize::MAX), b"unseen");
    bench.push(0, Op::TellUnseen { socket: sockets[0] });
    assert!(matches!(bench.end(receive), Outcome::Stream(StreamOutcome::Unseen { bytes: 6 })));
    let receive = bench.push(0, StreamOp::Receive { socket: sockets[0] });
    bench.push(0, Op::TellUnseen { socket: sockets[0] });
    bench.settle();
    assert!(bench.take(receive).is_none(), "there is nothing more to tell");
    assert_eq!(one.send(b"!"), 1);
    one.finish();
    assert!(matches!(bench.end(receive), Outcome::Stream(StreamOutcome::Unseen { bytes: 1 })));
    assert!(matches!(bench.receive(sockets[0]), Outcome::Stream(StreamOutcome::EndOfStream)));
    bench.settle();
    assert_eq!((other.read(usize::MAX), other.status()), (b"!".to_vec(), Status::Open));
    let bridges = bench.lanes[0].counters().bridges;
    assert_eq!((bridges.pairs, bridges.bytes, bridges.refused), (1, 7, 0));
    sockets.into_iter().for_each(|socket| bench.close(0, socket));
    assert_eq!(bench.lanes[0].counters().bridges.pairs, 0);
}

#[test]
fn nothing_passes_before_what_the_lane_has() {
    let (mut bench, sockets, [one, other]) = pair();
    let [receive, _] = bridge(&mut bench, sockets, 4);
    let (received, _) = say(&mut bench, &one, (sockets[0], receive), 20);
    assert_eq!((received, other.read(usize::MAX)), ((0..20).collect(), Vec::new()));
    // As soon as the lane has sent all that, the system has the pair again.
    let mut chain = Chain::new();
    chain.push(&[9; 24][..]);
    assert!(matches!(
        bench.run(0, StreamOp::Send { socket: sockets[1], chain }),
        Outcome::Stream(StreamOutcome::Sent { bytes: 24, .. })
    ));
    bench.settle();
    assert_eq!(other.read(usize::MAX).len(), 24);
    let passed = (0..20)
        .filter(|&byte: &u8| {
            one.send(&[byte]);
            bench.settle();
            other.read(usize::MAX) == [byte]
        })
        .count();
    assert!(passed > 0, "nothing was passed on");
}

#[test]
fn a_pair_goes_to_no_other_driver_and_there_are_no_more_than_may_be() {
    let (mut bench, sockets, _peers) = pair();
    bridge(&mut bench, sockets, 0);
    let why = bench.lanes[0].detach(sockets[0]).map(drop).unwrap_err();
    assert_eq!(why.reason, Reason::Unsupported);
    bench.push(0, Op::Bridge { one: sockets[1], other: sockets[0], held: [0, 0] });
    bench.settle();
    let bridges = bench.lanes[0].counters().bridges;
    assert_eq!((bridges.pairs, bridges.refused), (1, 0), "a pair that is bridged stays so");
}

#[test]
fn a_bug_that_lets_bytes_overtake_others_is_planted() {
    let (mut bench, sockets, [one, other]) = pair();
    bench.world.plant(Planted::OvertakingBridge);
    let [receive, _] = bridge(&mut bench, sockets, 4);
    say(&mut bench, &one, (sockets[0], receive), 100);
    assert!(!other.read(usize::MAX).is_empty() && bench.world.report().planted > 0);
}
