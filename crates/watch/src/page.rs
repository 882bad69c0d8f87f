//! The writer's side: a process makes one page, its lanes write their rows, and it adds notes.

use crate::catalogue::{CATALOGUE_HASH, Counter, Declaration, Kind, LaneCounter, ServiceCounter};
use crate::connections::ConnectionRows;
use crate::error::Error;
use crate::files::stem;
use crate::histogram::{BUCKETS, LaneHistogram, bucket};
use crate::layout::{
    LANE_ROW_WORDS, LAYOUT_VERSION, Layout, MAGIC, NO_CPU, NOTE_BYTES_MAX, NOTES_MAX, SERVICE_ROW_WORDS, fit, header, lane_row,
};
use crate::memory::{AtomicU64, Ordering, PageMemory};
use crate::own::OwnCounter;
use crate::packets::PacketsRow;
use crate::process_id::ProcessId;
use crate::sequence;
use crate::steering::SteeringRow;
use corelane_os::page::RunDirectory;
use std::cell::Cell;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

/// What a page says of its process: written once, before the lanes start. A text longer than stated is cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Name and version of the program; 64 bytes.
    pub program: String,
    /// The process.
    pub process: ProcessId,
    /// When it started, by the wall clock, in nanoseconds since 1970.
    pub started_unix_nanoseconds: u64,
    /// Its services; at most [`SERVICES_MAX`](crate::SERVICES_MAX).
    pub services: Vec<ServiceName>,
    /// Its lanes; 1 to [`LANES_MAX`](crate::LANES_MAX).
    pub lanes: Vec<LaneName>,
    /// For how many connections of each lane it has a row; for all lanes at most [`CONNECTION_ROWS_MAX`](crate::CONNECTION_ROWS_MAX).
    pub connections: usize,
}

/// What a page says of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceName {
    /// Its name; 64 bytes.
    pub name: String,
    /// Where it listens; 256 bytes.
    pub url: String,
    /// What it counts beside what all services have; at most [`OWN_COUNTERS_MAX`](crate::OWN_COUNTERS_MAX).
    pub counters: Vec<CounterName>,
}

/// What a page says of one of a service's own counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterName {
    /// Its name; 32 bytes.
    pub name: String,
    /// Whether it is a counter or a gauge.
    pub kind: Kind,
    /// What it counts; 11 bytes.
    pub unit: String,
}

impl CounterName {
    /// What the page says of each counter that is declared.
    pub fn all(declared: &[Declaration]) -> Vec<Self> {
        declared.iter().map(|one| Self { name: one.name.to_owned(), kind: one.kind, unit: one.unit.to_owned() }).collect()
    }
}

/// What a page says of a lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneName {
    /// The CPU it is bound to.
    pub cpu: Option<u32>,
    /// The name of its driver; 32 bytes.
    pub driver: String,
    /// How flows are steered to it, in a word; 64 bytes.
    pub steering: String,
}

/// The page of this process. It has one owner, who adds the notes; the rows go to the lanes.
#[derive(Debug)]
pub struct Page {
    memory: Arc<PageMemory>,
    layout: Layout,
    /// Of its services.
    names: Vec<Arc<str>>,
    notes: Vec<String>,
}

impl Page {
    /// Makes a page that other processes can read.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Memory`]. A service that cannot have this page can count on with [`Page::heap`].
    pub fn create(directory: &RunDirectory, description: &Description) -> Result<Self, Error> {
        let layout = layout(description)?;
        assert!(description.process.pid != 0, "a page that others find says whose it is");
        let mut memory = PageMemory::create(directory, &stem(description.process), layout.words())?;
        describe(&memory, &layout, description);
        memory.publish()?;
        Ok(Self { memory: Arc::new(memory), layout, names: names(description), notes: Vec::new() })
    }

