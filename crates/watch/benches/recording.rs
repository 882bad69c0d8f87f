//! What it costs a lane to say in its page what it does, beside counting: prints nanoseconds, and asserts no time.
//!
//! `cargo bench -p corelane-watch --bench recording`; under `valgrind --tool=callgrind`, with one of the names and a number of times behind it, the instructions are
//! exact: those of twice as many times less those of as many.

use corelane_watch::{Description, LaneCounter, LaneHistogram, LaneName, LaneRow, Page, ServiceName};
use std::hint::black_box;
use std::time::Instant as Clock;

/// Times that are measured together.
const TIMES: u64 = 1_000_000;

/// What is said of one turn in which a service is called for one connection and answers.
fn turn(row: &LaneRow, number: u64) {
    serving(row, number);
    together(row, number);
    lengths(row, number);
}

/// What it costs to measure: to be taken from the others.
fn nothing(_: &LaneRow, number: u64) {
    black_box(number);
}

/// When the turn began, whom its calls are for, and that none is served any more.
fn serving(row: &LaneRow, number: u64) {
    row.set(LaneCounter::LastTurnNanoseconds, number);
    row.set(LaneCounter::Serving, 0);
    row.set(LaneCounter::Serving, 1 << 32 | (number & 0xffff));
}

/// What belongs together: that there was a turn, and how much it found.
fn together(row: &LaneRow, number: u64) {
    row.together(|row| {
        row.add(LaneCounter::TurnsProductive, 1);
        row.record(LaneHistogram::TurnCompletions, number & 15);
    });
}

/// How long the turn, and its requests, took.
fn lengths(row: &LaneRow, number: u64) {
    let length = 4_000 + (number & 4_095);
    row.record(LaneHistogram::TurnNanoseconds, length);
    row.record_many(LaneHistogram::RequestNanoseconds, length, 16);
}

/// Gauges that are written together before a sleep: what is counted elsewhere.
const GAUGES: [LaneCounter; 6] = [
    LaneCounter::MemoryUsed,
    LaneCounter::MemoryPeak,
    LaneCounter::MemoryLimitHits,
    LaneCounter::SystemCallsSubmit,
    LaneCounter::SystemCallsWait,
    LaneCounter::ReceivesEmpty,
];

/// Each with the place of its row looked up.
fn singly(row: &LaneRow, number: u64) {
    GAUGES.into_iter().for_each(|gauge| row.set(gauge, number));
}

/// All with one look.
fn gauges(row: &LaneRow, number: u64) {
    let row = row.writer();
    GAUGES.into_iter().for_each(|gauge| row.set(gauge, number));
}

/// What is measured, and its name.
type Part = (&'static str, fn(&LaneRow, u64));

const PARTS: [Part; 7] = [
    ("nothing", nothing),
    ("serving", serving),
    ("together", together),
    ("lengths", lengths),
    ("turn", turn),
    ("singly", singly),
    ("gauges", gauges),
];

fn page() -> Page {
    let description =
        Description { lanes: vec![LaneName::default()], services: vec![ServiceName::default()], ..Description::default() };
    // reason: a page of one lane has a size that is possible.
    Page::heap(&description).expect("a page on the heap")
}

fn nanoseconds(row: &LaneRow, part: fn(&LaneRow, u64)) -> f64 {
    let time = |_| {
        let started = Clock::now();
        (0..TIMES).for_each(|number| part(row, black_box(number)));
        started.elapsed().as_nanos() as f64 / TIMES as f64
    };
    // The least of some rounds: what other programs on the machine cost is not ours.
    (0..9).map(time).fold(f64::INFINITY, f64::min)
}

fn main() {
    let page = page();
    // reason: it has one lane.
    let row = page.lane(0).expect("the only lane");
    let asked: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    match &asked[..] {
        [name, times] => {
            let part = PARTS.iter().find(|(known, _)| known == name).map(|(_, part)| part);
            // reason: whoever counts instructions reads the names here.
            let (part, times) = (
                part.expect("nothing, serving, together, lengths, turn, singly or gauges"),
                times.parse().expect("a number of times"),
            );
            (0..times).for_each(|number| part(&row, black_box(number)));
        }
        _ => PARTS.iter().for_each(|(name, part)| println!("{name:<10} {:>6.2} ns", nanoseconds(&row, *part))),
    }
}
