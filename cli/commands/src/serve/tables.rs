//! Tables of a file of settings that say what URLs and options of a service would: each `[[site]]` is a part of the service at which it listens.
//!
//! ```text
//! [[site]] listen, host, to, field, ..  \
//! [[site]] listen, host, root, ..        }--one text for each place--> http=https://HOST:PORT?..&host=..&to=..&host=..&root=..
//! ```

use anyhow::{Result, anyhow, bail, ensure};
use corelane::Error;
use corelane::service::entry::Entry;
use corelane::service::entry::choice::{Choice, Chosen, Part};
use corelane_services as services;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Where a table says that it listens.
const LISTEN: &str = "listen";

/// One value of one key of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    name: String,
    /// As it would stand behind a URL, without percent signs for bytes; none for a flag that is on.
    value: Option<String>,
    at: String,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    entry: &'static Entry,
    part: &'static Part,
    at: String,
    keys: Vec<Key>,
}

impl PartialEq for Table {
    fn eq(&self, other: &Self) -> bool {
        (self.entry.name(), &self.at, &self.keys) == (other.entry.name(), &other.at, &other.keys)
    }
}

impl Eq for Table {}

/// The names of all tables that there are.
pub fn names() -> impl Iterator<Item = &'static str> {
    services::ALL.iter().filter_map(|entry| entry.table())
}

/// Tables of one service at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The URL.
    pub listen: String,
    tables: Vec<Table>,
}

/// Reads what stands under a name of tables: where the first of each place begins, and what is served there. None for another name.
///
/// # Errors
/// A mistake, and its place.
pub fn read(name: &str, value: &Spanned<DeValue<'_>>, place: &impl Fn(usize) -> String) -> Result<Option<Vec<(usize, Joined)>>> {
    let Some((entry, part)) =
        services::ALL.iter().filter(|entry| entry.table() == Some(name)).find_map(|entry| Some((*entry, entry.part()?)))
    else {
        return Ok(None);
    };
    let wrong = || anyhow!("{}: {name}: it is a table: write [[{name}]], and its keys beneath", place(value.span().start));
    let DeValue::Array(tables) = value.get_ref() else { return Err(wrong()) };
    let mut found: Vec<(usize, Joined)> = Vec::new();
    for table in tables {
        let DeValue::Table(keys) = table.get_ref() else { return Err(wrong()) };
        let start = table.span().start;
        let (listen, keys) = read_keys((entry, part), &place(start), keys, place)?;
        for listen in listen {
            let table = Table { entry, part, at: place(start), keys: keys.clone() };
            listen.check_place()?;
            table.check(&listen)?;
            let url = listen.value.unwrap_or_default();
            match found.iter_mut().find(|(_, joined)| joined.listen == url) {
                Some((_, joined)) => joined.tables.push(table),
                None => found.push((start, Joined { listen: url, tables: vec![table] })),
            }
        }
    }
    found.iter().try_for_each(|(_, joined)| joined.check())?;
    Ok(Some(found))
}

/// The places of a table, and its other keys.
fn read_keys(
    (entry, part): (&'static Entry, &'static Part),
    at: &str,
    table: &DeTable<'_>,
    place: &impl Fn(usize) -> String,
) -> Result<(Vec<Key>, Vec<Key>)> {
    let mut all: Vec<(usize, Key)> = Vec::new();
    for (name, value) in table {
        let name = name.get_ref().to_string();
        let repeats =
            name == LISTEN || part.options.iter().any(|choice| matches!(choice, Choice::Texts(_)) && choice.name() == name);
        let is_flag = |choice: &Choice| matches!(choice, Choice::Flag(_)) && choice.name() == name;
        let is_flag = part.options.iter().any(is_flag);
        let values = match value.get_ref() {
            DeValue::Boolean(false) if is_flag => Vec::new(),
            DeValue::Boolean(true) if is_flag => vec![(value.span().start, None)],
            DeValue::Array(list) => {
                let values =
                    list.iter().map(|one| Ok((one.span().start, scalar(one, place, &name)?))).collect::<Result<Vec<_>>>()?;
                match repeats {
                    true => values.into_iter().map(|(at, value)| (at, Some(value))).collect(),
                    false => {
                        let texts: Vec<String> = values.into_iter().map(|(_, value)| value).collect();
                        vec![(value.span().start, Some(texts.join(",")))]
                    }
                }
            }
            _ => vec![(value.span().start, Some(scalar(value, place, &name)?))],
        };
        all.extend(values.into_iter().map(|(start, value)| (start, Key { name: name.clone(), value, at: place(start) })));
    }
    all.sort_by_key(|(start, _)| *start);
    let (listen, keys): (Vec<Key>, Vec<Key>) = all.into_iter().map(|(_, key)| key).partition(|key| key.name == LISTEN);
    ensure!(!listen.is_empty(), "{at}: {LISTEN} is missing: write {LISTEN} = \"{}\"", example(entry));
    Ok((listen, keys))
}

/// A URL, for an example.
fn example(entry: &Entry) -> String {
    entry.schemes().last().map_or_else(String::new, |(name, port)| format!("{name}://0.0.0.0:{port}"))
}

