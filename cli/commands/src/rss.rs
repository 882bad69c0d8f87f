//! `corelane rss`: where flows go, and why.

mod check;
mod end;
mod hash;
mod placing;
mod plan;
mod show;
mod table;

pub use table::page;

use crate::exit::Exit;
use anyhow::Result;

/// Shows, computes, changes and checks which lane each flow goes to
///
/// It finds flows for given buckets, shows and changes the table of a running process, checks that flows obey it, and shows what network cards have.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Check(check::Arguments),
    Hash(hash::Arguments),
    Plan(plan::Arguments),
    Show(show::Arguments),
    Table(table::Arguments),
}

/// Does what was asked.
pub fn run(arguments: &Arguments) -> Result<Exit> {
    match &arguments.command {
        Command::Check(arguments) => return check::run(arguments),
        Command::Hash(arguments) => hash::run(arguments),
        Command::Plan(arguments) => plan::run(arguments),
        Command::Show(arguments) => show::run(arguments),
        Command::Table(arguments) => table::run(arguments),
    }?;
    Ok(Exit::Done)
}