    /// Makes a page on the heap, for simulation and for processes that can make no file.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Memory`].
    pub fn heap(description: &Description) -> Result<Self, Error> {
        let layout = layout(description)?;
        let memory = PageMemory::heap(layout.words())?;
        describe(&memory, &layout, description);
        Ok(Self { memory: Arc::new(memory), layout, names: names(description), notes: Vec::new() })
    }

    /// The file; none for a page on the heap.
    pub fn path(&self) -> Option<&Path> {
        self.memory.path()
    }

    /// The row of a lane, for that lane alone. Two rows of one lane in two hands lose counts, and nothing worse.
    ///
    /// # Errors
    /// [`Error::Row`].
    pub fn lane(&self, lane: usize) -> Result<LaneRow, Error> {
        check_row("lane", self.layout.lanes, lane)?;
        Ok(Row::new(&self.memory, self.layout.lane_row(lane), Own::default()))
    }

    /// What the page says of steering, for the one who rewrites the table.
    pub fn steering(&self) -> SteeringRow {
        SteeringRow::new(&self.memory)
    }

    /// The row of a service on a lane, for that lane alone, as [`Page::lane`].
    ///
    /// # Errors
    /// [`Error::Row`].
    pub fn service(&self, lane: usize, service: usize) -> Result<ServiceRow, Error> {
        check_row("lane", self.layout.lanes, lane)?;
        check_row("service", self.layout.services(), service)?;
        let own = Own { service, count: self.layout.own(service), name: Some(self.names[service].clone()) };
        Ok(Row::new(&self.memory, self.layout.service_row(lane, service), own))
    }

    /// The sum of these counters over all services on all lanes, as they are now.
    pub fn sum(&self, counters: &[ServiceCounter]) -> u64 {
        let (words, lanes, services) = (self.memory.words(), self.layout.lanes, self.layout.services());
        let rows = (0..lanes * services).map(|row| self.layout.service_row(row / services, row % services));
        let of = |row: usize| counters.iter().map(move |counter| words[row + counter.index()].load(Ordering::Relaxed));
        rows.flat_map(of).fold(0, u64::saturating_add)
    }

    /// The row of a lane's packet path, for that lane alone, as [`Page::lane`].
    ///
    /// # Errors
    /// [`Error::Row`].
    pub fn packets(&self, lane: usize) -> Result<PacketsRow, Error> {
        check_row("lane", self.layout.lanes, lane)?;
        Ok(PacketsRow::new(&self.memory, self.layout.packets_row(lane)))
    }

    /// The rows of a lane's connections, for that lane alone, as [`Page::lane`].
    ///
    /// # Errors
    /// [`Error::Row`].
    pub fn connections(&self, lane: usize) -> Result<ConnectionRows, Error> {
        check_row("lane", self.layout.lanes, lane)?;
        Ok(ConnectionRows::new(&self.memory, self.layout.connections(lane), self.layout.connections))
    }

    /// Removes the page's file: for a process that did not come to serve. What has it open can still read it.
    pub fn withdraw(&self) {
        if let Some(path) = self.path() {
            // Somebody else may have removed it.
            let _ = std::fs::remove_file(path);
        }
    }

