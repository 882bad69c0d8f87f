//! What a style is to the program: its name, how its words are read, and the codes that it ends with.

use crate::exit::Exit;
use anyhow::Result;
use clap::Parser;

/// A style as `--style` knows it.
pub struct Style {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// Does it, with the words behind its name.
    pub(super) run: fn(&[String]) -> Result<Exit>,
}

/// What stands behind a style's help, and the codes it ends with: failures show, doubts do not, because the older programs had none.
pub fn with_codes(help: &str) -> String {
    let codes = Exit::help(&[Exit::Done, Exit::Late, Exit::Usage, Exit::Wrong, Exit::Interrupted]);
    format!("{help}\n{codes}")
}

/// Reads a style's words, or ends the program with its help (0) or with what is wrong (2).
pub fn options<O: Parser>(words: &[String]) -> O {
    O::parse_from(words)
}

/// What the program ends with.
pub fn exit_of(has_failures: bool) -> Exit {
    if has_failures { Exit::Wrong } else { Exit::Done }
}
