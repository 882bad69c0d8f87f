//! The region that frames lie in, and where each of them is.

use super::{Frame, FrameHome};
use crate::error::Error;
use crate::instant::Instant;
use crate::parcel::{Abroad, AbroadCounts, AbroadLimits, Homeland, Parcel, ParcelRefused, Post, Return};
use crate::region::Region;
use std::cell::RefCell;
use std::fmt;
use std::ptr::NonNull;
use std::rc::Rc;

/// Bytes of the smallest frame: what the kernel's AF_XDP takes at the least (`XDP_UMEM_MIN_CHUNK_SIZE`).
pub const FRAME_BYTES_LEAST: usize = 2048;
/// Bytes of the largest frame.
pub const FRAME_BYTES_MAX: usize = 64 << 10;
/// Most frames of one region.
pub const FRAMES_MAX: usize = 1 << 20;
/// The alignment of a region, in bytes: a page's, as the kernel asks for.
const ALIGNMENT: usize = 4096;

/// Where a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Free,
    Held,
    Lent,
    Abroad,
}

/// How many frames are where; together they are all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCounts {
    /// To be had.
    pub free: usize,
    /// With the lane.
    pub held: usize,
    /// With an interface.
    pub lent: usize,
    /// With other lanes.
    pub abroad: usize,
}

/// An interface gave back what it did not have: a driver's or the kernel's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotLent {
    /// The frame's number.
    pub index: u32,
}

impl fmt::Display for NotLent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an interface gave frame {} back, which it did not have: close the port", self.index)
    }
}

impl std::error::Error for NotLent {}

struct Inner {
    /// Taken out when the memory ends, and only then.
    region: Option<Region>,
    base: NonNull<u8>,
    frame_bytes: usize,
    places: RefCell<Places>,
    abroad: RefCell<Option<Abroad<u32>>>,
}

struct Places {
    at: Vec<At>,
    /// The frame that was freed last is taken first.
    free: Vec<u32>,
    lent: usize,
    abroad: usize,
}

impl Places {
    fn go(&mut self, index: u32, from: At, to: At) {
        let at = std::mem::replace(&mut self.at[index as usize], to);
        assert!(at == from, "frame {index} is {at:?}, not {from:?}");
        match from {
            At::Lent => self.lent -= 1,
            At::Abroad => self.abroad -= 1,
            At::Free => unreachable!("a free frame is taken out of the list of those"),
            At::Held => {}
        }
        match to {
            At::Free => self.free.push(index),
            At::Lent => self.lent += 1,
            At::Abroad => self.abroad += 1,
            At::Held => {}
        }
    }

    /// Takes the frame that was freed last.
    fn take(&mut self) -> Option<u32> {
        let index = self.free.pop()?;
        let at = std::mem::replace(&mut self.at[index as usize], At::Held);
        assert!(at == At::Free, "frame {index} in the list of free ones is {at:?}");
        Some(index)
    }

    fn counts(&self) -> FrameCounts {
        let (free, lent, abroad) = (self.free.len(), self.lent, self.abroad);
        let elsewhere = free + lent + abroad;
        assert!(elsewhere <= self.at.len(), "{free} free, {lent} lent, {abroad} abroad: together they are no more than all");
        FrameCounts { free, held: self.at.len() - elsewhere, lent, abroad }
    }
}

/// A region of frames of one size. Cloning gives another name of the same.
#[derive(Clone)]
pub struct FrameMemory(Rc<Inner>);

impl FrameMemory {
    /// Reserves `frames` of `frame_bytes` each, a power of two from 2 KiB to 64 KiB.
    ///
    /// # Errors
    /// [`Error::FrameSize`] and [`Error::FrameCount`] outside of the limits, [`Error::ArenaRefused`] if the system does not give the memory.
    pub fn new(frames: usize, frame_bytes: usize) -> Result<Self, Error> {
        if !frame_bytes.is_power_of_two() || !(FRAME_BYTES_LEAST..=FRAME_BYTES_MAX).contains(&frame_bytes) {
            return Err(Error::FrameSize { got: frame_bytes });
        }
        if frames == 0 || frames > FRAMES_MAX {
            return Err(Error::FrameCount { got: frames, most: FRAMES_MAX });
        }
        let region = Region::new(frames * frame_bytes, ALIGNMENT)?;
        let places = Places { at: vec![At::Free; frames], free: (0..frames as u32).rev().collect(), lent: 0, abroad: 0 };
        let (base, abroad) = (region.base(), RefCell::new(None));
        Ok(Self(Rc::new(Inner { region: Some(region), base, frame_bytes, places: RefCell::new(places), abroad })))
    }

