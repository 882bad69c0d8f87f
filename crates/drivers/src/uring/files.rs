//! Operations on local files that the kernel carries out itself, on threads of its own where it has to. Those on files that are far, and all that open one, go to helpers: the kernel would
//! open what it knows the name of at once, on the lane's thread, however long that takes.

use super::ring::Ring;
use crate::answer::Answer;
use crate::offload::FileCall;
use crate::open_file::OpenFile;
use corelane_os::errno;
use corelane_seam::Fault;
use corelane_seam::ordered::Ordered;
use io_uring::{opcode, types};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::sync::Arc;

/// An operation under way, with what the kernel uses meanwhile. Its lease or bytes stay with whoever asked.
enum Operation {
    Move(#[expect(dead_code, reason = "kept, not used")] Arc<OpenFile>),
    Sync(#[expect(dead_code, reason = "kept, not used")] Arc<OpenFile>),
    Close,
}

/// Operations under way, by their tokens.
#[derive(Default)]
pub(super) struct Files {
    operations: Ordered<u32, Operation>,
}

impl Files {
    /// Begins an operation; its completion shall carry `data`. Returns the answer at once where no kernel is needed.
    ///
    /// # Errors
    /// `EINVAL` for an offset that no file can have.
    pub(super) fn begin(&mut self, ring: &mut Ring, token: u32, data: u64, call: FileCall) -> Result<Option<Answer>, Fault> {
        let (entry, operation) = match call {
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
            FileCall::Open { .. } | FileCall::List { .. } | FileCall::Warm { .. } => unreachable!("helpers do that"),
            FileCall::Close { file } => match Arc::try_unwrap(file) {
                Ok(open) => (opcode::Close::new(types::Fd(open.file.into_raw_fd())).build(), Operation::Close),
                // The last operation that is under way on it closes it, which for a local file waits for nobody.
                Err(_) => return Ok(Some(Answer::Done)),
            },
        };
        // SAFETY: the memory of a read or write stays as whoever lent it promised.
        unsafe { ring.push(entry.user_data(data)) };
        let other = self.operations.insert(token, operation);
        assert!(other.is_none(), "a token names one operation");
        Ok(None)
    }

    /// Ends the operation of `token`.
    pub(super) fn end(&mut self, token: u32, result: i32) -> Answer {
        let operation = self.operations.remove(token);
        assert!(operation.is_some(), "an operation ends once");
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

fn descriptor(open: &Arc<OpenFile>) -> types::Fd {
    types::Fd(open.file.as_raw_fd())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_file_can_have_is_refused() {
        assert_eq!(checked(u64::MAX), Err(errno::fault(libc::EINVAL)));
        assert_eq!(checked(1 << 62), Ok(1 << 62));
    }
}
