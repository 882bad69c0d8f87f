//! Rules for packets, in the language of ipfw(8), and how they are carried out. It does no input or output and asks no clock: time is handed in.
//!
//! ```text
//! text --language::command--> Command --Rules::apply--> Rules --compile--> RuleSet --judge(&Facts, now, &mut Records)--> Verdict
//!      --language::import-->                            (control)          (a lane's, immutable)       (the lane's counters, states, lines)
//! ```
//!
//! ```
//! use corelane_rules::{Execution, Facts, Limits, Records, Rules, language::command};
//!
//! let mut rules = Rules::new(true, Limits::default());
//! rules.apply(command("add deny ip from 10.0.0.0/8 to any", 1)?)?;
//! let set = rules.compile(Execution::Tree);
//! let mut records = Records::default();
//! let facts = Facts::between([10, 1, 2, 3].into(), [192, 0, 2, 1].into());
//! assert!(!set.judge(&facts, 0, &mut records).is_allowed());
//! assert_eq!(set.show(|rule| records.count(rule))[0], "00100 1 0 deny ip from 10.0.0.0/8 to any");
//! # Ok::<(), corelane_rules::Error>(())
//! ```
#![forbid(unsafe_code)]

mod error;
mod facts;
mod flat;
pub mod language;
mod limits;
mod line;
mod listing;
mod lowered;
mod matching;
mod order;
mod passing;
mod prefix;
mod records;
mod rules;
mod set;
mod skipto;
mod states;
mod table;
mod trace;
mod tree;
mod verdict;

pub use error::{Error, Place};
pub use facts::{Address, Direction, Facts, Family, Interface, Part, Transport};
pub use limits::{Limits, RecordLimits};
pub use line::Line;
pub use lowered::{AddressOf, Field};
pub use prefix::{Prefix, Ranges};
pub use records::{Count, Records};
pub use rules::{Outcome, Rules};
pub use set::{Execution, RuleSet};
pub use table::{Prefixes, Table};
pub use tree::{Node, NodeId, Reason, Tree};
pub use verdict::{Decision, Reject, RuleId, Verdict};
