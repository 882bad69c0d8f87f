//! `corelane load`: puts a load on a server and says what came of it, and whether that can be believed.

mod file;
mod options;
mod output;
mod own;
mod reach;
mod rounds;
mod screen;
mod self_test;
mod styles;
mod watch;

use crate::exit::Exit;
use anyhow::Result;
use corelane_load::kinds::Kind;
use corelane_load::place::Scheme;
use corelane_load::workloads::{self, WorkloadEntry};
use options::Options;

/// Puts a load on a server, and says what came of it and whether that can be believed
///
/// Without --rate this is a closed loop: --connections times --depth requests are always in flight. With --rate it is an open loop: each request
/// has a time at which it is due, whether earlier ones were answered or not, and latency counts from that time.
#[derive(clap::Args)]
#[command(after_help = after_help(), args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub struct Arguments {
    /// Work as an older program; must be the first option
    ///
    /// Everything behind NAME is read as that program's options, --help too, and the output is like its own.
    #[arg(long, value_names = ["NAME"], num_args = 1.., allow_hyphen_values = true, exclusive = true)]
    style: Vec<String>,
    #[command(subcommand)]
    special: Option<Special>,
    #[command(flatten)]
    options: Options,
}

/// The names of the styles.
pub fn style_names() -> Vec<&'static str> {
    styles::ALL.iter().map(|style| style.name).collect()
}

/// What is no load of a server that is named.
#[derive(clap::Subcommand)]
enum Special {
    SelfTest(self_test::Arguments),
}

fn after_help() -> String {
    let mut help = String::from("Workloads:\n");
    for entry in workloads::ALL {
        help += &about(entry);
    }
    help += "\nStyles:\n";
    for style in styles::ALL {
        help += &format!("  {:8} {}\n", style.name, style.about);
    }
    help + "\n" + &Exit::help(&[Exit::Done, Exit::Late, Exit::Usage, Exit::Wrong, Exit::Doubts, Exit::Interrupted])
}

/// A workload, with what holds for it unless something else is said, and with how only its requests can fail.
fn about(entry: &WorkloadEntry) -> String {
    let WorkloadEntry { name, about, schemes, default_port, default_size, default_connections, default_duration, .. } = entry;
    let duration = humantime::format_duration(*default_duration);
    let mut help = format!("  {name:8} {about}\n");
    let ways: Vec<String> =
        schemes.iter().map(|Scheme { name, port, .. }| format!("{name}:// (port {})", port.unwrap_or(*default_port))).collect();
    help += &format!("{:11}{}\n", "", ways.join(", "));
    help += &format!("{:11}--connections {default_connections}, --size {default_size}, --duration {duration}\n", "");
    for kind in entry.kinds {
        if let Kind::Own(own) = kind {
            help += &format!("{:11}{}: {}\n", "", own.name, own.meaning);
        }
    }
    help
}

/// Makes the run, or runs.
pub fn run(arguments: Arguments) -> Result<Exit> {
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
    Ok(result.verdict().into())
}
