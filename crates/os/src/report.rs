//! Lines for the operator on standard error, from threads that must not wait for whoever reads them.
//!
//! A line is put into a bounded queue, and a thread writes it. What finds no room, or cannot be written, is lost: counted for the lane it came
//! from, and told as soon as something can be written again. A line has a level, and what it is of, as types ([`Record`]): who takes lines
//! ([`start_into`]) reads neither in the words. The panics of all threads can go the same way ([`set_panic_hook`]); the
//! standard library writes them itself, and waits for as long as a full pipe is not read.
//!
//! Sources: pipe(7), write(2), poll(2).

use corelane_seam::{Level, Record};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::stdio::{stderr, stdout};
use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::panic::{self, PanicHookInfo};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

/// Bytes of lines that wait to be written; a line more is lost.
pub const QUEUE_BYTES_MAX: usize = 256 << 10;

/// Bytes of one line, or of a panic with its backtrace; the rest is cut off.
pub const LINE_BYTES_MAX: usize = 16 << 10;

/// How long a program that ends waits for its last lines to be read.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// A thread's panics are told this far apart at the least.
const PANICS_APART: Duration = Duration::from_secs(1);

/// The queue of the process for standard error.
static REPORT: LineQueue = LineQueue::new();
/// And the one for standard output.
static OUTPUT: LineQueue = LineQueue::new();

thread_local! {
    /// The lines of this lane that were lost; none on other threads.
    static LOST: OnceCell<Arc<AtomicU64>> = const { OnceCell::new() };
    /// When a panic of this thread was told, and how many were not since.
    static TOLD: Cell<(Option<Instant>, u64)> = const { Cell::new((None, 0)) };
    /// The place and the words of this thread's last panic.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Starts the thread that writes, if it does not run yet. To be called before the threads that will have lines: it keeps their CPU and
/// descriptors out of its own.
///
/// # Errors
/// What the system says of the thread.
pub fn start() -> io::Result<()> {
    REPORT.start("report", Lines::of(Standard(stderr()))).map(drop)
}

/// [`start`], but each record goes to `tell` instead of standard error, one after the other, on that thread: a program that has a log of its own takes
/// them there. It may wait for as long as it likes; what finds no room meanwhile is lost and told as before, as is a line that it panics at.
/// False, and nothing, if the thread runs already.
///
/// # Errors
/// As [`start`].
pub fn start_into(tell: impl FnMut(&Record) + Send + 'static) -> io::Result<bool> {
    REPORT.start("report", Taker(tell))
}

/// Has a line written on standard output in the same way, as far as the system lets us.
pub fn say(words: &str) {
    if OUTPUT.start("output", Lines::of(Standard(stdout()))).is_ok() {
        OUTPUT.push(Record::new(Level::Info, words), None);
    }
}

/// Has what the calling thread loses counted by itself: it is a lane's.
pub fn count_lost() {
    LOST.with(|lost| {
        lost.get_or_init(Arc::default);
    });
}

/// Counts the lines of the calling thread that are lost from [`count_lost`] on; none if that was not called, or the thread is so far gone that it has nothing of its own any more.
pub fn lost() -> Option<Arc<AtomicU64>> {
    LOST.try_with(|lost| lost.get().cloned()).ok().flatten()
}

/// Has a line written. Waits for nobody.
pub fn line(record: Record) {
    REPORT.push(record, lost());
}

/// Waits until all lines are written or lost, but no longer than `patience`; returns whether they are.
pub fn flush(patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    [&OUTPUT, &REPORT].into_iter().all(|report| report.flush(deadline.saturating_duration_since(Instant::now())))
}

/// Has panics of all threads go the same way, one a second for each thread; replaces the hook of the process, once
/// ([`std::panic::set_hook`]). A thread that is no lane waits for its line for up to [`PATIENCE`]: the process may end with it.
pub fn set_panic_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| panic::set_hook(Box::new(tell_panic)));
}

/// Where the calling thread last panicked, and its words, if [`set_panic_hook`] was called before.
pub fn last_panic() -> Option<String> {
    PANIC.with_borrow_mut(Option::take)
}

/// The words of a panic, as far as it has some.
pub fn panic_words(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no words")
}

fn tell_panic(info: &PanicHookInfo<'_>) {
    let place = info.location().map_or(String::new(), |place| format!("at {place}: "));
    let what = format!("{place}{}", panic_words(info.payload()));
    let (told, left_out) = TOLD.get();
    let now = Instant::now();
    let is_told = told.is_none_or(|told| now.duration_since(told) >= PANICS_APART);
    if is_told {
        let more = if left_out > 0 { format!(" ({left_out} panics before it were left out)") } else { String::new() };
        let thread = thread::current();
        let words = format!("thread {} panicked {what}{more}{}", thread.name().unwrap_or("without name"), backtrace());
        line(Record::new(Level::Error, words));
    }
    TOLD.set(if is_told { (Some(now), 0) } else { (told, left_out + 1) });
    let _ = PANIC.try_with(|panic| panic.replace(Some(what)));
    if lost().is_none() {
        flush(PATIENCE);
    }
}

