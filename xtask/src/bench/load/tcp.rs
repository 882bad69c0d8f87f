//! Streams: connections x depth requests, each position of each stream checked when it comes back.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::{Client, Load, Pattern, Tally};

/// Bytes of the one buffer that all connections receive into, and the most that one write sends.
const BUFFER_BYTES: usize = 64 * 1024;

/// How long nothing at all may arrive before the server counts as stuck.
const STUCK_AFTER: Duration = Duration::from_secs(3);

/// How long one wait lasts at most, so that deadlines are met without traffic.
const WAIT_MS: u8 = 50;

/// Connections whose patterns start this far apart, so that bytes of another connection are wrong bytes.
const STRIDE: u64 = 1_013;

/// The streams of one load.
pub struct Streams {
    epoll: Epoll,
    connections: Vec<Connection>,
    shared: Shared,
    bytes: usize,
    spin: bool,
    refill: bool,
    in_flight: u64,
    heard: Instant,
}

/// What all connections use.
struct Shared {
    pattern: Pattern,
    buffer: Vec<u8>,
    epoch: Instant,
}

struct Connection {
    stream: TcpStream,
    /// Where in the pattern the stream starts.
    base: u64,
    received: u64,
    sent: u64,
    /// Position up to which requests have been made; what lies between `sent` and it waits for the socket.
    wanted: u64,
    batches: VecDeque<Batch>,
    /// Whether epoll was asked to tell when the socket takes bytes again.
    waits_for_room: bool,
}

/// Requests that left together.
struct Batch {
    sent_ns: u64,
    count: u64,
}

impl Streams {
    /// Connects, and sends the first requests of every connection.
    pub fn open(load: Load, address: SocketAddr) -> Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let shared = Shared { pattern: Pattern::new(BUFFER_BYTES), buffer: vec![0; BUFFER_BYTES], epoch: Instant::now() };
        let mut connections = Vec::with_capacity(load.connections);
        for index in 0..load.connections {
            connections.push(Connection::open(index, load.depth, address)?);
            epoll.add(&connections[index].stream, event(index, EpollFlags::EPOLLIN))?;
        }
        let mut streams = Self {
            epoll,
            connections,
            shared,
            bytes: load.bytes,
            spin: load.spin,
            refill: true,
            in_flight: 0,
            heard: Instant::now(),
        };
        streams.send_first(load.depth)?;
        Ok(streams)
    }

    fn send_first(&mut self, depth: usize) -> Result<()> {
        let now_ns = self.shared.now_ns();
        for index in 0..self.connections.len() {
            self.request(index, depth as u64, now_ns)?;
        }
        Ok(())
    }

    /// Waits once and serves every connection that has something. Returns the time of the last look at the clock.
    fn turn(&mut self, events: &mut [EpollEvent], tally: &mut Tally) -> Result<()> {
        let wait = if self.spin { EpollTimeout::ZERO } else { WAIT_MS.into() };
        let count = self.epoll.wait(events, wait)?;
        for event in &events[..count] {
            self.serve(event.data() as usize, event.events(), tally)?;
        }
        let now = Instant::now();
        if count > 0 {
            self.heard = now;
        } else if now - self.heard > STUCK_AFTER {
            bail!("the server has not answered for {} s", STUCK_AFTER.as_secs());
        }
        Ok(())
    }

    fn serve(&mut self, index: usize, flags: EpollFlags, tally: &mut Tally) -> Result<()> {
        if flags.intersects(EpollFlags::EPOLLOUT) {
            self.flush(index)?;
        }
        if !flags.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR) {
            return Ok(());
        }
        let connection = &mut self.connections[index];
        let completed = connection.receive(&mut self.shared, self.bytes as u64)?;
        if completed == 0 {
            return Ok(());
        }
        let now_ns = self.shared.now_ns();
        connection.take_batches(completed, now_ns, tally);
        self.in_flight -= completed;
        if self.refill {
            self.request(index, completed, now_ns)?;
        }
        Ok(())
    }

    /// Makes `count` requests on a connection and sends what the socket takes of them.
    fn request(&mut self, index: usize, count: u64, now_ns: u64) -> Result<()> {
        let connection = &mut self.connections[index];
        connection.batches.push_back(Batch { sent_ns: now_ns, count });
        connection.wanted += count * self.bytes as u64;
        self.in_flight += count;
        self.flush(index)
    }

    fn flush(&mut self, index: usize) -> Result<()> {
        let connection = &mut self.connections[index];
        connection.send(&self.shared.pattern)?;
        let waits = connection.sent < connection.wanted;
        if waits != connection.waits_for_room {
            connection.waits_for_room = waits;
            let room = if waits { EpollFlags::EPOLLOUT } else { EpollFlags::empty() };
            let mut event = event(index, EpollFlags::EPOLLIN | room);
            self.epoll.modify(&connection.stream, &mut event)?;
        }
        Ok(())
    }

    fn events(&self) -> Vec<EpollEvent> {
        vec![EpollEvent::empty(); self.connections.len()]
    }
}

impl Client for Streams {
    fn run(&mut self, until: Instant, tally: &mut Tally) -> Result<()> {
        let mut events = self.events();
        while Instant::now() < until {
            self.turn(&mut events, tally)?;
        }
        Ok(())
    }

    fn drain(&mut self, tally: &mut Tally) -> Result<()> {
        self.refill = false;
        let mut events = self.events();
        while self.in_flight > 0 {
            self.turn(&mut events, tally)?;
        }
        Ok(())
    }
}

impl Shared {
    fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }
}

