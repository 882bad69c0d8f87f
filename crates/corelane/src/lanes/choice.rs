//! Options that a service or a workload declares, and what somebody chose of them: one declaration for reading, help and errors.

use corelane_svc::amounts::time_word as written;
use corelane_svc::did_you_mean;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

pub use corelane_svc::amounts::{size, size_word, size_words, time};

/// An option that is on or off: `reflect`, or `reflect=true`. Off unless it is chosen.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Flag {
    /// Its name, in small letters, digits and hyphens.
    pub name: &'static str,
    /// Its effect, as the end of a line of help.
    pub help: &'static str,
}

/// The unit of an option that is a size: `4096`, `64KiB`, `16MiB`.
pub const BYTES: &str = "bytes";

/// An option that is a whole number.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Number {
    /// Its name, as [`Flag::name`].
    pub name: &'static str,
    /// The unit that it counts, such as `cents`. [`BYTES`] may have units of their own ([`size`]).
    pub unit: &'static str,
    /// The least that makes sense.
    pub least: u64,
    /// The most that makes sense.
    pub most: u64,
    /// Its value unless something is chosen.
    pub default: u64,
    /// It has to be chosen to mean anything: help names no default.
    pub is_chosen: bool,
    /// The thing that it sets, as the end of a line of help.
    pub help: &'static str,
}

/// An option that is a time: `30s`, `500ms`, `1m30s` ([`time`]).
///
/// ```
/// use corelane::service::entry::choice::{Choice, Chosen, OneOf, Time};
/// use std::time::Duration;
///
/// const PATIENCE: Time = Time::new("patience", "how long to wait").between(Duration::from_millis(1), Duration::from_secs(60), Duration::from_secs(5));
/// const ORDER: OneOf = OneOf::new("order", "HOW", &["first", "last", "any"], "who is served next");
///
/// let declared = [Choice::Time(PATIENCE), Choice::OneOf(ORDER)];
/// let chosen = Chosen::read(&declared, "patience=250ms").unwrap();
/// assert_eq!((chosen.time(&PATIENCE), chosen.one_of(&ORDER)), (Duration::from_millis(250), "first"));
/// let wrong = Chosen::read(&declared, "order=random").unwrap_err();
/// assert_eq!(wrong.why, "\"random\" is none of first, last, any");
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Time {
    /// Its name, as [`Flag::name`].
    pub name: &'static str,
    /// The least that makes sense.
    pub least: Duration,
    /// The most that makes sense.
    pub most: Duration,
    /// Its value unless something is chosen.
    pub default: Duration,
    /// The thing that it sets, as the end of a line of help.
    pub help: &'static str,
}

/// An option that is one of some names.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct OneOf {
    /// Its name, as [`Flag::name`].
    pub name: &'static str,
    /// The word for its value in help, such as `FORMAT`.
    pub value: &'static str,
    /// The names that it can have; unless something is chosen it has the first one.
    pub names: &'static [&'static str],
    /// The thing that it sets, as the end of a line of help.
    pub help: &'static str,
}

/// An option that is a text: a folder, an address, some of them with commas between.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Text {
    /// Its name, as [`Flag::name`].
    pub name: &'static str,
    /// The word for its value in help, such as `DIR`.
    pub value: &'static str,
    /// Says what is wrong with a value, and how a right one is written.
    pub check: fn(&str) -> Result<(), String>,
    /// The thing that it sets, as the end of a line of help.
    pub help: &'static str,
    /// Files, directories and ports that a value names, for the code that confines the program.
    pub uses: fn(&str) -> Vec<Use>,
}

