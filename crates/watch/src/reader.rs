//! The reader's side: another process, or the same one, looks at a page. Nothing in the page is trusted: the file says
//! how many lanes and services it has, and that must fit into the words it really has.

use crate::catalogue::{CATALOGUE_HASH, Kind, LaneCounter};
use crate::connections::{self, ConnectionRow};
use crate::error::Error;
use crate::histogram::{BUCKETS, Histogram, LaneHistogram};
use crate::layout::{
    LAYOUT_VERSION, Layout, MAGIC, NO_CPU, NOTES_MAX, PROTOCOLS_MAX, SERVICES_MAX, header, lane_row, packets_row, steering,
};
use crate::memory::{Ordering, PageMemory, fence};
use crate::page::{CounterName, Description, LaneName, Page, ServiceName};
use crate::process::Liveness;
use crate::process_id::ProcessId;
use crate::sequence;
use crate::snapshot::{LaneSnapshot, PacketsSnapshot, ServiceSnapshot, Snapshot, StreamSnapshot, Values};
use crate::steering::SteeringSnapshot;
use corelane_os::page::PageView;
use std::path::Path;
use std::sync::Arc;

/// What is noted of a page that is shorter than it was.
const CUT: &str = "the page's file was cut off: what was there is read as zeros";

/// Reads one page, while its lanes run, hang, or are no more.
#[derive(Debug)]
pub struct Reader {
    source: Source,
    layout: Layout,
    description: Description,
    /// What each service counts of its own.
    own: Vec<Arc<[CounterName]>>,
}

#[derive(Debug)]
enum Source {
    Own(Arc<PageMemory>),
    Foreign(PageView),
}

impl Source {
    fn count(&self) -> usize {
        match self {
            Self::Own(memory) => memory.words().len(),
            Self::Foreign(view) => view.len(),
        }
    }

    /// What was cut off of a file is beyond its end from now on.
    fn settle(&self) {
        if let Self::Foreign(view) = self {
            view.settle();
        }
    }

    /// Beyond the end there are zeros, so that no page makes a reader panic.
    fn load(&self, index: usize) -> u64 {
        let word = match self {
            Self::Own(memory) => memory.words().get(index).map(|word| word.load(Ordering::Relaxed)),
            Self::Foreign(view) => view.load(index),
        };
        word.unwrap_or(0)
    }
}

