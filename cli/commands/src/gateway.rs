//! `corelane gateway`: shows and changes the rules, tables and routes of a running gateway, in the words of ipfw(8), and what packets meet there.

mod asked;
mod graphs;
pub mod metrics;
mod routes;
mod rules;
mod status;
mod tables;
pub mod watched;

use anyhow::Result;
pub use asked::{Asked, Whom};
use std::path::PathBuf;

/// Shows and changes the rules, tables and routes of a running gateway (`serve gateway=CONFIG.toml`)
///
/// Rules are ipfw(8)'s, and commands have its words and print what it prints. A change is in force on all lanes when the command ends, or on none: no packet is judged by half of
/// it, and counters go on. It lasts as long as the process; what is to stay belongs into its file. docs/gateway.md has more.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    whom: Whom,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Show rules with the packets and bytes that they have matched, on all lanes
    Show(rules::Show),
    /// Show rules without counts
    List(rules::Show),
    /// Add a rule: [NUMBER] [set N] ACTION [log] PROTOCOL from SOURCE to DESTINATION ..
    ///
    /// Without a number it gets the last one's and 100. Rules of one number stand in the order in which they came.
    Add(Words),
    /// Delete the rules of these numbers and ranges, or of a set: delete 100 200-300; delete set 5
    Delete(Words),
    /// Delete all rules but those of set 31 and the last
    Flush,
    /// Let the counters of these rules, or of all, begin with 0 again
    Zero(SomeWords),
    /// Let the lines of these rules with log, or of all, be counted from 0 again
    Resetlog(SomeWords),
    /// Show sets of rules or change them at once: show; disable N enable N; swap N N; move N to N
    Set(Words),
    /// Show tables or change one: all list; all info; NAME list; NAME add KEY [VALUE] ..; NAME delete KEY ..
    ///
    /// And NAME create [type addr|iface], NAME flush, NAME destroy.
    Table(Words),
    /// Show and change routes
    Route(routes::Arguments),
    /// Show what the rules make of a packet, rule by rule; nothing is counted
    ///
    /// [in|out] [via|recv|xmit INTERFACE] PROTOCOL SOURCE[:PORT] > DESTINATION[:PORT] [FLAGS] [type N] [iplen N] [frag first|later]. Quote the > from the shell, or write to.
    Trace(Words),
    /// Have the ipfw commands of a shell script carried out, all of them or none
    ///
    /// What the shell would do with comments, quotes, and variables that are set to texts is understood; all else is refused with its line and column.
    Import(Import),
    /// Show packets and bytes in and out by interface, and how many neighbours are known there
    Interfaces,
    /// Show how many rules, routes, states and translations there are
    Status,
    /// Write a page with graphs of a day, a week and a year; or print what they show, with --json
    ///
    /// They are read from the gateway's file, so it may run or have ended.
    Graphs(graphs::Graphs),
}

#[derive(clap::Args)]
struct Words {
    /// The words behind it, as ipfw(8) has them; options of this program stand before them
    #[arg(required = true, num_args = 1.., trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

#[derive(clap::Args)]
struct SomeWords {
    /// Numbers of rules and ranges such as 200-300; all without any
    #[arg(trailing_var_arg = true)]
    words: Vec<String>,
}

#[derive(clap::Args)]
struct Import {
    /// The script
    file: PathBuf,
    /// Only say what would come of it
    #[arg(long)]
    check: bool,
}

/// Has the process carry it out, and prints what it says.
pub fn run(arguments: &Arguments) -> Result<()> {
    if let Command::Graphs(wanted) = &arguments.command {
        return graphs::run(wanted, arguments.whom.json);
    }
    let asked = Asked::of(&arguments.whom)?;
    match &arguments.command {
        Command::Show(show) => rules::show(&asked, show, true),
        Command::List(list) => rules::show(&asked, list, false),
        Command::Add(Words { words }) => rules::change(&asked, "add", words),
        Command::Delete(Words { words }) => rules::change(&asked, "delete", words),
        Command::Flush => rules::change(&asked, "flush", &[]),
        Command::Zero(SomeWords { words }) => rules::change(&asked, "zero", words),
        Command::Resetlog(SomeWords { words }) => rules::change(&asked, "resetlog", words),
        Command::Set(Words { words }) => match &words[..] {
            [show] if show == "show" => tables::show_sets(&asked),
            words => rules::change(&asked, "set", words),
        },
        Command::Table(Words { words }) => match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["all", "list"] => tables::list_all(&asked),
            ["all", "info"] => tables::show(&asked, None),
            [name, "info"] => tables::show(&asked, Some(name)),
            [name, "list"] => tables::list(&asked, name),
            _ => rules::change(&asked, "table", words),
        },
        Command::Route(route) => routes::run(&asked, route),
        Command::Trace(Words { words }) => status::trace(&asked, &words.join(" ")),
        Command::Import(Import { file, check }) => rules::import(&asked, file, *check),
        Command::Interfaces => status::interfaces(&asked),
        Command::Status => status::totals(&asked),
        // reason: it asks no process, and was carried out above.
        Command::Graphs(_) => unreachable!("graphs ask no process"),
    }
}
