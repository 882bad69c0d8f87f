//! Operations that services have started themselves (files, polling, watches, offloaded calls), and the files that nobody holds any more.

use crate::words::class;
use crate::words::names::ConnectionId;
use corelane_lane::Kit;
use corelane_seam::slab::{HandleSlab, Key};
use corelane_seam::{Fault, File, FileOp, FileOutcome, Handle, Level, Op, Outcome, Reason, Record, Unheld};
use corelane_watch::LaneCounter;
use std::cell::RefCell;
use std::rc::Rc;

/// For whom an operation is.
#[derive(Clone, Copy)]
pub(crate) enum Submitter {
    /// The service, which names it so.
    Service(u64),
    /// The output of a connection.
    Output(ConnectionId),
}

/// An operation that a service started itself, or sends a file by.
struct Request {
    service: u16,
    asker: Submitter,
    sort: Sort,
}

/// What of an operation is remembered until it ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    Usual,
    Offload,
    Poll,
    Watch,
}

impl Sort {
    fn of(op: &Op) -> Self {
        match op {
            Op::Offload(_) => Self::Offload,
            Op::Poll { .. } => Self::Poll,
            Op::File(FileOp::Watch { .. }) => Self::Watch,
            _ => Self::Usual,
        }
    }

    /// Whether it ends by itself: a drain does not wait for others.
    fn ends(self) -> bool {
        matches!(self, Self::Usual | Self::Offload)
    }
}

/// Those that are under way.
pub(crate) struct Requests {
    under_way: HandleSlab<Request>,
    /// Those of them that end by themselves.
    ending: usize,
    /// Directories that are watched.
    watches: usize,
    /// The lane ends: none is watched any more.
    ends_watches: bool,
    /// Calls that are with the helper threads.
    offloads: usize,
    unheld: Unheld,
    /// Watches that nobody keeps any more.
    unwatched: Unwatched,
    /// The operator knows that a watch was refused.
    has_told_refused: bool,
    files_closing: usize,
}

type Unwatched = Rc<RefCell<Vec<Handle>>>;

/// A directory that a service watches ([`Cx::watch_directory`](crate::Cx::watch_directory)): as long as this is kept, unless something happens there before.
#[derive(Debug)]
pub struct Watch {
    handle: Handle,
    unheld: Unwatched,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.unheld.borrow_mut().push(self.handle);
    }
}

/// One that has ended: whose it was, for whom, and how it ended.
pub(crate) struct Ended {
    pub(crate) service: u16,
    pub(crate) asker: Submitter,
    pub(crate) outcome: Outcome,
}

impl Requests {
    pub(crate) fn new() -> Self {
        let (unheld, unwatched) = Default::default();
        Self {
            under_way: HandleSlab::new(),
            ending: 0,
            watches: 0,
            ends_watches: false,
            offloads: 0,
            unheld,
            unwatched,
            has_told_refused: false,
            files_closing: 0,
        }
    }

    /// Starts an operation of a service.
    pub(crate) fn begin(&mut self, kit: &mut Kit, service: u16, op: Op, token: u64) {
        self.submit(kit, service, op, Submitter::Service(token));
    }

    /// Watches a directory for a service, as long as what is returned is kept.
    pub(crate) fn watch(&mut self, kit: &mut Kit, service: u16, directory: File, token: u64) -> Watch {
        let handle = self.submit(kit, service, FileOp::Watch { directory }.into(), Submitter::Service(token));
        if self.ends_watches {
            self.unwatched.borrow_mut().push(handle);
        }
        Watch { handle, unheld: self.unwatched.clone() }
    }

    /// Nothing else goes on: all watches end, and those that are begun.
    pub(crate) fn end_watches(&mut self, kit: &mut Kit) {
        self.ends_watches = true;
        for (Key { index, generation }, _) in self.under_way.iter().filter(|(_, request)| request.sort == Sort::Watch) {
            let target = Handle::new(class::REQUEST, index, generation);
            kit.submit(target, Op::Cancel { target });
        }
    }

    /// Whether directories are watched.
    pub(crate) fn watch_any(&self) -> bool {
        self.watches > 0
    }

    /// The service that watches, its name for it, and what it is told; the watch goes on.
    pub(crate) fn told(&self, handle: Handle, outcome: Outcome) -> Option<Ended> {
        let Request { service, asker, sort } = self.under_way.get(handle.into())?;
        assert!(*sort == Sort::Watch, "of no other operation more than its end is told");
        Some(Ended { service: *service, asker: *asker, outcome })
    }

    /// Reads a part of a file for a connection's output.
    pub(crate) fn fetch(&mut self, kit: &mut Kit, service: u16, id: ConnectionId, read: FileOp) {
        self.submit(kit, service, read.into(), Submitter::Output(id));
    }

