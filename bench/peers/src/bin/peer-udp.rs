//! The plain datagram loop: one recvfrom(2) and one sendto(2) a datagram.

use std::io::{self, ErrorKind};

use corelane_peers::{Protocol, arguments_for, datagram_socket, ready};

fn main() -> io::Result<()> {
    let arguments = arguments_for(Protocol::Udp)?;
    let socket = datagram_socket(arguments.address)?;
    ready()?;
    let mut buffer = vec![0; arguments.buffer_bytes];
    loop {
        let (length, peer) = match socket.recv_from(&mut buffer) {
            Ok(datagram) => datagram,
            // A peer that is gone answers an earlier echo with ICMP; that is no reason to stop.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => continue,
            Err(error) => return Err(error),
        };
        // A datagram may be lost, here as anywhere on its way.
        let _ = socket.send_to(&buffer[..length], peer);
    }
}
