//! What a peer reads is what was sent, however it left and however late it is read: memory is written as soon as it is released, on lo and between two network namespaces, by
//! each means, on both drivers. A driver that released at the peer's acknowledgement would be caught, as the last test shows. 20 GB in all:
//!
//! ```text
//! CORELANE_CORRUPTION_BYTES=1250000000 cargo test --package corelane-drivers --test all corruption::what -- --nocapture
//! ```

use crate::sender::{BLOCK, MEMORY, Reader, SEND, Sender, WRITTEN, at, blocks, memory, sealed, with_epoll, with_uring, write};
use corelane_drivers::{EpollDriver, probe_uring};
use corelane_os::memory_file::MemoryFile;
use corelane_os::testing::{connected, network, skip};
use corelane_seam::{Address, Arena, Chain, Driver, Sealed, SealedMemory, SendCounters, Socket, Tuning};
use rustix::net::RecvFlags;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// Bytes that each driver sends over each link by each means: 200 MB in all.
const BYTES: u64 = 12_500_000;
/// How many it is to send in place of those.
const AMOUNT: &str = "CORELANE_CORRUPTION_BYTES";

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

/// Where both ends are: in the namespace of this thread, or the sender in one and the peer in another.
pub struct Link {
    sender: Option<File>,
    peer: Option<File>,
    pub address: &'static str,
}

impl Link {
    pub const LOOPBACK: Self = Self { sender: None, peer: None, address: "127.0.0.1:0" };

    /// A pair of virtual cards between two new namespaces.
    pub fn cards() -> Result<Self, String> {
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

    /// Has virtual cards carry packets of so many bytes. Loopback is left alone, because all share it.
    pub fn with_packets_of(&self, bytes: u32) {
        if self.peer.is_some() {
            self.in_peer(|| network::ip(&[format!("link set far mtu {bytes}")])).unwrap();
            network::ip(&[format!("link set near mtu {bytes}")]).unwrap();
        }
    }

    /// Does something where the peer is.
    pub fn in_peer<R>(&self, work: impl FnOnce() -> R) -> R {
        self.peer.iter().for_each(network::enter);
        let done = work();
        self.sender.iter().for_each(network::enter);
        done
    }

    /// A connection to whom listens here.
    pub fn connect(&self, to: Address) -> OwnedFd {
        self.in_peer(|| connected(to))
    }
}

/// Sends what `make` makes for each place, and has the peer read when nothing else goes; says whether it has read a wrong byte.
fn send_all<D: Driver>(
    (mut sender, peer): (Sender<D>, OwnedFd),
    bytes: u64,
    mut make: impl FnMut(&Arena, u64) -> Option<Chain>,
    mut meanwhile: impl FnMut(&D, Socket),
) -> (bool, SendCounters) {
    let mut reader = Reader::new(peer);
    while reader.read < bytes {
        let soon = sender.soon();
        let has_ended = sender.step(bytes, &mut make, soon);
        meanwhile(&sender.driver, sender.socket);
        if !has_ended {
            reader.take(RecvFlags::DONTWAIT);
        }
    }
    sender.settle();
    assert_eq!((reader.read, sender.tally.bytes), (bytes, bytes));
    let sends = sender.driver.counters().sends;
    sender.close();
    (reader.is_corrupt, sends)
}

fn sends_right<D: Driver>(make: &impl Fn(Arena, Tuning) -> D, link: &Link, means: Means) {
    let (arena, _) = memory();
    let driver = make(arena.clone(), tuning(means));
    let name = driver.name();
    let joined = Sender::joined(driver, arena, &at(link.address), |address| link.connect(address));
    let bytes = std::env::var(AMOUNT).map_or(BYTES, |amount| amount.parse().unwrap()).next_multiple_of(SEND as u64);
    let (is_corrupt, sends) = match means {
        Means::Sealed => send_all(joined, bytes, sealed, |_, _| ()),
        _ => send_all(joined, bytes, blocks, |_, _| ()),
    };
    assert!(!is_corrupt, "{name} {}: {means:?}", link.address);
    let is_so = match means {
        Means::Copied => sends == SendCounters::default(),
        Means::Chosen => sends.uncopied == 1 && sends.copied_anyway > 0 && sends.copied_seen > 10,
        Means::Uncopied => sends.uncopied > 10 && sends.copied_anyway > 10 && sends.copied_seen == 0,
        Means::Sealed => sends.sealed > 10 && sends.uncopied == 0,
    };
    assert!(is_so, "{means:?}: {sends:?}");
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
    let joined =
        Sender::joined(with_epoll(arena.clone(), Tuning::default()), arena, &at(link.address), |address| link.connect(address));
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
            file.write_all_at(&[WRITTEN; SEND], 0).unwrap();
        }
    };
    send_all(joined, 8 * SEND as u64, make, release).0
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