/// An option that begins a part: the options behind it, up to the next one of its name, are those of this part alone. `host=a.example&to=a:1&host=b.example&to=b:1` has two.
///
/// ```
/// use corelane::service::entry::choice::{Choice, Chosen, Part, Text};
///
/// const TO: Text = Text::new("to", "HOST", |_| Ok(()), "who answers");
/// const HOST: Part = Part::new(Text::new("host", "NAME", |_| Ok(()), "begin what is for this host"), &[Choice::Text(TO)]);
///
/// let chosen = Chosen::read(&[Choice::Text(TO), Choice::Part(HOST)], "to=c&host=a.example&to=a&host=b.example&to=b").unwrap();
/// let of_parts: Vec<_> = chosen.parts().map(|(name, part)| (name, part.text(&TO))).collect();
/// assert_eq!(chosen.text(&TO), Some("c"));
/// assert_eq!(of_parts, [("a.example", Some("a")), ("b.example", Some("b"))]);
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Part {
    /// What begins it.
    pub text: Text,
    /// The options that it may have.
    pub options: &'static [Choice],
}

/// A thing that a service uses beside the sockets at which it is served. A file or directory may be replaced while it serves.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Use {
    /// A file or directory is read, with all beneath.
    Read(PathBuf),
    /// One is written, and made if it is not there.
    Written(PathBuf),
    /// A TCP port is connected to, at whatever address.
    Connected(u16),
    /// All TCP ports are connected to, at whatever address: which ones shows later, from another source.
    ConnectedToAny,
    /// A server that is to take connections: `HOST:PORT`, `[IPv6]:PORT` or `unix:PATH`; or what names such, as its service has it.
    Upstream(String),
    /// One that takes datagrams: its name is to have an address. Whether anybody is there cannot be asked.
    Named(String),
}

impl Flag {
    /// A flag with its help.
    ///
    /// # Panics
    /// If the name has anything but small letters, digits and hyphens: in a constant, that is an error of the compiler.
    pub const fn new(name: &'static str, help: &'static str) -> Self {
        check_name(name);
        Self { name, help }
    }
}

impl Number {
    /// So many of `unit`: from 0 up, 0 by default.
    ///
    /// # Panics
    /// As [`Flag::new`].
    pub const fn new(name: &'static str, unit: &'static str, help: &'static str) -> Self {
        check_name(name);
        Self { name, unit, least: 0, most: u64::MAX, default: 0, is_chosen: false, help }
    }

    /// From `least` to `most`, which has `default` between them.
    ///
    /// # Panics
    /// If it has not: in a constant, that is an error of the compiler.
    pub const fn between(self, least: u64, most: u64, default: u64) -> Self {
        assert!(least <= default && default <= most, "the default is out of the range");
        Self { least, most, default, ..self }
    }

    /// Means nothing unless it is chosen.
    pub const fn when_chosen(self) -> Self {
        Self { is_chosen: true, ..self }
    }

    fn read(&self, value: &str) -> Result<u64, String> {
        let number = if self.unit == BYTES { Some(size(value)?) } else { value.parse().ok() };
        let fits = number.filter(|number| (self.least..=self.most).contains(number));
        fits.ok_or_else(|| format!("{value:?} is not a number of {} from {}", self.unit, self.span()))
    }

    /// One of these numbers, as it is written.
    fn word(&self, number: u64) -> String {
        if self.unit == BYTES { size_word(number) } else { number.to_string() }
    }

    fn span(&self) -> String {
        format!("{} to {}", self.word(self.least), self.word(self.most))
    }

    /// The values that it can have, with their unit.
    fn range(&self) -> String {
        match self.unit {
            BYTES => format!("{} to {}", self.word(self.least), size_words(self.most)),
            unit => format!("{} {unit}", self.span()),
        }
    }
}

impl Time {
    /// From nothing to a day, nothing by default.
    ///
    /// # Panics
    /// As [`Flag::new`].
    pub const fn new(name: &'static str, help: &'static str) -> Self {
        check_name(name);
        Self { name, least: Duration::ZERO, most: Duration::from_secs(86_400), default: Duration::ZERO, help }
    }

