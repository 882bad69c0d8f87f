//! Bytes that pass from one connection to another through pipes of the system's: the lane never has them.

use crate::bench::{Bench, assert_cancelled, chain_of, lasting};
use crate::rig::{Rig, Side};
use corelane_seam::{Chain, Op, Outcome, PipeCounters, Piped, Reason, Socket, StreamOp, StreamOutcome, Tuning};

/// Most that one receive brings here.
const MOST: usize = 100_000;
const MEMORY: usize = 4 << 20;

fn piped(outcome: Outcome) -> Chain {
    let Outcome::Stream(StreamOutcome::ReceivedPiped(bytes)) = outcome else { panic!("{outcome:?}") };
    assert!(!bytes.is_empty() && bytes.len() <= MOST);
    let mut chain = Chain::new();
    chain.push(bytes);
    assert!(chain.segments().all(|segment| segment.bytes().is_none()), "nobody looks at them");
    assert_eq!((chain.charged(), chain.held()), (0, chain.len()), "they are the system's, and bounded as the lane's are");
    chain
}

fn counted<R: Rig>(bench: &mut Bench<R>) -> PipeCounters {
    bench.driver(Side::Server).counters().pipes
}

/// Sends `bytes` from the client's end of one connection to its end of another through the server, which has pipes for them; returns them as they came.
fn relay<R: Rig>(
    bench: &mut Bench<R>,
    (from, out): (Socket, Socket),
    (to, end): (Socket, Socket),
    bytes: &'static [u8],
) -> Vec<u8> {
    let client = bench.push(Side::Client, StreamOp::Send { socket: from, chain: chain_of(bytes) });
    let (mut sending, mut rest) = (Some(client), Chain::new());
    let (mut receiving, mut leaving) = (bench.push(Side::Server, StreamOp::ReceivePiped { socket: out, most: MOST }), None);
    let (mut coming, mut got) = (bench.push(Side::Client, StreamOp::Receive { socket: end }), Vec::new());
    let mut brought = 0;
    while got.len() < bytes.len() {
        bench.round();
        if let Some(send) = sending.filter(|&send| bench.has_ended(Side::Client, send)) {
            let Outcome::Stream(StreamOutcome::Sent { rest: left, fault: None, .. }) = bench.end(Side::Client, send) else {
                panic!()
            };
            sending = (!left.is_empty()).then(|| bench.push(Side::Client, StreamOp::Send { socket: from, chain: left }));
        }
        if let Some(send) = leaving.filter(|&send| bench.has_ended(Side::Server, send)) {
            let Outcome::Stream(StreamOutcome::Sent { rest: left, fault: None, .. }) = bench.end(Side::Server, send) else {
                panic!()
            };
            (leaving, rest) = (None, left);
        }
        if rest.is_empty() && leaving.is_none() && brought < bytes.len() && bench.has_ended(Side::Server, receiving) {
            rest = piped(bench.end(Side::Server, receiving));
            brought += rest.len();
            if brought < bytes.len() {
                receiving = bench.push(Side::Server, StreamOp::ReceivePiped { socket: out, most: MOST });
            }
        }
        if leaving.is_none() && !rest.is_empty() {
            leaving = Some(bench.push(Side::Server, StreamOp::Send { socket: to, chain: std::mem::take(&mut rest) }));
        }
        if bench.has_ended(Side::Client, coming) {
            let Outcome::Stream(StreamOutcome::Received(part)) = bench.end(Side::Client, coming) else { panic!() };
            got.extend_from_slice(&part);
            if got.len() < bytes.len() {
                coming = bench.push(Side::Client, StreamOp::Receive { socket: end });
            }
        }
        assert_eq!(bench.rig.arena(Side::Server).used(), 0, "the lane never has them");
    }
    if let Some(send) = leaving {
        bench.end(Side::Server, send);
    }
    got
}

pub fn bytes_pass_through_a_pipe_and_no_memory<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (one, other) = (bench.pipe(), bench.pipe());
    let bytes = lasting(3_000_000);
    let there = relay(&mut bench, (one.client, one.server), (other.server, other.client), bytes);
    assert!(there == bytes, "other bytes came");
    // And back on the same connections.
    let back = relay(&mut bench, (other.client, other.server), (one.server, one.client), &bytes[..500_000]);
    assert!(back == bytes[..500_000], "other bytes came back");
    assert_eq!(counted(&mut bench), PipeCounters { bytes: 3_500_000, refused: 0, held: 0 });
    bench.finish();
}

