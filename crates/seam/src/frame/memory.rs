//! The memory of frames: where they come from, and how interfaces have them.

use super::region::{FrameCounts, FrameRegion};
use super::{Frame, FrameHome};
use crate::error::Error;
use crate::parcel::{Abroad, AbroadLimits, ParcelHome};
use crate::region::Region;
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

/// A region of frames of one size. Cloning gives another name of the same.
#[derive(Clone)]
pub struct FrameMemory(Rc<FrameRegion>);

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
        Ok(Self(Rc::new(FrameRegion::new(region, frames, frame_bytes))))
    }

    /// Lets frames travel to other lanes as [parcels](crate::parcel), which come home to `post`. `lane` is the number of the lane that the
    /// memory is of.
    ///
    /// # Panics
    /// If it was done before.
    pub fn open_abroad(&self, lane: u16, limits: AbroadLimits, post: &ParcelHome) {
        let is_first = self.0.open(Abroad::new(lane, self.frames() * self.frame_bytes(), limits));
        assert!(is_first, "a region is opened to other lanes once");
        post.serve(self.0.clone());
    }

    /// Whether this frame lies in it, so that [`FrameMemory::lend`] takes it.
    pub fn has(&self, frame: &Frame) -> bool {
        matches!(&frame.place, FrameHome::Own(held) if Rc::ptr_eq(&held.region, &self.0))
    }

    /// Bytes of each frame.
    pub fn frame_bytes(&self) -> usize {
        self.0.frame_bytes()
    }

    /// Frames of the whole region.
    pub fn frames(&self) -> usize {
        self.0.frames()
    }

    /// How many frames are where.
    pub fn counts(&self) -> FrameCounts {
        self.0.counts()
    }

    /// The region as address and length, for a driver that locks it and registers it with the kernel.
    pub fn region(&self) -> (NonNull<u8>, usize) {
        (self.0.base(), self.frames() * self.frame_bytes())
    }

    /// An empty frame with [`Frame::HEADROOM`]; none if all are in use.
    pub fn frame(&self) -> Option<Frame> {
        let index = self.0.take()?;
        Some(Frame::of_region(self.0.clone(), index, Frame::HEADROOM, 0))
    }

    /// Lends a frame to an interface, which names it by its number from now on; returns the number and where its data begins. The port's part.
    ///
    /// # Errors
    /// A frame of another region comes back: its bytes must be copied.
    pub fn lend(&self, frame: Frame) -> Result<(u32, usize), Frame> {
        if !self.has(&frame) {
            return Err(frame);
        }
        let Frame { place, start, .. } = frame;
        // reason: a frame that lies in this region is held by this lane.
        let FrameHome::Own(held) = place else { unreachable!("a frame of this region is the lane's own") };
        self.0.lend(held.index);
        Ok((held.pass_on(), start as usize))
    }

    /// Takes a frame back from the interface, with `length` bytes of data from `start`. The port's part.
    ///
    /// # Errors
    /// [`NotLent`] if the interface did not have it, or names what is none.
    pub fn take_back(&self, index: u32, start: usize, length: usize) -> Result<Frame, NotLent> {
        let fits = start.checked_add(length).is_some_and(|end| end <= self.frame_bytes());
        if !fits || !self.0.take_back(index) {
            return Err(NotLent { index });
        }
        Ok(Frame::of_region(self.0.clone(), index, start, length))
    }
}

impl fmt::Debug for FrameMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FrameMemory({} frames of {} bytes, {:?})", self.frames(), self.frame_bytes(), self.counts())
    }
}
