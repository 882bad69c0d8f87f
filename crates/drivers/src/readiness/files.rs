//! Files and offloaded calls: helper threads or the kernel carry them out, while the driver keeps the memory.

use super::source::ReadinessSource;
use super::state::{Call, Memory, ReadinessDriver};
use crate::answer::Answer;
use crate::offload::{Ended, FileCall, LentMemory};
use crate::open_file::OpenFile;
use crate::warm;
use corelane_seam::{
    Completion, Fault, File, FileFacts, FileOp, FileOutcome, Handle, Lease, OffloadResult, OffloadWork, Outcome,
};
use std::sync::Arc;

impl<S: ReadinessSource> ReadinessDriver<S> {
    /// Gives a file operation to who carries it out; returns how it went if that is known already.
    pub(super) fn perform_on_file(&mut self, handle: Handle, op: FileOp) -> Option<Outcome> {
        match op {
            FileOp::Open { beneath, path, options } => {
                let beneath = match beneath.map(|directory| self.file(&directory)) {
                    Some(None) => return Some(Outcome::Failed(Fault::CANCELLED)),
                    directory => directory.flatten(),
                };
                let has_openat2 = self.probes.openat2;
                self.file_call(handle, Memory::None, FileCall::Open { beneath, path, options, has_openat2 })
            }
            FileOp::Read { file, offset, lease, until } => self.read(handle, file, offset, lease, until),
            FileOp::Write { file, offset, bytes } => {
                let Some(file) = self.file(&file) else { return Some(Outcome::Failed(Fault::CANCELLED)) };
                // SAFETY: the call keeps `bytes` until the helper has answered, and nobody writes shared memory.
                let memory = unsafe { LentMemory::to_read(&bytes) };
                self.file_call(handle, Memory::Written(bytes), FileCall::Write { file, offset, memory })
            }
            FileOp::Sync { file } => {
                let Some(file) = self.file(&file) else { return Some(Outcome::Failed(Fault::CANCELLED)) };
                self.file_call(handle, Memory::None, FileCall::Sync { file })
            }
            FileOp::Warm { file, offset, length } => {
                let Some(file) = self.file(&file) else { return Some(Outcome::Failed(Fault::CANCELLED)) };
                if let Some((bytes, facts)) = warm::resident(&file, offset, length) {
                    return Some(Outcome::File(warm(bytes, false, &facts)));
                }
                self.file_call(handle, Memory::None, FileCall::Warm { file, offset, length })
            }
            FileOp::List { directory, most } => {
                let Some(directory) = self.file(&directory) else { return Some(Outcome::Failed(Fault::CANCELLED)) };
                self.file_call(handle, Memory::None, FileCall::List { directory, most })
            }
            FileOp::Watch { .. } => unreachable!("a watch is no call"),
            FileOp::Close { file } => {
                let Some(file) = self.files.remove((&file).into()) else { return Some(Outcome::Failed(Fault::CANCELLED)) };
                self.file_call(handle, Memory::None, FileCall::Close { file })
            }
        }
    }

    /// Gives a call to the helpers.
    pub(super) fn offload(&mut self, handle: Handle, work: OffloadWork) -> Option<Outcome> {
        let token = self.calls.insert(Call { handle, memory: Memory::None }).index;
        self.helpers.offload(token, work.0).err().map(|fault| self.refused(token, fault))
    }

    fn read(&mut self, handle: Handle, file: File, offset: u64, mut lease: Lease, until: usize) -> Option<Outcome> {
        let Some(file) = self.file(&file) else {
            return Some(Outcome::File(FileOutcome::Filled { lease, fault: Some(Fault::CANCELLED) }));
        };
        let room = until - lease.len();
        // SAFETY: the call keeps the lease, which is exclusive, until the helper has answered.
        let memory = unsafe { LentMemory::to_write(&mut lease.spare()[..room]) };
        self.file_call(handle, Memory::Read(lease), FileCall::Read { file, offset, memory })
    }

    pub(super) fn file(&self, file: &File) -> Option<Arc<OpenFile>> {
        self.files.get(file.into()).cloned()
    }

    fn file_call(&mut self, handle: Handle, memory: Memory, call: FileCall) -> Option<Outcome> {
        let token = self.calls.insert(Call { handle, memory }).index;
        self.source.begin_file(token, call, &mut self.helpers).err().map(|fault| self.refused(token, fault))
    }

    fn refused(&mut self, token: u32, fault: Fault) -> Outcome {
        match self.calls.remove_at(token).memory {
            Memory::Read(lease) => Outcome::File(FileOutcome::Filled { lease, fault: Some(fault) }),
            Memory::None | Memory::Written(_) => Outcome::Failed(fault),
        }
    }

    /// Completes the calls that helpers, or the source, have ended, of those that are under way.
    pub(super) fn take_ended(&mut self, completions: &mut Vec<Completion>) {
        assert!(self.ended.is_empty() && !self.calls.is_empty(), "what has ended was under way");
        self.helpers.take_ended(&mut self.ended);
        self.source.take_ended(&mut self.ended);
        if self.ended.is_empty() {
            return;
        }
        let mut ended = std::mem::take(&mut self.ended);
        for Ended { token, answer, .. } in ended.drain(..) {
            let Call { handle, memory } = self.calls.remove_at(token);
            let outcome = self.outcome(memory, answer);
            completions.push(Completion::last(handle, outcome));
        }
        self.ended = ended;
    }

    fn outcome(&mut self, memory: Memory, answer: Answer) -> Outcome {
        match (memory, answer) {
            (Memory::Read(mut lease), Answer::Moved { bytes }) => {
                lease.advance(bytes);
                Outcome::File(FileOutcome::Filled { lease, fault: None })
            }
            (Memory::Read(lease), Answer::Failed(fault)) => Outcome::File(FileOutcome::Filled { lease, fault: Some(fault) }),
            (_, Answer::Failed(fault)) => Outcome::Failed(fault),
            (Memory::Written(shared), Answer::Moved { bytes }) => {
                assert!(bytes <= shared.len(), "no more is written than was given");
                Outcome::File(FileOutcome::Written { bytes })
            }
            (Memory::None, Answer::Moved { .. }) => unreachable!("bytes move from or to memory"),
            // Of a file that is far nothing was read.
            (_, Answer::Warm { bytes, facts }) => Outcome::File(warm(bytes, !facts.is_far, &facts)),
            (_, Answer::Listed { names, is_whole }) => Outcome::File(FileOutcome::Listed { names, is_whole }),
            (_, Answer::Done) => Outcome::File(FileOutcome::Done),
            (_, Answer::Returned(value)) => Outcome::Offloaded(OffloadResult(value)),
            (_, Answer::Opened { file, facts }) => {
                Outcome::File(FileOutcome::Opened { file: self.files.insert(Arc::new(file)).into(), facts })
            }
        }
    }
}

fn warm(bytes: u64, was_cold: bool, facts: &FileFacts) -> FileOutcome {
    FileOutcome::Warm { bytes, was_cold, length: facts.length, modified: facts.modified }
}
