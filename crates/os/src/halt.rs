//! Where a thread of this process is: its registers and a copy of its stack, taken while it runs, computes or waits.
//!
//! The thread gets a signal of ours. Its handler copies both into memory that was made before, by one system call that finds out itself where the
//! stack ends (process_vm_readv(2)), and wakes whoever asked. It allocates nothing and takes no lock, so the thread may have been anywhere.
//! Calls that the thread waits in go on by themselves, or end with EINTR where the kernel has no such way (signal(7)).

use rustix::thread::futex;
use std::cell::UnsafeCell;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Bytes of a stack that are copied at the most.
pub const STACK_BYTES_MAX: usize = PAGE * PAGES;
const PAGE: usize = 4096;
const PAGES: usize = 32;

/// The registers by which a stack is unwound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// The instruction.
    pub ip: u64,
    /// The stack's end, which is its lowest address.
    pub sp: u64,
    /// The frame pointer, if it is used as one.
    pub fp: u64,
    /// Where the function returns to, on processors that keep it in a register; else 0.
    pub lr: u64,
}

/// A thread's registers, and its stack from `sp` on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// The registers.
    pub registers: Registers,
    /// Bytes from `sp` on: all, or as many as were copied.
    pub bytes: Vec<u8>,
}

impl Stack {
    /// The word at an address, if it was copied.
    pub fn word(&self, address: u64) -> Option<u64> {
        let start = usize::try_from(address.checked_sub(self.registers.sp)?).ok()?;
        let bytes = self.bytes.get(start..start.checked_add(8)?)?;
        bytes.try_into().ok().map(u64::from_ne_bytes)
    }
}

/// Nobody asks; somebody does; the thread writes; it has written.
const IDLE: u32 = 0;
const ASKED: u32 = 1;
const WRITING: u32 = 2;
const WRITTEN: u32 = 3;

struct Page {
    state: AtomicU32,
    registers: [AtomicU64; 4],
    bytes: AtomicUsize,
    copy: UnsafeCell<[u8; STACK_BYTES_MAX]>,
}

// SAFETY: the copy is written by the one thread that has taken `state` from ASKED to WRITING, and read by the one sampler that there is
// when it is WRITTEN.
unsafe impl Sync for Page {}

static PAGE_OF_HANDLER: Page = Page {
    state: AtomicU32::new(IDLE),
    registers: [const { AtomicU64::new(0) }; 4],
    bytes: AtomicUsize::new(0),
    copy: UnsafeCell::new([0; STACK_BYTES_MAX]),
};
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The right to look at threads of this process: there is one at a time.
pub struct Sampler(());

impl Sampler {
    /// Takes a real-time signal (SIGRTMIN+5) for it, with a handler that stays for the process's life.
    ///
    /// # Errors
    /// `AlreadyExists` if there is a sampler, or if somebody else has a handler for that signal; what the system says.
    pub fn new() -> io::Result<Self> {
        if IS_TAKEN.swap(true, Ordering::AcqRel) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "this process has a sampler of threads: one is enough"));
        }
        let sampler = Self(());
        install().map(|()| sampler)
    }

    /// Where a thread of this process is (gettid(2)).
    ///
    /// # Errors
    /// `NotFound` if there is no such thread, `TimedOut` if it has not answered within `patience`: it blocks the signal, or waits in a call that
    /// nothing interrupts, such as for a disk.
    pub fn look(&mut self, thread: u32, patience: Duration) -> io::Result<Stack> {
        let page = &PAGE_OF_HANDLER;
        assert!(page.state.load(Ordering::Acquire) != ASKED, "there is one sampler, and it asks once at a time");
        page.state.store(ASKED, Ordering::Release);
        if let Err(error) = signal(thread) {
            page.state.store(IDLE, Ordering::Release);
            return Err(error);
        }
        let give_up = crate::clock::now().saturating_add(patience.as_nanos() as u64);
        loop {
            let state = page.state.load(Ordering::Acquire);
            if state == WRITTEN {
                return Ok(taken(page));
            }
            let left = give_up.saturating_sub(crate::clock::now());
            // A thread that has begun to write will have written in a moment.
            if left == 0 && page.state.compare_exchange(ASKED, IDLE, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the thread does not answer: it waits for a disk, or the like",
                ));
            }
            let wait = crate::clock::timespec(left.max(1_000_000));
            let _ = futex::wait(&page.state, futex::Flags::PRIVATE, state, Some(&wait));
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        IS_TAKEN.store(false, Ordering::Release);
    }
}

fn taken(page: &Page) -> Stack {
    let [ip, sp, fp, lr] = [0, 1, 2, 3].map(|place: usize| page.registers[place].load(Ordering::Relaxed));
    let bytes = page.bytes.load(Ordering::Relaxed).min(STACK_BYTES_MAX);
    // SAFETY: the state was WRITTEN, and nobody writes before it is ASKED again, which only this sampler does.
    let copy = unsafe { &*page.copy.get() };
    let stack = Stack { registers: Registers { ip, sp, fp, lr }, bytes: copy[..bytes].to_vec() };
    page.state.store(IDLE, Ordering::Release);
    stack
}

fn number() -> i32 {
    libc::SIGRTMIN() + 5
}

