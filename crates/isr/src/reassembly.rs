//! Reassembly of IPv4 and IPv6 fragments (RFC 791, section 3.2; RFC 8200, section 4.5), within limits that hold whatever arrives.
//!
//! ```text
//! Reassembly::arrive(now, link, packet, &mut pieces) -> Whole { .. }: `pieces` are the datagram, the first begins with its header
//!                                               | Held | Dropped(Reason, packet) | NoFragment(packet)
//!            .due() -> when to call .expire(now, |first| ..), which hands out the first fragments that ICMP answers
//! ```
//!
//! A datagram is found by its key (the link that its fragments come by, addresses, identification, and IPv4's protocol), hashed with a secret of this table's: 1,024 buckets, the
//! newest first in each. Its fragments lie in order and never overlap: of IPv4, a new one is cut where the one before it reaches into it, and
//! what follows is cut where the new one reaches into that; of IPv6, an overlap ends the datagram, and what still arrives of it is dropped until
//! it would have expired (RFC 5722).
//! A fragment that is there already, byte for byte, changes nothing.
//!
//! A fragment costs a walk through its bucket (at most [`Limits::each_bucket`]) and one through the datagram's pieces (at most
//! [`Limits::fragments_each`]), whatever else waits.
//!
//! A datagram in fragments may be overtaken by whole ones of its flow while it waits. That is not prevented, for they would have to wait
//! with it, but counted where they run: [`Datagram::arrived`] and [`Reorders`].
//!
//! At a limit the oldest datagram goes, of the link that has most: so a flood by one link pushes out what came by that, and nothing of a link that has less than an equal part.
//! Within a link a flood of what is never completed pushes out mostly itself, and an honest datagram, whose fragments arrive close together, passes. Where a bucket is full,
//! its own oldest goes likewise; if all in it is of links that have less, the new one is dropped. A source that has more than a quarter of what may wait
//! loses its own oldest, and nobody else's: so one that floods takes nothing of others. Each limit has its counter in [`FragmentCounts`].
//!
//! To find the link that has most, all links are looked at, up to the highest number that has brought a fragment: only at a limit.

mod counts;
mod fragment;
mod limits;
mod memory;
mod pieces;
mod reorders;
mod table;
mod waiting;
mod whole;

pub use counts::{FragmentCounts, Reason};
pub use fragment::unfit;
pub use limits::Limits;
pub use memory::Memory;
pub use reorders::Reorders;
pub use whole::Datagram;

use corelane_seam::Instant;
use corelane_wire::packet::Ecn;
use fragment::{Fragment, NotOne};
use pieces::{Cuts, Gap, Piece, Pieces};
use table::ReassemblyQueues;
use waiting::Waiting;

/// Datagrams that one call gives up at most, so that what came in one burst does not keep the lane when it expires.
pub const EXPIRED_MAX: usize = 256;

/// The part of a limit that one source may have, before it loses its own at the limit.
const SOURCE_PART: usize = 4;

/// Datagrams that one fragment pushes out at most; where that makes no room for it, it is dropped itself.
const EVICTED_MAX: usize = 16;

/// What became of a packet that arrived.
#[derive(Debug)]
pub enum Admission<M> {
    /// It is no fragment.
    NoFragment(M),
    /// It waits for others.
    Held,
    /// It was the last that was missing: the datagram is in the pieces.
    Whole(Datagram),
    /// It was dropped, alone or with its datagram. Here it is once more, for whoever answers with ICMP.
    Dropped(Reason, M),
}

/// The table.
pub struct Reassembly<M> {
    limits: Limits,
    table: ReassemblyQueues<Waiting>,
    pieces: Pieces<M>,
    counts: FragmentCounts,
}

impl<M: Memory> Reassembly<M> {
    /// An empty table. `secret` is random, and nobody else's: it decides who shares a bucket.
    #[must_use]
    pub fn new(limits: Limits, secret: u128) -> Self {
        Self { limits, table: ReassemblyQueues::new(secret), pieces: Pieces::new(), counts: FragmentCounts::default() }
    }

    /// What has been counted.
    #[must_use]
    pub const fn counts(&self) -> &FragmentCounts {
        &self.counts
    }

    /// Datagrams that wait, their fragments, and bytes of memory that these keep in use.
    #[must_use]
    pub fn waiting(&self) -> (usize, usize, usize) {
        (self.table.len(), self.pieces.len(), self.pieces.held())
    }

