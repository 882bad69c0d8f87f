//! The plain loop that sends: level-triggered epoll, one hot buffer for all connections, sent to each over and over. With `sendfile` the buffer is a memory file, and
//! sendfile(2) sends it.
//!
//! It takes `write|sendfile ADDRESS BYTES`, and is one thread.

use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use corelane_peers::{listener, ready};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::sendfile::sendfile;

const EVENTS_PER_WAIT: usize = 256;

/// Sends of a connection in one event, so that none waits for another that always has room.
const SENDS_PER_EVENT: usize = 16;

/// The most bytes that are sent at once.
const BYTES_MAX: usize = 4 << 20;

/// Where the bytes come from.
enum Source {
    Buffer(Vec<u8>),
    File(OwnedFd, usize),
}

struct Connection {
    stream: TcpStream,
    /// How much of the buffer the socket has taken.
    sent: usize,
}

fn main() -> io::Result<()> {
    let (source, address) = arguments()?;
    let listener = listener(address)?;
    listener.set_nonblocking(true)?;
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, listener.as_raw_fd() as u64))?;
    let mut connections: Vec<Option<Connection>> = Vec::new();
    ready()?;
    let mut events = [EpollEvent::empty(); EVENTS_PER_WAIT];
    loop {
        let count = epoll.wait(&mut events, EpollTimeout::NONE)?;
        for event in &events[..count] {
            let number = event.data() as usize;
            if number == listener.as_raw_fd() as usize {
                accept(&listener, &epoll, &mut connections)?;
            } else if let Some(place) = connections.get_mut(number)
                && place.as_mut().is_some_and(|connection| connection.push(&source).is_err())
            {
                *place = None;
            }
        }
    }
}

fn arguments() -> io::Result<(Source, SocketAddr)> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let usage = || io::Error::new(ErrorKind::InvalidInput, format!("usage: write|sendfile IP:PORT BYTES, up to {BYTES_MAX}"));
    let [means, address, bytes] = words.as_slice() else { return Err(usage()) };
    let bytes: usize = bytes.parse().ok().filter(|bytes| (1..=BYTES_MAX).contains(bytes)).ok_or_else(usage)?;
    let source = match means.as_str() {
        "write" => Source::Buffer(vec![0x5a; bytes]),
        "sendfile" => {
            let mut file = std::fs::File::from(memfd_create("push", MFdFlags::MFD_CLOEXEC)?);
            file.write_all(&vec![0x5a; bytes])?;
            Source::File(file.into(), bytes)
        }
        _ => return Err(usage()),
    };
    Ok((source, address.parse().map_err(|_| usage())?))
}

fn accept(listener: &TcpListener, epoll: &Epoll, connections: &mut Vec<Option<Connection>>) -> io::Result<()> {
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let number = stream.as_raw_fd();
        epoll.add(&stream, EpollEvent::new(EpollFlags::EPOLLOUT, number as u64))?;
        let number = number as usize;
        if connections.len() <= number {
            connections.resize_with(number + 1, || None);
        }
        connections[number] = Some(Connection { stream, sent: 0 });
    }
}

impl Connection {
    /// Sends as long as the socket takes something, for a while.
    fn push(&mut self, source: &Source) -> io::Result<()> {
        for _ in 0..SENDS_PER_EVENT {
            match self.send(source) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => self.sent = (self.sent + sent) % source.len(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn send(&mut self, source: &Source) -> io::Result<usize> {
        match source {
            Source::Buffer(bytes) => self.stream.write(&bytes[self.sent..]),
            Source::File(file, bytes) => {
                let mut offset = self.sent as i64;
                Ok(sendfile(self.stream.as_fd(), file.as_fd(), Some(&mut offset), bytes - self.sent)?)
            }
        }
    }
}

impl Source {
    fn len(&self) -> usize {
        match self {
            Self::Buffer(bytes) => bytes.len(),
            Self::File(_, bytes) => *bytes,
        }
    }
}
