//! Taking turns by weight.

use crate::{Error, MOST_LANES};

/// Lanes in turn, each as often as its weight says: an endless iterator.
///
/// The next is the lane that is furthest behind its share (Webster's method: the greatest weight by twice its count
/// plus one, the lowest number among equals), after each lane with a weight has come once. So equal weights give plain
/// round robin, every beginning is as fair as whole numbers allow, and no lane with a weight is left out.
#[derive(Clone, Debug)]
pub struct Shares {
    /// Weight and how often the lane came, which stays far below 2^62.
    lanes: Vec<(u32, u64)>,
}

impl Shares {
    /// Lane n has the nth weight; 0 leaves it out.
    ///
    /// # Errors
    /// [`Error::NoLanes`] without a weight above 0; [`Error::LaneRange`] for more than 256.
    pub fn new(weights: &[u32]) -> Result<Self, Error> {
        if weights.len() > MOST_LANES {
            return Err(Error::LaneRange { got: weights.len() - 1, most: MOST_LANES - 1 });
        }
        if weights.iter().all(|weight| *weight == 0) {
            return Err(Error::NoLanes);
        }
        Ok(Self { lanes: weights.iter().map(|weight| (*weight, 0)).collect() })
    }

    /// Lanes with a weight.
    pub(crate) fn active(&self) -> usize {
        self.lanes.iter().filter(|(weight, _)| *weight > 0).count()
    }

    /// Whether a lane of `a` comes before one of `b`, both weight and count.
    fn is_behind(a: (u32, u64), b: (u32, u64)) -> bool {
        let claim = |(weight, _): (u32, u64), (_, count): (u32, u64)| u128::from(weight) * (2 * u128::from(count) + 1);
        match (a.1, b.1) {
            (0, 0) => false,
            (0, _) => true,
            (_, 0) => false,
            _ => claim(a, b) > claim(b, a),
        }
    }
}

impl Iterator for Shares {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let weighty = self.lanes.iter().enumerate().filter(|(_, (weight, _))| *weight > 0);
        let (lane, _) = weighty.reduce(|best, next| if Self::is_behind(*next.1, *best.1) { next } else { best })?;
        self.lanes[lane].1 += 1;
        Some(lane)
    }
}
