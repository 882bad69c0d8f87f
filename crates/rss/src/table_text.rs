//! A table as text.

use std::fmt;
use std::str::FromStr;

use crate::bucket::MOST_BUCKETS;
use crate::error::shown;
use crate::lanes::lane_number;
use crate::{Buckets, Error, Table};

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (bucket, lane) in self.lanes.iter().enumerate() {
            let space = if bucket == 0 { "" } else { " " };
            write!(f, "{space}{bucket}:{lane}")?;
        }
        Ok(())
    }
}

impl FromStr for Table {
    type Err = Error;

    /// Reads what is written: each bucket once and in order, white space between. Stops at the first that is wrong.
    fn from_str(text: &str) -> Result<Self, Error> {
        let mut lanes = Vec::new();
        for entry in text.split_ascii_whitespace() {
            let wrong = || Error::TableText { bucket: lanes.len(), got: shown(entry) };
            let (bucket, lane) = entry.split_once(':').ok_or_else(wrong)?;
            if lanes.len() == MOST_BUCKETS || number(bucket) != Some(lanes.len()) {
                return Err(wrong());
            }
            lanes.push(lane_number(number(lane).ok_or_else(wrong)?)?);
        }
        Buckets::new(lanes.len())?;
        Ok(Self { lanes })
    }
}

/// The number of plain digits, no sign, no zeros in front.
pub(crate) fn number(text: &str) -> Option<usize> {
    let is_plain = text.bytes().all(|digit| digit.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    is_plain.then(|| text.parse().ok())?
}
