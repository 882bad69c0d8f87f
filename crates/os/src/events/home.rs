//! Which process and which table of descriptors a thing was made in.

use std::cell::Cell;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// How often this process is a fork of the one in which the program began: a number that a child does not share with its parent.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Runs in the child of a fork(2), whose other threads are gone.
extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// The process and the table of descriptors of the thread that made this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    forks: u32,
    maker: i32,
}

thread_local! {
    /// What this thread last found out: of which maker it asked, and whether it shares that one's table.
    static FOUND: Cell<(i32, bool)> = const { Cell::new((0, false)) };
    /// The calling thread's number, 0 until asked.
    static THREAD: Cell<(u32, i32)> = const { Cell::new((0, 0)) };
}

/// How many forks lie between this process and the first that asked.
pub fn forks() -> u32 {
    static HEARD: Once = Once::new();
    HEARD.call_once(|| {
        // SAFETY: the handler only adds to an atomic, which is sound between fork and exec.
        let heard = unsafe { libc::pthread_atfork(None, None, Some(forked)) };
        assert!(heard == 0, "a handler for forks can be registered");
    });
    FORKS.load(Ordering::Relaxed)
}

impl Home {
    /// The calling thread's.
    pub fn here() -> Self {
        Self { forks: forks(), maker: thread() }
    }

    /// Whether the calling thread is in the same process.
    pub fn is_this_process(&self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
    }

    /// Whether the calling thread is in the same process and uses the same table of descriptors (kcmp(2)). A thread is asked once: one that
    /// leaves the table later (unshare(2)) is not found out. Where the maker has ended, or the comparison is not allowed, it is taken to be the same.
    pub fn is_here(&self) -> bool {
        self.is_this_process()
            && FOUND.with(|found| {
                let (maker, same) = found.get();
                if maker == self.maker {
                    return same;
                }
                let same = self.is_same_table();
                found.set((self.maker, same));
                same
            })
    }

    fn is_same_table(&self) -> bool {
        const KCMP_FILES: libc::c_long = 2;
        // SAFETY: takes no pointers.
        let answer = unsafe { libc::syscall(libc::SYS_kcmp, self.maker, thread(), KCMP_FILES, 0, 0) };
        answer <= 0
    }
}

/// Whether the calling thread is the process's only one, as far as /proc says.
pub fn is_alone() -> bool {
    // A folder a thread, and the two that each folder has.
    rustix::fs::stat("/proc/self/task").is_ok_and(|status| status.st_nlink == 3)
}

/// The number of this process, asked anew: vfork(2) tells nobody.
pub fn process() -> u32 {
    rustix::process::getpid().as_raw_nonzero().get().unsigned_abs()
}

/// The calling thread's number.
fn thread() -> i32 {
    let forks = FORKS.load(Ordering::Relaxed);
    THREAD.with(|known| {
        let (of, number) = known.get();
        if of == forks && number != 0 {
            return number;
        }
        let number = rustix::thread::gettid().as_raw_nonzero().get();
        known.set((forks, number));
        number
    })
}