pub fn behind_bytes_in_a_pipe_the_end_comes_as_ever<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (one, other) = (bench.pipe(), bench.pipe());
    bench.send_bytes(Side::Client, one.client, b"last words");
    bench.driver(Side::Client).finish(one.client);
    bench.settle();
    let receive = StreamOp::ReceivePiped { socket: one.server, most: 4 };
    let mut first = piped(bench.run(Side::Server, receive));
    assert_eq!(first.len(), 4, "no more than was asked for");
    let mut rest = piped(bench.run(Side::Server, StreamOp::ReceivePiped { socket: one.server, most: MOST }));
    for _ in 0..2 {
        let end = bench.run(Side::Server, StreamOp::ReceivePiped { socket: one.server, most: MOST });
        assert!(matches!(end, Outcome::Stream(StreamOutcome::EndOfStream)), "{end:?}");
    }
    // They leave between bytes of memory, and what is dropped of them does not.
    first.skip(1);
    let mut chain = chain_of(b"<");
    chain.append(&mut first);
    chain.append(&mut chain_of(b"|"));
    chain.append(&mut rest);
    chain.append(&mut chain_of(b">"));
    bench.send(Side::Server, other.server, chain);
    assert_eq!(bench.receive_all(Side::Client, other.client, 12), b"<ast| words>");
    // The other way is open.
    bench.send_bytes(Side::Server, one.server, b"answer");
    assert_eq!(bench.receive_all(Side::Client, one.client, 6), b"answer");
    bench.finish();
}

pub fn where_there_is_no_pipe_bytes_come_into_memory<R: Rig>() {
    let mut bench = Bench::<R>::with(Tuning::default().pipes_max(1), MEMORY);
    let (one, other) = (bench.pipe(), bench.pipe());
    bench.send_bytes(Side::Client, one.client, b"first");
    let held = piped(bench.run(Side::Server, StreamOp::ReceivePiped { socket: one.server, most: MOST }));
    assert_eq!(counted(&mut bench), PipeCounters { bytes: 5, refused: 0, held: 1 });
    bench.send_bytes(Side::Client, one.client, b"second");
    let second = bench.run(Side::Server, StreamOp::ReceivePiped { socket: one.server, most: MOST });
    assert!(matches!(&second, Outcome::Stream(StreamOutcome::Received(bytes)) if **bytes == *b"second"), "{second:?}");
    drop(second);
    assert_eq!(counted(&mut bench), PipeCounters { bytes: 5, refused: 1, held: 1 });
    // When the bytes have left, there is one.
    bench.send(Side::Server, other.server, held);
    assert_eq!(bench.receive_all(Side::Client, other.client, 5), b"first");
    bench.send_bytes(Side::Client, one.client, b"third");
    drop(piped(bench.run(Side::Server, StreamOp::ReceivePiped { socket: one.server, most: MOST })));
    // What nobody wants any more is nobody else's.
    bench.send_bytes(Side::Client, one.client, b"fourth");
    let fourth = piped(bench.run(Side::Server, StreamOp::ReceivePiped { socket: one.server, most: MOST }));
    bench.send(Side::Server, other.server, fourth);
    assert_eq!(bench.receive_all(Side::Client, other.client, 6), b"fourth");
    assert_eq!(counted(&mut bench), PipeCounters { bytes: 16, refused: 1, held: 0 });
    bench.finish();
}

pub fn a_receive_into_a_pipe_stops_as_any_other<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let pipe = bench.pipe();
    let receive = bench.push(Side::Server, StreamOp::ReceivePiped { socket: pipe.server, most: MOST });
    bench.settle();
    assert!(!bench.has_ended(Side::Server, receive));
    bench.driver(Side::Server).push(corelane_seam::Handle::NOBODY, Op::StopReceive { socket: pipe.server });
    assert_cancelled(&bench.end(Side::Server, receive));
    bench.send_bytes(Side::Client, pipe.client, b"there");
    bench.settle();
    bench.until_readable(Side::Server, pipe.server, 5);
    let receive = bench.push(Side::Server, StreamOp::ReceivePiped { socket: pipe.server, most: MOST });
    bench.driver(Side::Server).push(corelane_seam::Handle::NOBODY, Op::StopReceive { socket: pipe.server });
    assert_eq!(piped(bench.end(Side::Server, receive)).len(), 5);
    let receive = bench.push(Side::Server, StreamOp::ReceivePiped { socket: pipe.server, most: MOST });
    bench.close(Side::Server, pipe.server);
    assert_cancelled(&bench.end(Side::Server, receive));
    let late = bench.run(Side::Server, StreamOp::ReceivePiped { socket: pipe.server, most: MOST });
    assert_cancelled(&late);
    assert_eq!(counted(&mut bench).held, 0);
    bench.finish();
}

