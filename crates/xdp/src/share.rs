//! The user fraction: which weight a thread that receives has beside a lane, so that the lane keeps its share of the CPU under a flood (sched(7)).
//!
//! ```text
//! lane / (lane + threads * thread) = user fraction      thread: the weight of a nice value, or that of SCHED_IDLE, that comes nearest
//! ```

use corelane_os::scheduling::Scheduling;

/// The greatest user fraction, in per cent: receiving keeps something, or nothing would ever come.
pub const USER_FRACTION_MAX: u8 = 99;
/// The user fraction where nobody says one, in per cent.
pub const USER_FRACTION: u8 = 50;
/// Per mille of a CPU by which a share may miss what was asked for without a word.
pub const MISS_MAX: u32 = 30;

/// How a thread is scheduled, and what that leaves to the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    pub scheduling: Scheduling,
    /// The lane's part of its CPU while both want all of it, per mille.
    pub lane: u32,
}

impl Share {
    /// The nearest to a user fraction, in per cent, of a lane of this weight beside so many threads that are alike.
    pub fn nearest(lane: u32, threads: u32, user_fraction: u8) -> Self {
        assert!(user_fraction <= USER_FRACTION_MAX && lane > 0 && threads > 0, "both have a part");
        let asked = u32::from(user_fraction) * 10;
        let of = |scheduling: Scheduling| Some(Self { scheduling, lane: per_mille(lane, threads, scheduling.weight()?) });
        let nearest = Scheduling::all_fair().filter_map(of).min_by_key(|share| share.lane.abs_diff(asked));
        // reason: each fair one has a weight.
        nearest.expect("there are 41")
    }

    /// Whether it misses the user fraction, in per cent, by more than is passed over.
    pub fn misses(self, user_fraction: u8) -> bool {
        self.lane.abs_diff(u32::from(user_fraction) * 10) > MISS_MAX
    }
}

/// The lane's part, rounded.
fn per_mille(lane: u32, threads: u32, thread: u32) -> u32 {
    let (lane, all) = (u64::from(lane), u64::from(lane) + u64::from(threads) * u64::from(thread));
    ((lane * 1000 + all / 2) / all) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const LANE: u32 = 1024;

    /// For each user fraction from 1 to 99 the share of a lane of nice 0 is at most 2.5 points beside it.
    #[test]
    fn every_user_fraction_of_an_ordinary_lane_is_hit_within_three_points() {
        let errors: Vec<u32> =
            (1..=USER_FRACTION_MAX).map(|asked| Share::nearest(LANE, 1, asked).lane.abs_diff(u32::from(asked) * 10)).collect();
        let (worst, error) = (1..).zip(&errors).max_by_key(|(_, error)| **error).unwrap();
        assert_eq!((worst, *error), (58, 25), "{errors:?}");
        assert!((1..=USER_FRACTION_MAX).all(|asked| !Share::nearest(LANE, 1, asked).misses(asked)));
        let greater = |asked: u8| Share::nearest(LANE, 1, asked).lane <= Share::nearest(LANE, 1, asked + 1).lane;
        assert!((1..USER_FRACTION_MAX).all(greater), "more is never less");
    }

    #[test]
    fn known_fractions_have_known_nice_values() {
        let of = |asked| Share::nearest(LANE, 1, asked);
        let nice = |nice, lane| Share { scheduling: Scheduling::nice(nice), lane };
        assert_eq!([of(0), of(1), of(20)], [nice(-20, 11), nice(-20, 11), nice(-6, 208)]);
        assert_eq!([of(50), of(80), of(90), of(99)], [nice(0, 500), nice(6, 790), nice(10, 903), nice(19, 986)]);
    }

    #[test]
    fn threads_that_share_a_lanes_cpu_share_what_is_left() {
        for (threads, asked) in [(2, 50), (4, 80), (64, 50)] {
            let share = Share::nearest(LANE, threads, asked);
            let rest = threads * share.scheduling.weight().unwrap();
            assert!(!share.misses(asked), "{share:?}");
            assert_eq!(share.lane, per_mille(LANE, 1, rest));
        }
    }

    #[test]
    fn a_lane_that_is_too_light_or_too_heavy_misses_and_that_shows() {
        let light = Share::nearest(15, 1, 99);
        assert_eq!((light, light.misses(99)), (Share { scheduling: Scheduling::idle(), lane: 833 }, true));
        let heavy = Share::nearest(88761, 1, 10);
        assert_eq!((heavy, heavy.misses(10)), (Share { scheduling: Scheduling::nice(-20), lane: 500 }, true));
    }
}
