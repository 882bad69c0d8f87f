//! Tables of TOML, key by key: each is taken once, what is left at the end is unknown, and every fault has its place.

use corelane::service::did_you_mean;
use std::borrow::Cow;
use std::ops::RangeInclusive;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What is wrong, and the byte at which it begins.
#[derive(Debug, PartialEq, Eq)]
pub struct Wrong {
    pub at: usize,
    pub why: String,
}

/// A value with its place.
pub type Value<'d> = Spanned<DeValue<'d>>;

/// A table whose keys are taken one by one.
#[derive(Debug)]
pub struct Keys<'d> {
    table: &'d DeTable<'d>,
    /// Where it begins, and what it is in words.
    at: usize,
    name: &'static str,
    known: Vec<&'static str>,
}

impl<'d> Keys<'d> {
    /// The keys of the whole file.
    pub fn of_file(table: &'d Spanned<DeTable<'d>>) -> Self {
        Self { table: table.get_ref(), at: table.span().start, name: "the file", known: Vec::new() }
    }

    /// Those of a value that is a table.
    ///
    /// # Errors
    /// It is none.
    pub fn of(value: &'d Value<'d>, name: &'static str) -> Result<Self, Wrong> {
        match value.get_ref() {
            DeValue::Table(table) => Ok(Self { table, at: value.span().start, name, known: Vec::new() }),
            other => Err(wrong(value, format!("{name} is a table of keys, not {}", with_article(other.type_str())))),
        }
    }

    /// Where the table begins.
    pub const fn at(&self) -> usize {
        self.at
    }

    /// What a key is set to.
    pub fn take(&mut self, key: &'static str) -> Option<&'d Value<'d>> {
        self.known.push(key);
        self.table.get(key)
    }

    /// What a key is set to that has to be there.
    ///
    /// # Errors
    /// It is not.
    pub fn must(&mut self, key: &'static str, example: &str) -> Result<&'d Value<'d>, Wrong> {
        let (at, name) = (self.at, self.name);
        self.take(key).ok_or_else(|| Wrong { at, why: format!("{name} has no {key}: write {key} = {example}") })
    }

    /// The tables of a key that may stand there several times, as `[[key]]`.
    ///
    /// # Errors
    /// It is something else.
    pub fn tables(&mut self, key: &'static str, name: &'static str) -> Result<Vec<Keys<'d>>, Wrong> {
        let Some(value) = self.take(key) else { return Ok(Vec::new()) };
        match value.get_ref() {
            DeValue::Array(all) => all.iter().map(|one| Keys::of(one, name)).collect(),
            _ => Err(wrong(value, format!("{key} is written as [[{key}]], once for each"))),
        }
    }

    /// Refuses keys that nobody has taken.
    ///
    /// # Errors
    /// The first of them.
    pub fn end(self) -> Result<(), Wrong> {
        self.only(&self.known)
    }

    /// Refuses keys other than these.
    ///
    /// # Errors
    /// The first of them.
    pub fn only(&self, known: &[&str]) -> Result<(), Wrong> {
        let unknown = self.table.keys().filter(|key| !known.contains(&&**key.get_ref()));
        match unknown.min_by_key(|key| key.span().start) {
            None => Ok(()),
            Some(key) => {
                let nearest = did_you_mean(key.get_ref(), known.iter().copied());
                let why = format!("{} has no {:?}{nearest}: its keys are {}", self.name, key.get_ref(), known.join(", "));
                Err(Wrong { at: key.span().start, why })
            }
        }
    }
}

/// That a value is not as it should be.
pub fn wrong(value: &Value<'_>, why: impl Into<String>) -> Wrong {
    Wrong { at: value.span().start, why: why.into() }
}

fn with_article(name: &str) -> String {
    let article = if name.starts_with(['a', 'i', 'o']) { "an" } else { "a" };
    format!("{article} {name}")
}

/// A text; `example` says how one is written.
///
/// # Errors
/// It is none.
pub fn text<'d>(value: &'d Value<'d>, example: &str) -> Result<&'d str, Wrong> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text),
        other => Err(wrong(value, format!("{} is no text: write {example}", with_article(other.type_str())))),
    }
}

/// A text that says something which can be read; `example` says how.
///
/// # Errors
/// It is none, or does not.
pub fn parsed<T>(value: &Value<'_>, example: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<T, Wrong> {
    let text = text(value, example)?;
    read(text).ok_or_else(|| wrong(value, format!("{text:?} cannot be read: write {example}")))
}

/// One of some words.
///
/// # Errors
/// It is none of them.
pub fn word<T: Copy>(value: &Value<'_>, words: &[(&str, T)]) -> Result<T, Wrong> {
    let names = || words.iter().map(|(name, _)| *name);
    let all = names().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(" or ");
    let text = text(value, &all)?;
    words
        .iter()
        .find(|(name, _)| *name == text)
        .map(|(_, meaning)| *meaning)
        .ok_or_else(|| wrong(value, format!("there is no {text:?}{}: write {all}", did_you_mean(text, names()))))
}

/// True or false.
///
/// # Errors
/// It is neither.
pub fn flag(value: &Value<'_>) -> Result<bool, Wrong> {
    match value.get_ref() {
        DeValue::Boolean(is) => Ok(*is),
        other => Err(wrong(value, format!("{} is neither true nor false: write one of the two", with_article(other.type_str())))),
    }
}

/// A whole number within a range, of something.
///
/// # Errors
/// It is none, or out of the range.
pub fn number(value: &Value<'_>, range: RangeInclusive<u64>, what: &str) -> Result<u64, Wrong> {
    let (least, most) = (range.start(), range.end());
    let asked = || format!("write a number of {what} from {least} to {most}");
    match value.get_ref() {
        DeValue::Integer(digits) => {
            let read = u64::from_str_radix(digits.as_str(), digits.radix()).ok().filter(|number| range.contains(number));
            read.ok_or_else(|| wrong(value, format!("{} is out of range: {}", digits.as_str(), asked())))
        }
        other => Err(wrong(value, format!("{} is no number: {}", with_article(other.type_str()), asked()))),
    }
}

/// The values of a list.
///
/// # Errors
/// It is none.
pub fn list<'d>(value: &'d Value<'d>, example: &str) -> Result<impl Iterator<Item = &'d Value<'d>>, Wrong> {
    match value.get_ref() {
        DeValue::Array(all) => Ok(all.iter()),
        other => Err(wrong(value, format!("{} is no list: write {example}", with_article(other.type_str())))),
    }
}

/// A text that a number may stand for as well, such as a VLAN's.
///
/// # Errors
/// It is neither.
pub fn text_or_number<'d>(value: &'d Value<'d>, example: &str) -> Result<Cow<'d, str>, Wrong> {
    match value.get_ref() {
        DeValue::Integer(digits) if digits.radix() == 10 => Ok(digits.as_str().to_owned().into()),
        _ => text(value, example).map(Cow::Borrowed),
    }
}
