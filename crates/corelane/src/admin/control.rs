//! Requests to a running process of lanes through its control socket: the commands, who carries them out, and how another
//! process sends them. With the feature `control`.

use crate::admin::control_client;
use crate::admin::hasher::hasher_words;
use corelane_rss::{Bucket, Buckets, Error, FlowHasher, HashTypes, Key, Table};
use corelane_steer::{Error as SteeringError, InForce, Steered};
use std::fmt;
use std::path::Path;
use std::time::Duration;

pub use crate::admin::control_client::ControlError;

/// How long the table is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a change is waited for, which in turn waits for every lane.
const PATIENCE_TO_CHANGE: Duration = Duration::from_secs(60);

/// A request to a process. Each is answered with the table as it is then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Show the table.
    Table,
    /// Give every bucket its lane, each named once: `0-63:0 64-127:1`.
    Set(&'a str),
    /// Give some buckets another lane: `0-3,7:1`; several with spaces between.
    Move(&'a str),
    /// Share the buckets by these weights, one a lane, with as few moves as there can be: `3,1`.
    Weights(&'a str),
    /// Share the buckets evenly among the lanes that serve, with as few moves as there can be.
    Even,
    /// Have a lane leave: its buckets go to others, then it listens no more.
    Leave(usize),
    /// Have a lane that left come back: it listens, then it gets buckets.
    Enter(usize),
}

impl fmt::Display for Command<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table => f.write_str("table"),
            Self::Set(entries) => write!(f, "table set {entries}"),
            Self::Move(entries) => write!(f, "table move {entries}"),
            Self::Weights(weights) => write!(f, "table weights {weights}"),
            Self::Even => f.write_str("table even"),
            Self::Leave(lane) => write!(f, "lane leave {lane}"),
            Self::Enter(lane) => write!(f, "lane enter {lane}"),
        }
    }
}

impl<'a> Command<'a> {
    /// Reads what is written.
    fn read(text: &'a str) -> Result<Self, String> {
        let mut words = text.splitn(3, ' ');
        match (words.next(), words.next(), words.next()) {
            (Some("table"), None, None) => Ok(Self::Table),
            (Some("table"), Some("set"), Some(entries)) => Ok(Self::Set(entries)),
            (Some("table"), Some("move"), Some(entries)) => Ok(Self::Move(entries)),
            (Some("table"), Some("weights"), Some(weights)) => Ok(Self::Weights(weights)),
            (Some("table"), Some("even"), None) => Ok(Self::Even),
            (Some("lane"), Some("leave"), Some(lane)) => Ok(Self::Leave(number(lane)?)),
            (Some("lane"), Some("enter"), Some(lane)) => Ok(Self::Enter(number(lane)?)),
            _ => Err("there is no such command: write hasher, table, table set|move ENTRIES, table weights LIST, table even, \
                      lane leave|enter LANE, packets dispatch|limit|clear .."
                .to_string()),
        }
    }
}

/// Has the process whose page is at `page` carry out `command`; returns with its table as it is then.
///
/// # Errors
/// Every [`ControlError`]; [`ControlError::Refused`] has the words of the process.
pub fn ask(page: &Path, command: Command<'_>) -> Result<Table, ControlError> {
    let patience = if command == Command::Table { PATIENCE } else { PATIENCE_TO_CHANGE };
    let answer = control_client::ask(page, &command.to_string(), patience)?;
    answer
        .parse()
        .map_err(|_| ControlError::NoAnswer { path: page.with_extension(control_client::SUFFIX), got_bytes: answer.len() })
}

/// Asks the process whose page is at `page` how it hashes flows: its key, which only its user and root are told, and its hash types.
///
/// # Errors
/// As [`ask`].
pub fn ask_hasher(page: &Path) -> Result<FlowHasher, ControlError> {
    let answer = control_client::ask(page, HASHER, PATIENCE)?;
    let no_answer = ControlError::NoAnswer { path: page.with_extension(control_client::SUFFIX), got_bytes: answer.len() };
    hasher_of(&answer).ok_or(no_answer)
}

/// The hash that a counter page tells in words ([`SteeringSnapshot::hasher`](corelane_watch::SteeringSnapshot)); none if it tells none.
#[must_use]
pub fn hasher_of(words: &str) -> Option<FlowHasher> {
    let (key, types) = words.split_once(' ')?;
    Some(FlowHasher::new(&key.parse::<Key>().ok()?, types.parse::<HashTypes>().ok()?))
}

/// The request of [`ask_hasher`].
const HASHER: &str = "hasher";

/// Asks all services of a running process, on each lane, what they know to answer ([`StreamService::operate`](crate::StreamService::operate)). Returns a list, as JSON: of each answer
/// `service` (its name), `number` (its place among all), `lane`, and the `answer`.
///
/// # Errors
/// [`ControlError`]; `Refused` if no service knows such words.
pub fn ask_services(page: &Path, words: &str) -> Result<String, ControlError> {
    ask_services_within(page, words, PATIENCE)
}

