//! How many frames stand ready to be received into.
//!
//! The kernel takes them in the order in which they were lent. So with all of them ready each packet is copied into the frame that has not been touched for longest, and
//! that one is in no cache. A steady load needs few; a burst after a pause needs all.

/// Frames that stand ready under a steady load: 512 KiB of 2 KiB each, which a core's own cache holds beside all else.
const STEADY: usize = 256;
/// So many packets that wait at once are no steady load: a few more, and one would have found no frame.
const MANY: usize = STEADY * 3 / 4;
/// How long nothing comes before all stand ready again, in nanoseconds.
const QUIET: u64 = 10_000_000;

/// Whether all stand ready, or only what a steady load needs.
#[derive(Clone, Copy, Debug)]
pub struct Posted {
    all: bool,
    came_at: u64,
}

impl Posted {
    /// All, for a burst may come first.
    pub const ALL: Self = Self { all: true, came_at: 0 };

    /// So many packets wait to be taken.
    pub fn waits(&mut self, now: u64, packets: usize) {
        if packets > 0 {
            (self.all, self.came_at) = (packets > MANY, now);
        } else {
            self.all |= now >= self.came_at.saturating_add(QUIET);
        }
    }

    /// How many of `frames` are to stand ready.
    pub fn most(self, frames: usize) -> usize {
        if self.all { frames } else { frames.min(STEADY) }
    }

    /// When the rest is to be lent if nothing comes; none if it stands ready.
    pub fn wakes_at(self) -> Option<u64> {
        (!self.all).then(|| self.came_at.saturating_add(QUIET))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: usize = 4_096;

    #[test]
    fn a_steady_load_has_few_and_a_pause_brings_all_back() {
        let mut posted = Posted::ALL;
        assert_eq!((posted.most(FRAMES), posted.wakes_at()), (FRAMES, None));
        posted.waits(1_000, 64);
        assert_eq!((posted.most(FRAMES), posted.wakes_at()), (STEADY, Some(1_000 + QUIET)));
        posted.waits(QUIET, 0);
        assert_eq!(posted.most(FRAMES), STEADY);
        posted.waits(1_000 + QUIET, 0);
        assert_eq!((posted.most(FRAMES), posted.wakes_at()), (FRAMES, None));
    }

    #[test]
    fn a_load_that_nearly_finds_no_frames_has_all() {
        let mut posted = Posted::ALL;
        posted.waits(1_000, MANY + 1);
        assert_eq!((posted.most(FRAMES), posted.wakes_at()), (FRAMES, None));
        posted.waits(2_000, 1);
        assert_eq!(posted.most(FRAMES), STEADY);
        assert_eq!(posted.most(100), 100);
    }
}
