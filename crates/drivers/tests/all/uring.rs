//! The driver on io_uring where the system refuses it, or gives it little; and its end while much is under way.
#![allow(unsafe_code)] // all of this is tests; restricting a process takes raw calls

use crate::common::is_child;
use corelane_drivers::{EpollDriver, Error, Probes, UringDriver, probe_uring};
use corelane_os::testing::network;
use corelane_seam::{Arena, Completion, Driver, Handle, Listen, Op, StreamOp, StreamOptions, Tuning, Wait};
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};

fn arena() -> Arena {
    Arena::new(4 << 20).unwrap()
}

fn uring() -> Result<UringDriver, Error> {
    UringDriver::new(arena(), Tuning::default(), Probes::default())
}

/// Has a call fail with `number`, for this thread and for good (seccomp(2)).
fn deny(call: libc::c_long, number: i32) {
    let instruction = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut program = [
        // The number of the call stands first in `struct seccomp_data`.
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call as u32),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | number as u32),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: `filter` names the instructions of `program`, and both outlive the calls, which copy them.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, std::ptr::from_ref(&filter)), 0);
    }
}

/// Both ways to find out agree, the other driver runs, and the words name a remedy.
fn assert_refused(expected: Error, remedy: &str) {
    assert_eq!(uring().err().as_ref(), Some(&expected));
    assert_eq!(probe_uring().as_ref(), Err(&expected));
    assert!(expected.to_string().contains(remedy), "{expected}");
    EpollDriver::new(arena(), Tuning::default(), Probes::default()).unwrap();
}

#[test]
fn a_filter_that_forbids_the_ring_is_named() {
    if is_child("uring::a_filter_that_forbids_the_ring_is_named") {
        deny(libc::SYS_io_uring_setup, libc::EPERM);
        assert_refused(Error::UringForbidden { call: "io_uring_setup", switch: 0 }, "seccomp");
    }
}

#[test]
fn a_filter_that_hides_the_ring_is_named() {
    if is_child("uring::a_filter_that_hides_the_ring_is_named") {
        deny(libc::SYS_io_uring_setup, libc::ENOSYS);
        assert_refused(Error::UringAbsent, "seccomp");
    }
}

#[test]
fn a_filter_that_lets_a_ring_be_made_and_not_used_is_noticed() {
    if is_child("uring::a_filter_that_lets_a_ring_be_made_and_not_used_is_noticed") {
        deny(libc::SYS_io_uring_enter, libc::EPERM);
        assert_refused(Error::UringForbidden { call: "io_uring_enter", switch: 0 }, "io_uring_enter");
        deny(libc::SYS_io_uring_register, libc::EPERM);
        assert_refused(Error::UringForbidden { call: "io_uring_register", switch: 0 }, "io_uring_register");
    }
}

#[test]
fn the_administrators_switch_and_old_kernels_are_named() {
    let texts = [
        (Error::UringForbidden { call: "io_uring_setup", switch: 2 }, "kernel.io_uring_disabled = 2"),
        (Error::UringOld { call: "io_uring_setup" }, "kernel from 6.1"),
        (Error::UringMemory { call: "io_uring_setup" }, "ulimit -l"),
    ];
    for (error, remedy) in texts {
        assert!(error.to_string().contains(remedy), "{error}");
    }
}

/// Limits locked memory and gives up the right to pass the limit.
fn limit_locked_memory(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    const NOBODY: libc::uid_t = 65_534;
    // SAFETY: the limit is readable; the other calls take no memory.
    unsafe {
        assert_eq!(libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit), 0);
        assert!(libc::geteuid() != 0 || libc::setresuid(NOBODY, NOBODY, NOBODY) == 0);
    }
}

#[test]
fn sixteen_lanes_need_little_locked_memory() {
    if is_child("uring::sixteen_lanes_need_little_locked_memory") {
        limit_locked_memory(8 << 20);
        let drivers: Vec<_> = (0..16).map(|_| uring().unwrap()).collect();
        assert!(drivers.iter().all(|driver| driver.name() == "uring"));
    }
}

#[test]
fn with_hardly_any_locked_memory_it_starts_or_says_why_not() {
    if is_child("uring::with_hardly_any_locked_memory_it_starts_or_says_why_not") {
        limit_locked_memory(64 << 10);
        match uring() {
            Ok(mut driver) => driver.collect(Wait::No, 1, &mut Vec::new()),
            Err(error) => assert!(matches!(error, Error::UringMemory { .. }), "{error}"),
        }
    }
}

fn collect_until(driver: &mut UringDriver, count: usize) -> Vec<Completion> {
    let mut completions = Vec::new();
    while completions.len() < count {
        driver.collect(Wait::Forever, 64, &mut completions);
    }
    completions
}

fn handle(number: u32) -> Handle {
    Handle::new(1, number, 0)
}

/// Sockets are closed when the driver has ended, and not a moment later: the address can be taken at once, and the peer
/// sees the end.
#[test]
fn the_end_of_a_driver_closes_its_sockets() {
    // An address of its own: another test's connection could take the port that is free for a moment.
    let any: SocketAddr = "127.0.77.1:0".parse().unwrap();
    let _alone = network::alone();
    for _ in 0..20 {
        let mut driver = uring().unwrap();
        let stream = StreamOptions::default();
        let listener =
            driver.listen(&Listen { address: any.into(), backlog: 8, share_port: false, v6_only: false, stream }).unwrap();
        let address = driver.local_address(listener).unwrap().inet().unwrap();
        driver.push(handle(1), Op::Stream(StreamOp::Accept { listener }));
        let mut peer = TcpStream::connect(address).unwrap();
        collect_until(&mut driver, 1);
        drop(driver);
        TcpListener::bind(address).unwrap();
        assert_eq!(peer.read(&mut [0]).unwrap(), 0);
    }
}
