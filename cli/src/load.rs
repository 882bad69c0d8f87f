//! `corelane load`: puts a load on a server and says what came of it, and whether that can be believed.

mod amounts;
mod options;
mod output;
mod rounds;
mod screen;
mod self_test;
mod styles;
mod watch;

use anyhow::Result;
use corelane_load::workloads;
use options::Options;
use std::process::ExitCode;

/// The exit codes of a load that ran: what scripts act on.
pub mod exit {
    /// Every request was answered rightly, and the figures can be believed.
    pub const GOOD: u8 = 0;
    /// Requests failed, some or all; the report says how, and whether its figures can be believed all the same.
    pub const FAILURES: u8 = 3;
    /// No request failed, but the figures are not to be believed: the run fell behind, was cut short, or was disturbed.
    pub const DOUBTS: u8 = 4;
}

/// Puts a load on a server, and says what came of it and whether that can be believed
///
/// A closed loop keeps so many requests in flight (--connections times --depth); with --rate the requests have their own times,
/// and latency counts from the intended start of each, whether the answers come or not.
#[derive(clap::Args)]
#[command(after_help = after_help(), args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub struct Arguments {
    /// Take the options of an older program, and print as it does: everything behind NAME is that style's, --help too
    #[arg(long, value_names = ["NAME"], num_args = 1.., allow_hyphen_values = true, exclusive = true)]
    style: Vec<String>,
    #[command(subcommand)]
    special: Option<Special>,
    #[command(flatten)]
    options: Options,
}

/// What is no load of a server that is named.
#[derive(clap::Subcommand)]
enum Special {
    SelfTest(self_test::Arguments),
}

fn after_help() -> String {
    let mut help = String::from("Workloads:\n");
    for entry in workloads::ALL {
        help += &format!("  {:8} {} (port {} unless the URL names another)\n", entry.name, entry.about, entry.default_port);
    }
    help += "\nStyles:\n";
    for style in styles::ALL {
        help += &format!("  {:8} {}\n", style.name, style.about);
    }
    help + "\nExit codes:\n  \
        0  all requests were answered rightly, and the figures can be believed\n  \
        1  the run could not be made: the target cannot be reached, or something failed on this side\n  \
        2  the arguments cannot be met\n  \
        3  requests failed, some or all: see the errors by kind\n  \
        4  no request failed, but the figures are not to be believed: the run fell behind, was cut short, or was disturbed\n"
}

/// Makes the run, or runs.
pub fn run(arguments: Arguments) -> Result<ExitCode> {
    if let Some(Special::SelfTest(arguments)) = &arguments.special {
        return self_test::run(arguments);
    }
    if !arguments.style.is_empty() {
        return styles::run(&arguments.style);
    }
    let job = arguments.options.job()?;
    let mut files = output::Files::create(&job)?;
    let result = rounds::carry_out(&job, files.hdr())?;
    files.write(&job, &result)?;
    Ok(ExitCode::from(result.exit_code()))
}
