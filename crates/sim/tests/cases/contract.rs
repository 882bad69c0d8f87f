//! What a lane must not ask of its driver: the simulated one panics at it as the real ones do.

use crate::bench::{Bench, at};
use corelane_seam::{
    Address, Bind, Chain, DatagramOp, Datagrams, Driver, File, FileOp, FrameOp, Handle, Interest, Op, PortId, Segment, Socket,
    StreamOp, StreamOptions, Trains, WARM_BYTES_MAX,
};
use corelane_sim::{Faults, Violation};
use std::panic::{AssertUnwindSafe, catch_unwind};

struct Sockets {
    listener: Socket,
    stream: Socket,
    datagrams: Socket,
}

fn with_sockets() -> (Bench, Sockets) {
    let mut bench = Bench::new(Faults::none());
    let (stream, _peer) = bench.pipe();
    let listener = bench.listen(0, "10.0.0.1:70", 4);
    let bind = Bind {
        address: at("10.0.0.1:71").into(),
        peer: None,
        share_port: false,
        v6_only: false,
        receive_buffer_bytes: 0,
        send_buffer_bytes: 0,
    };
    let datagrams = bench.lanes[0].bind(&bind).unwrap();
    (bench, Sockets { listener, stream, datagrams })
}

/// What the driver panics with.
fn breach(act: impl FnOnce(&mut Bench, Sockets)) -> String {
    let (mut bench, sockets) = with_sockets();
    let panic = catch_unwind(AssertUnwindSafe(|| act(&mut bench, sockets))).expect_err("the contract is broken");
    let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap()
}

fn breach_of(op: impl FnOnce(&Bench, Sockets) -> Op) -> String {
    breach(|bench, sockets| {
        let op = op(bench, sockets);
        bench.push(0, op);
        bench.settle();
    })
}

fn chain() -> Chain {
    let mut chain = Chain::new();
    chain.push(&b"a"[..]);
    chain
}

fn trains() -> Trains {
    let mut trains = Trains::new();
    assert!(trains.add(&at("10.0.0.2:7").into(), None, 0, Segment::Static(b"a"), 1));
    trains
}

#[test]
fn nothing_is_asked_for_that_is_nothing() {
    let empty = breach_of(|_, at| StreamOp::Send { socket: at.stream, chain: Chain::new() }.into());
    assert_eq!(empty, "nothing to send");
    let empty = breach_of(|_, at| DatagramOp::Send { socket: at.datagrams, trains: Trains::new() }.into());
    assert_eq!(empty, "nothing to send");
    let port = PortId { index: 0, generation: 0 };
    assert_eq!(breach_of(|_, _| FrameOp::Send { port, frames: Vec::new() }.into()), "nothing to send");
    let none = breach_of(|_, _| FrameOp::Receive { port, at_most: 0, into: Vec::new() }.into());
    assert_eq!(none, "a receive has room for a frame");
    let neither = breach_of(|_, _| Op::Poll { descriptor: 3, interest: Interest::default() });
    assert_eq!(neither, "a poll waits for something");
}

#[test]
fn a_receive_has_room_within_its_lease() {
    for until in [0, 3, 257] {
        let full = breach_of(|bench, at| {
            let mut lease = bench.arena.lease(256).unwrap();
            lease.append(b"abc");
            StreamOp::ReceiveInto { socket: at.stream, lease, until }.into()
        });
        assert_eq!(full, "a receive needs room, within the lease", "{until}");
        let full = breach_of(|bench, _| {
            let mut lease = bench.arena.lease(256).unwrap();
            lease.append(b"abc");
            FileOp::Read { file: File::new(0, 0), offset: 0, lease, until }.into()
        });
        assert_eq!(full, "a read needs room, within the lease", "{until}");
    }
    let file = File::new(0, 0);
    let long = breach_of(|_, _| FileOp::Warm { file, offset: 0, length: WARM_BYTES_MAX + 1 }.into());
    assert_eq!(long, "a helper works for one asker that long and no longer");
}

#[test]
fn an_operation_fits_the_kind_of_its_socket() {
    let into = Datagrams::new;
    let breaches = [
        breach_of(|_, at| StreamOp::Accept { listener: at.stream }.into()),
        breach_of(|_, at| StreamOp::Accept { listener: at.datagrams }.into()),
        breach_of(|_, at| StreamOp::Receive { socket: at.listener }.into()),
        breach_of(|_, at| StreamOp::Receive { socket: at.datagrams }.into()),
        breach_of(|_, at| StreamOp::Send { socket: at.datagrams, chain: chain() }.into()),
        breach_of(|_, at| StreamOp::Send { socket: at.listener, chain: chain() }.into()),
        breach_of(|_, at| DatagramOp::Receive { socket: at.stream, into: into() }.into()),
        breach_of(|_, at| DatagramOp::Receive { socket: at.listener, into: into() }.into()),
        breach_of(|_, at| DatagramOp::Send { socket: at.stream, trains: trains() }.into()),
    ];
    for breach in breaches {
        assert!(breach.ends_with("is asked of a socket of another kind"), "{breach}");
    }
}

#[test]
fn what_is_ended_is_of_its_kind() {
    assert_eq!(breach_of(|_, at| StreamOp::StopAccept { listener: at.stream }.into()), "only a listener accepts");
    let stopped = breach(|bench, at| {
        bench.push(0, StreamOp::Accept { listener: at.listener });
        bench.push(0, Op::StopReceive { socket: at.listener });
        bench.settle();
    });
    assert_eq!(stopped, "accepting is stopped by its own operation");
    assert_eq!(breach(|bench, at| bench.lanes[0].refuse_new(at.stream)), "only a listener can refuse");
    assert_eq!(breach(|bench, at| bench.lanes[0].finish(at.listener)), "only a connection has a stream to end");
    assert_eq!(breach(|bench, at| bench.lanes[0].leave_behind(at.stream)), "what others go on with is no connection");
}

#[test]
fn a_handle_names_one_operation_that_it_could_cancel() {
    let (mut bench, _) = with_sockets();
    let (handle, to): (_, Address) = (Handle::new(3, 1, 1), at("10.0.0.2:7").into());
    let connect = || StreamOp::Connect { to: to.clone(), from: None, options: StreamOptions::new() };
    bench.lanes[0].push(handle, connect().into());
    bench.end(handle);
    bench.lanes[0].push(handle, connect().into());
    bench.settle();
    bench.take(handle);
    let named_twice = |bench: &Bench| matches!(bench.world.check(), Err(Violation::SecondName { .. }));
    assert!(!named_twice(&bench), "one after the other");
    bench.lanes[0].push(handle, connect().into());
    bench.lanes[0].push(handle, connect().into());
    assert!(named_twice(&bench), "{:?}", bench.world.check());
}
