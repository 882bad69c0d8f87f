//! Batches of datagrams: what one receive call brought, and the trains that one send call takes away.

use crate::address::Address;
use crate::chain::Segment;
use crate::lease::Shared;
use crate::payer::Payer;
use std::net::IpAddr;
use std::ops::Range;

/// The most payload bytes of one UDP datagram over IPv4: 65,535 less the two headers (RFC 768, RFC 791). So much can be sent
/// to everybody.
pub const DATAGRAM_BYTES_MAX: usize = 65_507;
/// The most payload bytes of one UDP datagram over IPv6, whose length does not count its own header (RFC 8200 section 3).
pub const DATAGRAM_V6_BYTES_MAX: usize = 65_527;
/// The most datagrams of one train: `UDP_MAX_SEGMENTS` of Linux from 6.9. Where the system takes fewer at once, the driver
/// sends a train in pieces.
pub const TRAIN_DATAGRAMS_MAX: usize = 128;
/// The most datagrams or trains of one batch.
pub const BATCH_MAX: usize = 64;

/// The most payload bytes of one UDP datagram, and of all that one call sends together, to `peer`.
pub fn datagram_bytes_max(peer: &Address) -> usize {
    match peer {
        Address::Ip(peer) if peer.ip().to_canonical().is_ipv6() => DATAGRAM_V6_BYTES_MAX,
        _ => DATAGRAM_BYTES_MAX,
    }
}

/// One datagram, or one train of equal datagrams from one peer that arrived together (UDP_GRO).
#[derive(Clone, Debug)]
pub struct Arrival {
    /// The sender.
    pub peer: Address,
    /// The address that was asked, where the socket is bound to the wildcard address.
    pub asked: Option<IpAddr>,
    /// The interface that it came in by, to answer link-local peers; 0 if not known.
    pub interface: u32,
    /// Bytes of each datagram but perhaps the last; equal to the length for a single one.
    pub datagram_bytes: u32,
    range: Range<u32>,
}

impl Arrival {
    /// How many datagrams it holds; one without payload counts as one.
    pub fn datagrams(&self) -> usize {
        self.range.len().div_ceil(self.datagram_bytes.max(1) as usize).max(1)
    }

    /// Payload bytes of all its datagrams.
    pub fn bytes(&self) -> usize {
        self.range.len()
    }
}

/// The datagrams of one receive. Reused from call to call: only the first one allocates.
#[derive(Debug, Default)]
pub struct Datagrams {
    arrivals: Vec<Arrival>,
    memory: Option<Shared>,
}

impl Datagrams {
    /// An empty batch; the storage for [`BATCH_MAX`] arrivals comes with the first fill.
    pub fn new() -> Self {
        Self::default()
    }

    /// Empties the batch and gives its memory back.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn clear(&mut self) {
        self.arrivals.clear();
        self.memory = None;
    }

    /// Has `payer` pay for the memory that the batch lies in.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn charge(&self, payer: Payer) {
        if let Some(memory) = &self.memory {
            memory.charge(payer);
        }
    }

    /// Begins to fill: the driver's part. `memory` holds all that [`Datagrams::add`] will name.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn fill(&mut self, memory: Shared) {
        self.arrivals.clear();
        self.arrivals.reserve(BATCH_MAX);
        self.memory = Some(memory);
    }

    /// Adds what lies at `range` of the memory: the driver's part.
    ///
    /// # Panics
    /// If the range is outside the memory.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn add(&mut self, range: Range<usize>, peer: Address, asked: Option<(IpAddr, u32)>, datagram_bytes: usize) {
        assert!(range.start <= range.end && range.end <= self.memory.as_ref().map_or(0, |memory| memory.len()));
        let (asked, interface) = asked.map_or((None, 0), |(address, interface)| (Some(address), interface));
        let range = range.start as u32..range.end as u32;
        self.arrivals.push(Arrival { peer, asked, interface, datagram_bytes: datagram_bytes as u32, range });
    }

    /// Leaves only those arrivals in it that are fit: a lane's part.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn retain(&mut self, is_fit: impl FnMut(&Arrival) -> bool) {
        self.arrivals.retain(is_fit);
    }

    /// The arrivals in order.
    pub fn arrivals(&self) -> &[Arrival] {
        &self.arrivals
    }

    /// Whether nothing arrived.
    pub fn is_empty(&self) -> bool {
        self.arrivals.is_empty()
    }

    /// The payload of an arrival of this batch, all its datagrams one after the other.
    pub fn payload(&self, arrival: &Arrival) -> &[u8] {
        let range = arrival.range.start as usize..arrival.range.end as usize;
        self.memory.as_deref().map_or(&[], |memory| &memory[range])
    }

    /// The payload of each datagram of an arrival of this batch, in order: of all those of a train, and one, empty, of one without payload.
    pub fn each(&self, arrival: &Arrival) -> impl Iterator<Item = &[u8]> {
        let payload = self.payload(arrival);
        let empty = payload.is_empty().then_some(payload);
        empty.into_iter().chain(payload.chunks(arrival.datagram_bytes.max(1) as usize))
    }

    /// The same bytes as a view that can be kept or sent without copying.
    pub fn share(&self, arrival: &Arrival) -> Segment {
        let range = arrival.range.start as usize..arrival.range.end as usize;
        self.memory.as_ref().map_or(Segment::Static(&[]), |memory| memory.slice(range).into())
    }
}

