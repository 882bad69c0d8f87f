//! Ports whose calls copy each packet: a tap and a packet socket. What is copied is released at once. A packet that is longer than a frame lies in several.

use crate::errors::Error;
use crate::link::{DOWN, GONE, TAG_BYTES, Watch};
use crate::outgoing::{self, PIECES_MAX, pieces, settle};
use corelane_os::errno::{self, would_block};
use corelane_seam::{Checksum, Fault, Frame, FrameMemory, Lost, Port, PortFacts, PortKind, PortState, Taken};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};

/// What one call brought.
pub enum Received {
    /// A packet of so many bytes.
    Packet {
        /// Its bytes.
        length: usize,
    },
    /// A packet longer than the frames; it is lost.
    TooLong,
    /// One of no interest.
    Nothing,
}

/// The calls of one kind.
pub trait Calls: fmt::Debug {
    /// What it is.
    const KIND: PortKind;
    /// Errors that say that the interface is down.
    const DOWN: &[i32];
    /// Errors that say that it is gone.
    const GONE: &[i32];

    /// What becomes readable and writable.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Receives one packet into the frames, whose data is all of their room and of which there are at most 17; notes what is known of the
    /// packet in the facts of the first: its time by the lane's clock, too, if that is known; a checksum that is only partly there is completed.
    ///
    /// # Errors
    /// The system's number; `EAGAIN` if there is none.
    fn receive(&mut self, frames: &mut [Frame]) -> Result<Received, i32>;

    /// Sends one packet, which lies in at most 17 frames.
    ///
    /// # Errors
    /// The system's number; `EAGAIN` if there is no room, `EINVAL` and `EMSGSIZE` for what is never taken.
    fn send(&mut self, packet: &[Frame]) -> Result<(), i32>;

    /// Packets that the kernel has lost since this was asked last, because nobody took those before them; 0 where it does not say.
    ///
    /// # Errors
    /// The system's number.
    fn overflowed(&mut self) -> Result<u64, i32> {
        Ok(0)
    }

    /// Packets that the interface took to be sent, and lost, since this was made.
    fn send_lost(&self) -> u64 {
        0
    }
}

/// A port of such calls.
#[derive(Debug)]
pub struct CopyingPort<C: Calls> {
    calls: C,
    /// It is at the other end of the interface's wire.
    is_far: bool,
    queue: u32,
    watch: Watch,
    memory: FrameMemory,
    /// Frames that the longest packet takes.
    pieces: usize,
    /// Storage of frames to be received into, empty between calls.
    blank: Vec<Frame>,
    has_more: bool,
    taken: u64,
    too_long: u64,
    overflowed: u64,
    /// Frames that nobody was at the other end for.
    unheard: u64,
}

impl<C: Calls> CopyingPort<C> {
    /// A port of the watched interface, or of the other end of its wire, whose link-layer address differs in the lowest bit of its last byte.
    ///
    /// # Errors
    /// [`Error::FrameShort`] if a packet may be longer than 17 frames.
    pub(crate) fn new(calls: C, is_far: bool, queue: u32, watch: Watch, memory: FrameMemory) -> Result<Self, Error> {
        let interface = watch.interface();
        let (needed, room) = (interface.frame_bytes_max() + TAG_BYTES, memory.frame_bytes() - Frame::HEADROOM);
        let pieces = pieces(needed, room);
        if pieces > PIECES_MAX {
            return Err(Error::FrameShort { name: interface.name.clone(), needed, got: room * PIECES_MAX });
        }
        let blank = Vec::with_capacity(pieces);
        let (has_more, [taken, too_long, overflowed, unheard]) = (true, [0; 4]);
        Ok(Self { calls, is_far, queue, watch, memory, pieces, blank, has_more, taken, too_long, overflowed, unheard })
    }

    /// Packets that were lost because they are longer than what the interface had when the port was opened, and its MTU was raised; or because they
    /// need more frames than a receive was for.
    pub fn too_long(&self) -> u64 {
        self.too_long
    }

    /// Whether there are frames for the longest packet.
    fn has_frames(&self) -> bool {
        self.memory.counts().free >= self.pieces
    }

    /// Receives the next packet, which may take `left` frames; false if there is none, or there are no frames for it.
    fn receive_one(&mut self, now: u64, left: usize, into: &mut Vec<Frame>) -> Result<bool, Fault> {
        if !self.has_frames() {
            return Ok(false);
        }
        let mut frames = std::mem::take(&mut self.blank);
        frames.extend(std::iter::from_fn(|| self.memory.frame()).take(self.pieces));
        frames.iter_mut().for_each(|frame| frame.set_length(frame.room()));
        let (received, before) = (self.calls.receive(&mut frames), into.len());
        let is_handed_over = match received {
            Ok(Received::Packet { length }) => hand_over(now, length, left, &mut frames, into),
            _ => false,
        };
        frames.clear();
        self.blank = frames;
        complete(&mut into[before..]);
        match received {
            Ok(Received::Packet { .. } | Received::TooLong) => self.too_long += u64::from(!is_handed_over),
            Ok(Received::Nothing) | Err(libc::EINTR) => {}
            Err(number) if would_block(number) => {
                self.has_more = false;
                return Ok(false);
            }
            Err(number) => return Err(self.told(number)),
        }
        Ok(true)
    }

    /// What the number says of the interface. That it is down may be over by now, so it is told once; the news say whether it lasts.
    fn told(&mut self, number: i32) -> Fault {
        match number {
            number if C::DOWN.contains(&number) => DOWN,
            number if C::GONE.contains(&number) => {
                self.watch.note_gone();
                GONE
            }
            number => errno::fault(number),
        }
    }