/// Where the panic came from, if it was asked for (RUST_BACKTRACE).
fn backtrace() -> String {
    let trace = Backtrace::capture();
    if trace.status() == BacktraceStatus::Captured { format!("\n{trace}") } else { String::new() }
}

/// What is to be written, in order.
enum Item {
    /// The bytes of the line with its end, and who counts it if it is lost.
    Line(Record, usize, Option<Arc<AtomicU64>>),
    /// So many found no room here.
    Lost(u64),
}

/// A queue of lines, and the thread that writes them.
struct LineQueue {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    entries: VecDeque<Item>,
    bytes: usize,
    is_writing: bool,
    is_served: bool,
}

impl LineQueue {
    const fn new() -> Self {
        let state = State { entries: VecDeque::new(), bytes: 0, is_writing: false, is_served: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Starts the thread; false if it runs already.
    fn start(&'static self, name: &str, mut out: impl Take + Send + 'static) -> io::Result<bool> {
        let mut state = self.lock();
        if state.is_served {
            return Ok(false);
        }
        Builder::new().name(name.to_owned()).spawn(move || self.serve(&mut out))?;
        state.is_served = true;
        Ok(true)
    }

    /// The lock is held for a few instructions by whoever takes it, and never while something is written.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, mut record: Record, lost: Option<Arc<AtomicU64>>) {
        cut(&mut record);
        let bytes = record.line_bytes() + 1;
        let mut state = self.lock();
        assert!(state.bytes <= QUEUE_BYTES_MAX && bytes <= LINE_BYTES_MAX + 1, "what waits is bounded");
        if state.bytes + bytes <= QUEUE_BYTES_MAX {
            state.bytes += bytes;
            state.entries.push_back(Item::Line(record, bytes, lost));
        } else {
            lost.inspect(count_one);
            match state.entries.back_mut() {
                Some(Item::Lost(count)) => *count += 1,
                _ => state.entries.push_back(Item::Lost(1)),
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    fn flush(&self, patience: Duration) -> bool {
        let waits = |state: &mut State| state.is_writing || !state.entries.is_empty();
        let waited = self.changed.wait_timeout_while(self.lock(), patience, waits);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Writes what comes, for ever.
    fn serve(&self, out: &mut impl Take) {
        let mut lost = 0;
        loop {
            let entry = self.next();
            write_entry(out, entry, &mut lost);
            self.lock().is_writing = false;
            self.changed.notify_all();
        }
    }

    fn next(&self) -> Item {
        let mut state = self.lock();
        loop {
            if let Some(entry) = state.entries.pop_front() {
                assert!(!state.is_writing, "one thread writes, one line at a time");
                state.is_writing = true;
                if let Item::Line(_, bytes, _) = &entry {
                    assert!(state.bytes >= *bytes, "what is taken was counted");
                    state.bytes -= bytes;
                }
                return entry;
            }
            assert!(state.bytes == 0, "nothing waits, and nothing is counted");
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Cuts the end of the words off where the line is longer than one may be, and gives back the memory that they do not take: what waits is
/// bounded by the lines' length.
fn cut(record: &mut Record) {
    let over = record.line_bytes().saturating_sub(LINE_BYTES_MAX);
    // What stands before the words is short.
    let end = record.text.floor_char_boundary(record.text.len() - over);
    record.text.truncate(end);
    record.text.shrink_to_fit();
}

fn count_one(lost: &Arc<AtomicU64>) {
    lost.fetch_add(1, Ordering::Relaxed);
}

/// Writes an entry; first how many were `lost` before it, which is tried again with the next one if it fails.
fn write_entry(out: &mut impl Take, entry: Item, lost: &mut u64) {
    if let Item::Lost(count) = entry {
        *lost += count;
    }
    let told = *lost == 0 || out.take(lost_here(*lost)).is_ok();
    if told {
        *lost = 0;
    }
    if let Item::Line(record, _, counter) = entry
        && !(told && out.take(record).is_ok())
    {
        *lost += 1;
        counter.inspect(count_one);
    }
}

fn lost_here(lost: u64) -> Record {
    Record::new(Level::Warn, format!("{lost} lines were lost here: nobody took them")).of_program()
}

/// Where lines go.
trait Take {
    fn take(&mut self, record: Record) -> io::Result<()>;
}

/// As lines, each written at once.
struct Lines<W> {
    out: W,
    /// The last one, whose memory the next one has.
    line: String,
}

impl<W> Lines<W> {
    const fn of(out: W) -> Self {
        Self { out, line: String::new() }
    }
}

impl<W: Write> Take for Lines<W> {
    fn take(&mut self, record: Record) -> io::Result<()> {
        self.line.clear();
        // Writing to a string does not fail.
        let _ = writeln!(self.line, "{record}");
        self.out.write_all(self.line.as_bytes())
    }
}

/// Standard error, or output, without the lock and the buffer of the standard library. Whoever shares it may have made it non-blocking.
struct Standard(BorrowedFd<'static>);

impl Write for Standard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match rustix::io::write(self.0, bytes) {
                Err(Errno::AGAIN) => writable(self.0),
                other => return Ok(other?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Somebody who takes each record as a whole; its words do not end with an end of line.
struct Taker<F>(F);

impl<F: FnMut(&Record)> Take for Taker<F> {
    fn take(&mut self, mut record: Record) -> io::Result<()> {
        record.text.truncate(record.text.trim_end_matches('\n').len());
        let told = panic::catch_unwind(panic::AssertUnwindSafe(|| (self.0)(&record)));
        told.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// Waits until it takes something, or a signal comes.
fn writable(out: BorrowedFd) {
    let _ = poll(&mut [PollFd::from_borrowed_fd(out, PollFlags::OUT)], None);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Takes a write when it is told what to answer, and tells what it was given.
    struct Slow {
        answers: Receiver<bool>,
        took: Sender<String>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.took.send(String::from_utf8(bytes.to_vec()).unwrap()).unwrap();
            match self.answers.recv() {
                Ok(true) => Ok(bytes.len()),
                _ => Err(ErrorKind::BrokenPipe.into()),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn words(text: &str) -> Record {
        Record::new(Level::Warn, text)
    }

    /// A queue of its own that is served, who says how a write goes, and what was written.
    fn served() -> (&'static LineQueue, Sender<bool>, Receiver<String>) {
        let report: &'static LineQueue = Box::leak(Box::new(LineQueue::new()));
        let (go, answers) = channel();
        let (took, written) = channel();
        thread::spawn(move || report.serve(&mut Lines::of(Slow { answers, took })));
        (report, go, written)
    }

    #[test]
    fn lines_beyond_the_queue_are_lost_counted_and_told_in_their_place() {
        let (report, go, written) = served();
        let lost = Arc::new(AtomicU64::new(0));
        let long = "x".repeat(LINE_BYTES_MAX - 1);
        report.push(words("first"), None);
        assert_eq!(written.recv().unwrap(), "first\n"); // and nobody takes it yet
        let fit = QUEUE_BYTES_MAX / LINE_BYTES_MAX;
        (0..fit + 5).for_each(|_| report.push(words(&long), Some(lost.clone())));
        assert_eq!(lost.load(Ordering::Relaxed), 5);
        assert!(!report.flush(Duration::ZERO), "nothing was taken");
        (0..=fit).for_each(|_| go.send(true).unwrap());
        (0..fit).for_each(|_| assert_eq!(written.recv().unwrap().len(), LINE_BYTES_MAX));
        assert_eq!(written.recv().unwrap(), "corelane: 5 lines were lost here: nobody took them\n");
        report.push(words("after"), None);
        (0..2).for_each(|_| go.send(true).unwrap());
        assert_eq!(written.recv().unwrap(), "after\n");
        assert!(report.flush(Duration::from_secs(60)));
    }

    #[test]
    fn what_cannot_be_written_is_lost_and_told_when_it_can() {
        let (report, go, written) = served();
        let lost = Arc::new(AtomicU64::new(0));
        // The second one fails at telling of the first.
        (0..2).for_each(|_| go.send(false).unwrap());
        (0..2).for_each(|_| report.push(words("gone"), Some(lost.clone())));
        assert!(report.flush(Duration::from_secs(60)), "it does not wait for ever");
        assert_eq!(lost.load(Ordering::Relaxed), 2);
        (0..2).for_each(|_| go.send(true).unwrap());
        report.push(words("here"), Some(lost.clone()));
        let lines: Vec<_> = (0..4).map(|_| written.recv().unwrap()).collect();
        let told = |count| format!("corelane: {count} lines were lost here: nobody took them\n");
        assert_eq!(lines, ["gone\n".to_owned(), told(1), told(2), "here\n".to_owned()]);
        assert_eq!(lost.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_line_is_cut_at_a_character() {
        let (report, go, written) = served();
        (0..2).for_each(|_| go.send(true).unwrap());
        let long = words(&format!("x{}", "é".repeat(LINE_BYTES_MAX)));
        report.push(long.clone(), None);
        assert_eq!(written.recv().unwrap().len(), LINE_BYTES_MAX);
        // What stands before the words counts as well.
        report.push(long.of_lane(3), None);
        let line = written.recv().unwrap();
        assert!(line.starts_with("lane 3: xé") && line.len() == LINE_BYTES_MAX, "{}", line.len());
    }

    #[test]
    fn one_thread_writes() {
        static ONE: LineQueue = LineQueue::new();
        assert!(ONE.start("report", Lines::of(io::sink())).unwrap());
        assert!(!ONE.start("report", Lines::of(io::sink())).unwrap(), "it runs already");
    }
}
