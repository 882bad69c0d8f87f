//! How a lane's ways come into the map.

use super::ways::{self, Beside, Entry};
use super::{FastPath, WayEnd};
use corelane_seam::{LearntWay, Offload};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Halves of ways that wait to be written, at the most.
const WAITING_MAX: usize = 32;
/// How long after it was told a half is written at the earliest, in nanoseconds: what the lane has sent until then has left.
const SETTLES: u64 = 200_000;
/// And how long packets that wait for the lane keep it back at the most.
const WAITS_MAX: u64 = 5_000_000;
/// Halves of which it is known that they were written lately, and how long that counts.
const LATELY: usize = 512;
const LATELY_FOR: u64 = 1_000_000_000;

/// The ways of one queue's lane.
#[derive(Debug)]
pub struct Learner {
    fast: Arc<FastPath>,
    place: u16,
    queue: u16,
    state: RefCell<Lessons>,
}

#[derive(Debug)]
struct Lessons {
    waiting: Vec<Entry>,
    /// When the first of them was told.
    since: u64,
    /// By the mixture of a key: that with its generation, and until when it counts that it was written.
    lately: Box<[(u64, u64)]>,
}

impl Learner {
    /// For a queue of the port that has this place.
    pub fn new(fast: Arc<FastPath>, place: u16, queue: u32) -> Self {
        let lately = vec![(0, 0); LATELY].into();
        let state = RefCell::new(Lessons { waiting: Vec::with_capacity(WAITING_MAX), since: 0, lately });
        Self { fast, place, queue: queue as u16, state }
    }

    /// When ways are to be written.
    pub fn wakes_at(&self) -> Option<u64> {
        let state = self.state.borrow();
        (!state.waiting.is_empty()).then(|| state.since + SETTLES)
    }

    /// Writes what may be written now, where packets wait for the lane or not.
    pub fn settle(&self, now: u64, packets_wait: bool) {
        let Lessons { waiting, since, lately } = &mut *self.state.borrow_mut();
        if waiting.is_empty() || now < *since + if packets_wait { WAITS_MAX } else { SETTLES } {
            return;
        }
        for Entry { half, key, value } in waiting.drain(..) {
            let family = usize::from(key.len() == ways::KEY_BYTES[1]);
            // What cannot be written is told again.
            if self.fast.ways[half as usize][family].update(&key, &value).is_ok() {
                lately[ways::mixture(&key) as usize % LATELY] = (ways::named(&value), ways::until(&value).min(now + LATELY_FOR));
            }
        }
    }

    /// The longest frame of the port, from now on.
    pub fn note_length(&self, frame_bytes_max: usize) {
        if let Some(end) = self.fast.ends[usize::from(self.place)].get() {
            end.frame_bytes_max.store(frame_bytes_max, Ordering::Relaxed);
        }
    }

    fn entries(&self, now: u64, way: &LearntWay, generation: u32) -> Option<[Entry; 2]> {
        let leaves_by = self.fast.place_of(way.device)?;
        let end = self.fast.ends[usize::from(leaves_by)].get()?;
        if !self.fast.takes(end, now) {
            return None;
        }
        let WayEnd { frame_bytes_max, .. } = end;
        let frame_bytes_max = frame_bytes_max.load(Ordering::Relaxed);
        ways::entries(way, Beside { place: self.place, queue: self.queue, generation, leaves_by, frame_bytes_max })
    }
}

impl Offload for Learner {
    fn learn(&self, now: u64, way: &LearntWay) -> bool {
        // Read first: where the fast path is switched off after this, the way is of a generation before.
        let generation = self.fast.generation.get();
        if !self.fast.is_on.load(Ordering::Acquire) {
            return false;
        }
        let state = &mut *self.state.borrow_mut();
        // Under a flood most ways find it full, so that is seen before one is written out.
        if state.waiting.len() + 2 > WAITING_MAX {
            return false;
        }
        let Some(entries) = self.entries(now, way, generation) else { return false };
        if state.waiting.is_empty() {
            state.since = now;
        }
        for entry in entries {
            let (known, until) = state.lately[ways::mixture(&entry.key) as usize % LATELY];
            // A packet that comes here although both halves were written needs the lane for what it is.
            let is_known = known == ways::named(&entry.value) && now < until;
            if !is_known && state.waiting.iter().all(|one| one.key != entry.key) {
                state.waiting.push(entry);
            }
        }
        true
    }

    fn unlearn(&self) {
        self.fast.unlearn();
    }
}