/// The same for those who look again and again, and wait no longer than `patience` for it.
///
/// # Errors
/// As [`ask_services`].
pub fn ask_services_within(page: &Path, words: &str, patience: Duration) -> Result<String, ControlError> {
    control_client::ask(page, &format!("{} {words}", control_client::SERVICES), patience)
}

/// The same of one service, by its number.
///
/// # Errors
/// As [`ask_services`].
pub fn ask_service_within(page: &Path, number: usize, words: &str, patience: Duration) -> Result<String, ControlError> {
    ask_services_within(page, &format!("{OF_NUMBER}{number} {words}"), patience)
}

/// Stands before the number of the only service that is asked.
const OF_NUMBER: char = '#';

/// The service that is asked, if it is one, and the words for it.
pub(crate) fn of_one(words: &str) -> (Option<usize>, &str) {
    let of_number = words.strip_prefix(OF_NUMBER).and_then(|words| words.split_once(' '));
    let of_number = of_number.and_then(|(number, words)| Some((number.parse().ok()?, words)));
    of_number.map_or((None, words), |(number, words)| (Some(number), words))
}

/// Whether the process whose page is at `page` has a control socket; one that died leaves it behind.
#[must_use]
pub fn is_open(page: &Path) -> bool {
    page.with_extension(control_client::SUFFIX).exists()
}

/// All that lanes which run can be asked and told. Errors are for whoever asks: what is wrong, and the remedy.
pub(crate) trait Control {
    /// How flows are hashed.
    fn hasher(&self) -> &FlowHasher;
    /// Of each lane, whether it can have buckets; a lane that has left cannot.
    fn present(&self) -> Vec<bool>;
    /// The table in force.
    fn table(&self) -> Result<Table, String>;
    /// Puts another table in force; refuses one with a lane that has left.
    fn rewrite(&self, table: &Table) -> Result<(), String>;
    /// Has a lane leave; refuses where there is no such lane.
    fn leave(&self, lane: usize) -> Result<(), String>;
    /// Has a lane come back; refuses where there is no such lane.
    fn enter(&self, lane: usize) -> Result<(), String>;
}

impl Control for Steered {
    fn hasher(&self) -> &FlowHasher {
        self.hasher()
    }

    fn present(&self) -> Vec<bool> {
        self.present()
    }

    fn table(&self) -> Result<Table, String> {
        match self.in_force() {
            // There is a table then, but nothing follows it.
            in_force @ InForce::Kernel => Err(SteeringError::NotSteered { in_force }.to_string()),
            _ => Ok(self.table()),
        }
    }

    fn rewrite(&self, table: &Table) -> Result<(), String> {
        self.rewrite(table).map_err(|error| error.to_string())
    }

    fn leave(&self, lane: usize) -> Result<(), String> {
        self.leave(lane).map_err(|error| error.to_string())
    }

    fn enter(&self, lane: usize) -> Result<(), String> {
        self.enter(lane).map_err(|error| error.to_string())
    }
}

/// The first word of each request of the packet paths ([`dispatch`](crate::admin::dispatch)).
pub(crate) const PACKETS: &str = "packets";

/// Whether a request is for the packet paths.
pub(crate) fn is_of_packets(request: &str) -> bool {
    request.split(' ').next() == Some(PACKETS)
}

/// Whether a request is for the gateway.
pub(crate) fn is_of_gateway(request: &str) -> bool {
    request.split(' ').next() == Some(control_client::GATEWAY)
}

/// The words for services, of a request for these.
pub(crate) fn of_services(request: &str) -> Option<&str> {
    request.strip_prefix(control_client::SERVICES)?.strip_prefix(' ')
}

/// Whether a request changes something, rather than asks.
pub(crate) fn changes(request: &str) -> bool {
    request != HASHER && request != "table"
}

/// Carries out a request, and answers with the table as it is then; or says how flows are hashed.
pub(crate) fn answer(control: &impl Control, request: &str) -> Result<String, String> {
    let table = control.table()?;
    if request == HASHER {
        return Ok(hasher_words(control.hasher()));
    }
    let wanted = match Command::read(request)? {
        Command::Table => return Ok(table.to_string()),
        Command::Leave(lane) => return control.leave(lane).and_then(|()| shown(control)),
        Command::Enter(lane) => return control.enter(lane).and_then(|()| shown(control)),
        Command::Set(entries) => set(&table, control.present().len(), entries)?,
        Command::Move(entries) => changed(&table, control.present().len(), entries)?.0,
        Command::Weights(list) => table.reweighted(&weights(control.present().len(), list)?).map_err(words)?,
        Command::Even => {
            let weights: Vec<u32> = control.present().into_iter().map(u32::from).collect();
            table.reweighted(&weights).map_err(words)?
        }
    };
    control.rewrite(&wanted)?;
    shown(control)
}

