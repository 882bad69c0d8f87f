//! Files, offloaded calls, and descriptors of others.

use super::descriptors::BAD_DESCRIPTOR;
use crate::check::Booked;
use crate::faults::FaultKind;
use crate::lane::{FileWork, OpenFile};
use crate::paths::NOT_A_DIRECTORY;
use crate::state::{Event, State};
use corelane_seam::{
    Fault, File, FileFacts, FileOp, FileOutcome, Interest, Lease, OffloadResult, OffloadWork, OpenOptions, Outcome, Reason,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

/// The disk failed (EIO).
const DISK: Fault = Fault { reason: Reason::Other, number: 5 };
/// Something was renamed meanwhile (EAGAIN of openat2(2)).
const RACED: Fault = Fault { reason: Reason::Busy, number: 11 };

impl State {
    /// Starts work on a file; it ends after some time.
    pub(super) fn start_on_file(&mut self, lane: usize, asked: Booked, op: FileOp) {
        let open = match &op {
            FileOp::Open { beneath: Some(file), .. }
            | FileOp::Read { file, .. }
            | FileOp::Write { file, .. }
            | FileOp::Sync { file }
            | FileOp::Warm { file, .. }
            | FileOp::List { directory: file, .. }
            | FileOp::Watch { directory: file }
            | FileOp::Close { file } => self.lanes[lane].files.get(file.into()).copied(),
            FileOp::Open { beneath: None, .. } => None,
        };
        let work = match (op, open) {
            (FileOp::Open { beneath: None, path, options }, _) => FileWork::Open { beneath: None, path, options },
            (op, None) => return self.complete(lane, asked, None, refused(op, Fault::CANCELLED)),
            (FileOp::Open { path, options, .. }, Some(OpenFile { content, .. })) => {
                FileWork::Open { beneath: Some(content), path, options }
            }
            (FileOp::Close { file }, Some(OpenFile { is_far, .. })) => {
                self.close_file(lane, &file);
                if !is_far {
                    return self.complete(lane, asked, None, FileOutcome::Done.into());
                }
                FileWork::Close
            }
            (FileOp::Read { offset, lease, until, .. }, Some(OpenFile { content, read: true, .. })) => {
                FileWork::Read { content, offset, lease, until }
            }
            (FileOp::Write { offset, bytes, .. }, Some(OpenFile { content, write: true, .. })) => {
                FileWork::Write { content, offset, bytes }
            }
            (FileOp::Sync { .. }, _) => FileWork::Sync,
            (FileOp::Warm { offset, length, .. }, Some(OpenFile { content, read: true, .. })) => {
                return self.warm(lane, asked, content, (offset, length));
            }
            (FileOp::Watch { .. }, Some(OpenFile { is_far: true, .. })) => {
                return self.complete(lane, asked, None, Outcome::Failed(Fault::of(Reason::Unsupported)));
            }
            (FileOp::Watch { .. }, Some(OpenFile { content, .. })) if self.files.is_directory(content) => {
                return self.watch(lane, asked, content);
            }
            (op @ FileOp::Watch { .. }, Some(_)) => return self.complete(lane, asked, None, refused(op, NOT_A_DIRECTORY)),
            (FileOp::List { most, .. }, Some(OpenFile { content, .. })) => FileWork::List { content, most },
            (op, _) => return self.complete(lane, asked, None, refused(op, BAD_DESCRIPTOR)),
        };
        let delay = self.random.delay() + self.far_delay.unwrap_or(0);
        self.clock.after(delay, Event::File { lane, asked, work });
    }

    /// Work on a file ends.
    pub(crate) fn work_on_file(&mut self, lane: usize, asked: Booked, work: FileWork) {
        let needs_disk = !matches!(work, FileWork::Open { .. } | FileWork::Close);
        let fails = !matches!(work, FileWork::Close) && self.strikes(FaultKind::FileError) || self.disk_is_broken && needs_disk;
        let outcome = match work {
            FileWork::Read { lease, .. } if fails => Outcome::File(FileOutcome::Filled { lease, fault: Some(DISK) }),
            _ if fails => Outcome::Failed(DISK),
            FileWork::Read { content, offset, lease, until } => self.read_file(content, offset, lease, until),
            FileWork::Open { beneath, path, options } => {
                self.open_file(lane, beneath, path, options).unwrap_or_else(Outcome::Failed)
            }
            FileWork::Write { content, offset, bytes } => match self.files.write(self.clock.now(), content, offset, &bytes) {
                Ok(()) => Outcome::File(FileOutcome::Written { bytes: bytes.len() }),
                Err(fault) => Outcome::Failed(fault),
            },
            FileWork::Sync | FileWork::Close => Outcome::File(FileOutcome::Done),
            FileWork::Warm { content, offset, length, was_cold } => {
                let bytes = self.files.slice(content, offset, length).len() as u64;
                let FileFacts { length, modified, .. } = self.files.facts(content);
                Outcome::File(FileOutcome::Warm { bytes, was_cold, length, modified })
            }
            FileWork::List { content, most } => self.files.list(content, most).map_or_else(Outcome::Failed, Outcome::File),
        };
        self.tell_of_files();
        self.complete(lane, asked, None, outcome);
    }

    /// All is warm as long as the disk is not slow.
    fn warm(&mut self, lane: usize, asked: Booked, content: usize, (offset, length): (u64, u64)) {
        let delay = self.far_delay.unwrap_or(self.disk_delay);
        // Of a file that is far nothing is read.
        let was_cold = self.far_delay.is_none() && delay > 0;
        let work = FileWork::Warm { content, offset, length, was_cold };
        match delay > 0 {
            true => self.clock.after(delay, Event::File { lane, asked, work }),
            false => self.work_on_file(lane, asked, work),
        }
    }

    fn open_file(&mut self, lane: usize, beneath: Option<usize>, path: PathBuf, options: OpenOptions) -> Result<Outcome, Fault> {
        if beneath.is_some() && self.strikes(FaultKind::RacedFile) {
            return Err(RACED);
        }
        let descriptor = self.open_descriptor(lane);
        self.with_descriptor(lane, descriptor, |state, descriptor| {
            let content = state.files.open(state.clock.now(), beneath, &path, options)?;
            let is_far = state.far_delay.is_some();
            let open = OpenFile { content, read: options.read, write: options.write, is_far, descriptor };
            Ok(Outcome::File(FileOutcome::Opened {
                file: state.lanes[lane].files.insert(open).into(),
                facts: state.files.facts(content).far(is_far),
            }))
        })
    }

    fn close_file(&mut self, lane: usize, file: &File) {
        let own = &mut self.lanes[lane];
        if let Some(closed) = own.files.remove(file.into()) {
            own.descriptors.close(closed.descriptor);
        }
    }

    fn read_file(&mut self, content: usize, offset: u64, mut lease: Lease, until: usize) -> Outcome {
        if let Some(fault) = self.files.unreadable(content) {
            return Outcome::File(FileOutcome::Filled { lease, fault: Some(fault) });
        }
        assert!(until > lease.len() && until <= lease.capacity(), "a read needs room, within the lease");
        let room = until - lease.len();
        let mut bytes = self.files.slice(content, offset, room as u64).len();
        if bytes > 1 && self.strikes(FaultKind::ShortFileRead) {
            bytes = self.random.one_to(bytes - 1);
        }
        lease.append(self.files.slice(content, offset, bytes as u64));
        Outcome::File(FileOutcome::Filled { lease, fault: None })
    }

    pub(super) fn offload(&mut self, lane: usize, asked: Booked, work: OffloadWork) {
        let own = &mut self.lanes[lane];
        if own.offloaded >= own.tuning.offload_max {
            return self.complete(lane, asked, None, Outcome::Failed(Fault::of(Reason::Busy)));
        }
        own.offloaded += 1;
        let delay = self.random.delay();
        self.clock.after(delay, Event::Offload { lane, asked, work });
    }

    /// Runs an offloaded call; a panic in it is its caller's fault and nobody else's.
    pub(crate) fn run_offloaded(&mut self, lane: usize, asked: Booked, work: OffloadWork) {
        let result = catch_unwind(AssertUnwindSafe(work.0));
        self.lanes[lane].offloaded -= 1;
        let outcome = match result {
            Ok(value) => Outcome::Offloaded(OffloadResult(value)),
            Err(_) => Outcome::Failed(Fault::of(Reason::Other)),
        };
        self.complete(lane, asked, None, outcome);
    }

    pub(super) fn poll(&mut self, lane: usize, asked: Booked, descriptor: i32, interest: Interest) {
        let Some(&ready) = self.lanes[lane].foreign.get(&descriptor) else {
            return self.complete(lane, asked, None, Outcome::Failed(BAD_DESCRIPTOR));
        };
        match common(ready, interest) {
            Some(interest) => self.complete(lane, asked, None, Outcome::Ready { interest }),
            None => self.lanes[lane].polls.push((asked, descriptor, interest)),
        }
    }

    /// Changes what a descriptor is ready for, and ends the polls that waited for it.
    pub(crate) fn make_ready(&mut self, lane: usize, descriptor: i32, ready: Interest) {
        let known = self.lanes[lane].foreign.insert(descriptor, ready);
        assert!(known.is_some(), "descriptor {descriptor} is not open in the table of lane {lane}");
        let polls = std::mem::take(&mut self.lanes[lane].polls);
        for (asked, of, interest) in polls {
            match common(ready, interest).filter(|_| of == descriptor) {
                Some(interest) => self.complete(lane, asked, None, Outcome::Ready { interest }),
                None => self.lanes[lane].polls.push((asked, of, interest)),
            }
        }
    }
}

/// What is both there and wanted.
fn common(ready: Interest, wanted: Interest) -> Option<Interest> {
    let both = Interest { read: ready.read && wanted.read, write: ready.write && wanted.write };
    (both != Interest::default()).then_some(both)
}

/// How an operation ends that never began; its memory goes back.
fn refused(op: FileOp, fault: Fault) -> Outcome {
    match op {
        FileOp::Read { lease, .. } => Outcome::File(FileOutcome::Filled { lease, fault: Some(fault) }),
        _ => Outcome::Failed(fault),
    }
}
