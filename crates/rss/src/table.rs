//! The table: which lane serves each bucket.

use crate::lanes::{equal_weights, lane_number};
use crate::{Bucket, Buckets, Error, FlowId, MOST_LANES, Shares};

/// Which lane serves each bucket. Every bucket has one; a lane may have none.
///
/// Written as FreeBSD's `net.inet.rss.bucket_mapping`: `0:0 1:1 2:0 3:1`, each bucket and its lane.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Table {
    /// The lane of each bucket; the length is a power of two.
    pub(crate) lanes: Vec<u8>,
}

impl Table {
    /// Lanes 0 to `lanes` - 1 in turn.
    ///
    /// # Errors
    /// As [`Table::weighted`].
    pub fn even(buckets: Buckets, lanes: usize) -> Result<Self, Error> {
        Self::weighted(buckets, equal_weights(lanes)?)
    }

    /// Lane n serves buckets by the nth weight: its share rounded to whole buckets, and one at least; none for weight 0.
    /// Lanes alternate, so that neighbouring buckets have different ones.
    ///
    /// # Errors
    /// [`Error::NoLanes`] without a weight above 0; [`Error::LaneRange`] for more than 256;
    /// [`Error::MoreLanesThanBuckets`].
    pub fn weighted(buckets: Buckets, weights: &[u32]) -> Result<Self, Error> {
        let shares = Shares::new(weights)?;
        if shares.active() > buckets.count() {
            return Err(Error::MoreLanesThanBuckets { lanes: shares.active(), buckets: buckets.count() });
        }
        let lanes: Vec<u8> = shares.take(buckets.count()).map(|lane| lane as u8).collect();
        assert!(lanes.len() == buckets.count(), "every bucket has a lane");
        assert!(lanes.iter().all(|lane| usize::from(*lane) < MOST_LANES), "a lane's number fits into its byte");
        Ok(Self { lanes })
    }

    /// How many buckets it has.
    #[must_use]
    pub fn buckets(&self) -> Buckets {
        Buckets::of_length(self.lanes.len())
    }

    /// The lane of `bucket`. A bucket of a larger table is cut to this one's bits.
    #[must_use]
    pub fn lane(&self, bucket: Bucket) -> usize {
        self.lanes[bucket.index() & (self.lanes.len() - 1)].into()
    }

    /// The lane of a flow.
    #[must_use]
    pub fn lane_of(&self, flow: FlowId) -> usize {
        self.lanes[flow.0 as usize & (self.lanes.len() - 1)].into()
    }

    /// The buckets of `lane`, in order.
    pub fn owned(&self, lane: usize) -> impl Iterator<Item = Bucket> {
        self.buckets().all().filter(move |bucket| self.lane(*bucket) == lane)
    }

    /// How many buckets each lane has, by its number.
    #[must_use]
    pub fn counts(&self) -> [usize; MOST_LANES] {
        let mut counts = [0; MOST_LANES];
        for lane in &self.lanes {
            counts[usize::from(*lane)] += 1;
        }
        counts
    }

    /// The lanes that have buckets, by their numbers.
    pub fn owners(&self) -> impl Iterator<Item = usize> {
        let counts = self.counts();
        (0..MOST_LANES).filter(move |lane| counts[*lane] > 0)
    }

    /// Gives `bucket` to `lane`.
    ///
    /// # Errors
    /// [`Error::BucketRange`] for a bucket of a larger table; [`Error::LaneRange`].
    pub fn set(&mut self, bucket: Bucket, lane: usize) -> Result<(), Error> {
        let count = self.lanes.len();
        let place = self.lanes.get_mut(bucket.index()).ok_or(Error::BucketRange { got: bucket.index(), count })?;
        *place = lane_number(lane)?;
        Ok(())
    }
}