/// Datagrams to one peer that leave together: equal sizes, only the last may be shorter (UDP_SEGMENT).
#[derive(Clone, Debug)]
pub struct Train {
    /// Where they go.
    pub peer: Address,
    /// The address to send from, if not the one that the socket is bound to.
    pub source: Option<IpAddr>,
    /// The interface to send by; 0 leaves it to routing.
    pub interface: u32,
    /// Bytes of each datagram but perhaps the last.
    pub datagram_bytes: u32,
    /// Payload bytes in all.
    pub bytes: u32,
    first: u32,
    last: u32,
    parts: u32,
    /// One datagram, to leave by itself.
    single: bool,
}

impl Train {
    /// How many datagrams it holds; one without payload counts as one.
    pub fn datagrams(&self) -> usize {
        (self.bytes as usize).div_ceil(self.datagram_bytes.max(1) as usize).max(1)
    }

    /// Of how many segments the payload is made.
    pub fn parts(&self) -> usize {
        self.parts as usize
    }
}

#[derive(Debug)]
struct Part {
    segment: Segment,
    next: u32,
}

/// Trains to send in one call. Reused from call to call.
#[derive(Debug, Default)]
pub struct Trains {
    trains: Vec<Train>,
    parts: Vec<Part>,
}

const NO_PART: u32 = u32::MAX;

impl Trains {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty batch with storage for an answer to each arrival of a receive, each to another peer.
    pub fn for_batch() -> Self {
        Self { trains: Vec::with_capacity(BATCH_MAX), parts: Vec::with_capacity(BATCH_MAX) }
    }

    /// Drops all trains and keeps the storage.
    pub fn clear(&mut self) {
        self.trains.clear();
        self.parts.clear();
    }

    /// Gets as much storage as `other` has grown to: of two that are filled in turn, both grow with the first large batch.
    pub fn grow_like(&mut self, other: &Self) {
        assert!(self.trains.is_empty() && self.parts.is_empty(), "what is to be filled next is empty");
        self.trains.reserve_exact(other.trains.capacity());
        self.parts.reserve_exact(other.parts.capacity());
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.trains.is_empty()
    }

    /// The trains in order.
    pub fn trains(&self) -> &[Train] {
        &self.trains
    }

