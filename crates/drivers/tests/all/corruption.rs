//! What a peer reads is what was sent, however it left and however late it is read: memory is written as soon as it is released, on lo and between two network namespaces, by
//! each means, on both drivers. A driver that released at the peer's acknowledgement would be caught, as the last test shows.

use corelane_drivers::{EpollDriver, Probes, UringDriver, probe_uring};
use corelane_os::memory_file::MemoryFile;
use corelane_os::sealed_file;
use corelane_os::testing::{connected, network, skip};
use corelane_seam::{
    Arena, Chain, Completion, Driver, Handle, Listen, Op, Outcome, Sealed, SealedMemory, SendCounters, Socket, StreamOp,
    StreamOptions, StreamOutcome, Tuning, Wait,
};
use rustix::net::{RecvFlags, recv};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// Bytes that each driver sends over each link by each means: 200 MB in all.
const BYTES: u64 = 12_500_000;
/// A driver's memory: little, so that what is released is written at once.
const MEMORY: usize = 4 << 20;
/// Bytes of one send.
const SEND: usize = 256 << 10;
/// Bytes of a block of it.
const BLOCK: usize = 64 << 10;
/// How much the reader takes at once, when nothing else goes on any more.
const READ: usize = 192 << 10;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Means {
    Copied,
    /// As a driver is set that chooses.
    Chosen,
    /// Whatever the kernel says.
    Uncopied,
    Sealed,
}

const ALL: [Means; 4] = [Means::Copied, Means::Chosen, Means::Uncopied, Means::Sealed];

fn tuning(means: Means) -> Tuning {
    let tuning = Tuning::default();
    match means {
        Means::Copied | Means::Sealed => tuning,
        Means::Chosen => tuning.zero_copy_bytes(BLOCK),
        Means::Uncopied => tuning.zero_copy_bytes(BLOCK).zero_copy_always(true),
    }
}