fn shown(control: &impl Control) -> Result<String, String> {
    control.table().map(|table| table.to_string())
}

fn words(error: Error) -> String {
    error.to_string()
}

fn weights(lanes: usize, list: &str) -> Result<Vec<u32>, String> {
    let wrong = |text| format!("{:?} is no weight: write whole numbers as in 3,1", beginning(text));
    let weights: Vec<u32> = list.split(',').map(|text| text.parse().map_err(|_| wrong(text))).collect::<Result<_, _>>()?;
    if weights.len() == lanes { Ok(weights) } else { Err(words(Error::WeightCount { got: weights.len(), lanes })) }
}

/// The table with all of its buckets named.
fn set(table: &Table, lanes: usize, list: &str) -> Result<Table, String> {
    let (wanted, named) = changed(table, lanes, list)?;
    match named.iter().position(|named| !named) {
        Some(bucket) => Err(format!("bucket {bucket} is not named: name each of the {}, or move some", named.len())),
        None => Ok(wanted),
    }
}

/// The table changed by entries such as `0-3,7:1`, with spaces between, and which of its buckets they name.
fn changed(table: &Table, lanes: usize, list: &str) -> Result<(Table, Vec<bool>), String> {
    let (mut wanted, mut named) = (table.clone(), vec![false; table.buckets().count()]);
    for entry in list.split_ascii_whitespace() {
        let (buckets, lane) = entry.split_once(':').ok_or_else(|| no_entry(entry))?;
        let lane = number(lane)?;
        if lane >= lanes {
            return Err(words(Error::LaneRange { got: lane, most: lanes.saturating_sub(1) }));
        }
        for bucket in bucket_list(buckets, table.buckets())? {
            if std::mem::replace(&mut named[bucket.index()], true) {
                return Err(twice(bucket));
            }
            wanted.set(bucket, lane).map_err(words)?;
        }
    }
    if named.contains(&true) { Ok((wanted, named)) } else { Err(no_entry(list)) }
}

fn twice(bucket: Bucket) -> String {
    format!("bucket {bucket} is named twice: name each once")
}

fn no_entry(text: &str) -> String {
    format!("{:?} is no entry: write buckets and their lane, as in 0-63:0 64-127:1", beginning(text))
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("{:?} is not the number of a lane", beginning(text)))
}

/// The part of a text that a message repeats because it is wrong.
fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(32)]
}

