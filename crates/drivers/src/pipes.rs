//! Pipes through which bytes pass from one connection to another (splice(2)): they lie in nobody's memory, and are not copied.
//!
//! ```text
//! idle --take--> splice(socket, pipe) --> Piped: views of the bytes --splice(pipe, socket)--> empty --last view dropped--> idle
//!                     \--nothing came--> idle                            \--dropped with bytes in it--> closed
//! ```

use corelane_seam::Piped;
use rustix::io::{Errno, retry_on_intr};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice};
use std::cell::{Cell, RefCell};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;

/// Bytes that a pipe is made for: 64 pages, of which each holds what one fragment of a packet has.
const PIPE_BYTES: usize = 256 << 10;
/// The least that one is used with. Above its user's bound (`pipe-user-pages-soft`, pipe(7)) the system makes it smaller, and larger ones are refused.
const PIPE_BYTES_LEAST: usize = 64 << 10;
/// Empty pipes that are kept: as many are seldom filled in one turn.
const IDLE_MAX: usize = 8;
/// Receives that do not ask for a pipe behind one to whom the system gave none.
const PATIENCE: u32 = 256;

/// Both ends of a pipe.
struct Ends {
    read: OwnedFd,
    write: OwnedFd,
}

/// What the pipes of a driver share.
#[derive(Default)]
struct Pool {
    idle: RefCell<Vec<Ends>>,
    /// Those that are in use.
    held: Cell<usize>,
}

/// The pipes of a driver.
#[derive(Default)]
pub(crate) struct Pipes {
    pool: Rc<Pool>,
    /// So many receives are not to ask for one.
    rests: u32,
}

/// A pipe in use. Its drop makes it idle if it is empty, and closes it if not.
pub(crate) struct Pipe {
    /// There until the drop.
    ends: Option<Ends>,
    /// Bytes that were brought into it, and those of them that have left.
    filled: Cell<usize>,
    taken: Cell<usize>,
    pool: Rc<Pool>,
}

impl Pipes {
    /// An empty one; none where so many are in use, or the system gives none.
    pub(crate) fn take(&mut self, most: usize) -> Option<Pipe> {
        let held = self.pool.held.get();
        if held >= most {
            return None;
        }
        let idle = self.pool.idle.borrow_mut().pop();
        let ends = match idle {
            Some(ends) => ends,
            None => self.make()?,
        };
        self.pool.held.set(held + 1);
        Some(Pipe { ends: Some(ends), filled: Cell::new(0), taken: Cell::new(0), pool: self.pool.clone() })
    }

    /// How many are in use.
    pub(crate) fn held(&self) -> usize {
        self.pool.held.get()
    }

    /// Gives back the descriptors of those that are not in use: the lane has none left.
    pub(crate) fn close_idle(&mut self) {
        self.pool.idle.borrow_mut().clear();
    }

    /// The system lets nobody splice, and will not later.
    pub(crate) fn give_up(&mut self) {
        self.close_idle();
        self.rests = u32::MAX;
    }

    fn make(&mut self) -> Option<Ends> {
        if self.rests > 0 {
            self.rests -= 1;
            return None;
        }
        let made = made().ok();
        if made.is_none() {
            self.rests = PATIENCE;
        }
        made
    }
}

/// A new one of fitting size.
fn made() -> Result<Ends, Errno> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let bytes = fcntl_setpipe_size(&write, PIPE_BYTES).or_else(|_| fcntl_getpipe_size(&write))?;
    if bytes < PIPE_BYTES_LEAST { Err(Errno::PERM) } else { Ok(Ends { read, write }) }
}

impl Pipe {
    fn ends(&self) -> &Ends {
        // reason: its drop alone takes them.
        self.ends.as_ref().expect("a pipe has its ends until it is dropped")
    }

    /// Brings into it, empty as it is, what a socket has, up to `most` bytes; returns how many, none at the end of the stream.
    ///
    /// # Errors
    /// The system's (splice(2)): EAGAIN if there is nothing, and where the socket has only what this call does not bring.
    pub(crate) fn fill(&self, socket: BorrowedFd, most: usize) -> Result<usize, Errno> {
        assert!(self.filled.get() == 0 && most > 0, "a pipe is filled once, with something");
        let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        let most = most.min(Piped::BYTES_MAX);
        let bytes = retry_on_intr(|| splice(socket, None, &self.ends().write, None, most, flags))?;
        assert!(bytes <= most, "the kernel brings no more than was asked for");
        self.filled.set(bytes);
        Ok(bytes)
    }

    /// Sends those of its bytes that a view shows; returns how many went. With `more` others follow at once.
    ///
    /// # Errors
    /// The system's (splice(2)); ENODATA for bytes that have left already.
    pub(crate) fn send(&self, socket: BorrowedFd, view: &Piped, more: bool) -> Result<usize, Errno> {
        self.drop_until(view.start())?;
        let mut flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        flags.set(SpliceFlags::MORE, more);
        let bytes = retry_on_intr(|| splice(&self.ends().read, None, socket, None, view.len(), flags))?;
        assert!(bytes <= view.len(), "the kernel takes no more than it was given");
        self.taken.set(self.taken.get() + bytes);
        // Without a byte it would be tried for ever.
        if bytes == 0 { Err(Errno::IO) } else { Ok(bytes) }
    }