    /// Adds a note: what the process has to do without, why, and the remedy. A note beyond [`NOTE_BYTES_MAX`] is cut,
    /// one that stands there already is not repeated, and those beyond [`NOTES_MAX`] are only counted.
    pub fn note(&mut self, text: &str) {
        let text = fit(text, NOTE_BYTES_MAX);
        if self.notes.iter().any(|note| *note == text) {
            return;
        }
        let words = self.memory.words();
        if self.notes.len() == NOTES_MAX {
            let refused = &words[self.layout.notes_refused()];
            refused.store(refused.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            return;
        }
        assert!(words[self.layout.notes_count()].load(Ordering::Relaxed) == self.notes.len() as u64, "notes have one writer");
        self.layout.note(self.notes.len()).write(words, &text);
        self.notes.push(text.into_owned());
        // Release: a reader that sees the new count sees the text.
        words[self.layout.notes_count()].store(self.notes.len() as u64, Ordering::Release);
    }

    pub(crate) fn memory(&self) -> &Arc<PageMemory> {
        &self.memory
    }
}

fn check_row(what: &'static str, count: usize, got: usize) -> Result<(), Error> {
    if got < count { Ok(()) } else { Err(Error::Row { what, count, got }) }
}

fn layout(description: &Description) -> Result<Layout, Error> {
    Layout::new(
        description.lanes.len(),
        description.connections,
        description.services.iter().map(|service| service.counters.len()),
    )
}

fn describe(memory: &PageMemory, layout: &Layout, description: &Description) {
    let words = memory.words();
    assert!(layout.words() <= words.len(), "the page is as large as its layout");
    assert!(words[header::MAGIC].load(Ordering::Relaxed) == 0, "a page is described once");
    let Description { program, process, started_unix_nanoseconds, services, lanes, connections } = description;
    for (index, value) in [
        (header::MAGIC, MAGIC),
        (header::LAYOUT_VERSION, LAYOUT_VERSION),
        (header::CATALOGUE_HASH, CATALOGUE_HASH),
        (header::LANES, layout.lanes as u64),
        (header::SERVICES, layout.services() as u64),
        (header::PID, u64::from(process.pid)),
        (header::START_TICKS, process.start_ticks),
        (header::PID_NAMESPACE, process.pid_namespace),
        (header::STARTED_UNIX_NANOSECONDS, *started_unix_nanoseconds),
        (header::CONNECTIONS, *connections as u64),
    ] {
        words[index].store(value, Ordering::Relaxed);
    }
    Layout::program().write(words, program);
    for (index, service) in services.iter().enumerate() {
        Layout::service_name(index).write(words, &service.name);
        Layout::service_url(index).write(words, &service.url);
        words[Layout::own_count(index)].store(service.counters.len() as u64, Ordering::Relaxed);
        for (own, CounterName { name, kind, unit }) in service.counters.iter().enumerate() {
            layout.own_name(index, own).write(words, name);
            layout.own_unit(index, own).write(words, unit);
            words[layout.own_kind(index, own)].store(kind.word(), Ordering::Relaxed);
        }
    }
    for (index, lane) in lanes.iter().enumerate() {
        words[layout.lane_cpu(index)].store(lane.cpu.map_or(NO_CPU, u64::from), Ordering::Relaxed);
        layout.lane_driver(index).write(words, &lane.driver);
        layout.lane_steering(index).write(words, &lane.steering);
    }
}

/// A row of counters, written by one lane. It moves to the lane's thread and is shared only there: it is `Send` and not
/// `Sync`. Clone it when things are set up, not for each request: a clone counts a reference.
///
/// ```
/// # mod corelane { pub mod admin { pub mod watch { pub use corelane_watch::LaneRow; } } }
/// fn moves_to_a_thread<T: Send>() {}
/// moves_to_a_thread::<corelane::admin::watch::LaneRow>();
/// ```
/// ```compile_fail,E0277
/// # mod corelane { pub mod admin { pub mod watch { pub use corelane_watch::LaneRow; } } }
/// fn is_shared_by_threads<T: Sync>() {}
/// is_shared_by_threads::<corelane::admin::watch::LaneRow>();
/// ```
#[derive(Clone, Debug)]
pub struct Row<C, const WORDS: usize> {
    memory: Arc<PageMemory>,
    first: usize,
    own: Own,
    single_writer: PhantomData<(C, Cell<()>)>,
}

/// A service's own counters.
#[derive(Clone, Debug, Default)]
struct Own {
    service: usize,
    /// Its name.
    name: Option<Arc<str>>,
    /// How many there are: their words follow those that all services have.
    count: usize,
}

/// The row of one lane.
pub type LaneRow = Row<LaneCounter, LANE_ROW_WORDS>;
/// The row of one service on one lane.
pub type ServiceRow = Row<ServiceCounter, SERVICE_ROW_WORDS>;

impl<C: Counter, const WORDS: usize> Row<C, WORDS> {
    fn new(memory: &Arc<PageMemory>, first: usize, own: Own) -> Self {
        assert!(first + WORDS + own.count <= memory.words().len(), "a row lies in its page");
        Self { memory: Arc::clone(memory), first, own, single_writer: PhantomData }
    }

