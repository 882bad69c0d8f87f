//! Datagrams: numbered, checked, and given up after a timeout, since any of them may be lost.

use std::io::{IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, MultiHeaders, recvmmsg, recvmsg, sendmmsg, sendmsg, setsockopt, sockopt,
};

use super::{Client, Load, Pattern, Tally, Transport};

/// Bytes of the number that every datagram starts with.
const NUMBER_BYTES: usize = 8;

/// Datagrams that one call takes or gives at most; a train is no longer either.
const MOST_PER_CALL: usize = 32;

/// Bytes that one receive of a whole train may bring.
const TRAIN_BYTES: usize = 64 * 1024;

/// Numbers that a socket remembers the sending time of; one that is needed again was lost.
const REMEMBERED: usize = 1_024;

/// How long a socket may hear nothing before what it has in flight counts as lost. Longer than a busy host keeps a server
/// from its CPU, which is no loss.
const LOST_AFTER: Duration = Duration::from_millis(200);

/// How often that is looked at; also how long one wait lasts at most.
const WAIT_MS: u8 = 20;

/// Receive and send queue asked for, so that this side does not lose what the server sent.
const QUEUE_BYTES: usize = 4 * 1024 * 1024;

/// The sockets of one load.
pub struct Datagrams {
    epoll: Epoll,
    sockets: Vec<Socket>,
    wire: Wire,
    spin: bool,
    refill: bool,
    epoch: Instant,
    looked_at_losses_ns: u64,
}

/// How datagrams leave and arrive, with the memory for it.
struct Wire {
    trains: bool,
    depth: usize,
    bytes: usize,
    pattern: Pattern,
    /// Datagrams to be sent, one after the other.
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    control: Vec<u8>,
    sending: MultiHeaders<()>,
    receiving: MultiHeaders<()>,
}

struct Socket {
    socket: UdpSocket,
    book: Book,
}

/// What one socket has in flight.
struct Book {
    next: u64,
    in_flight: usize,
    heard_ns: u64,
    /// When number n was sent, at n modulo [`REMEMBERED`]; [`NOT_IN_FLIGHT`] once it is answered or given up.
    sent_ns: Vec<u64>,
}

const NOT_IN_FLIGHT: u64 = u64::MAX;

impl Datagrams {
    /// Makes the sockets and sends the first datagrams.
    pub fn open(load: Load, address: SocketAddr) -> Result<Self> {
        ensure!(load.depth <= MOST_PER_CALL, "at most {MOST_PER_CALL} datagrams in flight a socket");
        ensure!(load.bytes > NUMBER_BYTES, "a datagram needs more than its number's {NUMBER_BYTES} bytes");
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let wire = Wire::new(load);
        let mut sockets = Vec::with_capacity(load.connections);
        for index in 0..load.connections {
            sockets.push(Socket { socket: connected(address, wire.trains)?, book: Book::new() });
            epoll.add(&sockets[index].socket, EpollEvent::new(EpollFlags::EPOLLIN, index as u64))?;
        }
        let epoch = Instant::now();
        let (spin, refill) = (load.spin, true);
        let mut datagrams = Self { epoll, sockets, wire, spin, refill, epoch, looked_at_losses_ns: 0 };
        for index in 0..load.connections {
            datagrams.sockets[index].top_up(&mut datagrams.wire, 0, &mut 0)?;
        }
        Ok(datagrams)
    }

    fn turn(&mut self, events: &mut [EpollEvent], tally: &mut Tally) -> Result<()> {
        let wait = if self.spin { EpollTimeout::ZERO } else { WAIT_MS.into() };
        let count = self.epoll.wait(events, wait)?;
        for event in &events[..count] {
            let now_ns = self.now_ns();
            let socket = &mut self.sockets[event.data() as usize];
            socket.receive(&mut self.wire, now_ns, tally)?;
            if self.refill {
                socket.top_up(&mut self.wire, now_ns, &mut tally.lost)?;
            }
        }
        self.give_up_losses(tally)
    }

    fn give_up_losses(&mut self, tally: &mut Tally) -> Result<()> {
        let now_ns = self.now_ns();
        if now_ns - self.looked_at_losses_ns < u64::from(WAIT_MS) * 1_000_000 {
            return Ok(());
        }
        self.looked_at_losses_ns = now_ns;
        for socket in &mut self.sockets {
            tally.lost += socket.book.give_up(now_ns);
            if self.refill {
                socket.top_up(&mut self.wire, now_ns, &mut tally.lost)?;
            }
        }
        Ok(())
    }

    fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    fn events(&self) -> Vec<EpollEvent> {
        vec![EpollEvent::empty(); self.sockets.len()]
    }
}

impl Client for Datagrams {
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
        // It ends: what is not answered is given up.
        while self.sockets.iter().any(|socket| socket.book.in_flight > 0) {
            self.turn(&mut events, tally)?;
        }
        Ok(())
    }
}

