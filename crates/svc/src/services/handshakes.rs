//! Who has a place among a service's handshakes, who waits for one, and who gives one up for those who wait.
//!
//! Peers share the places ([`Share`](corelane_seam::share::Share)). A connection that finds none is accepted all the same, because only so the lane learns
//! whose it is: it waits, costs nothing but its descriptor and its entry, and keeps nobody else out. Of one peer the newest has the next place, so a client
//! behind an address from which many come is served while the others have given up or are ended.

use crate::services::served::Served;
use crate::state::accounts::{Parked, PeerKey};
use crate::state::memory::LOOKS;
use crate::table::LaneTable;
use crate::words::names::{ConnectionId, Ending};
use corelane_lane::Kit;
use corelane_seam::ordered::{Ordered, OrderedSet};
use corelane_watch::ServiceCounter;
use std::ops::Bound;

impl Served {
    /// Where handshakes have ended there may be places for others.
    pub(crate) fn place_after_handshakes(&mut self, now: u64) {
        if self.table.agenda.parking().take_news() {
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
        self.table.agenda.parking().look_for_parked(kit);
    }
}

impl LaneTable {
    /// Gives places to those who wait for one, as far as their peers may have more.
    fn place_parked(&mut self, now: u64) {
        let mut from: Bound<Parked> = Bound::Unbounded;
        for _ in 0..LOOKS {
            let Some(Parked { service, peer, .. }) = self.agenda.parking().next(from) else { return };
            while self.services[service as usize].handshakes.borrow().admits(peer) {
                let Some((parked, id)) = self.agenda.parking().newest(service, peer) else { break };
                self.place(parked, id, now);
            }
            from = Bound::Excluded(Parked::last_of(service, peer));
        }
    }

    fn place(&mut self, parked: Parked, id: ConnectionId, now: u64) {
        self.agenda.parking().leave(parked);
        let mut found = self.there(id.index);
        assert!(found.id == id, "who waits for a place leaves the list with its handshake");
        found.place(parked.peer, parked.number, now);
    }

    /// Handshakes that keep places from those who wait and are slow or silent: of peers that wait themselves, or have the most; as many as wait, the
    /// oldest first.
    fn slow_handshakes(&mut self, now: u64) -> Vec<u32> {
        let mut waiting: Ordered<u16, (usize, OrderedSet<PeerKey>)> = Ordered::default();
        for Parked { service, peer, .. } in self.agenda.parking().parked() {
            let (count, peers) = waiting.or_insert_with(service, Default::default);
            *count += 1;
            peers.insert(peer, ());
        }
        let mut slow = Vec::new();
        for (service, (count, peers)) in waiting.take_all() {
            let handshakes = self.services[service as usize].handshakes.borrow();
            let most = handshakes.most();
            let of_service = self.connections.iter().filter(|(_, connection)| {
                let is_slow = connection.service() == service && connection.keeps_place_long(now);
                is_slow && {
                    let peer = self.agenda.memory().accounts.key(connection.peer());
                    peers.contains(peer) || handshakes.held(peer) == most
                }
            });
            let mut found: Vec<_> = of_service.map(|(id, connection)| (connection.active_at(), id.index)).collect();
            found.sort_unstable();
            slow.extend(found.into_iter().take(count).map(|(_, index)| index));
        }
        slow
    }
}