    /// Sends frames in order; returns how many were worked off, and why no more.
    fn send_each(&mut self, frames: &mut [Frame], counts: &mut Taken) -> (usize, Option<Fault>) {
        let most = self.watch.interface().frame_bytes_max() + TAG_BYTES;
        let mut done = 0;
        for packet in Frame::packets_mut(frames) {
            let sent = if settle(packet, most, PIECES_MAX) { self.calls.send(packet) } else { Err(libc::EINVAL) };
            match sent {
                Ok(()) => counts.taken += packet.len() as u64,
                Err(libc::EINVAL | libc::EMSGSIZE) => counts.refused += packet.len() as u64,
                Err(number) if would_block(number) || number == libc::EINTR => return (done, None),
                Err(number) => return (done, Some(self.told(number))),
            }
            done += packet.len();
        }
        (done, None)
    }
}

/// Moves a packet of `length` bytes out of the frames that it was received into, if it lies in at most `left` of them.
fn hand_over(now: u64, length: usize, left: usize, frames: &mut Vec<Frame>, into: &mut Vec<Frame>) -> bool {
    let pieces = outgoing::pieces(length, frames[0].len());
    if pieces > left {
        return false;
    }
    let time = &mut frames[0].facts.time;
    *time = if *time == 0 { now } else { now.min(*time) };
    let mut rest = length;
    for mut frame in frames.drain(..pieces) {
        frame.set_length(rest.min(frame.len()));
        rest -= frame.len();
        frame.facts.continues = rest > 0;
        into.push(frame);
    }
    assert!(rest == 0, "{length} bytes lie in {pieces} frames");
    true
}

/// Computes a checksum that the kernel has left to whoever reads the packet, so that its bytes are those of the wire.
fn complete(packet: &mut [Frame]) {
    if packet.first().is_some_and(|first| matches!(first.facts.checksum, Checksum::Partial { .. })) && !outgoing::sum(packet) {
        packet[0].facts.checksum = Checksum::Unknown;
    }
}

/// Where a packet lies, for calls that take more than one place; and in how many of these.
pub(crate) type Places = ([libc::iovec; PIECES_MAX + 1], usize);

fn listed(found: impl ExactSizeIterator<Item = (*mut u8, usize)>) -> Places {
    let count = found.len();
    assert!(count <= PIECES_MAX, "a packet lies in few frames");
    let mut places = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; PIECES_MAX + 1];
    for (place, (start, length)) in places.iter_mut().zip(found) {
        *place = libc::iovec { iov_base: start.cast(), iov_len: length };
    }
    (places, count)
}

/// The places of a packet that is to be read.
pub(crate) fn places(packet: &[Frame]) -> Places {
    listed(packet.iter().map(|frame| (frame.as_ptr().cast_mut(), frame.len())))
}

/// Those of one that is to be written; one place is left behind them.
pub(crate) fn places_to_write(frames: &mut [Frame]) -> Places {
    listed(frames.iter_mut().map(|frame| (frame.as_mut_ptr(), frame.len())))
}

impl<C: Calls> Port for CopyingPort<C> {
    fn facts(&self) -> PortFacts {
        let frame_bytes_max = self.watch.interface().frame_bytes_max();
        let mut link = self.watch.interface().link;
        link.mac[5] ^= u8::from(self.is_far);
        // The kernel says of each packet whether its checksum was left out.
        PortFacts { link, queue: self.queue, frame_bytes_max, pieces_max: PIECES_MAX, kind: C::KIND, leaves_sums: false }
    }

    fn memory(&self) -> &FrameMemory {
        &self.memory
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.calls.descriptor())
    }

    fn news(&self) -> Option<BorrowedFd<'_>> {
        Some(self.watch.as_fd())
    }

    fn take_news(&mut self) {
        self.watch.take();
    }

    fn state(&self) -> PortState {
        self.watch.state()
    }

    fn has_more(&self) -> bool {
        (self.has_more && self.has_frames()) || self.watch.fault().is_some()
    }

    fn receive(&mut self, now: u64, at_most: usize, into: &mut Vec<Frame>) -> Result<(), Fault> {
        self.has_more = true;
        let first = into.len();
        loop {
            let left = at_most - (into.len() - first);
            // A batch that has packets ends in front of one that might not fit.
            let is_full = left == 0 || (left < self.pieces && into.len() > first);
            if is_full || !self.receive_one(now, left, into)? {
                break;
            }
        }
        match if into.len() == first { self.watch.fault_now() } else { None } {
            Some(fault) => Err(fault),
            None => Ok(()),
        }
    }

    fn send(&mut self, _now: u64, frames: &mut Vec<Frame>) -> Result<Taken, Fault> {
        if let Some(fault) = self.watch.fault_now() {
            return Err(fault);
        }
        if self.watch.state() == PortState::NoCarrier {
            // The kernel would take them, and tell nobody that it drops them.
            let refused = frames.drain(..).count() as u64;
            self.unheard += refused;
            return Ok(Taken { taken: 0, refused });
        }
        let mut counts = Taken::default();
        let (done, fault) = self.send_each(frames, &mut counts);
        frames.drain(..done);
        self.taken += counts.taken;
        match fault.filter(|_| done == 0) {
            Some(fault) => Err(fault),
            None => Ok(counts),
        }
    }

    fn lost(&mut self) -> Lost {
        // What is not told now is told by the next call.
        self.overflowed += self.calls.overflowed().unwrap_or_default();
        let send_lost = self.calls.send_lost() + self.unheard;
        Lost { no_frame: 0, ring_full: self.overflowed, too_long: self.too_long, send_lost }
    }

    /// The call has copied it.
    fn released(&mut self, _now: u64) -> u64 {
        self.taken
    }
}
