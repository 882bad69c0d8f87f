//! Standard output, whose reader may go away.

use crate::exit::Late;
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
    print_part(&format!("{}\n", lines.to_string().trim_end_matches('\n')))
}

/// As [`print_some`], for a part of a line: it is printed as it is.
pub fn print_part(text: &str) -> Result<ControlFlow<()>> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        Err(error) => Err(Late::of("writing to standard output", error).into()),
    }
}
