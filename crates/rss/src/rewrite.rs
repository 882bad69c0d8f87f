//! Rewriting a table so that no bucket moves without need.

use std::cmp::Reverse;

use crate::lanes::lane_number;
use crate::{Bucket, Error, MOST_LANES, Shares, Table};

/// One bucket that changes its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Move {
    /// The bucket.
    pub bucket: Bucket,
    /// The lane that had it.
    pub from: usize,
    /// The lane that gets it.
    pub to: usize,
}

/// How many buckets each lane has, or is to have.
type Counts = [usize; MOST_LANES];

impl Table {
    /// The table when `lane` has gone: its buckets go to whoever has fewest, and no other bucket moves.
    ///
    /// # Errors
    /// [`Error::LastLane`] where no other lane has a bucket.
    pub fn without(&self, lane: usize) -> Result<Self, Error> {
        let mut counts = self.counts();
        let owners: Vec<usize> = self.owners().filter(|owner| *owner != lane).collect();
        let orphans = counts.get_mut(lane).map_or(0, std::mem::take);
        for _ in 0..orphans {
            let poorest = owners.iter().min_by_key(|owner| counts[**owner]).ok_or(Error::LastLane { lane })?;
            counts[*poorest] += 1;
        }
        Ok(self.moved(&counts))
    }

    /// The table when `lane` has come: it takes buckets from whoever has most until it has as many as the others, rounded
    /// down, and no other bucket moves. A lane that is there already gets what it lacks of that.
    ///
    /// # Errors
    /// [`Error::LaneRange`]; [`Error::MoreLanesThanBuckets`] where each lane has but one bucket.
    pub fn with(&self, lane: usize) -> Result<Self, Error> {
        let mut counts = self.counts();
        let owners: Vec<usize> = self.owners().filter(|owner| *owner != lane).collect();
        let share = self.lanes.len() / (owners.len() + 1);
        if share == 0 {
            return Err(Error::MoreLanesThanBuckets { lanes: owners.len() + 1, buckets: self.lanes.len() });
        }
        let lane = usize::from(lane_number(lane)?);
        while counts[lane] < share {
            // reason: what the lane does not have yet, others have.
            let richest = owners.iter().max_by_key(|owner| counts[**owner]).expect("the other buckets have owners");
            counts[*richest] -= 1;
            counts[lane] += 1;
        }
        Ok(self.moved(&counts))
    }

    /// The table for new weights, as [`Table::weighted`] counts them, with as few moves as there can be.
    ///
    /// # Errors
    /// As [`Table::weighted`].
    pub fn reweighted(&self, weights: &[u32]) -> Result<Self, Error> {
        let shares = Shares::new(weights)?;
        if shares.active() > self.lanes.len() {
            return Err(Error::MoreLanesThanBuckets { lanes: shares.active(), buckets: self.lanes.len() });
        }
        let mut counts = [0; MOST_LANES];
        for lane in shares.take(self.lanes.len()) {
            counts[lane] += 1;
        }
        Ok(self.moved(&counts))
    }

    /// What has to move to get from this table to `to`, by buckets.
    ///
    /// # Errors
    /// [`Error::TableSizes`] where they have not the same number of buckets.
    pub fn moves<'a>(&'a self, to: &'a Self) -> Result<impl Iterator<Item = Move> + 'a, Error> {
        if self.lanes.len() != to.lanes.len() {
            return Err(Error::TableSizes { from: self.lanes.len(), to: to.lanes.len() });
        }
        let both = self.buckets().all().map(|bucket| Move { bucket, from: self.lane(bucket), to: to.lane(bucket) });
        Ok(both.filter(|change| change.from != change.to))
    }

    /// The table with `wanted` buckets a lane, as many as there are in all. Only what is above its number moves.
    fn moved(&self, wanted: &Counts) -> Self {
        let mut counts = self.counts();
        assert!(wanted.iter().sum::<usize>() == self.lanes.len(), "each bucket is wanted by one lane");
        let mut table = self.clone();
        for place in &mut table.lanes {
            let from = usize::from(*place);
            if counts[from] > wanted[from] {
                let to = neediest(&counts, wanted);
                counts[from] -= 1;
                counts[to] += 1;
                *place = to as u8;
            }
        }
        assert!(counts == *wanted, "each lane has as many as it is to have");
        table
    }
}

/// The lane that lacks most, the first of equals.
fn neediest(counts: &Counts, wanted: &Counts) -> usize {
    let lacks = |lane: &usize| Reverse(wanted[*lane].saturating_sub(counts[*lane]));
    (0..MOST_LANES).min_by_key(lacks).unwrap_or(0)
}
