//! `corelane doctor`: what this machine lets lanes have, and what stands in the way of a configuration.

use crate::exit::Exit;
use crate::print::print;
use crate::wrap::wrapped;
use anyhow::Result;
use corelane::doctor::{Finding, State, examine, examine_for, refused};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::PathBuf;

/// Tries every feature of this machine that lanes use: says what is missing, what that costs, and how to mend it
///
/// Each line has a code that stays the same, such as CL-1004; docs/doctor.md has them all. Nothing of the machine is changed: what is made to
/// try a feature (sockets, rings, a tap interface) is gone when this ends. Run it as the user, in the container or the unit that shall serve.
#[derive(clap::Args)]
#[command(after_help = Exit::help_of(CODES))]
pub struct Arguments {
    /// As JSON: one array with an object for each line
    #[arg(long)]
    json: bool,
    /// Check this configuration of `serve` against the machine as well; the exit code is then that of its lines
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check these flags and services of `serve` against the machine as well, given behind --
    #[arg(last = true, value_name = "SERVE")]
    serve: Vec<OsString>,
}

/// What it ends with.
const CODES: &[(Exit, &str)] = &[
    (Exit::Done, "nothing is missing; with a configuration, nothing that it takes"),
    (Exit::Late, "the output cannot be written"),
    (Exit::Usage, "the arguments cannot be read"),
    (Exit::Wrong, "something is missing; with a configuration, something that it takes"),
];

/// Prints what was found. It is wrong if something is missing; what is degraded serves all the same.
pub fn run(arguments: &Arguments) -> Result<Exit> {
    let mut findings = examine();
    let machine = findings.len();
    let has_configuration = arguments.config.is_some() || !arguments.serve.is_empty();
    if has_configuration {
        findings.extend(configuration(arguments));
    }
    if arguments.json {
        print(Value::from_iter(findings.iter().map(object)))?;
    } else {
        print(text(&findings))?;
    }
    let decisive = &findings[if has_configuration { machine } else { 0 }..];
    let is_missing = decisive.iter().any(|finding| finding.found.state == State::Missing);
    Ok(if is_missing { Exit::Wrong } else { Exit::Done })
}

/// What stands in the way of what `serve` would be told.
fn configuration(arguments: &Arguments) -> Vec<Finding> {
    let file = arguments.config.iter().flat_map(|path| [OsString::from("--config"), path.into()]);
    match crate::serve::lanes_of(file.chain(arguments.serve.iter().cloned()).collect()) {
        Ok(lanes) => examine_for(&lanes),
        Err(why) => vec![refused(format!("{why:#}"))],
    }
}

fn object(Finding { subject, found }: &Finding) -> Value {
    let mut object = json!({ "code": subject.code(), "name": subject.name, "state": found.state.name(), "words": found.words });
    if found.state != State::Fine {
        object["cost"] = subject.cost.into();
        object["remedy"] = subject.remedy.into();
        object["command"] = subject.command.into();
    }
    object
}

fn text(findings: &[Finding]) -> String {
    let count = |state| findings.iter().filter(|finding| finding.found.state == state).count();
    let [fine, degraded, missing] = [State::Fine, State::Degraded, State::Missing].map(count);
    let lines: String = findings.iter().map(lines).collect();
    format!("{lines}{fine} ok, {degraded} degraded, {missing} missing")
}

fn lines(Finding { subject, found }: &Finding) -> String {
    let first = format!("{} {:<8} ", subject.code(), found.state.name());
    let mut words = wrapped(&first, &format!("{}: {}", subject.name, found.words));
    if found.state != State::Fine {
        words += &wrapped("          costs: ", subject.cost);
        words += &wrapped("         remedy: ", subject.remedy);
        words += &format!("        command: {}\n", subject.command);
    }
    words
}

#[cfg(test)]
mod tests {
    use corelane::doctor::SUBJECTS;

    #[test]
    fn the_page_has_every_subject_as_it_is_and_no_other() {
        let page = include_str!("../../../docs/doctor.md");
        let told: Vec<&str> = page.lines().filter(|line| line.starts_with("| CL-")).collect();
        let row = |subject: &corelane::doctor::Subject| {
            let (code, name, cost) = (subject.code(), subject.name, subject.cost);
            format!("| {code} | {name} | {cost} | {} | `{}` |", subject.remedy, subject.command)
        };
        assert_eq!(told, SUBJECTS.iter().map(row).collect::<Vec<_>>());
        assert!(SUBJECTS.is_sorted_by(|one, next| one.number < next.number), "each number once");
    }
}
