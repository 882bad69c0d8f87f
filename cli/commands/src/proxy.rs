//! `corelane proxy`: shows the upstreams of a running process, takes one out and in again.

use crate::gateway::{Asked, Whom};
use crate::upstreams::{Answer, Fault, answers, gathered, table};
use anyhow::{Result, anyhow};
use corelane_upstreams::Named;
use std::time::Duration;

/// Shows the servers behind a running proxy or web server (`?to=HOST:PORT,..`), and takes one out and in again
///
/// Counts are those of all lanes. Each lane judges by what it has seen itself, so its states may differ from those of others; the worst is shown. docs/proxy.md says what each means.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    whom: Whom,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Show each upstream with its state, connections, failures, latencies and bytes
    Show,
    /// Take an upstream out: nothing new goes there, and what is under way goes on
    Drain(Upstream),
    /// Take it in again
    Enable(Upstream),
}

#[derive(clap::Args)]
struct Upstream {
    /// Its name in to=, where a source stands for all that it names, or one address of a name
    upstream: String,
}

/// How long a process may take for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Has the process carry it out, and prints what it says.
pub fn run(arguments: &Arguments) -> Result<()> {
    let asked = Asked::of(&arguments.whom)?;
    match &arguments.command {
        Command::Show => {
            let shown = said(&asked, gathered(&asked.page, PATIENCE))?;
            asked.print(&shown, || table(&shown))
        }
        Command::Drain(Upstream { upstream }) => change(&asked, "drain", upstream),
        Command::Enable(Upstream { upstream }) => change(&asked, "enable", upstream),
    }
}

fn said<T>(asked: &Asked, answer: Result<T, Fault>) -> Result<T> {
    match answer {
        Ok(answer) => Ok(answer),
        Err(Fault::Answer(error)) => Err(anyhow!("the process is of another version, whose answer is not understood: {error}")),
        Err(Fault::Asking(error)) => asked.said(Err(error)),
    }
}

fn change(asked: &Asked, word: &str, upstream: &str) -> Result<()> {
    let words = format!("upstreams {word} {upstream}");
    let changed: Vec<Answer<Named>> = said(asked, answers(&asked.page, &words, PATIENCE))?;
    match changed.iter().any(|answer| answer.answer.named > 0) {
        true => Ok(()),
        false => Err(anyhow!("no upstream is named {upstream:?}: `corelane proxy show` has their names")),
    }
}
