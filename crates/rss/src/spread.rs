//! How connections are spread over lanes by whoever opens them.

use std::fmt;
use std::str::FromStr;

use crate::error::shown;
use crate::lanes::equal_weights;
use crate::table_text::number;
use crate::{Error, MOST_LANES, Shares};

/// How connections are spread over lanes by whoever opens them. Which source port leads to a lane is found by
/// [`crate::Outgoing::ports`].
///
/// Written as `even`, `one:3` (lane 3) or `weights:1,0,2` (by lane).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Spread {
    /// All lanes in turn.
    Even,
    /// All on this lane.
    One(usize),
    /// By weight, the nth is lane n's.
    Weights(Vec<u32>),
}

impl Spread {
    /// The lanes of the first, second, third connection and so on, of a server with `lanes` lanes.
    ///
    /// # Errors
    /// [`Error::NoLanes`], [`Error::LaneRange`]: there is no such lane; [`Error::WeightCount`]: not one weight a lane.
    pub fn lanes(&self, lanes: usize) -> Result<Shares, Error> {
        match self {
            Self::Even => Shares::new(equal_weights(lanes)?),
            Self::One(lane) if *lane < lanes.min(MOST_LANES) => {
                let mut weights = [0; MOST_LANES];
                weights[*lane] = 1;
                Shares::new(&weights)
            }
            Self::One(lane) => Err(Error::LaneRange { got: *lane, most: lanes.min(MOST_LANES).saturating_sub(1) }),
            Self::Weights(weights) if weights.len() == lanes => Shares::new(weights),
            Self::Weights(weights) => Err(Error::WeightCount { got: weights.len(), lanes }),
        }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Even => f.write_str("even"),
            Self::One(lane) => write!(f, "one:{lane}"),
            Self::Weights(weights) => {
                let texts: Vec<String> = weights.iter().map(u32::to_string).collect();
                write!(f, "weights:{}", texts.join(","))
            }
        }
    }
}

impl FromStr for Spread {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::SpreadText { got: shown(text) };
        match text.split_once(':') {
            None if text == "even" => Ok(Self::Even),
            Some(("one", lane)) => number(lane).filter(|lane| *lane < MOST_LANES).map(Self::One).ok_or_else(wrong),
            Some(("weights", list)) => weights(list).map(Self::Weights).ok_or_else(wrong),
            _ => Err(wrong()),
        }
    }
}

/// At most 256 weights with commas.
fn weights(list: &str) -> Option<Vec<u32>> {
    let weights: Option<Vec<u32>> = list.split(',').take(MOST_LANES + 1).map(|one| number(one)?.try_into().ok()).collect();
    weights.filter(|weights| weights.len() <= MOST_LANES)
}