    /// From `least` to `most`, which has `default` between them.
    ///
    /// # Panics
    /// If it has not: in a constant, that is an error of the compiler.
    pub const fn between(self, least: Duration, most: Duration, default: Duration) -> Self {
        let (from, to, at) = (least.as_nanos(), most.as_nanos(), default.as_nanos());
        assert!(from <= at && at <= to, "the default is out of the range");
        Self { least, most, default, ..self }
    }
}

impl OneOf {
    /// One of `names`, the first unless something is chosen. `value` stands for it in help.
    ///
    /// # Panics
    /// If there are not two names at least, and as [`Flag::new`].
    pub const fn new(name: &'static str, value: &'static str, names: &'static [&'static str], help: &'static str) -> Self {
        check_name(name);
        assert!(names.len() > 1, "there is something to choose from");
        Self { name, value, names, help }
    }

    /// The name that a text is, or what is wrong with it.
    fn read(&self, text: &str) -> Result<&'static str, String> {
        let found = self.names.iter().find(|name| **name == text).copied();
        found.ok_or_else(|| match self.names {
            [one, other] => format!("{text:?} is neither {one} nor {other}"),
            names => format!("{text:?} is none of {}", names.join(", ")),
        })
    }
}

impl Text {
    /// A text for which `value` stands in help. `check` says what is wrong with one, and how a right one is written.
    ///
    /// # Panics
    /// As [`Flag::new`].
    pub const fn new(name: &'static str, value: &'static str, check: fn(&str) -> Result<(), String>, help: &'static str) -> Self {
        check_name(name);
        Self { name, value, check, help, uses: |_| Vec::new() }
    }

    /// Names things that are used.
    pub const fn naming(self, uses: fn(&str) -> Vec<Use>) -> Self {
        Self { uses, ..self }
    }

    /// Names a file or directory that is read, or several with commas between.
    pub const fn reading(self) -> Self {
        self.naming(|paths| paths.split(',').map(|path| Use::Read(path.into())).collect())
    }

    /// Names a file that is written.
    pub const fn writing(self) -> Self {
        self.naming(|path| vec![Use::Written(path.into())])
    }
}

impl Part {
    /// A part that `text` begins, and that has these options.
    pub const fn new(text: Text, options: &'static [Choice]) -> Self {
        Self { text, options }
    }
}

const fn check_name(name: &str) {
    let bytes = name.as_bytes();
    assert!(!bytes.is_empty(), "an option has a name");
    let mut i = 0;
    while i < bytes.len() {
        assert!(matches!(bytes[i], b'a'..=b'z' | b'0'..=b'9' | b'-'), "an option is named in small letters, digits and hyphens");
        i += 1;
    }
}

/// An option as it is declared.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Choice {
    /// On or off.
    Flag(Flag),
    /// A whole number.
    Number(Number),
    /// A time.
    Time(Time),
    /// One of some names.
    OneOf(OneOf),
    /// A text.
    Text(Text),
    /// A text that may be named several times, each with a value of its own.
    Texts(Text),
    /// The beginning of a part, which may be named several times.
    Part(Part),
}

/// Two lists of options as one, for a constant: an entry's own, and those of what it stands on.
///
/// # Panics
/// If `N` is not how many there are together: in a constant, that is an error of the compiler.
pub const fn joined<const N: usize>(first: &[Choice], second: &[Choice]) -> [Choice; N] {
    assert!(first.len() + second.len() == N, "there are as many as both lists have");
    let mut all = [if first.is_empty() { second[0] } else { first[0] }; N];
    let mut at = 0;
    while at < N {
        all[at] = if at < first.len() { first[at] } else { second[at - first.len()] };
        at += 1;
    }
    all
}

/// Takes every text, for an option whose value is looked at where it is used: whether a file can be opened shows when it is.
///
/// # Errors
/// None.
pub fn any(_: &str) -> Result<(), String> {
    Ok(())
}

