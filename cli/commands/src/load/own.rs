//! The options that only one workload has, from their declarations: words of the command line, read when the workload is known.

use anyhow::{Result, anyhow};
use clap::{Arg, ArgAction, ArgMatches, Command};
use corelane::service::entry::choice::{Choice, Chosen, Wrong};
use corelane_load::workloads::{self, WorkloadEntry};
use std::fs::File;
use std::io::Read;

/// What was written of them, option by option.
#[derive(Clone, Debug, Default)]
pub struct Own(Vec<(&'static str, Option<String>)>);

impl Own {
    /// What was chosen for a workload.
    pub fn chosen(&self, entry: &WorkloadEntry) -> Result<Chosen> {
        let mut chosen = Chosen::default();
        for (name, value) in &self.0 {
            if !entry.options.iter().any(|option| option.name() == *name) {
                return Err(of_another(name, entry));
            }
            let is_file = entry.options.iter().any(|option| option.name() == *name && option.value() == Some("FILE"));
            let text = value.as_deref().filter(|_| is_file).map(|path| text_of(name, path)).transpose()?;
            let value = text.as_deref().or(value.as_deref());
            chosen.choose(entry.options, name, value).map_err(|Wrong { option, why }| anyhow!("--{option}: {why}"))?;
        }
        Ok(chosen)
    }
}

/// The longest file of an option, in bytes.
const FILE_MAX: u64 = 4 << 20;

/// What a file of an option has.
fn text_of(name: &str, path: &str) -> Result<String> {
    let mut text = String::new();
    let length = File::open(path).and_then(|file| file.take(FILE_MAX + 1).read_to_string(&mut text));
    let length = length.map_err(|error| anyhow!("--{name}: {path:?} cannot be read: {error}"))?;
    if length as u64 > FILE_MAX {
        return Err(anyhow!("--{name}: {path} has more than {FILE_MAX} bytes: take a part of it"));
    }
    Ok(text)
}

fn declared() -> impl Iterator<Item = (&'static WorkloadEntry, &'static Choice)> {
    workloads::ALL.iter().flat_map(|entry| entry.options.iter().map(move |option| (entry, option)))
}

fn of_another(name: &str, entry: &WorkloadEntry) -> anyhow::Error {
    let known = declared().find(|(_, option)| option.name() == name);
    let (owner, help) = known.map_or(("another workload", String::new()), |(owner, option)| (owner.name, option.help()));
    anyhow!("--{name} is for {owner}: {help}; {} has no such option", entry.name)
}

impl clap::Args for Own {
    fn augment_args(command: Command) -> Command {
        declared().fold(command, |command, (entry, option)| {
            let arg = Arg::new(option.name()).long(option.name()).help_heading("Load").help(format!(
                "For {}: {}",
                entry.name,
                option.help()
            ));
            command.arg(match option.value() {
                Some(value) if matches!(option, Choice::Texts(_)) => arg.value_name(value).action(ArgAction::Append),
                Some(value) => arg.value_name(value),
                None => arg.action(ArgAction::SetTrue),
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Own {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let written = |option: &Choice| match option.value() {
            Some(_) => matches.get_many::<String>(option.name()).into_iter().flatten().cloned().map(Some).collect(),
            None => vec![None; usize::from(matches.get_flag(option.name()))],
        };
        Ok(Self(declared().flat_map(|(_, option)| written(option).into_iter().map(|value| (option.name(), value))).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
