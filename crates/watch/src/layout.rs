//! Where everything stands in a page, in 64-bit words of the machine's byte order.
//!
//! header and steering | service names | names of the services' own counters | lane names | notes | lane rows (counters, sequence, histograms) | service rows (lane by lane; in
//! each the counters that all services have, then its own) | packet rows (what the lane's packet path counts, and each of its protocols) | rows of connections (lane by lane, a word each).
//! Each part, and each row of a lane, begins at a multiple of [`LINE_WORDS`], so rows of two lanes share no cache line.

use crate::catalogue::{Counter, LaneCounter, PacketCounter, ServiceCounter, StreamCounter};
use crate::error::Error;
use crate::histogram::{BUCKETS, LaneHistogram};
use crate::memory::{AtomicU64, Ordering};
use corelane_os::page::LINE_BYTES;

/// The most lanes a page has rows for.
pub const LANES_MAX: usize = 1024;
/// The most services a page has rows for.
pub const SERVICES_MAX: usize = 64;
/// The most notes a page holds.
pub const NOTES_MAX: usize = 32;
/// The longest note, in bytes of UTF-8; a longer one is cut.
pub const NOTE_BYTES_MAX: usize = 240;

/// The most buckets of a table that a page has room for.
pub const BUCKETS_OF_TABLE_MAX: usize = 1024;

/// Lanes of buckets that one word holds.
pub(crate) const LANES_IN_WORD: usize = 4;

/// The most connections that a page has rows for, of all lanes together: 4 MiB.
pub const CONNECTION_ROWS_MAX: usize = 1 << 19;

/// The most counters that a service has of its own.
pub const OWN_COUNTERS_MAX: usize = 128;
/// The longest name and unit of a service's own counter, in bytes: a line of text has room for no more.
pub const COUNTER_NAME_BYTES_MAX: usize = 32;
/// The longest unit of a service's own counter, in bytes, as [`COUNTER_NAME_BYTES_MAX`].
pub const COUNTER_UNIT_BYTES_MAX: usize = 11;

pub(crate) const LINE_WORDS: usize = LINE_BYTES / size_of::<u64>();

/// The words "CORELANE" in the file, whatever the byte order; a page of the other byte order differs in its version.
pub(crate) const MAGIC: u64 = u64::from_ne_bytes(*b"CORELANE");
/// Changed with this file. The words up to `SERVICES` stay where they are in every version.
pub(crate) const LAYOUT_VERSION: u64 = 6;

/// The words of the header.
pub(crate) mod header {
    pub const MAGIC: usize = 0;
    pub const LAYOUT_VERSION: usize = 1;
    pub const CATALOGUE_HASH: usize = 2;
    pub const LANES: usize = 3;
    pub const SERVICES: usize = 4;
    pub const PID: usize = 5;
    pub const START_TICKS: usize = 6;
    pub const PID_NAMESPACE: usize = 7;
    pub const STARTED_UNIX_NANOSECONDS: usize = 8;
    /// How many rows for connections each lane has.
    pub const CONNECTIONS: usize = 9;
    pub const PROGRAM: usize = 10;
}

/// The words of what is said of steering, behind the header's.
pub(crate) mod steering {
    use super::{BUCKETS_OF_TABLE_MAX, HASHER_BYTES_MAX, LANES_IN_WORD, PROGRAM_BYTES_MAX, Text, header, lines};

    /// Odd while it is written.
    pub const SEQUENCE: usize = lines(header::PROGRAM + Text::words(PROGRAM_BYTES_MAX));
    /// How many buckets the table has.
    pub const COUNT: usize = SEQUENCE + 1;
    pub const HASHER: usize = COUNT + 1;
    /// The lane of each bucket, four to a word.
    pub const LANES: usize = HASHER + Text::words(HASHER_BYTES_MAX);
    pub const END: usize = LANES + BUCKETS_OF_TABLE_MAX / LANES_IN_WORD;
}

/// The words of a lane's row behind its counters.
pub(crate) mod lane_row {
    use super::{Counter, LaneCounter};

    /// Odd while the lane writes what belongs together.
    pub const SEQUENCE: usize = LaneCounter::ALL.len();
    pub const HISTOGRAMS: usize = SEQUENCE + 1;
}

