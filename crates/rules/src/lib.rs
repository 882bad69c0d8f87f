//! Rules for packets, in the language of ipfw(8), and how they are carried out. It does no input or output and asks no clock: time is handed in.
//!
//! ```text
//! RuleSet::judge(&Facts, now, &mut Records) -> Verdict
//! ```
#![forbid(unsafe_code)]

mod facts;
mod verdict;

pub use facts::{Address, Direction, Facts, Family, Interface, Part, Transport};
pub use verdict::{Decision, Reject, RuleId, Verdict};
