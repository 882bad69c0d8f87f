//! The `corelane` program: serves the built-in services, puts load on servers, shows what running ones count, and where flows go.
#![forbid(unsafe_code)]

mod load;
mod rss;
mod serve;
mod stat;
mod wrap;

use clap::{Parser, Subcommand};
use std::fmt;
use std::process::ExitCode;

/// Per-core network services: one lane per core.
#[derive(Parser)]
#[command(name = "corelane", version, about, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::Arguments),
    Load(Box<load::Arguments>),
    Rss(rss::Arguments),
    Stat(stat::Arguments),
}

/// Exit codes that all commands share; 0 is for what was done as asked.
mod exit {
    /// What fails later, after all was as asked.
    pub const LATE: u8 = 1;
    /// What could not be done as asked: the user's arguments, or what stands in their way.
    pub const USAGE: u8 = 2;
    /// A lane broke: an error of this program (`EX_SOFTWARE` of sysexits.h).
    pub const BROKEN: u8 = 70;
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(arguments).map(|()| ExitCode::SUCCESS),
        Command::Load(arguments) => load::run(*arguments),
        Command::Rss(arguments) => rss::run(&arguments),
        Command::Stat(arguments) => stat::run(&arguments).map(|()| ExitCode::SUCCESS),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            // Nobody may be there to read it.
            if corelane::start_reports().is_ok() {
                corelane::report(&format!("corelane: {error:#}"));
                corelane::flush_reports(corelane::REPORT_PATIENCE);
            }
            ExitCode::from(error.downcast_ref::<Late>().map_or(exit::USAGE, |late| late.code))
        }
    }
}

/// What went wrong after all was as asked.
struct Late {
    words: String,
    code: u8,
}

impl Late {
    fn of(what: &str, error: impl fmt::Display) -> Self {
        Self { words: format!("{what}: {error}"), code: exit::LATE }
    }
}

impl fmt::Debug for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for Late {}
