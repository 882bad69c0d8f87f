//! What was measured, and what it says.

/// What was measured under some settings, for a second or so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Packets a second that were carried: more is better.
    pub goodput: u64,
    /// Packets a second that were lost.
    pub lost: u64,
    /// The network's share of the CPU, per cent.
    pub network_share: u32,
    /// The share that programs had or could have had, per cent.
    pub user_share: u32,
    /// The greatest burst.
    pub burst: u32,
}

/// Of so many carried packets one may be lost, and it counts as none.
const LOST_PART: u64 = 10_000;
/// A mean looks back on so many measurements.
const MEAN_MOST: u32 = 16;
/// The noise of a measurement as it is taken to be at first, as a part of it, and how many measurements that belief is worth.
const NOISE_FIRST: (f64, f64) = (0.03, 4.0);
/// How closely what is tried is looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Look {
    /// What is better by a smaller part counts as the same.
    pub(super) gain_least: f64,
    /// Measurements at least and at most.
    tried: (u32, u32),
}

impl Look {
    pub(super) const FIRST: Self = Self { gain_least: 0.02, tried: (2, 5) };
    pub(super) const CLOSER: Self = Self { gain_least: 0.01, tried: (3, 10) };
}

/// A gain is a gain where it is so many times its error; none where it is no more than this many; and what is enough once all measurements are taken.
const SURE: f64 = 2.5;
const HOPELESS: f64 = 0.5;
const LIKELY: f64 = 1.6;
/// The best has changed where it is so many times the noise away, and so large a part.
const CHANGED: (f64, f64) = (4.0, 0.1);

impl Seen {
    pub(super) const fn is_silent(&self) -> bool {
        self.goodput == 0 && self.lost == 0
    }

    pub(super) const fn loses_nothing(&self) -> bool {
        self.lost <= self.goodput / LOST_PART
    }
}

/// The mean of some measurements, and what else they told.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mean {
    pub(super) taken: u32,
    pub(super) goodput: f64,
    /// The greatest burst of all.
    pub(super) burst: u32,
    /// The network's share of the CPU when it was last measured, per cent.
    pub(super) network_share: u32,
    /// None of them lost anything.
    pub(super) lost_nothing: bool,
}

impl Mean {
    pub(super) fn add(&mut self, seen: Seen, noise: &mut Noise) {
        let goodput = seen.goodput as f64;
        self.lost_nothing = seen.loses_nothing() && (self.taken == 0 || self.lost_nothing);
        self.burst = self.burst.max(seen.burst);
        self.network_share = seen.network_share;
        self.taken = (self.taken + 1).min(MEAN_MOST);
        let off = goodput - self.goodput;
        if self.taken > 1 && self.goodput > 0.0 {
            let count = f64::from(self.taken);
            noise.add(off / self.goodput * ((count - 1.0) / count).sqrt());
        }
        self.goodput += off / f64::from(self.taken);
    }

    /// Whether a measurement is so far away that it is of something else.
    pub(super) fn is_left_by(&self, seen: Seen, noise: &Noise) -> bool {
        let off = (seen.goodput as f64 - self.goodput).abs();
        off > self.goodput * CHANGED.1.max(CHANGED.0 * noise.part())
    }

    /// By how much more this carries than another, as a part.
    pub(super) fn gain(&self, other: &Self) -> f64 {
        if other.goodput > 0.0 { self.goodput / other.goodput - 1.0 } else { f64::from(u8::from(self.goodput > 0.0)) }
    }

    /// What can be said of it against the best.
    pub(super) fn verdict(&self, best: &Self, noise: &Noise, look: Look) -> Verdict {
        let gain = self.gain(best);
        let error = noise.part() * (1.0 / f64::from(self.taken.max(1)) + 1.0 / f64::from(best.taken.max(1))).sqrt();
        let (least, most) = look.tried;
        let is_last = self.taken >= most;
        let is_gain = gain >= look.gain_least && gain >= error * if is_last { LIKELY } else { SURE };
        match (self.taken < least, is_gain, is_last || gain <= error * HOPELESS) {
            (true, ..) => Verdict::Unclear,
            (_, true, _) => Verdict::Better,
            (_, _, true) => Verdict::NotBetter { is_worse: gain <= -look.gain_least.max(error * SURE) },
            _ => Verdict::Unclear,
        }
    }
}

/// What can be said of settings that are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Better,
    NotBetter { is_worse: bool },
    Unclear,
}

/// How far a measurement is off, as a part of it: the standard deviation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noise {
    squares: f64,
    count: f64,
}

impl Default for Noise {
    fn default() -> Self {
        let (part, count) = NOISE_FIRST;
        Self { squares: part * part * count, count }
    }
}

impl Noise {
    fn add(&mut self, part: f64) {
        self.squares += part * part;
        self.count += 1.0;
    }

    pub(super) fn part(&self) -> f64 {
        (self.squares / self.count).sqrt()
    }
}