fn install() -> io::Result<()> {
    // SAFETY: zeros are a `struct sigaction` with the default action.
    let (mut new, mut old): (libc::sigaction, libc::sigaction) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    let own = handler as extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) as usize;
    (new.sa_sigaction, new.sa_flags) = (own, libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK);
    // SAFETY: both structures are there for the calls; the handler does only what a handler may.
    let done = unsafe {
        if libc::sigaction(number(), std::ptr::null(), &raw mut old) == 0
            && old.sa_sigaction != own
            && old.sa_sigaction != libc::SIG_DFL
        {
            IS_TAKEN.store(false, Ordering::Release);
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "somebody else has a handler for SIGRTMIN+5"));
        }
        libc::sigaction(number(), &raw const new, std::ptr::null_mut())
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn signal(thread: u32) -> io::Result<()> {
    // SAFETY: the call takes numbers only, and a thread of this process has the handler.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), thread, number()) };
    match sent {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ESRCH) => {
                Err(io::Error::new(io::ErrorKind::NotFound, "the thread has ended"))
            }
            error => Err(error),
        },
    }
}

/// Runs on the thread that is looked at, wherever it was: nothing here allocates, locks or panics.
extern "C" fn handler(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let page = &PAGE_OF_HANDLER;
    if page.state.compare_exchange(ASKED, WRITING, Ordering::AcqRel, Ordering::Acquire).is_err() {
        return;
    }
    // SAFETY: the kernel gives a handler with SA_SIGINFO a `ucontext_t` that stays until it returns.
    let registers = registers(unsafe { &*context.cast::<libc::ucontext_t>() });
    // SAFETY: this thread has just taken the state to WRITING, so that nobody else touches the copy.
    let bytes = unsafe { copy(registers.sp, page.copy.get().cast()) };
    for (place, value) in page.registers.iter().zip([registers.ip, registers.sp, registers.fp, registers.lr]) {
        place.store(value, Ordering::Relaxed);
    }
    page.bytes.store(bytes, Ordering::Relaxed);
    page.state.store(WRITTEN, Ordering::Release);
    let _ = futex::wake(&page.state, futex::Flags::PRIVATE, 1);
}

#[cfg(target_arch = "x86_64")]
fn registers(context: &libc::ucontext_t) -> Registers {
    let all = &context.uc_mcontext.gregs;
    let of = |number: i32| all[number as usize] as u64;
    Registers { ip: of(libc::REG_RIP), sp: of(libc::REG_RSP), fp: of(libc::REG_RBP), lr: 0 }
}

#[cfg(target_arch = "aarch64")]
fn registers(context: &libc::ucontext_t) -> Registers {
    let all = &context.uc_mcontext;
    Registers { ip: all.pc, sp: all.sp, fp: all.regs[29], lr: all.regs[30] }
}

/// Copies what there is from `from` on; returns how many bytes. The kernel stops where nothing is mapped, and says so.
///
/// # Safety
/// `to` has [`STACK_BYTES_MAX`] bytes, which nobody else touches.
unsafe fn copy(from: u64, to: *mut u8) -> usize {
    let local = libc::iovec { iov_base: to.cast(), iov_len: STACK_BYTES_MAX };
    // A piece a page, so that what is before the end is copied.
    let first = PAGE - from as usize % PAGE;
    let mut remote = [libc::iovec { iov_base: from as *mut libc::c_void, iov_len: first }; PAGES];
    for (place, piece) in remote.iter_mut().enumerate().skip(1) {
        let start = (from as usize).wrapping_add(first + (place - 1) * PAGE);
        *piece = libc::iovec { iov_base: start as *mut libc::c_void, iov_len: PAGE };
    }
    // SAFETY: the kernel writes to `to` only as much as it has room for, and checks what it reads. The number of the process is asked of the
    // kernel, which a handler may.
    let read = unsafe {
        let own = libc::syscall(libc::SYS_getpid);
        let saved = *libc::__errno_location();
        let read = libc::syscall(libc::SYS_process_vm_readv, own, &raw const local, 1usize, remote.as_ptr(), PAGES, 0usize);
        *libc::__errno_location() = saved;
        read
    };
    usize::try_from(read).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::thread_id;
    use std::sync::mpsc;

    #[test]
    fn a_thread_that_computes_and_one_that_waits_are_seen_and_one_that_is_gone_is_not() {
        let mut sampler = Sampler::new().unwrap();
        assert_eq!(Sampler::new().err().map(|error| error.kind()), Some(io::ErrorKind::AlreadyExists));
        static GO_ON: AtomicBool = AtomicBool::new(true);
        let (tell, told) = mpsc::channel();
        let computes = std::thread::spawn({
            let tell = tell.clone();
            move || {
                tell.send(thread_id()).unwrap();
                while GO_ON.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            }
        });
        let patience = Duration::from_secs(30);
        let busy = told.recv().unwrap();
        let (end, ends) = mpsc::channel::<()>();
        let waits = std::thread::spawn(move || {
            tell.send(thread_id()).unwrap();
            ends.recv().unwrap_err();
        });
        let idle = told.recv().unwrap();
        for thread in [busy, idle, busy] {
            let stack = sampler.look(thread, patience).unwrap();
            assert!(stack.registers.ip != 0 && stack.bytes.len() >= 64, "{:?}", stack.registers);
            assert_eq!(
                stack.word(stack.registers.sp).map(u64::to_ne_bytes).as_ref().map(|word| &word[..]),
                Some(&stack.bytes[..8])
            );
            assert_eq!((stack.word(stack.registers.sp - 1), stack.word(u64::MAX)), (None, None));
        }
        GO_ON.store(false, Ordering::Relaxed);
        drop(end);
        computes.join().unwrap();
        waits.join().unwrap();
        // A thread that was joined is still there for a moment, and answers no signal any more.
        while std::path::Path::new(&format!("/proc/self/task/{busy}")).exists() {
            std::thread::yield_now();
        }
        assert_eq!(sampler.look(busy, patience).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
