//! Chance from a seed: above the seam there is no other, so that what was drawn once is drawn again.

use crate::instant::nanoseconds;
use std::time::Duration;

/// A small seeded generator: SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA
/// 2014). The same seed gives the same sequence on every machine. Not for secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Fills `bytes`: eight of them are [`Random::bits`] each, the lowest first.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.chunks_mut(size_of::<u64>()) {
            word.copy_from_slice(&self.bits().to_le_bytes()[..word.len()]);
        }
    }

    /// So many bytes, as [`Random::fill`] has them.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.fill(&mut bytes);
        bytes
    }

    /// A number below `bound`, or 0 if `bound` is 0; the bias is under `bound` / 2^64.
    pub const fn below(&mut self, bound: u64) -> u64 {
        ((self.bits() as u128 * bound as u128) >> 64) as u64
    }

    /// An index below `length`, or 0 if that is 0.
    pub const fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// A number from 1 to `most`, or 1 if `most` is 0.
    pub const fn one_to(&mut self, most: usize) -> usize {
        1 + self.below(most as u64) as usize
    }

    /// A number from 0 up to but not including 1.
    pub const fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A duration below `bound`, in whole nanoseconds.
    pub fn time_below(&mut self, bound: Duration) -> Duration {
        Duration::from_nanos(self.below(nanoseconds(bound)))
    }

    /// Nanoseconds between half a microsecond and a millisecond, each order of magnitude as likely as another.
    pub const fn delay(&mut self) -> u64 {
        let span = 1_000 << self.below(10);
        span / 2 + self.below(span)
    }
}

/// The finalizer of the generator, a hash of a word: any change of the input changes about half the bits.
pub const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn follows_the_published_sequence() {
        let mut random = Random::new(1234567);
        let first = [6457827717110365317, 3203168211198807973, 9817491932198370423];
        assert_eq!([random.bits(), random.bits(), random.bits()], first);
    }

    #[test]
    fn bytes_are_those_of_the_bits() {
        let mut random = Random::new(1);
        let words = [random.bits(), random.bits()].map(u64::to_le_bytes).concat();
        for count in [0, 1, 7, 8, 9, 16] {
            assert_eq!(Random::new(1).bytes(count), words[..count]);
        }
    }

    #[test]
    fn bounds_of_nothing_are_harmless() {
        assert_eq!((Random::new(1).below(0), Random::new(1).one_to(0)), (0, 1));
    }

    proptest! {
        #[test]
        fn stays_below(seed in any::<u64>(), bound in 1u64..) {
            let mut random = Random::new(seed);
            prop_assert!(random.below(bound) < bound);
            prop_assert!((500..1_536_000).contains(&random.delay()));
            prop_assert!((0.0..1.0).contains(&random.unit()));
        }
    }
}