    /// Changes the limits. What is over new ones goes at once, the oldest datagrams first; of a bucket, or of a datagram with too many
    /// fragments, when one arrives for it.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        while let Some((oldest, reason)) = self.table.oldest(0, None).zip(self.over()) {
            self.drop_datagram(oldest, reason);
        }
    }

    /// Which limit is passed by what waits.
    fn over(&self) -> Option<Reason> {
        let is_over = [
            (self.limits.are_off(), Reason::Off),
            (self.table.len() > self.limits.datagrams, Reason::Datagrams),
            (self.pieces.len() > self.limits.fragments, Reason::Fragments),
            (self.pieces.held() > self.limits.bytes, Reason::Bytes),
        ];
        is_over.into_iter().find_map(|(is_over, reason)| is_over.then_some(reason))
    }

    /// When the first datagram expires; none if nothing waits.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        self.next_to_expire().map(|(expires, _)| expires)
    }

    /// The datagram that expires first: of each family it is the oldest.
    fn next_to_expire(&self) -> Option<(Instant, u32)> {
        self.table.oldest_of_families().map(|oldest| (self.table.at(oldest).expires, oldest)).min()
    }

    /// Gives up what has expired by `now`, at most [`EXPIRED_MAX`] datagrams a call: where more have, [`Reassembly::due`] still says so. Returns
    /// how many timed out. The first fragment of each that has one is handed to `first`, from its
    /// IP header on, for ICMP's answer (RFC 792: time exceeded, code 1).
    pub fn expire(&mut self, now: Instant, mut first: impl FnMut(M)) -> usize {
        let before = self.counts.timed_out;
        for _ in 0..EXPIRED_MAX {
            let Some((_, oldest)) = self.next_to_expire().filter(|(expires, _)| *expires <= now) else { break };
            let waiting = self.table.remove(oldest);
            self.counts.timed_out += u64::from(!waiting.is_spoilt);
            self.counts.dropped += waiting.pieces as u64;
            let begins = self.pieces.has_first(&waiting);
            for (index, piece) in self.take_pieces(&waiting).enumerate() {
                if index == 0 && begins {
                    first(piece.memory);
                }
            }
        }
        (self.counts.timed_out - before) as usize
    }

    /// Takes a packet that begins with its IP header and has come by the link of that number: fragments of two links are of two datagrams, whatever they say. If that completes
    /// a datagram, its pieces are appended to `into`, in order. Links are numbered from 0 on: some 30 bytes are taken for each up to the highest that has brought one.
    pub fn arrive(&mut self, now: Instant, link: u16, packet: M, into: &mut Vec<M>) -> Admission<M> {
        let fragment = match Fragment::read(link, packet) {
            Ok(fragment) => fragment,
            Err((packet, NotOne::Whole)) => return Admission::NoFragment(packet),
            Err((packet, NotOne::Refused(reason))) => {
                self.counts.fragments += 1;
                return self.dropped(reason, packet);
            }
        };
        self.counts.fragments += 1;
        if self.limits.are_off() {
            return self.dropped(Reason::Off, fragment.memory);
        }
        let (found, looked) = self.table.find(&fragment.key);
        self.counts.looked += looked;
        let index = match found {
            Some(index) => index,
            None => match self.open(now, &fragment) {
                Ok(index) => index,
                Err(reason) => return self.dropped(reason, fragment.memory),
            },
        };
        let outcome = self.admit(index, fragment, into);
        if self.table.get(index).is_some_and(|waiting| waiting.pieces == 0 && !waiting.is_spoilt) {
            self.table.remove(index);
        }
        outcome
    }

    fn admit(&mut self, index: u32, fragment: Fragment<M>, into: &mut Vec<M>) -> Admission<M> {
        if let Some(reason) = self.table.at(index).unfit(&fragment) {
            return self.dropped(reason, fragment.memory);
        }
        let (place, looked) = self.pieces.place(self.table.at(index), fragment.start);
        self.counts.looked += looked;
        // Before room is made, for what is dropped needs none.
        if let Some(reason) = self.pieces.clash(place, &fragment) {
            if fragment.key.is_v6() && reason == Reason::Overlap {
                self.spoil(index);
            }
            return self.dropped(reason, fragment.memory);
        }
        if let Some(reason) = self.make_room(index, fragment.memory.held()) {
            return self.dropped(reason, fragment.memory);
        }
        let (ends, ecn) = ((!fragment.more).then_some(fragment.end), fragment.ecn);
        self.insert(index, place, fragment);
        let waiting = self.table.at_mut(index);
        waiting.total = waiting.total.or(ends);
        if ecn == Ecn::Congested {
            waiting.ecn = Ecn::Congested;
        }
        waiting.check();
        if waiting.total == Some(waiting.covered) {
            return self.complete(index, into);
        }
        if waiting.pieces > self.limits.fragments_each {
            return self.too_many(index);
        }
        Admission::Held
    }

    /// Makes room in the table for the datagram of `fragment`; where there is none, why not.
    fn open(&mut self, now: Instant, fragment: &Fragment<M>) -> Result<u32, Reason> {
        let (bucket, source) = (self.table.bucket(&fragment.key), self.table.source(&fragment.key));
        let link = fragment.key.link;
        while self.table.length(bucket) >= self.limits.each_bucket() {
            let own = self.table.oldest_of_both(bucket, source).filter(|_| self.is_greedy(source));
            let oldest = own.or(self.table.oldest_of(bucket, self.table.load(link))).ok_or(Reason::Bucket)?;
            self.drop_datagram(oldest, Reason::Bucket);
        }
        while self.table.len() >= self.limits.datagrams {
            let own = self.table.oldest_of_source(source, None).filter(|_| self.is_greedy(source));
            let of_bucket = || self.table.oldest_of(bucket, self.table.most());
            let oldest = own.or_else(of_bucket).or(self.table.oldest(0, None)).ok_or(Reason::Datagrams)?;
            self.drop_datagram(oldest, Reason::Datagrams);
        }
        let keep = if fragment.key.is_v6() { self.limits.keep_v6 } else { self.limits.keep };
        let waiting = Waiting::new(fragment, source, now, now + keep);
        Ok(self.table.insert(bucket, source, fragment.key, waiting))
    }

    /// Whether a source has so much that it loses its own at a limit.
    fn is_greedy(&self, source: usize) -> bool {
        let (datagrams, pieces) = self.table.share(source);
        datagrams > self.limits.datagrams / SOURCE_PART || pieces > self.limits.fragments / SOURCE_PART
    }

    /// Lets the oldest datagrams but `index`, of the link that has most, go until one more fragment that keeps `bytes` in use is within the limits. Datagrams that an overlap
    /// has ended hold nothing: a row of them is let go over several fragments.
    fn make_room(&mut self, index: u32, bytes: usize) -> Option<Reason> {
        if bytes > self.limits.bytes {
            return Some(Reason::Bytes);
        }
        for evicted in 0.. {
            let reason = if self.pieces.len() >= self.limits.fragments {
                Reason::Fragments
            } else if self.pieces.held().saturating_add(bytes) > self.limits.bytes {
                Reason::Bytes
            } else {
                return None;
            };
            let Waiting { source, key, .. } = self.table.at(index);
            let (source, link) = (*source, key.link);
            let own = self.table.oldest_of_source(source, Some(index)).filter(|_| self.is_greedy(source));
            let oldest = own.or(self.table.oldest(self.table.load(link), Some(index))).filter(|_| evicted < EVICTED_MAX);
            let Some(oldest) = oldest else { return Some(reason) };
            self.drop_datagram(oldest, reason);
        }
        None
    }

    /// Counts and returns one fragment that is dropped.
    fn dropped(&mut self, reason: Reason, packet: M) -> Admission<M> {
        self.counts.dropped += 1;
        *self.counts.of_mut(reason) += 1;
        Admission::Dropped(reason, packet)
    }

    /// Drops a datagram with all of its fragments.
    fn drop_datagram(&mut self, index: u32, reason: Reason) {
        let waiting = self.table.remove(index);
        self.counts.dropped += waiting.pieces as u64;
        *self.counts.of_mut(reason) += 1;
        self.take_pieces(&waiting).for_each(drop);
    }

    fn too_many(&mut self, index: u32) -> Admission<M> {
        let waiting = self.table.remove(index);
        self.counts.dropped += waiting.pieces as u64 - 1;
        let last = self.take_pieces(&waiting).last();
        let Some(piece) = last else { unreachable!("a datagram of too many fragments has one") };
        self.dropped(Reason::Each, piece.memory)
    }

    /// Ends a datagram by an overlap: its fragments go, its name stays until it would have expired.
    fn spoil(&mut self, index: u32) {
        let waiting = self.table.at_mut(index);
        let spoilt = waiting.spoil();
        waiting.check();
        self.counts.dropped += spoilt.pieces as u64;
        self.take_pieces(&spoilt).for_each(drop);
    }

    /// Ends a datagram of which nothing is missing.
    fn complete(&mut self, index: u32, into: &mut Vec<M>) -> Admission<M> {
        let waiting = self.table.remove(index);
        assert!(waiting.total == Some(waiting.covered), "nothing is missing of what is complete");
        match Datagram::join(&waiting, self.take_pieces(&waiting), into) {
            Ok(datagram) => {
                self.counts.reassembled += 1;
                self.counts.joined += waiting.pieces as u64;
                Admission::Whole(datagram)
            }
            Err(first) => {
                self.counts.dropped += waiting.pieces as u64 - 1;
                self.dropped(Reason::TooLong, first)
            }
        }
    }

    /// Adds a fragment, which does not clash, to its datagram and to what its source and its link hold.
    fn insert(&mut self, index: u32, place: Gap, fragment: Fragment<M>) {
        let waiting = self.table.at_mut(index);
        let (source, link) = (waiting.source, waiting.key.link);
        let Cuts { cut, covered } = self.pieces.insert(waiting, place, fragment);
        self.table.add_piece(source, link);
        self.table.take_pieces(source, link, covered);
        self.counts.cut += cut;
        self.counts.covered += covered as u64;
        self.counts.dropped += covered as u64;
    }

    /// Gives all pieces of a datagram away, which its source and its link hold no more.
    fn take_pieces(&mut self, waiting: &Waiting) -> impl Iterator<Item = Piece<M>> {
        self.table.take_pieces(waiting.source, waiting.key.link, waiting.pieces);
        self.pieces.take(waiting)
    }
}
