//! Sockets in states that the standard library does not make.
//!
//! Holds a marked cell: options and addresses as C gives them.
#![allow(unsafe_code)]

use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::rig::listener;

/// A descriptor for calls of nix.
pub fn borrowed(descriptor: &impl AsRawFd) -> BorrowedFd<'_> {
    // SAFETY: open as long as what it is borrowed from.
    unsafe { BorrowedFd::borrow_raw(descriptor.as_raw_fd()) }
}

/// A TCP socket that is neither connected nor listening; it does not block.
pub fn new_socket() -> OwnedFd {
    // SAFETY: the number is new, and nobody else's.
    unsafe {
        let number = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0);
        assert!(number >= 0);
        OwnedFd::from_raw_fd(number)
    }
}

/// `port` of loopback.
pub fn address(port: u16) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(Ipv4Addr::LOCALHOST).to_be() },
        sin_zero: [0; 8],
    }
}

/// Begins to connect to `port` of loopback.
pub fn connect(socket: &OwnedFd, port: u16) {
    let address = address(port);
    // SAFETY: an address of this family and length.
    let begun = unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), 16) };
    assert!(begun == 0 || nix::errno::Errno::last() != nix::errno::Errno::EBADF);
}

/// A socket that connects to a port where nobody listens.
pub fn connecting_to_nobody() -> OwnedFd {
    let port = listener().local_addr().unwrap().port();
    let socket = new_socket();
    connect(&socket, port);
    socket
}

/// Sends a byte of urgent data (tcp(7)).
pub fn send_urgent(socket: &impl AsRawFd, byte: u8) {
    // SAFETY: there is one byte.
    assert_eq!(unsafe { libc::send(socket.as_raw_fd(), (&raw const byte).cast(), 1, libc::MSG_OOB) }, 1);
}

/// Receives the byte of urgent data, if there is one.
pub fn receive_urgent(socket: &impl AsRawFd) -> Option<u8> {
    let mut byte = 0_u8;
    // SAFETY: there is room for one byte.
    let came = unsafe { libc::recv(socket.as_raw_fd(), (&raw mut byte).cast(), 1, libc::MSG_OOB) };
    (came == 1).then_some(byte)
}

/// Sets an option of SOL_SOCKET.
pub fn set_option(socket: &impl AsRawFd, option: i32, value: &[u8]) {
    let length = libc::socklen_t::try_from(value.len()).unwrap();
    // SAFETY: the value has this length.
    let set = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, value.as_ptr().cast(), length) };
    assert_eq!(set, 0);
}

/// Ends a connection by a reset.
pub fn reset(stream: TcpStream) {
    let linger = [1_i32.to_ne_bytes(), 0_i32.to_ne_bytes()].concat();
    set_option(&stream, libc::SO_LINGER, &linger);
    drop(stream);
}

/// A descriptor of process `id`: pidfd_open(2).
pub fn process_descriptor(id: i32) -> OwnedFd {
    // SAFETY: the number is new, and nobody else's.
    unsafe {
        let number = libc::syscall(libc::SYS_pidfd_open, id, 0);
        assert!(number >= 0);
        OwnedFd::from_raw_fd(i32::try_from(number).unwrap())
    }
}
