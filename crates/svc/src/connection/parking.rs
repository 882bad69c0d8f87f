//! Connections that wait for a place among the handshakes of their service.

use crate::limits::SECOND;
use crate::state::accounts::{Parked, PeerKey};
use crate::words::class;
use crate::words::names::ConnectionId;
use corelane_lane::Kit;
use corelane_seam::Handle;
use corelane_seam::ordered::Ordered;
use std::ops::Bound;

/// How often those who hold places among handshakes are looked at while others wait for one.
const LOOK_AT_PLACES: u64 = SECOND / 10;
/// Marks the timer of places; the other timer of this class has 0.
pub(crate) const PLACES: u32 = 1;

/// Those that wait, by service, peer, and when they came.
#[derive(Default)]
pub(crate) struct Parking {
    parked: Ordered<Parked, ConnectionId>,
    /// How many have waited so.
    last: u32,
    /// Handshakes have ended: there may be room for others.
    handshakes_ended: bool,
    /// A timer runs at whose end those who hold places are looked at, because others wait for one.
    is_timed: bool,
}

impl Parking {
    /// One more waits. Returns its number, which is not 0.
    pub(super) fn park(&mut self, service: u16, peer: PeerKey, id: ConnectionId) -> u32 {
        self.last = self.last.checked_add(1).unwrap_or(1);
        let before = self.parked.insert(Parked { service, peer, number: self.last }, id);
        assert!(before.is_none(), "each waits for one place");
        self.last
    }

    /// It waits no more; which it was.
    pub(crate) fn leave(&mut self, parked: Parked) -> Option<ConnectionId> {
        self.parked.remove(parked)
    }

    /// A handshake that had a place has ended.
    pub(super) fn handshake_ended(&mut self) {
        self.handshakes_ended = true;
    }

    /// Whether some have ended of which nobody has taken notice.
    pub(crate) fn has_news(&self) -> bool {
        self.handshakes_ended
    }

    /// The same, and notice is taken.
    pub(crate) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.handshakes_ended)
    }

    /// All that wait.
    pub(crate) fn parked(&self) -> impl Iterator<Item = Parked> {
        self.parked.keys()
    }

    /// The first one that waits behind that place.
    pub(crate) fn next(&self, from: Bound<Parked>) -> Option<Parked> {
        self.parked.range((from, Bound::Unbounded)).next().map(|(parked, _)| parked)
    }

    /// The newest one that waits of a peer's, and its place.
    pub(crate) fn newest(&self, service: u16, peer: PeerKey) -> Option<(Parked, ConnectionId)> {
        let of_peer = Parked { service, peer, number: 0 }..=Parked::last_of(service, peer);
        self.parked.range(of_peer).next_back().map(|(parked, &id)| (parked, id))
    }

    /// Has those who hold places looked at after a while, if that is not to come anyway.
    pub(crate) fn look_at_places(&mut self, kit: &mut Kit) {
        if !std::mem::replace(&mut self.is_timed, true) {
            kit.start_timer(kit.now() + LOOK_AT_PLACES, Handle::new(class::ACCEPT_AGAIN, PLACES, 0));
        }
    }

    /// The same if somebody waits for one.
    pub(crate) fn look_for_parked(&mut self, kit: &mut Kit) {
        if !self.parked.is_empty() {
            self.look_at_places(kit);
        }
    }

    /// That while is over.
    pub(crate) fn timer_came(&mut self) {
        assert!(self.is_timed, "a timer comes that was started");
        self.is_timed = false;
    }
}
