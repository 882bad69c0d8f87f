//! How many frames stand ready to be received into.
//!
//! The kernel takes them in the order in which they were lent. So with all of them ready each packet is copied into the frame that has not been touched for longest, and
//! that one is in no cache. A steady load needs few; a burst after a pause needs all.

/// Frames that stand ready under a steady load: 2 MiB of 4 KiB each, which a core's own cache holds.
const STEADY: usize = 512;
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

    /// So many packets have come.
    pub fn came(&mut self, now: u64, packets: usize) {
        if packets > 0 {
            (self.all, self.came_at) = (packets > STEADY / 2, now);
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

    const MANY: usize = 2_048;

    #[test]
    fn a_steady_load_has_few_and_a_pause_brings_all_back() {
        let mut posted = Posted::ALL;
        assert_eq!((posted.most(MANY), posted.wakes_at()), (MANY, None));
        posted.came(1_000, 64);
        assert_eq!((posted.most(MANY), posted.wakes_at()), (STEADY, Some(1_000 + QUIET)));
        posted.came(QUIET, 0);
        assert_eq!(posted.most(MANY), STEADY);
        posted.came(1_000 + QUIET, 0);
        assert_eq!((posted.most(MANY), posted.wakes_at()), (MANY, None));
    }

    #[test]
    fn a_load_of_large_batches_has_all() {
        let mut posted = Posted::ALL;
        posted.came(1_000, STEADY / 2 + 1);
        assert_eq!((posted.most(MANY), posted.wakes_at()), (MANY, None));
        posted.came(2_000, 1);
        assert_eq!(posted.most(MANY), STEADY);
        assert_eq!(posted.most(100), 100);
    }
}