/// The words of the row of a lane's packet path.
pub(crate) mod packets_row {
    use super::{Counter, INTERFACE_BYTES_MAX, PROTOCOL_BYTES_MAX, PROTOCOLS_MAX, PacketCounter, StreamCounter, Text, lines};

    /// Odd while the lane writes.
    pub const SEQUENCE: usize = 0;
    /// How many protocols there are; of a lane without a packet path 0.
    pub const PROTOCOLS: usize = 1;
    pub const COUNTERS: usize = 2;
    const INTERFACE: usize = COUNTERS + PacketCounter::ALL.len();
    const STREAMS: usize = INTERFACE + Text::words(INTERFACE_BYTES_MAX);
    const STREAM_WORDS: usize = Text::words(PROTOCOL_BYTES_MAX) + StreamCounter::ALL.len();
    pub const WORDS: usize = lines(STREAMS + PROTOCOLS_MAX * STREAM_WORDS);

    /// The name of its interface, in a row that begins at `row`.
    pub fn interface(row: usize) -> Text {
        Text { at: row + INTERFACE, bytes_max: INTERFACE_BYTES_MAX }
    }

    /// The name of a protocol, in a row that begins at `row`.
    pub fn name(row: usize, protocol: usize) -> Text {
        assert!(protocol < PROTOCOLS_MAX, "a row has places for so many protocols");
        Text { at: row + STREAMS + protocol * STREAM_WORDS, bytes_max: PROTOCOL_BYTES_MAX }
    }

    /// Where its counters stand.
    pub fn stream(row: usize, protocol: usize) -> usize {
        name(row, protocol).at + Text::words(PROTOCOL_BYTES_MAX)
    }
}

/// The words of a lane's rows of connections.
pub(crate) mod connections {
    use super::{LINE_WORDS, lines};

    /// How many rows have been used.
    pub const USED: usize = 0;
    pub const ROWS: usize = LINE_WORDS;

    pub const fn words(count: usize) -> usize {
        if count == 0 { 0 } else { ROWS + lines(count) }
    }
}

/// The most protocols that the row of a lane's packet path has places for.
pub const PROTOCOLS_MAX: usize = 16;

/// The word of a lane that is bound to no CPU.
pub(crate) const NO_CPU: u64 = u64::MAX;

const HEADER_WORDS: usize = lines(steering::END);
const SERVICE_NAME_WORDS: usize = lines(Text::words(NAME_BYTES_MAX) + Text::words(URL_BYTES_MAX) + 1);
const COUNTER_NAME_WORDS: usize = lines(Text::words(COUNTER_NAME_BYTES_MAX) + Text::words(COUNTER_UNIT_BYTES_MAX) + 1);
const LANE_NAME_WORDS: usize = lines(1 + Text::words(DRIVER_BYTES_MAX) + Text::words(STEERING_BYTES_MAX));
const NOTE_WORDS: usize = lines(Text::words(NOTE_BYTES_MAX));
/// A lane's counters, the sequence of its groups, and its histograms.
pub(crate) const LANE_ROW_WORDS: usize = lines(lane_row::HISTOGRAMS + LaneHistogram::ALL.len() * BUCKETS);
/// What all services have of a service's row; its own counters follow.
pub(crate) const SERVICE_ROW_WORDS: usize = lines(ServiceCounter::ALL.len());

const PROGRAM_BYTES_MAX: usize = 64;
const HASHER_BYTES_MAX: usize = 256;
const NAME_BYTES_MAX: usize = 64;
const URL_BYTES_MAX: usize = 256;
const PROTOCOL_BYTES_MAX: usize = 16;
/// As long as a name may be (netdevice(7)).
const INTERFACE_BYTES_MAX: usize = 16;
const DRIVER_BYTES_MAX: usize = 32;
const STEERING_BYTES_MAX: usize = 64;

const fn lines(words: usize) -> usize {
    words.div_ceil(LINE_WORDS) * LINE_WORDS
}

/// Where the parts of a page with so many lanes, and services with so many counters of their own, begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub lanes: usize,
    /// How many rows for connections each lane has.
    pub connections: usize,
    /// How many own counters the services before each have, and at the end how many all have.
    own_before: Vec<usize>,
    /// The words of their rows on one lane, in the same way.
    row_before: Vec<usize>,
}

