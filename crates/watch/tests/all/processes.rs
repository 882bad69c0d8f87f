//! Readers and writers at the same time, in one process and in two, and what is left of a process that is gone.

use crate::common::{Scratch, description};
use corelane_watch::{
    Counter, LaneCounter, Liveness, Page, ProcessId, Reader, RunDirectory, ServiceCounter, Snapshot, list, remove_stale,
};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

fn values(snapshot: &Snapshot) -> Vec<u64> {
    let lanes = snapshot.lanes.iter();
    lanes.flat_map(|lane| lane.values.iter().map(|(_, value)| value)).collect()
}

/// Counts as two lanes would, until `stop`.
fn count(page: &Page, stop: &AtomicBool) {
    thread::scope(|scope| {
        for lane in 0..2 {
            let row = page.lane(lane).unwrap();
            let service = page.service(lane, 0).unwrap();
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    LaneCounter::ALL.iter().for_each(|&counter| row.set(counter, row.get(counter) + 1));
                    service.add(ServiceCounter::Requests, 3);
                }
            });
        }
    });
}

/// Reads until each lane has been seen to move `times` times; no value may ever shrink.
fn watch(reader: &Reader, times: usize) -> Snapshot {
    let mut last = reader.snapshot(0);
    let mut moves = [0; 2];
    while moves.iter().any(|&moves| moves < times) {
        let next = reader.snapshot(0);
        assert!(values(&last).iter().zip(values(&next)).all(|(last, next)| *last <= next));
        for (lane, moves) in moves.iter_mut().enumerate() {
            let requests = |snapshot: &Snapshot| snapshot.lanes[lane].services[0].get(ServiceCounter::Requests);
            assert!(requests(&next) % 3 == 0 && requests(&last) <= requests(&next));
            *moves += usize::from(requests(&last) < requests(&next));
        }
        last = next;
        thread::yield_now();
    }
    last
}

#[test]
fn values_only_grow_under_the_eyes_of_a_reader() {
    let scratch = Scratch::new("threads");
    let page = Page::create(&scratch, &description(2, 1)).unwrap();
    let readers = [Reader::of(&page).unwrap(), Reader::open(page.path().unwrap()).unwrap()];
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| count(&page, &stop));
        for reader in &readers {
            watch(reader, 100);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(readers[0].snapshot(0).lanes, readers[1].snapshot(0).lanes);
}

/// Set for the process that is watched.
const CHILD: &str = "CORELANE_TEST_CHILD";

/// The process that is watched: counts, hangs when it is told to, and never ends by itself.
fn child() {
    let directory = RunDirectory::choose(&mut Vec::new()).unwrap();
    let existing: Vec<RunDirectory> = RunDirectory::existing().into_iter().map(Result::unwrap).collect();
    assert_eq!(existing, std::slice::from_ref(&directory), "readers look where the writer writes");
    let mut page = Page::create(&directory, &description(2, 1)).unwrap();
    page.note("io_uring refused; serving with epoll");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| count(&page, &stop));
        println!("counting");
        std::io::stdin().read_line(&mut String::new()).unwrap();
        stop.store(true, Ordering::Relaxed);
    });
    println!("hanging");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

struct Watched {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Watched {
    /// Runs the test of this name as the child.
    fn start(test: &str, directory: &RunDirectory) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture"]).env(CHILD, "1");
        command.env("CORELANE_RUN_DIR", directory.path());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, input, output: BufReader::new(output) }
    }

    fn wait_for(&mut self, word: &str) {
        let mut line = String::new();
        while !line.contains(word) {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the child ended before it was {word}");
        }
    }
}

#[test]
fn a_process_is_read_while_it_runs_hangs_and_is_dead() {
    if std::env::var_os(CHILD).is_some() {
        return child();
    }
    let scratch = Scratch::new("child");
    let mut watched = Watched::start("processes::a_process_is_read_while_it_runs_hangs_and_is_dead", &scratch);
    watched.wait_for("counting");
    let files = list(&scratch).unwrap();
    assert_eq!((files.len(), files[0].published), (1, true));
    assert_eq!(files[0].process.pid, watched.child.id());
    let reader = Reader::open(&files[0].path).unwrap();
    assert_eq!(reader.description().process, files[0].process);
    assert_eq!(watch(&reader, 100).liveness, Liveness::Alive);

    writeln!(watched.input, "hang").unwrap();
    watched.wait_for("hanging");
    let hanging = reader.snapshot(0);
    assert_eq!(hanging, reader.snapshot(0));
    assert_eq!(hanging.liveness, Liveness::Alive);
    assert!(remove_stale(&scratch, 0).unwrap().is_empty(), "a hanging process keeps its page");

    watched.child.kill().unwrap();
    while reader.liveness() != Liveness::Dead {
        thread::yield_now(); // until the kernel has made a zombie of it
    }
    watched.child.wait().unwrap();
    for reader in [&reader, &Reader::open(&files[0].path).unwrap()] {
        let dead = reader.snapshot(0);
        assert_eq!(dead.liveness, Liveness::Dead);
        assert_eq!((&dead.lanes, &dead.notes), (&hanging.lanes, &hanging.notes));
    }
    assert!(remove_stale(&scratch, 1).unwrap().is_empty());
    assert_eq!(remove_stale(&scratch, 0).unwrap(), [files[0].path.clone()]);
    assert_eq!(reader.snapshot(0).lanes, hanging.lanes, "a page that is open stays readable");
}

#[test]
fn only_the_dead_are_removed_and_the_newest_kept() {
    let scratch = Scratch::new("stale");
    let this = ProcessId::this().unwrap();
    let make = |process: ProcessId, number: u64, suffix: &str| {
        let ProcessId { pid, start_ticks, pid_namespace } = process;
        let path = scratch.path().join(format!("{pid}-{start_ticks}-{pid_namespace}-{number}.{suffix}"));
        let file = File::create(&path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(number)).unwrap();
        path
    };
    let dead = ProcessId { start_ticks: this.start_ticks + 1, ..this };
    let elsewhere = ProcessId { pid_namespace: 1, ..this };
    let stay = [
        make(this, 1, "page"),
        make(this, 2, "tmp"),
        make(elsewhere, 3, "page"),
        make(dead, 9, "page"),
        make(dead, 8, "page"),
        make(dead, 7, "log"),
    ];
    let go = [make(dead, 6, "page"), make(dead, 5, "page"), make(dead, 4, "tmp")];
    assert_eq!(remove_stale(&scratch, 2).unwrap(), go);
    assert!(stay.iter().all(|path| fs::exists(path).unwrap()));
    assert!(!go.iter().any(|path| fs::exists(path).unwrap()));
}

#[test]
fn a_process_can_have_several_pages() {
    let scratch = Scratch::new("several");
    let pages: Vec<Page> = (0..3).map(|_| Page::create(&scratch, &description(1, 1)).unwrap()).collect();
    for (value, page) in (1..).zip(&pages) {
        page.lane(0).unwrap().add(LaneCounter::Offloads, value);
    }
    let open = |page: &Page| Reader::open(page.path().unwrap()).unwrap().snapshot(0).total.get(LaneCounter::Offloads);
    assert_eq!(pages.iter().map(open).collect::<Vec<u64>>(), [1, 2, 3]);
    assert_eq!(list(&scratch).unwrap().len(), 3);
}