impl Choice {
    /// Its name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Flag(flag) => flag.name,
            Self::Number(number) => number.name,
            Self::Time(time) => time.name,
            Self::OneOf(one) => one.name,
            Self::Text(text) | Self::Texts(text) | Self::Part(Part { text, .. }) => text.name,
        }
    }

    /// The word for its value in help; none for a flag.
    pub fn value(&self) -> Option<&'static str> {
        match self {
            Self::Flag(_) => None,
            Self::Number(Number { unit: BYTES, .. }) => Some("BYTES"),
            Self::Number(_) => Some("N"),
            Self::Time(_) => Some("TIME"),
            Self::OneOf(one) => Some(one.value),
            Self::Text(text) | Self::Texts(text) | Self::Part(Part { text, .. }) => Some(text.value),
        }
    }

    /// Its effect, with unit, range and default.
    pub fn help(&self) -> String {
        match self {
            Self::Flag(flag) => flag.help.to_owned(),
            Self::Text(text) | Self::Texts(text) => text.help.to_owned(),
            Self::Part(Part { text, options }) => format!("{}: {}", text.help, names(options)),
            Self::Number(number @ Number { help, is_chosen: true, .. }) => format!("{help}; {}", number.range()),
            Self::Number(number @ Number { help, default, .. }) => {
                format!("{help}; {} [default: {}]", number.range(), number.word(*default))
            }
            Self::Time(Time { least, most, default, help, .. }) => {
                format!("{help}; {} to {} [default: {}]", written(*least), written(*most), written(*default))
            }
            Self::OneOf(OneOf { names, help, .. }) => format!("{help}; {} [default: {}]", names.join(" or "), names[0]),
        }
    }

    /// Reads a value; none is one that was not written.
    fn read(&self, value: Option<&str>) -> Result<Value, String> {
        let value = match (self, value) {
            (Self::Flag(_), None) => return Ok(Value::Flag(true)),
            (_, None | Some("")) => {
                return Err(format!("has no value: write {}={}", self.name(), self.value().unwrap_or("true")));
            }
            (_, Some(value)) => value,
        };
        match self {
            Self::Flag(_) => value.parse().map(Value::Flag).map_err(|_| format!("{value:?} is neither true nor false")),
            Self::Text(text) | Self::Texts(text) | Self::Part(Part { text, .. }) => {
                (text.check)(value).map(|()| Value::Text(value.to_owned()))
            }
            Self::Number(number) => number.read(value).map(Value::Number),
            Self::Time(Time { least, most, .. }) => match time(value)? {
                time if (*least..=*most).contains(&time) => Ok(Value::Time(time)),
                _ => Err(format!("{value:?} is not a time from {} to {}", written(*least), written(*most))),
            },
            Self::OneOf(one) => one.read(value).map(Value::OneOf),
        }
    }
}

/// The choice of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Flag(bool),
    Number(u64),
    Time(Duration),
    OneOf(&'static str),
    Text(String),
}

/// All choices of the options that are declared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    values: Vec<(&'static str, Value)>,
    uses: Vec<Use>,
    /// What begins each, and what is chosen in it.
    parts: Vec<(String, Self)>,
}

/// The fault of a choice: with which option, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The option, as it was written.
    pub option: String,
    /// Its fault.
    pub why: String,
}

