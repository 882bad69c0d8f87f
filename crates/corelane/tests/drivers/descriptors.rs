//! Waiting for descriptors that the driver does not own.

use crate::bench::{Bench, assert_cancelled};
use crate::rig::{Rig, Side};
use corelane_seam::{Interest, Op, Outcome};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

const READ: Interest = Interest { read: true, write: false };
const WRITE: Interest = Interest { read: false, write: true };

fn poll(of: &impl AsRawFd, interest: Interest) -> Op {
    Op::Poll { descriptor: of.as_raw_fd(), interest }
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
    let (near, far) = UnixStream::pair().unwrap();
    let read = bench.push(Side::Server, poll(&near, READ));
    bench.settle();
    drop(far);
    assert!(matches!(bench.end(Side::Server, read), Outcome::Ready { interest: READ }));
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
