//! One direction of a connection: the sender's buffer, what is on the way, the receiver's buffer.

use crate::check::Tally;
use std::collections::VecDeque;
use std::ops::Range;

/// Buffers of a socket that asks for none, in bytes each way.
const BUFFER_BYTES: usize = 128 << 10;
/// The least that a buffer holds, whatever is asked for.
const BUFFER_BYTES_MIN: usize = 2 << 10;
/// The most bytes that travel as one piece.
const PIECE_BYTES: usize = 16 << 10;

/// What travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// So many bytes, the next of those on the way.
    Bytes(usize),
    Finish,
    Reset,
}

/// How far the end of the stream has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Finish {
    No,
    Asked,
    OnTheWay,
    Arrived,
}

pub(crate) struct Pipe {
    /// All that was taken and is not received yet, in order: what has arrived, what is on the way, what has not left. They are
    /// not moved from one to the other, for millions of bytes pass through here.
    bytes: VecDeque<u8>,
    arrived: usize,
    flight_bytes: usize,
    flight: VecDeque<Piece>,
    send_limit: usize,
    receive_limit: usize,
    pub(crate) finish: Finish,
    /// When the last piece arrives: pieces never overtake one another.
    pub(crate) last_arrival: u64,
    /// What the sender gave, the receiver got, and nobody will get.
    pub(crate) taken: Tally,
    pub(crate) read: Tally,
    discarded: u64,
}

/// The buffer for a wish; 0 wishes nothing.
pub(crate) fn buffer_bytes(wish: u32) -> usize {
    if wish == 0 { BUFFER_BYTES } else { (wish as usize).max(BUFFER_BYTES_MIN) }
}

impl Pipe {
    pub(crate) fn new(send_limit: usize, receive_limit: usize) -> Self {
        Self {
            bytes: VecDeque::new(),
            arrived: 0,
            flight_bytes: 0,
            flight: VecDeque::new(),
            send_limit,
            receive_limit,
            finish: Finish::No,
            last_arrival: 0,
            taken: Tally::default(),
            read: Tally::default(),
            discarded: 0,
        }
    }

    /// Bytes that the sender's buffer takes now. What is on the way stays in it.
    pub(crate) fn room(&self) -> usize {
        self.send_limit.saturating_sub(self.bytes.len() - self.arrived)
    }

    /// What the receiver's side has not taken: bytes in the sender's buffer, those on their way, and the end of the stream, which counts for one.
    pub(crate) fn untaken(&self) -> usize {
        let end = usize::from(matches!(self.finish, Finish::Asked | Finish::OnTheWay));
        self.bytes.len() - self.arrived + end
    }

    /// Bytes that nobody will read any more, of all that were taken from the sender: they were received, or are gone.
    pub(crate) fn passed(&self) -> u64 {
        self.read.bytes + self.discarded
    }

