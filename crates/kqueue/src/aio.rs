//! The functions of `corelane/aio.h`.
//!
//! Holds a marked cell: C's pointers and C's names.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use corelane_event::{Lent, Memory, Queue, Sent, Submission, Work};

use crate::cancelling::uncancelled;
use crate::failing::fail;

/// The most bytes that an address has (`struct sockaddr_storage`).
const ADDRESS: usize = size_of::<libc::sockaddr_storage>();

/// `struct corelane_aio`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Aio {
    /// `CORELANE_AIO_*`.
    pub operation: c_int,
    /// The socket, or the file that is read or written.
    pub descriptor: c_int,
    /// An open file that is sent.
    pub file: c_int,
    /// Of `address`.
    pub address_length: libc::socklen_t,
    /// A file that is opened and sent.
    pub path: *const c_char,
    /// To connect to.
    pub address: *const libc::sockaddr,
    /// The operation's until its event is told.
    pub buffer: *mut c_void,
    /// Bytes of the buffer, or of the file.
    pub length: usize,
    /// Bytes that are enough.
    pub least: usize,
    /// In the file.
    pub offset: i64,
    /// Comes back with the event.
    pub udata: *mut c_void,
}

/// Begins an operation: 0, or -1 with errno: EBADF (no queue of this process, no open descriptor), EFAULT (a null pointer with a length), EINVAL, ENOTSOCK (no
/// such operation, or not with this descriptor), ENAMETOOLONG, EAGAIN (too many operations), EEXIST (this one is under way).
///
/// # Safety
///
/// `aio` is null or points to a record whose pointers are null or valid for what the record says of them: its buffer until the operation's event is told, and nobody
/// else writes to it, nor reads what is received into it, until then. A queue is not closed before that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corelane_aio_submit(kq: c_int, aio: *const Aio) -> c_int {
    answer(with(kq, |queue| {
        // SAFETY: says the caller.
        let submission = unsafe { submission(aio) }?;
        queue.submit(submission).map_err(|refused| refused.0.number)
    }))
}

/// Begins operations whose common end is told, too: 0, or -1 with errno as [`corelane_aio_submit`], and EINVAL for a negative count.
///
/// # Safety
///
/// `list` points to `count` pointers as [`corelane_aio_submit`] takes them, or `count` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corelane_lio_submit(kq: c_int, list: *const *const Aio, count: c_int, udata: *mut c_void) -> c_int {
    answer(with(kq, |queue| {
        let count = usize::try_from(count).map_err(|_| libc::EINVAL)?;
        if count > 0 && list.is_null() {
            return Err(libc::EFAULT);
        }
        // More would be refused in any case, and need not be read.
        if count > OPERATIONS {
            return Err(libc::EAGAIN);
        }
        // SAFETY: there are as many, says the caller. C promises no more alignment than its own.
        let each = |index| unsafe { submission(list.add(index).read_unaligned()) };
        let submissions = (0..count).map(each).collect::<Result<Vec<_>, _>>()?;
        let (ident, cookie) = (list.addr() as u64, udata.expose_provenance() as u64);
        queue.submit_list(ident, cookie, submissions).map_err(|(refused, _)| refused.number)
    }))
}

/// Operations that a list may have: as many as a queue.
const OPERATIONS: usize = 4096;

/// Asks an operation to end where it is: 0, or -1 with errno ENOENT where none is under way, EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn corelane_aio_cancel(kq: c_int, aio: *const Aio) -> c_int {
    answer(with(kq, |queue| queue.cancel(aio.addr() as u64).map_err(|refused| refused.number)))
}

/// How many bytes an operation has moved whose event was not told, and how many it may move yet: -1 with errno ENOENT where there is none, EBADF.
///
/// # Safety
///
/// `left` is null or points to room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corelane_aio_progress(kq: c_int, aio: *const Aio, left: *mut i64) -> i64 {
    let number = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    match with(kq, |queue| queue.progress(aio.addr() as u64).ok_or(libc::ENOENT)) {
        Ok(progress) => {
            if !left.is_null() {
                // SAFETY: room for a number, says the caller.
                unsafe { left.write_unaligned(number(progress.left)) };
            }
            number(progress.done)
        }
        Err(error) => i64::from(fail(error)),
    }
}

