//! A connection that was looked up, with what it needs of its lane: the lists in which it stands, and who pays. Each event, call or flush looks it up once and hands it on.

use crate::connection::busy::{Boxes, Busy};
use crate::connection::delivery::Deliveries;
use crate::connection::entry::Connection;
use crate::connection::machine::{Machine, Phase};
use crate::limits::{Limits, SECOND};
use crate::state::ServiceState;
use crate::state::accounts::{Parked, PeerKey};
use crate::state::memory::Memory;
use crate::words::class;
use crate::words::flows::Flow;
use crate::words::names::{ConnectionId, Ending};
use crate::words::ticket::LostTickets;
use corelane_lane::Kit;
use corelane_seam::ordered::Ordered;
use corelane_seam::{Arena, Handle, Payer};
use corelane_watch::{ConnectionRows, ConnectionState, ServiceCounter};
use std::collections::VecDeque;

/// A connection that is there.
pub(crate) struct Found<'a> {
    pub(crate) id: ConnectionId,
    pub(crate) connection: &'a mut Connection,
    pub(super) state: &'a ServiceState,
    pub(crate) agenda: &'a mut Agenda,
}

impl Found<'_> {
    /// For whom a call into its service is. Uses up the memory that it was granted, if it was.
    pub(crate) fn begin_about(&mut self) -> About {
        debug_assert!(self.connection.peer_account.is_some(), "who is called for was admitted");
        let is_granted = self.agenda.memory.use_grant(self.id);
        let (service, payer) = (self.connection.service(), self.connection.payer);
        About { id: self.id, service, payer, is_granted }
    }

    /// Whether it has its socket, as all have but those that are being opened, or have ended before they were open.
    pub(super) fn is_connected(&self) -> bool {
        self.connection.socket.is_some() || matches!(self.connection.machine.phase(), Phase::Opening | Phase::Ended)
    }

    pub(crate) fn handle(&self) -> Handle {
        Handle::new(class::CONNECTION, self.id.index, self.id.generation)
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.state.limits
    }

    pub(crate) fn count(&self, counter: ServiceCounter, by: usize) {
        self.state.row.add(counter, by as u64);
    }

    /// Has its input worked off this turn, or in the next one.
    pub(crate) fn mark_ready(&mut self) {
        if !std::mem::replace(&mut self.connection.is_ready, true) {
            self.agenda.ready.push_back(self.id.index);
        }
    }

    /// Has it looked at when this turn is flushed.
    pub(crate) fn mark_dirty(&mut self) {
        if !std::mem::replace(&mut self.connection.is_dirty, true) {
            self.agenda.dirty.push_back(self.id.index);
        }
    }

    /// Has its service called again once fewer calls are with the helper threads.
    pub(super) fn mark_offloading(&mut self) {
        debug_assert!(!self.connection.machine.has_ended(), "what has ended waits for no helper");
        if !std::mem::replace(&mut self.connection.awaits_offload, true) {
            self.agenda.offloading.push_back(Offloading::Connection(self.id));
        }
    }

    /// Has its service called again once the lane would lend it so many bytes.
    pub(super) fn mark_starved(&mut self, arena: &Arena, bytes: usize) {
        debug_assert!(!self.connection.machine.has_ended(), "what has ended waits for no memory");
        if !std::mem::replace(&mut self.connection.is_starved, true) {
            self.agenda.memory.wait(self.id, bytes, arena.held(self.connection.payer));
        }
    }

    /// Its box, from the pool if it has none.
    pub(super) fn busy(&mut self, arena: &Arena) -> &mut Busy {
        debug_assert!(!self.connection.machine.has_ended(), "what has ended has nothing under way");
        let Self { id, connection, agenda, .. } = self;
        connection.busy.get_or_insert_with(|| agenda.boxes.take(*id, arena, &agenda.lost))
    }

    /// The same, taken out for a call; to be put back.
    pub(super) fn take_busy(&mut self, arena: &Arena) -> Box<Busy> {
        self.connection.busy.take().unwrap_or_else(|| self.agenda.boxes.take(self.id, arena, &self.agenda.lost))
    }

    /// Changes the state of its life, tells readers of an ending that is decided by that, and counts a handshake that begins or ends.
    pub(super) fn change<R>(&mut self, now: u64, change: impl FnOnce(&mut Machine) -> R) -> R {
        debug_assert!(!self.connection.machine.has_ended(), "what has ended changes no more");
        let machine = &mut self.connection.machine;
        let (was_to_end, before, result) = (machine.ending(), machine.is_in_handshake(), change(machine));
        let (after, serves) = (machine.is_in_handshake(), machine.serves_input());
        if let Some(ending) = machine.ending().filter(|ending| was_to_end != Some(*ending)) {
            self.agenda.tell_ending(self.id.index, ending);
        }
        if before == after {
            return result;
        }
        match before {
            true => self.leave_handshakes(serves),
            false => self.join_handshakes(),
        }
        self.connection.active_at = now;
        result
    }

    /// Drops what will never pass the transform. Only what the transform has made still leaves.
    pub(super) fn drop_unpassed(&mut self) {
        debug_assert!(!self.connection.machine.takes_notices(), "what is dropped nobody will miss");
        if let Some(busy) = self.connection.busy.as_mut() {
            busy.keep_wire_only();
        }
    }

    /// A handshake begins: it takes a place, or waits for one. One that this side began has a place at once.
    fn join_handshakes(&mut self) {
        debug_assert!(self.connection.machine.is_in_handshake(), "who joins has begun");
        match self.accepted_from() {
            Some(peer) if !self.state.handshakes.borrow().admits(peer) => self.park(peer),
            peer => self.take_place(peer),
        }
    }

    /// Whose connection it is, if it was accepted.
    fn accepted_from(&self) -> Option<PeerKey> {
        let is_accepted = !self.connection.machine.is_outgoing();
        is_accepted.then(|| self.agenda.memory.accounts.key(self.connection.peer()))
    }

    /// There is a place among the handshakes for one that waits for it.
    pub(crate) fn place(&mut self, peer: PeerKey, parked: u32, now: u64) {
        let waits = self.connection.machine.is_in_handshake() && self.connection.parked == parked;
        assert!(waits, "who waits for a place leaves the list with its handshake");
        (self.connection.parked, self.connection.active_at) = (0, now);
        self.take_place(Some(peer));
        self.mark_ready();
        self.mark_dirty();
    }

    fn take_place(&mut self, peer: Option<PeerKey>) {
        debug_assert!(self.connection.machine.is_in_handshake() && self.connection.parked == 0, "a handshake takes one place");
        self.state.handshakes.borrow_mut().take(peer);
        self.tell_places();
    }

    fn park(&mut self, peer: PeerKey) {
        debug_assert!(self.connection.parked == 0, "who waits for a place waits once");
        self.agenda.parked_last = self.agenda.parked_last.checked_add(1).unwrap_or(1);
        self.connection.parked = self.agenda.parked_last;
        let before = self
            .agenda
            .parked
            .insert(Parked { service: self.connection.service(), peer, number: self.connection.parked }, self.id);
        assert!(before.is_none(), "each waits for one place");
    }

    /// A handshake has ended; `serves` if it has ended well.
    fn leave_handshakes(&mut self, serves: bool) {
        debug_assert!(!self.connection.machine.is_in_handshake(), "who leaves is through, or gives up");
        let peer = self.accepted_from();
        match (std::mem::take(&mut self.connection.parked), peer) {
            (0, peer) => {
                self.state.handshakes.borrow_mut().give_back(peer);
                self.agenda.handshakes_ended = true;
                self.tell_places();
            }
            (number, peer) => {
                // reason: only what was accepted waits.
                let peer = peer.expect("who waits for a place was accepted");
                let waited = self.agenda.parked.remove(Parked { service: self.connection.service(), peer, number });
                assert!(waited == Some(self.id), "who waits for a place is in the list");
            }
        }
        self.count(if serves { ServiceCounter::Handshakes } else { ServiceCounter::HandshakesFailed }, 1);
    }

    fn tell_places(&self) {
        self.state.row.set(ServiceCounter::HandshakesUnderWay, self.state.handshakes.borrow().share().used.into());
    }
}

