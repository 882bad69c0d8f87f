//! The rows of a lane's connections: a word each, which says what the kernel does not tell of a connection and a reader wants to know.
//!
//! A connection's row stands at its number on the lane, and is a whole by itself, so no reader sees a half of it. It stays when the connection has ended, with
//! how it did, until another connection has its number. Who is connected is the kernel's to say: a reader finds the row by the flow id.

use crate::layout::connections as at;
use crate::memory::{Ordering, PageMemory};
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

/// How it stands with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ConnectionState {
    /// Its ending is not decided.
    Open = 1,
    /// The service closed it.
    Completed,
    /// The peer finished, and all was answered.
    EndOfStream,
    /// The lane drains, or it was idle for too long.
    Closing,
    /// The socket failed.
    Error,
    /// It was broken off.
    Aborted,
    /// It has gone to another lane, where it goes on.
    Moved,
}

impl ConnectionState {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Open, Self::Completed, Self::EndOfStream, Self::Closing, Self::Error, Self::Aborted, Self::Moved];

    /// Its name, as the counters of endings have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Completed => "completed",
            Self::EndOfStream => "end_of_stream",
            Self::Closing => "closing",
            Self::Error => "error",
            Self::Aborted => "aborted",
            Self::Moved => "moved",
        }
    }

    fn of(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|state| *state as u64 == number)
    }
}

/// What a row says of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionRow {
    /// Its number on its lane, as reports of stalls name it.
    pub number: u32,
    /// Its flow id; none where flows are not told apart, and while it is being opened from here.
    pub flow: Option<u32>,
    /// When it was opened: a whole second of the monotonic clock (CLOCK_MONOTONIC).
    pub opened_second: u64,
    /// How it stands with it.
    pub state: ConnectionState,
}

/// The upper half of the word is the flow id.
const FLOW_SHIFT: u32 = 32;
/// Then comes whether there is one, and the state.
const HAS_FLOW: u64 = 1 << 31;
const STATE_SHIFT: u32 = 28;
const STATE_MASK: u64 = 7 << STATE_SHIFT;
/// The rest is the second: enough for eight years without a restart of the machine, and the last one from then on.
const SECOND_MAX: u64 = (1 << STATE_SHIFT) - 1;

const SECOND: u64 = 1_000_000_000;

impl ConnectionRow {
    fn word(self) -> u64 {
        let flow = self.flow.map_or(0, |flow| u64::from(flow) << FLOW_SHIFT | HAS_FLOW);
        flow | (self.state as u64) << STATE_SHIFT | self.opened_second.min(SECOND_MAX)
    }

    /// What a word says, whatever it is; none where no connection has had that number.
    fn of(number: u32, word: u64) -> Option<Self> {
        let state = ConnectionState::of((word & STATE_MASK) >> STATE_SHIFT)?;
        let flow = (word & HAS_FLOW != 0).then_some((word >> FLOW_SHIFT) as u32);
        Some(Self { number, flow, opened_second: word & SECOND_MAX, state })
    }
}

/// The rows of one lane's connections, written by that lane alone, as a [`Row`](crate::Row). Connections whose number is beyond them have none.
#[derive(Debug)]
pub struct ConnectionRows {
    memory: Arc<PageMemory>,
    first: usize,
    count: usize,
    single_writer: PhantomData<Cell<()>>,
}

impl ConnectionRows {
    pub(crate) fn new(memory: &Arc<PageMemory>, first: usize, count: usize) -> Self {
        assert!(first + at::words(count) <= memory.words().len(), "the rows lie in their page");
        Self { memory: Arc::clone(memory), first, count, single_writer: PhantomData }
    }

    /// A connection has this number from now on; `now` is the monotonic clock in nanoseconds. Again when its flow is known.
    pub fn open(&self, number: u32, flow: Option<u32>, now: u64) {
        let state = ConnectionState::Open;
        self.write(ConnectionRow { number, flow, opened_second: now / SECOND, state });
    }

    /// Its ending is decided, or another one.
    pub fn end(&self, number: u32, state: ConnectionState) {
        assert!(state != ConnectionState::Open, "an ending is decided");
        let row = self.get(number);
        if let Some(row) = row {
            self.write(ConnectionRow { state, ..row });
        }
    }

