//! Parts of files that are read before they leave, piece by piece, one piece ahead of what is being sent: those on their way through a transform, which changes bytes in memory, and
//! those of files that are far, since a send of them would wait for who serves them and hold up the lane.
//!
//! ```text
//! output: [head] [part of a file ............] [tail]      the transform sees [head] alone
//!                 |--read--> a lease of the lane, charged to the connection, put in front of the rest of the part
//! ```
//!
//! The driver reads where that holds no lane: by its helpers, or the kernel's. At most one piece of a connection is read, or lies here, at a time.

use crate::connection::delivery::Delivery;
use crate::connection::entry::Busy;
use crate::connection::files::Fetch;
use crate::connection::found::Found;
use crate::pending::requests::Requests;
use crate::table::LaneTable;
use crate::words::names::ConnectionId;
use corelane_lane::Kit;
use corelane_seam::{Fault, FileOp, FileOutcome, FilePart, Outcome, Reason};

/// Bytes of a piece, and the least where memory is short.
const PIECE_BYTES: usize = 64 << 10;
const PIECE_BYTES_LEAST: usize = 4 << 10;
/// The file has become shorter than what was promised to the peer (ENODATA, as drivers say that send parts of files themselves).
const SHORT_FILE: Fault = Fault { reason: Reason::Other, number: 61 };

impl Found<'_> {
    /// Has the next piece of a file read if one is due to the connection's transform, or one that is far to its socket.
    ///
    /// # Errors
    /// The file has no more, or cannot be read, and all before that has left: that ends the connection.
    pub(crate) fn fetch(&mut self, kit: &mut Kit, requests: &mut Requests) -> Result<(), Fault> {
        // Without a box there is nothing to be sent.
        let Some(busy) = self.connection.busy.as_ref() else { return Ok(()) };
        let (fetch, has_left) = (busy.fetch, busy.wire.is_empty() && !self.connection.machine.is_sending());
        let is_plain = self.connection.transform.is_none();
        let part = if is_plain { busy.output.far_at_front() } else { busy.output.file_at_front() };
        let Some(part) = part.cloned() else { return Ok(()) };
        match fetch {
            Fetch::Idle => self.begin_fetch(kit, requests, part),
            Fetch::Failed(fault) if has_left => return Err(fault),
            Fetch::UnderWay | Fetch::Failed(_) => {}
        }
        Ok(())
    }

    fn begin_fetch(&mut self, kit: &mut Kit, requests: &mut Requests, part: FilePart) {
        let most = part.length.min(PIECE_BYTES as u64) as usize;
        let before = self.begin_about().begin_to_pay(kit);
        let lease = kit.arena.lease_upto(most, most.min(PIECE_BYTES_LEAST));
        let refused = kit.arena.pay_no_longer(before);
        let Some(lease) = lease else { return self.mark_starved(&kit.arena, refused) };
        // reason: the part is in it.
        self.connection.busy.as_mut().expect("who is to send a file has its box").fetch = Fetch::UnderWay;
        let until = most.min(lease.capacity());
        let read = FileOp::Read { file: part.file, offset: part.offset, lease, until };
        requests.fetch(kit, self.connection.service(), self.id, read);
    }
}

impl LaneTable {
    /// A piece was read, or could not be.
    pub(crate) fn fetched(&mut self, kit: &Kit, id: ConnectionId, outcome: Outcome) {
        // It may have gone meanwhile, or have been refused, with all that it was to send.
        let Some(mut found) = self.found(id) else { return };
        let Some(busy) = found.connection.busy.as_mut().filter(|busy| busy.fetch == Fetch::UnderWay) else { return };
        let was_awaited = busy.awaits_file();
        busy.fetch = match outcome {
            Outcome::File(FileOutcome::Filled { lease, .. }) if !lease.is_empty() => {
                busy.output.take_piece(lease);
                Fetch::Idle
            }
            Outcome::File(FileOutcome::Filled { fault, .. }) => Fetch::Failed(fault.unwrap_or(SHORT_FILE)),
            Outcome::Failed(fault) => Fetch::Failed(fault),
            other => unreachable!("a read ends as one: {other:?}"),
        };
        if was_awaited {
            // The peer did not keep it waiting.
            busy.delivery = Delivery::NONE;
            busy.delivery.begin(kit.now());
        }
        found.mark_dirty();
    }
}

impl Busy {
    /// Whether nothing is sent but what is still to be read.
    pub(crate) fn awaits_file(&self) -> bool {
        self.fetch == Fetch::UnderWay && self.wire.is_empty() && self.sending_charged == 0
    }
}