impl Reader {
    /// Opens the page of another process (or of this one). What its owner cuts off afterwards is read as zeros; only a page that is cut off in the
    /// very moment in which it is read ends this process with SIGBUS. No version of Corelane does that.
    ///
    /// # Errors
    /// [`Error::Memory`] if the file cannot be mapped, [`Error::Magic`], [`Error::LayoutVersion`] and
    /// [`Error::Catalogue`] if it is no page that this program understands, [`Error::Shape`] and [`Error::Truncated`]
    /// if it is damaged.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::new(Source::Foreign(PageView::open(path)?))
    }

    /// Reads a page of this process.
    ///
    /// # Errors
    /// None for a page as [`Page`] makes it.
    pub fn of(page: &Page) -> Result<Self, Error> {
        Self::new(Source::Own(Arc::clone(page.memory())))
    }

    fn new(source: Source) -> Result<Self, Error> {
        let layout = check(&source)?;
        let description = description(&source, &layout);
        assert!(description.lanes.len() == layout.lanes && description.services.len() == layout.services());
        let own = description.services.iter().map(|service| service.counters.as_slice().into()).collect();
        Ok(Self { source, layout, description, own })
    }

    /// What the page says of its process.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Whether the process that wrote the page still runs.
    pub fn liveness(&self) -> Liveness {
        match self.source {
            Source::Own(_) => Liveness::Alive,
            Source::Foreign(_) => self.description.process.liveness(),
        }
    }

    /// Reads everything. `at_nanoseconds` is the monotonic clock now (CLOCK_MONOTONIC, clock_gettime(2)), from which the
    /// span between two snapshots and the age of a lane's last turn follow.
    pub fn snapshot(&self, at_nanoseconds: u64) -> Snapshot {
        self.source.settle();
        let Description { program, process, started_unix_nanoseconds, services, lanes, connections: _ } = &self.description;
        let lanes: Vec<LaneSnapshot> = lanes.iter().enumerate().map(|(lane, name)| self.lane(lane, name)).collect();
        let services = services.iter().enumerate().map(|(service, name)| ServiceSnapshot {
            name: name.clone(),
            values: Values::sum(lanes.iter().map(|lane| &lane.services[service])),
        });
        Snapshot {
            process: *process,
            liveness: self.liveness(),
            program: program.clone(),
            started_unix_nanoseconds: *started_unix_nanoseconds,
            at_nanoseconds,
            span_nanoseconds: None,
            notes: self.notes(),
            notes_refused: self.source.load(self.layout.notes_refused()),
            steering: self.steering(),
            total: Values::sum(lanes.iter().map(|lane| &lane.values)),
            services: services.collect(),
            lanes,
        }
    }

    fn lane(&self, lane: usize, name: &LaneName) -> LaneSnapshot {
        let service = |service: usize| {
            let values = Values::from_words(|i| self.source.load(self.layout.service_row(lane, service) + i));
            values.with_own(&self.own[service], |i| self.source.load(self.layout.own_row(lane, service) + i))
        };
        let sequence = self.layout.lane_row(lane) + lane_row::SEQUENCE;
        let (is_whole, (values, histograms)) = self.together(sequence, || self.lane_row(lane));
        let services = (0..self.layout.services()).map(service).collect();
        LaneSnapshot { name: name.clone(), is_whole, values, histograms, services, packets: self.packets(lane) }
    }

    /// What the lane's packet path counts; none of a lane that has none.
    fn packets(&self, lane: usize) -> Option<PacketsSnapshot> {
        let row = self.layout.packets_row(lane);
        let (is_whole, packets) = self.together(row + packets_row::SEQUENCE, || self.packets_row(row));
        Some(PacketsSnapshot { is_whole, ..packets }).filter(|packets| !packets.streams.is_empty())
    }

    fn packets_row(&self, row: usize) -> PacketsSnapshot {
        let stream = |protocol| StreamSnapshot {
            name: packets_row::name(row, protocol).read(|i| self.source.load(i)),
            values: Values::from_words(|i| self.source.load(packets_row::stream(row, protocol) + i)),
        };
        let protocols = usize::try_from(self.source.load(row + packets_row::PROTOCOLS)).unwrap_or(PROTOCOLS_MAX);
        PacketsSnapshot {
            is_whole: false,
            interface: packets_row::interface(row).read(|i| self.source.load(i)),
            values: Values::from_words(|i| self.source.load(row + packets_row::COUNTERS + i)),
            streams: (0..protocols.min(PROTOCOLS_MAX)).map(stream).collect(),
        }
    }

    fn lane_row(&self, lane: usize) -> (Values<LaneCounter>, Vec<Histogram>) {
        let row = self.layout.lane_row(lane);
        let histogram = |which| {
            let first = row + lane_row::HISTOGRAMS + which as usize * BUCKETS;
            Histogram::from_words(|i| self.source.load(first + i))
        };
        let values = Values::from_words(|i| self.source.load(row + i));
        (values, LaneHistogram::ALL.map(histogram).into())
    }

    /// How flows are told apart, and the lane of each bucket. While the table is written over and over, it may be of two moments.
    pub fn steering(&self) -> SteeringSnapshot {
        self.source.settle();
        self.together(steering::SEQUENCE, || crate::steering::read(|i| self.source.load(i))).1
    }

    /// The rows of a lane's connections: of those it has, and of those that have ended and whose numbers no other has yet. None of a lane that the page has not.
    pub fn connections(&self, lane: usize) -> Vec<ConnectionRow> {
        self.source.settle();
        let count = if lane < self.layout.lanes { self.layout.connections } else { 0 };
        connections::read(self.layout.connections(lane.min(self.layout.lanes)), count, |i| self.source.load(i))
    }

    /// Reads what is written together under the sequence number in this word, and says whether it was read in one piece.
    fn together<T>(&self, number: usize, read: impl Fn() -> T) -> (bool, T) {
        sequence::read(|| self.source.load(number), read)
    }

    /// What the process has to do without, in its own words.
    pub fn notes(&self) -> Vec<String> {
        self.source.settle();
        let count = self.source.load(self.layout.notes_count());
        // Acquire: whoever sees the count sees the texts that were written before it. A fence, because an acquire load
        // may not be made on memory that is mapped for reading only.
        fence(Ordering::Acquire);
        let count = usize::try_from(count).unwrap_or(NOTES_MAX).min(NOTES_MAX);
        let noted = (0..count).map(|note| self.layout.note(note).read(|i| self.source.load(i)));
        let is_cut = self.source.count() < self.layout.words();
        noted.chain(is_cut.then(|| CUT.to_owned())).collect()
    }
}

