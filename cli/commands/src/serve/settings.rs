//! What `serve` is told by a TOML file and by the environment, in the flags' own words.
//!
//! The flags are the only list: a key is a flag's long name, and its value is what would stand behind it, so a new flag, service or option is
//! a key at once. Each setting becomes words of a command line; those that the real one gives as well are left out, for the command line
//! precedes the environment, and that precedes the file. Limits are the exception: they gather, and the last of one name counts.

use super::arguments::Arguments;
use super::tables::{self, Joined};
use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use corelane::service::did_you_mean;
use std::ffi::OsString;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What names the file where no flag does.
const FILE: &str = "CORELANE_CONFIG";

/// What is said by a flag alone: what to do, rather than how to serve.
const DEEDS: [&str; 5] = ["config", "check", "plan", "json", "take-over"];

/// The key of what is served.
pub const SERVICES: &str = "services";

/// More than any file of settings has: one that is longer is another file.
const BYTES_MAX: u64 = 1 << 20;

/// One value of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    key: String,
    value: String,
    /// Where it stands: FILE:LINE:COLUMN, or the variable.
    at: String,
    /// The tables that say so, if it is not written as it is.
    tables: Option<Joined>,
}

impl Setting {
    /// As it would stand in a command line.
    fn word(&self, arg: &Arg) -> Option<String> {
        match arg.get_action() {
            ArgAction::SetTrue => (self.value == "true").then(|| format!("--{}", self.key)),
            _ if arg.is_positional() => Some(self.value.clone()),
            _ => Some(format!("--{}={}", self.key, self.value)),
        }
    }

    /// The arguments if this were all that is set.
    fn alone(&self) -> Result<Arguments> {
        let arg = arg(&self.key).ok_or_else(|| anyhow!(unknown(&self.key)))?;
        if matches!(arg.get_action(), ArgAction::SetTrue) {
            ensure!(matches!(self.value.as_str(), "true" | "false"), "{}: {:?} is neither true nor false", self.key, self.value);
        }
        ensure!(!(arg.is_positional() && self.value.starts_with('-')), "{}: {:?} is not SERVICE=URL", self.key, self.value);
        Ok(Arguments::from_arg_matches(&parsed(self.word(&arg).into_iter().map(OsString::from))?)?)
    }

    /// Whether it sets what this key names.
    pub fn is(&self, key: &str) -> bool {
        self.key == key
    }

    /// `NAME=VALUE`, if it sets a limit.
    pub fn limit(&self) -> Option<&str> {
        (self.key == "limit").then_some(self.value.as_str())
    }

    /// What is set now, and was not so before; and what was set before, and is not any more: each with whether it is set.
    pub fn differing<'a>(before: &'a [Self], now: &'a [Self]) -> impl Iterator<Item = (&'a Self, bool)> {
        let is_new = move |one: &&Self| !before.iter().any(|other| (&other.key, &other.value) == (&one.key, &one.value));
        let is_gone = move |one: &&Self| !now.iter().any(|other| other.what() == one.what());
        now.iter().filter(is_new).map(|one| (one, true)).chain(before.iter().filter(is_gone).map(|one| (one, false)))
    }

    /// What it sets: of limits which one.
    fn what(&self) -> (&str, Option<&str>) {
        (&self.key, self.limit().map(|limit| limit.split_once('=').map_or(limit, |(name, _)| name)))
    }

    /// Whether this text is a part of what it sets.
    pub fn has(&self, text: &str) -> bool {
        self.tables.as_ref().map_or_else(|| self.value.contains(text), |tables| tables.place_of(text).is_some())
    }

    /// Where this text stands that it has.
    pub fn place_of(&self, text: &str) -> &str {
        self.tables.as_ref().and_then(|tables| tables.place_of(text)).unwrap_or(&self.at)
    }

    /// Words for it, which name it.
    pub fn called(&self) -> String {
        match &self.tables {
            Some(tables) => format!("the sites at {:?}", tables.listen),
            None => format!("{:?}", self.value),
        }
    }

    /// How it differs from what was set before, if both are tables of one place.
    pub fn differs(&self, before: &[Self]) -> Option<Vec<String>> {
        let tables = self.tables.as_ref()?;
        let of_place = |other: &&Joined| other.listen == tables.listen;
        let differing = tables.differing(before.iter().filter_map(|other| other.tables.as_ref()).find(of_place)?);
        // Where only their order does, it is said of all.
        (!differing.is_empty()).then_some(differing)
    }

    /// Its value.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// For tests: a service.
    #[cfg(test)]
    pub fn service(value: &str) -> Self {
        Self { key: "services".to_owned(), value: value.to_owned(), at: String::new(), tables: None }
    }

    /// Its mistake, if it has one by itself.
    fn fault<T>(&self, right: impl Fn(Arguments) -> Result<T>) -> Option<anyhow::Error> {
        let wrong = |value: &str| {
            let alone = Self { value: value.to_owned(), ..self.clone() };
            alone.alone().and_then(&right).err()
        };
        match &self.tables {
            Some(tables) => tables.blamed(wrong),
            None => wrong(&self.value).map(|why| self.blamed(&why)),
        }
    }

    fn blamed(&self, why: &anyhow::Error) -> anyhow::Error {
        anyhow!("{}: {why:#}", self.at)
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {:?}", self.at, self.key, self.value)
    }
}