    /// The segments of a train of this batch.
    pub fn segments<'a>(&'a self, train: &Train) -> impl Iterator<Item = &'a Segment> {
        let mut next = train.first;
        std::iter::from_fn(move || {
            let part = self.parts.get(next as usize)?;
            next = part.next;
            Some(&part.segment)
        })
    }

    /// Adds `payload` for `peer`: datagrams of `datagram_bytes`, the last perhaps shorter. It joins the peer's last
    /// train of this batch where their order and sizes allow it, and begins a new train otherwise.
    ///
    /// Returns false, and adds nothing, if a datagram would be over [`datagram_bytes_max`] or the payload has more
    /// than [`TRAIN_DATAGRAMS_MAX`] datagrams.
    pub fn add(
        &mut self,
        peer: &Address,
        source: Option<IpAddr>,
        interface: u32,
        payload: Segment,
        datagram_bytes: usize,
    ) -> bool {
        let bytes = payload.len();
        let size = datagram_bytes.min(bytes);
        if size > datagram_bytes_max(peer) || bytes > size.max(1) * TRAIN_DATAGRAMS_MAX {
            return false;
        }
        let found = self.trains.iter_mut().rfind(|train| train.peer == *peer);
        match found.filter(|train| train.source == source && train.interface == interface && takes(train, bytes, size)) {
            Some(train) => {
                let new = self.parts.len() as u32;
                self.parts[train.last as usize].next = new;
                train.last = new;
                train.parts += 1;
                train.bytes += bytes as u32;
                push(&mut self.parts, Part { segment: payload, next: NO_PART });
            }
            None => self.begin(peer, source, interface, payload, size, false),
        }
        true
    }

    /// Adds `payload` as one datagram that leaves by itself, in no train, though in the same call as the others.
    ///
    /// Returns false, and adds nothing, if it is over [`datagram_bytes_max`].
    pub fn add_single(&mut self, peer: &Address, source: Option<IpAddr>, interface: u32, payload: Segment) -> bool {
        let size = payload.len();
        if size > datagram_bytes_max(peer) {
            return false;
        }
        self.begin(peer, source, interface, payload, size, true);
        true
    }

    fn begin(&mut self, peer: &Address, source: Option<IpAddr>, interface: u32, payload: Segment, size: usize, single: bool) {
        let (part, bytes) = (self.parts.len() as u32, payload.len() as u32);
        push(&mut self.parts, Part { segment: payload, next: NO_PART });
        let datagram_bytes = size as u32;
        let train =
            Train { peer: peer.clone(), source, interface, datagram_bytes, bytes, first: part, last: part, parts: 1, single };
        push(&mut self.trains, train);
    }
}

/// Most sockets send few at once; one that sends more has its storage for whatever one receive may ask for, so that it grows once and
/// not with each batch that is larger than all before.
fn push<T>(storage: &mut Vec<T>, value: T) {
    const FEW: usize = 4;
    match storage.len() {
        0 if storage.capacity() == 0 => storage.reserve_exact(FEW),
        FEW if storage.capacity() == FEW => storage.reserve_exact(BATCH_MAX - FEW),
        _ => {}
    }
    storage.push(value);
}

