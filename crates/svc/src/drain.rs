//! Draining: refuse new connections, serve those that wait, answer what was readable, let the peers have it, end.

use crate::limits::SECOND;
use crate::port::{Call, Port};
use crate::service::Ending;
use crate::services::Services;
use crate::table::class;
use corelane_lane::{Kit, fenced};
use corelane_seam::{Driver, Handle, Op};
use corelane_watch::ServiceCounter;

/// How long a listener is kept after the last connection was accepted from it: handshakes under way end within.
const SETTLE: u64 = SECOND / 20;
/// After how long of accepting without a pause whoever comes must have come after the order: the system may not let us
/// refuse them (without CAP_NET_ADMIN it allows no filter on a listening socket).
const NEWCOMERS: u64 = SECOND / 5;
/// How often the listeners are looked at until then.
pub(crate) const LOOK: u64 = SECOND / 100;

impl Services {
    pub(crate) fn begin_drain(&mut self, kit: &mut Kit, driver: &mut dyn Driver) {
        self.table.draining = true;
        let now = kit.now();
        let limit = self.table.services.iter().map(|state| state.limits.drain_limit).max().unwrap_or(0);
        self.drain_deadline = now.saturating_add(limit);
        for listener in &mut self.table.listeners {
            listener.begin_to_settle(now);
            if let Some(socket) = listener.socket {
                driver.refuse_new(socket);
            }
        }
        for index in self.table.connections.indices().collect::<Vec<_>>() {
            self.drain_connection(kit, driver, index);
        }
        self.table.drain_datagrams(kit);
        for service in 0..self.ports.len() as u16 {
            self.service_call(kit, service, |port, cx| port.drain_began(cx));
        }
        self.read_counts(kit);
        kit.start_timer(now + LOOK, Handle::new(class::DRAIN, 0, 0));
    }

    /// What is readable now is still served; nothing that comes later is.
    fn drain_connection(&mut self, kit: &mut Kit, driver: &mut dyn Driver, index: u32) {
        let found = self.table.there(index);
        if !found.connection.machine.serves_input() {
            return;
        }
        let handle = found.handle();
        let machine = &mut found.connection.machine;
        if let Some(socket) = found.connection.socket.filter(|_| !machine.is_outgoing()) {
            machine.drain(driver.readable_bytes(socket));
            if machine.is_receiving() {
                // The driver may have taken bytes already that are not counted as readable any more.
                kit.submit(handle, Op::StopReceive { socket });
            }
        }
        self.call(kit, index, Call::Draining);
        self.table.there(index).mark_dirty();
    }

    pub(crate) fn drain_timer(&mut self, kit: &mut Kit) {
        let now = kit.now();
        let is_over = now >= self.drain_deadline;
        self.close_settled(kit, is_over);
        if is_over {
            return self.end_drain(kit);
        }
        let open = self.table.listeners.iter().any(|listener| listener.socket.is_some() && !listener.closing);
        let next = if open { now + LOOK } else { self.drain_deadline };
        kit.start_timer(next, Handle::new(class::DRAIN, 0, 0));
    }

    /// Closes the listeners for which nobody waits any more, or `all`.
    pub(crate) fn close_settled(&mut self, kit: &mut Kit, all: bool) {
        for index in 0..self.table.listeners.len() {
            if all || self.is_settled(index, kit.now()) {
                self.close_listener(kit, index);
            }
        }
    }

    /// Whether nobody waits for this listener any more: it could accept, and for a while there was nobody.
    fn is_settled(&mut self, index: usize, now: u64) -> bool {
        let service = self.table.listeners[index].service;
        let accepts = self.table.has_room(service) && self.table.services[service as usize].waiting.is_empty();
        let listener = &mut self.table.listeners[index];
        if !accepts || listener.starved || !listener.accepting {
            (listener.accepted_at, listener.free_since) = (now, now);
        }
        let is_quiet = now >= listener.accepted_at.saturating_add(SETTLE);
        is_quiet || now >= listener.free_since.saturating_add(NEWCOMERS)
    }

    fn close_listener(&mut self, kit: &mut Kit, index: usize) {
        let listener = &mut self.table.listeners[index];
        if let Some(socket) = listener.socket.filter(|_| !listener.closing) {
            listener.closing = true;
            kit.submit(Handle::new(class::LISTENER, index as u32, 0), Op::Close { socket, reset: false });
        }
    }

    /// The time is up: whatever is still open is broken off.
    fn end_drain(&mut self, kit: &mut Kit) {
        self.drain_is_over = true;
        for index in self.table.connections.indices().collect::<Vec<_>>() {
            // One of a pair may have ended with the other.
            let Some(found) = self.table.at(index).filter(|found| !found.connection.machine.has_ended()) else { continue };
            found.count(ServiceCounter::DrainDeadlineHits, 1);
            self.end(kit, index, Ending::Aborted);
        }
        self.table.abandon_datagrams(kit);
        for service in 0..self.table.services.len() {
            while let Some(arrived) = self.table.services[service].waiting.pop_front() {
                self.table.turn_away(kit, arrived.socket);
            }
        }
    }

    /// Whether the lane has nothing left to do by itself: who asks it may be another lane.
    pub(crate) fn is_at_rest(&mut self, kit: &mut Kit) -> bool {
        let is_over = self.drain_is_over || self.table.requests_ending == 0 && self.table.datagrams_are_quiet();
        self.has_no_connections() && is_over && !self.owes_any(kit) && (self.drain_is_over || self.post_is_quiet())
    }

    fn has_no_connections(&self) -> bool {
        self.table.listeners.iter().all(|listener| listener.socket.is_none())
            && self.table.services.iter().all(|state| state.waiting.is_empty())
            && self.table.connections.len() == 0
            && self.table.turned_away == 0
            && self.table.files_closing == 0
    }

    /// Whether a service over datagrams has answers to give, and there is time for them.
    fn owes_any(&mut self, kit: &mut Kit) -> bool {
        !self.drain_is_over && (0..self.ports.len() as u16).any(|service| self.owes(kit, service))
    }

    /// Whether a service over datagrams has answers to give.
    pub(crate) fn owes(&mut self, kit: &mut Kit, service: u16) -> bool {
        let Port::Datagram(port) = &self.ports[service as usize] else { return false };
        let owes = fenced(|| port.owes());
        owes.unwrap_or_else(|words| {
            self.report_panic(kit, service, None, &words);
            false
        })
    }

    pub(crate) fn drain_is_done(&self) -> bool {
        let is_over = self.drain_is_over || self.lanes_are_quiet && self.table.requests_ending == 0;
        self.table.draining && self.has_no_connections() && self.table.datagrams.len() == 0 && is_over
    }
}
