//! The project's own scripts: `cargo xtask COMMAND`.

mod bench;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "The project's own scripts")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measures services against peers, in paired rounds.
    Bench(bench::Arguments),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Bench(arguments) => bench::run(&arguments),
    }
}
