//! Upstreams as they are shown: the one form of them that lanes tell, and that commands, pages and metrics read.

use crate::health::SHARE_MAX;
use crate::one::{Counts, One};
use crate::settings::Settings;
use crate::targets::Target;
use crate::times::Times;
use corelane::{Address, Instant};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The state of an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum State {
    /// In rotation, with all of its weight.
    Up,
    /// In rotation, with a part of its weight that grows.
    Rising,
    /// Out of rotation for a time: it has failed too often.
    Ejected,
    /// Out of rotation: its checks fail.
    Down,
    /// Out of rotation: the operator said so.
    Drained,
    /// Its name does not have this address any more; what is under way goes on.
    Leaving,
    /// A name without an address.
    Unresolved,
}

impl State {
    /// All of them, from the best to the worst.
    pub const ALL: [Self; 7] =
        [Self::Up, Self::Rising, Self::Ejected, Self::Down, Self::Drained, Self::Leaving, Self::Unresolved];

    fn of(one: &One, settings: &Settings, now: Instant) -> Self {
        let is_rising = one.weight_now(now, settings) < u32::from(one.weight) * SHARE_MAX;
        match one.health.ejected_until(now) {
            _ if one.is_leaving => Self::Leaving,
            _ if one.is_drained => Self::Drained,
            _ if one.health.is_down() => Self::Down,
            Some(_) => Self::Ejected,
            None if is_rising => Self::Rising,
            None => Self::Up,
        }
    }

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Rising => "rising",
            Self::Ejected => "ejected",
            Self::Down => "down",
            Self::Drained => "drained",
            Self::Leaving => "leaving",
            Self::Unresolved => "unresolved",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// One upstream as one lane sees it, or several lanes together. Times stand in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// As the operator wrote it.
    pub name: String,
    /// Where it is, if that is known.
    #[serde(with = "as_text")]
    pub address: Option<Address>,
    /// Its state; the worst of several lanes.
    pub state: State,
    /// Its weight.
    pub weight: u16,
    /// Uses that are under way.
    #[serde(rename = "uses_open")]
    pub uses: u32,
    /// Connections that are open.
    #[serde(rename = "connections_open")]
    pub connections: u32,
    /// Why its name was not resolved the last time.
    pub fault: Option<String>,
    /// Its counters.
    #[serde(flatten)]
    pub counts: Counts,
    /// From the beginning of uses to their first bytes.
    #[serde(flatten)]
    pub times: Times,
}

/// An address as it is written.
mod as_text {
    use corelane::Address;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(address: &Option<Address>, to: S) -> Result<S::Ok, S::Error> {
        match address {
            Some(address) => to.collect_str(address),
            None => to.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Address>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| text.parse().map_err(serde::de::Error::custom)).transpose()
    }
}

impl Row {
    /// One as it is now, of this name, which was not resolved the last time for this fault.
    pub(crate) fn of(one: &One, name: String, fault: Option<String>, (settings, now): (&Settings, Instant)) -> Self {
        Self {
            name,
            address: Some(one.address.clone()),
            state: State::of(one, settings, now),
            weight: one.weight,
            uses: one.uses,
            connections: one.connections,
            fault,
            counts: one.counts.clone(),
            times: one.times.clone(),
        }
    }

    pub(crate) fn unknown(target: &Target, fault: Option<String>) -> Self {
        Self {
            name: target.name().to_owned(),
            address: None,
            state: State::Unresolved,
            weight: target.weight(),
            uses: 0,
            connections: 0,
            fault,
            counts: Counts::default(),
            times: Times::default(),
        }
    }

    /// Adds what another lane, or another group, sees of the same upstream: the worse state is shown. One that leaves is none where it serves others.
    pub(crate) fn add(&mut self, other: Self) {
        self.state = match (self.state, other.state) {
            (State::Leaving, state) | (state, State::Leaving) => state,
            (one, other) => one.max(other),
        };
        self.uses = self.uses.saturating_add(other.uses);
        self.connections = self.connections.saturating_add(other.connections);
        self.fault = self.fault.take().or(other.fault);
        self.counts.add(&other.counts);
        self.times.add(&other.times);
    }

    /// What has been counted since `before`, which is an earlier look at the same upstream. What is so just now stays.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self { counts: self.counts.since(&before.counts), times: self.times.since(&before.times), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::Targets;

    #[test]
    fn the_worse_state_is_shown_and_one_that_leaves_is_none_where_it_serves() {
        let targets: Targets = "10.0.0.1:1".parse().unwrap();
        let row = |state| Row { state, ..Row::unknown(&targets.all()[0], None) };
        let added = |one, other| {
            let mut sum = row(one);
            sum.add(row(other));
            sum.state
        };
        use State::{Drained, Leaving, Rising, Up};
        let found =
            [(Up, Rising), (Drained, Up), (Leaving, Up), (Up, Leaving), (Leaving, Leaving)].map(|(one, other)| added(one, other));
        assert_eq!(found, [Rising, Drained, Up, Up, Leaving]);
    }
}
