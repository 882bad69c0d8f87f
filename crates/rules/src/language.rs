//! The language of rules, which is that of ipfw(8): texts become commands and rules, and rules are printed as texts that mean the same.

mod body;
mod command;
mod names;
mod operands;
mod packet;
mod rule;
mod script;
mod words;

pub use command::{Command, Key, SetChange, TableChange, command};
pub use packet::packet;
pub use rule::{Action, Body, Clause, Hosts, InTable, Keep, LimitBy, Link, Literal, Log, Rule, Test};
pub use script::{SCRIPT_BYTES_MAX, import};
pub use words::LINE_CHARACTERS_MAX;

#[cfg(test)]
mod tests;