    /// Drops what lies before this place.
    fn drop_until(&self, place: usize) -> Result<(), Errno> {
        let mut scratch = [0; 4096];
        while self.taken.get() < place {
            let most = scratch.len().min(place - self.taken.get());
            let bytes = retry_on_intr(|| rustix::io::read(&self.ends().read, &mut scratch[..most]))?;
            self.taken.set(self.taken.get() + bytes);
        }
        if self.taken.get() == place { Ok(()) } else { Err(Errno::NODATA) }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.pool.held.set(self.pool.held.get() - 1);
        let mut idle = self.pool.idle.borrow_mut();
        if self.filled == self.taken && idle.len() < IDLE_MAX {
            idle.extend(self.ends.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_os::testing::{pair, wait_for};
    use std::os::fd::AsFd;

    fn sent(socket: &OwnedFd, bytes: &[u8]) {
        assert_eq!(rustix::io::write(socket, bytes).unwrap(), bytes.len());
    }

    fn got(socket: &OwnedFd) -> Vec<u8> {
        wait_for(socket.as_fd(), libc::POLLIN);
        let mut bytes = vec![0; 100];
        let read = rustix::io::read(socket, &mut bytes).unwrap();
        bytes.truncate(read);
        bytes
    }

    /// A pipe with these bytes.
    fn filled(pipes: &mut Pipes, bytes: &[u8]) -> Piped {
        let (from, peer) = pair();
        let pipe = pipes.take(2).unwrap();
        assert_eq!(pipe.fill(from.as_fd(), 100), Err(Errno::AGAIN));
        sent(&peer, bytes);
        wait_for(from.as_fd(), libc::POLLIN);
        assert_eq!(pipe.fill(from.as_fd(), 100), Ok(bytes.len()));
        Piped::new(Rc::new(pipe), bytes.len())
    }

    #[test]
    fn what_was_brought_leaves_once_and_the_pipe_is_used_again() {
        let (mut pipes, (to, peer)) = (Pipes::default(), pair());
        let mut piped = filled(&mut pipes, b"abcdefgh");
        let whole = piped.clone();
        let mut first = piped.clone();
        first.truncate(3);
        let pipe = || whole.pipe::<Pipe>().unwrap();
        assert_eq!(pipe().send(to.as_fd(), &first, true), Ok(3));
        // What is skipped does not leave.
        piped.skip(5);
        assert_eq!(pipe().send(to.as_fd(), &piped, false), Ok(3));
        assert_eq!(pipe().send(to.as_fd(), &whole, false), Err(Errno::NODATA), "it has left");
        assert_eq!(got(&peer), b"abcfgh");
        assert_eq!((pipes.held(), pipes.pool.idle.borrow().len()), (1, 0));
        drop((piped, first, whole));
        assert_eq!((pipes.held(), pipes.pool.idle.borrow().len()), (0, 1));
        pipes.close_idle();
        assert!(pipes.take(0).is_none() && pipes.take(1).is_some());
    }

    #[test]
    fn one_with_bytes_in_it_is_closed() {
        let mut pipes = Pipes::default();
        let piped = filled(&mut pipes, b"left");
        assert!(pipes.take(1).is_none(), "so many are in use");
        drop(piped);
        assert_eq!((pipes.held(), pipes.pool.idle.borrow().len()), (0, 0), "nobody else gets its bytes");
    }

    /// `pipe-user-pages-soft` holds for users without rights: above it the system makes pipes of two pages.
    #[test]
    fn above_the_bound_of_its_user_none_is_made() {
        const NAME: &str = "above_the_bound_of_its_user_none_is_made";
        const PAGES: usize = (1 << 20) / 4096;
        let bound = std::fs::read_to_string("/proc/sys/fs/pipe-user-pages-soft").unwrap_or_default();
        let Some(pages) = bound.trim().parse::<usize>().ok().filter(|pages| (1..=64 * PAGES).contains(pages)) else {
            return corelane_os::testing::skip(NAME, "this system has another bound");
        };
        let is_refused = corelane_os::testing::in_child(|| {
            // SAFETY: takes numbers only.
            let is_nobody = unsafe { libc::geteuid() != 0 || libc::setresuid(65_534, 65_534, 65_534) == 0 };
            let held: Vec<_> = (0..=pages / PAGES).map(|_| pipe_with(PipeFlags::CLOEXEC)).collect();
            held.iter().flatten().for_each(|(_, write)| {
                let _ = fcntl_setpipe_size(write, 1 << 20);
            });
            // Up to the bound by the default size.
            let rest: Vec<_> = (0..16).map(|_| pipe_with(PipeFlags::CLOEXEC)).collect();
            let mut pipes = Pipes::default();
            is_nobody && rest.iter().all(Result::is_ok) && pipes.take(1).is_none() && pipes.held() == 0
        });
        assert!(is_refused);
    }

    #[test]
    fn without_descriptors_none_is_made_and_it_is_seldom_asked() {
        let is_refused = corelane_os::testing::in_child(|| {
            let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: the limit is a value of this frame.
            let set = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
            let mut pipes = Pipes::default();
            let refused = pipes.take(1).is_none() && pipes.rests == PATIENCE;
            refused && set == 0 && pipes.take(1).is_none() && pipes.rests == PATIENCE - 1 && pipes.held() == 0
        });
        assert!(is_refused);
    }
}