/// Which connection a call into a service is for, and who pays for what the call leases.
pub(crate) struct About {
    pub(crate) id: ConnectionId,
    pub(crate) service: u16,
    payer: Payer,
    is_granted: bool,
}

impl About {
    /// Has the connection pay for what is leased from now on; returns who paid before.
    pub(crate) fn begin_to_pay(&self, kit: &Kit) -> Payer {
        let before = kit.arena.pay_as(self.payer);
        if self.is_granted {
            kit.arena.grant();
        }
        before
    }
}

/// How often those who hold places among handshakes are looked at while others wait for one.
const LOOK_AT_PLACES: u64 = SECOND / 10;
/// Marks the timer of places; the other timer of this class has 0.
pub(crate) const PLACES: u32 = 1;

/// Who waits for a place with the helper threads, and is called again when there is one.
#[derive(Clone, Copy)]
pub(crate) enum Offloading {
    /// What a connection has brought.
    Connection(ConnectionId),
    /// What a service does in calls that are for no connection.
    Service(u16),
}

/// What the connections of a lane share: who must be looked at, storage to reuse, and who waits for what.
#[derive(Default)]
pub(crate) struct Agenda {
    /// Those whose input is to be worked off.
    pub(crate) ready: VecDeque<u32>,
    /// Those to be looked at when this turn is flushed.
    pub(crate) dirty: VecDeque<u32>,
    /// Storage to reuse.
    pub(super) boxes: Boxes,
    pub(crate) lost: LostTickets,
    pub(crate) memory: Memory,
    pub(crate) deliveries: Deliveries,
    /// Who waits until a call has come back from the helper threads.
    pub(crate) offloading: VecDeque<Offloading>,
    /// Connections that wait for a place among their service's handshakes, by service, peer, and when they came.
    pub(crate) parked: Ordered<Parked, ConnectionId>,
    /// How many have waited so.
    pub(crate) parked_last: u32,
    /// Handshakes have ended: there may be room for others.
    pub(crate) handshakes_ended: bool,
    /// A timer runs at whose end those who hold places are looked at, because others wait for one.
    pub(crate) places_timed: bool,
    /// When connections were looked through last for those that have stood still.
    pub(crate) stale_at: u64,
    /// Of which peer and which service, or of all services; and those that were found then, the one that has stood still longest at the end.
    pub(crate) stale_of: Option<(Option<u16>, PeerKey)>,
    pub(crate) stale: Vec<ConnectionId>,
    /// When it was looked last who has most of the connections, and of the tasks.
    pub(crate) crowd_at: u64,
    pub(crate) tasks_at: u64,
    /// Handshake steps that this turn has taken or put off.
    pub(crate) handshake_steps: u32,
    /// What the page says of each; none where nobody reads it.
    pub(crate) rows: Option<ConnectionRows>,
}

