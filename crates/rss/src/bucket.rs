//! The low bits of a flow id.

use std::fmt;

use crate::{Error, FlowId, Hashed};

/// Bits of the largest number of buckets.
const MOST_BITS: u8 = 10;
/// The largest number of buckets.
pub(crate) const MOST_BUCKETS: usize = 1 << MOST_BITS;
/// Bits of the original's largest table.
const ORIGINAL_BITS: u8 = 7;

/// A row of the table: the low bits of a flow id. Written as its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket(u16);

impl Bucket {
    /// Its number, from 0.
    #[must_use]
    pub fn index(self) -> usize {
        self.0.into()
    }

    pub(crate) fn from_index(index: usize) -> Self {
        debug_assert!(index < MOST_BUCKETS, "a bucket's number has {MOST_BITS} bits");
        Self(index as u16)
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How many buckets there are: a power of two, from 1 to 1,024.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Buckets {
    bits: u8,
}

impl Buckets {
    /// 128, whatever the number of lanes: what most devices have, and enough for lanes to come and go evenly.
    pub const DEFAULT: Self = Self { bits: ORIGINAL_BITS };

    /// So many buckets.
    ///
    /// # Errors
    /// [`Error::BucketCount`] unless `count` is a power of two from 1 to 1,024.
    pub const fn new(count: usize) -> Result<Self, Error> {
        if !count.is_power_of_two() || count > MOST_BUCKETS {
            return Err(Error::BucketCount { got: count, most: MOST_BUCKETS });
        }
        Ok(Self::of_length(count))
    }

    /// The buckets of a table of that length, a power of two.
    pub(crate) const fn of_length(length: usize) -> Self {
        assert!(length.is_power_of_two() && length <= MOST_BUCKETS, "bits of the flow id choose a bucket");
        Self { bits: length.trailing_zeros() as u8 }
    }

    /// What the original takes by itself for `cpus` CPUs: at least two buckets a CPU, up to 128; one for one CPU
    /// (FreeBSD, `sys/net/rss_config.c`). 0 CPUs count as one.
    #[must_use]
    pub const fn automatic(cpus: usize) -> Self {
        if cpus <= 1 {
            return Self { bits: 0 };
        }
        let bits = usize::BITS - (cpus - 1).leading_zeros() + 1;
        Self { bits: if bits < ORIGINAL_BITS as u32 { bits as u8 } else { ORIGINAL_BITS } }
    }

    /// How many.
    #[must_use]
    pub const fn count(self) -> usize {
        1 << self.bits
    }

    /// How many bits of the flow id choose one, 0 to 10.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.bits as u32
    }

    /// Those bits.
    #[must_use]
    pub const fn mask(self) -> u32 {
        (1 << self.bits) - 1
    }

    /// The bucket of a flow.
    #[must_use]
    pub const fn of(self, flow: FlowId) -> Bucket {
        Bucket((flow.0 & self.mask()) as u16)
    }

    /// The bucket of a flow, none where the hash type does not place it ([`crate::HashType::places`]).
    #[must_use]
    pub fn place(self, hashed: Hashed) -> Option<Bucket> {
        hashed.hash_type.places().then(|| self.of(hashed.flow))
    }

    /// The bucket of that number.
    ///
    /// # Errors
    /// [`Error::BucketRange`] where there are not that many.
    pub fn bucket(self, index: usize) -> Result<Bucket, Error> {
        if index < self.count() {
            Ok(Bucket::from_index(index))
        } else {
            Err(Error::BucketRange { got: index, count: self.count() })
        }
    }

    /// All buckets, in order.
    pub fn all(self) -> impl DoubleEndedIterator<Item = Bucket> + ExactSizeIterator {
        (0..self.count()).map(Bucket::from_index)
    }
}

impl Default for Buckets {
    /// [`Buckets::DEFAULT`].
    fn default() -> Self {
        Self::DEFAULT
    }
}