fn command() -> Command {
    Arguments::augment_args(Command::new("corelane serve")).no_binary_name(true)
}

/// The flags that can be set.
fn args() -> Vec<Arg> {
    command().get_arguments().filter(|arg| !DEEDS.contains(&name(arg))).cloned().collect()
}

fn arg(key: &str) -> Option<Arg> {
    args().into_iter().find(|arg| name(arg) == key)
}

fn name(arg: &Arg) -> &str {
    arg.get_long().unwrap_or(arg.get_id().as_str())
}

/// What is said of a key that there is not.
fn unknown(key: &str) -> String {
    let args = args();
    let mut keys: Vec<&str> = args.iter().map(name).collect();
    tables::names().for_each(|name| keys.push(name));
    format!("there is no {key:?}{}: the keys are {}", did_you_mean(key, keys.iter().copied()), keys.join(", "))
}

/// Reads words as flags; what is wrong is said in one line.
fn parsed(words: impl Iterator<Item = OsString>) -> Result<ArgMatches> {
    command().try_get_matches_from(words).map_err(|error| {
        let words = error.render().to_string();
        // With the values that are possible, which stand in a line of their own.
        let lines: Vec<&str> = words.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
        anyhow!("{}", lines.join(" ").trim_start_matches("error: "))
    })
}

/// The arguments of these words.
///
/// # Errors
/// What is wrong with them, in one line.
pub fn arguments(words: &[OsString]) -> Result<Arguments> {
    Ok(Arguments::from_arg_matches(&parsed(words.iter().cloned())?)?)
}

/// The arguments of the words that were given, completed by what the environment and the file set, and these settings.
///
/// # Errors
/// A file that cannot be read, and a setting that no flag takes, with its place.
pub fn complete(arguments: Arguments, given: Vec<OsString>) -> Result<(Arguments, Vec<Setting>)> {
    let from_file = file(&arguments).map(|path| read(&path)).transpose()?.unwrap_or_default();
    let environment = from_environment(|name| std::env::var(name).ok());
    let settings = in_force(&parsed(given.iter().cloned())?, environment, from_file);
    if settings.is_empty() {
        return Ok((arguments, settings));
    }
    for setting in &settings {
        setting.alone().map_err(|why| setting.blamed(&why))?;
    }
    let words = settings.iter().filter_map(|setting| setting.word(&arg(&setting.key)?)).map(OsString::from);
    Ok((Arguments::from_arg_matches(&parsed(words.chain(given))?)?, settings))
}

/// The file of settings, if one is named.
pub fn file(arguments: &Arguments) -> Option<PathBuf> {
    arguments.config.clone().or_else(|| std::env::var_os(FILE).map(Into::into))
}

/// [`complete`] once more, while it serves: the file may say something else by now.
///
/// # Errors
/// As of [`complete`].
pub fn again() -> Result<(Arguments, Vec<Setting>)> {
    let given = given();
    complete(arguments(&given)?, given)
}

/// The words behind the command's own name, and `serve`.
pub fn given() -> Vec<OsString> {
    std::env::args_os().skip(2).collect()
}

