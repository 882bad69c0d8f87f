//! Connections that leave their driver for another one.

use crate::bench::{Bench, Pipe, assert_cancelled, lasting};
use crate::rig::{Rig, Side};
use corelane_seam::{Chain, Detached, Handle, Op, Outcome, Reason, Segment, Socket, StreamOp, StreamOutcome};

/// A connection whose server receives, and that receive.
fn at_rest<R: Rig>(bench: &mut Bench<R>) -> (Pipe, Handle) {
    let pipe = bench.pipe();
    let receive = bench.push(Side::Server, StreamOp::Receive { socket: pipe.server });
    bench.settle();
    (pipe, receive)
}

/// Detaches a connection of the server that receives.
fn detached<R: Rig>(bench: &mut Bench<R>, socket: Socket, receive: Handle) -> Detached {
    let detached = bench.driver(Side::Server).detach(socket).unwrap();
    bench.leave(Side::Server, socket, receive);
    detached
}

fn adopted<R: Rig>(bench: &mut Bench<R>, side: Side, detached: Detached) -> Socket {
    let socket = bench.driver(side).adopt(detached).unwrap();
    bench.adopt(side, socket);
    socket
}

fn refused<R: Rig>(bench: &mut Bench<R>, side: Side, socket: Socket) -> Reason {
    bench.driver(side).detach(socket).unwrap_err().reason
}

pub fn a_connection_at_rest_goes_to_another_driver_and_loses_nothing<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (pipe, receive) = at_rest(&mut bench);
    let on_its_way = detached(&mut bench, pipe.server, receive);
    bench.send_bytes(Side::Client, pipe.client, b"while it is on its way, ");
    let there = adopted(&mut bench, Side::Client, on_its_way);
    bench.send_bytes(Side::Client, pipe.client, b"and behind that");
    let came = bench.receive_all(Side::Client, there, 39);
    assert_eq!(came, b"while it is on its way, and behind that");
    bench.send_bytes(Side::Client, there, b"answered");
    assert_eq!(bench.receive_all(Side::Client, pipe.client, 8), b"answered");
    bench.finish();
}

pub fn a_connection_goes_there_and_back_many_times<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (pipe, mut receive) = at_rest(&mut bench);
    let (mut side, mut socket) = (Side::Server, pipe.server);
    for to in [Side::Client, Side::Client, Side::Server, Side::Server, Side::Client, Side::Server] {
        let on_its_way = bench.driver(side).detach(socket).unwrap();
        bench.leave(side, socket, receive);
        (side, socket) = (to, adopted(&mut bench, to, on_its_way));
        bench.send_bytes(Side::Client, pipe.client, b"ask");
        assert_eq!(bench.receive_all(side, socket, 3), b"ask");
        bench.send_bytes(side, socket, b"answer");
        assert_eq!(bench.receive_all(Side::Client, pipe.client, 6), b"answer");
        receive = bench.push(side, StreamOp::Receive { socket });
        bench.settle();
        assert!(!bench.has_ended(side, receive));
    }
    bench.push(side, Op::StopReceive { socket });
    assert_cancelled(&bench.end(side, receive));
    bench.finish();
}

/// What has arrived and was not received goes along, and so does the end behind it.
pub fn bytes_that_have_arrived_go_along_and_so_does_the_end<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (pipe, receive) = at_rest(&mut bench);
    let on_its_way = detached(&mut bench, pipe.server, receive);
    bench.send_bytes(Side::Client, pipe.client, b"last words");
    bench.driver(Side::Client).finish(pipe.client);
    bench.settle();
    let there = adopted(&mut bench, Side::Client, on_its_way);
    assert_eq!(bench.receive_all(Side::Client, there, 10), b"last words");
    let end = bench.run(Side::Client, StreamOp::Receive { socket: there });
    assert!(matches!(end, Outcome::Stream(StreamOutcome::EndOfStream)), "{end:?}");
    bench.finish();
}

pub fn a_reset_on_the_way_is_seen_where_it_arrives<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (pipe, receive) = at_rest(&mut bench);
    let on_its_way = detached(&mut bench, pipe.server, receive);
    assert!(matches!(bench.run(Side::Client, Op::Close { socket: pipe.client, reset: true }), Outcome::Closed));
    bench.forget(Side::Client, pipe.client);
    bench.settle();
    let there = adopted(&mut bench, Side::Client, on_its_way);
    match bench.run(Side::Client, StreamOp::Receive { socket: there }) {
        Outcome::Failed(fault) => assert_eq!(fault.reason, Reason::Reset),
        other => panic!("{other:?}"),
    }
    bench.finish();
}

