//! What an operator asks of upstreams ([`StreamService::operate`](corelane::StreamService::operate)), and what those who ask make of the answers of all lanes.
//!
//! ```text
//! Gathering --`upstreams show 0 0`--------> each service on each lane: Asked --how many rows--> Gathering: services that have some
//!           --`upstreams show FROM BYTES`--> one of these services on each lane: Asked, with its tables --rows from that number on--> Gathering: each upstream of a service once
//! ```
//!
//! Each answers with so many bytes at the most, and with one row at least where it may have any. So no lane is held up by an answer, and all answers together are within what a control answer may have.

use crate::shown::Row;
use crate::table::Upstreams;
use corelane::Instant;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What all answers together may have: less than the 1 MiB of a control answer, for there are other words around them.
const ANSWERS_BYTES: usize = 768 << 10;

/// What one may have, so that no lane is held up.
const ANSWER_BYTES: usize = 32 << 10;

/// What is asked of the upstreams of a service on one lane, in whichever tables they are.
pub struct Asked<'a> {
    what: What<'a>,
    now: Instant,
    page: Page,
    /// Rows of the tables so far, and bytes of those that were taken.
    seen: usize,
    bytes: usize,
    named: usize,
}

#[derive(Clone, Copy)]
enum What<'a> {
    Show { from: usize, bytes: usize },
    Drain(&'a str),
    Enable(&'a str),
}

impl<'a> Asked<'a> {
    /// Reads an operator's words: `upstreams show FROM BYTES`, `upstreams drain NAME`, `upstreams enable NAME`. None for others.
    pub fn read(words: &'a str, now: Instant) -> Option<Self> {
        let what = match words.strip_prefix("upstreams ")?.split_once(' ')? {
            ("show", numbers) => {
                let (from, bytes) = numbers.split_once(' ')?;
                What::Show { from: from.parse().ok()?, bytes: bytes.parse().ok()? }
            }
            ("drain", name) => What::Drain(name),
            ("enable", name) => What::Enable(name),
            _ => return None,
        };
        Some(Self { what, now, page: Page::default(), seen: 0, bytes: 0, named: 0 })
    }

    /// Asks a table, or tells it.
    pub fn of(&mut self, table: &mut Upstreams) {
        match self.what {
            What::Show { from, bytes } => {
                let all = table.row_count();
                for row in table.rows_from(from.saturating_sub(self.seen), self.now) {
                    // reason: all keys are strings, and writing to a string does not fail.
                    self.bytes += serde_json::to_string(&row).expect("a row can be written").len() + 1;
                    if self.bytes > bytes && (bytes == 0 || !self.page.rows.is_empty()) {
                        break;
                    }
                    self.page.rows.push(row);
                }
                self.seen += all;
                self.page.all = self.seen;
            }
            What::Drain(name) => self.named += table.drain(name),
            What::Enable(name) => self.named += table.enable(name, self.now),
        }
    }

    /// Whether it takes some out, or in again.
    pub fn changes(&self) -> bool {
        matches!(self.what, What::Drain(_) | What::Enable(_))
    }

    /// The answer, as JSON: a [`Page`], or what was [`Named`].
    pub fn answer(self) -> String {
        let answer = match self.what {
            What::Show { .. } => serde_json::to_string(&self.page),
            What::Drain(_) | What::Enable(_) => serde_json::to_string(&Named { named: self.named }),
        };
        // reason: all keys are strings, and writing to a string does not fail.
        answer.expect("rows can be written")
    }
}

/// A part of the upstreams of a service, as one lane sees them.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Page {
    /// How many rows there are.
    pub all: usize,
    /// Those of this one.
    pub rows: Vec<Row>,
}

/// How many upstreams were taken out, or in again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// How many have the name.
    pub named: usize,
}

/// An upstream of a service, as all lanes together see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// The service's name.
    pub service: String,
    /// Its number in the process: several may have one name.
    pub number: usize,
    /// The upstream.
    #[serde(flatten)]
    pub row: Row,
}

/// The most that is asked, whatever a process says that it has.
const QUESTIONS_MAX: usize = 1 << 14;

/// The most upstreams that are shown of a process.
pub const SHOWN_MAX: usize = 4 << 10;

/// What is to be asked next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The number of the service that is asked, on all lanes; none for all of them.
    pub service: Option<usize>,
    /// The words.
    pub words: String,
}