impl Agenda {
    /// The next one whose input is to be worked off.
    pub(crate) fn next_ready(&mut self) -> u32 {
        // reason: who takes them counts them before, and nobody else does.
        self.ready.pop_front().expect("as many are ready as were counted")
    }

    /// The next one to be flushed.
    pub(crate) fn next_dirty(&mut self) -> u32 {
        // reason: as above.
        self.dirty.pop_front().expect("as many are to be flushed as were counted")
    }

    /// Tells readers of the page of a connection that is there: since when, and its flow if that is known.
    pub(crate) fn tell_open(&self, number: u32, flow: Option<Flow>, now: u64) {
        if let Some(rows) = &self.rows {
            rows.open(number, flow.map(|flow| flow.id.0), now);
        }
    }

    /// Tells them how one ends.
    pub(crate) fn tell_ending(&self, number: u32, ending: Ending) {
        if let Some(rows) = &self.rows {
            rows.end(number, ending.state());
        }
    }

    /// Tells them of one that has gone to another lane.
    pub(crate) fn tell_left(&self, number: u32) {
        if let Some(rows) = &self.rows {
            rows.end(number, ConnectionState::Moved);
        }
    }

    /// Whether a connection is to be looked at without another completion.
    pub(crate) fn has_work(&self) -> bool {
        !(self.ready.is_empty() && self.dirty.is_empty() && self.lost.is_empty())
            || self.handshakes_ended
            || self.deliveries.has_work()
    }

    /// Has those who hold places looked at after a while, if that is not to come anyway.
    pub(crate) fn look_at_places(&mut self, kit: &mut Kit) {
        if !std::mem::replace(&mut self.places_timed, true) {
            kit.start_timer(kit.now() + LOOK_AT_PLACES, Handle::new(class::ACCEPT_AGAIN, PLACES, 0));
        }
    }
}
