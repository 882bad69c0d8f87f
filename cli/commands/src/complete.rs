//! Completions of shells: the values that flags take, and the processes that run. The program is asked for them, so they fit it and the moment.
//!
//! script of a shell --VARIABLE--> this program --[`candidates`]--> words, with what each is

use crate::load::style_names;
use crate::stat;
use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use corelane::service::Limits;
use corelane_load::workloads;
use corelane_services as services;
use std::io;

/// The variable by which a shell's script says that words are wanted.
const VARIABLE: &str = "COMPLETE_CORELANE";

/// The names of the shells that can be told.
pub fn shells() -> Vec<&'static str> {
    Shells::builtins().names().collect()
}

/// Writes the script by which a shell of this name asks `program`.
///
/// # Errors
/// The outcome of writing; a shell that is not among [`shells`].
pub fn script(shell: &str, program: &str, to: &mut dyn io::Write) -> io::Result<()> {
    let shells = Shells::builtins();
    let shell = shells.completer(shell).ok_or_else(|| io::Error::other("there is no such shell"))?;
    shell.write_registration(VARIABLE, program, program, program, to)
}

/// Answers a shell, if one has asked: then the program ends here.
pub fn answer(command: fn() -> Command) {
    CompleteEnv::with_factory(command).var(VARIABLE).complete();
}

/// The command with what its values may be, and that of all commands below it.
pub fn completed(command: Command) -> Command {
    let command = command.mut_args(|arg| match candidates(&arg) {
        Some(candidates) => arg.add(ArgValueCandidates::new(candidates)),
        None => arg,
    });
    command.mut_subcommands(completed)
}

/// The values that a flag, or a word by its place, may have: by the same name they are the same in all commands.
fn candidates(arg: &Arg) -> Option<fn() -> Vec<CompletionCandidate>> {
    Some(match arg.get_long().unwrap_or(arg.get_id().as_str()) {
        "pid" | "server-pid" | "against-pid" | "take-over" => processes,
        "driver" => || words(&["auto", "uring", "epoll"]),
        "steering" => || words(&["auto", "program", "classic", "kernel"]),
        "limit" if !arg.is_positional() => limits,
        "services" => places,
        "workload" => || workloads::ALL.iter().map(|entry| word(entry.name).help(Some(entry.about.into()))).collect(),
        "style" => || words(&style_names()),
        _ => return None,
    })
}

fn word(text: impl Into<String>) -> CompletionCandidate {
    CompletionCandidate::new(text.into())
}

fn words(texts: &[&str]) -> Vec<CompletionCandidate> {
    texts.iter().map(|text| word(*text)).collect()
}

/// The processes of this user that run, each with what it serves.
fn processes() -> Vec<CompletionCandidate> {
    let told = |reader: &corelane::admin::watch::Reader| {
        let description = reader.description();
        let urls: Vec<&str> = description.services.iter().map(|service| service.url.as_str()).collect();
        word(description.process.pid.to_string()).help(Some(urls.join(" ").into()))
    };
    // What cannot be read is nobody's to be told while a line is written.
    stat::found(None).0.iter().map(told).collect()
}

/// The limits, each up to its value.
fn limits() -> Vec<CompletionCandidate> {
    let described = Limits::default().describe();
    let named = |line: &str| Some((line.split_once('=')?.0.to_owned() + "=", line.to_owned()));
    let all = described.lines().filter_map(named);
    all.map(|(name, line)| word(name).help(Some(format!("by default {line}").into()))).collect()
}

/// Services at the places that they have unless something else is said.
fn places() -> Vec<CompletionCandidate> {
    let named = |entry: &&corelane::service::entry::Entry| {
        let urls = entry.default_urls("127.0.0.1");
        let place = |url: String| format!("{}={url}", entry.name());
        if urls.is_empty() { vec![format!("{}=", entry.name())] } else { urls.into_iter().map(place).collect() }
    };
    services::ALL.iter().flat_map(named).map(word).collect()
}
