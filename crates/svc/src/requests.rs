//! Operations that services have started themselves (files, polling, offloaded calls), and the files that nobody holds any more.

use crate::class;
use crate::names::ConnectionId;
use corelane_lane::Kit;
use corelane_seam::slab::HandleSlab;
use corelane_seam::{Fault, FileOp, FileOutcome, Handle, Op, Outcome, Reason, Unheld};
use corelane_watch::LaneCounter;

/// For whom an operation is.
#[derive(Clone, Copy)]
pub(crate) enum Asker {
    /// The service, which names it so.
    Service(u64),
    /// The output of a connection.
    Output(ConnectionId),
}

/// An operation that a service started itself, or sends a file by.
struct Request {
    service: u16,
    asker: Asker,
    is_offload: bool,
    /// It may never end by itself: a drain does not wait for it.
    is_poll: bool,
}

/// Those that are under way.
pub(crate) struct Requests {
    under_way: HandleSlab<Request>,
    /// Those of them that end by themselves.
    ending: usize,
    /// Calls that are with the helper threads.
    offloads: usize,
    unheld: Unheld,
    files_closing: usize,
}

/// One that has ended: whose it was, for whom, and how it ended.
pub(crate) struct Ended {
    pub(crate) service: u16,
    pub(crate) asker: Asker,
    pub(crate) outcome: Outcome,
}

impl Requests {
    pub(crate) fn new() -> Self {
        Self { under_way: HandleSlab::new(), ending: 0, offloads: 0, unheld: Unheld::default(), files_closing: 0 }
    }

    /// Starts an operation of a service.
    pub(crate) fn begin(&mut self, kit: &mut Kit, service: u16, op: Op, token: u64) {
        self.submit(kit, service, op, Asker::Service(token));
    }

    /// Reads a part of a file for a connection's output.
    pub(crate) fn fetch(&mut self, kit: &mut Kit, service: u16, id: ConnectionId, read: FileOp) {
        self.submit(kit, service, read.into(), Asker::Output(id));
    }

    fn submit(&mut self, kit: &mut Kit, service: u16, op: Op, asker: Asker) {
        let is_offload = matches!(op, Op::Offload(_));
        let is_file =
            matches!(op, Op::File(FileOp::Read { .. }) | Op::File(FileOp::Write { .. }) | Op::File(FileOp::Sync { .. }));
        let is_poll = matches!(op, Op::Poll { .. });
        kit.row.add(LaneCounter::Offloads, is_offload.into());
        kit.row.add(LaneCounter::FileOperations, is_file.into());
        self.offloads += usize::from(is_offload);
        self.ending += usize::from(!is_poll);
        let key = self.under_way.insert(Request { service, asker, is_offload, is_poll });
        kit.submit(Handle::new(class::REQUEST, key.index, key.generation), op);
    }

    /// An operation has ended. None if it had ended before.
    pub(crate) fn end(&mut self, kit: &mut Kit, handle: Handle, outcome: Outcome) -> Option<Ended> {
        let Request { service, asker, is_offload, is_poll } = self.under_way.remove(handle.into())?;
        assert!(self.ending >= usize::from(!is_poll), "an operation ends once");
        assert!(self.offloads >= usize::from(is_offload), "a call comes back once");
        self.ending -= usize::from(!is_poll);
        self.offloads -= usize::from(is_offload);
        let is_refused = matches!(outcome, Outcome::Failed(Fault { reason: Reason::Busy, .. }));
        kit.row.add(LaneCounter::OffloadsRefused, (is_offload && is_refused).into());
        let outcome = match outcome {
            Outcome::File(FileOutcome::Opened { file, facts }) => {
                Outcome::File(FileOutcome::Opened { file: file.held(&self.unheld), facts })
            }
            outcome => outcome,
        };
        Some(Ended { service, asker, outcome })
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
        self.under_way.values().any(|request| request.service == service && !request.is_poll)
    }

    /// Whether files are to be closed.
    pub(crate) fn has_unheld(&self) -> bool {
        !self.unheld.is_empty()
    }

    /// Closes the files that nobody holds any more.
    pub(crate) fn close_unheld(&mut self, kit: &mut Kit) {
        if self.unheld.is_empty() {
            return;
        }
        for file in self.unheld.take() {
            self.files_closing += 1;
            kit.submit(Handle::new(class::FILE, 0, 0), FileOp::Close { file });
        }
    }

    /// A file is closed.
    pub(crate) fn file_closed(&mut self) {
        assert!(self.files_closing > 0, "a file was closed that nobody had asked to close");
        self.files_closing -= 1;
    }

    /// Whether files are being closed.
    pub(crate) fn are_closing_files(&self) -> bool {
        self.files_closing > 0
    }
}