impl Chosen {
    /// Reads `name=value&name=value` as it stands behind the question mark of a URL: `%2f` and the like are bytes (RFC 3986 section 2.1), a
    /// value that is left out turns a flag on, and no option may be named twice.
    ///
    /// # Errors
    /// The option that is not declared, is named twice, or has a value that it cannot have.
    pub fn read(declared: &[Choice], query: &str) -> Result<Self, Wrong> {
        let mut chosen = Self::default();
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').map_or((pair, None), |(name, value)| (name, Some(value)));
            let value = value.map(|value| decoded(value).ok_or_else(|| wrong(name, "its value is no text"))).transpose()?;
            chosen.choose(declared, name, value.as_deref())?;
        }
        Ok(chosen)
    }

    /// Chooses one more.
    ///
    /// # Errors
    /// As for [`Chosen::read`].
    pub fn choose(&mut self, declared: &[Choice], name: &str, value: Option<&str>) -> Result<(), Wrong> {
        let begins = declared.iter().find_map(|choice| if let Choice::Part(part) = choice { Some(part) } else { None });
        if let (Some(part), Some((of, within))) = (begins, self.parts.last_mut())
            && part.text.name != name
        {
            let is_of_all = |choice: &Choice| choice.name() == name;
            if declared.iter().any(is_of_all) && !part.options.iter().any(is_of_all) {
                return Err(wrong(name, format!("it is for all together: write it before the first {}=", part.text.name)));
            }
            let before = within.uses.len();
            within
                .choose(part.options, name, value)
                .map_err(|Wrong { option, why }| Wrong { option, why: format!("of {of}: {why}") })?;
            self.uses.extend_from_slice(&within.uses[before..]);
            return Ok(());
        }
        let Some(choice) = declared.iter().find(|choice| choice.name() == name) else {
            return Err(wrong(name, there_are(declared, name)));
        };
        if self.value(choice.name()).is_some() && !matches!(choice, Choice::Texts(_)) {
            return Err(wrong(name, "it is named twice"));
        }
        let value = choice.read(value).map_err(|why| wrong(name, why))?;
        if let (Choice::Text(text) | Choice::Texts(text), Value::Text(chosen)) = (choice, &value) {
            self.uses.extend((text.uses)(chosen));
        }
        match (choice, value) {
            (Choice::Part(_), Value::Text(begins)) => self.parts.push((begins, Self::default())),
            (_, value) => self.values.push((choice.name(), value)),
        }
        Ok(())
    }

    /// What is chosen in each part, in their order, and what begins it. A list of options declares one kind of part at the most.
    pub fn parts(&self) -> impl Iterator<Item = (&str, &Self)> {
        self.parts.iter().map(|(begins, chosen)| (begins.as_str(), chosen))
    }

    /// The things that are named.
    pub fn uses(&self) -> &[Use] {
        &self.uses
    }

    /// Whether something was chosen of the option of this name.
    pub fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// Whether the flag is on.
    pub fn flag(&self, flag: &Flag) -> bool {
        matches!(self.value(flag.name), Some(Value::Flag(true)))
    }

    /// The number, or its default.
    pub fn number(&self, number: &Number) -> u64 {
        match self.value(number.name) {
            Some(Value::Number(chosen)) => *chosen,
            _ => number.default,
        }
    }

    /// The time, or its default.
    pub fn time(&self, time: &Time) -> Duration {
        match self.value(time.name) {
            Some(Value::Time(chosen)) => *chosen,
            _ => time.default,
        }
    }

    /// The name, or the first of those that there are.
    pub fn one_of(&self, one: &OneOf) -> &'static str {
        match self.value(one.name) {
            Some(Value::OneOf(chosen)) => chosen,
            _ => one.names[0],
        }
    }

    /// The text, if one was chosen.
    pub fn text(&self, text: &Text) -> Option<&str> {
        match self.value(text.name) {
            Some(Value::Text(chosen)) => Some(chosen),
            _ => None,
        }
    }

    /// Each text that was chosen of an option that may be named several times, in their order.
    pub fn texts(&self, text: &Text) -> impl Iterator<Item = &str> {
        self.values.iter().filter_map(|(name, value)| match value {
            Value::Text(chosen) if *name == text.name => Some(chosen.as_str()),
            _ => None,
        })
    }

    fn value(&self, name: &str) -> Option<&Value> {
        self.values.iter().find(|(of, _)| *of == name).map(|(_, value)| value)
    }
}

fn wrong(option: &str, why: impl Into<String>) -> Wrong {
    Wrong { option: option.to_owned(), why: why.into() }
}

fn there_are(declared: &[Choice], written: &str) -> String {
    match declared.is_empty() {
        true => "there is no such option, nor any other".to_owned(),
        false => {
            let meant = did_you_mean(written, declared.iter().map(Choice::name));
            format!("there is no such option{meant}; there are {}", names(declared))
        }
    }
}

