//! Standard output, whose reader may go away, and notes on standard error. `cargo xtask tidy` sees to it that nothing else prints here.
//!
//! What `serve` tells its operator while lanes run goes through the bounded queue of `corelane::admin::reports` instead, whose thread ends up here.

use crate::exit::Late;
use anyhow::Result;
use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write, stderr, stdout};
use std::ops::ControlFlow;

/// Prints whole lines, at once. A reader that has gone away (a closed pipe) has what it wanted: that is no error.
pub fn print(lines: impl Display) -> Result<()> {
    print_some(lines).map(drop)
}

/// Whether what is printed is read on a terminal.
pub fn is_terminal() -> bool {
    stdout().is_terminal()
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

/// Writes whole lines on standard error, at once. Where nobody reads them there is nowhere left to say so: they are lost, and the program goes
/// on to what it was asked for.
pub fn note(lines: impl Display) {
    let _ = stderr().lock().write_all(format!("{}\n", lines.to_string().trim_end_matches('\n')).as_bytes());
}