/// The settings that nothing precedes, the weakest first.
fn in_force(given: &ArgMatches, environment: Vec<Setting>, file: Vec<Setting>) -> Vec<Setting> {
    let gathers = |key: &str| arg(key).is_some_and(|arg| !arg.is_positional() && matches!(arg.get_action(), ArgAction::Append));
    let is_given = |key: &str| {
        arg(key).is_some_and(|arg| given.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine)) && !gathers(key)
    };
    let in_environment = |key: &str| environment.iter().any(|setting| setting.key == key) && !gathers(key);
    let mut settings: Vec<Setting> = file.into_iter().filter(|setting| !in_environment(&setting.key)).collect();
    settings.extend(environment);
    settings.retain(|setting| !is_given(&setting.key));
    settings
}

/// Says which setting is at fault for what was found out only when all were put together, if it is one.
pub fn blame<T>(settings: &[Setting], error: anyhow::Error, right: impl Fn(Arguments) -> Result<T>) -> anyhow::Error {
    settings.iter().find_map(|setting| setting.fault(&right)).unwrap_or(error)
}

/// CORELANE_KEY for each key; several values are apart by white space. Variables of other names are other programs'.
fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Vec<Setting> {
    let mut settings = Vec::new();
    for arg in args() {
        let at = variable_of(&arg);
        let Some(text) = variable(&at) else { continue };
        let one = |value: &str| Setting { key: name(&arg).to_owned(), value: value.to_owned(), at: at.clone(), tables: None };
        match arg.get_action() {
            ArgAction::Append => settings.extend(text.split_whitespace().map(one)),
            _ => settings.push(one(&text)),
        }
    }
    settings
}

/// Other variables of ours: where the file is, where counter pages are, and what the project's tests are told, which run the program.
const OTHERS: [&str; 4] = [FILE, "CORELANE_RUN_DIR", "CORELANE_SKIPS", "CORELANE_NEW_SEEDS"];

/// What begins as our variables do, and is none: it may be meant for us, or be another program's.
pub fn unknown_variables(names: impl Iterator<Item = OsString>) -> Vec<String> {
    let known: Vec<String> = args().iter().map(variable_of).chain(OTHERS.map(str::to_owned)).collect();
    let names = names.map(|name| name.to_string_lossy().into_owned());
    let mut unknown: Vec<String> = names.filter(|name| name.starts_with(PREFIX) && !known.contains(name)).collect();
    unknown.sort_unstable();
    unknown
}

/// What the names of our variables begin with.
const PREFIX: &str = "CORELANE_";

fn variable_of(arg: &Arg) -> String {
    format!("{PREFIX}{}", name(arg).replace('-', "_").to_uppercase())
}

fn read(path: &Path) -> Result<Vec<Setting>> {
    let name = path.display().to_string();
    let mut text = String::new();
    let file = std::fs::File::open(path).and_then(|file| file.take(BYTES_MAX + 1).read_to_string(&mut text));
    file.with_context(|| format!("cannot read the configuration {name}"))?;
    ensure!(text.len() as u64 <= BYTES_MAX, "the configuration {name} is longer than {BYTES_MAX} bytes: name another file");
    settings(&name, &text)
}

/// The settings of a file's text, in its order.
fn settings(name: &str, text: &str) -> Result<Vec<Setting>> {
    let at = |offset: usize| place(name, text, offset);
    let table = DeTable::parse(text)
        .map_err(|error| anyhow!("{}: {}", at(error.span().map_or(0, |span| span.start)), error.message().replace('\n', ", ")))?;
    let mut found = Vec::new();
    for (key, value) in table.get_ref() {
        if let Some(joined) = tables::read(key.get_ref(), value, &at)? {
            let service = |(start, tables): (usize, Joined)| {
                let (value, at) = (tables.text(), tables.at().to_owned());
                (start, Setting { key: SERVICES.to_owned(), value, at, tables: Some(tables) })
            };
            found.extend(joined.into_iter().map(service));
            continue;
        }
        let setting =
            |value: String, start: usize| (start, Setting { key: key.get_ref().to_string(), value, at: at(start), tables: None });
        let Some(arg) = arg(key.get_ref()) else {
            bail!("{}: {}", at(key.span().start), unknown(key.get_ref()));
        };
        let values = values(&arg, value).map_err(|(start, why)| anyhow!("{}: {}: {why}", at(start), key.get_ref()))?;
        found.extend(values.into_iter().map(|(start, value)| setting(value, start)));
    }
    found.sort_by_key(|(start, _)| *start);
    Ok(found.into_iter().map(|(_, setting)| setting).collect())
}

/// Where something begins, and what it is.
type Found<T> = (usize, T);

