//! Helper threads: what has no asynchronous form runs there, and a bell tells when it is done.
//!
//! Each driver that needs helpers has its own, few, and started with the first call: they share the descriptor table of
//! the lane that started them, and no lock with other lanes.

use crate::answer::Answer;
use crate::listing;
use crate::open_file::OpenFile;
use crate::opening;
use crate::warm;
use corelane_os::errno;
use corelane_seam::{Bell, Fault, OffloadCall, OpenOptions, Reason};
use rustix::process::getpid;
use rustix::thread::{sched_getaffinity, sched_setaffinity};
use std::collections::VecDeque;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Lane memory that a helper reads or writes while the driver keeps it.
pub struct LentMemory {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: it is made by `LentMemory::to_write` or `LentMemory::to_read`, whose callers keep the memory until the answer comes.
unsafe impl Send for LentMemory {}

impl LentMemory {
    /// Memory to be written.
    ///
    /// # Safety
    /// The memory must stay, and nobody else may touch it, until the answer has come.
    pub(crate) unsafe fn to_write(memory: &mut [u8]) -> Self {
        Self { start: memory.as_mut_ptr(), bytes: memory.len() }
    }

    /// Memory to be read.
    ///
    /// # Safety
    /// The memory must stay, and nobody may write it, until the answer has come.
    pub(crate) unsafe fn to_read(memory: &[u8]) -> Self {
        Self { start: memory.as_ptr().cast_mut(), bytes: memory.len() }
    }

    /// Where it begins, and how many bytes it has.
    #[cfg(feature = "uring")]
    pub(crate) fn parts(&self) -> (*mut u8, usize) {
        (self.start, self.bytes)
    }
}

/// A file operation.
pub enum FileCall {
    /// `has_openat2`: the system lets names be resolved at once.
    Open {
        beneath: Option<Arc<OpenFile>>,
        path: PathBuf,
        options: OpenOptions,
        has_openat2: bool,
    },
    Read {
        file: Arc<OpenFile>,
        offset: u64,
        memory: LentMemory,
    },
    Write {
        file: Arc<OpenFile>,
        offset: u64,
        memory: LentMemory,
    },
    Sync {
        file: Arc<OpenFile>,
    },
    Warm {
        file: Arc<OpenFile>,
        offset: u64,
        length: u64,
    },
    List {
        directory: Arc<OpenFile>,
        most: usize,
    },
    Close {
        file: Arc<OpenFile>,
    },
}

impl FileCall {
    /// Whether it may wait for others than this machine's disks, as long as they like: what it is asked of is far, or may be.
    pub(crate) fn may_hold_up(&self) -> bool {
        match self {
            Self::Open { beneath, .. } => beneath.as_ref().is_none_or(|directory| directory.is_far),
            Self::Read { file, .. }
            | Self::Write { file, .. }
            | Self::Sync { file }
            | Self::Warm { file, .. }
            | Self::List { directory: file, .. }
            | Self::Close { file } => file.is_far,
        }
    }
}

/// The end of a call.
pub struct Ended {
    /// As given with the call.
    pub(crate) token: u32,
    pub(crate) answer: Answer,
    kind: JobKind,
}

impl Ended {
    /// The end of a file operation that no helper had.
    #[cfg(feature = "uring")]
    pub(crate) fn of_file(token: u32, answer: Answer) -> Self {
        Self { token, answer, kind: JobKind::Near }
    }
}

/// One end of the queue to the helpers; the other is in each of their threads.
pub struct Helpers {
    common: Arc<Common>,
    /// Offloaded calls, and file operations, whose answers were not taken yet.
    calls: usize,
    files: usize,
    calls_max: usize,
}

struct Common {
    queue: Mutex<Queue>,
    /// Rung when there is something to do, or the end has come.
    to_do: Condvar,
    /// Rung when a file operation has ended.
    file_ended: Condvar,
    bell: Arc<dyn Bell>,
    /// One of them is kept for files, so that calls which last long never stop those. Half as many come on top for what may hold up others.
    threads_max: usize,
}

enum Job {
    File(FileCall),
    Call(OffloadCall),
}

/// Which helpers a job takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JobKind {
    /// A file operation that waits for this machine's disks at the most.
    Near,
    /// One that may wait for somebody else: it takes nobody's place but that of others like it.
    Far,
    /// An offloaded call.
    Call,
}