    /// Counts `n` more. A build with debug assertions panics if the catalogue does not call it a counter.
    #[inline]
    pub fn add(&self, counter: C, n: u64) {
        self.writer().add(counter, n);
    }

    /// Sets a gauge or mark, or a counter to a count that is kept elsewhere (by a driver).
    #[inline]
    pub fn set(&self, counter: C, value: u64) {
        self.writer().set(counter, value);
    }

    /// Raises a gauge to `value` if it is lower: for the highest value seen. Gauges only, as in [`Row::add`].
    #[inline]
    pub fn raise(&self, gauge: C, value: u64) {
        debug_assert_eq!(gauge.declaration().kind, Kind::Gauge, "{} has no highest value", gauge.declaration().name);
        let writer = self.writer();
        if value > writer.get(gauge) {
            writer.set(gauge, value);
        }
    }

    /// What was written last.
    #[inline]
    pub fn get(&self, counter: C) -> u64 {
        self.writer().get(counter)
    }

    /// The same row, of which the place in the page has been looked up: for who writes several counters at a time.
    #[inline]
    pub fn writer(&self) -> RowWriter<'_, C, WORDS> {
        let words = self.memory.words()[self.first..].first_chunk();
        // reason: a row lies in its page.
        RowWriter { words: words.expect("a row lies in its page"), counters: PhantomData }
    }
}

/// See [`Row::writer`].
#[derive(Clone, Copy, Debug)]
pub struct RowWriter<'a, C, const WORDS: usize> {
    words: &'a [AtomicU64; WORDS],
    counters: PhantomData<(C, Cell<()>)>,
}

impl<C: Counter, const WORDS: usize> RowWriter<'_, C, WORDS> {
    /// As [`Row::add`].
    #[inline]
    pub fn add(&self, counter: C, n: u64) {
        debug_assert_eq!(counter.declaration().kind, Kind::Counter, "{} is set, not added to", counter.declaration().name);
        add(&self.words[counter.index()], n);
    }

    /// As [`Row::set`].
    #[inline]
    pub fn set(&self, counter: C, value: u64) {
        self.words[counter.index()].store(value, Ordering::Relaxed);
    }

    /// As [`Row::get`].
    #[inline]
    pub fn get(&self, counter: C) -> u64 {
        self.words[counter.index()].load(Ordering::Relaxed)
    }
}

/// What writes the row of one lane.
pub type LaneRowWriter<'a> = RowWriter<'a, LaneCounter, LANE_ROW_WORDS>;

impl LaneRowWriter<'_> {
    /// As [`LaneRow::together`].
    ///
    /// # Panics
    /// If it is called within itself, or after a panic in it.
    #[inline]
    pub fn together(&self, write: impl FnOnce(&Self)) {
        sequence::write(&self.words[lane_row::SEQUENCE], || write(self));
    }

    /// As [`LaneRow::record`].
    #[inline]
    pub fn record(&self, histogram: LaneHistogram, value: u64) {
        self.record_many(histogram, value, 1);
    }

    /// As [`LaneRow::record_many`].
    #[inline]
    pub fn record_many(&self, histogram: LaneHistogram, value: u64, times: u64) {
        add(&self.words[lane_row::HISTOGRAMS + histogram as usize * BUCKETS + bucket(value)], times);
    }
}