    /// Bytes that the receiver's side has acknowledged, of all that were taken from the sender.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.passed() + self.arrived as u64
    }

    /// Somebody writes to the pages of what has arrived, from one place of the stream to another: a planted bug has let him.
    pub(crate) fn overwrite(&mut self, places: Range<u64>) {
        let (passed, acknowledged) = (self.passed(), self.acknowledged());
        let [start, end] = [places.start, places.end].map(|place| (place.clamp(passed, acknowledged) - passed) as usize);
        self.bytes.range_mut(start..end).for_each(|byte| *byte = !*byte);
    }

    /// Bytes that have not left the sender's buffer.
    fn unsent(&self) -> usize {
        self.bytes.len() - self.arrived - self.flight_bytes
    }

    /// Whether a sender that found no room should try again: Linux waits for a third, so as not to wake for crumbs.
    pub(crate) fn is_writable(&self) -> bool {
        self.room() >= self.send_limit / 3
    }

    /// Bytes that can be received now.
    pub(crate) fn readable(&self) -> usize {
        self.arrived
    }

    /// Takes `bytes` from the sender, who meant `meant` (a planted bug makes the difference).
    pub(crate) fn put(&mut self, meant: &[u8], bytes: &[u8]) {
        self.taken.add(meant);
        let all = self.bytes.len() + bytes.len();
        if all >= PIECE_BYTES && all > self.bytes.capacity() {
            // As much as there ever is: growing by and by would copy all that is there again and again.
            self.bytes.reserve_exact((self.send_limit + self.receive_limit).max(all) - self.bytes.len());
        }
        self.bytes.extend(bytes);
    }

    /// The next piece to put on the way; its bytes are none if the window is shut.
    pub(crate) fn depart(&mut self) -> Option<Piece> {
        let piece = if self.unsent() == 0 {
            if self.finish != Finish::Asked {
                return None;
            }
            self.finish = Finish::OnTheWay;
            Piece::Finish
        } else {
            let bytes = self.departing_bytes()?;
            self.flight_bytes += bytes;
            Piece::Bytes(bytes)
        };
        self.flight.push_back(piece);
        Some(piece)
    }

    /// How many bytes may go now; small windows wait to grow (RFC 9293, section 3.8.6.2).
    fn departing_bytes(&self) -> Option<usize> {
        let window = self.receive_limit.saturating_sub(self.arrived + self.flight_bytes);
        let bytes = self.unsent().min(window).min(PIECE_BYTES);
        let worth_it = bytes == self.unsent() || bytes >= PIECE_BYTES.min(self.receive_limit / 2);
        (bytes > 0 && worth_it).then_some(bytes)
    }

    /// Whether anything is on the way.
    pub(crate) fn has_flight(&self) -> bool {
        !self.flight.is_empty()
    }

    /// Puts a reset on the way, behind what is there, and forgets what is not.
    pub(crate) fn depart_reset(&mut self) {
        self.discarded += self.unsent() as u64;
        self.bytes.truncate(self.arrived + self.flight_bytes);
        self.flight.push_back(Piece::Reset);
    }

    /// Lets the first piece arrive; its bytes are to be kept or refused.
    pub(crate) fn arrive(&mut self) -> Option<Piece> {
        self.flight.pop_front()
    }

    /// Puts the bytes of a piece that arrived into the receiver's buffer.
    pub(crate) fn keep(&mut self, bytes: usize) {
        self.flight_bytes -= bytes;
        self.arrived += bytes;
    }

    /// Forgets the bytes of a piece that arrived where nobody receives.
    pub(crate) fn refuse(&mut self, bytes: usize) {
        self.flight_bytes -= bytes;
        self.bytes.drain(self.arrived..self.arrived + bytes);
        self.discarded += bytes as u64;
    }

    /// Receives into `to`, which must not be longer than what has arrived.
    pub(crate) fn read(&mut self, to: &mut [u8]) {
        assert!(to.len() <= self.arrived);
        let (front, back) = self.bytes.as_slices();
        let first = front.len().min(to.len());
        let second = to.len() - first;
        to[..first].copy_from_slice(&front[..first]);
        to[first..].copy_from_slice(&back[..second]);
        self.bytes.drain(..to.len());
        self.arrived -= to.len();
        self.read.add(to);
    }

    /// Forgets what the receiver has not received: it is gone.
    pub(crate) fn discard_arrived(&mut self) {
        self.discarded += self.arrived as u64;
        self.bytes.drain(..self.arrived);
        self.arrived = 0;
    }

    /// Forgets what has not arrived: the connection is broken.
    pub(crate) fn discard_unarrived(&mut self) {
        self.discarded += (self.bytes.len() - self.arrived) as u64;
        self.bytes.truncate(self.arrived);
        self.flight.clear();
        self.flight_bytes = 0;
    }

    /// What should have left the pipe, and what has, if the two differ.
    pub(crate) fn imbalance(&self) -> Option<(u64, u64)> {
        let (read, taken) = (self.read.bytes, self.taken.bytes);
        let got = read + self.discarded + self.bytes.len() as u64;
        let differs = got != taken || (read == taken && self.read != self.taken);
        differs.then_some((taken, got))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn land(pipe: &mut Pipe) {
        while let Some(piece) = pipe.arrive() {
            if let Piece::Bytes(bytes) = piece {
                pipe.keep(bytes);
            }
        }
    }

    #[test]
    fn the_end_travels_behind_the_bytes() {
        let mut pipe = Pipe::new(4096, 4096);
        pipe.put(b"abc", b"abc");
        pipe.finish = Finish::Asked;
        assert_eq!(pipe.depart(), Some(Piece::Bytes(3)));
        assert_eq!(pipe.depart(), Some(Piece::Finish));
        assert_eq!(pipe.depart(), None);
    }

    #[test]
    fn what_a_planted_bug_changes_is_an_imbalance() {
        for changed in [&b"abd"[..], b"ab", b"abcd"] {
            let mut pipe = Pipe::new(4096, 4096);
            pipe.put(b"abc", changed);
            pipe.depart();
            land(&mut pipe);
            let mut got = vec![0; pipe.readable()];
            pipe.read(&mut got);
            assert!(got == changed && pipe.imbalance().is_some());
        }
    }

    #[test]
    fn what_is_written_to_shared_pages_is_read_changed() {
        let mut pipe = Pipe::new(4096, 4096);
        pipe.put(b"abcdef", b"abcdef");
        pipe.depart();
        land(&mut pipe);
        pipe.read(&mut [0; 2]);
        pipe.put(b"gh", b"gh");
        assert_eq!((pipe.passed(), pipe.acknowledged()), (2, 6));
        pipe.overwrite(1..4);
        let mut got = [0; 4];
        pipe.read(&mut got);
        assert_eq!((got, pipe.imbalance()), ([!b'c', !b'd', b'e', b'f'], None), "more is to come");
        pipe.overwrite(0..8);
        pipe.discard_arrived();
        assert_eq!((pipe.passed(), pipe.acknowledged()), (6, 6));
    }

    #[test]
    fn a_shut_window_holds_bytes_until_they_are_received() {
        let mut pipe = Pipe::new(64 << 10, 4096);
        pipe.put(&[7; 10_000], &[7; 10_000]);
        while pipe.depart().is_some() {}
        land(&mut pipe);
        assert_eq!((pipe.readable(), pipe.depart()), (4096, None));
        pipe.read(&mut [0; 100]);
        assert_eq!(pipe.depart(), None);
        pipe.read(&mut [0; 2000]);
        assert!(pipe.depart() == Some(Piece::Bytes(2100)));
        assert_eq!(pipe.imbalance(), None);
    }

    proptest! {
        /// Whatever the order of calls, bytes come out as they went in, and none is lost.
        #[test]
        fn bytes_come_out_as_they_went_in(steps in prop::collection::vec((0u8..4, 1usize..9_000), 1..200)) {
            let mut pipe = Pipe::new(20_000, 10_000);
            let (mut sent, mut got) = (Vec::new(), Vec::new());
            for (step, bytes) in steps {
                match step {
                    0 => {
                        let part: Vec<u8> = (0..bytes.min(pipe.room())).map(|index| (sent.len() + index) as u8).collect();
                        pipe.put(&part, &part);
                        sent.extend(part);
                    }
                    1 => drop(pipe.depart()),
                    2 => if let Some(Piece::Bytes(bytes)) = pipe.arrive() { pipe.keep(bytes) },
                    _ => {
                        let mut part = vec![0; bytes.min(pipe.readable())];
                        pipe.read(&mut part);
                        got.extend(part);
                    }
                }
                prop_assert_eq!(pipe.imbalance(), None);
                prop_assert!(sent.starts_with(&got));
            }
            pipe.discard_unarrived();
            pipe.discard_arrived();
            prop_assert_eq!(pipe.imbalance(), None);
        }
    }
}