/// Helpers that may wait for others than this machine's disks at once.
fn far_max(threads_max: usize) -> usize {
    threads_max / 2
}

#[derive(Default)]
struct Queue {
    files: VecDeque<(u32, FileCall)>,
    far: VecDeque<(u32, FileCall)>,
    calls: VecDeque<(u32, OffloadCall)>,
    ended: Vec<Ended>,
    threads: usize,
    idle: usize,
    files_running: usize,
    far_running: usize,
    calls_running: usize,
    closed: bool,
}

impl Queue {
    fn next(&mut self, threads_max: usize) -> Option<(u32, Job, JobKind)> {
        assert!(self.calls_running < threads_max && self.files_running + self.calls_running <= threads_max);
        let has_room = self.files_running + self.calls_running < threads_max;
        if has_room && let Some((token, call)) = self.files.pop_front() {
            self.files_running += 1;
            return Some((token, Job::File(call), JobKind::Near));
        }
        if self.far_running < far_max(threads_max)
            && let Some((token, call)) = self.far.pop_front()
        {
            self.far_running += 1;
            return Some((token, Job::File(call), JobKind::Far));
        }
        if !has_room || self.calls_running + 1 >= threads_max {
            return None;
        }
        let (token, call) = self.calls.pop_front()?;
        self.calls_running += 1;
        Some((token, Job::Call(call), JobKind::Call))
    }

    /// Threads that have no job: idle, or about to look for one.
    fn free(&self) -> usize {
        self.threads - self.files_running - self.far_running - self.calls_running
    }

    /// How many of those that wait could run at once.
    fn could_run(&self, threads_max: usize) -> usize {
        let room = threads_max - self.files_running - self.calls_running;
        let calls = self.calls.len().min((threads_max - 1).saturating_sub(self.calls_running));
        room.min(self.files.len() + calls) + self.far.len().min(far_max(threads_max) - self.far_running)
    }

    fn end(&mut self, ended: Ended) {
        let running = match ended.kind {
            JobKind::Near => &mut self.files_running,
            JobKind::Far => &mut self.far_running,
            JobKind::Call => &mut self.calls_running,
        };
        assert!(*running > 0, "a call ended that did not run");
        *running -= 1;
        if !self.closed {
            self.ended.push(ended);
        }
    }
}

impl Common {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Nothing that can panic runs under the lock.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a helper does all its life.
    fn help(&self) {
        leave_the_lanes_cpu();
        let mut queue = self.lock();
        while !queue.closed {
            let Some((token, job, kind)) = queue.next(self.threads_max) else {
                queue.idle += 1;
                queue = self.to_do.wait(queue).unwrap_or_else(PoisonError::into_inner);
                queue.idle -= 1;
                continue;
            };
            drop(queue);
            let answer = job.run();
            queue = self.lock();
            queue.end(Ended { token, answer, kind });
            drop(queue);
            self.file_ended.notify_all();
            self.bell.ring();
            queue = self.lock();
        }
        queue.threads -= 1;
    }
}

impl Helpers {
    /// At most `threads_max` helpers that ring `bell`; at most `calls_max` offloaded calls wait or run at once. Starts no thread yet.
    pub(crate) fn new(bell: Arc<dyn Bell>, calls_max: usize, threads_max: usize) -> Self {
        assert!(threads_max >= 2, "one for files, and one for calls");
        let common = Common { queue: Mutex::default(), to_do: Condvar::new(), file_ended: Condvar::new(), bell, threads_max };
        Self { common: Arc::new(common), calls: 0, files: 0, calls_max }
    }

    /// Gives an offloaded call to the helpers; its end comes with `token`.
    ///
    /// # Errors
    /// `Busy` at the bound, or the system's reason for not giving the first thread.
    pub(crate) fn offload(&mut self, token: u32, call: OffloadCall) -> Result<(), Fault> {
        if self.calls >= self.calls_max {
            return Err(Fault::of(Reason::Busy));
        }
        self.begin(|queue| queue.calls.push_back((token, call)))?;
        self.calls += 1;
        Ok(())
    }

    /// Gives a file operation to the helpers; its end comes with `token`. How many may wait is the lane's to bound:
    /// each one carries the lane's memory.
    ///
    /// # Errors
    /// The system's reason for not giving the first thread.
    pub(crate) fn file(&mut self, token: u32, call: FileCall) -> Result<(), Fault> {
        self.begin(|queue| if call.may_hold_up() { &mut queue.far } else { &mut queue.files }.push_back((token, call)))?;
        self.files += 1;
        Ok(())
    }