/// One writer: a load and a store, and no read-modify-write.
#[inline(always)]
fn add(word: &AtomicU64, n: u64) {
    word.store(word.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

impl LaneRow {
    /// Writes what belongs together: a reader sees all of it, or nothing. It costs the lane three stores and no waiting: it is the reader that
    /// looks again.
    ///
    /// # Panics
    /// If it is called within itself, or after a panic in it.
    #[inline]
    pub fn together(&self, write: impl FnOnce(&LaneRowWriter<'_>)) {
        self.writer().together(write);
    }

    /// Counts one value in a histogram.
    #[inline]
    pub fn record(&self, histogram: LaneHistogram, value: u64) {
        self.record_many(histogram, value, 1);
    }

    /// Counts one value so many times.
    #[inline]
    pub fn record_many(&self, histogram: LaneHistogram, value: u64, times: u64) {
        self.writer().record_many(histogram, value, times);
    }
}

fn names(description: &Description) -> Vec<Arc<str>> {
    description.services.iter().map(|service| service.name.as_str().into()).collect()
}

impl ServiceRow {
    /// The service's name, as its page says it.
    pub fn name(&self) -> &str {
        self.own.name.as_deref().unwrap_or_default()
    }

    /// How many counters of its own the service has in this page: as many as it has declared, or the page was made for another one.
    pub fn own_counters(&self) -> usize {
        self.own.count
    }

    /// Counts `n` more of the service's own, as [`Row::add`].
    ///
    /// # Panics
    /// If the service has not declared that counter. Which ones it counts shows only as it does.
    #[inline]
    pub(crate) fn add_own<C: OwnCounter>(&self, counter: C, n: u64) {
        debug_assert_eq!(
            C::DECLARED[counter.index()].kind,
            Kind::Counter,
            "{} is set, not added to",
            C::DECLARED[counter.index()].name
        );
        add(self.own_word(counter), n);
    }

    /// Sets one of the service's own, as [`Row::set`] and [`ServiceRow::add_own`].
    #[inline]
    pub(crate) fn set_own<C: OwnCounter>(&self, counter: C, value: u64) {
        self.own_word(counter).store(value, Ordering::Relaxed);
    }

    #[inline(always)]
    fn own_word<C: OwnCounter>(&self, counter: C) -> &AtomicU64 {
        let own = self.first + SERVICE_ROW_WORDS;
        match self.memory.words()[own..own + self.own.count].get(C::FIRST + counter.index()) {
            Some(word) => word,
            None => self.undeclared(C::DECLARED[counter.index()].name, std::any::type_name::<C>()),
        }
    }

    #[cold]
    #[inline(never)]
    fn undeclared(&self, counter: &str, of: &str) -> ! {
        let service = Layout::service_name(self.own.service).read(|at| self.memory.words()[at].load(Ordering::Relaxed));
        panic!(
            "the service {service:?} counts {counter:?} and does not declare it; remedy: const COUNTERS: &'static [Declaration] = {of}::DECLARED"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_of_all_services_on_all_lanes() {
        let own = vec![CounterName { name: "apples".to_owned(), kind: Kind::Counter, unit: "apples".to_owned() }];
        let services = vec![ServiceName { counters: own, ..ServiceName::default() }, ServiceName::default()];
        let page = Page::heap(&Description { services, lanes: vec![LaneName::default(); 2], ..Description::default() }).unwrap();
        for (lane, service, value) in [(0, 0, 1), (0, 1, 20), (1, 0, 300), (1, 1, 4_000)] {
            let row = page.service(lane, service).unwrap();
            row.add(ServiceCounter::EndingsError, value);
            row.add(ServiceCounter::EndingsAborted, 5 * value);
        }
        assert_eq!(page.sum(&[ServiceCounter::EndingsError]), 4_321);
        assert_eq!(page.sum(&[ServiceCounter::EndingsError, ServiceCounter::EndingsAborted]), 6 * 4_321);
        assert_eq!(page.sum(&[ServiceCounter::EndingsClosing]), 0);
    }
}
