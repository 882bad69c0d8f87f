//! The parcels of a lane's memory that are abroad: which, since when, how much.

use super::home::{HomeOwner, Return};
use super::{AbroadCounts, AbroadLimits, ParcelRefused};
use crate::instant::Instant;
use crate::region::Region;
use crate::slab::Slab;

const NONE: u32 = u32::MAX;

/// A parcel that is away. `K` keeps its memory from being used meanwhile.
struct Away<K> {
    kept: K,
    bytes: usize,
    to: u16,
    sent: Instant,
    /// Those that went to the same lane before and after it.
    before: u32,
    after: u32,
}

/// Parcels to one lane, in the order of their going.
#[derive(Clone, Copy)]
struct Line {
    first: u32,
    last: u32,
}

/// The accounts of one region's parcels.
pub(crate) struct Abroad<K> {
    home: HomeOwner,
    limits: AbroadLimits,
    bytes_max: usize,
    /// By slots, of which the home side knows so many.
    away: Slab<Away<K>>,
    slots: usize,
    lines: Vec<Line>,
    /// Storage for the slots of those that are found; empty in between.
    found: Vec<u32>,
    counts: AbroadCounts,
}

impl<K> Abroad<K> {
    /// The accounts of a region of `bytes`, at home on lane `lane`.
    pub(crate) fn new(lane: u16, bytes: usize, limits: AbroadLimits) -> Self {
        let slots = limits.parcels_max.clamp(1, super::home::SLOTS_MAX);
        Self {
            home: HomeOwner::new(lane, slots),
            limits,
            bytes_max: bytes / AbroadLimits::PART,
            away: Slab::with_capacity(slots),
            slots,
            lines: Vec::new(),
            found: Vec::new(),
            counts: AbroadCounts::default(),
        }
    }

    /// Asks whether `bytes` may leave for lane `to` at the time `now`; a refusal is counted.
    pub(crate) fn ask_to_leave(&mut self, bytes: usize, to: u16, now: Instant) -> Result<(), ParcelRefused> {
        let refused = if self.is_overdue(to, now) {
            ParcelRefused::Overdue
        } else if self.away.len() == self.slots || self.counts.bytes + bytes > self.bytes_max {
            ParcelRefused::TooMuch
        } else {
            return Ok(());
        };
        self.counts.refused += 1;
        Err(refused)
    }

    /// Enters what leaves, which may; returns the right to bring it home.
    pub(crate) fn leave(&mut self, kept: K, bytes: usize, to: u16, now: Instant) -> Return {
        assert!(self.away.len() < self.slots, "who may leave has a slot");
        if self.lines.len() <= to as usize {
            self.lines.resize(to as usize + 1, Line { first: NONE, last: NONE });
        }
        let line = &mut self.lines[to as usize];
        let before = line.last;
        let slot = self.away.insert(Away { kept, bytes, to, sent: now, before, after: NONE }).index;
        line.last = slot;
        match before {
            NONE => line.first = slot,
            before => self.away.at_mut(before).after = slot,
        }
        self.counts.parcels += 1;
        self.counts.bytes += bytes;
        self.counts.sent += 1;
        self.home.right(slot)
    }

    /// A parcel of this region is back; returns what was kept for it, and an error if it is another region's.
    pub(crate) fn come_home(&mut self, right: Return) -> Result<K, Return> {
        self.home.redeem(right).map(|slot| self.back(slot))
    }

    fn back(&mut self, slot: u32) -> K {
        let away = self.away.remove_at(slot);
        let line = &mut self.lines[away.to as usize];
        assert!((away.before == NONE) == (line.first == slot), "only the first of a line has nobody before it");
        assert!((away.after == NONE) == (line.last == slot), "only the last of a line has nobody behind it");
        match away.before {
            NONE => line.first = away.after,
            before => self.away.at_mut(before).after = away.after,
        }
        match away.after {
            NONE => line.last = away.before,
            after => self.away.at_mut(after).before = away.before,
        }
        self.counts.parcels -= 1;
        self.counts.bytes -= away.bytes;
        assert!(self.counts.parcels == self.away.len(), "each parcel that is counted is away");
        away.kept
    }

    /// Takes those that were dropped where no lane was.
    pub(crate) fn find(&mut self, mut each: impl FnMut(K)) {
        if self.counts.parcels == 0 {
            return;
        }
        // The stack is emptied at once, and each slot in it is away: this ends.
        let mut found = std::mem::take(&mut self.found);
        self.home.take_found(|slot| found.push(slot));
        self.counts.found += found.len() as u64;
        for slot in found.drain(..) {
            each(self.back(slot));
        }
        self.found = found;
    }

    /// Whether the lane keeps something longer than it may.
    fn is_overdue(&self, lane: u16, now: Instant) -> bool {
        let Some(line) = self.lines.get(lane as usize).filter(|line| line.first != NONE) else { return false };
        // It leaves its line when it is back.
        self.is_late(self.away.at(line.first), now)
    }

    fn is_late(&self, away: &Away<K>, now: Instant) -> bool {
        now - away.sent > self.limits.overdue
    }

    /// The number of parcels away, and of those that are overdue at the time `now`.
    pub(crate) fn counts(&self, now: Instant) -> AbroadCounts {
        let is_overdue = |away: &&Away<K>| self.is_late(away, now);
        AbroadCounts { overdue: self.away.values().filter(is_overdue).count(), ..self.counts }
    }

    /// The lane has ended, and nobody there uses the region any more: it is freed with the last parcel, or now.
    pub(crate) fn end(mut self, region: Region) {
        self.find(drop);
        self.home.end(self.counts.parcels, region);
    }
}
