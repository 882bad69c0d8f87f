//! Frames: packets as they lie on the wire, in memory of a region of its own beside the arena.
//!
//! A [`FrameMemory`] is one aligned region, made on the lane's own thread after pinning, cut into frames of one size. A port's driver may lock
//! it and register it with the kernel ([`FrameMemory::region`]). Each frame is at one place at a time, and every change of place is asserted:
//!
//! ```text
//! free --frame()--> held by the lane --lend--> lent to an interface --take_back--> held --drop--> free
//!                   held by the lane --parcel--> abroad --comes home--> free
//! ```
//!
//! A [`Frame`] is the right to one of them, to read and to write: nobody else has it. One that has arrived as a parcel of another lane is a
//! frame as any other, which goes home when it is dropped, or when the port that has sent it releases it.
//!
//! Holds a marked cell: a frame reads and writes its bytes through a pointer.
#![allow(unsafe_code)]

mod facts;
mod memory;
mod region;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use facts::{Checksum, FrameFacts, FrameHash, VlanTag};
pub use memory::{FRAME_BYTES_LEAST, FRAME_BYTES_MAX, FRAMES_MAX, FrameMemory, NotLent};
pub use region::FrameCounts;

use region::FrameRegion;

use crate::instant::Instant;
use crate::parcel::{Guest, Guests, Parcel, ParcelRefused};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::rc::Rc;

/// Where a frame's memory is.
enum FrameHome {
    /// In this lane's region.
    Own(Held),
    /// In another lane's.
    Abroad(Guest),
    /// It has none, and no bytes.
    Nowhere,
}

/// The right to a frame of this lane's; it is free when this is dropped.
struct Held {
    region: Rc<FrameRegion>,
    index: u32,
    /// Where the frame's memory begins: kept, for its bytes are looked at many times.
    base: NonNull<u8>,
}

impl Held {
    /// Gives the right up: somebody else has it now.
    fn pass_on(self) -> u32 {
        let Self { region, index, .. } = &*ManuallyDrop::new(self);
        // SAFETY: the value is not used again, nor dropped, so its name of the region is dropped once, here.
        drop(unsafe { std::ptr::read(region) });
        *index
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.region.release(self.index);
    }
}

/// One packet as it lies on the wire, or a part of one that is longer than a frame ([`FrameFacts::continues`]), and the exclusive right to its memory.
pub struct Frame {
    place: FrameHome,
    start: u32,
    length: u32,
    /// Facts that its source told.
    pub facts: FrameFacts,
}

impl Frame {
    /// Bytes that a new frame has in front of its data, for headers that are added there: as many as AF_XDP leaves in front of what it receives (`XDP_PACKET_HEADROOM`), so
    /// that a packet is written where one was received, into memory that is still near.
    pub const HEADROOM: usize = 256;

    /// The packets that these frames are, in order: each goes on as long as its frames [continue](FrameFacts::continues), and the last may be cut short.
    pub fn packets(frames: &[Self]) -> impl Iterator<Item = &[Self]> {
        frames.chunk_by(Self::goes_on)
    }

    /// The same, to be changed.
    pub fn packets_mut(frames: &mut [Self]) -> impl Iterator<Item = &mut [Self]> {
        frames.chunk_by_mut(Self::goes_on)
    }

    fn goes_on(&self, _next: &Self) -> bool {
        self.facts.continues
    }

    fn of_region(region: Rc<FrameRegion>, index: u32, start: usize, length: usize) -> Self {
        assert!(start + length <= region.frame_bytes(), "a packet lies within its frame");
        let (facts, base) = (FrameFacts::default(), region.address(index));
        Self { place: FrameHome::Own(Held { region, index, base }), start: start as u32, length: length as u32, facts }
    }

    /// A frame that another lane has sent ([`Frame::parcel`]).
    pub fn arrived(guests: &Guests, sent: FrameParcel) -> Self {
        let FrameParcel { parcel, start, length, facts } = sent;
        assert!((start + length) as usize <= parcel.len(), "a packet lies within its frame");
        Self { place: FrameHome::Abroad(guests.admit(parcel)), start, length, facts }
    }

