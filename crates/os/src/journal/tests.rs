use super::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::fs::{OFlags, fcntl_setfl};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::thread;
use std::time::Instant;
use tempfile::TempDir;

/// A folder of a test's own, which goes with it.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn pipe(&self, name: &str) -> PathBuf {
        let path = self.file(name);
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        path
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "not in a minute: {what}");
        thread::yield_now();
    }
}

#[test]
fn what_several_lanes_say_is_written_whole_and_each_in_order() {
    let folder = Folder::new();
    let journal = Journal::open(folder.file("log")).unwrap();
    let (mut one, mut two) = (journal.lines(), journal.lines());
    for number in 0..100 {
        assert!(one.push(format!("one {number}\n").as_bytes()) && two.push(format!("two {number}\n").as_bytes()));
    }
    assert!(journal.flush());
    assert!(!journal.flush(), "nothing is written twice");
    let text = read(&folder.file("log"));
    for name in ["one", "two"] {
        let expected: Vec<String> = (0..100).map(|number| format!("{name} {number}")).collect();
        assert_eq!(text.lines().filter(|line| line.starts_with(name)).collect::<Vec<_>>(), expected);
    }
    assert_eq!(text.lines().count(), 200);
}

#[test]
fn the_thread_wakes_for_a_line_and_for_the_end() {
    let folder = Folder::new();
    let path = folder.file("log");
    fs::write(&path, "what was there\n").unwrap();
    let journal = Journal::open(&path).unwrap();
    let writing = journal.write().unwrap();
    let mut lines = journal.lines();
    for number in 0..3 {
        assert!(lines.push(format!("{number}\n").as_bytes()));
        lines.ring();
        until("it is written", || read(&path).ends_with(&format!("{number}\n")));
    }
    assert!(lines.push(b"last\n"));
    drop((lines, writing));
    assert_eq!(read(&path), "what was there\n0\n1\n2\nlast\n");
}

#[test]
fn a_ring_that_is_full_takes_nothing_and_goes_on_when_it_was_written() {
    let folder = Folder::new();
    let journal = Journal::open(folder.file("log")).unwrap();
    let mut lines = journal.lines();
    let line = [&[b'x'; LINE_BYTES_MAX - 1][..], b"\n"].concat();
    let taken = (0..).take_while(|_| lines.push(&line)).count();
    assert_eq!(taken, RING_BYTES / LINE_BYTES_MAX);
    assert!(!lines.push(b"\n") && journal.flush() && lines.push(b"\n") && journal.flush());
    assert_eq!(fs::metadata(folder.file("log")).unwrap().len() as usize, RING_BYTES + 1);
    assert_eq!(lines.take_lost(), 0);
}

#[test]
fn lines_for_a_full_disk_are_lost_counted_and_said() {
    let folder = Folder::new();
    let path = folder.file("log");
    symlink("/dev/full", &path).unwrap();
    let journal = Journal::open(&path).unwrap();
    let mut lines = journal.lines();
    assert!(lines.push(b"a\n") && lines.push(b"b\n") && journal.flush());
    assert_eq!((lines.take_lost(), lines.take_lost()), (2, 0));
    fs::remove_file(&path).unwrap();
    assert!(lines.push(b"c\n"));
    journal.reopen();
    assert!(journal.flush());
    assert_eq!((read(&path).as_str(), lines.take_lost()), ("c\n", 0));
}

#[test]
fn a_log_that_moves_under_load_loses_nothing_uncounted() {
    let folder = Folder::new();
    let path = folder.file("log");
    let journal = Journal::open(&path).unwrap();
    let writing = journal.write().unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let talks = |name: usize| {
        let (journal, is_over) = (journal.clone(), is_over.clone());
        move || {
            let mut lines = journal.lines();
            let pushed = (0..).take_while(|_| !is_over.load(Ordering::Relaxed)).filter(|number: &u64| {
                let is_taken = lines.push(format!("{name} {number}\n").as_bytes());
                lines.ring();
                is_taken
            });
            pushed.count()
        }
    };
    let lanes = [0, 1].map(|name| thread::spawn(talks(name)));
    for turn in 0..5 {
        until("something is written", || fs::metadata(&path).is_ok_and(|facts| facts.len() > 0));
        fs::rename(&path, folder.file(&format!("log.{turn}"))).unwrap();
        journal.reopen();
    }
    is_over.store(true, Ordering::Relaxed);
    let pushed: usize = lanes.map(|lane| lane.join().unwrap()).into_iter().sum();
    drop(writing);
    let texts: Vec<String> =
        (0..5).map(|turn| folder.file(&format!("log.{turn}"))).chain([path]).map(|path| read(&path)).collect();
    assert!(texts[..5].iter().all(|text| text.ends_with('\n')), "each has lines, and whole ones");
    for name in ["0 ", "1 "] {
        let numbers = texts.iter().flat_map(|text| text.lines()).filter_map(|line| line.strip_prefix(name));
        let numbers: Vec<u64> = numbers.map(|number| number.parse().unwrap()).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "none is twice, and all are in order");
    }
    assert_eq!(texts.iter().map(|text| text.lines().count()).sum::<usize>(), pushed);
}

#[test]
fn nobody_waits_for_a_file_that_takes_nothing() {
    let folder = Folder::new();
    let path = folder.pipe("log");
    // A pipe is opened to be written once somebody reads it.
    let mut reader = File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(&path).unwrap();
    fcntl_setfl(&reader, OFlags::empty()).unwrap();
    let journal = Journal::open(&path).unwrap();
    let (writing, mut lines) = (journal.write().unwrap(), journal.lines());
    let line = [&[b'x'; 1023][..], b"\n"].concat();
    let mut pushed = 0;
    // The pipe is full, then the ring is, and the thread is within a write.
    until("there is no room", || {
        let is_taken = lines.push(&line);
        lines.ring();
        pushed += usize::from(is_taken);
        !is_taken
    });
    assert!(pushed * 1024 > RING_BYTES / 2);
    let ends = thread::spawn(move || drop((lines, writing, journal)));
    let mut text = Vec::new();
    reader.read_to_end(&mut text).unwrap();
    ends.join().unwrap();
    assert_eq!(text.len(), pushed * 1024, "all that was taken is written at the end");
}
