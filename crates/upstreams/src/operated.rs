//! What an operator asks of upstreams ([`StreamService::operate`](corelane::StreamService::operate)), and what those who ask make of the answers of all lanes.
//!
//! ```text
//! Gathering --`upstreams show 0`, then 1, ..--> each service on each lane: Asked, with its tables --a page of rows--> Gathering: each upstream of a service once
//! ```
//!
//! A page has few rows, so that no lane is held up by an answer, and no answer of many lanes becomes too long.

use crate::shown::Row;
use crate::table::Upstreams;
use corelane::Instant;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Targets on a page: of each there are as many rows as its name has addresses, 16 at the most but for those that leave.
const PAGE_TARGETS: usize = 4;

/// Rows of a page: of a name that has other addresses each time, no more are told.
const PAGE_ROWS_MAX: usize = 256;

/// What is asked of the upstreams of a service on one lane, in whichever tables they are.
pub struct Asked<'a> {
    what: What<'a>,
    now: Instant,
    page: Page,
    named: usize,
}

#[derive(Clone, Copy)]
enum What<'a> {
    Show(usize),
    Drain(&'a str),
    Enable(&'a str),
}

impl<'a> Asked<'a> {
    /// Reads an operator's words: `upstreams show PAGE`, `upstreams drain NAME`, `upstreams enable NAME`. None for others.
    pub fn read(words: &'a str, now: Instant) -> Option<Self> {
        let what = match words.strip_prefix("upstreams ")?.split_once(' ')? {
            ("show", page) => What::Show(page.parse().ok()?),
            ("drain", name) => What::Drain(name),
            ("enable", name) => What::Enable(name),
            _ => return None,
        };
        Some(Self { what, now, page: Page::default(), named: 0 })
    }

    /// Asks a table, or tells it.
    pub fn of(&mut self, table: &mut Upstreams) {
        match self.what {
            What::Show(page) => {
                let targets = table.targets();
                self.page.pages = self.page.pages.max(targets.div_ceil(PAGE_TARGETS));
                let begin = page.saturating_mul(PAGE_TARGETS).min(targets);
                self.page.rows.extend(table.rows_of(begin..targets.min(begin + PAGE_TARGETS), self.now));
                self.page.rows.truncate(PAGE_ROWS_MAX);
            }
            What::Drain(name) => self.named += table.drain(name),
            What::Enable(name) => self.named += table.enable(name, self.now),
        }
    }

    /// The answer, as JSON: a [`Page`], or what was [`Named`].
    pub fn answer(self) -> String {
        let answer = match self.what {
            What::Show(_) => serde_json::to_string(&self.page),
            What::Drain(_) | What::Enable(_) => serde_json::to_string(&Named { named: self.named }),
        };
        // reason: all keys are strings, and writing to a string does not fail.
        answer.expect("rows can be written")
    }
}

/// A part of the upstreams of a service, as one lane sees them.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Page {
    /// How many there are.
    pub pages: usize,
    /// The rows of this one.
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

/// The most pages that are asked for, whatever a process says that it has.
const PAGES_MAX: usize = 1 << 10;

/// The most upstreams that are shown of a process.
pub const SHOWN_MAX: usize = 4 << 10;

/// The rows of all lanes, asked for page by page. Each upstream of a service is there once.
#[derive(Debug, Default)]
pub struct Gathering {
    page: usize,
    pages: usize,
    shown: Vec<Shown>,
    /// The place of each, by its service, its name and its address.
    places: BTreeMap<(usize, String, Option<String>), usize>,
}

impl Gathering {
    /// Nothing is asked yet.
    pub fn new() -> Self {
        Self { pages: 1, ..Self::default() }
    }

    /// What is to be asked of all services next; none once all is there.
    pub fn question(&mut self) -> Option<String> {
        let page = self.page;
        self.page += 1;
        (page < self.pages.min(PAGES_MAX)).then(|| format!("upstreams show {page}"))
    }

    /// One lane's answer for the service of this name and number.
    pub fn heard(&mut self, service: &str, number: usize, page: Page) {
        self.pages = self.pages.max(page.pages);
        for row in page.rows {
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