fn scalar(value: &Spanned<DeValue<'_>>, place: &impl Fn(usize) -> String, name: &str) -> Result<String> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) => Ok(number.to_string()),
        DeValue::Boolean(is) => Ok(is.to_string()),
        other => {
            bail!(
                "{}: {name}: it cannot be {}: write a text, a list of texts, a number, true or false",
                place(value.span().start),
                other.type_str()
            )
        }
    }
}

impl Key {
    /// As it stands behind a URL.
    fn word(&self) -> String {
        match &self.value {
            Some(value) => format!("{}={}", self.name, value.replace('%', "%25").replace('&', "%26")),
            None => self.name.clone(),
        }
    }

    /// Refuses options behind the URL of a place: they are keys of the table. The mode of a Unix socket is of its URL.
    fn check_place(&self) -> Result<()> {
        let url = self.value.as_deref().unwrap_or_default();
        let has_mode = url.starts_with("unix:") || url.starts_with("unixgram:");
        let words = url.split_once('?').map_or("", |(_, query)| query).split('&');
        let Some(word) = words.filter(|word| !has_mode || !word.starts_with("mode=")).find(|word| !word.is_empty()) else {
            return Ok(());
        };
        bail!("{}: {LISTEN}: options are keys of the table, and stand behind no URL here: write {}", self.at, key_of(word))
    }

    fn shown(&self) -> String {
        format!("{} {:?}", self.name, self.value.as_deref().unwrap_or("true"))
    }
}

impl Table {
    fn begins(&self) -> Option<&Key> {
        self.keys.iter().find(|key| key.name == self.part.text.name)
    }

    /// Its name in words: the hosts that it is for.
    fn name(&self) -> String {
        self.begins().and_then(|key| key.value.clone()).unwrap_or_else(|| "all other hosts".to_owned())
    }

    /// Whether a key is of the place, for all of its tables.
    fn is_of_place(&self, key: &Key) -> bool {
        key.name != self.part.text.name && !self.part.options.iter().any(|choice| choice.name() == key.name)
    }

    /// Looks at each value, so far as it can be right or wrong alone.
    fn check(&self, listen: &Key) -> Result<()> {
        let url = listen.value.as_deref().unwrap_or_default();
        let Some(options) = self.entry.options_at(url) else { return Ok(()) };
        let mut chosen = Chosen::default();
        for key in &self.keys {
            // The part's beginning would have all behind it be of the part: each is looked at as it is.
            let declared: Vec<Choice> = options
                .iter()
                .filter(|choice| !matches!(choice, Choice::Part(_)) || key.name == choice.name())
                .copied()
                .collect();
            let mut begun = Chosen::default();
            let chosen = if key.name == self.part.text.name { &mut begun } else { &mut chosen };
            chosen.choose(&declared, &key.name, key.value.as_deref()).map_err(|wrong| {
                let why = if options.iter().any(|choice| choice.name() == key.name) {
                    wrong.why
                } else {
                    let names: Vec<&str> = [LISTEN].into_iter().chain(options.iter().map(Choice::name)).collect();
                    format!("there is no such key; there are {}", names.join(", "))
                };
                anyhow!("{}: {}: {why}", key.at, key.name)
            })?;
        }
        Ok(())
    }
}

impl Joined {
    /// Keys of the place stand once, or are the same each time, and all other hosts have one table.
    fn check(&self) -> Result<()> {
        let mut of_place: Vec<&Key> = Vec::new();
        for (table, key) in self.tables.iter().flat_map(|table| table.keys.iter().map(move |key| (table, key))) {
            if !table.is_of_place(key) {
                continue;
            }
            match of_place.iter().find(|known| known.name == key.name) {
                Some(known) if known.value != key.value => {
                    bail!("{}: {}: it is for all at {}, and {} says something else", key.at, key.name, self.listen, known.at);
                }
                Some(_) => {}
                None => of_place.push(key),
            }
        }
        let mut others = self.tables.iter().filter(|table| table.begins().is_none());
        if let (Some(first), Some(second)) = (others.next(), others.next()) {
            let part = first.part.text.name;
            bail!(
                "{}: the table at {} is for all other hosts of {} already: write {part} = \"NAME\"",
                second.at,
                first.at,
                self.listen
            );
        }
        Ok(())
    }

    /// As it would be written in a command line.
    pub fn text(&self) -> String {
        text(&self.listen, &self.tables)
    }

    /// Where the first of them begins.
    pub fn at(&self) -> &str {
        &self.tables[0].at
    }

    /// Where a text stands among the values, if it does.
    pub fn place_of(&self, text: &str) -> Option<&str> {
        let keys = self.tables.iter().flat_map(|table| &table.keys);
        keys.filter(|key| key.value.as_ref().is_some_and(|value| value.contains(text))).map(|key| key.at.as_str()).next()
    }