    fn submit(&mut self, kit: &mut Kit, service: u16, op: Op, asker: Submitter) -> Handle {
        let sort = Sort::of(&op);
        let is_file =
            matches!(op, Op::File(FileOp::Read { .. }) | Op::File(FileOp::Write { .. }) | Op::File(FileOp::Sync { .. }));
        let is_offload = sort == Sort::Offload;
        kit.row.add(LaneCounter::Offloads, is_offload.into());
        kit.row.add(LaneCounter::FileOperations, is_file.into());
        self.offloads += usize::from(is_offload);
        self.ending += usize::from(sort.ends());
        self.watches += usize::from(sort == Sort::Watch);
        let key = self.under_way.insert(Request { service, asker, sort });
        let handle = Handle::new(class::REQUEST, key.index, key.generation);
        kit.submit(handle, op);
        handle
    }

    /// An operation has ended. None if it had ended before.
    pub(crate) fn end(&mut self, kit: &mut Kit, handle: Handle, outcome: Outcome) -> Option<Ended> {
        let Request { service, asker, sort } = self.under_way.remove(handle.into())?;
        let is_offload = sort == Sort::Offload;
        assert!(self.ending >= usize::from(sort.ends()), "an operation ends once");
        assert!(self.offloads >= usize::from(is_offload), "a call comes back once");
        assert!(self.watches >= usize::from(sort == Sort::Watch), "a watch ends once");
        self.watches -= usize::from(sort == Sort::Watch);
        self.ending -= usize::from(sort.ends());
        self.offloads -= usize::from(is_offload);
        let is_refused = matches!(outcome, Outcome::Failed(Fault { reason: Reason::Busy, .. }));
        kit.row.add(LaneCounter::OffloadsRefused, (is_offload && is_refused).into());
        match outcome {
            Outcome::Failed(fault) if sort == Sort::Watch && fault.reason != Reason::Cancelled => self.watch_refused(kit, fault),
            _ => {}
        }
        let outcome = match outcome {
            Outcome::File(FileOutcome::Opened { file, facts }) => {
                Outcome::File(FileOutcome::Opened { file: file.held(&self.unheld, facts.is_far), facts })
            }
            outcome => outcome,
        };
        Some(Ended { service, asker, outcome })
    }

    /// Counts a watch that was refused; of the first the operator is told.
    fn watch_refused(&mut self, kit: &mut Kit, fault: Fault) {
        kit.row.add(LaneCounter::WatchesRefused, 1);
        if std::mem::replace(&mut self.has_told_refused, true) {
            return;
        }
        let remedy = match (fault.reason, fault.number) {
            (Reason::Busy, 0) => "; remedy: let a lane watch more directories (--watches-max, DriverSettings::watches_max)",
            (Reason::Busy, _) => "; remedy: raise fs.inotify.max_user_watches (sysctl)",
            (Reason::Unsupported, _) => "; nobody here hears of all changes on its file system (FUSE, NFS and others)",
            (Reason::NoDescriptor, _) => "; remedy: raise fs.inotify.max_user_instances (sysctl), or ulimit -n",
            _ => "",
        };
        kit.report(Record::new(
            Level::Warn,
            format!("a directory is not watched ({fault}): files in such are looked at again each second{remedy}"),
        ));
    }

    /// How many more calls may be with the helper threads.
    pub(crate) fn offload_room(&self, kit: &Kit) -> usize {
        kit.offload_max().saturating_sub(self.offloads)
    }

    /// Whether nothing is under way that ends by itself.
    pub(crate) fn have_ended(&self) -> bool {
        self.ending == 0
    }

    /// Whether operations of the service are under way that end by themselves.
    pub(crate) fn are_due_to(&self, service: u16) -> bool {
        self.under_way.values().any(|request| request.service == service && request.sort.ends())
    }

    /// Whether files are to be closed, or watches to be ended.
    pub(crate) fn has_unheld(&self) -> bool {
        !self.unheld.is_empty() || !self.unwatched.borrow().is_empty()
    }

    /// Closes the files that nobody holds any more, and ends the watches.
    pub(crate) fn close_unheld(&mut self, kit: &mut Kit) {
        for target in self.unwatched.borrow_mut().drain(..) {
            if self.under_way.get(target.into()).is_some() {
                kit.submit(target, Op::Cancel { target });
            }
        }
        if self.unheld.is_empty() {
            return;
        }
        for file in self.unheld.take() {
            self.files_closing += 1;
            kit.submit(Handle::new(class::FILE, 0, 0), FileOp::Close { file });
        }
    }

    /// A file is closed, whatever the system had to say about that.
    pub(crate) fn file_closed(&mut self, outcome: &Outcome) {
        let is_end = matches!(outcome, Outcome::File(FileOutcome::Done) | Outcome::Failed(_));
        assert!(is_end, "a file's close ends so: {outcome:?}");
        assert!(self.files_closing > 0, "a file was closed that nobody had asked to close");
        self.files_closing -= 1;
    }

    /// Whether files are being closed.
    pub(crate) fn are_closing_files(&self) -> bool {
        self.files_closing > 0
    }
}