/// Whether `bytes` more, in datagrams of `size`, may follow in `train`: all before must be full, sizes fit, and the
/// whole stays within what one call takes.
fn takes(train: &Train, bytes: usize, size: usize) -> bool {
    let whole = train.datagram_bytes as usize;
    let all = train.bytes as usize + bytes;
    let alike = size == whole || (size < whole && size == bytes);
    bytes > 0
        && !train.single
        && whole > 0
        && alike
        && (train.bytes as usize).is_multiple_of(whole)
        && all <= datagram_bytes_max(&train.peer)
        && all.div_ceil(whole) <= TRAIN_DATAGRAMS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::Arena;
    use std::net::SocketAddr;

    fn peer(port: u16) -> Address {
        SocketAddr::from(([127, 0, 0, 1], port)).into()
    }

    fn payload(bytes: usize) -> Segment {
        Segment::Static(&[7; 70_000][..bytes])
    }

    #[test]
    fn each_datagram_of_a_train_is_told_and_one_without_payload_as_well() {
        let arena = Arena::new(1).unwrap();
        let mut batch = Datagrams::new();
        batch.fill(arena.copy_of(b"abcdefgh").unwrap().share());
        batch.add(0..7, peer(1), None, 3);
        batch.add(7..8, peer(1), None, 1);
        batch.add(8..8, peer(1), None, 0);
        let each = |number: usize| batch.each(&batch.arrivals()[number]).collect::<Vec<_>>();
        assert_eq!(each(0), [&b"abc"[..], b"def", b"g"]);
        assert_eq!((each(1), each(2)), (vec![&b"h"[..]], vec![&b""[..]]));
        let counted: Vec<_> = batch.arrivals().iter().map(Arrival::datagrams).collect();
        assert_eq!(counted, [3, 1, 1], "as many as are counted");
    }

    #[test]
    fn what_is_filled_in_turn_grows_at_once() {
        let (mut one, mut two) = (Trains::new(), Trains::new());
        (0..9).for_each(|port| assert!(one.add(&peer(port), None, 0, payload(1), 1)));
        two.grow_like(&one);
        let capacities = |storage: &Trains| (storage.trains.capacity(), storage.parts.capacity());
        assert_eq!((capacities(&one), capacities(&two)), ((BATCH_MAX, BATCH_MAX), (BATCH_MAX, BATCH_MAX)));
    }

    #[test]
    fn replies_to_one_peer_join_even_when_others_lie_between() {
        let mut trains = Trains::new();
        for port in [1, 2, 1, 2, 1] {
            assert!(trains.add(&peer(port), None, 0, payload(100), 100));
        }
        let shape: Vec<_> = trains.trains().iter().map(|train| (train.peer.port(), train.datagrams(), train.parts())).collect();
        assert_eq!(shape, [(1, 3, 3), (2, 2, 2)]);
        assert_eq!(trains.segments(&trains.trains()[0]).map(Segment::len).sum::<usize>(), 300);
    }

    #[test]
    fn a_shorter_one_ends_a_train_and_a_longer_one_begins_another() {
        let mut trains = Trains::new();
        for bytes in [100, 60, 100, 200, 0, 0] {
            assert!(trains.add(&peer(1), None, 0, payload(bytes), bytes));
        }
        let shape: Vec<_> = trains.trains().iter().map(|train| (train.bytes, train.datagrams())).collect();
        assert_eq!(shape, [(160, 2), (100, 1), (200, 1), (0, 1), (0, 1)]);
    }

    #[test]
    fn a_train_stays_within_the_limits_of_one_call() {
        let mut trains = Trains::new();
        (0..129).for_each(|_| assert!(trains.add(&peer(1), None, 0, payload(10), 10)));
        (0..3).for_each(|_| assert!(trains.add(&peer(2), None, 0, payload(30_000), 30_000)));
        let shape: Vec<_> = trains.trains().iter().map(Train::datagrams).collect();
        assert_eq!(shape, [128, 1, 2, 1]);
        assert!(!trains.add(&peer(3), None, 0, payload(65_508), 65_508));
        assert!(!trains.add(&peer(3), None, 0, payload(1290), 10));
        assert!(trains.add(&peer(3), None, 0, payload(65_507), 65_507));
        assert!(trains.add(&peer(4), None, 0, payload(1280), 10));
    }

    #[test]
    fn over_ipv6_a_datagram_may_be_longer() {
        let mut trains = Trains::new();
        let at = |ip: &str| Address::from(SocketAddr::new(ip.parse().unwrap(), 9));
        assert!(trains.add(&at("::1"), None, 0, payload(65_527), 65_527));
        assert!(trains.add_single(&at("::1"), None, 0, payload(65_527)));
        assert!(!trains.add(&at("::1"), None, 0, payload(65_528), 65_528));
        assert!(!trains.add_single(&at("::1"), None, 0, payload(65_528)));
        // A mapped address is IPv4 on the wire.
        assert!(!trains.add(&at("::ffff:127.0.0.1"), None, 0, payload(65_508), 65_508));
    }

    #[test]
    fn a_single_joins_nothing_and_nothing_joins_it() {
        let mut trains = Trains::new();
        assert!(trains.add(&peer(1), None, 0, payload(100), 100));
        for _ in 0..2 {
            assert!(trains.add_single(&peer(1), None, 0, payload(100)));
        }
        (0..2).for_each(|_| assert!(trains.add(&peer(1), None, 0, payload(100), 100)));
        let shape: Vec<_> = trains.trains().iter().map(Train::datagrams).collect();
        assert_eq!(shape, [1, 1, 1, 2]);
        assert!(!trains.add_single(&peer(1), None, 0, payload(DATAGRAM_BYTES_MAX + 1)));
        assert!(trains.add_single(&peer(1), None, 0, payload(DATAGRAM_BYTES_MAX)));
    }

    #[test]
    fn a_batch_names_its_arrivals() {
        let arena = Arena::new(1).unwrap();
        let mut batch = Datagrams::new();
        batch.fill(arena.copy_of(b"aaaabbbbcc!").unwrap().share());
        batch.add(0..10, peer(1), None, 4);
        batch.add(10..11, peer(2), Some((IpAddr::from([127, 0, 0, 2]), 1)), 1);
        let seen: Vec<_> = batch.arrivals().iter().map(|arrival| (batch.payload(arrival), arrival.datagrams())).collect();
        assert_eq!(seen, [(&b"aaaabbbbcc"[..], 3), (&b"!"[..], 1)]);
        batch.clear();
        assert_eq!(arena.used(), 0);
    }
}
