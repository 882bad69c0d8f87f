//! The commands of the `corelane` program: it serves the built-in services, puts load on servers, shows what running ones count, and where flows go.
#![forbid(unsafe_code)]

mod complete;
mod connections;
mod dispatch;
mod doctor;
mod exit;
mod gateway;
mod generate;
mod help;
mod load;
mod polling;
mod print;
mod profile;
mod proxy;
mod rss;
mod serve;
mod stat;
mod terminal;
mod top;
mod upstreams;
mod wrap;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use corelane::admin::reports::{Level, Record};
use corelane::lanes::Signals;
use exit::{Exit, Late};
use std::process::ExitCode;

/// Per-core network services: one lane per core.
#[derive(Parser)]
#[command(name = "corelane", version, after_help = Exit::help(&Exit::ALL))]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::Arguments),
    Load(Box<load::Arguments>),
    Rss(rss::Arguments),
    Dispatch(dispatch::Arguments),
    Polling(polling::Arguments),
    Gateway(gateway::Arguments),
    Proxy(proxy::Arguments),
    Stat(stat::Arguments),
    Top(top::Arguments),
    Profile(profile::Arguments),
    Doctor(doctor::Arguments),
    Generate(generate::Arguments),
}

/// The command line: all commands with their flags, and with what is said of them.
fn line() -> clap::Command {
    complete::completed(help::fitted(Arguments::command()))
}

/// Reads the command line and carries out what it says.
pub fn main() -> ExitCode {
    Signals::spare();
    complete::answer(line);
    // What is said of flags is laid out only where somebody is told of it: it takes longer than reading a line.
    let matches = Arguments::command().try_get_matches().or_else(|_| line().try_get_matches());
    let read = matches.and_then(|matches| Arguments::from_arg_matches(&matches));
    let result = match read.unwrap_or_else(|error| error.format(&mut line()).exit()).command {
        Command::Serve(arguments) => serve::run(arguments),
        Command::Load(arguments) => load::run(*arguments),
        Command::Rss(arguments) => rss::run(&arguments),
        Command::Dispatch(arguments) => dispatch::run(&arguments).map(|()| Exit::Done),
        Command::Polling(arguments) => polling::run(&arguments).map(|()| Exit::Done),
        Command::Gateway(arguments) => gateway::run(&arguments).map(|()| Exit::Done),
        Command::Proxy(arguments) => proxy::run(&arguments).map(|()| Exit::Done),
        Command::Stat(arguments) => stat::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Profile(arguments) => profile::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Generate(arguments) => generate::run(&arguments, line()),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(error) => {
            let late = error.downcast_ref::<Late>();
            let record = Record::new(late.map_or(Level::Warn, |late| late.level), format!("{error:#}")).of_program();
            // Nobody may be there to read it; where there is no thread to wait for a reader (clone3 refused, as by some old filters), it is written at once.
            match corelane::admin::reports::start() {
                Ok(()) => {
                    corelane::admin::reports::line(record);
                    corelane::admin::reports::flush(corelane::admin::reports::PATIENCE);
                }
                Err(_) => print::note(record),
            }
            late.map_or(Exit::Usage, |late| late.exit).into()
        }
    }
}