fn check(source: &Source) -> Result<Layout, Error> {
    let (magic, version, hash) =
        (source.load(header::MAGIC), source.load(header::LAYOUT_VERSION), source.load(header::CATALOGUE_HASH));
    if magic != MAGIC {
        return Err(Error::Magic { expected: MAGIC, got: magic });
    }
    if version != LAYOUT_VERSION {
        return Err(Error::LayoutVersion { expected: LAYOUT_VERSION, got: version });
    }
    if hash != CATALOGUE_HASH {
        let program = Layout::program().read(|i| source.load(i));
        return Err(Error::Catalogue { expected: CATALOGUE_HASH, got: hash, program });
    }
    let count = |index| usize::try_from(source.load(index)).unwrap_or(usize::MAX);
    let services = count(header::SERVICES);
    if services > SERVICES_MAX {
        return Err(Error::Shape { what: "services", most: SERVICES_MAX, got: services });
    }
    let layout = Layout::new(
        count(header::LANES),
        count(header::CONNECTIONS),
        (0..services).map(|service| count(Layout::own_count(service))),
    )?;
    if layout.words() > source.count() {
        return Err(Error::Truncated { expected: layout.words(), got: source.count() });
    }
    Ok(layout)
}

fn description(source: &Source, layout: &Layout) -> Description {
    let load = |i| source.load(i);
    let counter = |service, own| CounterName {
        name: layout.own_name(service, own).read(load),
        kind: Kind::of_word(load(layout.own_kind(service, own))),
        unit: layout.own_unit(service, own).read(load),
    };
    let service = |service| ServiceName {
        name: Layout::service_name(service).read(load),
        url: Layout::service_url(service).read(load),
        counters: (0..layout.own(service)).map(|own| counter(service, own)).collect(),
    };
    let lane = |lane| LaneName {
        cpu: Some(load(layout.lane_cpu(lane))).filter(|&cpu| cpu != NO_CPU).map(|cpu| cpu as u32),
        driver: layout.lane_driver(lane).read(load),
        steering: layout.lane_steering(lane).read(load),
    };
    Description {
        program: Layout::program().read(load),
        process: ProcessId {
            pid: load(header::PID) as u32,
            start_ticks: load(header::START_TICKS),
            pid_namespace: load(header::PID_NAMESPACE),
        },
        started_unix_nanoseconds: load(header::STARTED_UNIX_NANOSECONDS),
        services: (0..layout.services()).map(service).collect(),
        lanes: (0..layout.lanes).map(lane).collect(),
        connections: layout.connections,
    }
}

#[cfg(test)]
#[cfg(loom)]
mod loom_tests {
    use super::*;
    use crate::catalogue::Counter;
    use loom::thread;

    fn page() -> Page {
        Page::heap(&Description { lanes: vec![LaneName::default()], ..Description::default() }).unwrap()
    }

    // The readers are spawned: loom never lets a main thread read what another one has written before.

    #[test]
    fn loom_a_note_that_is_counted_is_complete() {
        loom::model(|| {
            let mut page = page();
            let reader = Reader::of(&page).unwrap();
            let reading = thread::spawn(move || {
                let notes = reader.notes();
                assert_eq!(notes, ["first", "and one of two words"][..notes.len()]);
                reader
            });
            page.note("first");
            page.note("and one of two words");
            assert_eq!(reading.join().unwrap().notes().len(), 2);
        });
    }

    #[test]
    fn loom_a_counter_seen_by_a_reader_never_shrinks_and_loses_nothing() {
        loom::model(|| {
            let page = page();
            let reader = Reader::of(&page).unwrap();
            let row = page.lane(0).unwrap();
            let sleeps = |reader: &Reader| reader.source.load(reader.layout.lane_row(0) + LaneCounter::Sleeps.index());
            let reading = thread::spawn(move || {
                let (first, second) = (sleeps(&reader), sleeps(&reader));
                assert!([0, 2, 5].contains(&first) && first <= second);
                reader
            });
            row.add(LaneCounter::Sleeps, 2);
            row.add(LaneCounter::Sleeps, 3);
            assert_eq!(sleeps(&reading.join().unwrap()), 5);
        });
    }
}