fn with<T>(kq: c_int, call: impl FnOnce(&Arc<Queue>) -> Result<T, i32>) -> Result<T, i32> {
    uncancelled(|| Queue::of(kq).ok_or(libc::EBADF).and_then(|queue| call(&queue)))
}

fn answer(outcome: Result<(), i32>) -> c_int {
    outcome.map_or_else(fail, |()| 0)
}

/// # Safety
///
/// As for [`corelane_aio_submit`].
unsafe fn submission(aio: *const Aio) -> Result<Submission, i32> {
    if aio.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: points to a record, says the caller.
    let record = unsafe { aio.read_unaligned() };
    let ident = aio.addr() as u64;
    // SAFETY: the caller says so of its pointers.
    let work = unsafe { record.work() }?;
    Ok(Submission { ident, cookie: record.udata.expose_provenance() as u64, work })
}

impl Aio {
    /// # Safety
    ///
    /// The pointers that the operation uses are null or valid.
    unsafe fn work(&self) -> Result<Work, i32> {
        let (socket, file) = (self.descriptor, self.descriptor);
        let offset = u64::try_from(self.offset).map_err(|_| libc::EINVAL)?;
        Ok(match self.operation {
            1 => {
                let least = if self.least == 0 { self.length } else { self.least };
                Work::Receive { socket, memory: self.memory()?, at_least: least }
            }
            2 => Work::Send { socket, memory: self.memory()? },
            3 => Work::Accept { listener: socket },
            // SAFETY: says the caller.
            4 => Work::Connect { socket, address: unsafe { self.address() }? },
            5 => Work::SendFile { socket, file: Sent::Open(self.file), offset, length: self.length as u64 },
            // SAFETY: says the caller.
            6 => Work::SendFile { socket, file: unsafe { self.path() }?, offset, length: self.length as u64 },
            7 => Work::Read { file, memory: self.memory()?, offset },
            8 => Work::Write { file, memory: self.memory()?, offset },
            9 => Work::Sync { file },
            _ => return Err(libc::EINVAL),
        })
    }

    fn memory(&self) -> Result<Memory, i32> {
        if self.length == 0 {
            return Ok(Memory::Own(Vec::new()));
        }
        match (self.buffer.is_null(), isize::try_from(self.length)) {
            (true, _) => Err(libc::EFAULT),
            (false, Err(_)) => Err(libc::EINVAL),
            (false, Ok(_)) => Ok(Memory::Lent(Box::new(Borrowed { first: self.buffer.cast(), length: self.length }))),
        }
    }

    /// # Safety
    ///
    /// `address` is null or points to `address_length` bytes.
    unsafe fn address(&self) -> Result<Vec<u8>, i32> {
        let length = self.address_length as usize;
        if self.address.is_null() {
            return Err(libc::EFAULT);
        }
        if length > ADDRESS {
            return Err(libc::EINVAL);
        }
        // SAFETY: says the caller.
        Ok(unsafe { std::slice::from_raw_parts(self.address.cast::<u8>(), length) }.to_vec())
    }

    /// # Safety
    ///
    /// `path` is null or points to a string.
    unsafe fn path(&self) -> Result<Sent, i32> {
        if self.path.is_null() {
            return Err(libc::EFAULT);
        }
        // SAFETY: a string, says the caller.
        let path = unsafe { CStr::from_ptr(self.path) }.to_bytes();
        if path.len() >= libc::PATH_MAX as usize {
            return Err(libc::ENAMETOOLONG);
        }
        Ok(Sent::Path(OsStr::from_bytes(path).into()))
    }
}

/// A buffer of the program's, which it leaves to an operation.
struct Borrowed {
    first: *mut u8,
    length: usize,
}

// SAFETY: the program leaves the bytes to the operation, in whichever thread that is carried on.
unsafe impl Send for Borrowed {}

impl Lent for Borrowed {
    fn bytes(&self) -> &[u8] {
        // SAFETY: `corelane_aio_submit`'s caller says that the bytes are there until the operation's event is told, and that nobody writes to them.
        unsafe { std::slice::from_raw_parts(self.first, self.length) }
    }

    fn place(&mut self) -> &mut [u8] {
        // SAFETY: as above; what receives has a buffer that can be written to.
        unsafe { std::slice::from_raw_parts_mut(self.first, self.length) }
    }
}
