//! A file to which lanes write lines, such as a log of what was answered: no lane ever waits for it.
//!
//! ```text
//! Lines (a lane's) --ring of bytes--> Journal --one write a ring--> the file     a thread ([`Journal::write`]), or whoever calls Journal::flush
//! ```
//!
//! A lane puts whole lines into a ring of its own, for one thread to take out: without a lock, and without an instruction that another core could have to
//! wait for. What finds no room, or cannot be written to the file, is dropped, and counted for the lane whose line it was.
//!
//! **When it is written.** The first line after a time without any wakes the thread. While there are lines it takes them [`NAP`] after it took the last
//! ones, or when a ring is half full. So a line is in the file that much later, and a lane wakes nobody for most of its lines.
//!
//! **Which file.** The one that has the name: it is looked at, at the most once a second and when there is something to be written, whether it still
//! is, and at once after [`Journal::reopen`]. So a log is rotated by moving it; what was there before the move was noticed is in the old file.
//!
//! Sources: open(2) with O_APPEND, writev(2).

mod bell;
mod file;

use crate::report;
use bell::Bell;
use corelane_seam::{Level, Record};
use file::{LOG_NOT_WRITTEN, LogFile};
use rtrb::{Consumer, Producer, RingBuffer};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// Bytes of lines that wait on one lane; a line more is dropped.
pub const RING_BYTES: usize = 256 << 10;
/// Bytes of one line, with its end.
pub const LINE_BYTES_MAX: usize = 16 << 10;
/// How long the thread leaves lines where they are after it has taken some.
pub const NAP: Duration = Duration::from_millis(50);
/// How long the end of a program waits for what is not written yet.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// A file of lines. A clone is the same one.
#[derive(Clone)]
pub struct Journal(Arc<Shared>);

struct Shared {
    /// Rings of lanes that have come since somebody wrote; held for a few instructions.
    joined: Mutex<Vec<Ring>>,
    /// Held by who writes, while that writes.
    pages: Mutex<Pages>,
    bell: Bell,
    is_to_reopen: AtomicBool,
}

/// What is written, and to where.
struct Pages {
    rings: Vec<Ring>,
    file: LogFile,
}

/// The end of a ring where lines are taken out.
struct Ring {
    lines: Consumer<u8>,
    lost: Arc<AtomicU64>,
}

/// A lane's end of a journal.
pub struct Lines {
    ring: Producer<u8>,
    /// Lines that could not be written to the file: counted by who writes.
    lost: Arc<AtomicU64>,
    lost_seen: u64,
    shared: Arc<Shared>,
    /// The sleep for which the bell was last rung.
    rung: u64,
}

/// The thread that writes, until this is dropped: then it writes what is there, and ends.
pub struct Writing {
    end: Option<Sender<()>>,
    ended: Receiver<()>,
    journal: Journal,
}

