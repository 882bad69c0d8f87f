//! What the peers share: their arguments and the sockets they serve on.
//!
//! Every peer is one thread, but tokio where it has several CPUs; each takes `tcp|udp ADDRESS BYTES` (`peer-push` other words, which it says itself), prints the line `ready` once it listens, and runs until a signal
//! ends it. They are meant to be fair: `TCP_NODELAY`, the same socket settings for all, and a buffer of as many bytes as they are
//! told: one for each connection of a runtime, one hot buffer for a plain loop, one for each datagram of a batch.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};

use socket2::{Domain, Socket, Type};

/// Bytes asked for each of a datagram socket's two queues, as the server under test asks: the default of 208 KiB drops part of
/// 256 datagrams in flight, and a comparison of what was dropped is not wanted.
const UDP_QUEUE_BYTES: usize = 4 * 1024 * 1024;

/// The most that a buffer may be told to have.
const BUFFER_BYTES_MAX: usize = 1024 * 1024;

/// What a peer is asked to echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Streams.
    Tcp,
    /// Datagrams.
    Udp,
}

/// What a peer is told.
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    /// What it is to echo.
    pub protocol: Protocol,
    /// Where it listens.
    pub address: SocketAddr,
    /// Bytes of a buffer.
    pub buffer_bytes: usize,
}

/// Reads `tcp|udp ADDRESS BYTES` from the command line.
///
/// # Errors
/// `InvalidInput` with the usage when the arguments are anything else.
pub fn arguments() -> io::Result<Arguments> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [protocol, address, bytes] = words.as_slice() else {
        return Err(usage());
    };
    let protocol = match protocol.as_str() {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        _ => return Err(usage()),
    };
    let buffer_bytes = bytes.parse().ok().filter(|bytes| (1..=BUFFER_BYTES_MAX).contains(bytes));
    Ok(Arguments { protocol, address: address.parse().map_err(|_| usage())?, buffer_bytes: buffer_bytes.ok_or_else(usage)? })
}

/// As [`arguments`], for a peer that speaks `protocol` alone.
///
/// # Errors
/// As [`arguments`], and `Unsupported` when it is asked for the other one.
pub fn arguments_for(protocol: Protocol) -> io::Result<Arguments> {
    let arguments = arguments()?;
    if arguments.protocol != protocol {
        return Err(io::Error::new(io::ErrorKind::Unsupported, format!("this peer speaks {protocol:?} alone")));
    }
    Ok(arguments)
}

fn usage() -> io::Error {
    let text = format!("usage: tcp|udp IP:PORT BYTES, of a buffer, up to {BUFFER_BYTES_MAX}");
    io::Error::new(io::ErrorKind::InvalidInput, text)
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
    socket.set_send_buffer_size(UDP_QUEUE_BYTES)?;
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

/// Defines `echo`, which echoes on a connection of this type with a buffer of so many bytes until its peer ends. The traits that read and
/// write, of the same names in each runtime, are those where it stands.
#[macro_export]
macro_rules! echo {
    ($stream:ty) => {
        async fn echo(mut stream: $stream, buffer_bytes: usize) -> std::io::Result<()> {
            let mut buffer = vec![0; buffer_bytes];
            loop {
                let received = stream.read(&mut buffer).await?;
                if received == 0 {
                    return Ok(());
                }
                stream.write_all(&buffer[..received]).await?;
            }
        }
    };
}
