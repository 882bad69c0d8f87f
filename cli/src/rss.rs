//! `corelane rss`: where flows go, and why.

mod show;

use crate::Late;
use anyhow::Result;
use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

/// Shows what decides where flows go
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Show(show::Arguments),
}

/// Does what was asked.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.command {
        Command::Show(arguments) => show::run(arguments),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a text; a reader that has gone away (a closed pipe) is no error.
fn print(words: impl Display) -> Result<()> {
    match writeln!(std::io::stdout(), "{words}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Late::of("writing to standard output", error).into()),
        _ => Ok(()),
    }
}