impl Socket {
    /// Takes what has arrived, at least one call's worth.
    fn receive(&mut self, wire: &mut Wire, now_ns: u64, tally: &mut Tally) -> Result<()> {
        if wire.trains {
            // The answers to a train may come singly, so all of them are taken before the next one is thought of.
            while let Some((bytes, segment)) = wire.receive_train(&self.socket)? {
                for datagram in wire.incoming[..bytes].chunks(segment) {
                    self.book.answered(wire.number_of(datagram)?, now_ns, tally);
                }
            }
            return Ok(());
        }
        let (lengths, count) = wire.receive_singles(&self.socket)?;
        for (index, &length) in lengths[..count].iter().enumerate() {
            let datagram = &wire.incoming[index * wire.room_bytes()..][..length];
            self.book.answered(wire.number_of(datagram)?, now_ns, tally);
        }
        Ok(())
    }

    /// Sends until the depth is reached; a train only when nothing is in flight. Adds what is given up to `lost`.
    fn top_up(&mut self, wire: &mut Wire, now_ns: u64, lost: &mut u64) -> Result<()> {
        let room = wire.depth - self.book.in_flight;
        if room == 0 || (wire.trains && room < wire.depth) {
            return Ok(());
        }
        wire.number(self.book.next, room);
        let sent = match wire.send(&self.socket, room) {
            // The queue is full; the next turn comes back to it.
            Err(Errno::EAGAIN | Errno::ENOBUFS) => 0,
            other => other.context("sending: is the server gone?")?,
        };
        *lost += self.book.sent(sent, now_ns);
        Ok(())
    }
}

impl Wire {
    fn new(load: Load) -> Self {
        let pattern = Pattern::new(TRAIN_BYTES);
        let mut outgoing = Vec::with_capacity(load.depth * load.bytes);
        for _ in 0..load.depth {
            outgoing.extend([0; NUMBER_BYTES]);
            outgoing.extend(pattern.at(0, load.bytes - NUMBER_BYTES));
        }
        Self {
            trains: load.transport == Transport::UdpTrains,
            depth: load.depth,
            bytes: load.bytes,
            pattern,
            outgoing,
            incoming: vec![0; TRAIN_BYTES.max((load.bytes + 1) * MOST_PER_CALL)],
            control: cmsg_space!(i32),
            sending: MultiHeaders::preallocate(MOST_PER_CALL, None),
            receiving: MultiHeaders::preallocate(MOST_PER_CALL, None),
        }
    }

    /// Room for one datagram that comes singly: a byte more than is right, so that too long a one shows.
    fn room_bytes(&self) -> usize {
        self.bytes + 1
    }

    /// Writes the numbers from `first` on into the first `count` outgoing datagrams.
    fn number(&mut self, first: u64, count: usize) {
        for (number, datagram) in (first..).zip(self.outgoing.chunks_mut(self.bytes).take(count)) {
            datagram[..NUMBER_BYTES].copy_from_slice(&number.to_le_bytes());
        }
    }

    /// The number of a datagram that came back, whose content must be what was sent.
    fn number_of(&self, datagram: &[u8]) -> Result<u64> {
        let Some((number, content)) = datagram.split_first_chunk::<NUMBER_BYTES>() else {
            bail!("the server's fault: a datagram of {} bytes, expected {}", datagram.len(), self.bytes);
        };
        ensure!(
            datagram.len() == self.bytes,
            "the server's fault: a datagram of {} bytes, expected {}",
            datagram.len(),
            self.bytes
        );
        self.pattern.check(0, content)?;
        Ok(u64::from_le_bytes(*number))
    }