/// What stands at a place of the stream.
fn word_at(place: u64) -> [u8; 8] {
    (place / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
}

fn write(place: u64, bytes: &mut [u8]) {
    for (number, word) in bytes.chunks_mut(8).enumerate() {
        word.copy_from_slice(&word_at(place + 8 * number as u64)[..word.len()]);
    }
}

/// Whether these bytes are those from a place of the stream on.
fn is_right(place: u64, bytes: &[u8]) -> bool {
    bytes.iter().zip(place..).all(|(&byte, place)| byte == word_at(place)[(place % 8) as usize])
}

/// A driver that sends to a peer, which reads when it is told to.
struct Sender<D> {
    driver: D,
    arena: Arena,
    socket: Socket,
    peer: OwnedFd,
    /// What the last send has left over.
    rest: Chain,
    is_sending: bool,
    sent: u64,
    read: u64,
    /// Sends whose memory is not released.
    unreleased: usize,
    /// The peer has read something that was not sent.
    is_corrupt: bool,
}

/// Where both ends are: in the namespace of this thread, or the sender in one and the peer in another.
struct Link {
    sender: Option<File>,
    peer: Option<File>,
    address: &'static str,
}

impl Link {
    const LOOPBACK: Self = Self { sender: None, peer: None, address: "127.0.0.1:0" };

    /// A pair of virtual cards between two new namespaces.
    fn cards() -> Result<Self, String> {
        let peer = network::unshared_and_quiet()?;
        let sender = network::unshared_and_quiet()?;
        let number = rustix::process::getpid();
        network::ip(&[
            // A name for the other namespace is a process in it, or this descriptor's path.
            format!("link add near type veth peer name far netns /proc/{number}/fd/{}", peer.as_raw_fd()),
            "addr add 10.9.0.1/24 dev near".to_owned(),
            "link set near up".to_owned(),
        ])?;
        network::enter(&peer);
        network::ip(&["addr add 10.9.0.2/24 dev far".to_owned(), "link set far up".to_owned()])?;
        network::enter(&sender);
        Ok(Self { sender: Some(sender), peer: Some(peer), address: "10.9.0.1:0" })
    }

    /// A connection to whom listens here.
    fn connect(&self, to: corelane_seam::Address) -> OwnedFd {
        self.peer.iter().for_each(network::enter);
        let peer = connected(to);
        self.sender.iter().for_each(network::enter);
        peer
    }
}

impl<D: Driver> Sender<D> {
    fn new(mut driver: D, arena: Arena, link: &Link) -> Self {
        let address = link.address.parse().unwrap();
        let listen = Listen { address, backlog: 8, share_port: false, v6_only: false, stream: StreamOptions::default() };
        let listener = driver.listen(&listen).unwrap();
        let peer = link.connect(driver.local_address(listener).unwrap());
        driver.push(Handle::new(1, 0, 0), StreamOp::Accept { listener }.into());
        let mut completions = Vec::new();
        while completions.is_empty() {
            driver.collect(Wait::Forever, 64, &mut completions);
        }
        let Outcome::Stream(StreamOutcome::Accepted { socket, .. }) = completions[0].outcome else { panic!("{completions:?}") };
        Self {
            driver,
            arena,
            socket,
            peer,
            rest: Chain::new(),
            is_sending: false,
            sent: 0,
            read: 0,
            unreleased: 0,
            is_corrupt: false,
        }
    }

    /// Sends `bytes` of what `make` makes for each place, as long as there is room and memory, and has the peer read when nothing else goes.
    fn send_all(
        &mut self,
        bytes: u64,
        mut make: impl FnMut(&Arena, u64) -> Option<Chain>,
        mut meanwhile: impl FnMut(&D, Socket),
    ) {
        while self.read < bytes {
            if !self.is_sending && self.rest.is_empty() && self.sent < bytes {
                self.rest = make(&self.arena, self.sent).unwrap_or_default();
            }
            if !self.is_sending && !self.rest.is_empty() {
                let chain = std::mem::take(&mut self.rest);
                self.driver.push(Handle::new(2, 0, 0), StreamOp::Send { socket: self.socket, chain }.into());
                self.is_sending = true;
            }
            let has_ended = self.collect();
            meanwhile(&self.driver, self.socket);
            if !has_ended {
                self.read();
            }
        }
        while self.unreleased > 0 {
            self.collect();
        }
        self.driver.push(Handle::new(3, 0, 0), Op::Close { socket: self.socket, reset: false });
        assert_eq!((self.read, self.sent), (bytes, bytes));
    }

    /// Whether a send has ended, or memory was released.
    fn collect(&mut self) -> bool {
        let mut completions: Vec<Completion> = Vec::new();
        self.driver.collect(Wait::Until(self.driver.now() + 100_000), 64, &mut completions);
        let has_ended = !completions.is_empty();
        for Completion { outcome, released, .. } in completions {
            match outcome {
                Outcome::Released => self.unreleased -= 1,
                Outcome::Stream(StreamOutcome::Sent { bytes, rest, fault: None }) => {
                    self.sent += bytes as u64;
                    self.unreleased += usize::from(!released);
                    (self.rest, self.is_sending) = (rest, false);
                }
                other => panic!("{other:?}"),
            }
        }
        // What was released is written: who still has its pages reads this.
        let mut free: Vec<_> = std::iter::from_fn(|| self.arena.lease_or_none(BLOCK)).collect();
        free.iter_mut().for_each(|lease| lease.spare().fill(0xee));
        has_ended
    }

    /// The reader takes a little.
    fn read(&mut self) {
        let mut bytes = vec![0; READ];
        let Ok((count, _)) = recv(self.peer.as_fd(), &mut bytes, RecvFlags::DONTWAIT) else { return };
        self.is_corrupt |= !is_right(self.read, &bytes[..count]);
        self.read += count as u64;
    }
}

/// The next send, in blocks of the lane's memory.
fn blocks(arena: &Arena, place: u64) -> Option<Chain> {
    let mut chain = Chain::new();
    for number in 0..SEND / BLOCK {
        let mut lease = arena.lease_or_none(BLOCK)?;
        write(place + (number * BLOCK) as u64, lease.spare());
        lease.advance(BLOCK);
        chain.push(lease.share());
    }
    Some(chain)
}

/// The next send, in sealed memory that is new each time.
fn sealed(_: &Arena, place: u64) -> Option<Chain> {
    let (mut bytes, mut chain) = (vec![0; SEND], Chain::new());
    write(place, &mut bytes);
    chain.push(sealed_file::seal(&[&bytes]).unwrap());
    Some(chain)
}

fn sends_right<D: Driver>(make: &impl Fn(Arena, Tuning) -> D, link: &Link, means: Means) {
    let arena = Arena::of(MemoryFile::new(MEMORY).unwrap().0).unwrap();
    let mut sender = Sender::new(make(arena.clone(), tuning(means)), arena, link);
    let bytes = BYTES.next_multiple_of(SEND as u64);
    match means {
        Means::Sealed => sender.send_all(bytes, sealed, |_, _| ()),
        _ => sender.send_all(bytes, blocks, |_, _| ()),
    }
    assert!(!sender.is_corrupt, "{} {}: {means:?}", sender.driver.name(), link.address);
    let sends = sender.driver.counters().sends;
    let is_so = match means {
        Means::Copied => sends == SendCounters::default(),
        Means::Chosen => sends.uncopied == 1 && sends.copied_anyway > 0 && sends.copied_seen > 10,
        Means::Uncopied => sends.uncopied > 10 && sends.copied_anyway > 10 && sends.copied_seen == 0,
        Means::Sealed => sends.sealed > 10 && sends.uncopied == 0,
    };
    assert!(is_so, "{means:?}: {sends:?}");
}

fn with_epoll(arena: Arena, tuning: Tuning) -> EpollDriver {
    EpollDriver::new(arena, tuning, Probes::default()).unwrap()
}

fn with_uring(arena: Arena, tuning: Tuning) -> UringDriver {
    UringDriver::new(arena, tuning, Probes::default()).unwrap()
}

/// By each means, on both drivers.
fn all_send_right(test: &str, link: &Link) {
    ALL.iter().for_each(|&means| sends_right(&with_epoll, link, means));
    match probe_uring() {
        Ok(_) => ALL.iter().for_each(|&means| sends_right(&with_uring, link, means)),
        Err(why) => skip(test, &why.to_string()),
    }
}

#[test]
fn what_is_read_late_on_loopback_is_what_was_sent() {
    all_send_right("what_is_read_late_on_loopback_is_what_was_sent", &Link::LOOPBACK);
}

#[test]
fn what_is_read_late_between_virtual_cards_is_what_was_sent() {
    const NAME: &str = "what_is_read_late_between_virtual_cards_is_what_was_sent";
    network::on_thread(NAME, || match Link::cards() {
        Ok(link) => all_send_right(NAME, &link),
        Err(why) => skip(NAME, &why),
    });
}

/// Says that it never changes.
struct Liar {
    length: Vec<u8>,
    file: OwnedFd,
}

impl SealedMemory for Liar {
    fn bytes(&self) -> &[u8] {
        &self.length
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

/// What a driver would do that took the peer's acknowledgement for the end of all reading: pages leave from a file that is written when the peer's system has all of it.
fn releases_at_acknowledgement(link: &Link) -> bool {
    let arena = Arena::new(MEMORY).unwrap();
    let mut sender = Sender::new(with_epoll(arena.clone(), Tuning::default()), arena, link);
    let (_, file) = MemoryFile::new(SEND).unwrap();
    let file = File::from(file);
    let make = |_: &Arena, place: u64| {
        let (mut bytes, mut chain) = (vec![0; SEND], Chain::new());
        write(place, &mut bytes);
        file.write_all_at(&bytes, 0).unwrap();
        chain.push(Sealed::new(Liar { length: bytes, file: file.try_clone().unwrap().into() }));
        Some(chain)
    };
    let release = |driver: &EpollDriver, socket| {
        if driver.unsent_bytes(socket) == Some(0) {
            file.write_all_at(&[0xee; SEND], 0).unwrap();
        }
    };
    sender.send_all(8 * SEND as u64, make, release);
    sender.is_corrupt
}

#[test]
fn a_release_at_acknowledgement_is_caught() {
    const NAME: &str = "a_release_at_acknowledgement_is_caught";
    assert!(releases_at_acknowledgement(&Link::LOOPBACK));
    network::on_thread(NAME, || match Link::cards() {
        Ok(link) => assert!(releases_at_acknowledgement(&link)),
        Err(why) => skip(NAME, &why),
    });
}