impl Journal {
    /// A journal of this file, which is added to if it is there. If it is not, it is made when it is to be written, and not before: settings are looked at without anything being written.
    ///
    /// # Errors
    /// What the system says of opening it, or of the directory where it is to be made. A pipe (fifo(7)) is opened when somebody reads it.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let file = LogFile::find(path.into())?;
        let pages = Mutex::new(Pages { rings: Vec::new(), file });
        Ok(Self(Arc::new(Shared { joined: Mutex::default(), pages, bell: Bell::new(), is_to_reopen: AtomicBool::new(false) })))
    }

    /// A lane's end, to be made on that lane.
    pub fn lines(&self) -> Lines {
        let (ring, lines) = RingBuffer::new(RING_BYTES);
        let lost = Arc::<AtomicU64>::default();
        lock(&self.0.joined).push(Ring { lines, lost: lost.clone() });
        Lines { ring, lost, lost_seen: 0, shared: self.0.clone(), rung: 0 }
    }

    /// Has the file opened anew by its name before anything else is written.
    pub fn reopen(&self) {
        self.0.is_to_reopen.store(true, Ordering::Release);
        self.0.bell.ring();
    }

    /// Writes all lines that there are, on the calling thread; returns whether there were any.
    pub fn flush(&self) -> bool {
        let mut pages = lock(&self.0.pages);
        pages.rings.append(&mut lock(&self.0.joined));
        let is_asked = self.0.is_to_reopen.swap(false, Ordering::AcqRel);
        if is_asked || pages.rings.iter().any(Ring::has_lines) {
            pages.file.look(is_asked);
        }
        let Pages { rings, file } = &mut *pages;
        let had_lines = rings.iter_mut().map(|ring| ring.write(file)).filter(|had| *had).count() > 0;
        rings.retain(|ring| !ring.lines.is_abandoned() || ring.has_lines());
        had_lines
    }

    /// Has a thread write what comes, and makes the file if it is not there.
    ///
    /// # Errors
    /// What the system says of the file or of the thread.
    pub fn write(&self) -> io::Result<Writing> {
        lock(&self.0.pages).file.make()?;
        let (end, ending) = channel();
        let (at_end, ended) = channel();
        let journal = self.clone();
        let write = move || {
            journal.serve(&ending);
            drop(at_end);
        };
        Builder::new().name("journal".to_owned()).spawn(write)?;
        Ok(Writing { end: Some(end), ended, journal: self.clone() })
    }

    fn serve(&self, ending: &Receiver<()>) {
        self.0.bell.hang();
        loop {
            // Asked first: what was put into a ring before the end is written.
            let ends = ending.try_recv() == Err(TryRecvError::Disconnected);
            let had_lines = self.flush();
            match (had_lines, ends) {
                (false, true) => return,
                (true, true) => {}
                (true, false) => self.0.bell.nap(NAP),
                (false, false) => self.0.bell.sleep(|| self.has_work(ending)),
            }
        }
    }

    /// Whether there is a reason not to sleep.
    fn has_work(&self, ending: &Receiver<()>) -> bool {
        ending.try_recv() == Err(TryRecvError::Disconnected)
            || self.0.is_to_reopen.load(Ordering::Acquire)
            || !lock(&self.0.joined).is_empty()
            || lock(&self.0.pages).rings.iter().any(Ring::has_lines)
    }
}

/// Nothing that is locked is changed in two steps that belong together.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ring {
    fn has_lines(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Writes what is in it; returns whether there was anything.
    fn write(&mut self, file: &mut LogFile) -> bool {
        let bytes = self.lines.slots();
        let Ok(chunk) = self.lines.read_chunk(bytes) else { return false };
        let (front, back) = chunk.as_slices();
        assert!(front.iter().chain(back).next_back().is_none_or(|&last| last == b'\n'), "lines come whole");
        let lost = file.write(front, back);
        chunk.commit_all();
        // Nobody else changes it.
        self.lost.store(self.lost.load(Ordering::Relaxed) + lost, Ordering::Relaxed);
        bytes > 0
    }
}

impl Lines {
    /// Puts a line into the ring, where it ends with a line end and has no other; false if there is no room for it. [`Lines::ring`] has it written.
    ///
    /// # Panics
    /// With what is no line, or more than [`LINE_BYTES_MAX`].
    pub fn push(&mut self, line: &[u8]) -> bool {
        assert!(line.len() <= LINE_BYTES_MAX && line.last() == Some(&b'\n'), "{} bytes are no line", line.len());
        self.ring.push_entire_slice(line).is_ok()
    }

    /// Wakes who writes if that is due: once after some lines, and before this thread sleeps.
    pub fn ring(&mut self) {
        let Self { ring, shared, rung, .. } = self;
        shared.bell.ring_for(rung, || ring.slots() <= RING_BYTES / 2);
    }

    /// Lines that were in the ring and could not be written, since the last call.
    pub fn take_lost(&mut self) -> u64 {
        let lost = self.lost.load(Ordering::Relaxed);
        assert!(lost >= self.lost_seen, "what is lost stays lost");
        lost - std::mem::replace(&mut self.lost_seen, lost)
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        drop(self.end.take());
        self.journal.0.bell.ring();
        if self.ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            let seconds = PATIENCE.as_secs();
            let words = format!("a log was not written to its end: its file has taken nothing for {seconds} s");
            report::line(Record::new(Level::Warn, words).with_code(LOG_NOT_WRITTEN));
        }
    }
}

#[cfg(test)]
mod tests;