    /// Sends the first `count` outgoing datagrams; returns how many left.
    fn send(&mut self, socket: &UdpSocket, count: usize) -> nix::Result<usize> {
        let fd = socket.as_raw_fd();
        if self.trains {
            let parts = [IoSlice::new(&self.outgoing[..count * self.bytes])];
            // reason: a datagram's length was accepted by the wire, which holds at most 64 KiB.
            let segment = u16::try_from(self.bytes).expect("a segment fits u16");
            let control = [ControlMessage::UdpGsoSegments(&segment)];
            sendmsg::<()>(fd, &parts, &control, MsgFlags::empty(), None)?;
            return Ok(count);
        }
        let mut parts = [[IoSlice::new(&[])]; MOST_PER_CALL];
        for (part, datagram) in parts.iter_mut().zip(self.outgoing.chunks(self.bytes)) {
            *part = [IoSlice::new(datagram)];
        }
        let to = [None; MOST_PER_CALL];
        let none: [ControlMessage<'_>; 0] = [];
        let sent = sendmmsg(fd, &mut self.sending, &parts[..count], to, none, MsgFlags::empty())?;
        Ok(sent.count())
    }

    /// Receives once; gives the bytes and the length of each datagram in them, the last of which may be shorter.
    fn receive_train(&mut self, socket: &UdpSocket) -> Result<Option<(usize, usize)>> {
        let mut parts = [IoSliceMut::new(&mut self.incoming[..TRAIN_BYTES])];
        let flags = MsgFlags::MSG_DONTWAIT;
        let message = match recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut self.control), flags) {
            Err(Errno::EAGAIN) => return Ok(None),
            other => other.context("receiving: is the server gone?")?,
        };
        let segment = message.cmsgs()?.find_map(|part| match part {
            ControlMessageOwned::UdpGroSegments(bytes) => usize::try_from(bytes).ok(),
            _ => None,
        });
        ensure!(message.bytes > 0, "the server's fault: an empty datagram");
        Ok(Some((message.bytes, segment.unwrap_or(message.bytes).max(1))))
    }

    /// Receives once, up to [`MOST_PER_CALL`] datagrams; gives their lengths and how many there are.
    fn receive_singles(&mut self, socket: &UdpSocket) -> Result<([usize; MOST_PER_CALL], usize)> {
        let room_bytes = self.room_bytes();
        let mut chunks = self.incoming.chunks_mut(room_bytes);
        let mut parts: [[IoSliceMut<'_>; 1]; MOST_PER_CALL] =
            std::array::from_fn(|_| [IoSliceMut::new(chunks.next().unwrap_or_default())]);
        let mut lengths = [0; MOST_PER_CALL];
        let flags = MsgFlags::MSG_DONTWAIT;
        let messages = match recvmmsg(socket.as_raw_fd(), &mut self.receiving, &mut parts, flags, None) {
            Err(Errno::EAGAIN) => return Ok((lengths, 0)),
            other => other.context("receiving: is the server gone?")?,
        };
        let mut count = 0;
        for (length, message) in lengths.iter_mut().zip(messages) {
            *length = message.bytes;
            count += 1;
        }
        Ok((lengths, count))
    }
}

impl Book {
    fn new() -> Self {
        Self { next: 0, in_flight: 0, heard_ns: 0, sent_ns: vec![NOT_IN_FLIGHT; REMEMBERED] }
    }

    /// Notes that the next `count` numbers left. Returns how many old ones are given up for their places.
    fn sent(&mut self, count: usize, now_ns: u64) -> u64 {
        let mut lost = 0;
        if self.in_flight == 0 {
            self.heard_ns = now_ns;
        }
        for number in self.next..self.next + count as u64 {
            let place = &mut self.sent_ns[number as usize % REMEMBERED];
            lost += u64::from(*place != NOT_IN_FLIGHT);
            *place = now_ns;
        }
        self.next += count as u64;
        self.in_flight = self.in_flight + count - lost as usize;
        lost
    }

    /// Notes an answer. One that was given up, or answered before, counts for nothing.
    fn answered(&mut self, number: u64, now_ns: u64, tally: &mut Tally) {
        self.heard_ns = now_ns;
        if number >= self.next || number + (REMEMBERED as u64) < self.next {
            return;
        }
        let place = &mut self.sent_ns[number as usize % REMEMBERED];
        let sent_ns = std::mem::replace(place, NOT_IN_FLIGHT);
        if sent_ns != NOT_IN_FLIGHT {
            self.in_flight -= 1;
            tally.answered(sent_ns, now_ns, 1);
        }
    }

    /// Gives up all that is in flight when nothing was heard for too long. Returns how many that were.
    fn give_up(&mut self, now_ns: u64) -> u64 {
        let silent_ns = now_ns.saturating_sub(self.heard_ns);
        if self.in_flight == 0 || u128::from(silent_ns) < LOST_AFTER.as_nanos() {
            return 0;
        }
        self.sent_ns.fill(NOT_IN_FLIGHT);
        std::mem::take(&mut self.in_flight) as u64
    }
}

fn connected(address: SocketAddr, trains: bool) -> Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("binding")?;
    socket.connect(address).with_context(|| format!("connecting to {address}"))?;
    socket.set_nonblocking(true)?;
    setsockopt(&socket, sockopt::RcvBuf, &QUEUE_BYTES).context("SO_RCVBUF")?;
    setsockopt(&socket, sockopt::SndBuf, &QUEUE_BYTES).context("SO_SNDBUF")?;
    if trains {
        setsockopt(&socket, sockopt::UdpGroSegment, &true).context("UDP_GRO")?;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread::{self, JoinHandle};

    use super::*;

    fn load(transport: Transport) -> Load {
        Load { transport, bytes: 510, connections: 2, depth: 32, spin: false }
    }

    /// Answers datagram number n (as it counts them) `copies(n)` times, changed by `change`, until it is dropped.
    struct Server {
        address: SocketAddr,
        stop: Arc<AtomicBool>,
        thread: Option<JoinHandle<()>>,
    }

    impl Server {
        fn start(copies: fn(u64) -> u32, change: fn(&mut Vec<u8>)) -> Self {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("bind");
            let address = socket.local_addr().expect("address");
            let stop = Arc::new(AtomicBool::new(false));
            let stopped = Arc::clone(&stop);
            let thread = thread::spawn(move || {
                for number in 0.. {
                    let mut datagram = vec![0; 2_000];
                    let (length, peer) = socket.recv_from(&mut datagram).expect("receive");
                    if stopped.load(Ordering::Relaxed) {
                        return;
                    }
                    datagram.truncate(length);
                    change(&mut datagram);
                    for _ in 0..copies(number) {
                        // The client may be gone by now.
                        let _ = socket.send_to(&datagram, peer);
                    }
                }
            });
            Self { address, stop, thread: Some(thread) }
        }
    }

    impl Drop for Server {
        fn drop(&mut self) {
            self.stop.store(true, Ordering::Relaxed);
            let waker = UdpSocket::bind("127.0.0.1:0").expect("bind");
            waker.send_to(b"stop", self.address).expect("send");
            if let Some(thread) = self.thread.take() {
                thread.join().expect("the server");
            }
        }
    }

    fn run(load: Load, server: &Server) -> Result<Tally> {
        let mut tally = Tally::new()?;
        let mut client = Datagrams::open(load, server.address)?;
        client.run(Instant::now() + Duration::from_millis(150), &mut tally)?;
        client.drain(&mut tally)?;
        assert!(client.sockets.iter().all(|socket| socket.book.in_flight == 0));
        Ok(tally)
    }

    #[test]
    fn singles_and_trains_are_answered() {
        let server = Server::start(|_| 1, |_| {});
        for transport in [Transport::UdpSingles, Transport::UdpTrains] {
            let tally = run(load(transport), &server).expect("a right echo");
            assert!(tally.requests >= 64, "{transport:?}: {}", tally.requests);
            assert_eq!(tally.latency_ns.len(), tally.requests);
        }
    }

    #[test]
    fn lost_datagrams_are_counted_and_replaced() {
        let server = Server::start(|number| u32::from(number % 10 != 0), |_| {});
        for transport in [Transport::UdpSingles, Transport::UdpTrains] {
            let tally = run(load(transport), &server).expect("losses are no error");
            assert!(tally.lost > 0 && tally.requests > 0, "{transport:?}");
        }
    }

    #[test]
    fn an_answer_counts_once() {
        let mut book = Book::new();
        let mut tally = Tally::new().expect("bounds");
        assert_eq!(book.sent(3, 10), 0);
        for number in [1, 1, 3, u64::MAX - 5_000] {
            book.answered(number, 20, &mut tally);
        }
        assert_eq!((tally.requests, book.in_flight), (1, 2), "twice, never sent, nonsense");
        let server = Server::start(|_| 3, |_| {});
        let tally = run(load(Transport::UdpSingles), &server).expect("copies are no error");
        assert!(tally.requests >= 64);
    }

    #[test]
    fn silence_gives_up_what_is_in_flight() {
        let mut book = Book::new();
        book.sent(5, 1_000);
        let limit_ns = LOST_AFTER.as_nanos() as u64;
        assert_eq!(book.give_up(limit_ns), 0, "not yet silent for long enough");
        assert_eq!(book.give_up(1_000 + limit_ns), 5);
        assert_eq!(book.give_up(9 * limit_ns), 0, "nothing is in flight any more");
        let mut tally = Tally::new().expect("bounds");
        book.answered(2, 10 * limit_ns, &mut tally);
        assert_eq!(tally.requests, 0, "too late");
    }

    #[test]
    fn a_number_whose_place_is_needed_is_given_up() {
        let mut book = Book::new();
        let mut tally = Tally::new().expect("bounds");
        book.sent(1, 0);
        let mut lost = 0;
        for number in 1..=REMEMBERED as u64 {
            lost += book.sent(1, number);
            book.answered(number, number, &mut tally);
        }
        assert_eq!((lost, book.in_flight), (1, 0));
    }

    #[test]
    fn wrong_bytes_and_wrong_lengths_are_found() {
        let flip = Server::start(|_| 1, |datagram| datagram[100] ^= 1);
        let cut = Server::start(|_| 1, |datagram| datagram.truncate(500));
        let longer = Server::start(|_| 1, |datagram| datagram.push(0));
        for transport in [Transport::UdpSingles, Transport::UdpTrains] {
            for server in [&flip, &cut, &longer] {
                let error = run(load(transport), server).err().expect("a wrong answer");
                assert!(error.to_string().contains("the server's fault"), "{error}");
            }
        }
    }
}
