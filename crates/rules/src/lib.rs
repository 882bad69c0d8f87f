//! Rules for packets, in the language of ipfw(8), and how they are carried out. It does no input or output and asks no clock: time is handed in.
//!
//! ```text
//! RuleSet::judge(&Facts, now, &mut Records) -> Verdict
//! ```
#![forbid(unsafe_code)]

mod error;
mod facts;
pub mod language;
mod prefix;
mod verdict;

pub use error::{Error, Place};
pub use facts::{Address, Direction, Facts, Family, Interface, Part, Transport};
pub use prefix::{Prefix, Ranges};
pub use verdict::{Decision, Reject, RuleId, Verdict};