/// The names of options, in words.
fn names(declared: &[Choice]) -> String {
    declared.iter().map(Choice::name).collect::<Vec<_>>().join(", ")
}

/// The options as lines of help, each indented by `indent`.
pub fn describe(declared: &[Choice], indent: &str) -> String {
    let mut out = String::new();
    for choice in declared {
        let name = choice.value().map_or(choice.name().to_owned(), |value| format!("{}={value}", choice.name()));
        // Writing to a string does not fail.
        let _ = writeln!(out, "{indent}{name:<16} {}", choice.help());
    }
    out
}

/// The text with its percent signs taken as RFC 3986 has them; none if what comes out is no UTF-8, or a percent sign stands for nothing.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    bytes.extend_from_slice(parts.next()?.as_bytes());
    for part in parts {
        let (digits, rest) =
            part.split_at_checked(2).filter(|(digits, _)| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAG: Flag = Flag::new("loud", "say everything");
    const NUMBER: Number = Number::new("size", "bytes", "how much").between(1, 99, 7);
    const TEXT: Text = Text::new("root", "DIR", absolute, "where it is");
    fn absolute(text: &str) -> Result<(), String> {
        if text.starts_with('/') { Ok(()) } else { Err(format!("{text:?} does not begin with /")) }
    }

    const ALL: &[Choice] = &[Choice::Flag(FLAG), Choice::Number(NUMBER), Choice::Text(TEXT)];

    #[test]
    fn what_is_chosen_is_read_and_the_rest_has_its_default() {
        let chosen = Chosen::read(ALL, "loud&size=99&root=/a%20b%26c").unwrap();
        assert_eq!((chosen.flag(&FLAG), chosen.number(&NUMBER), chosen.text(&TEXT)), (true, 99, Some("/a b&c")));
        let chosen = Chosen::read(ALL, "loud=false").unwrap();
        assert_eq!((chosen.flag(&FLAG), chosen.number(&NUMBER), chosen.text(&TEXT)), (false, 7, None));
    }

    const PATIENCE: Time = Time::new("patience", "how long").between(MS, Duration::from_secs(90), Duration::from_secs(5));
    const MS: Duration = Duration::from_millis(1);
    const TWO: OneOf = OneOf::new("form", "FORM", &["text", "json"], "how it looks");
    const THREE: OneOf = OneOf::new("order", "HOW", &["first", "last", "any"], "who is next");
    const NAMED: &[Choice] = &[Choice::Time(PATIENCE), Choice::OneOf(TWO), Choice::OneOf(THREE)];

    #[test]
    fn times_and_names_are_read_and_have_their_defaults() {
        let of = |query: &str| {
            let chosen = Chosen::read(NAMED, query).unwrap();
            (chosen.time(&PATIENCE), chosen.one_of(&TWO), chosen.one_of(&THREE))
        };
        assert_eq!(of("patience=1m30s&form=json&order=any"), (Duration::from_secs(90), "json", "any"));
        assert_eq!(of("patience=500ms&order=first"), (Duration::from_millis(500), "text", "first"));
        assert_eq!(of("form=text"), (Duration::from_secs(5), "text", "first"));
    }

    #[test]
    fn what_a_time_or_a_name_could_be_is_said() {
        for (query, why) in [
            ("patience", "has no value: write patience=TIME"),
            ("patience=91s", "\"91s\" is not a time from 1ms to 1m30s"),
            ("patience=0", "\"0\" is not a time from 1ms to 1m30s"),
            ("form=xml", "\"xml\" is neither text nor json"),
            ("form", "has no value: write form=FORM"),
            ("order=First", "\"First\" is none of first, last, any"),
        ] {
            assert_eq!(Chosen::read(NAMED, query).unwrap_err().why, why, "{query}");
        }
        let soon = Chosen::read(NAMED, "patience=soon").unwrap_err().why;
        assert!(soon.starts_with("\"soon\" is no time: ") && soon.contains("such as 500ms"), "{soon}");
        assert_eq!(
            describe(NAMED, ""),
            "patience=TIME    how long; 1ms to 1m30s [default: 5s]\nform=FORM        how it looks; text or json [default: text]\n\
             order=HOW        who is next; first or last or any [default: first]\n"
        );
    }

    #[test]
    fn an_option_that_may_be_named_several_times_keeps_each_value() {
        let several = [Choice::Texts(TEXT), Choice::Flag(FLAG)];
        let chosen = Chosen::read(&several, "root=/b&loud&root=/a").unwrap();
        assert_eq!(chosen.texts(&TEXT).collect::<Vec<_>>(), ["/b", "/a"]);
        let wrong = Chosen::read(&several, "root=/b&root=a").unwrap_err();
        assert_eq!((wrong.option.as_str(), Chosen::default().texts(&TEXT).count()), ("root", 0));
    }

    #[test]
    fn parts_have_options_of_their_own() {
        const PARTED: &[Choice] = &[Choice::Flag(FLAG), Choice::Text(TEXT), Choice::Part(NAMED_PART)];
        const NAMED_PART: Part = Part::new(Text::new("part", "NAME", any, "begin a part"), &[Choice::Text(TEXT)]);
        let chosen = Chosen::read(PARTED, "loud&root=/c&part=a&root=/a&part=b").unwrap();
        let parts: Vec<_> = chosen.parts().map(|(name, part)| (name, part.text(&TEXT))).collect();
        assert_eq!((chosen.text(&TEXT), parts), (Some("/c"), vec![("a", Some("/a")), ("b", None)]));
        for (query, option, why) in [
            ("part=a&loud", "loud", "it is for all together: write it before the first part="),
            ("part=a&root=/a&root=/b", "root", "of a: it is named twice"),
            ("part=a&root=b", "root", "of a: \"b\" does not begin with /"),
            ("part=a&size=1", "size", "of a: there is no such option; there are root"),
        ] {
            assert_eq!(Chosen::read(PARTED, query), Err(Wrong { option: option.to_owned(), why: why.to_owned() }), "{query}");
        }
        assert!(describe(PARTED, "").ends_with("part=NAME        begin a part: root\n"));
        assert_eq!(joined::<4>(PARTED, &[Choice::Number(NUMBER)]).map(|choice| choice.name()), ["loud", "root", "part", "size"]);
    }

    #[test]
    fn what_is_wrong_is_said_with_the_option() {
        for (query, option, why) in [
            ("", "", "there is no such option; there are loud, size, root"),
            ("Loud", "Loud", "there is no such option (did you mean loud?); there are loud, size, root"),
            ("loud=yes", "loud", "\"yes\" is neither true nor false"),
            ("loud&loud", "loud", "it is named twice"),
            ("size", "size", "has no value: write size=BYTES"),
            ("size=", "size", "has no value: write size=BYTES"),
            ("size=0", "size", "\"0\" is not a number of bytes from 1 to 99"),
            ("size=1KiB", "size", "\"1KiB\" is not a number of bytes from 1 to 99"),
            ("size=99999999999999999999", "size", "\"99999999999999999999\" is more than any size"),
            ("root=a", "root", "\"a\" does not begin with /"),
            ("root=/%2", "root", "its value is no text"),
            ("root=/%+5", "root", "its value is no text"),
            ("root=/%ff", "root", "its value is no text"),
            ("root=/%ä", "root", "its value is no text"),
        ] {
            assert_eq!(Chosen::read(ALL, query), Err(Wrong { option: option.to_owned(), why: why.to_owned() }), "{query}");
        }
        assert_eq!(Chosen::read(&[], "a").unwrap_err().why, "there is no such option, nor any other");
    }

    #[test]
    fn help_names_value_unit_range_and_default() {
        assert_eq!(
            describe(ALL, "  "),
            "  loud             say everything\n  size=BYTES       how much; 1 to 99 bytes [default: 7]\n  root=DIR         where it is\n"
        );
    }
}
