//! One direction of a connection: the sender's buffer, what is on the way, the receiver's buffer.

use crate::check::Tally;
use std::collections::VecDeque;

/// Buffers of a socket that asks for none, in bytes each way.
const BUFFER_BYTES: usize = 128 << 10;
/// The least that a buffer holds, whatever is asked for.
const BUFFER_BYTES_MIN: usize = 2 << 10;
/// The most bytes that travel as one piece.
const PIECE_BYTES: usize = 16 << 10;

/// What travels.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Bytes(Vec<u8>),
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
    unsent: VecDeque<u8>,
    flight: VecDeque<Piece>,
    flight_bytes: usize,
    arrived: VecDeque<u8>,
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
            unsent: VecDeque::new(),
            flight: VecDeque::new(),
            flight_bytes: 0,
            arrived: VecDeque::new(),
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
        self.send_limit.saturating_sub(self.unsent.len() + self.flight_bytes)
    }

    /// Whether a sender that found no room should try again: Linux waits for a third, so as not to wake for crumbs.
    pub(crate) fn is_writable(&self) -> bool {
        self.room() >= self.send_limit / 3
    }

    /// Bytes that can be received now.
    pub(crate) fn readable(&self) -> usize {
        self.arrived.len()
    }

    /// Takes `bytes` from the sender, who meant `meant` (a planted bug makes the difference).
    pub(crate) fn put(&mut self, meant: &[u8], bytes: &[u8]) {
        self.taken.add(meant);
        self.unsent.extend(bytes);
    }

    /// The next piece to put on the way; its bytes are none if the window is shut.
    pub(crate) fn depart(&mut self) -> Option<&Piece> {
        let piece = if self.unsent.is_empty() {
            if self.finish != Finish::Asked {
                return None;
            }
            self.finish = Finish::OnTheWay;
            Piece::Finish
        } else {
            let bytes = self.departing_bytes()?;
            self.flight_bytes += bytes;
            Piece::Bytes(self.unsent.drain(..bytes).collect())
        };
        self.flight.push_back(piece);
        self.flight.back()
    }

    /// How many bytes may go now; small windows wait to grow (RFC 9293, section 3.8.6.2).
    fn departing_bytes(&self) -> Option<usize> {
        let window = self.receive_limit.saturating_sub(self.arrived.len() + self.flight_bytes);
        let bytes = self.unsent.len().min(window).min(PIECE_BYTES);
        let worth_it = bytes == self.unsent.len() || bytes >= PIECE_BYTES.min(self.receive_limit / 2);
        (bytes > 0 && worth_it).then_some(bytes)
    }

    /// Whether anything is on the way.
    pub(crate) fn has_flight(&self) -> bool {
        !self.flight.is_empty()
    }

    /// Puts a reset on the way, behind what is there, and forgets what is not.
    pub(crate) fn depart_reset(&mut self) {
        self.discarded += self.unsent.len() as u64;
        self.unsent.clear();
        self.flight.push_back(Piece::Reset);
    }

    /// Lets the first piece arrive; its bytes are not yet in the receiver's buffer.
    pub(crate) fn arrive(&mut self) -> Option<Piece> {
        let piece = self.flight.pop_front()?;
        if let Piece::Bytes(bytes) = &piece {
            self.flight_bytes -= bytes.len();
        }
        Some(piece)
    }

    /// Puts bytes into the receiver's buffer.
    pub(crate) fn keep(&mut self, bytes: &[u8]) {
        self.arrived.extend(bytes);
    }

    /// Counts bytes that arrived where nobody receives.
    pub(crate) fn refuse(&mut self, bytes: usize) {
        self.discarded += bytes as u64;
    }

    /// Receives into `to`, which must not be longer than what has arrived.
    pub(crate) fn read(&mut self, to: &mut [u8]) {
        assert!(to.len() <= self.arrived.len());
        let (front, back) = self.arrived.as_slices();
        let first = front.len().min(to.len());
        let second = to.len() - first;
        to[..first].copy_from_slice(&front[..first]);
        to[first..].copy_from_slice(&back[..second]);
        self.arrived.drain(..to.len());
        self.read.add(to);
    }

    /// Forgets what the receiver has not received: it is gone.
    pub(crate) fn discard_arrived(&mut self) {
        self.discarded += self.arrived.len() as u64;
        self.arrived.clear();
    }

    /// Forgets what has not arrived: the connection is broken.
    pub(crate) fn discard_unarrived(&mut self) {
        self.discarded += (self.unsent.len() + self.flight_bytes) as u64;
        self.unsent.clear();
        self.flight.clear();
        self.flight_bytes = 0;
    }

    /// What should have left the pipe, and what has, if the two differ.
    pub(crate) fn imbalance(&self) -> Option<(u64, u64)> {
        let inside = (self.unsent.len() + self.flight_bytes + self.arrived.len()) as u64;
        let got = self.read.bytes + self.discarded + inside;
        let differs = got != self.taken.bytes || (self.read.bytes == self.taken.bytes && self.read != self.taken);
        differs.then_some((self.taken.bytes, got))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn land(pipe: &mut Pipe) {
        while let Some(piece) = pipe.arrive() {
            if let Piece::Bytes(bytes) = piece {
                pipe.keep(&bytes);
            }
        }
    }

    #[test]
    fn the_end_travels_behind_the_bytes() {
        let mut pipe = Pipe::new(4096, 4096);
        pipe.put(b"abc", b"abc");
        pipe.finish = Finish::Asked;
        assert_eq!(pipe.depart(), Some(&Piece::Bytes(b"abc".to_vec())));
        assert_eq!(pipe.depart(), Some(&Piece::Finish));
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
    fn a_shut_window_holds_bytes_until_they_are_received() {
        let mut pipe = Pipe::new(64 << 10, 4096);
        pipe.put(&[7; 10_000], &[7; 10_000]);
        while pipe.depart().is_some() {}
        land(&mut pipe);
        assert_eq!((pipe.readable(), pipe.depart()), (4096, None));
        pipe.read(&mut [0; 100]);
        assert_eq!(pipe.depart(), None);
        pipe.read(&mut [0; 2000]);
        assert!(matches!(pipe.depart(), Some(Piece::Bytes(bytes)) if bytes.len() == 2100));
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
                    2 => if let Some(Piece::Bytes(bytes)) = pipe.arrive() { pipe.keep(&bytes) },
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
