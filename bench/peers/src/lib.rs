//! What the peers share: their arguments and the sockets they serve on.
//!
//! Every peer is one thread, takes `tcp|udp ADDRESS`, prints the line `ready` once it listens, and runs until a signal
//! ends it. They are meant to be fair: `TCP_NODELAY`, a buffer of [`BUFFER_BYTES`] per connection for the runtimes, one
//! hot buffer of [`HOT_BUFFER_BYTES`] for the plain loops, and the same socket settings for all.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};

use socket2::{Domain, Socket, Type};

/// Bytes of the buffer that a runtime's connection owns.
pub const BUFFER_BYTES: usize = 16 * 1024;

/// Bytes of the one buffer of a plain loop, and the most that one UDP train can hold.
pub const HOT_BUFFER_BYTES: usize = 64 * 1024;

/// Bytes asked for a datagram socket's receive queue: the default of 208 KiB drops part of 256 datagrams in flight, and
/// a comparison of what was dropped is not wanted.
const UDP_QUEUE_BYTES: usize = 4 * 1024 * 1024;

/// What a peer is asked to echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Streams.
    Tcp,
    /// Datagrams.
    Udp,
}

/// Reads `tcp|udp ADDRESS` from the command line.
///
/// # Errors
/// `InvalidInput` with the usage when the arguments are anything else.
pub fn arguments() -> io::Result<(Protocol, SocketAddr)> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [protocol, address] = words.as_slice() else {
        return Err(usage());
    };
    let protocol = match protocol.as_str() {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        _ => return Err(usage()),
    };
    Ok((protocol, address.parse().map_err(|_| usage())?))
}

fn usage() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "usage: tcp|udp IP:PORT")
}

/// The answer of a peer that was asked for the protocol it does not speak.
#[must_use]
pub fn not_spoken(protocol: Protocol) -> io::Error {
    let text = format!("this peer does not speak {protocol:?}");
    io::Error::new(io::ErrorKind::Unsupported, text)
}

/// A listening, blocking stream socket.
///
/// # Errors
/// What socket(2), bind(2) and listen(2) answer.
pub fn listener(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    Ok(socket.into())
}

/// A bound, blocking datagram socket.
///
/// # Errors
/// What socket(2), setsockopt(2) and bind(2) answer.
pub fn datagram_socket(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
    socket.set_recv_buffer_size(UDP_QUEUE_BYTES)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// Says that the peer listens.
///
/// # Errors
/// What writing to standard output answers.
pub fn ready() -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "ready")?;
    out.flush()
}