pub fn a_connection_that_is_not_at_rest_stays<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let pipe = bench.pipe();
    assert_eq!(refused(&mut bench, Side::Server, pipe.server), Reason::UnderWay, "it does not receive");
    let lease = bench.rig.arena(Side::Server).lease(64).unwrap();
    let fill = bench.push(Side::Server, StreamOp::ReceiveInto { socket: pipe.server, lease, until: 8 });
    bench.settle();
    assert_eq!(refused(&mut bench, Side::Server, pipe.server), Reason::UnderWay, "what it receives into would be left");
    bench.send_bytes(Side::Client, pipe.client, b"12345678");
    assert!(matches!(bench.end(Side::Server, fill), Outcome::Stream(StreamOutcome::Filled { fault: None, .. })));
    let receive = bench.push(Side::Server, StreamOp::Receive { socket: pipe.server });
    let mut chain = Chain::new();
    chain.push(Segment::Static(lasting(16 << 20)));
    let mut sends = vec![bench.push(Side::Server, StreamOp::Send { socket: pipe.server, chain })];
    // Until the peer's buffers are full.
    while let Some(&send) = sends.last() {
        bench.settle();
        if !bench.has_ended(Side::Server, send) {
            break;
        }
        let Outcome::Stream(StreamOutcome::Sent { rest, .. }) = bench.end(Side::Server, send) else { panic!("no send") };
        sends.push(bench.push(Side::Server, StreamOp::Send { socket: pipe.server, chain: rest }));
    }
    assert_eq!(refused(&mut bench, Side::Server, pipe.server), Reason::UnderWay, "it sends");
    assert!(!bench.has_ended(Side::Server, receive), "who stays goes on receiving");
    bench.send_bytes(Side::Client, pipe.client, b"!");
    assert!(matches!(bench.end(Side::Server, receive), Outcome::Stream(StreamOutcome::Received(_))));
    bench.close(Side::Server, pipe.server);
    bench.forget(Side::Server, pipe.server);
    assert_eq!(refused(&mut bench, Side::Server, pipe.server), Reason::Cancelled, "a closed one is no more");
    bench.finish();
}

pub fn a_connection_that_is_dropped_on_its_way_is_closed<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (pipe, receive) = at_rest(&mut bench);
    let on_its_way = detached(&mut bench, pipe.server, receive);
    let end = bench.push(Side::Client, StreamOp::Receive { socket: pipe.client });
    bench.settle();
    assert!(!bench.has_ended(Side::Client, end), "it is open as long as somebody has it");
    drop(on_its_way);
    assert!(matches!(bench.end(Side::Client, end), Outcome::Stream(StreamOutcome::EndOfStream)));
    bench.finish();
}

/// A bound of what is on the way: whoever finds it reached stays, and may go when another has arrived.
pub fn so_many_connections_are_on_their_way_at_once<R: Rig>() {
    const MOST: usize = 8;
    let mut bench = Bench::<R>::new();
    let (listener, address) = bench.listen(Side::Server, bench.rig.address(Side::Server));
    let accept = bench.push(Side::Server, StreamOp::Accept { listener });
    let mut resting: Vec<_> = (0..=MOST)
        .map(|_| {
            let (server, _) = bench.join(accept, address.clone());
            (server, bench.push(Side::Server, StreamOp::Receive { socket: server }))
        })
        .collect();
    bench.settle();
    let (last, receive) = resting.pop().unwrap();
    let mut on_their_way: Vec<_> = resting.into_iter().map(|(socket, receive)| detached(&mut bench, socket, receive)).collect();
    assert_eq!(refused(&mut bench, Side::Server, last), Reason::Busy);
    adopted(&mut bench, Side::Client, on_their_way.pop().unwrap());
    on_their_way.push(detached(&mut bench, last, receive));
    on_their_way.into_iter().for_each(|detached| {
        adopted(&mut bench, Side::Client, detached);
    });
    bench.finish();
}
