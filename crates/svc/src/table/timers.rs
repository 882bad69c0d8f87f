//! The timers of connections that their services start: each is in the table of timers, and in its connection's list.

use crate::pending::timers::Timer;
use crate::table::LaneTable;
use crate::table::notices::{Note, Notice};
use crate::words::error::Error;
use crate::words::names::ConnectionId;
use corelane_lane::Kit;
use corelane_seam::Handle;
use corelane_watch::ServiceCounter;

impl LaneTable {
    /// Starts a timer of a connection that is there, for `deadline`.
    ///
    /// # Errors
    /// [`Error::TimersFull`] at the connection's bound.
    pub(crate) fn start_timer(&mut self, kit: &mut Kit, id: ConnectionId, deadline: u64, token: u64) -> Result<Timer, Error> {
        // reason: an entry outlasts the calls for its connection, the one that tells of its end among them.
        let connection = self.connections.find(id).expect("a connection is there as long as a call is for it");
        let state = &self.services[connection.service() as usize];
        let most = state.limits.timers_per_connection_max;
        if connection.timers().len() >= most {
            state.row.add(ServiceCounter::TimersMaxHits, 1);
            return Err(Error::TimersFull { timers: most });
        }
        Ok(self.timers.start(kit, (id, connection.timers()), deadline, token))
    }

    /// Stops a timer of this service, if it has not come.
    pub(crate) fn stop_timer(&mut self, kit: &mut Kit, timer: Timer, service: u16) {
        let Some(owner) = self.timers.owner(timer) else { return };
        // reason: its timers end with it.
        let connection = self.connections.find(owner).expect("a connection takes its timers with it");
        if connection.service() == service {
            self.timers.stop(kit, timer, connection.timers());
        }
    }

    /// A timer has come: its connection is told.
    pub(crate) fn timer_expired(&mut self, handle: Handle) {
        let timer = Timer::of(handle);
        // It may have been stopped since it came.
        let Some(to) = self.timers.owner(timer) else { return };
        // reason: its timers end with it.
        let connection = self.connections.find(to).expect("a connection takes its timers with it");
        let token = self.timers.come(timer, connection.timers());
        let from = connection.service();
        self.notices.add(Note { to, from, notice: Notice::Timer(token) });
    }

    /// All timers of a connection that ends.
    pub(crate) fn end_timers(&mut self, kit: &mut Kit, index: u32) {
        self.timers.end_all(kit, self.connections.there(index).timers());
    }
}
