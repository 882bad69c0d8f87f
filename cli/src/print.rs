//! Standard output, whose reader may go away.

use crate::Late;
use anyhow::Result;
use std::fmt::Display;
use std::io::{ErrorKind, Write, stdout};
use std::ops::ControlFlow;

/// Prints whole lines, at once. A reader that has gone away (a closed pipe) has what it wanted: that is no error.
pub fn print(lines: impl Display) -> Result<()> {
    print_some(lines).map(drop)
}

/// As [`print()`], for those who would print more: breaks if the reader has gone away.
pub fn print_some(lines: impl Display) -> Result<ControlFlow<()>> {
    let lines = lines.to_string();
    let mut out = stdout().lock();
    match writeln!(out, "{}", lines.trim_end_matches('\n')).and_then(|()| out.flush()) {
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        Err(error) => Err(Late::of("writing to standard output", error).into()),
    }
}
