//! Hears of descriptors that the program closes. `shared.sh` gives these functions their C names in the shared library alone: a
//! static program's closes are found by the core at the next change or event.
//!
//! The core is told *before* the number is free, so nobody can have registered a new file under it yet. Telling takes no lock, and
//! none is held over the real call.
//!
//! Holds a marked cell: C's names, and the functions behind them.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_uint};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{kevents, owner};

/// Whose descriptor it is the core asks itself, where somebody watches it.
fn tell(descriptor: c_int) {
    if corelane_event::closed(descriptor) {
        kevents::closed(descriptor);
    }
}

/// One function of the C library, looked up when it is first needed. Two threads at once find the same.
struct Real {
    name: &'static CStr,
    address: AtomicUsize,
}

impl Real {
    const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicUsize::new(0) }
    }

    /// The address of the next function of this name; 0 where there is none.
    fn address(&self) -> usize {
        let known = self.address.load(Ordering::Relaxed);
        if known != 0 {
            return known;
        }
        // SAFETY: the name ends with a zero.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) }.expose_provenance();
        self.address.store(found, Ordering::Relaxed);
        found
    }
}

/// Calls the function of C's library behind `$real`; ENOSYS where it has none. A thread that is cancelled in it (pthread_cancel(3)) is unwound through the function
/// that calls it, which has nothing to drop by then.
macro_rules! pass {
    ($real:ident as fn($($kind:ty),*), $($argument:expr),*) => {{
        match $real.address() {
            0 => crate::failing::fail(libc::ENOSYS),
            address => {
                let pointer = std::ptr::with_exposed_provenance::<()>(address);
                // SAFETY: the function of this name in the C library, with C's signature.
                let function = unsafe { std::mem::transmute::<*const (), unsafe extern "C-unwind" fn($($kind),*) -> c_int>(pointer) };
                // SAFETY: the arguments are the caller's own, passed on as they came.
                unsafe { function($($argument),*) }
            }
        }
    }};
}

static CLOSE: Real = Real::new(c"close");
static DUP2: Real = Real::new(c"dup2");
static DUP3: Real = Real::new(c"dup3");
static CLOSE_RANGE: Real = Real::new(c"close_range");
static FCLOSE: Real = Real::new(c"fclose");

/// close(2).
#[unsafe(no_mangle)]
pub extern "C-unwind" fn corelane_close(descriptor: c_int) -> c_int {
    tell(descriptor);
    pass!(CLOSE as fn(c_int), descriptor)
}

/// dup2(2), which closes `to`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn corelane_dup2(from: c_int, to: c_int) -> c_int {
    tell_replaced(from, to);
    pass!(DUP2 as fn(c_int, c_int), from, to)
}

/// dup3(2), which closes `to`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn corelane_dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    if flags & !libc::O_CLOEXEC == 0 {
        tell_replaced(from, to);
    }
    pass!(DUP3 as fn(c_int, c_int, c_int), from, to, flags)
}

/// Called when the shared library is loaded: every close by the C library is told from now on, if it is these functions that the program and its
/// libraries call. They are not where the C library comes before this one, or where this one is loaded later (dlopen(3)).
#[unsafe(no_mangle)]
pub extern "C" fn corelane_loaded() {
    let ours: [(&CStr, *const ()); 5] = [
        (c"close", corelane_close as *const ()),
        (c"dup2", corelane_dup2 as *const ()),
        (c"dup3", corelane_dup3 as *const ()),
        (c"close_range", corelane_close_range as *const ()),
        (c"fclose", corelane_fclose as *const ()),
    ];
    // SAFETY: each name ends with a zero.
    let is_called =
        |&(name, own): &(&CStr, *const ())| std::ptr::eq(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }.cast(), own);
    if ours.iter().all(is_called) {
        corelane_event::closes_are_told();
    }
}

/// `to` becomes `from`, if that is open and another.
fn tell_replaced(from: c_int, to: c_int) {
    // SAFETY: asks a number only.
    if from != to && unsafe { libc::fcntl(from, libc::F_GETFD) } != -1 {
        tell(to);
    }
}

/// close_range(2). What is closed in a new table, or by a later exec(3), is not closed for our queues.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn corelane_close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    if flags == 0 && owner::is_this_process() {
        let highest = last.min(HIGHEST);
        (first..=highest).for_each(|number| tell(number.cast_signed()));
    }
    pass!(CLOSE_RANGE as fn(c_uint, c_uint, c_int), first, last, flags)
}

/// The highest number that close_range(2) tells of singly: what the kernel allows where nobody raised fs.nr_open.
const HIGHEST: c_uint = (1 << 20) - 1;

/// fclose(3), whose close is the C library's own.
///
/// # Safety
///
/// `stream` is open, as for fclose(3).
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn corelane_fclose(stream: *mut libc::FILE) -> c_int {
    // SAFETY: open, says the caller.
    tell(unsafe { libc::fileno(stream) });
    pass!(FCLOSE as fn(*mut libc::FILE), stream)
}