/// What a key is set to: several things where its flag may be repeated.
fn values(arg: &Arg, value: &Spanned<DeValue<'_>>) -> Result<Vec<Found<String>>, Found<String>> {
    let repeats = matches!(arg.get_action(), ArgAction::Append);
    match value.get_ref() {
        DeValue::Array(array) if repeats => array.iter().map(scalar).collect(),
        DeValue::Table(table) if repeats && !arg.is_positional() => table
            .iter()
            .map(|(name, value)| Ok((name.span().start, format!("{}={}", name.get_ref(), scalar(value)?.1))))
            .collect(),
        DeValue::Boolean(_) if !matches!(arg.get_action(), ArgAction::SetTrue) => {
            Err((value.span().start, "true and false are no values of it".to_owned()))
        }
        _ => Ok(vec![scalar(value)?]),
    }
}

fn scalar(value: &Spanned<DeValue<'_>>) -> Result<Found<String>, Found<String>> {
    let start = value.span().start;
    match value.get_ref() {
        DeValue::String(text) => Ok((start, text.to_string())),
        DeValue::Boolean(is) => Ok((start, is.to_string())),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Ok((start, number.to_string())),
            Err(why) => Err((start, format!("{}: {why}", number.as_str()))),
        },
        other => Err((start, format!("it cannot be {}: write a text, a number, true or false", other.type_str()))),
    }
}

/// FILE:LINE:COLUMN, both from 1, as editors count.
fn place(name: &str, text: &str, offset: usize) -> String {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("{name}:{line}:{column}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(settings: &[Setting]) -> Vec<(&str, &str, &str)> {
        settings.iter().map(|one| (one.key.as_str(), one.value.as_str(), one.at.as_str())).collect()
    }

    #[test]
    fn every_value_knows_its_place() {
        let text =
            "services = [\"echo=tcp://h:1\",\n  \"rpc=tcp://h:2\"]\nlanes = 0x1_0\njoin = true\n[limit]\nsend_buffer = 3_000\n";
        let found = settings("f", text).unwrap();
        let expected = [
            ("services", "echo=tcp://h:1", "f:1:13"),
            ("services", "rpc=tcp://h:2", "f:2:3"),
            ("lanes", "16", "f:3:9"),
            ("join", "true", "f:4:8"),
            ("limit", "send_buffer=3000", "f:6:1"),
        ];
        assert_eq!(shown(&found), expected);
    }

    #[test]
    fn the_command_line_precedes_the_environment_and_that_the_file() {
        let file = settings("f", "lanes = 1\nspin = 1\ndriver = \"epoll\"\n[limit]\na = 1\n").unwrap();
        let environment = from_environment(|name| match name {
            "CORELANE_LANES" => Some("2".to_owned()),
            "CORELANE_SPIN" => Some("2".to_owned()),
            "CORELANE_LIMIT" => Some("a=2 b=2".to_owned()),
            _ => None,
        });
        let given = parsed(["--lanes=3", "--limit=a=3"].into_iter().map(OsString::from)).unwrap();
        let settings = in_force(&given, environment, file);
        let expected = [
            ("driver", "epoll", "f:3:10"),
            ("limit", "a=1", "f:5:1"),
            ("spin", "2", "CORELANE_SPIN"),
            ("limit", "a=2", "CORELANE_LIMIT"),
            ("limit", "b=2", "CORELANE_LIMIT"),
        ];
        assert_eq!(shown(&settings), expected);
    }

    #[test]
    fn variables_that_set_nothing_are_found() {
        let names =
            ["CORELANE_LANES", "CORELANE_RUN_DIR", "CORELANE_CONFIG", "HOME", "CORELANE_LANE", "CORELANE_PORT", "CORELANE_"];
        let unknown = unknown_variables(names.into_iter().map(OsString::from));
        assert_eq!(unknown, ["CORELANE_", "CORELANE_LANE", "CORELANE_PORT"]);
    }

    #[test]
    fn the_page_has_every_key_and_no_other() {
        let page = include_str!("../../../../docs/configuration.md");
        let mut told: Vec<&str> =
            page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|(key, _)| key).collect();
        told.sort_unstable();
        let args = args();
        let mut keys: Vec<&str> = args.iter().map(name).collect();
        tables::names().for_each(|name| keys.push(name));
        keys.sort_unstable();
        assert_eq!(told, keys);
    }
}