impl Layout {
    /// `own` are the services, each as the number of its own counters.
    pub fn new(lanes: usize, connections: usize, own: impl ExactSizeIterator<Item = usize>) -> Result<Self, Error> {
        if !(1..=LANES_MAX).contains(&lanes) {
            return Err(Error::Shape { what: "lanes", most: LANES_MAX, got: lanes });
        }
        if connections > CONNECTION_ROWS_MAX / lanes {
            return Err(Error::Shape { what: "connections a lane", most: CONNECTION_ROWS_MAX / lanes, got: connections });
        }
        if own.len() > SERVICES_MAX {
            return Err(Error::Shape { what: "services", most: SERVICES_MAX, got: own.len() });
        }
        let (mut own_before, mut row_before) = (vec![0], vec![0]);
        for (service, own) in own.enumerate() {
            if own > OWN_COUNTERS_MAX {
                return Err(Error::Shape { what: "counters of a service's own", most: OWN_COUNTERS_MAX, got: own });
            }
            own_before.push(own_before[service] + own);
            row_before.push(row_before[service] + SERVICE_ROW_WORDS + lines(own));
        }
        assert!(row_before.iter().all(|words| words.is_multiple_of(LINE_WORDS)), "rows of two lanes share no line");
        Ok(Self { lanes, connections, own_before, row_before })
    }

    pub fn services(&self) -> usize {
        self.own_before.len() - 1
    }

    /// How many counters of its own a service has.
    pub fn own(&self, service: usize) -> usize {
        self.own_before[service + 1] - self.own_before[service]
    }

    pub fn program() -> Text {
        Text { at: header::PROGRAM, bytes_max: PROGRAM_BYTES_MAX }
    }

    /// How flows are told apart.
    pub fn hasher() -> Text {
        Text { at: steering::HASHER, bytes_max: HASHER_BYTES_MAX }
    }

    pub fn service_name(service: usize) -> Text {
        Text { at: HEADER_WORDS + service * SERVICE_NAME_WORDS, bytes_max: NAME_BYTES_MAX }
    }

    pub fn service_url(service: usize) -> Text {
        let at = Self::service_name(service).at + Text::words(NAME_BYTES_MAX);
        Text { at, bytes_max: URL_BYTES_MAX }
    }

    /// How many counters of its own a service says it has.
    pub fn own_count(service: usize) -> usize {
        Self::service_url(service).at + Text::words(URL_BYTES_MAX)
    }

    /// The name of one of a service's own counters.
    pub fn own_name(&self, service: usize, own: usize) -> Text {
        assert!(service <= self.services(), "a service of this page, or where the last one's end");
        let at = HEADER_WORDS + self.services() * SERVICE_NAME_WORDS + (self.own_before[service] + own) * COUNTER_NAME_WORDS;
        Text { at, bytes_max: COUNTER_NAME_BYTES_MAX }
    }

    pub fn own_unit(&self, service: usize, own: usize) -> Text {
        let at = self.own_name(service, own).at + Text::words(COUNTER_NAME_BYTES_MAX);
        Text { at, bytes_max: COUNTER_UNIT_BYTES_MAX }
    }

    pub fn own_kind(&self, service: usize, own: usize) -> usize {
        self.own_unit(service, own).at + Text::words(COUNTER_UNIT_BYTES_MAX)
    }

    pub fn lane_cpu(&self, lane: usize) -> usize {
        self.own_name(self.services(), 0).at + lane * LANE_NAME_WORDS
    }

    pub fn lane_driver(&self, lane: usize) -> Text {
        Text { at: self.lane_cpu(lane) + 1, bytes_max: DRIVER_BYTES_MAX }
    }

    pub fn lane_steering(&self, lane: usize) -> Text {
        let at = self.lane_driver(lane).at + Text::words(DRIVER_BYTES_MAX);
        Text { at, bytes_max: STEERING_BYTES_MAX }
    }

    /// How many notes there are.
    pub fn notes_count(&self) -> usize {
        self.lane_cpu(self.lanes)
    }

    /// How many notes there was no room for.
    pub fn notes_refused(&self) -> usize {
        self.notes_count() + 1
    }