    /// Makes a parcel of the frame, for lane `to`; `now` is the time of this turn. One that has itself arrived from elsewhere
    /// does not travel on.
    ///
    /// # Errors
    /// The frame comes back, with why it may not travel.
    pub fn parcel(self, to: usize, now: Instant) -> Result<FrameParcel, (Self, ParcelRefused)> {
        let Self { place, start, length, facts } = self;
        let sent = match &place {
            FrameHome::Own(held) => held.region.parcel(held.index, to, now),
            FrameHome::Abroad(_) | FrameHome::Nowhere => Err(ParcelRefused::Closed),
        };
        match (sent, place) {
            (Ok(parcel), FrameHome::Own(held)) => {
                held.pass_on();
                Ok(FrameParcel { parcel, start, length, facts })
            }
            (Ok(_), _) => unreachable!("only what is of this lane's region travels"),
            (Err(refused), place) => Err((Self { place, start, length, facts }, refused)),
        }
    }

    /// Bytes of the frame's whole memory.
    pub fn capacity(&self) -> usize {
        match &self.place {
            FrameHome::Own(held) => held.region.frame_bytes(),
            FrameHome::Abroad(guest) => guest.len(),
            FrameHome::Nowhere => 0,
        }
    }

    /// Bytes that fit behind the data.
    pub fn room(&self) -> usize {
        self.capacity() - (self.start + self.length) as usize
    }

    /// Bytes that fit in front of the data.
    pub fn headroom(&self) -> usize {
        self.start as usize
    }

    /// Appends `bytes`.
    ///
    /// # Panics
    /// If they do not fit: check [`Frame::room`] first.
    pub fn append(&mut self, bytes: &[u8]) {
        let length = self.len();
        self.set_length(length + bytes.len());
        self[length..].copy_from_slice(bytes);
    }

    /// Puts `bytes` in front of the data, into the headroom.
    ///
    /// # Panics
    /// If they do not fit: check [`Frame::headroom`] first.
    pub fn prepend(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.headroom(), "{} bytes in front, {} fit", bytes.len(), self.headroom());
        self.start -= bytes.len() as u32;
        self.length += bytes.len() as u32;
        self[..bytes.len()].copy_from_slice(bytes);
    }

    /// Drops the first `bytes` from the data: they become headroom.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn skip(&mut self, bytes: usize) {
        assert!(bytes <= self.len(), "{bytes} bytes skipped of {}", self.len());
        self.start += bytes as u32;
        self.length -= bytes as u32;
    }

    /// Makes the data so long; what is new holds whatever lies there.
    ///
    /// # Panics
    /// If that is more than fits.
    pub fn set_length(&mut self, length: usize) {
        assert!(length <= self.len() + self.room(), "{length} bytes in a frame with {} of room", self.room());
        self.length = length as u32;
    }

    /// Whether its memory is another lane's.
    pub fn is_abroad(&self) -> bool {
        matches!(self.place, FrameHome::Abroad(_))
    }
}

/// A frame without memory: nothing fits into it. It stands where another was taken out.
impl Default for Frame {
    fn default() -> Self {
        Self { place: FrameHome::Nowhere, start: 0, length: 0, facts: FrameFacts::default() }
    }
}

impl Deref for Frame {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        let range = self.start as usize..(self.start + self.length) as usize;
        match &self.place {
            // SAFETY: the frame is this value's alone, zeroed at creation, and the range lies within it.
            FrameHome::Own(held) => unsafe { std::slice::from_raw_parts(held.base.add(range.start).as_ptr(), range.len()) },
            FrameHome::Abroad(guest) => &guest[range],
            FrameHome::Nowhere => &[],
        }
    }
}

impl DerefMut for Frame {
    fn deref_mut(&mut self) -> &mut [u8] {
        let range = self.start as usize..(self.start + self.length) as usize;
        match &mut self.place {
            // SAFETY: as for `deref`, and `self` is borrowed exclusively.
            FrameHome::Own(held) => unsafe { std::slice::from_raw_parts_mut(held.base.add(range.start).as_ptr(), range.len()) },
            // reason: a frame never clones its guest, and its parcel is exclusive.
            FrameHome::Abroad(guest) => &mut guest.bytes_mut().expect("a frame is the only view of its parcel")[range],
            FrameHome::Nowhere => &mut [],
        }
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({} of {} bytes)", self.length, self.capacity())
    }
}

/// A frame on its way to another lane.
#[derive(Debug)]
pub struct FrameParcel {
    parcel: Parcel,
    start: u32,
    length: u32,
    /// Facts that its source told.
    pub facts: FrameFacts,
}

impl FrameParcel {
    /// The lane that is its home.
    pub fn home(&self) -> usize {
        self.parcel.home()
    }

    /// The packet.
    pub fn bytes(&self) -> &[u8] {
        &self.parcel[self.start as usize..(self.start + self.length) as usize]
    }
}
