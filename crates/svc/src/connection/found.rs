//! A connection that was looked up, with what it needs of its lane: the lists in which it stands, and who pays. Each event, call or flush looks it up once and hands it on.

use crate::connection::busy::{Boxes, Busy};
use crate::connection::delivery::{Deliveries, Kept};
use crate::connection::entry::Connection;
use crate::connection::machine::{Machine, Phase};
use crate::connection::parking::Parking;
use crate::limits::Limits;
use crate::state::ServiceState;
use crate::state::accounts::{Parked, PeerKey};
use crate::state::memory::Memory;
use crate::words::class;
use crate::words::flows::Flow;
use crate::words::names::{ConnectionId, Ending};
use crate::words::ticket::{LostTickets, Name};
use corelane_lane::Kit;
use corelane_seam::{Arena, Fault, Handle, Payer};
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
        self.connection.parked = self.agenda.parking.park(self.connection.service(), peer, self.id);
    }

    /// A handshake has ended; `serves` if it has ended well.
    fn leave_handshakes(&mut self, serves: bool) {
        debug_assert!(!self.connection.machine.is_in_handshake(), "who leaves is through, or gives up");
        let peer = self.accepted_from();
        match (std::mem::take(&mut self.connection.parked), peer) {
            (0, peer) => {
                self.state.handshakes.borrow_mut().give_back(peer);
                self.agenda.parking.handshake_ended();
                self.tell_places();
            }
            (number, peer) => {
                // reason: only what was accepted waits.
                let peer = peer.expect("who waits for a place was accepted");
                let waited = self.agenda.parking.leave(Parked { service: self.connection.service(), peer, number });
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

/// Handshake steps in one turn. More wait for the next turn, so that other connections do not wait for all of them.
const HANDSHAKE_STEPS_PER_TURN: u32 = 16;

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
    ready: VecDeque<u32>,
    /// Those to be looked at when this turn is flushed.
    dirty: VecDeque<u32>,
    /// Storage to reuse.
    pub(super) boxes: Boxes,
    lost: LostTickets,
    pub(super) memory: Memory,
    pub(super) deliveries: Deliveries,
    /// Who waits until a call has come back from the helper threads.
    offloading: VecDeque<Offloading>,
    parking: Parking,
    /// Handshake steps that this turn has taken or put off.
    handshake_steps: u32,
    /// What the page says of each; none where nobody reads it.
    rows: Option<ConnectionRows>,
}

impl Agenda {
    /// The connections that wait for memory, and the peers that pay for it.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The same, to be changed.
    pub(crate) fn memory_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// The connections that wait for a place among the handshakes.
    pub(crate) fn parking(&mut self) -> &mut Parking {
        &mut self.parking
    }

    /// The rows of the page that are to say of each connection how it fares.
    pub(crate) fn write_rows(&mut self, rows: ConnectionRows) {
        self.rows = Some(rows);
    }

    /// A turn begins: it takes its own share of handshake steps.
    pub(crate) fn begin_turn(&mut self) {
        self.handshake_steps = 0;
    }

    /// Takes one of the handshake steps that a turn may take. False if it has taken so many.
    pub(super) fn take_handshake_step(&mut self) -> bool {
        self.handshake_steps += 1;
        self.handshake_steps <= HANDSHAKE_STEPS_PER_TURN
    }

    /// A service waits for a place with the helper threads.
    pub(crate) fn await_offload(&mut self, service: u16) {
        self.offloading.push_back(Offloading::Service(service));
    }

    /// Takes the service or connection that is to be called again next, because there is a place with the helper threads.
    pub(crate) fn next_offloading(&mut self) -> Option<Offloading> {
        self.offloading.pop_front()
    }

    /// Tickets that were dropped since this was asked last, each of its connection; mostly none.
    pub(crate) fn take_lost(&mut self) -> Option<Vec<(ConnectionId, Name)>> {
        (!self.lost.is_empty()).then(|| self.lost.take())
    }

    /// Takes the next connection of which the system was asked, and says what the system keeps of it.
    pub(crate) fn next_answer(&mut self) -> Option<(ConnectionId, Kept)> {
        self.deliveries.next_answer()
    }

    /// The next one that was broken off while nothing of it was under way, and why.
    pub(crate) fn next_broken(&mut self) -> Option<(ConnectionId, Fault)> {
        self.deliveries.next_broken()
    }

    /// How many are to have their input worked off. Those that are marked meanwhile are for the next turn.
    pub(crate) fn count_ready(&self) -> usize {
        self.ready.len()
    }

    /// Counts the connections that are to be flushed. Those that a flush touches are flushed in the next turn.
    pub(crate) fn count_dirty(&self) -> usize {
        self.dirty.len()
    }

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
            || self.parking.has_news()
            || self.deliveries.has_work()
    }
}