    /// Says where what is wrong stands: in the table with which that begins. `wrong` is what is wrong with a text.
    pub fn blamed(&self, wrong: impl Fn(&str) -> Option<anyhow::Error>) -> Option<anyhow::Error> {
        let whole = wrong(&self.text())?;
        let begins = |&count: &usize| {
            wrong(&text(&self.listen, &self.tables[..count])).is_some_and(|error| error.to_string() == whole.to_string())
        };
        let count = (1..=self.tables.len()).find(begins).unwrap_or(1);
        let table = &self.tables[count - 1];
        let named = |name: &str| table.keys.iter().rfind(|key| key.name == name).map_or(&table.at, |key| &key.at);
        let at = match whole.downcast_ref() {
            Some(Error::Option { option, .. }) => named(option),
            _ => &table.at,
        };
        let said = format!("{whole:#}");
        Some(match whole.downcast_ref() {
            Some(Error::Option { why, .. }) => anyhow!("{at}: {}", said.replace(why, &of_table(why))),
            _ => anyhow!("{at}: {said}"),
        })
    }

    /// What differs from before, each with its place: what is set now, and what is not any more.
    pub fn differing(&self, before: &Self) -> Vec<String> {
        let all = |joined: &Self| -> Vec<(String, String, String)> {
            let of_table = |table: &Table| {
                let name = table.name();
                table.keys.iter().map(|key| (name.clone(), key.shown(), key.at.clone())).collect::<Vec<_>>()
            };
            joined.tables.iter().flat_map(of_table).collect()
        };
        let (before, now) = (all(before), all(self));
        let has = |list: &[(String, String, String)], one: &(String, String, String)| {
            list.iter().any(|known| (&known.0, &known.1) == (&one.0, &one.1))
        };
        let new = now.iter().filter(|one| !has(&before, one)).map(|(name, key, at)| format!("{at}: {key} of {name}"));
        let gone = before
            .iter()
            .filter(|one| !has(&now, one))
            .map(|(name, key, _)| format!("{}: {key} of {name} is gone, which", self.at()));
        new.chain(gone).collect()
    }
}

/// The service with these tables at a URL: what is for all, all other hosts, and then each part.
fn text(listen: &str, tables: &[Table]) -> String {
    let mut words: Vec<String> = Vec::new();
    for key in tables.iter().flat_map(|table| table.keys.iter().filter(|key| table.is_of_place(key) && table.begins().is_some()))
    {
        if !words.contains(&key.word()) {
            words.push(key.word());
        }
    }
    for table in tables.iter().filter(|table| table.begins().is_none()) {
        words.extend(table.keys.iter().map(Key::word).filter(|word| !words.contains(word)).collect::<Vec<_>>());
    }
    for table in tables {
        let Some(begins) = table.begins() else { continue };
        words.push(begins.word());
        words.extend(table.keys.iter().filter(|key| *key != begins && !table.is_of_place(key)).map(Key::word));
    }
    let name = tables[0].entry.name();
    let begins = if listen.contains('?') { '&' } else { '?' };
    if words.is_empty() { format!("{name}={listen}") } else { format!("{name}={listen}{begins}{}", words.join("&")) }
}

/// An option behind a URL, as a key of a table.
fn key_of(option: &str) -> String {
    option.split_once('=').map_or_else(|| format!("{option} = true"), |(name, value)| format!("{name} = {value:?}"))
}

/// The fault of an option, with the remedy as it stands in a table: `?a=X&b=Y` becomes `a = "X" and b = "Y"`.
fn of_table(why: &str) -> String {
    let word = |word: &str| match word.strip_prefix('?').filter(|options| options.contains('=')) {
        Some(options) => {
            let (options, behind) = options.split_at(options.trim_end_matches([',', ';', ':']).len());
            options.split('&').map(key_of).collect::<Vec<_>>().join(" and ") + behind
        }
        None => word.to_owned(),
    };
    let words: Vec<String> = why.split(' ').map(word).collect();
    words.join(" ").replace(" behind the URL", " in the table")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedies_are_told_as_keys() {
        for (behind_a_url, in_a_table) in [
            (
                "it is missing: write ?certificate=FILE&key=FILE behind the URL",
                "it is missing: write certificate = \"FILE\" and key = \"FILE\" in the table",
            ),
            ("write ?root=DIR, or ?listing", "write root = \"DIR\", or ?listing"),
            ("is it? no=1", "is it? no=1"),
        ] {
            assert_eq!(of_table(behind_a_url), in_a_table);
        }
    }

    #[test]
    fn options_stand_in_no_url_of_a_place() {
        let of = |url: &str| Key { name: LISTEN.to_owned(), value: Some(url.to_owned()), at: "f:1:1".to_owned() }.check_place();
        for right in ["https://[::]:443", "unix:/run/x?mode=0660", "unix:@x"] {
            assert!(of(right).is_ok(), "{right}");
        }
        for (wrong, key) in [
            ("https://a:443?certificate=a.pem&key=b", "write certificate = \"a.pem\""),
            ("http://a:1?listing", "write listing = true"),
            ("http://a:1?mode=0660", "write mode = \"0660\""),
            ("unix:/x?mode=0660&to=b:1", "write to = \"b:1\""),
        ] {
            let said = of(wrong).unwrap_err().to_string();
            assert!(said.starts_with("f:1:1: listen: ") && said.ends_with(key), "{wrong}: {said}");
        }
    }
}
