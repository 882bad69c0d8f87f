//! What the tests of several files and crates need: sockets that are connected to each other.
#![allow(clippy::unwrap_used)] // all of this is tests

pub mod network;

use crate::{options, sockets};
use corelane_seam::{Address, Listen, StreamOptions};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Waits for `events` with poll(2).
pub fn wait_for(socket: BorrowedFd, events: i16) {
    const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
    let events = PollFlags::from_bits_retain(events.cast_unsigned());
    assert_eq!(poll(&mut [PollFd::from_borrowed_fd(socket, events)], Some(&PATIENCE)), Ok(1));
}

/// Waits until the descriptor with this number is readable.
pub fn wait_until_readable(number: i32) {
    // SAFETY: the caller has it open for as long as this takes.
    wait_for(unsafe { BorrowedFd::borrow_raw(number) }, libc::POLLIN);
}

/// A listener that shares its port, and its address.
pub fn listening(address: &str, stream: StreamOptions) -> (OwnedFd, Address) {
    let address = address.parse().unwrap();
    let socket = sockets::listen(&Listen { address, backlog: 8, share_port: true, v6_only: false, stream }).unwrap();
    let local = sockets::local_address(socket.as_fd()).unwrap();
    (socket, local)
}

/// A connected socket, whether accepted or not.
pub fn connected(to: impl Into<Address>) -> OwnedFd {
    let to = &to.into();
    let socket = sockets::connecting(to, None, &StreamOptions::default()).unwrap();
    if !sockets::connect(socket.as_fd(), to).unwrap() {
        wait_for(socket.as_fd(), libc::POLLOUT);
    }
    sockets::pending_error(socket.as_fd()).unwrap();
    socket
}

/// Both ends of a connection.
pub fn pair() -> (OwnedFd, OwnedFd) {
    let (listener, address) = listening("127.0.0.1:0", StreamOptions::default());
    let client = connected(address);
    wait_for(listener.as_fd(), libc::POLLIN);
    let (server, _) = sockets::accept(listener.as_fd()).unwrap().unwrap();
    (server, client)
}

/// Sets an option that the crate itself never does.
pub fn set(socket: &OwnedFd, level: i32, option: i32, value: i32) {
    options::set_bytes(socket.as_fd(), level, option, &value.to_ne_bytes()).unwrap();
}

/// A copy of the descriptor with this number.
pub fn duplicate(number: i32) -> OwnedFd {
    // SAFETY: the caller has it open for as long as this takes.
    duplicate_from(unsafe { BorrowedFd::borrow_raw(number) }, 3)
}

/// A copy of a descriptor, under the first free number from `least` on.
pub fn duplicate_from(descriptor: BorrowedFd, least: i32) -> OwnedFd {
    rustix::io::fcntl_dupfd_cloexec(descriptor, least).unwrap()
}

/// Gives the file behind `new` the number of `old` (dup2(2)).
pub fn replace(old: OwnedFd, new: BorrowedFd) -> OwnedFd {
    let mut old = old;
    rustix::io::dup2(new, &mut old).unwrap();
    old
}

/// A set of descriptors that takes none.
#[cfg(feature = "events")]
pub fn set_that_refuses() -> crate::events::polling::Set {
    crate::events::polling::Set::refusing().unwrap()
}

/// Makes a call with no right argument but the first, as whoever has taken over a thread might; the error is the number that it fails with. Only for calls that
/// are refused before they look at any argument, or that have no pointers.
pub fn call(number: i64, first: i64) -> Result<usize, i32> {
    // SAFETY: the caller sees to it that the kernel looks at no pointer, and these name nothing.
    crate::errno::checked(unsafe { libc::syscall(number, first, 0, 0, 0, 0) } as isize)
}

/// Runs `body` in a child of fork(2), which is killed where it hangs; whether it returned true there. Until its end the child has copies
/// of all descriptors, so this waits for [`network::alone`], which the caller may not hold.
pub fn in_child(body: impl FnOnce() -> bool) -> bool {
    const SECONDS: u32 = 10;
    let _alone = network::alone();
    // SAFETY: the child is this thread alone. The C library makes its memory usable there; what else it touches is what is tested.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        // SAFETY: takes no pointers, and ends this process without its parent's destructors.
        unsafe {
            libc::alarm(SECONDS);
            libc::_exit(i32::from(!body()))
        }
    }
    let mut status = 0;
    // SAFETY: the status is a place of ours.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status == 0
}

/// A name of the calling thread, for [`wait_until_asleep`].
pub fn this_thread() -> String {
    let link = std::fs::read_link("/proc/thread-self").expect("a thread has a folder in /proc");
    link.to_str().expect("a path of numbers").to_owned()
}

/// Waits until a thread sleeps in the kernel's wait for the events of a set (epoll_pwait(2) and its like).
pub fn wait_until_asleep(thread: &str) {
    const WAITS: [libc::c_long; 2] = [libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2];
    loop {
        let call = std::fs::read_to_string(format!("/proc/{thread}/syscall")).expect("the thread is alive");
        let number = call.split(' ').next().and_then(|number| number.parse().ok());
        if number.is_some_and(|number| WAITS.contains(&number)) {
            return;
        }
        std::thread::yield_now();
    }
}

/// Sends a signal to the calling thread alone.
pub fn raise(signal: i32) {
    // SAFETY: takes no pointers; the caller has blocked the signal, or means it.
    assert_eq!(unsafe { libc::raise(signal) }, 0);
}

/// Whether the kernel tells this process of others' forks, programs and ends: it has the process connector, and this is the superuser outside of namespaces. Then
/// nothing that needs it may be skipped.
pub fn tells_of_processes() -> bool {
    // The first namespaces of a machine have these numbers (include/uapi/linux/nsfs.h).
    let first = [("user", "user:[4026531837]"), ("pid", "pid:[4026531836]")];
    let is_outside = |(kind, name): (&str, &str)| {
        std::fs::read_link(format!("/proc/self/ns/{kind}")).is_ok_and(|link| link.as_os_str() == name)
    };
    let has_connector = std::fs::read_to_string("/proc/net/connector").is_ok_and(|list| list.contains("cn_proc"));
    has_connector && rustix::process::geteuid().is_root() && first.into_iter().all(is_outside)
}

pub use corelane_testkit::skip;