/// Reads a list of buckets such as `0-3,7`, in its order.
///
/// # Errors
/// What is wrong, in words: no number, no range, no bucket of that number, or one named twice.
pub fn bucket_list(list: &str, buckets: Buckets) -> Result<Vec<Bucket>, String> {
    let mut named: Vec<Bucket> = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let bounds = first.parse::<usize>().ok().zip(last.parse::<usize>().ok()).filter(|(first, last)| first <= last);
        let (first, last) = bounds.ok_or_else(|| format!("{:?} is neither a bucket nor a range such as 0-3", beginning(part)))?;
        buckets.bucket(last).map_err(words)?;
        for bucket in buckets.all().skip(first).take(last - first + 1) {
            if named.contains(&bucket) {
                return Err(twice(bucket));
            }
            named.push(bucket);
        }
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// Lanes of which some have left, and their table.
    struct Double {
        hasher: FlowHasher,
        table: RefCell<Table>,
        present: RefCell<Vec<bool>>,
    }

    impl Double {
        fn new(buckets: usize, lanes: usize) -> Self {
            let table = Table::even(Buckets::new(buckets).unwrap(), lanes).unwrap();
            let hasher = FlowHasher::new(&Key::MICROSOFT, HashTypes::DEFAULT);
            Self { hasher, table: RefCell::new(table), present: RefCell::new(vec![true; lanes]) }
        }

        fn change(&self, lane: usize, is_there: bool, table: Result<Table, Error>) -> Result<(), String> {
            self.present.borrow_mut()[lane] = is_there;
            self.rewrite(&table.map_err(words)?)
        }
    }

    impl Control for Double {
        fn hasher(&self) -> &FlowHasher {
            &self.hasher
        }

        fn present(&self) -> Vec<bool> {
            self.present.borrow().clone()
        }

        fn table(&self) -> Result<Table, String> {
            Ok(self.table.borrow().clone())
        }

        fn rewrite(&self, table: &Table) -> Result<(), String> {
            match table.owners().find(|lane| !self.present.borrow()[*lane]) {
                Some(lane) => Err(format!("lane {lane} has left")),
                None => {
                    self.table.replace(table.clone());
                    Ok(())
                }
            }
        }

        fn leave(&self, lane: usize) -> Result<(), String> {
            let without = self.table.borrow().without(lane);
            self.change(lane, false, without)
        }

        fn enter(&self, lane: usize) -> Result<(), String> {
            let with = self.table.borrow().with(lane);
            self.change(lane, true, with)
        }
    }

    #[test]
    fn commands_are_read_as_they_are_written() {
        let commands = [
            Command::Table,
            Command::Set("0-1:0 2:1"),
            Command::Move("3:1"),
            Command::Weights("3,1"),
            Command::Even,
            Command::Leave(7),
            Command::Enter(0),
        ];
        for command in commands {
            assert_eq!(Command::read(&command.to_string()), Ok(command));
        }
        for bad in
            ["", " ", "tables", "table ", "table set", "table even now", "lane leave", "lane leave 1 2", "lane leave -1", "TABLE"]
        {
            assert!(Command::read(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_table_is_shown_and_rewritten() {
        let lanes = Double::new(4, 2);
        let ask = |request: &str| answer(&lanes, request).unwrap();
        assert_eq!(ask("table"), "0:0 1:1 2:0 3:1");
        assert_eq!(ask("hasher"), format!("{} {}", Key::MICROSOFT, HashTypes::DEFAULT));
        assert_eq!(ask("table set 0-1:0 2,3:1"), "0:0 1:0 2:1 3:1");
        assert_eq!(ask("table move 0,3:1 1:1 2:0"), "0:1 1:1 2:0 3:1");
        assert_eq!(ask("table set 0-3:0"), "0:0 1:0 2:0 3:0");
        assert_eq!(ask("table even"), "0:1 1:1 2:0 3:0");
        assert_eq!(ask("table weights 3,1"), "0:0 1:1 2:0 3:0");
        assert_eq!(ask("table"), "0:0 1:1 2:0 3:0");
    }

    #[test]
    fn lanes_leave_and_come_back() {
        let lanes = Double::new(4, 2);
        assert_eq!(answer(&lanes, "lane leave 1").unwrap(), "0:0 1:0 2:0 3:0");
        assert_eq!(answer(&lanes, "table even").unwrap(), "0:0 1:0 2:0 3:0");
        for request in ["table move 0:1", "table set 0-2:0 3:1", "table weights 1,1"] {
            assert_eq!(answer(&lanes, request).unwrap_err(), "lane 1 has left");
        }
        assert_eq!(answer(&lanes, "table weights 1,0").unwrap(), "0:0 1:0 2:0 3:0");
        assert_eq!(answer(&lanes, "lane enter 1").unwrap(), "0:1 1:1 2:0 3:0");
    }

    #[test]
    fn what_is_wrong_is_named_and_nothing_changes() {
        let cases = [
            ("table move 4:0", "there is no bucket 4: the table has 0 to 3"),
            ("table move 0-4:0", "there is no bucket 4"),
            ("table move 3-1:0", "\"3-1\" is neither a bucket nor a range"),
            ("table move 99999999999999999999:0", "is neither a bucket nor a range"),
            ("table move 0-18446744073709551615:0", "there is no bucket 18446744073709551615"),
            ("table move -:0", "\"-\" is neither a bucket nor a range"),
            ("table move 0:2", "there is no lane 2: take 0 to 1"),
            ("table move 0:", "\"\" is not the number of a lane"),
            ("table move 0:0:1", "\"0:1\" is not the number of a lane"),
            ("table move 0", "\"0\" is no entry"),
            ("table move  ", "\" \" is no entry"),
            ("table set 0:0", "bucket 1 is not named"),
            ("table set 0-3:0 2:1", "bucket 2 is named twice"),
            ("table move 1:0 1:1", "bucket 1 is named twice"),
            ("table move 3,0-3:0", "bucket 3 is named twice"),
            ("table weights 1", "1 weights for 2 lanes"),
            ("table weights 1,x", "\"x\" is no weight"),
            ("table weights 1,-1", "\"-1\" is no weight"),
            ("table weights 0,0", "no lane to serve"),
            ("lane leave one", "\"one\" is not the number of a lane"),
            ("reboot", "there is no such command: write hasher, table,"),
        ];
        let lanes = Double::new(4, 2);
        for (request, words) in cases {
            let why = answer(&lanes, request).unwrap_err();
            assert!(why.contains(words), "{request}: {why}");
        }
        assert_eq!(answer(&lanes, "table").unwrap(), "0:0 1:1 2:0 3:1");
    }

    #[test]
    fn a_request_repeats_no_more_than_a_beginning() {
        let long = "é".repeat(8_000);
        for request in
            [format!("table move {long}"), format!("table move {long}:1"), format!("table weights {long}"), long.clone()]
        {
            let why = answer(&Double::new(4, 2), &request).unwrap_err();
            assert!(why.len() < 300, "{} bytes", why.len());
        }
    }
}
