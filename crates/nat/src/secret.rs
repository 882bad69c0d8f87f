//! The hash of keys, which a stranger cannot aim at.

/// The words of a key: addresses, ports, and what else tells sessions apart.
pub(crate) type Words = [u32; 4];

/// A secret from the caller's randomness.
#[derive(Clone)]
pub(crate) struct Secret {
    sum: [u64; 5],
    fold: u64,
}

impl Secret {
    pub fn new(mut word: impl FnMut() -> u64) -> Self {
        Self { sum: std::array::from_fn(|_| word()), fold: word() | 1 }
    }

    /// A multilinear sum, whose upper half is strongly universal (Lemire, Kaser: "Strongly universal string hashing is fast", 2014), and one folded product,
    /// which spreads it over all bits: keys that count upwards lie apart.
    #[inline]
    pub fn hash(&self, words: &Words) -> u64 {
        let [first, rest @ ..] = &self.sum;
        let sum =
            rest.iter().zip(words).fold(*first, |sum, (secret, word)| sum.wrapping_add(secret.wrapping_mul((*word).into())));
        let product = u128::from(sum ^ sum >> 32) * u128::from(self.fold);
        (product >> 64) as u64 ^ product as u64
    }
}

impl std::fmt::Debug for Secret {
    /// A stranger who knows it can make all look-ups long.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_seam::Random;

    /// Keys that differ in one word only, by little or by much, fall into buckets as chance would have it: no more than twice the mean of 64.
    #[test]
    fn keys_that_are_alike_lie_apart() {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let secret = Secret::new(|| random.bits());
            for (place, shift) in [(0, 0), (0, 16), (1, 8), (2, 0), (2, 16), (3, 0)] {
                let mut counts = [0_u32; 64];
                for number in 0..4096_u32 {
                    let mut words = [1, 2, 3, 4];
                    words[place] = number << shift;
                    counts[(secret.hash(&words) >> 58) as usize] += 1;
                }
                assert!(counts.iter().all(|count| *count < 128), "seed {seed}, word {place}: {counts:?}");
            }
        }
    }
}