    /// Adds the calls that have ended to `ended`. Touches no lock while none is under way.
    pub(crate) fn take_ended(&mut self, ended: &mut Vec<Ended>) {
        if self.calls + self.files == 0 {
            return;
        }
        let first = ended.len();
        ended.append(&mut self.common.lock().ended);
        assert!(ended.len() - first <= self.calls + self.files, "more calls ended than were begun");
        let calls = ended[first..].iter().filter(|ended| ended.kind == JobKind::Call).count();
        let files = ended.len() - first - calls;
        assert!(calls <= self.calls && files <= self.files);
        self.calls -= calls;
        self.files -= files;
    }

    /// Ends the helpers; what has not begun never will. Waits until no file operation uses lane memory any more, but no
    /// longer than `patience`: if it returns false, that memory must stay for ever.
    pub(crate) fn close(&mut self, patience: Duration) -> bool {
        let mut queue = self.common.lock();
        queue.closed = true;
        let waiting = (std::mem::take(&mut queue.files), std::mem::take(&mut queue.far), std::mem::take(&mut queue.calls));
        self.common.to_do.notify_all();
        let (queue, answer) = self
            .common
            .file_ended
            .wait_timeout_while(queue, patience, |queue| queue.files_running + queue.far_running > 0)
            .unwrap_or_else(PoisonError::into_inner);
        drop(queue);
        drop(waiting);
        !answer.timed_out()
    }

    fn begin(&self, add: impl FnOnce(&mut Queue)) -> Result<(), Fault> {
        let mut queue = self.common.lock();
        assert!(!queue.closed, "a call after the end");
        let threads_max = self.common.threads_max;
        assert!(queue.threads <= threads_max + far_max(threads_max) && queue.idle <= queue.threads);
        add(&mut queue);
        if queue.free() < queue.could_run(threads_max) {
            match start(self.common.clone()) {
                Ok(()) => queue.threads += 1,
                Err(number) if queue.threads == 0 => {
                    // Nobody else has seen it.
                    queue.files.clear();
                    queue.far.clear();
                    queue.calls.clear();
                    return Err(errno::fault(number));
                }
                // Those that run will come to it.
                Err(_) => {}
            }
        }
        drop(queue);
        self.common.to_do.notify_one();
        Ok(())
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        self.close(Duration::ZERO);
    }
}

fn start(common: Arc<Common>) -> Result<(), i32> {
    let builder = std::thread::Builder::new().name("corelane-helper".into());
    builder.spawn(move || common.help()).map(drop).map_err(|error| errno::of(&error))
}

/// A thread inherits the CPU of the one that starts it, which is the lane's own. A helper runs wherever the process's
/// first thread may (sched_setaffinity(2)); where that cannot be told, it stays.
fn leave_the_lanes_cpu() {
    let _ = sched_getaffinity(Some(getpid())).and_then(|cpus| sched_setaffinity(None, &cpus));
}

impl Job {
    fn run(self) -> Answer {
        match self {
            Self::File(call) => call.run().unwrap_or_else(|error| Answer::Failed(errno::fault(errno::of(&error)))),
            Self::Call(call) => match catch_unwind(AssertUnwindSafe(call)) {
                Ok(value) => Answer::Returned(value),
                Err(panic) => {
                    // What was thrown may throw again when it is dropped.
                    let _ = catch_unwind(AssertUnwindSafe(|| drop(panic)));
                    Answer::Failed(Fault::of(Reason::Other))
                }
            },
        }
    }
}

impl FileCall {
    fn run(self) -> std::io::Result<Answer> {
        match self {
            Self::Open { beneath, path, options, has_openat2 } => opening::open(beneath.as_deref(), &path, options, has_openat2),
            Self::Read { file, offset, memory } => {
                assert!(!memory.start.is_null());
                // SAFETY: whoever lent the memory keeps it, and nobody else touches it, until the answer has come.
                let memory = unsafe { std::slice::from_raw_parts_mut(memory.start, memory.bytes) };
                moved(|| file.file.read_at(memory, offset))
            }
            Self::Write { file, offset, memory } => {
                // SAFETY: whoever lent the memory keeps it, and nobody writes it, until the answer has come.
                let memory = unsafe { std::slice::from_raw_parts(memory.start.cast_const(), memory.bytes) };
                moved(|| file.file.write_at(memory, offset))
            }
            Self::Sync { file } => file.file.sync_all().map(|()| Answer::Done),
            Self::Warm { file, offset, length } => warm::warm(&file, offset, length),
            Self::List { directory, most } => listing::list(&directory.file, most),
            Self::Close { file } => {
                drop(file);
                Ok(Answer::Done)
            }
        }
    }
}

