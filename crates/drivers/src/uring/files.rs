//! File operations that the kernel carries out itself, on threads of its own where it has to.

use super::ring::Ring;
use crate::answer::Answer;
use crate::offload::FileCall;
use crate::opening::{self, How};
use corelane_os::errno;
use corelane_seam::{Fault, OpenOptions};
use io_uring::{opcode, squeue, types};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

/// An operation under way, with what the kernel uses meanwhile. Its lease or bytes stay with whoever asked.
enum Operation {
    Open { options: OpenOptions, _kept: (Option<Arc<File>>, CString, Box<types::OpenHow>) },
    Move(#[expect(dead_code, reason = "kept, not used")] Arc<File>),
    Sync(#[expect(dead_code, reason = "kept, not used")] Arc<File>),
    Close,
}

/// Operations under way, by their tokens.
#[derive(Default)]
pub(super) struct Files {
    operations: BTreeMap<u32, Operation>,
}

impl Files {
    /// Begins an operation; its completion shall carry `data`. Returns the answer at once where no kernel is needed.
    ///
    /// # Errors
    /// `EINVAL` for a path or an offset that no file can have.
    pub(super) fn begin(&mut self, ring: &mut Ring, token: u32, data: u64, call: FileCall) -> Result<Option<Answer>, Fault> {
        let (entry, operation) = match call {
            FileCall::Open { beneath, path, options } => open(beneath, path, options)?,
            FileCall::Read { file, offset, memory } => {
                let (start, bytes) = memory.parts();
                let read = opcode::Read::new(descriptor(&file), start, bytes as u32).offset(checked(offset)?).build();
                (read, Operation::Move(file))
            }
            FileCall::Write { file, offset, memory } => {
                let (start, bytes) = memory.parts();
                let write = opcode::Write::new(descriptor(&file), start, bytes as u32).offset(checked(offset)?).build();
                (write, Operation::Move(file))
            }
            FileCall::Sync { file } => (opcode::Fsync::new(descriptor(&file)).build(), Operation::Sync(file)),
            FileCall::List { .. } | FileCall::Warm { .. } => unreachable!("helpers do that"),
            FileCall::Close { file } => match Arc::try_unwrap(file) {
                Ok(file) => (opcode::Close::new(types::Fd(file.into_raw_fd())).build(), Operation::Close),
                // The last operation that is under way on it closes it.
                Err(_) => return Ok(Some(Answer::Done)),
            },
        };
        // SAFETY: the path stays in `operation`; that of a read or write stays as whoever lent it promised.
        unsafe { ring.push(entry.user_data(data)) };
        let other = self.operations.insert(token, operation);
        assert!(other.is_none(), "a token names one operation");
        Ok(None)
    }

    /// Ends the operation of `token`.
    pub(super) fn end(&mut self, token: u32, result: i32) -> Answer {
        let operation = self.operations.remove(&token);
        assert!(operation.is_some(), "an operation ends once");
        if let Some(Operation::Open { options, .. }) = operation {
            return open_answer(result, options);
        }
        if result < 0 {
            return Answer::Failed(errno::fault(-result));
        }
        match operation {
            Some(Operation::Move(_)) => Answer::Moved { bytes: result as usize },
            _ => Answer::Done,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }
}

/// The ring takes an offset beyond a file's range for the file's own position.
fn checked(offset: u64) -> Result<u64, Fault> {
    i64::try_from(offset).map(|_| offset).map_err(|_| errno::fault(libc::EINVAL))
}

fn descriptor(file: &Arc<File>) -> types::Fd {
    types::Fd(file.as_raw_fd())
}

fn open(beneath: Option<Arc<File>>, path: PathBuf, options: OpenOptions) -> Result<(squeue::Entry, Operation), Fault> {
    let path = CString::new(path.into_os_string().into_vec()).map_err(|_| errno::fault(libc::EINVAL))?;
    let How { flags, mode, resolve } = opening::how(options, beneath.is_some()).map_err(errno::fault_of)?;
    let how = types::OpenHow::new().flags(flags.bits().into()).mode(mode.bits().into()).resolve(resolve.bits());
    let how = Box::new(how);
    let start = types::Fd(opening::start(beneath.as_deref()).as_raw_fd());
    let entry = opcode::OpenAt2::new(start, path.as_ptr(), &raw const *how).build();
    Ok((entry, Operation::Open { options, _kept: (beneath, path, how) }))
}

fn open_answer(result: i32, options: OpenOptions) -> Answer {
    if result < 0 {
        return Answer::Failed(opening::fault(-result));
    }
    // SAFETY: the operation has just made this descriptor, and nobody else knows it.
    let file = unsafe { File::from_raw_fd(result) };
    opening::opened(file, options).unwrap_or_else(|error| Answer::Failed(errno::fault(errno::of(&error))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_file_can_have_is_refused() {
        assert_eq!(checked(u64::MAX), Err(errno::fault(libc::EINVAL)));
        assert_eq!(checked(1 << 62), Ok(1 << 62));
        assert!(open(None, "a\0b".into(), OpenOptions::new().read(true)).is_err());
        assert!(open(None, "a".into(), OpenOptions::new()).is_err());
    }
}