impl Connection {
    fn open(index: usize, depth: usize, address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            base: index as u64 * STRIDE,
            received: 0,
            sent: 0,
            wanted: 0,
            // There are never more batches than requests in flight, so it never grows.
            batches: VecDeque::with_capacity(depth),
            waits_for_room: false,
        })
    }

    /// Receives once and checks it. Returns how many requests it completed.
    fn receive(&mut self, shared: &mut Shared, bytes: u64) -> Result<u64> {
        let count = match self.stream.read(&mut shared.buffer) {
            Ok(0) => bail!("the server closed a connection that had requests in flight"),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            Err(error) => return Err(error).context("receiving"),
        };
        shared.pattern.check(self.base + self.received, &shared.buffer[..count])?;
        let before = self.received / bytes;
        self.received += count as u64;
        if self.received > self.sent {
            bail!("the server sent {} bytes more than it got", self.received - self.sent);
        }
        Ok(self.received / bytes - before)
    }

    fn take_batches(&mut self, mut completed: u64, now_ns: u64, tally: &mut Tally) {
        while completed > 0 {
            let Some(batch) = self.batches.front_mut() else {
                return;
            };
            let count = completed.min(batch.count);
            tally.answered(batch.sent_ns, now_ns, count);
            completed -= count;
            batch.count -= count;
            if batch.count == 0 {
                self.batches.pop_front();
            }
        }
    }

    fn send(&mut self, pattern: &Pattern) -> Result<()> {
        while self.sent < self.wanted {
            let length = (self.wanted - self.sent).min(BUFFER_BYTES as u64) as usize;
            match self.stream.write(pattern.at(self.base + self.sent, length)) {
                Ok(count) => self.sent += count as u64,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error).context("sending"),
            }
        }
        Ok(())
    }
}

fn event(index: usize, flags: EpollFlags) -> EpollEvent {
    EpollEvent::new(flags, index as u64)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;
    use std::thread::{self, JoinHandle};

    use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, getsockname, socket};

    use super::super::Transport;
    use super::*;

    fn load(bytes: usize, connections: usize, depth: usize) -> Load {
        Load { transport: Transport::Tcp, bytes, connections, depth, spin: false }
    }

    /// An echo server that serves `connections` and passes every byte through `change(position, byte)`.
    fn server(connections: usize, change: fn(usize, u8) -> u8) -> (SocketAddr, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = listener.local_addr().expect("address");
        let handle = thread::spawn(move || {
            let each = (0..connections).map(|_| {
                let (stream, _) = listener.accept().expect("accept");
                thread::spawn(move || echo(stream, change))
            });
            for thread in each.collect::<Vec<_>>() {
                thread.join().expect("echo");
            }
        });
        (address, handle)
    }

    fn echo(mut stream: TcpStream, change: fn(usize, u8) -> u8) {
        let mut buffer = [0; 10_000];
        let mut position = 0;
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            for byte in &mut buffer[..count] {
                *byte = change(position, *byte);
                position += 1;
            }
            if stream.write_all(&buffer[..count]).is_err() {
                return;
            }
        }
    }

    fn run(load: Load, change: fn(usize, u8) -> u8) -> Result<Tally> {
        let (address, handle) = server(load.connections, change);
        let mut tally = Tally::new()?;
        let mut client = Streams::open(load, address)?;
        let result = client.run(Instant::now() + Duration::from_millis(100), &mut tally).and_then(|()| client.drain(&mut tally));
        drop(client);
        handle.join().expect("the server ends with its connections");
        result.map(|()| tally)
    }

    #[test]
    fn every_request_is_answered_and_timed() {
        for (bytes, connections, depth) in [(64, 3, 16), (1, 1, 1), (4_096, 2, 16)] {
            let tally = run(load(bytes, connections, depth), |_, byte| byte).expect("a right echo");
            assert!(tally.requests >= (connections * depth) as u64);
            assert_eq!(tally.latency_ns.len(), tally.requests);
        }
    }

    #[test]
    fn more_than_the_socket_takes_is_sent_in_parts() {
        let tally = run(load(200_000, 1, 16), |_, byte| byte).expect("a right echo");
        assert!(tally.requests >= 16);
    }

    #[test]
    fn spinning_answers_too() {
        let load = Load { spin: true, ..load(64, 1, 1) };
        assert!(run(load, |_, byte| byte).expect("a right echo").requests > 0);
    }

    #[test]
    fn a_flipped_bit_is_found() {
        let flip = |position, byte| if position == 1_000 { byte ^ 0x10 } else { byte };
        let error = run(load(64, 1, 16), flip).err().expect("a wrong byte");
        assert!(error.to_string().contains("byte 1000 "), "{error}");
    }

    #[test]
    fn a_closed_connection_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = listener.local_addr().expect("address");
        let mut client = Streams::open(load(64, 1, 1), address).expect("connects");
        let (mut stream, _) = listener.accept().expect("accept");
        stream.read_exact(&mut [0; 64]).expect("the request");
        drop(stream);
        let mut tally = Tally::new().expect("bounds");
        let error = client.run(Instant::now() + STUCK_AFTER, &mut tally).expect_err("closed");
        assert!(error.to_string().contains("closed"), "{error}");
    }

    #[test]
    fn nobody_listening_is_an_error() {
        let (family, kind) = (AddressFamily::Inet, SockType::Stream);
        let bound = socket(family, kind, SockFlag::empty(), None).expect("socket");
        bind(bound.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).expect("bind");
        let port = getsockname::<SockaddrIn>(bound.as_raw_fd()).expect("its port").port();
        // The port stays bound, so nobody else can listen there.
        let error = Streams::open(load(64, 1, 1), ([127, 0, 0, 1], port).into()).err();
        assert!(error.expect("refused").to_string().contains("connecting"));
    }
}
