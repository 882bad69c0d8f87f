//! The table of a lane's connections, and how many of them there may be.

use crate::connection::delivery::Kept;
use crate::connection::entry::Connection;
use crate::connection::found::{Agenda, Found};
use crate::state::ServiceState;
use crate::state::accounts::PeerKey;
use crate::words::class;
use crate::words::names::{ConnectionId, Peer};
use crate::words::transform::Transform;
use corelane_lane::Kit;
use corelane_seam::ordered::Ordered;
use corelane_seam::share::Share;
use corelane_seam::slab::{HandleSlab, Others};
use corelane_seam::{Arena, Driver, Handle, Op, Outcome, Socket};
use std::any::Any;

/// Connections of which a look asks the system whether they were broken off; the others follow in the next turn.
const DEAF_PER_LOOK: usize = 256;

/// Those of all services. One is there from its admission until its socket is closed.
pub(crate) struct Connections {
    entries: HandleSlab<Connection>,
    /// How many there may be.
    most: u32,
    /// Descriptors that the lane can have open.
    descriptors: u64,
    /// For how many there are descriptors: so many are shared by the peers.
    shared: u32,
    /// Sockets that are being closed without having been a connection.
    turned_away: usize,
    /// The sessions of connections that are being opened, until their services can take them.
    to_be: Ordered<u32, Box<dyn Any>>,
}

impl Connections {
    pub(crate) fn new(most: u32) -> Self {
        let descriptors = most.into();
        Self { entries: HandleSlab::roomy(), most, shared: most, descriptors, turned_away: 0, to_be: Ordered::default() }
    }

    /// So many descriptors can be open: the peers share what there is room for.
    pub(crate) fn share_descriptors(&mut self, descriptors: u64) {
        self.descriptors = descriptors;
        self.shared = u32::try_from(descriptors).unwrap_or(u32::MAX).min(self.most);
    }

    /// How many there are, and may be.
    pub(crate) fn share(&self) -> Share {
        debug_assert!(self.shared <= self.most, "peers share what there may be");
        Share { limit: self.shared, used: self.entries.len() as u32 }
    }

