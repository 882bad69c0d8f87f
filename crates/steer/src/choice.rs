//! By which means flows are steered: what is asked for, and what comes of it.

use crate::error::Error;
use corelane_rss::{Buckets, HashTypes, Key, MOST_LANES, Table};
use std::str::FromStr;

/// What the user asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Steering {
    /// The first of the others that this process may use.
    #[default]
    Auto,
    /// A program with maps: needs CAP_BPF. A new table is in force at once, and selections are counted.
    Program,
    /// A program of the classic kind: needs nothing, and counts nothing.
    Classic,
    /// The kernel's own hash chooses: what comes for another lane is only counted.
    Kernel,
}

impl FromStr for Steering {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "auto" => Ok(Self::Auto),
            "program" => Ok(Self::Program),
            "classic" => Ok(Self::Classic),
            "kernel" => Ok(Self::Kernel),
            _ => Err(Error::Name { got: text.chars().take(40).collect() }),
        }
    }
}

/// How flows are to be steered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// By which means. Default: the best one that there is.
    pub steering: Steering,
    /// The key of the hash. Default: Microsoft's, which everybody knows.
    pub key: Key,
    /// What is hashed. Default: all, so UDP by addresses and ports.
    pub types: HashTypes,
    /// Buckets of the table, at least as many as lanes. Default: 128, or 256 if that is what the lanes take.
    pub buckets: Option<Buckets>,
}

impl Default for Settings {
    fn default() -> Self {
        Self::new()
    }
}

impl Settings {
    /// The defaults.
    pub const fn new() -> Self {
        Self { steering: Steering::Auto, key: Key::MICROSOFT, types: HashTypes::ALL, buckets: None }
    }

    /// By this means.
    pub fn by(self, steering: Steering) -> Self {
        Self { steering, ..self }
    }

    /// With this key.
    pub fn key(self, key: Key) -> Self {
        Self { key, ..self }
    }

    /// Hashing these fields.
    pub fn types(self, types: HashTypes) -> Self {
        Self { types, ..self }
    }

    /// With so many buckets.
    pub fn buckets(self, buckets: Buckets) -> Self {
        Self { buckets: Some(buckets), ..self }
    }

    /// The even table for so many lanes.
    ///
    /// # Errors
    /// [`Error::Table`] with more lanes than buckets; [`Error::Lanes`].
    pub fn table(&self, lanes: usize) -> Result<Table, Error> {
        if lanes > MOST_LANES {
            return Err(Error::Lanes { got: lanes });
        }
        let enough = if lanes > Buckets::DEFAULT.count() { Buckets::new(MOST_LANES)? } else { Buckets::DEFAULT };
        Ok(Table::even(self.buckets.unwrap_or(enough), lanes)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_room_for_every_lane() {
        let buckets = |lanes| Settings::default().table(lanes).map(|table| table.buckets().count());
        assert_eq!([1, 128, 129, 256].map(buckets), [Ok(128), Ok(128), Ok(256), Ok(256)]);
        assert_eq!(buckets(257), Err(Error::Lanes { got: 257 }));
        let few = Settings { buckets: Some(Buckets::new(8).unwrap()), ..Settings::default() };
        assert!(matches!(few.table(9), Err(Error::Table(_))));
    }

    #[test]
    fn each_means_has_one_name() {
        let names = ["auto", "program", "classic", "kernel"].map(|name| name.parse::<Steering>().unwrap());
        assert_eq!(names, [Steering::Auto, Steering::Program, Steering::Classic, Steering::Kernel]);
        assert_eq!("Program".parse::<Steering>(), Err(Error::Name { got: "Program".into() }));
    }
}