    pub fn note(&self, note: usize) -> Text {
        Text { at: self.notes_count() + LINE_WORDS + note * NOTE_WORDS, bytes_max: NOTE_BYTES_MAX }
    }

    pub fn lane_row(&self, lane: usize) -> usize {
        self.note(NOTES_MAX).at + lane * LANE_ROW_WORDS
    }

    pub fn service_row(&self, lane: usize, service: usize) -> usize {
        self.lane_row(self.lanes) + lane * self.row_before[self.services()] + self.row_before[service]
    }

    /// Where a service's own counters stand in its row.
    pub fn own_row(&self, lane: usize, service: usize) -> usize {
        self.service_row(lane, service) + SERVICE_ROW_WORDS
    }

    /// The row of a lane's packet path.
    pub fn packets_row(&self, lane: usize) -> usize {
        self.service_row(self.lanes, 0) + lane * packets_row::WORDS
    }

    /// The rows of a lane's connections.
    pub fn connections(&self, lane: usize) -> usize {
        self.packets_row(self.lanes) + lane * connections::words(self.connections)
    }

    /// The words of the whole page.
    pub fn words(&self) -> usize {
        self.connections(self.lanes)
    }
}

/// Room for a text: a word with its length in bytes, then its UTF-8.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text {
    pub at: usize,
    pub bytes_max: usize,
}

impl Text {
    const fn words(bytes_max: usize) -> usize {
        1 + bytes_max.div_ceil(size_of::<u64>())
    }

    /// Writes `text`, cut to the room there is.
    pub fn write(self, words: &[AtomicU64], text: &str) {
        let text = fit(text, self.bytes_max);
        assert!(text.len() <= self.bytes_max, "a text stays within its room");
        words[self.at].store(text.len() as u64, Ordering::Relaxed);
        for (word, chunk) in words[self.at + 1..].iter().zip(text.as_bytes().chunks(size_of::<u64>())) {
            let mut bytes = [0; size_of::<u64>()];
            bytes[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
        }
    }

    /// Reads it back. Whatever the words are, the result is at most the room long, times three for bytes that are no
    /// UTF-8, and holds nothing that a terminal would act on.
    pub fn read(self, load: impl Fn(usize) -> u64) -> String {
        let length = usize::try_from(load(self.at)).unwrap_or(usize::MAX).min(self.bytes_max);
        let words = length.div_ceil(size_of::<u64>());
        let bytes: Vec<u8> = (1..=words).flat_map(|i| load(self.at + i).to_ne_bytes()).take(length).collect();
        let text = String::from_utf8_lossy(&bytes);
        text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
    }
}

/// The text, cut at a character and marked with an ellipsis if it is longer than `bytes_max`.
pub(crate) fn fit(text: &str, bytes_max: usize) -> std::borrow::Cow<'_, str> {
    const MARK: &str = "…";
    if text.len() <= bytes_max {
        return text.into();
    }
    let end = text.floor_char_boundary(bytes_max.saturating_sub(MARK.len()));
    format!("{}{MARK}", &text[..end]).into()
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every part of a page as a range of words, in order.
    fn parts(layout: &Layout) -> Vec<(usize, usize)> {
        let text = |text: Text| (text.at, Text::words(text.bytes_max));
        let mut parts = vec![(0, header::PROGRAM), text(Layout::program())];
        parts.extend([(steering::SEQUENCE, 2), text(Layout::hasher()), (steering::LANES, steering::END - steering::LANES)]);
        for service in 0..layout.services() {
            parts.extend([
                text(Layout::service_name(service)),
                text(Layout::service_url(service)),
                (Layout::own_count(service), 1),
            ]);
        }
        for (service, own) in (0..layout.services()).flat_map(|service| (0..layout.own(service)).map(move |own| (service, own))) {
            parts.extend([text(layout.own_name(service, own)), text(layout.own_unit(service, own))]);
            parts.push((layout.own_kind(service, own), 1));
        }
        for lane in 0..layout.lanes {
            parts.push((layout.lane_cpu(lane), 1));
            parts.extend([text(layout.lane_driver(lane)), text(layout.lane_steering(lane))]);
        }
        parts.extend([(layout.notes_count(), 1), (layout.notes_refused(), 1)]);
        parts.extend((0..NOTES_MAX).map(|note| text(layout.note(note))));
        parts.extend((0..layout.lanes).map(|lane| (layout.lane_row(lane), LANE_ROW_WORDS)));
        for (lane, service) in (0..layout.lanes).flat_map(|lane| (0..layout.services()).map(move |service| (lane, service))) {
            parts.push((layout.service_row(lane, service), SERVICE_ROW_WORDS));
            parts.push((layout.own_row(lane, service), layout.own(service)));
        }
        for row in (0..layout.lanes).map(|lane| layout.packets_row(lane)) {
            parts.push((row, packets_row::COUNTERS + PacketCounter::ALL.len()));
            for protocol in 0..PROTOCOLS_MAX {
                parts.push(text(packets_row::name(row, protocol)));
                parts.push((packets_row::stream(row, protocol), StreamCounter::ALL.len()));
            }
        }
        for rows in (0..layout.lanes).filter(|_| layout.connections > 0).map(|lane| layout.connections(lane)) {
            parts.extend([(rows + connections::USED, 1), (rows + connections::ROWS, layout.connections)]);
        }
        parts
    }

