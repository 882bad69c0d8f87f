//! What the system dropped at datagram sockets because their buffers were full. It tells nobody, so who wants to know must ask, with a
//! system call a socket: those at which something came are asked a second later, and each once more before it closes. Where nothing comes,
//! nothing is dropped, and nobody asks.

use crate::class;
use crate::limits::SECOND;
use crate::names::SocketId;
use crate::services::Services;
use crate::table::Table;
use corelane_lane::Kit;
use corelane_seam::{Driver, Handle};
use corelane_watch::ServiceCounter;

/// What is to be asked, and when.
#[derive(Default)]
pub(crate) struct Drops {
    /// Sockets at which something came since they were asked.
    heard: Vec<SocketId>,
    /// Those to be asked before the operations of this turn are carried out.
    due: Vec<SocketId>,
    timer_runs: bool,
}

/// What a socket's counts say.
#[derive(Default)]
pub(crate) struct Dropped {
    is_heard: bool,
    /// As of the last time it was asked.
    packets: u32,
}

impl Drops {
    /// Makes room for one more socket, to be heard and to be asked, with nothing to be allocated later.
    pub(crate) fn admit(&mut self, sockets: usize) {
        self.heard.reserve(sockets.saturating_sub(self.heard.len()));
        // One that was heard may be asked once more, because it closes.
        self.due.reserve((2 * sockets).saturating_sub(self.due.len()));
    }
}

impl Services {
    /// Something came at a socket: soon it is to be asked.
    pub(crate) fn heard(&mut self, kit: &mut Kit, id: SocketId) {
        let Some(entry) = self.table.find_socket(id) else { return };
        if std::mem::replace(&mut entry.dropped.is_heard, true) {
            return;
        }
        self.table.drops.heard.push(id);
        if !std::mem::replace(&mut self.table.drops.timer_runs, true) {
            kit.start_timer(kit.now() + SECOND, Handle::new(class::DROPS, 0, 0));
        }
    }

    pub(crate) fn drops_are_due(&mut self) {
        let drops = &mut self.table.drops;
        drops.timer_runs = false;
        drops.due.append(&mut drops.heard);
    }
}

impl Table {
    /// Has a socket asked that is about to be closed.
    pub(crate) fn ask_at_last(&mut self, id: SocketId) {
        self.drops.due.push(id);
    }

    /// Asks those that are to be asked.
    pub(crate) fn count_drops(&mut self, driver: &dyn Driver) {
        while let Some(id) = self.drops.due.pop() {
            let socket = self.socket_of(id);
            let Some(entry) = self.find_socket(id) else { continue };
            entry.dropped.is_heard = false;
            let Some(packets) = socket.and_then(|socket| driver.dropped(socket)) else { continue };
            let more = packets.wrapping_sub(std::mem::replace(&mut entry.dropped.packets, packets));
            let service = entry.service;
            self.count(service, ServiceCounter::TrainsDropped, more as usize);
        }
    }
}
