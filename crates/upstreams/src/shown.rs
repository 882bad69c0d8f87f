//! Upstreams as they are shown.

use crate::one::Counts;
use crate::targets::Target;
use crate::times::Times;
use corelane::Address;
use std::fmt;

/// The state of an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// One upstream as one lane sees it, or several lanes together.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// As the operator wrote it.
    pub name: String,
    /// Where it is, if that is known.
    pub address: Option<Address>,
    /// Its state; the worst of several lanes.
    pub state: State,
    /// Its weight.
    pub weight: u16,
    /// Uses that are under way.
    pub uses: u32,
    /// Connections that are open.
    pub connections: u32,
    /// Why its name was not resolved the last time.
    pub fault: Option<String>,
    /// Its counters.
    pub counts: Counts,
    /// From the beginning of uses to their first bytes.
    pub times: Times,
}

impl Row {
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

    /// Adds what other lanes see to rows: those of the same upstream are joined.
    pub fn join(rows: &mut Vec<Self>, more: Vec<Self>) {
        for row in more {
            match rows.iter_mut().find(|known| known.name == row.name && known.address == row.address) {
                Some(known) => known.add(row),
                None => rows.push(row),
            }
        }
    }

    /// As JSON in one line. Times stand in microseconds: each bucket with something in it, by its end.
    pub fn json(&self) -> String {
        let Self { name, address, state, weight, uses, connections, fault, counts, times } = self;
        let text = |text: &str| format!("\"{}\"", text.replace(|sign: char| sign.is_control() || "\"\\".contains(sign), "?"));
        let address = address.as_ref().map_or_else(|| "null".to_owned(), |address| text(&address.to_string()));
        let fault = fault.as_deref().map_or_else(|| "null".to_owned(), text);
        let counts: String = counts.all().iter().map(|(name, count)| format!(",\"{name}\":{count}")).collect();
        let mut before = 0;
        let bucket = |(end, sum): (std::time::Duration, u64)| {
            let count = sum - std::mem::replace(&mut before, sum);
            format!("[{},{count}]", end.as_micros())
        };
        let buckets: Vec<String> = times.cumulative().map(bucket).collect();
        format!(
            "{{\"name\":{},\"address\":{address},\"state\":\"{state}\",\"weight\":{weight},\"uses_open\":{uses},\"connections_open\":{connections},\"fault\":{fault}{counts},\"microseconds\":[{}]}}",
            text(name),
            buckets.join(",")
        )
    }

    fn add(&mut self, other: Self) {
        self.state = self.state.max(other.state);
        self.uses += other.uses;
        self.connections += other.connections;
        self.fault = self.fault.take().or(other.fault);
        self.counts.add(&other.counts);
        self.times.add(&other.times);
    }
}
