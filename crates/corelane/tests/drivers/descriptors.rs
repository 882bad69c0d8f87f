//! What only a real system has: descriptors that the driver does not own, and peers that are no drivers.

use crate::bench::{Bench, assert_cancelled};
use crate::rig::{Rig, Side};
use corelane_seam::{Interest, Op, Outcome, StreamOp, StreamOutcome};
use nix::sys::socket::{MsgFlags, send};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

const READ: Interest = Interest { read: true, write: false };
const WRITE: Interest = Interest { read: false, write: true };

fn poll(of: &impl AsRawFd, interest: Interest) -> Op {
    Op::Poll { descriptor: of.as_raw_fd(), interest }
}

pub fn a_sockets_descriptor_can_be_told<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let address = bench.rig.address(Side::Server);
    let (listener, local) = bench.listen(Side::Server, address);
    let descriptor = bench.driver(Side::Server).descriptor(listener).unwrap().try_clone_to_owned().unwrap();
    assert_eq!(TcpListener::from(descriptor).local_addr().unwrap(), local);
    bench.close(Side::Server, listener);
    assert!(bench.driver(Side::Server).descriptor(listener).is_none());
    bench.finish();
}

pub fn a_descriptor_becomes_readable_and_writable<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (mut near, mut far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    assert!(matches!(bench.run(Side::Server, poll(&near, WRITE)), Outcome::Ready { interest: WRITE }));
    while near.write(&[0; 4096]).is_ok() {}
    let write = bench.push(Side::Server, poll(&near, WRITE));
    let read = bench.push(Side::Server, poll(&near, READ));
    bench.settle();
    assert!(!bench.has_ended(Side::Server, write) && !bench.has_ended(Side::Server, read));
    far.write_all(b"!").unwrap();
    assert!(matches!(bench.end(Side::Server, read), Outcome::Ready { interest: READ }));
    assert!(!bench.has_ended(Side::Server, write));
    far.set_nonblocking(true).unwrap();
    while far.read(&mut [0; 65_536]).is_ok() {}
    assert!(matches!(bench.end(Side::Server, write), Outcome::Ready { interest: WRITE }));
    bench.finish();
}

pub fn the_end_of_a_descriptor_is_readable<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (mut near, far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    while near.write(&[0; 4096]).is_ok() {}
    let read = bench.push(Side::Server, poll(&near, READ));
    let write = bench.push(Side::Server, poll(&near, WRITE));
    bench.settle();
    drop(far);
    assert!(matches!(bench.end(Side::Server, read), Outcome::Ready { interest: READ }));
    assert!(matches!(bench.end(Side::Server, write), Outcome::Ready { interest: WRITE }), "broken, and not readable");
    bench.finish();
}

pub fn the_polls_of_a_work_that_left_end<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (near, mut far) = UnixStream::pair().unwrap();
    let [left, stays] = [2, 3].map(|work| {
        bench.work = work;
        bench.push(Side::Server, poll(&near, READ))
    });
    bench.driver(Side::Server).abandon(2);
    assert_cancelled(&bench.end(Side::Server, left));
    far.write_all(b"!").unwrap();
    assert!(matches!(bench.end(Side::Server, stays), Outcome::Ready { interest: READ }));
    bench.finish();
}

pub fn a_poll_can_be_cancelled<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (near, mut far) = UnixStream::pair().unwrap();
    for settled in [true, false] {
        let read = bench.push(Side::Server, poll(&near, READ));
        if settled {
            bench.settle();
        }
        bench.push(Side::Server, Op::Cancel { target: read });
        assert_cancelled(&bench.end(Side::Server, read));
        bench.push(Side::Server, Op::Cancel { target: read });
    }
    far.write_all(b"!").unwrap();
    bench.settle();
    assert!(matches!(bench.run(Side::Server, poll(&near, READ)), Outcome::Ready { interest: READ }));
    bench.finish();
}

pub fn a_number_that_is_not_open_is_a_fault<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let outcome = bench.run(Side::Server, Op::Poll { descriptor: 1 << 20, interest: READ });
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    bench.finish();
}

/// A receive ends at urgent data (tcp(7)), though more bytes lie behind, of which the system says nothing more.
pub fn urgent_data_hides_nothing<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (listener, address) = bench.listen(Side::Server, bench.rig.address(Side::Server));
    let accept = bench.push(Side::Server, StreamOp::Accept { listener });
    let mut client = TcpStream::connect(address).unwrap();
    client.set_nodelay(true).unwrap();
    let Outcome::Stream(StreamOutcome::Accepted { socket, .. }) = bench.next(Side::Server, accept) else {
        panic!("not accepted")
    };
    client.write_all(b"before").unwrap();
    assert_eq!(send(client.as_raw_fd(), b"!", MsgFlags::MSG_OOB), Ok(1));
    client.write_all(b"behind").unwrap();
    assert_eq!(bench.receive_all(Side::Server, socket, 12), b"beforebehind");
    // Nor from who receives into pipes: the kernel brings nothing there until the urgent byte was passed.
    client.write_all(b"before").unwrap();
    assert_eq!(send(client.as_raw_fd(), b"!", MsgFlags::MSG_OOB), Ok(1));
    client.write_all(b"behind").unwrap();
    let mut bytes = 0;
    while bytes < 12 {
        bytes += match bench.run(Side::Server, StreamOp::ReceivePiped { socket, most: 100 }) {
            Outcome::Stream(StreamOutcome::ReceivedPiped(piped)) => piped.len(),
            Outcome::Stream(StreamOutcome::Received(bytes)) => bytes.len(),
            other => panic!("{other:?}"),
        };
    }
    bench.finish();
}
