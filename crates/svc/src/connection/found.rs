//! A connection that was looked up, with what it needs of its lane. Each event, call or flush looks it up once and hands it on.

use crate::connection::delivery::{Deliveries, Delivery};
use crate::connection::entry::{Busy, Connection};
use crate::connection::ticket::LostTickets;
use crate::limits::Limits;
use crate::state::ServiceState;
use crate::state::accounts::PeerKey;
use crate::state::memory::Memory;
use crate::words::class;
use crate::words::flows::Flow;
use crate::words::names::{ConnectionId, Ending};
use corelane_lane::Kit;
use corelane_seam::{Arena, Chain, Handle, Payer};
use corelane_watch::{ConnectionRows, ServiceCounter};
use std::collections::{BTreeMap, VecDeque};

/// Boxes and chains kept for reuse; more than a turn can use at once are given back to the system.
const POOL_MAX: usize = 256;

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
pub(crate) struct Desk {
    /// Those whose input is to be worked off.
    pub(crate) ready: VecDeque<u32>,
    /// Those to be looked at when this turn is flushed.
    pub(crate) dirty: VecDeque<u32>,
    #[expect(clippy::vec_box, reason = "a box goes to its connection and comes back without being moved")]
    pool: Vec<Box<Busy>>,
    /// Empty chains with storage, for the next sends.
    chains: Vec<Chain>,
    pub(crate) lost: LostTickets,
    pub(crate) memory: Memory,
    pub(crate) deliveries: Deliveries,
    /// Who waits until a call has come back from the helper threads.
    pub(crate) offloading: VecDeque<Offloading>,
    /// Connections that wait for a place among their service's handshakes, by service, peer, and when they came.
    pub(crate) parked: BTreeMap<(u16, PeerKey, u32), ConnectionId>,
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

impl Desk {
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

    /// Whether a connection is to be looked at without another completion.
    pub(crate) fn has_work(&self) -> bool {
        !(self.ready.is_empty() && self.dirty.is_empty() && self.lost.is_empty())
            || self.handshakes_ended
            || self.deliveries.has_work()
    }

    /// Storage for a chain.
    pub(crate) fn chain(&mut self) -> Chain {
        self.chains.pop().unwrap_or_default()
    }

    /// Keeps an empty chain's storage.
    pub(crate) fn keep_chain(&mut self, chain: Chain) {
        assert!(chain.is_empty(), "a chain to be kept for reuse holds bytes");
        if self.chains.len() < POOL_MAX {
            self.chains.push(chain);
        }
    }

    /// Takes back a box with something left in it.
    pub(crate) fn recycle(&mut self, mut busy: Box<Busy>) {
        busy.reset();
        self.keep(busy);
    }

    /// Takes back a box in which nothing is left.
    pub(crate) fn keep(&mut self, mut busy: Box<Busy>) {
        assert!(busy.is_idle(), "a box comes back with something in it");
        (busy.needed, busy.blocked, busy.awaits_offload, busy.was_starved, busy.record_bytes) = (0, false, false, false, 0);
        (busy.moved_at, busy.moved, busy.told_drained, busy.delivery) = (0, 0, false, Delivery::NONE);
        if self.pool.len() < POOL_MAX {
            self.pool.push(busy);
        }
    }

    fn busy(&mut self, id: ConnectionId, arena: &Arena) -> Box<Busy> {
        let mut busy = self.pool.pop().unwrap_or_else(|| Box::new(Busy::new(arena, &self.lost)));
        busy.output.belong_to(id);
        busy
    }
}

/// A connection that is there.
pub(crate) struct Found<'a> {
    pub(crate) id: ConnectionId,
    pub(crate) connection: &'a mut Connection,
    pub(crate) state: &'a ServiceState,
    pub(crate) desk: &'a mut Desk,
}

impl Found<'_> {
    /// For whom a call into its service is. Uses up the memory that it was granted, if it was.
    pub(crate) fn begin_about(&mut self) -> About {
        let is_granted = self.desk.memory.use_grant(self.id);
        let (service, payer) = (self.connection.service(), self.connection.payer);
        About { id: self.id, service, payer, is_granted }
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
            self.desk.ready.push_back(self.id.index);
        }
    }

    /// Has it looked at when this turn is flushed.
    pub(crate) fn mark_dirty(&mut self) {
        if !std::mem::replace(&mut self.connection.is_dirty, true) {
            self.desk.dirty.push_back(self.id.index);
        }
    }

    /// Has its service called again once fewer calls are with the helper threads.
    pub(crate) fn mark_offloading(&mut self) {
        if !std::mem::replace(&mut self.connection.awaits_offload, true) {
            self.desk.offloading.push_back(Offloading::Connection(self.id));
        }
    }

    /// Has its service called again once the lane would lend it so many bytes.
    pub(crate) fn mark_starved(&mut self, arena: &Arena, bytes: usize) {
        if !std::mem::replace(&mut self.connection.is_starved, true) {
            self.desk.memory.wait(self.id, bytes, arena.held(self.connection.payer));
        }
    }

    /// Its box, from the pool if it has none.
    pub(crate) fn busy(&mut self, arena: &Arena) -> &mut Busy {
        let Self { id, connection, desk, .. } = self;
        connection.busy.get_or_insert_with(|| desk.busy(*id, arena))
    }

    /// The same, taken out for a call; to be put back.
    pub(crate) fn take_busy(&mut self, arena: &Arena) -> Box<Busy> {
        self.connection.busy.take().unwrap_or_else(|| self.desk.busy(self.id, arena))
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
