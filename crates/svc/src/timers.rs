//! The timers of services: each belongs to a connection, which has a bounded number of them and takes them with it.

use crate::class;
use crate::error::Error;
use crate::names::ConnectionId;
use crate::table::Table;
use corelane_lane::{Kit, TimerId};
use corelane_seam::Handle;
use corelane_watch::ServiceCounter;

/// Names a timer of a connection ([`Cx::start_timer`](crate::Cx::start_timer)); void once it has come or was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timer {
    index: u32,
    generation: u32,
}

/// No timer.
const NONE: u32 = u32::MAX;

/// A timer that a service started.
pub(crate) struct ServiceTimer {
    pub(crate) connection: ConnectionId,
    pub(crate) token: u64,
    id: Option<TimerId>,
    /// Its neighbours among the timers of its connection.
    before: u32,
    after: u32,
}

/// A connection's timers.
#[derive(Clone, Copy)]
pub(crate) struct TimerList {
    first: u32,
    length: u32,
}

impl TimerList {
    pub(crate) const EMPTY: Self = Self { first: NONE, length: 0 };

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl Table {
    /// Starts a timer of a connection.
    pub(crate) fn start_timer(&mut self, kit: &mut Kit, id: ConnectionId, deadline: u64, token: u64) -> Result<Timer, Error> {
        let Some(connection) = self.connections.get_mut(id.index, id.generation) else {
            return Err(Error::TimersFull { timers: 0 });
        };
        let (service, after) = (connection.service, connection.timers.first);
        let most = self.services[service as usize].limits.timers_per_connection_max;
        if connection.timers.length >= most {
            self.count(service, ServiceCounter::TimersMaxHits, 1);
            return Err(Error::TimersFull { timers: most });
        }
        let (index, generation) = self.timers.insert(ServiceTimer { connection: id, token, id: None, before: NONE, after });
        connection.timers = TimerList { first: index, length: connection.timers.length + 1 };
        if let Some(next) = self.timers.at(after) {
            next.before = index;
        }
        if let Some(timer) = self.timers.at(index) {
            timer.id = Some(kit.start_timer(deadline, Handle::new(class::TIMER, index, generation)));
        }
        Ok(Timer { index, generation })
    }

    /// Stops a timer, if it belongs to `service` and has not come.
    pub(crate) fn stop_timer(&mut self, kit: &mut Kit, service: u16, Timer { index, generation }: Timer) {
        let Some(connection) = self.timers.get(index, generation).map(|timer| timer.connection) else { return };
        if self.find(connection).is_some_and(|connection| connection.service == service) {
            self.end_timer(kit, index);
        }
    }

    /// Ends all timers of a connection.
    pub(crate) fn end_timers(&mut self, kit: &mut Kit, connection: u32) {
        while let Some(first) = self.connections.at(connection).map(|entry| entry.timers.first).filter(|&first| first != NONE) {
            self.end_timer(kit, first);
        }
    }

    /// A timer has come: takes it from its connection.
    pub(crate) fn timer_came(&mut self, handle: Handle) -> Option<ServiceTimer> {
        self.timers.get(handle.index(), handle.generation())?;
        self.unlink(handle.index())
    }

    fn end_timer(&mut self, kit: &mut Kit, index: u32) {
        if let Some(timer) = self.unlink(index).and_then(|timer| timer.id) {
            kit.stop_timer(timer);
        }
    }

    fn unlink(&mut self, index: u32) -> Option<ServiceTimer> {
        let timer = self.timers.remove(index)?;
        if let Some(next) = self.timers.at(timer.after) {
            next.before = timer.before;
        }
        let connection = self.find(timer.connection);
        assert!(connection.is_some(), "a timer outlives its connection");
        if let Some(connection) = connection {
            connection.timers.length -= 1;
            if timer.before == NONE {
                connection.timers.first = timer.after;
            }
        }
        if let Some(previous) = self.timers.at(timer.before) {
            previous.after = timer.after;
        }
        Some(timer)
    }
}
