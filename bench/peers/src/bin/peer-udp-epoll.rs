//! The plain datagram loop that waits with epoll(7), as a server of several sockets must: one recvfrom(2) and one sendto(2) a
//! datagram, and a wait when there is none.

use std::io::{self, ErrorKind};
use std::net::UdpSocket;

use corelane_peers::{Protocol, arguments_for, datagram_socket, ready};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

fn main() -> io::Result<()> {
    let arguments = arguments_for(Protocol::Udp)?;
    let socket = datagram_socket(arguments.address)?;
    socket.set_nonblocking(true)?;
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    // An edge: the loop below receives until there is nothing.
    epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, 0))?;
    ready()?;
    let mut buffer = vec![0; arguments.buffer_bytes];
    let mut events = [EpollEvent::empty(); 1];
    loop {
        epoll.wait(&mut events, EpollTimeout::NONE)?;
        serve(&socket, &mut buffer)?;
    }
}

/// Echoes what has arrived.
fn serve(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<()> {
    loop {
        let (length, peer) = match socket.recv_from(buffer) {
            Ok(datagram) => datagram,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            // A peer that is gone answers an earlier echo with ICMP; that is no reason to stop.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => continue,
            Err(error) => return Err(error),
        };
        // A datagram may be lost, here as anywhere on its way.
        let _ = socket.send_to(&buffer[..length], peer);
    }
}
