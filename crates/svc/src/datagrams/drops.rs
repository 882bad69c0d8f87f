//! What the system dropped at datagram sockets because their buffers were full. It tells nobody, so who wants to know must ask, with a
//! system call a socket: those at which something came are asked a second later, and each once more before it closes. Where nothing comes,
//! nothing is dropped, and nobody asks.

use crate::limits::SECOND;
use crate::words::class;
use crate::words::names::SocketId;
use corelane_lane::Kit;
use corelane_seam::Handle;

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

    /// Something came at a socket: soon it is to be asked.
    pub(crate) fn hear(&mut self, kit: &mut Kit, id: SocketId, dropped: &mut Dropped) {
        if std::mem::replace(&mut dropped.is_heard, true) {
            return;
        }
        self.heard.push(id);
        if !std::mem::replace(&mut self.timer_runs, true) {
            kit.start_timer(kit.now() + SECOND, Handle::new(class::DROPS, 0, 0));
        }
    }

    /// The timer has come: those at which something came are to be asked.
    pub(crate) fn ask_heard(&mut self) {
        assert!(self.timer_runs, "the timer comes once for each time that it was started");
        self.timer_runs = false;
        self.due.append(&mut self.heard);
    }

    /// Has a socket asked that is about to be closed.
    pub(crate) fn ask_at_last(&mut self, id: SocketId) {
        self.due.push(id);
    }

    /// The next one to be asked.
    pub(crate) fn next(&mut self) -> Option<SocketId> {
        self.due.pop()
    }
}

impl Dropped {
    /// The socket was asked and said how many packets it has dropped since it was opened, or that nobody counts them; returns how many
    /// there are since it was asked before.
    pub(crate) fn asked(&mut self, packets: Option<u32>) -> u32 {
        self.is_heard = false;
        packets.map_or(0, |packets| packets.wrapping_sub(std::mem::replace(&mut self.packets, packets)))
    }
}