    fn get(&self, number: u32) -> Option<ConnectionRow> {
        let row = usize::try_from(number).ok().filter(|row| *row < self.count)?;
        ConnectionRow::of(number, self.memory.words()[self.first + at::ROWS + row].load(Ordering::Relaxed))
    }

    fn write(&self, row: ConnectionRow) {
        // Connections whose number is beyond the rows have none.
        let Some(place) = usize::try_from(row.number).ok().filter(|place| *place < self.count) else { return };
        let words = &self.memory.words()[self.first..self.first + at::words(self.count)];
        words[at::ROWS + place].store(row.word(), Ordering::Relaxed);
        // How many have been used, so that no reader touches memory that nobody has.
        if words[at::USED].load(Ordering::Relaxed) <= place as u64 {
            words[at::USED].store(place as u64 + 1, Ordering::Relaxed);
        }
    }
}

/// Reads the rows that were used, of `count`, whatever the words are.
pub(crate) fn read(first: usize, count: usize, load: impl Fn(usize) -> u64) -> Vec<ConnectionRow> {
    let used = usize::try_from(load(first + at::USED)).unwrap_or(usize::MAX).min(count);
    (0..used).filter_map(|place| ConnectionRow::of(place as u32, load(first + at::ROWS + place))).collect()
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::page::{Description, LaneName, Page};
    use crate::reader::Reader;

    fn page(connections: usize) -> (Page, Reader) {
        let page =
            Page::heap(&Description { lanes: vec![LaneName::default(); 2], connections, ..Description::default() }).unwrap();
        let reader = Reader::of(&page).unwrap();
        (page, reader)
    }

    #[test]
    fn a_row_is_one_word_and_says_all() {
        for state in ConnectionState::ALL {
            for (flow, opened_second) in [(None, 0), (Some(0), 7), (Some(u32::MAX), SECOND_MAX)] {
                let row = ConnectionRow { number: 3, flow, opened_second, state };
                assert_eq!(ConnectionRow::of(3, row.word()), Some(row));
            }
        }
        assert_eq!(ConnectionRow::of(3, 0), None, "nobody has had that number");
        let late = ConnectionRow { number: 0, flow: None, opened_second: u64::MAX, state: ConnectionState::Open };
        assert_eq!(ConnectionRow::of(0, late.word()).unwrap().opened_second, SECOND_MAX);
    }

    #[test]
    fn a_connection_is_told_from_its_opening_on_and_with_its_ending_until_another_has_its_number() {
        let (page, reader) = page(4);
        let rows = page.connections(1).unwrap();
        rows.open(0, None, 8_000_000_000);
        assert_eq!(reader.connections(1).len(), 1, "the first is read as soon as it is there");
        rows.open(2, Some(0x51cc_c178), 7_900_000_000);
        rows.end(2, ConnectionState::Closing);
        rows.end(2, ConnectionState::Aborted);
        // Nobody has had that number.
        rows.end(1, ConnectionState::Error);
        let row = |number, flow, opened_second, state| ConnectionRow { number, flow, opened_second, state };
        let before = [row(0, None, 8, ConnectionState::Open), row(2, Some(0x51cc_c178), 7, ConnectionState::Aborted)];
        assert_eq!((reader.connections(0), reader.connections(1)), (vec![], before.to_vec()));
        rows.open(2, Some(1), 9_000_000_000);
        assert_eq!(reader.connections(1)[1], row(2, Some(1), 9, ConnectionState::Open));
    }

    #[test]
    fn who_has_a_number_beyond_the_rows_has_none() {
        let (page, reader) = page(4);
        let rows = page.connections(0).unwrap();
        for number in [4, 5, u32::MAX] {
            rows.open(number, Some(number), 1);
            rows.end(number, ConnectionState::Error);
        }
        assert_eq!((reader.connections(0), reader.connections(1), reader.connections(2)), (vec![], vec![], vec![]));
        let without = Page::heap(&Description { lanes: vec![LaneName::default()], ..Description::default() }).unwrap();
        without.connections(0).unwrap().open(0, None, 1);
        assert_eq!(Reader::of(&without).unwrap().connections(0), []);
    }
}
