//! A pair between which the system passes bytes by itself: how that is asked for, and what is told of it.

use crate::connection::bridging::Bridging;
use crate::connection::entry::Connection;
use crate::connection::found::Found;
use corelane_lane::Kit;
use corelane_seam::{Op, Socket};
use corelane_watch::ServiceCounter;

/// How long the system has to tell whether it has passed on something, in nanoseconds: it does so in the same turn. Less than any limit of idleness, which is judged again behind it.
const LOOK: u64 = 10_000_000;

impl Connection {
    /// The system is to be asked for it, as soon as it can be.
    pub(crate) fn wish_bridge(&mut self) {
        if self.bulk.is_unseen() && self.bridging != Bridging::Looked {
            self.bridging = Bridging::Wished;
        }
    }

    /// Whether its service has asked for it, and it has not begun.
    pub(super) fn wishes_bridge(&self) -> bool {
        self.bridging == Bridging::Wished && self.pair.is_some()
    }

    fn may_be_bridged(&self) -> bool {
        let is_at_rest = !self.machine.is_sending() && self.machine.unreleased() == 0 && !self.machine.peer_has_finished();
        is_at_rest && self.has_plain_way() && self.bulk.is_unseen()
    }

    /// Bytes that it has received and that are still in its input, and those that it is to send.
    fn waiting_bytes(&self) -> (u64, u64) {
        self.busy.as_ref().map_or((0, 0), |busy| (busy.input.len() as u64, busy.output.chain.len() as u64))
    }
}

impl Found<'_> {
    /// Asks the system for it, if its service wants that and neither of the pair has a send under way.
    pub(super) fn bridge(&mut self, kit: &mut Kit, other: &mut Connection) {
        debug_assert!(self.connection.wishes_bridge(), "only what was asked for is begun");
        let sockets = self.connection.socket.zip(other.socket);
        let Some((one, its)) = sockets.filter(|_| self.connection.may_be_bridged() && other.may_be_bridged()) else { return };
        let ((received, to_send), (others_received, others_to_send)) = (self.connection.waiting_bytes(), other.waiting_bytes());
        let held = [received + others_to_send, others_received + to_send];
        (self.connection.bridging, other.bridging) = (Bridging::Asked, Bridging::Asked);
        kit.submit(self.handle(), Op::Bridge { one, other: its, held });
    }

    /// The system has passed on so many bytes by itself. Its service is told, and counts them.
    pub(crate) fn passed_on(&mut self, kit: &Kit, bytes: u64) {
        debug_assert!(self.connection.machine.is_receiving(), "what was passed on is told to who receives");
        self.connection.machine.received(0);
        if bytes == 0 || !self.connection.machine.serves_input() {
            return self.mark_dirty();
        }
        self.connection.active_at = kit.now();
        // What one receives the other sends, and both are of this service.
        self.count(ServiceCounter::BytesIn, bytes as usize);
        self.count(ServiceCounter::BytesOut, bytes as usize);
        self.busy(&kit.arena).input.unseen += bytes;
        self.mark_ready();
    }

    /// Has the system tell what it has passed on by itself so far, if it may have.
    pub(crate) fn ask_of_unseen(&mut self, kit: &mut Kit) {
        let socket = self.connection.socket.filter(|_| self.connection.bridging != Bridging::No);
        if let Some(socket) = socket {
            kit.submit(self.handle(), Op::TellUnseen { socket });
        }
    }

    /// Nothing has come to the lane for as long as may be: whether the system is asked first if it has passed on something itself. `other` is the socket of the other of its pair.
    pub(crate) fn looks_first(&mut self, kit: &mut Kit, other: Option<Socket>) -> bool {
        // One that is to be asked again may have been asked before.
        if matches!(self.connection.bridging, Bridging::No | Bridging::Looked) {
            return false;
        }
        self.connection.bridging = Bridging::Looked;
        for socket in self.connection.socket.into_iter().chain(other) {
            kit.submit(self.handle(), Op::TellUnseen { socket });
        }
        let at = kit.now() + LOOK;
        self.move_timer(kit, at);
        true
    }
}
