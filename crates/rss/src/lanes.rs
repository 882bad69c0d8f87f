//! Lanes by their numbers.

use crate::Error;

/// Lanes at most; they are numbered 0 to 255.
pub const MOST_LANES: usize = 256;

/// The number as it stands in a table.
pub(crate) fn lane_number(lane: usize) -> Result<u8, Error> {
    u8::try_from(lane).map_err(|_| Error::LaneRange { got: lane, most: MOST_LANES - 1 })
}

/// So many equal weights.
pub(crate) fn equal_weights(lanes: usize) -> Result<&'static [u32], Error> {
    const EQUAL: [u32; MOST_LANES] = [1; MOST_LANES];
    const { &EQUAL }.get(..lanes).ok_or_else(|| Error::LaneRange { got: lanes - 1, most: MOST_LANES - 1 })
}
