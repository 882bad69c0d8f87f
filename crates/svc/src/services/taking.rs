//! The system is asked what peers have not taken, and those that take too little end.

use crate::connection::found::Found;
use crate::connection::machine::Phase;
use crate::services::served::Served;
use crate::table::LaneTable;
use crate::words::names::Ending;
use corelane_lane::Kit;
use corelane_seam::Driver;
use corelane_watch::ServiceCounter;

/// What the system holds of a closed connection when the peer has all: the end of the stream, which the peer has not noted yet.
const END_ALONE: usize = 1;

impl LaneTable {
    /// Asks the system how much the peers of those have not taken whose time it is. Where it does not tell, what it took counts as taken.
    pub(crate) fn ask_of_deliveries(&mut self, driver: &dyn Driver) {
        while let Some(id) = self.desk.deliveries.to_ask.pop() {
            let socket = self.connections.find(id).and_then(|connection| connection.socket);
            let held = socket.and_then(|socket| driver.unsent_bytes(socket)).unwrap_or(0);
            self.desk.deliveries.answers.push((id, held));
        }
    }
}

impl Found<'_> {
    /// Has the system asked, before this turn's operations are carried out, what the peer has not taken.
    pub(crate) fn ask_of_delivery(&mut self) {
        let id = self.id;
        self.desk.deliveries.to_ask.push(id);
    }
}

impl Served {
    /// Judges those of which the system was asked.
    pub(crate) fn judge_deliveries(&mut self, kit: &mut Kit) {
        while let Some((id, held)) = self.table.desk.deliveries.answers.pop() {
            // It may have ended since.
            let Some(found) = self.table.found(id) else { continue };
            match found.connection.machine.phase() {
                Phase::Lingering => self.judge_lingering(kit, id.index, held),
                Phase::Ended => {}
                _ => self.judge_delivery(kit, id.index, held),
            }
        }
    }

    fn judge_delivery(&mut self, kit: &mut Kit, index: u32, held: usize) {
        let mut found = self.table.there(index);
        let limits = *found.limits();
        // All may have left since.
        let busy = found.connection.busy.as_mut().filter(|busy| busy.delivery.is_awaited());
        if busy.is_none_or(|busy| busy.delivery.judge(kit.now(), held, &limits)) {
            return found.set_deadline(kit);
        }
        found.count(ServiceCounter::SendLimitHits, 1);
        self.end(kit, index, Ending::Aborted);
    }

    /// Our side has finished, and the peer has not. It is waited for as long as it takes what it was sent, because a close with bytes of its own on their way would be a
    /// reset, which takes that from it (RFC 9112 section 9.6).
    fn judge_lingering(&mut self, kit: &mut Kit, index: u32, held: usize) {
        let mut found = self.table.there(index);
        let (now, limits) = (kit.now(), *found.limits());
        if found.connection.linger_deadline(&limits) > now {
            return found.set_deadline(kit);
        }
        let busy = found.busy(&kit.arena);
        busy.delivery.begin(now);
        if held <= END_ALONE || !busy.delivery.judge(now, held, &limits) {
            found.count(ServiceCounter::LingerLimitHits, 1);
            // reason: what lingers has its ending.
            let ending = found.connection.machine.ending().expect("what lingers has its ending");
            return self.close_now(kit, index, ending);
        }
        (found.connection.active_at, found.connection.finished_at) = (now, now);
        found.set_deadline(kit);
    }
}
