//! Why a set of rules stays with the lanes.

use super::counters::PLACES_MAX;
use super::maps::{INSTRUCTIONS_MAX, OWN_MAX};
use crate::errors::Error;
use std::fmt;

/// Why a set of rules stays with the lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unfit {
    /// It has no tree.
    NoTree,
    /// Its tree is lists, for this reason.
    Lists(String),
    /// All packets need a lane, because a rule writes lines.
    Logs(u16),
    /// All do, because a rule asks for states or makes them.
    States(u16),
    /// All do, because of tables that are not small.
    Tables,
    /// All do, because a rule tells senders.
    Rejects(u16),
    /// There are more rules than programs count for.
    Rules(usize),
    /// There are more own addresses than are compared one by one.
    Own(usize),
    /// The program would have so many instructions.
    Instructions(usize),
    /// The kernel does not take the program.
    Refused(Error),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the rules stay with the lanes: ")?;
        match self {
            Self::NoTree => f.write_str("they were not compiled into a tree"),
            Self::Lists(report) => f.write_str(report),
            Self::Logs(rule) => write!(f, "all packets need them; rule {rule} has lines written, which a lane does"),
            Self::States(rule) => {
                write!(f, "all packets need them; rule {rule} has to do with states of flows, which a lane keeps")
            }
            Self::Tables => f.write_str("all packets need them; a rule asks a large table, which a lane has"),
            Self::Rejects(rule) => write!(f, "all packets need them; rule {rule} tells senders, which a lane does"),
            Self::Rules(rules) => write!(f, "there are {rules} rules, and a program counts for {PLACES_MAX}"),
            Self::Own(addresses) => write!(f, "there are {addresses} addresses of our own, and a program compares {OWN_MAX}"),
            Self::Instructions(count) => {
                write!(f, "the program would have {count} instructions, and jumps reach over {INSTRUCTIONS_MAX}")
            }
            Self::Refused(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Unfit {}