    proptest! {
        #[test]
        fn parts_do_not_overlap_and_rows_are_aligned(
            lanes in 1..70_usize, connections in 0..999_usize, own in proptest::collection::vec(0..OWN_COUNTERS_MAX + 1, 0..9),
        ) {
            let layout = Layout::new(lanes, connections, own.iter().copied()).unwrap();
            let mut end = 0;
            for (at, words) in parts(&layout) {
                prop_assert!(at >= end, "a part begins at {at}, before {end}");
                end = at + words;
            }
            prop_assert!(end <= layout.words());
            for lane in 0..lanes {
                prop_assert_eq!(layout.lane_row(lane) % LINE_WORDS, 0);
                prop_assert_eq!(layout.packets_row(lane) % LINE_WORDS, 0);
                prop_assert_eq!(layout.connections(lane) % LINE_WORDS, 0);
                for (service, &own) in own.iter().enumerate() {
                    prop_assert_eq!(layout.service_row(lane, service) % LINE_WORDS, 0);
                    prop_assert_eq!(layout.own(service), own);
                }
            }
        }

        #[test]
        fn texts_survive(text in "\\PC{0,80}") {
            let room = Text { at: 3, bytes_max: 64 };
            let words: Vec<AtomicU64> = (0..3 + Text::words(64)).map(|_| AtomicU64::new(u64::MAX)).collect();
            room.write(&words, &text);
            let read = room.read(|i| words[i].load(Ordering::Relaxed));
            prop_assert_eq!(&read, &fit(&text, 64));
            prop_assert!(read.len() <= 64);
            prop_assert!(read == text || (text.len() > 64 && read.ends_with('…')));
        }

        #[test]
        fn any_words_make_a_bounded_text(words in proptest::collection::vec(any::<u64>(), 9)) {
            let text = Text { at: 0, bytes_max: 64 }.read(|i| words[i]);
            prop_assert!(text.len() <= 3 * 64);
            prop_assert!(!text.chars().any(char::is_control));
        }
    }

    #[test]
    fn the_largest_page_fits_its_memory() {
        let none = |services| std::iter::repeat_n(0, services);
        let layout = Layout::new(LANES_MAX, CONNECTION_ROWS_MAX / LANES_MAX, none(SERVICES_MAX)).unwrap();
        assert!(layout.words() <= corelane_os::page::WORDS_MAX);
        let layout = Layout::new(LANES_MAX, CONNECTION_ROWS_MAX / LANES_MAX, [OWN_COUNTERS_MAX; 8].into_iter()).unwrap();
        assert!(layout.words() <= corelane_os::page::WORDS_MAX);
        for (lanes, services) in [(0, 1), (LANES_MAX + 1, 1), (1, SERVICES_MAX + 1)] {
            assert!(matches!(Layout::new(lanes, 0, none(services)), Err(Error::Shape { .. })));
        }
        assert!(matches!(Layout::new(1, 0, [OWN_COUNTERS_MAX + 1].into_iter()), Err(Error::Shape { .. })));
        assert!(matches!(Layout::new(2, CONNECTION_ROWS_MAX / 2 + 1, none(0)), Err(Error::Shape { .. })));
    }
}
