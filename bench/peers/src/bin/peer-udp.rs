//! The plain datagram loop: one recvfrom(2) and one sendto(2) a datagram.

use std::io::{self, ErrorKind};

use corelane_peers::{HOT_BUFFER_BYTES, Protocol, arguments, datagram_socket, not_spoken, ready};

fn main() -> io::Result<()> {
    let (protocol, address) = arguments()?;
    if protocol != Protocol::Udp {
        return Err(not_spoken(protocol));
    }
    let socket = datagram_socket(address)?;
    ready()?;
    let mut buffer = vec![0; HOT_BUFFER_BYTES];
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