    /// Lets frames travel to other lanes as [parcels](crate::parcel), which come home to `post`. `lane` is the number of the lane that the
    /// memory is of.
    ///
    /// # Panics
    /// If it was done before.
    pub fn open_abroad(&self, lane: u16, limits: AbroadLimits, post: &Post) {
        let before = self.0.abroad.replace(Some(Abroad::new(lane, self.frames() * self.frame_bytes(), limits)));
        assert!(before.is_none(), "a region is opened to other lanes once");
        post.serve(self.0.clone());
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// Bytes of each frame.
    pub fn frame_bytes(&self) -> usize {
        self.0.frame_bytes
    }

    /// Frames of the whole region.
    pub fn frames(&self) -> usize {
        self.0.places.borrow().at.len()
    }

    /// How many frames are where.
    pub fn counts(&self) -> FrameCounts {
        self.0.places.borrow().counts()
    }

    /// The region as address and length, for a driver that locks it and registers it with the kernel.
    pub fn region(&self) -> (NonNull<u8>, usize) {
        (self.0.base, self.frames() * self.frame_bytes())
    }

    /// An empty frame with [`Frame::HEADROOM`]; none if all are in use.
    pub fn frame(&self) -> Option<Frame> {
        let index = self.0.places.borrow_mut().take()?;
        Some(Frame::of_memory(self.clone(), index, Frame::HEADROOM, 0))
    }

    /// Lends a frame to an interface, which names it by its number from now on; returns the number and where its data begins. The port's part.
    ///
    /// # Errors
    /// A frame of another region comes back: its bytes must be copied.
    pub fn lend(&self, frame: Frame) -> Result<(u32, usize), Frame> {
        let Frame { place, start, length, facts } = frame;
        match place {
            FrameHome::Own(held) if held.memory.is(self) => {
                self.0.places.borrow_mut().go(held.index, At::Held, At::Lent);
                Ok((held.pass_on(), start as usize))
            }
            place => Err(Frame { place, start, length, facts }),
        }
    }

    /// Takes a frame back from the interface, with `length` bytes of data from `start`. The port's part.
    ///
    /// # Errors
    /// [`NotLent`] if the interface did not have it, or names what is none.
    pub fn take_back(&self, index: u32, start: usize, length: usize) -> Result<Frame, NotLent> {
        let mut places = self.0.places.borrow_mut();
        let is_lent = places.at.get(index as usize) == Some(&At::Lent);
        if !is_lent || start.checked_add(length).is_none_or(|end| end > self.frame_bytes()) {
            return Err(NotLent { index });
        }
        places.go(index, At::Lent, At::Held);
        drop(places);
        Ok(Frame::of_memory(self.clone(), index, start, length))
    }

    pub(super) fn address(&self, index: u32) -> NonNull<u8> {
        // reason: it is taken out when the last name goes.
        let region = self.0.region.as_ref().expect("the region is there as long as a name of it");
        region.at(index as usize * self.0.frame_bytes)
    }

    pub(super) fn release(&self, index: u32) {
        self.0.places.borrow_mut().go(index, At::Held, At::Free);
    }

    /// Makes a parcel of a frame that is held; its place is abroad then.
    pub(super) fn parcel(&self, index: u32, to: usize, now: Instant) -> Result<Parcel, ParcelRefused> {
        // reason: lanes are at most 256.
        let to = u16::try_from(to).expect("a lane's number fits");
        let mut abroad = self.0.abroad.borrow_mut();
        let abroad = abroad.as_mut().ok_or(ParcelRefused::Closed)?;
        abroad.ask_to_leave(self.frame_bytes(), to, now)?;
        self.0.places.borrow_mut().go(index, At::Held, At::Abroad);
        let right = abroad.leave(index, self.frame_bytes(), to, now);
        Ok(Parcel::new(right, self.address(index), self.frame_bytes(), true))
    }
}

impl Homeland for Inner {
    fn come_home(&self, right: Return) -> Result<(), Return> {
        let mut abroad = self.abroad.borrow_mut();
        let Some(abroad) = abroad.as_mut() else { return Err(right) };
        let index = abroad.come_home(right)?;
        self.places.borrow_mut().go(index, At::Abroad, At::Free);
        Ok(())
    }

    fn find_lost(&self) {
        if let Some(abroad) = self.abroad.borrow_mut().as_mut() {
            abroad.find(|index| self.places.borrow_mut().go(index, At::Abroad, At::Free));
        }
    }

    fn counts(&self, now: Instant) -> AbroadCounts {
        self.abroad.borrow().as_ref().map_or(AbroadCounts::default(), |abroad| abroad.counts(now))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // reason: only this takes it, and only once.
        let region = self.region.take().expect("a region is given up once");
        if let Some(abroad) = self.abroad.take() {
            abroad.end(region);
        }
    }
}

impl fmt::Debug for FrameMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FrameMemory({} frames of {} bytes, {:?})", self.frames(), self.frame_bytes(), self.counts())
    }
}