    /// All of them, with their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ConnectionId, &Connection)> {
        self.entries.iter().map(|(key, connection)| (key.into(), connection))
    }

    pub(crate) fn descriptors(&self) -> u64 {
        self.descriptors
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The indices in use, lowest first.
    pub(crate) fn indices(&self) -> impl Iterator<Item = u32> + '_ {
        self.entries.keys().map(|key| key.index)
    }

    /// The connection at an index with its name, if one is there.
    pub(crate) fn named(&mut self, index: u32) -> Option<(ConnectionId, &mut Connection)> {
        self.entries.named(index).map(|(key, connection)| (key.into(), connection))
    }

    /// The same, and beside it all others.
    pub(crate) fn among(&mut self, index: u32) -> Option<(ConnectionId, &mut Connection, Others<'_, Connection>)> {
        self.entries.among(index).map(|(key, connection, others)| (key.into(), connection, others))
    }

    /// How often one was looked up.
    #[cfg(debug_assertions)]
    pub(crate) fn look_ups(&self) -> u64 {
        self.entries.look_ups()
    }

    /// The handle, in a class, of a connection of which the caller knows that it is there.
    pub(crate) fn handle(&self, class: u8, index: u32) -> Handle {
        Handle::new(class, index, self.entries.key_at(index).generation)
    }

    /// The connection of that name, if it is still there.
    pub(crate) fn find(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.entries.get_mut(id.into())
    }

    /// Whether something has come on a connection that is still to be worked off.
    pub(crate) fn has_news(&mut self, id: ConnectionId) -> bool {
        self.find(id).is_some_and(|connection| connection.is_ready)
    }

    /// The connection at an index of which the caller knows that it is there: an entry lives from its admission until its socket is closed.
    pub(crate) fn there(&mut self, index: u32) -> &mut Connection {
        self.entries.at_mut(index)
    }

    /// Whether one more connection of a service may be open.
    pub(crate) fn has_room(&self, state: &ServiceState) -> bool {
        state.open.share().left() > 0 && self.entries.len() < self.most as usize
    }

    /// Whether the peer is at its bound: the service's own for it, or its share of the service's connections and of the lane's.
    pub(crate) fn peer_is_full(&self, state: &ServiceState, agenda: &Agenda, peer: PeerKey) -> bool {
        match state.limits.connections_per_peer_max {
            0 => !(self.lane_admits(agenda.memory.accounts.accepted(peer)) && state.open.admits(peer)),
            most => state.open.held(peer) >= most,
        }
    }

    /// Whether a peer that has opened so many may open another one. Where there is no descriptor left, the system says so.
    pub(crate) fn lane_admits(&self, accepted: u32) -> bool {
        let Share { limit, used } = self.share();
        Share { limit, used: used.min(limit.saturating_sub(1)) }.admits(accepted)
    }

    /// Adds a connection to the table and to the counts, and opens its account.
    pub(crate) fn admit(
        &mut self,
        states: &mut [ServiceState],
        agenda: &mut Agenda,
        connection: Connection,
        arena: &Arena,
    ) -> u32 {
        assert!(self.has_room(&states[connection.service() as usize]), "who is admitted has room");
        self.readmit(states, agenda, connection, arena)
    }

    /// The same for one that was admitted before it was to leave, and comes back: so many more than may be as can be on their way.
    pub(crate) fn readmit(
        &mut self,
        states: &mut [ServiceState],
        agenda: &mut Agenda,
        connection: Connection,
        arena: &Arena,
    ) -> u32 {
        assert!(connection.session.is_none() && connection.timers.is_empty(), "what a connection has it gets once it is there");
        debug_assert!(connection.peer_account.is_none() && connection.busy.is_none(), "nothing of it is charged yet");
        let index = self.entries.insert(connection).index;
        let connection = self.there(index);
        let state = &mut states[connection.service() as usize];
        let (peer, is_accepted) = (PeerKey::of(&connection.peer.address), !connection.machine.is_outgoing());
        state.opened(is_accepted.then_some(peer));
        let (account, payer) = agenda.memory.accounts.open(arena, peer, is_accepted, (index, state.payers.service));
        (connection.peer_account, connection.payer) = (Some(account), payer);
        agenda.tell_open(index, connection.peer.flow, connection.active_at);
        index
    }

    /// Has the peer of the connection at `payer` pay for what the outgoing one at `outgoing` holds from now on. Nothing in a call for that one: it pays for the call.
    pub(crate) fn charge_to(
        &mut self,
        states: &[ServiceState],
        agenda: &mut Agenda,
        (outgoing, payer): (u32, u32),
        arena: &Arena,
    ) {
        let to = self.there(payer).peer();
        let connection = self.there(outgoing);
        let (from, before) = (connection.peer(), connection.payer);
        if !connection.machine.is_outgoing() || from == to || before == arena.payer() {
            return;
        }
        let sum = states[connection.service() as usize].payers.service;
        connection.payer = agenda.memory.accounts.transfer(arena, (from, before), to, (outgoing, sum));
        connection.peer_account = Some(to);
    }

    /// Keeps the session of a connection that is being opened.
    pub(crate) fn keep_session(&mut self, index: u32, session: Box<dyn Any>) {
        let before = self.to_be.insert(index, session);
        assert!(before.is_none(), "a connection that is being opened has one session");
    }

    pub(crate) fn has_session(&self, index: u32) -> bool {
        self.to_be.contains(index)
    }

    /// The session that was kept; none where it was taken before, or another side opened the connection.
    pub(crate) fn take_session(&mut self, index: u32) -> Option<Box<dyn Any>> {
        self.to_be.remove(index)
    }

    /// Removes a connection whose socket is closed; returns what its user gave for it.
    pub(crate) fn dismiss(
        &mut self,
        states: &mut [ServiceState],
        agenda: &mut Agenda,
        index: u32,
        arena: &Arena,
    ) -> Option<Box<Box<dyn Transform>>> {
        // Asked for by its last completion.
        let mut connection = self.remove(states, agenda, index, arena);
        assert!(connection.machine.has_ended(), "a connection goes behind its end: {:?}", connection.machine);
        assert!(connection.timer.is_none(), "no deadline comes for what is gone");
        if let Some(busy) = connection.busy.take() {
            agenda.boxes.recycle(busy);
        }
        connection.transform.take()
    }

    /// Removes a connection that leaves for another lane, or has found no place on this one; returns its two ends, and since when nothing was asked of it.
    pub(crate) fn depart(&mut self, states: &mut [ServiceState], agenda: &mut Agenda, index: u32, kit: &mut Kit) -> (Peer, u64) {
        let mut connection = self.remove(states, agenda, index, &kit.arena);
        assert!(connection.is_empty() && !connection.machine.has_ended(), "what leaves is packed, and has not ended");
        if let Some(timer) = connection.timer.take() {
            kit.stop_timer(timer);
        }
        agenda.tell_left(index);
        (connection.peer, connection.active_at)
    }

    fn remove(&mut self, states: &mut [ServiceState], agenda: &mut Agenda, index: u32, arena: &Arena) -> Connection {
        let connection = self.entries.remove_at(index);
        assert!(connection.session.is_none() && !self.has_session(index), "a session outlives its connection");
        assert!(connection.timers.is_empty(), "a timer outlives its connection");
        debug_assert!(connection.parked == 0, "who waits for a place leaves the list with its handshake");
        let is_accepted = !connection.machine.is_outgoing();
        let peer = agenda.memory.accounts.close(arena, connection.peer(), is_accepted, connection.payer);
        states[connection.service() as usize].closed(is_accepted.then_some(peer));
        connection
    }

    /// Asks the system what it keeps of those whose time it is, and whether those that hear nothing were broken off.
    pub(crate) fn ask_of_deliveries(&mut self, agenda: &mut Agenda, driver: &dyn Driver) {
        while let Some(id) = agenda.deliveries.next_question() {
            let socket = self.find(id).and_then(|connection| connection.socket);
            let kept = socket.map(|socket| Kept::of(socket, driver));
            kept.into_iter().for_each(|kept| agenda.deliveries.answer(id, kept));
        }
        for _ in 0..DEAF_PER_LOOK {
            let Some(id) = agenda.deliveries.next_deaf() else { break };
            // One that receives again, or sends, hears it itself, and is to hear it: it is told once.
            let deaf = self.find(id).filter(|connection| connection.is_deaf());
            let Some((socket, machine)) = deaf.and_then(|connection| Some((connection.socket?, connection.machine))) else {
                continue;
            };
            // An answer that has come is passed on, whatever became of the server behind it.
            let is_asked = !machine.is_outgoing() || driver.readable_bytes(socket) == 0;
            let broken = if is_asked { driver.broken(socket, machine.peer_has_finished()) } else { None };
            broken.into_iter().for_each(|why| agenda.deliveries.tell_broken(id, why));
        }
    }

    /// Closes a socket that never became a connection.
    pub(crate) fn turn_away(&mut self, kit: &mut Kit, socket: Socket) {
        self.turned_away += 1;
        kit.submit(Handle::new(class::UNADMITTED, 0, 0), Op::Close { socket, reset: true });
    }

    /// Such a socket is closed.
    pub(crate) fn turned_away(&mut self, outcome: &Outcome) {
        assert!(matches!(outcome, Outcome::Closed), "a close ends so: {outcome:?}");
        assert!(self.turned_away > 0, "a socket was closed that nobody had turned away");
        self.turned_away -= 1;
    }

    /// Whether there is none, and no socket of one that was turned away.
    pub(crate) fn are_gone(&self) -> bool {
        self.entries.is_empty() && self.turned_away == 0
    }
}

impl<'a> Found<'a> {
    /// The connection of that name, if it is still there.
    pub(crate) fn named(
        connections: &'a mut Connections,
        states: &'a [ServiceState],
        agenda: &'a mut Agenda,
        id: ConnectionId,
    ) -> Option<Self> {
        let connection = connections.find(id)?;
        let state = &states[connection.service() as usize];
        Some(Self { id, connection, state, agenda })
    }

    /// The connection at an index, if one is there.
    pub(crate) fn at(
        connections: &'a mut Connections,
        states: &'a [ServiceState],
        agenda: &'a mut Agenda,
        index: u32,
    ) -> Option<Self> {
        let (id, connection) = connections.named(index)?;
        let state = &states[connection.service() as usize];
        Some(Self { id, connection, state, agenda })
    }

    /// The connection at an index, if one is there, and beside it all others.
    #[inline]
    pub(crate) fn among(
        connections: &'a mut Connections,
        states: &'a [ServiceState],
        agenda: &'a mut Agenda,
        index: u32,
    ) -> Option<(Self, Others<'a, Connection>)> {
        let (id, connection, others) = connections.among(index)?;
        let state = &states[connection.service() as usize];
        Some((Self { id, connection, state, agenda }, others))
    }
}