/// How far the gathering has come.
#[derive(Debug, Default)]
enum Stage {
    #[default]
    Begins,
    /// All services were asked how many rows they have.
    Counts,
    /// These services, with how many answer for each, the next one last; it was asked from this row on.
    Asks { left: Vec<(usize, usize)>, from: usize },
}

/// The rows of all lanes, asked for service by service and page by page. Each upstream of a service is there once.
#[derive(Debug, Default)]
pub struct Gathering {
    stage: Stage,
    questions: usize,
    /// The answers to the last question: lanes tell as many rows as they have bytes for.
    heard: Vec<(String, usize, Page)>,
    shown: Vec<Shown>,
    /// The place of each, by its service, its name and its address.
    places: BTreeMap<(usize, String, Option<String>), usize>,
}

impl Gathering {
    /// Nothing is asked yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What is to be asked next; none once all is there.
    pub fn question(&mut self) -> Option<Question> {
        self.questions += 1;
        let heard = std::mem::take(&mut self.heard);
        let (left, from) = match std::mem::take(&mut self.stage) {
            Stage::Begins => {
                self.stage = Stage::Counts;
                return Some(Question { service: None, words: "upstreams show 0 0".to_owned() });
            }
            Stage::Counts => (services_in(&heard), 0),
            Stage::Asks { mut left, from } => match self.take_page(heard, from) {
                Some(told) => (left, from + told),
                None => {
                    left.pop();
                    (left, 0)
                }
            },
        };
        let next = left.last().copied();
        self.stage = Stage::Asks { left, from };
        let (service, answers) = next.filter(|_| self.questions <= QUESTIONS_MAX && self.shown.len() < SHOWN_MAX)?;
        let bytes = (ANSWERS_BYTES / answers.max(1)).clamp(1, ANSWER_BYTES);
        Some(Question { service: Some(service), words: format!("upstreams show {from} {bytes}") })
    }

    /// Takes the rows from this one on that all have told. Returns how many if there are more.
    fn take_page(&mut self, heard: Vec<(String, usize, Page)>, from: usize) -> Option<usize> {
        // All go on with the same row: the one behind those that each has told.
        let is_cut = |page: &&Page| page.rows.len() < page.all.saturating_sub(from);
        let told = heard.iter().map(|(_, _, page)| page).filter(is_cut).map(|page| page.rows.len()).min();
        for (service, number, page) in heard {
            self.take(&service, number, page.rows.into_iter().take(told.unwrap_or(usize::MAX)));
        }
        told.filter(|told| *told > 0)
    }

    /// One lane's answer for the service of this name and number.
    pub fn heard(&mut self, service: &str, number: usize, page: Page) {
        self.heard.push((service.to_owned(), number, page));
    }

    fn take(&mut self, service: &str, number: usize, rows: impl Iterator<Item = Row>) {
        for row in rows {
            let key = (number, row.name.clone(), row.address.as_ref().map(ToString::to_string));
            match self.places.get(&key) {
                Some(place) => self.shown[*place].row.add(row),
                None if self.shown.len() < SHOWN_MAX => {
                    self.places.insert(key, self.shown.len());
                    self.shown.push(Shown { service: service.to_owned(), number, row });
                }
                None => {}
            }
        }
    }

    /// All of them, service by service.
    pub fn shown(mut self) -> Vec<Shown> {
        self.shown.sort_by_key(|one| one.number);
        self.shown
    }
}

/// The services that have answered and have rows, with how many have answered for each, the first one last.
fn services_in(heard: &[(String, usize, Page)]) -> Vec<(usize, usize)> {
    let mut services: BTreeMap<usize, usize> = BTreeMap::new();
    heard.iter().filter(|(_, _, page)| page.all > 0).for_each(|(_, number, _)| *services.entry(*number).or_default() += 1);
    services.into_iter().rev().collect()
}

/// What has been counted since an earlier look at the same process.
pub fn since(now: &[Shown], before: &[Shown]) -> Vec<Shown> {
    fn key(one: &Shown) -> (usize, &str, Option<String>) {
        (one.number, &one.row.name, one.row.address.as_ref().map(ToString::to_string))
    }
    let earlier: BTreeMap<_, _> = before.iter().map(|one| (key(one), &one.row)).collect();
    let since = |one: &Shown| match earlier.get(&key(one)) {
        Some(earlier) => Shown { row: one.row.since(earlier), ..one.clone() },
        None => one.clone(),
    };
    now.iter().map(since).collect()
}