fn moved(mut call: impl FnMut() -> std::io::Result<usize>) -> std::io::Result<Answer> {
    loop {
        match call() {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            answer => return answer.map(|bytes| Answer::Moved { bytes }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_seam::{FileFacts, Offloaded};
    use std::sync::mpsc;

    struct Counting(mpsc::Sender<()>);

    impl Bell for Counting {
        fn ring(&self) {
            let _ = self.0.send(());
        }
    }

    fn helpers(calls_max: usize, threads_max: usize) -> (Helpers, mpsc::Receiver<()>) {
        let (sender, rung) = mpsc::channel();
        (Helpers::new(Arc::new(Counting(sender)), calls_max, threads_max), rung)
    }

    fn wait_for(helpers: &mut Helpers, rung: &mpsc::Receiver<()>, count: usize) -> Vec<Ended> {
        let mut ended = Vec::new();
        while ended.len() < count {
            rung.recv().unwrap();
            helpers.take_ended(&mut ended);
        }
        ended
    }

    #[test]
    fn a_value_comes_back_and_a_panic_is_a_fault() {
        let (mut helpers, rung) = helpers(8, 2);
        helpers.offload(1, Box::new(|| Box::new(42u8))).unwrap();
        helpers.offload(2, Box::new(|| panic!("meant"))).unwrap();
        let mut ended = wait_for(&mut helpers, &rung, 2);
        ended.sort_by_key(|ended| ended.token);
        assert!(matches!(&ended[0].answer, Answer::Returned(value) if value.downcast_ref() == Some(&42u8)));
        assert!(matches!(ended[1].answer, Answer::Failed(Fault { reason: Reason::Other, .. })));
    }

    #[test]
    fn calls_are_bounded_and_never_stop_files() {
        for threads_max in [2, 4, 7] {
            check_bounds(threads_max);
        }
    }

    fn check_bounds(threads_max: usize) {
        let (mut helpers, rung) = helpers(threads_max, threads_max);
        let (release, gate) = mpsc::channel::<()>();
        let (begin, begun) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        for token in 0..threads_max as u32 {
            let (gate, begin) = (gate.clone(), begin.clone());
            let work = move || -> Offloaded {
                begin.send(()).unwrap();
                Box::new(gate.lock().unwrap().recv().is_ok())
            };
            helpers.offload(token, Box::new(work)).unwrap();
        }
        (1..threads_max).for_each(|_| begun.recv().unwrap());
        let full = helpers.offload(9, Box::new(|| Box::new(()))).unwrap_err();
        assert_eq!(full.reason, Reason::Busy);
        let options = OpenOptions::new().read(true);
        helpers
            .file(7, FileCall::Open { beneath: None, path: std::env::current_exe().unwrap(), options, has_openat2: true })
            .unwrap();
        let opened = wait_for(&mut helpers, &rung, 1);
        assert!(matches!(opened[0].answer, Answer::Opened { facts: FileFacts { length: 1.., .. }, .. }) && opened[0].token == 7);
        assert!(begun.try_recv().is_err(), "one helper is kept for files");
        (0..threads_max).for_each(|_| release.send(()).unwrap());
        assert_eq!(wait_for(&mut helpers, &rung, threads_max).len(), threads_max);
        assert!(helpers.offload(9, Box::new(|| Box::new(()))).is_ok());
    }

    #[test]
    fn helpers_end_with_their_driver() {
        let (mut helpers, rung) = helpers(2, 2);
        helpers.offload(1, Box::new(|| Box::new(()))).unwrap();
        wait_for(&mut helpers, &rung, 1);
        assert!(helpers.close(Duration::from_secs(10)));
        drop(helpers);
        // The threads hold the bell, so this ends when they have ended.
        while rung.recv().is_ok() {}
    }
}
