//! What can be wrong with keys, tables and plans, and who is at fault.

use std::fmt;
use std::net::IpAddr;

/// Characters of a wrong text that an error repeats.
const SHOWN: usize = 32;

/// What was wrong. All of it is the caller's, or of whoever wrote the configuration, unless the variant says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A key that is not 40 or 52 bytes long.
    KeyLength {
        /// Bytes given.
        got: usize,
    },
    /// The text of a key is not two hexadecimal digits at this byte.
    KeyText {
        /// The byte, from 0.
        at: usize,
    },
    /// All bits of a key are equal.
    KeyConstant,
    /// A key has 32 zeros in a row.
    KeyZeroWindow {
        /// The input bit that would not count.
        bit: usize,
    },
    /// A key repeats itself.
    KeyFewWindows {
        /// Different windows.
        got: usize,
        /// How many there must be.
        least: usize,
    },
    /// With a key, one field alone does not reach every bucket.
    KeyIgnoresField {
        /// The field.
        field: &'static str,
        /// Buckets that it reaches.
        reached: usize,
        /// Buckets that there are.
        of: usize,
    },
    /// No random key was good: the source of entropy is broken.
    KeyEntropy {
        /// Keys drawn.
        draws: usize,
    },
    /// No hash type has this name.
    HashTypeName {
        /// The name, or its beginning.
        got: Box<str>,
    },
    /// Bits in a mask that belong to no hash type.
    HashTypeBits {
        /// Those bits.
        unknown: u32,
    },
    /// One end is IPv4, the other IPv6.
    MixedFamilies {
        /// Address of the source.
        source: IpAddr,
        /// Address of the destination.
        destination: IpAddr,
    },
    /// No enabled hash type fits the flow.
    NotHashed {
        /// The mask of those that are enabled.
        mask: u32,
    },
    /// Not a number of buckets.
    BucketCount {
        /// Buckets asked for.
        got: usize,
        /// The most that there may be.
        most: usize,
    },
    /// There is no such bucket.
    BucketRange {
        /// Its number.
        got: usize,
        /// How many there are.
        count: usize,
    },
    /// There is no such lane.
    LaneRange {
        /// Its number.
        got: usize,
        /// The highest number.
        most: usize,
    },
    /// No lane is left to serve: none was given, or all weights are 0.
    NoLanes,
    /// Some lanes would have no bucket.
    MoreLanesThanBuckets {
        /// Lanes.
        lanes: usize,
        /// Buckets.
        buckets: usize,
    },
    /// The lane that is to go serves every bucket.
    LastLane {
        /// The lane.
        lane: usize,
    },
    /// The text of a table is wrong at this bucket.
    TableText {
        /// The bucket that should have come.
        bucket: usize,
        /// What stands there, or its beginning.
        got: Box<str>,
    },
    /// Two tables have different numbers of buckets.
    TableSizes {
        /// Buckets of the table as it is.
        from: usize,
        /// Buckets of the other.
        to: usize,
    },
    /// Not one weight a lane.
    WeightCount {
        /// Weights.
        got: usize,
        /// Lanes.
        lanes: usize,
    },
    /// Not the text of a spread.
    SpreadText {
        /// The text, or its beginning.
        got: Box<str>,
    },
    /// The candidates ended before each place had one.
    Uncovered {
        /// The first place, a bucket or a lane, without one.
        place: usize,
        /// Candidates tried.
        tried: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyLength { .. }
            | Self::KeyText { .. }
            | Self::KeyConstant
            | Self::KeyZeroWindow { .. }
            | Self::KeyFewWindows { .. }
            | Self::KeyIgnoresField { .. }
            | Self::KeyEntropy { .. } => self.of_key(f),
            Self::BucketCount { .. }
            | Self::BucketRange { .. }
            | Self::LaneRange { .. }
            | Self::NoLanes
            | Self::MoreLanesThanBuckets { .. }
            | Self::LastLane { .. }
            | Self::TableText { .. }
            | Self::TableSizes { .. } => self.of_table(f),
            _ => self.of_flow(f),
        }
    }
}

impl Error {
    fn of_key(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyLength { got } => write!(f, "a key has 40 or 52 bytes, not {got}: give one of that length"),
            Self::KeyText { at } => {
                write!(f, "byte {at} of the key is not two hexadecimal digits: write it as 6d:5a:..., a colon between bytes")
            }
            Self::KeyConstant => f.write_str("all bits of the key are equal: draw a random one"),
            Self::KeyZeroWindow { bit } => {
                write!(f, "the key has 32 zeros from bit {bit} on, so that bit of a flow would not count: draw a random one")
            }
            Self::KeyFewWindows { got, least } => {
                write!(f, "the key repeats itself, {got} different windows of at least {least}: draw a random one")
            }
            Self::KeyIgnoresField { field, reached, of } => {
                write!(f, "with this key the {field} alone reaches {reached} of {of} buckets: draw another")
            }
            Self::KeyEntropy { draws } => write!(f, "{draws} random keys were all bad: the source of randomness is broken"),
            _ => Ok(()),
        }
    }

    fn of_table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BucketCount { got, most } => write!(f, "{got} buckets: take a power of two from 1 to {most}"),
            Self::BucketRange { got, count } => {
                write!(f, "there is no bucket {got}: the table has 0 to {}", count.saturating_sub(1))
            }
            Self::LaneRange { got, most } => write!(f, "there is no lane {got}: take 0 to {most}"),
            Self::NoLanes => f.write_str("no lane to serve: give at least one, with a weight above 0"),
            Self::MoreLanesThanBuckets { lanes, buckets } => {
                write!(f, "{lanes} lanes are too many for a table of {buckets} buckets: take fewer lanes or more buckets")
            }
            Self::LastLane { lane } => {
                write!(f, "lane {lane} serves every bucket: let another lane come back, or give it some, before it goes")
            }
            Self::TableText { bucket, got } => {
                write!(
                    f,
                    "`{got}` stands where bucket {bucket} should: write each bucket once and in order, as in 0:0 1:1 2:0 3:1"
                )
            }
            Self::TableSizes { from, to } => write!(f, "a table of {from} buckets cannot become one of {to}: keep the number"),
            _ => Ok(()),
        }
    }

    fn of_flow(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HashTypeName { got } => {
                let names = crate::HashTypes::ALL;
                write!(f, "no hash type is named `{got}`: take some of {names}, or none")
            }
            Self::HashTypeBits { unknown } => {
                write!(f, "the bits {unknown:#x} belong to no hash type: take some of {:#x}", crate::HashTypes::ALL.mask())
            }
            Self::MixedFamilies { source, destination } => {
                write!(f, "{source} and {destination} are not of one family: take two IPv4 or two IPv6 addresses")
            }
            Self::NotHashed { mask } => write!(f, "no hash type of the mask {mask:#x} fits the flow: enable ipv4 or ipv6"),
            Self::WeightCount { got, lanes } => write!(f, "{got} weights for {lanes} lanes: give one a lane"),
            Self::SpreadText { got } => write!(f, "`{got}` is no spread: write even, one:LANE or weights:W,W,..., 256 at most"),
            Self::Uncovered { place, tried } => {
                write!(f, "none of {tried} candidates leads to place {place}: give more candidates")
            }
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// The beginning of a wrong text.
pub(crate) fn shown(text: &str) -> Box<str> {
    text.chars().take(SHOWN).collect::<String>().into()
}
