//! Eight threads at one ring, which goes round under them: each event is seen exactly once.

use corelane_kevent::{HEADER_WORDS, Kevents, Kind, Position, Record, Request, Ring, Timeout, WORDS};
use corelane_os::events::number;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

const TAKERS: usize = 8;
const PRODUCERS: u64 = 2;
/// Kevents that are marked again and again.
const MARKED: u32 = 64;
/// Fewer than there are events at once, so that the ring is often full and often goes round; no power of two.
const SIZE: u32 = 13;

/// A timer that never goes off here, known by its number.
fn timer(number: u32) -> Record {
    Record::timer(1_000_000 + number, 0).user(number.into()).with(Request::ALWAYS_QUEUE)
}

/// What is to be seen, and was.
struct Books {
    kevents: Kevents,
    /// How often each timer is told, and was.
    each: u64,
    told: Vec<AtomicU64>,
    /// 1 while a timer is marked, and nobody has been told.
    out: Vec<AtomicU64>,
    /// Events of each producer.
    produced: u64,
    /// A bit for each of them.
    put: Vec<Vec<AtomicU64>>,
    left: AtomicUsize,
}

impl Books {
    fn new(events: u64) -> Self {
        let kevents = Kevents::new(Some(Arc::new(Ring::new(SIZE).unwrap()))).unwrap();
        let (each, produced) = (events / 2 / u64::from(MARKED), events / 2 / PRODUCERS);
        let many = |count: u64| (0..count).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let left = AtomicUsize::new((each * u64::from(MARKED) + produced * PRODUCERS) as usize);
        let (told, out) = (many(MARKED.into()), many(MARKED.into()));
        Self { kevents, each, produced, told, out, put: (0..PRODUCERS).map(|_| many(produced.div_ceil(64))).collect(), left }
    }

    fn ring(&self) -> &Ring {
        self.kevents.ring().unwrap()
    }

    fn mark(&self, number: u32) {
        assert_eq!(self.out[number as usize].swap(1, Ordering::SeqCst), 0, "marked while it is out");
        assert_eq!(self.kevents.ready(&[timer(number)]), Ok(1));
    }

    fn produce(&self, producer: u64) {
        for event in 0..self.produced {
            let record = Record::new(Kind::Signal, producer, 1).user(event);
            while let Err(refused) = self.kevents.put(&record) {
                assert_eq!(refused.number, number::ENOSPC);
                thread::yield_now();
            }
        }
    }

    fn see(&self, record: &Record) {
        if record.kind == Kind::Timer as u32 {
            let number = record.user as usize;
            assert_eq!(self.out[number].swap(0, Ordering::SeqCst), 1, "a timer is told twice");
            if self.told[number].fetch_add(1, Ordering::SeqCst) + 1 < self.each {
                self.mark(number as u32);
            }
        } else {
            let bit = 1 << (record.user % 64);
            let before = self.put[record.id as usize][record.user as usize / 64].fetch_or(bit, Ordering::SeqCst);
            assert_eq!(before & bit, 0, "{} of {} is seen twice", record.user, record.id);
        }
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            // Those that sleep find nothing more.
            (0..TAKERS).for_each(|_| assert_eq!(self.kevents.ready(&[]), Ok(0)));
        }
    }

    /// Were one lost, this would not end.
    fn take_all(&self, take: impl Fn(&Self, usize) -> Vec<Record>) {
        while self.left.load(Ordering::SeqCst) > 0 {
            self.kevents.wait(7, self.ring().position().index, Timeout::Never).unwrap();
            take(self, 5).iter().for_each(|record| self.see(record));
        }
    }
}

fn by_take(books: &Books, room: usize) -> Vec<Record> {
    let mut records = vec![Record::default(); room];
    let count = books.ring().take(&mut records).unwrap();
    records[..count].to_vec()
}

/// Copies, and then commits, as programs in C do.
fn by_commit(books: &Books, room: usize) -> Vec<Record> {
    let words = books.ring().words();
    let from = books.ring().position();
    let produced = words[0].load(Ordering::Acquire);
    let rounds = ((produced >> 32) as u32).wrapping_sub(from.over);
    let count = rounds.wrapping_mul(SIZE).wrapping_add(produced as u32).wrapping_sub(from.index).min(room as u32);
    let mut at = from;
    let mut copies = Vec::new();
    for _ in 0..count {
        let start = HEADER_WORDS + at.index as usize * WORDS;
        copies.push(Record::from_words(std::array::from_fn(|word| words[start + word].load(Ordering::Relaxed))));
        let goes_round = at.index + 1 == SIZE;
        at = Position { index: if goes_round { 0 } else { at.index + 1 }, over: at.over.wrapping_add(u32::from(goes_round)) };
    }
    match books.kevents.commit(at) {
        // Of what was copied the last are this thread's.
        Ok(freed) => copies.split_off(copies.len() - freed as usize),
        Err(refused) => {
            assert_eq!(refused.number, number::EOVERFLOW, "others went round meanwhile");
            Vec::new()
        }
    }
}

#[test]
fn events_of_the_ring_are_seen_exactly_once() {
    are_seen_exactly_once(100_000);
}

#[test]
#[ignore = "long: ten million events"]
fn ten_million_events_of_the_ring_are_seen_exactly_once() {
    are_seen_exactly_once(10_000_000);
}

fn are_seen_exactly_once(events: u64) {
    let books = Books::new(events);
    for number in 0..MARKED {
        assert_eq!(books.kevents.add(&mut [timer(number)]), Ok(0));
    }
    thread::scope(|threads| {
        for index in 0..TAKERS {
            let books = &books;
            threads.spawn(move || if index % 2 == 0 { books.take_all(by_take) } else { books.take_all(by_commit) });
        }
        for producer in 0..PRODUCERS {
            let books = &books;
            threads.spawn(move || books.produce(producer));
        }
        (0..MARKED).for_each(|number| books.mark(number));
    });
    assert!(books.told.iter().all(|told| told.load(Ordering::SeqCst) == books.each));
    let seen = |words: &Vec<AtomicU64>| words.iter().map(|word| u64::from(word.load(Ordering::SeqCst).count_ones())).sum::<u64>();
    assert!(books.put.iter().all(|words| seen(words) == books.produced));
    assert!(books.ring().is_empty());
}
