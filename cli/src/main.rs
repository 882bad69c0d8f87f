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

/// What could not be done as asked: the user's arguments, or what stands in their way. 1 is for what fails later.
const USAGE: u8 = 2;

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
            eprintln!("corelane: {error:#}");
            if error.is::<Late>() { ExitCode::FAILURE } else { ExitCode::from(USAGE) }
        }
    }
}

/// What went wrong after all was as asked.
struct Late(String);

impl Late {
    fn of(what: &str, error: impl fmt::Display) -> Self {
        Self(format!("{what}: {error}"))
    }
}

impl fmt::Debug for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Late {}