pub fn an_error_of_either_side_is_that_sides<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (one, other) = (bench.pipe(), bench.pipe());
    bench.send_bytes(Side::Client, one.client, lasting(50_000));
    bench.settle();
    let chain = piped(bench.run(Side::Server, StreamOp::ReceivePiped { socket: one.server, most: MOST }));
    let broken = |bench: &mut Bench<R>, socket| {
        assert!(matches!(bench.run(Side::Client, Op::Close { socket, reset: true }), Outcome::Closed));
        bench.forget(Side::Client, socket);
        bench.settle();
    };
    // The one that is sent to: its receiver has left, and the bytes come back.
    broken(&mut bench, other.client);
    let asked = chain.len();
    let sent = bench.run(Side::Server, StreamOp::Send { socket: other.server, chain });
    let Outcome::Stream(StreamOutcome::Sent { bytes: 0, rest, fault: Some(fault) }) = sent else { panic!("{sent:?}") };
    assert_eq!((rest.len(), fault.reason), (asked, Reason::Reset));
    drop(rest);
    // The one that is received from.
    broken(&mut bench, one.client);
    let mut end = bench.run(Side::Server, StreamOp::ReceivePiped { socket: one.server, most: MOST });
    while let Outcome::Stream(StreamOutcome::ReceivedPiped(_)) = end {
        end = bench.run(Side::Server, StreamOp::ReceivePiped { socket: one.server, most: MOST });
    }
    assert!(matches!(end, Outcome::Failed(fault) if fault.reason == Reason::Reset), "{end:?}");
    assert_eq!(counted(&mut bench).held, 0);
    bench.finish();
}

/// A reader that does not read holds one pipe, and what is in it is the system's: all of it leaves later.
pub fn bytes_in_a_pipe_wait_for_a_slow_reader<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (one, other) = (bench.pipe(), bench.pipe());
    let bytes = lasting(MOST);
    // The way to the reader is full.
    let (mut filled, mut fill) =
        (0, bench.push(Side::Server, StreamOp::Send { socket: other.server, chain: chain_of(lasting(8 << 20)) }));
    loop {
        bench.settle();
        if !bench.has_ended(Side::Server, fill) {
            break;
        }
        let Outcome::Stream(StreamOutcome::Sent { bytes, rest, fault: None }) = bench.end(Side::Server, fill) else { panic!() };
        filled += bytes;
        fill = bench.push(Side::Server, StreamOp::Send { socket: other.server, chain: rest });
    }
    bench.send_bytes(Side::Client, one.client, bytes);
    bench.settle();
    let chain = piped(bench.run(Side::Server, StreamOp::ReceivePiped { socket: one.server, most: MOST }));
    let waits = chain.len();
    let mut got = Vec::new();
    while !bench.has_ended(Side::Server, fill) {
        got.extend_from_slice(&bench.receive(Side::Client, other.client));
    }
    let Outcome::Stream(StreamOutcome::Sent { bytes: more, fault: None, .. }) = bench.end(Side::Server, fill) else { panic!() };
    let mut send = bench.push(Side::Server, StreamOp::Send { socket: other.server, chain });
    let all = filled + more + waits;
    while got.len() < all {
        got.extend_from_slice(&bench.receive(Side::Client, other.client));
        if bench.has_ended(Side::Server, send) && got.len() < all {
            let Outcome::Stream(StreamOutcome::Sent { rest, fault: None, .. }) = bench.end(Side::Server, send) else { panic!() };
            if rest.is_empty() {
                break;
            }
            send = bench.push(Side::Server, StreamOp::Send { socket: other.server, chain: rest });
        }
    }
    while got.len() < all {
        got.extend_from_slice(&bench.receive(Side::Client, other.client));
    }
    assert!(got[filled + more..] == bytes[..waits], "other bytes came");
    bench.until(|bench| bench.has_ended(Side::Server, send));
    assert_eq!(counted(&mut bench).held, 0);
    bench.finish();
}

/// Its last view alone gives a pipe back, wherever that lies.
pub fn a_driver_may_go_with_bytes_in_pipes<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let pipe = bench.pipe();
    bench.send_bytes(Side::Client, pipe.client, b"left behind");
    let outcome = bench.run(Side::Server, StreamOp::ReceivePiped { socket: pipe.server, most: MOST });
    let Outcome::Stream(StreamOutcome::ReceivedPiped(left)) = outcome else { panic!("{outcome:?}") };
    drop(bench.abandon());
    assert_eq!(Piped::len(&left), 11);
}
