//! Draining: refuse new connections, serve those that wait, answer what was readable, let the peers have it, end.

use crate::connection::machine::Phase;
use crate::limits::SECOND;
use crate::service::face::{Callback, Face};
use crate::services::Services;
use crate::services::served::Served;
use crate::table::{LaneTable, accepts};
use crate::words::class;
use crate::words::names::Ending;
use corelane_lane::{Kit, fenced};
use corelane_seam::{Driver, Handle, nanoseconds};
use corelane_watch::ServiceCounter;

/// How often the listeners are looked at until then.
pub(crate) const LOOK: u64 = SECOND / 100;

impl Services {
    pub(crate) fn begin_drain(&mut self, kit: &mut Kit, driver: &mut dyn Driver) {
        self.served.table.begin_drain();
        let now = kit.now();
        let limit = self.served.table.services.iter().map(|state| nanoseconds(state.limits.drain_limit)).max().unwrap_or(0);
        assert!(self.drain_deadline == u64::MAX && !self.drain_is_over, "no drain has begun");
        self.drain_deadline = now.saturating_add(limit);
        for socket in self.served.table.listeners.begin_to_settle(now) {
            driver.refuse_new(socket);
        }
        for index in self.served.table.connections.indices().collect::<Vec<_>>() {
            self.served.drain_connection(kit, driver, index);
        }
        self.served.table.sockets.drain(&self.served.table.services, kit);
        for service in 0..self.served.faces.len() as u16 {
            self.served.service_call(kit, service, |face, cx| face.drain_began(cx));
        }
        self.steering.read_counts(kit, &self.served.table.services);
        kit.start_timer(now + LOOK, Handle::new(class::DRAIN, 0, 0));
    }

    pub(crate) fn drain_timer(&mut self, kit: &mut Kit) {
        assert!(self.served.table.is_draining(), "its timer runs in a drain");
        let now = kit.now();
        let is_over = now >= self.drain_deadline;
        self.served.table.close_settled(kit, is_over);
        if is_over {
            return self.end_drain(kit);
        }
        let next = if self.served.table.listeners.listen() { now + LOOK } else { self.drain_deadline };
        kit.start_timer(next, Handle::new(class::DRAIN, 0, 0));
    }

    /// The time is up: whatever is still open is broken off.
    fn end_drain(&mut self, kit: &mut Kit) {
        assert!(!self.drain_is_over, "a drain ends once");
        self.drain_is_over = true;
        for index in self.served.table.connections.indices().collect::<Vec<_>>() {
            // One of a pair may have ended with the other.
            let Some(found) = self.served.table.at(index).filter(|found| !found.connection.machine().has_ended()) else {
                continue;
            };
            let machine = found.connection.machine();
            match machine.ending().filter(|_| machine.phase() >= Phase::Parting) {
                // All was said: the system goes on delivering it.
                Some(ending) => self.served.close_now(kit, index, ending),
                None => {
                    found.count(ServiceCounter::DrainDeadlineHits, 1);
                    self.served.end(kit, index, Ending::Aborted);
                }
            }
        }
        self.served.table.sockets.abandon(&self.served.table.services, kit);
        self.served.table.requests.end_watches(kit);
        for service in 0..self.served.table.services.len() {
            while let Some(arrived) = self.served.table.services[service].waiting.pop_front() {
                self.served.table.connections.turn_away(kit, arrived.socket);
            }
        }
    }

    /// Whether the lane has nothing left to do by itself; other lanes may still ask it.
    pub(crate) fn is_at_rest(&self, kit: &mut Kit) -> bool {
        let is_over = self.drain_is_over || self.served.table.requests.have_ended() && self.served.table.sockets.are_quiet();
        self.served.table.has_no_connections()
            && is_over
            && !self.owes_any(kit)
            && (self.drain_is_over || self.steering.has_none_under_way())
            && (self.drain_is_over || self.served.post_is_quiet())
    }

    /// Whether a service over datagrams has answers to give, and there is time for them.
    fn owes_any(&self, kit: &mut Kit) -> bool {
        !self.drain_is_over && (0..self.served.faces.len() as u16).any(|service| self.served.owes(kit, service))
    }

    pub(crate) fn drain_is_done(&self) -> bool {
        let is_over = self.drain_is_over || self.lanes_are_quiet && self.served.table.requests.have_ended();
        let is_left = self.served.table.sockets.len() > 0 || self.served.table.requests.watch_any();
        self.served.table.is_draining() && self.served.table.has_no_connections() && is_over && !is_left
    }
}

impl Served {
    /// What is readable now is still served; nothing that comes later is.
    pub(crate) fn drain_connection(&mut self, kit: &mut Kit, driver: &mut dyn Driver, index: u32) {
        let mut found = self.table.there(index);
        let machine = found.connection.machine();
        let (is_outgoing, serves) = (machine.is_outgoing(), machine.serves_input());
        if machine.is_in_handshake() {
            if !is_outgoing {
                found.drain(kit, 0);
            }
            return found.mark_dirty();
        }
        if !serves {
            return;
        }
        // Whoever is cut in the end has been counted up to here at least.
        found.ask_of_unseen(kit);
        let (service, session) = (found.connection.service(), found.connection.session());
        let ends_itself = session.is_some_and(|session| self.ends_itself(kit, service, session));
        let mut found = self.table.there(index);
        if !(is_outgoing || ends_itself) {
            // reason: it opens with one.
            let socket = found.connection.socket().expect("what is open has a socket");
            found.drain(kit, driver.readable_bytes(socket));
        }
        self.call(kit, index, Callback::Draining);
        self.table.there(index).mark_dirty();
    }

    /// Whether the service sees to the end of this connection.
    fn ends_itself(&mut self, kit: &mut Kit, service: u16, session: u32) -> bool {
        // reason: only a service over connections has any.
        let face = self.faces[service as usize].stream().expect("a connection belongs to a service over connections");
        let ends_itself = fenced(|| face.ends_itself(session));
        ends_itself.unwrap_or_else(|words| {
            self.table.report_panic(kit, service, None, &words);
            false
        })
    }

    /// Whether a service over datagrams has answers to give.
    pub(crate) fn owes(&self, kit: &mut Kit, service: u16) -> bool {
        // A service over connections owes its answers to those.
        let Face::Datagram(face) = &self.faces[service as usize] else { return false };
        let owes = fenced(|| face.owes());
        owes.unwrap_or_else(|words| {
            self.table.report_panic(kit, service, None, &words);
            false
        })
    }
}

impl LaneTable {
    /// Closes the listeners for which nobody waits any more, or `all`.
    pub(crate) fn close_settled(&mut self, kit: &mut Kit, all: bool) {
        let LaneTable { listeners, connections, services, .. } = self;
        listeners.close_settled(kit, all, |service| accepts(connections, &services[service as usize]));
    }

    /// Whether nobody waits, no socket of a connection is open, and no file is being closed.
    fn has_no_connections(&self) -> bool {
        self.listeners.are_closed()
            && self.services.iter().all(|state| state.waiting.is_empty())
            && self.connections.are_gone()
            && !self.requests.are_closing_files()
    }
}
