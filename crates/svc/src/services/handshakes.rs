//! Who has a place among a service's handshakes, who waits for one, and who gives one up for those who wait.
//!
//! Peers share the places ([`Share`](corelane_seam::share::Share)). A connection that finds none is accepted all the same, because only so the lane learns
//! whose it is: it waits, costs nothing but its descriptor and its entry, and keeps nobody else out. Of one peer the newest has the next place, so a client
//! behind an address from which many come is served while the others have given up or are ended.

use crate::connection::entry::Connection;
use crate::connection::found::{Desk, Found};
use crate::limits::SECOND;
use crate::services::served::Served;
use crate::state::accounts::PeerKey;
use crate::state::memory::LOOKS;
use crate::table::LaneTable;
use crate::words::class;
use crate::words::names::{ConnectionId, Ending};
use corelane_lane::Kit;
use corelane_seam::Handle;
use corelane_watch::ServiceCounter;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// How often those who hold places are looked at while others wait for one.
const LOOK_AT_PLACES: u64 = SECOND / 10;
/// For how long a handshake that brings nothing keeps its place from others, and any handshake.
const SILENT: u64 = SECOND / 2;
const SLOW: u64 = SECOND;
/// Marks the timer of places; the other timer of this class has 0.
pub(crate) const PLACES: u32 = 1;

/// A connection that waits for a place: its service, its peer, and when it came.
type Parked = (u16, PeerKey, u32);

impl Found<'_> {
    /// A handshake begins: it takes a place, or waits for one. One that this side began has a place at once.
    pub(crate) fn join_handshakes(&mut self) {
        match self.accepted_from() {
            Some(peer) if !self.state.handshakes.borrow().admits(peer) => self.park(peer),
            peer => self.take_place(peer),
        }
    }

    /// Whose connection it is, if it was accepted.
    fn accepted_from(&self) -> Option<PeerKey> {
        let is_accepted = !self.connection.machine.is_outgoing();
        is_accepted.then(|| self.desk.memory.accounts.key(self.connection.peer()))
    }

    fn take_place(&mut self, peer: Option<PeerKey>) {
        self.state.handshakes.borrow_mut().take(peer);
        self.tell_places();
    }

    fn park(&mut self, peer: PeerKey) {
        self.desk.parked_last = self.desk.parked_last.checked_add(1).unwrap_or(1);
        self.connection.parked = self.desk.parked_last;
        let before = self.desk.parked.insert((self.connection.service(), peer, self.connection.parked), self.id);
        assert!(before.is_none(), "each waits for one place");
    }

    /// A handshake has ended; `serves` if it has ended well.
    pub(crate) fn leave_handshakes(&mut self, serves: bool) {
        let peer = self.accepted_from();
        match (std::mem::take(&mut self.connection.parked), peer) {
            (0, peer) => {
                self.state.handshakes.borrow_mut().give_back(peer);
                self.desk.handshakes_ended = true;
                self.tell_places();
            }
            (number, peer) => {
                // reason: only what was accepted waits.
                let peer = peer.expect("who waits for a place was accepted");
                let waited = self.desk.parked.remove(&(self.connection.service(), peer, number));
                assert!(waited == Some(self.id), "who waits for a place is in the list");
            }
        }
        self.count(if serves { ServiceCounter::Handshakes } else { ServiceCounter::HandshakesFailed }, 1);
    }

    fn tell_places(&self) {
        self.state.row.set(ServiceCounter::HandshakesUnderWay, self.state.handshakes.borrow().share().used.into());
    }
}

impl Served {
    /// Where handshakes have ended there may be places for others.
    pub(crate) fn place_after_handshakes(&mut self, now: u64) {
        if std::mem::take(&mut self.table.desk.handshakes_ended) {
            self.table.place_parked(now);
        }
    }

    /// Handshakes that are slow, or silent, give their places up for those who wait.
    pub(crate) fn relieve_handshakes(&mut self, kit: &mut Kit) {
        for index in self.table.slow_handshakes(kit.now()) {
            self.table.there(index).count(ServiceCounter::ShareEndings, 1);
            self.end(kit, index, Ending::Aborted);
        }
        self.table.place_parked(kit.now());
        if !self.table.desk.parked.is_empty() {
            self.table.desk.look_at_places(kit);
        }
    }
}

impl LaneTable {
    /// Gives places to those who wait for one, as far as their peers may have more.
    fn place_parked(&mut self, now: u64) {
        let mut from: Bound<Parked> = Bound::Unbounded;
        for _ in 0..LOOKS {
            let Some((&(service, peer, _), _)) = self.desk.parked.range((from, Bound::Unbounded)).next() else { return };
            while self.services[service as usize].handshakes.borrow().admits(peer) {
                let of_peer = (service, peer, 0)..=(service, peer, u32::MAX);
                let Some((&parked, &id)) = self.desk.parked.range(of_peer).next_back() else { break };
                self.place(parked, id, now);
            }
            from = Bound::Excluded((service, peer, u32::MAX));
        }
    }

    fn place(&mut self, parked: Parked, id: ConnectionId, now: u64) {
        self.desk.parked.remove(&parked);
        let mut found = self.there(id.index);
        assert!(
            found.id == id && found.connection.parked == parked.2,
            "who waits for a place leaves the list with its handshake"
        );
        (found.connection.parked, found.connection.active_at) = (0, now);
        found.take_place(Some(parked.1));
        found.mark_ready();
        found.mark_dirty();
    }

    /// Handshakes that keep places from those who wait and are slow or silent: of peers that wait themselves, or have the most; as many as wait, the
    /// oldest first.
    fn slow_handshakes(&self, now: u64) -> Vec<u32> {
        let mut waiting: BTreeMap<u16, (usize, BTreeSet<PeerKey>)> = BTreeMap::new();
        for &(service, peer, _) in self.desk.parked.keys() {
            let (count, peers) = waiting.entry(service).or_default();
            *count += 1;
            peers.insert(peer);
        }
        let mut slow = Vec::new();
        for (service, (count, peers)) in waiting {
            let handshakes = self.services[service as usize].handshakes.borrow();
            let most = handshakes.most();
            let of_service = self.connections.iter().filter(|(_, connection)| {
                let is_slow = connection.service() == service && connection.keeps_place_long(now);
                is_slow && {
                    let peer = self.desk.memory.accounts.key(connection.peer());
                    peers.contains(&peer) || handshakes.held(peer) == most
                }
            });
            let mut found: Vec<_> = of_service.map(|(id, connection)| (connection.active_at, id.index)).collect();
            found.sort_unstable();
            slow.extend(found.into_iter().take(count).map(|(_, index)| index));
        }
        slow
    }
}

impl Connection {
    /// Whether it has a place among the handshakes that others began, and has kept it for longer than it should while others wait.
    fn keeps_place_long(&self, now: u64) -> bool {
        let has_place = self.machine.is_in_handshake() && self.parked == 0 && !self.machine.is_outgoing();
        // What is ready waits for this lane, not for its peer.
        let is_long = now.saturating_sub(self.active_at) >= SLOW || now.saturating_sub(self.still_since()) >= SILENT;
        has_place && !self.is_ready && is_long
    }
}

impl Desk {
    /// Has those who hold places looked at after a while, if that is not to come anyway.
    pub(crate) fn look_at_places(&mut self, kit: &mut Kit) {
        if !std::mem::replace(&mut self.places_timed, true) {
            kit.start_timer(kit.now() + LOOK_AT_PLACES, Handle::new(class::ACCEPT_AGAIN, PLACES, 0));
        }
    }
}
