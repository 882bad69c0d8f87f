//! Helper threads of a queue, for operations that wait for a disk: started when there is work that nobody is free for, gone when there was none for a while.

use corelane_os::events::{helper, moving, number};
use corelane_seam::slab::Key;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::operation::Memory;

/// Threads of one queue.
const THREADS: usize = 4;
/// How long one without work stays.
const STAYS: Duration = Duration::from_secs(1);
/// Bytes that are moved before it is looked whether the operation was cancelled.
const CHUNK: usize = 1 << 20;

/// What others see and say of an operation while a helper has it.
#[derive(Default)]
pub struct Transfer {
    pub done: AtomicU64,
    pub cancelled: AtomicBool,
}

/// What a helper does.
pub enum Task {
    /// Sends part of a file; the socket does not block.
    Send {
        socket: OwnedFd,
        file: Opened,
        offset: u64,
        length: u64,
    },
    Read {
        file: OwnedFd,
        memory: Memory,
        offset: u64,
    },
    Write {
        file: OwnedFd,
        memory: Memory,
        offset: u64,
    },
    Sync {
        file: OwnedFd,
    },
}

/// A file that is open, or is to be.
pub enum Opened {
    Path(PathBuf),
    File(Arc<OwnedFd>),
}

/// What became of it: the memory, or the file, comes back.
pub struct Helped {
    /// Bytes that were sent by this task; others count in [`Transfer`].
    pub result: Result<u64, i32>,
    pub memory: Option<Memory>,
    pub file: Option<Arc<OwnedFd>>,
}

/// Work for a helper: which operation's, and what.
pub struct Job {
    pub operation: Key,
    pub task: Task,
    pub shared: Arc<Transfer>,
}

/// Who is told when a job is done.
pub type Tell = Arc<dyn Fn(Key, Helped) + Send + Sync>;

#[derive(Default)]
struct Inner {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

/// See the module.
#[derive(Default)]
pub struct Helpers {
    inner: Mutex<Inner>,
    given: Condvar,
}

impl Helpers {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        // It is whole between any two statements.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `job` done, and `tell` called with what became of it.
    ///
    /// EAGAIN where there is no thread, and none can be started.
    pub fn give(self: &Arc<Self>, job: Job, tell: &Tell) -> Result<(), (i32, Job)> {
        let mut inner = self.inner();
        if inner.idle <= inner.jobs.len() && inner.threads < THREADS {
            let (helpers, tell) = (self.clone(), tell.clone());
            match helper::spawn("event-helper", move || helpers.help(&tell)) {
                Ok(()) => inner.threads += 1,
                Err(_) if inner.threads == 0 => return Err((number::EAGAIN, job)),
                Err(_) => {}
            }
        }
        inner.jobs.push_back(job);
        drop(inner);
        self.given.notify_one();
        Ok(())
    }

    fn help(&self, tell: &Tell) {
        while let Some(job) = self.next() {
            let helped = run(job.task, &job.shared);
            tell(job.operation, helped);
        }
    }

    /// The next job; none where there was none for a while: then one thread less is counted.
    fn next(&self) -> Option<Job> {
        let mut inner = self.inner();
        inner.idle += 1;
        let waited = self.given.wait_timeout_while(inner, STAYS, |inner| inner.jobs.is_empty());
        inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        inner.idle -= 1;
        let job = inner.jobs.pop_front();
        inner.threads -= usize::from(job.is_none());
        job
    }
}

fn run(task: Task, shared: &Transfer) -> Helped {
    match task {
        Task::Send { socket, file, offset, length } => send(&socket, file, offset, length),
        Task::Read { file, mut memory, offset } => {
            let result = each_chunk(memory.bytes().len(), shared, |from, to| {
                moving::read_at(&file, &mut memory.place()[from..to], offset.saturating_add(from as u64))
            });
            Helped { result, memory: Some(memory), file: None }
        }
        Task::Write { file, memory, offset } => {
            let bytes = memory.bytes();
            let result = each_chunk(bytes.len(), shared, |from, to| {
                moving::write_at(&file, &bytes[from..to], offset.saturating_add(from as u64))
            });
            Helped { result, memory: Some(memory), file: None }
        }
        Task::Sync { file } => {
            let cancelled = shared.cancelled.load(Ordering::Acquire);
            let result = if cancelled { Err(number::ECANCELED) } else { moving::sync(&file).map(|()| 0) };
            Helped { result, memory: None, file: None }
        }
    }
}

/// Opens the file if need be, and sends of it what the socket takes at once.
fn send(socket: &OwnedFd, file: Opened, offset: u64, length: u64) -> Helped {
    let file = match file {
        Opened::Path(path) => moving::open(&path).map(Arc::new),
        Opened::File(file) => Ok(file),
    };
    let length = usize::try_from(length).unwrap_or(CHUNK).min(CHUNK);
    let sent = |file: &Arc<OwnedFd>| moving::send_file(socket, file, offset, length).map(|bytes| bytes as u64);
    let result = file.as_ref().map_err(|error| *error).and_then(sent);
    Helped { result, memory: None, file: file.ok() }
}

/// Moves bytes `from..to` by `call`, part by part, until all are moved or there are no more.
fn each_chunk(length: usize, shared: &Transfer, mut call: impl FnMut(usize, usize) -> Result<usize, i32>) -> Result<u64, i32> {
    let mut from = 0;
    while from < length {
        if shared.cancelled.load(Ordering::Acquire) {
            return Err(number::ECANCELED);
        }
        let to = length.min(from + CHUNK);
        let moved = call(from, to)?;
        assert!(moved <= to - from, "no more is moved than was asked for");
        if moved == 0 {
            break;
        }
        from += moved;
        shared.done.store(from as u64, Ordering::Release);
    }
    Ok(from as u64)
}
