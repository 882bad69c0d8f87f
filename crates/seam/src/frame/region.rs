//! The region that frames lie in, and where each of them is.

use crate::instant::Instant;
use crate::parcel::{Abroad, AbroadCounts, Homeland, Parcel, ParcelRefused, Return};
use crate::region::Region;
use std::cell::RefCell;
use std::ptr::NonNull;

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

/// Frames of one size, of which each is at one place.
pub(super) struct FrameRegion {
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

impl FrameRegion {
    pub(super) fn new(region: Region, frames: usize, frame_bytes: usize) -> Self {
        let places = Places { at: vec![At::Free; frames], free: (0..frames as u32).rev().collect(), lent: 0, abroad: 0 };
        let (base, abroad) = (region.base(), RefCell::new(None));
        Self { region: Some(region), base, frame_bytes, places: RefCell::new(places), abroad }
    }

    /// Bytes of each frame.
    pub(super) fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    /// Frames of the whole region.
    pub(super) fn frames(&self) -> usize {
        self.places.borrow().at.len()
    }

    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(super) fn counts(&self) -> FrameCounts {
        self.places.borrow().counts()
    }

    /// Its frames may travel from now on; false if they might before.
    pub(super) fn open(&self, abroad: Abroad<u32>) -> bool {
        self.abroad.replace(Some(abroad)).is_none()
    }

    /// Takes the frame that was freed last; it is held.
    pub(super) fn take(&self) -> Option<u32> {
        self.places.borrow_mut().take()
    }

    /// A frame that is held is lent.
    pub(super) fn lend(&self, index: u32) {
        self.places.borrow_mut().go(index, At::Held, At::Lent);
    }

    /// A frame that is lent is held again; false if it is none.
    pub(super) fn take_back(&self, index: u32) -> bool {
        let mut places = self.places.borrow_mut();
        let is_lent = places.at.get(index as usize) == Some(&At::Lent);
        if is_lent {
            places.go(index, At::Lent, At::Held);
        }
        is_lent
    }

    pub(super) fn address(&self, index: u32) -> NonNull<u8> {
        // reason: it is taken out when the last name goes.
        let region = self.region.as_ref().expect("the region is there as long as a name of it");
        region.at(index as usize * self.frame_bytes)
    }

    pub(super) fn release(&self, index: u32) {
        self.places.borrow_mut().go(index, At::Held, At::Free);
    }

    /// Makes a parcel of a frame that is held; its place is abroad then.
    pub(super) fn parcel(&self, index: u32, to: usize, now: Instant) -> Result<Parcel, ParcelRefused> {
        // reason: lanes are at most 256.
        let to = u16::try_from(to).expect("a lane's number fits");
        let mut abroad = self.abroad.borrow_mut();
        let abroad = abroad.as_mut().ok_or(ParcelRefused::Closed)?;
        abroad.ask_to_leave(self.frame_bytes(), to, now)?;
        self.places.borrow_mut().go(index, At::Held, At::Abroad);
        let right = abroad.leave(index, self.frame_bytes(), to, now);
        Ok(Parcel::new(right, self.address(index), self.frame_bytes(), true))
    }
}

impl Homeland for FrameRegion {
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

impl Drop for FrameRegion {
    fn drop(&mut self) {
        // reason: only this takes it, and only once.
        let region = self.region.take().expect("a region is given up once");
        if let Some(abroad) = self.abroad.take() {
            abroad.end(region);
        }
    }
}
