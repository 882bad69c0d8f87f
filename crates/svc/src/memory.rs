//! Who pays for a lane's memory, who waits for it, and who ends so that others get what is theirs.
//!
//! The rule by which the arena lends stands in `seam` (`ledger`). Here it gets its payers: each peer with its connections, and each
//! service with what it keeps itself. A peer is one to all services, or it would have its part of the reserve several times. Whoever is refused waits in a queue with the bytes that were refused, and is
//! called again when they would be lent. Two things keep that from being for ever:
//!
//! * **One of many who wait may hold more than it leaves** (a grant), so that a request that has begun to arrive can be served.
//! * **Connections end**, the largest holders' first: any of them when the reserve itself is nearly gone or in pieces; and those that have stood
//!   still for a second when somebody waits for a small part of what their peer holds.

use crate::class;
use crate::connection::{Busy, Connection};
use crate::found::Found;
use crate::limits::SECOND;
use crate::names::{ConnectionId, Ending};
use crate::services::Services;
use crate::table::Table;
use corelane_lane::{Kit, TimerId};
use corelane_seam::{Address, Arena, DATAGRAM_BLOCK_BYTES_LEAST, Handle, Holder, Payer, RECEIVE_BYTES_LEAST, Role};
use corelane_watch::ServiceCounter;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// Who is one peer to limits and to memory: an IPv4 address, or the IPv6 addresses of one /64, which is what one host is given
/// (RFC 6177, section 2); over a Unix socket a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PeerKey {
    V4(u32),
    V6(u64),
    /// A user of this machine (unix(7)); none is whoever listens where this side connects to.
    User(Option<u32>),
    /// A card on its link.
    Card([u8; 6]),
}

impl PeerKey {
    pub(crate) fn of(address: &Address) -> Self {
        match address {
            Address::Ip(address) => Self::of_ip(address.ip()),
            Address::Unix(unix) => Self::User(unix.user),
            Address::Link(link) => Self::Card(link.mac),
        }
    }

    fn of_ip(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.to_bits()),
            IpAddr::V6(address) => Self::V6((address.to_bits() >> 64) as u64),
        }
    }
}

/// What a lane keeps of a peer, as long as it has connections.
struct PeerAccount {
    payer: Payer,
    connections: u32,
    /// Those of them that it opened itself.
    accepted: u32,
}

/// Who pays for a service.
#[derive(Clone, Copy)]
pub(crate) struct Payers {
    /// The sum of what its connections hold and of its own.
    pub(crate) service: Payer,
    /// What the service keeps itself, and its datagrams, whose senders prove nothing.
    pub(crate) own: Payer,
}

impl Payers {
    /// Before the lane has turned nothing is charged to a service.
    pub(crate) const NONE: Self = Self { service: Payer::LANE, own: Payer::LANE };
}

/// A connection that waits for memory.
struct Waiting {
    id: ConnectionId,
    bytes: usize,
}

/// What the operator was not told yet of connections that were ended for their memory.
#[derive(Default)]
struct Unsaid {
    connections: u32,
    bytes: usize,
    /// Whose peer held the most, and how much.
    largest: Option<(Address, usize)>,
}

/// How far the one is that may hold more than it leaves.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Grant {
    /// It was not served since it was chosen.
    #[default]
    New,
    /// It was served, and has held nothing yet.
    Used,
    /// It has held memory: when it holds none any more, it has come to its end.
    Held,
}

/// The queue for memory, and what was done for it.
#[derive(Default)]
pub(crate) struct Memory {
    peers: BTreeMap<PeerKey, PeerAccount>,
    waiting: VecDeque<Waiting>,
    /// May hold more than it leaves, so that it can come to its end; the next one may when it has, or stands still.
    grantee: Option<ConnectionId>,
    grant: Grant,
    /// How many of those who wait are still to be looked at, for something has changed since they were.
    to_look_at: usize,
    /// Blocks given back when that was noticed last.
    given_back: u64,
    /// When some of them were looked at last.
    passed_at: u64,
    /// When the holders were looked at last.
    looked_at: u64,
    /// When the operator was told last.
    said_at: u64,
    unsaid: Unsaid,
    /// The timer that sees to a turn, and when it comes.
    timer: Option<(u64, TimerId)>,
}

/// Those who wait that one pass looks at.
const LOOKS: usize = 256;
/// How often the holders are looked at while somebody waits, and all who wait though nothing was given back: by then others may stand still.
const LOOK_AGAIN: u64 = SECOND / 4;
/// How often those who wait are looked at while blocks are given back, and the holders when the reserve is nearly gone.
const LOOK_SOON: u64 = SECOND / 1000;
/// How long a holder may stand still while others wait for a part of what it holds.
const STANDSTILL: u64 = SECOND;
/// The part of what it holds that a connection must move to be said to move.
const MOVES_DIVISOR: usize = 8;
/// A peer must hold so many times what another one would, for its connections to be ended in favour of that one.
const TIMES_AS_MUCH: usize = 4;
/// The reserve is nearly gone when less than this part of it is free; then connections end until twice as much is.
const NEARLY_GONE_DIVISOR: usize = 4;
/// How often the operator is told.
const SAY_AGAIN: u64 = SECOND;

impl Memory {
    /// Connections that a peer has opened to all services.
    pub(crate) fn accepted(&self, peer: PeerKey) -> u32 {
        self.peers.get(&peer).map_or(0, |account| account.accepted)
    }

    /// Whether somebody waits for memory.
    pub(crate) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether those who wait are to be looked at now: something was given back, or it is long ago.
    fn is_to_look(&mut self, given_back: u64, now: u64) -> bool {
        let since_pass = now.saturating_sub(self.passed_at);
        if given_back != self.given_back || since_pass >= LOOK_AGAIN {
            (self.given_back, self.to_look_at) = (given_back, self.waiting.len());
        }
        if self.to_look_at == 0 || since_pass < LOOK_SOON {
            return false;
        }
        self.passed_at = now;
        self.to_look_at = self.to_look_at.min(self.waiting.len()).saturating_sub(LOOKS);
        self.waits()
    }

    /// Has a connection wait for so many bytes.
    pub(crate) fn wait(&mut self, id: ConnectionId, bytes: usize) {
        self.waiting.push_back(Waiting { id, bytes });
        self.to_look_at += 1;
    }

    /// When there must be a turn though nothing happens.
    fn next_look(&self, now: u64) -> u64 {
        now + if self.to_look_at > 0 { LOOK_SOON } else { LOOK_AGAIN }
    }

    /// Whether nobody waits, and the operator has been told all.
    fn is_at_rest(&self) -> bool {
        !self.waits() && self.unsaid.connections == 0
    }

    /// Whether this connection, which is being served, may hold more than it leaves.
    pub(crate) fn is_granted(&mut self, id: ConnectionId) -> bool {
        let is_granted = self.grantee == Some(id);
        if is_granted && self.grant == Grant::New {
            self.grant = Grant::Used;
        }
        is_granted
    }
}

impl Table {
    /// Opens the accounts of all services, under that of the work that they are.
    pub(crate) fn open_payers(&mut self, arena: &Arena, work: Payer) {
        self.payer = work;
        for state in &mut self.services {
            let service = arena.open_payer(work, Role::Sum);
            state.payers = Payers { service, own: arena.open_payer(service, Role::Keeper) };
        }
    }

    /// Opens the account of a connection that was just added.
    pub(crate) fn open_account(&mut self, index: u32, arena: &Arena) {
        // reason: its entry was made by the caller.
        let connection = self.connections.at(index).expect("a connection that was just added is there");
        let state = &mut self.services[connection.service as usize];
        let key = PeerKey::of(&connection.peer.address);
        let is_accepted = !connection.machine.is_outgoing();
        if is_accepted {
            *state.accepted.entry(key).or_default() += 1;
        }
        let open = || PeerAccount { payer: arena.open_payer(self.payer, Role::Peer), connections: 0, accepted: 0 };
        let account = self.desk.memory.peers.entry(key).or_insert_with(open);
        account.connections += 1;
        account.accepted += u32::from(is_accepted);
        connection.payer = arena.open_payer(account.payer, Role::Connection { tag: index, service: state.payers.service });
        connection.peer_key = key;
    }

    /// Closes the account of a connection that is gone, and its peer's with the last one.
    pub(crate) fn close_account(&mut self, connection: &Connection, arena: &Arena) {
        let key = connection.peer_key;
        if !connection.machine.is_outgoing() {
            uncount(&mut self.services[connection.service as usize].accepted, key);
        }
        arena.close_payer(connection.payer);
        // reason: opened with the first of its connections, closed with the last.
        let account = self.desk.memory.peers.get_mut(&key).expect("a peer has an account as long as it has connections");
        account.connections -= 1;
        account.accepted -= u32::from(!connection.machine.is_outgoing());
        if account.connections == 0 {
            arena.close_payer(account.payer);
            self.desk.memory.peers.remove(&key);
        }
    }

    /// Has those called again whom the lane would lend now what they were refused.
    pub(crate) fn revive_starved(&mut self, arena: &Arena, now: u64) {
        if !self.desk.memory.waits() || !self.desk.memory.is_to_look(arena.given_back(), now) {
            return;
        }
        let (free, small) = (arena.free(), arena.small());
        let main = free.saturating_sub(arena.reserve());
        let (mut promised, mut revived) = (0, 0);
        for _ in 0..self.desk.memory.waiting.len().min(LOOKS) {
            let Some(waiting) = self.desk.memory.waiting.pop_front() else { break };
            let Some(connection) = self.find(waiting.id) else { continue };
            let room = if waiting.bytes <= small { free } else { main };
            if promised + waiting.bytes <= room && arena.would_lend(connection.payer, waiting.bytes) {
                (promised, revived) = (promised + waiting.bytes, revived + 1);
                self.revive(waiting.id, now);
            } else {
                self.desk.memory.waiting.push_back(waiting);
            }
        }
        if revived == 0 {
            self.grant_one(arena, main, now);
        }
    }

    fn revive(&mut self, id: ConnectionId, now: u64) {
        if let Some(mut found) = self.found(id) {
            found.connection.is_starved = false;
            // It could not send while it waited.
            if let Some(busy) = found.connection.busy.as_mut() {
                busy.restart_rate(now);
            }
            found.mark_ready();
        }
    }

    /// Lets the one who has waited longest have what it needs of the `main` bytes that are free beside the reserve.
    fn grant_one(&mut self, arena: &Arena, main: usize, now: u64) {
        if self.grantee_goes_on(arena, now) {
            return;
        }
        let chosen = (0..self.desk.memory.waiting.len()).find(|&at| {
            let Waiting { id, bytes } = self.desk.memory.waiting[at];
            // More memory for output that nobody takes would bring nothing to its end.
            bytes <= main && self.find(id).is_some_and(|connection| !connection.has_output())
        });
        self.desk.memory.grantee = chosen.and_then(|at| self.desk.memory.waiting.remove(at)).map(|waiting| waiting.id);
        self.desk.memory.grant = Grant::New;
        if let Some(id) = self.desk.memory.grantee {
            self.revive(id, now);
        }
    }

    /// Whether the one that may hold more than it leaves still makes use of that.
    fn grantee_goes_on(&mut self, arena: &Arena, now: u64) -> bool {
        let grant = self.desk.memory.grant;
        let Some(connection) = self.desk.memory.grantee.and_then(|id| self.find(id)) else { return false };
        let (holds, moves) = (arena.held(connection.payer) > 0, !connection.machine.has_ended() && !connection.stands_still(now));
        if holds && grant == Grant::Used {
            self.desk.memory.grant = Grant::Held;
        }
        grant == Grant::New || (moves && (holds || grant == Grant::Used))
    }
}

impl Found<'_> {
    /// Whether what arrives next may be charged to the connection; else it waits for memory.
    pub(crate) fn may_receive(&mut self, kit: &Kit) -> bool {
        // What is received into a lease of its own was lent already.
        let fills = self.connection.busy.as_ref().is_some_and(|busy| busy.fill.is_some());
        let needs_none = fills || !self.connection.machine.serves_input();
        if needs_none || kit.arena.would_lend(self.connection.payer, RECEIVE_BYTES_LEAST) {
            return true;
        }
        if self.desk.memory.is_granted(self.id) {
            return true;
        }
        self.mark_starved(RECEIVE_BYTES_LEAST);
        false
    }
}

impl Services {
    /// Ends connections if the reserve is nearly gone, or if somebody waits for little and others hold much and stand still.
    pub(crate) fn relieve(&mut self, kit: &mut Kit) {
        let is_short = kit.arena.is_short(DATAGRAM_BLOCK_BYTES_LEAST);
        if !is_short && self.table.desk.memory.is_at_rest() {
            return;
        }
        let (free, reserve) = (kit.arena.free(), kit.arena.reserve());
        let since_look = kit.now().saturating_sub(self.table.desk.memory.looked_at);
        let nearly_gone = reserve / NEARLY_GONE_DIVISOR;
        let is_in_pieces = !kit.arena.has(DATAGRAM_BLOCK_BYTES_LEAST);
        if (free < nearly_gone || is_in_pieces) && since_look >= LOOK_SOON {
            let holders = self.holders(kit, |_| true);
            self.end_holders(kit, holders, (2 * nearly_gone).saturating_sub(free).max(DATAGRAM_BLOCK_BYTES_LEAST));
        } else if self.table.desk.memory.waits() && since_look >= LOOK_AGAIN {
            self.relieve_one(kit);
        }
        self.say_who_ended(kit);
        self.set_memory_timer(kit);
    }

    /// Sees to a turn when those who wait are to be looked at again.
    fn set_memory_timer(&mut self, kit: &mut Kit) {
        let memory = &mut self.table.desk.memory;
        let next = memory.next_look(kit.now());
        let is_early = memory.timer.is_some_and(|(at, _)| at <= next);
        if is_early || (!memory.waits() && memory.unsaid.connections == 0) {
            return;
        }
        if let Some((_, late)) = memory.timer.take() {
            kit.stop_timer(late);
        }
        memory.timer = Some((next, kit.start_timer(next, Handle::new(class::MEMORY, 0, 0))));
    }

    /// What is to be done is done in every turn; the timer only sees to it that there is one.
    pub(crate) fn memory_timer(&mut self) {
        self.table.desk.memory.timer = None;
    }

    /// For the first who waits and would hold far less than others do: ends of these who stand still.
    fn relieve_one(&mut self, kit: &mut Kit) {
        let now = kit.now();
        let holders = self.holders(kit, |connection| connection.stands_still(now));
        let most = holders.iter().map(|holder| holder.peer_bytes).max().unwrap_or(0);
        let held_by_peer = |table: &mut Table, id| {
            let key = table.find(id)?.peer_key;
            table.desk.memory.peers.get(&key).map(|account| kit.arena.held(account.payer))
        };
        let needs = (0..self.table.desk.memory.waiting.len()).find_map(|at| {
            let Waiting { id, bytes } = self.table.desk.memory.waiting[at];
            let would_hold = held_by_peer(&mut self.table, id)? + bytes;
            (would_hold.saturating_mul(TIMES_AS_MUCH) <= most).then_some((bytes, would_hold))
        });
        let Some((bytes, would_hold)) = needs else { return };
        let much = |holder: &Holder| holder.peer_bytes >= would_hold.saturating_mul(TIMES_AS_MUCH);
        self.end_holders(kit, holders.into_iter().filter(much).collect(), bytes);
    }

    /// The connections that hold memory and may end, the largest peers' largest first.
    fn holders(&mut self, kit: &Kit, may_end: impl Fn(&Connection) -> bool) -> Vec<Holder> {
        self.table.desk.memory.looked_at = kit.now();
        let mut holders = kit.arena.holders();
        holders.retain(|holder| {
            self.table.connections.at(holder.tag).is_some_and(|connection| !connection.machine.has_ended() && may_end(connection))
        });
        holders.sort_unstable_by_key(|holder| std::cmp::Reverse((holder.peer_bytes, holder.bytes, holder.tag)));
        holders
    }

    /// Ends of `holders` as many as hold `bytes`.
    fn end_holders(&mut self, kit: &mut Kit, holders: Vec<Holder>, bytes: usize) {
        let mut freed = 0;
        for holder in holders {
            if freed >= bytes {
                return;
            }
            freed += holder.bytes;
            self.end_holder(kit, &holder);
        }
    }

    fn end_holder(&mut self, kit: &mut Kit, holder: &Holder) {
        // reason: its account is open as long as it is.
        let connection = self.table.connections.at(holder.tag).expect("who holds memory is there");
        let (service, peer) = (connection.service, connection.peer.address.clone());
        let unsaid = &mut self.table.desk.memory.unsaid;
        unsaid.connections += 1;
        unsaid.bytes += holder.bytes;
        if unsaid.largest.as_ref().is_none_or(|(_, bytes)| *bytes < holder.peer_bytes) {
            unsaid.largest = Some((peer, holder.peer_bytes));
        }
        self.table.count(service, ServiceCounter::MemoryEndings, 1);
        self.end(kit, holder.tag, Ending::Aborted);
    }

    /// Tells the operator, once a second.
    fn say_who_ended(&mut self, kit: &mut Kit) {
        let memory = &mut self.table.desk.memory;
        let is_first = memory.said_at == 0;
        if memory.unsaid.connections == 0 || (!is_first && kit.now() < memory.said_at + SAY_AGAIN) {
            return;
        }
        memory.said_at = kit.now();
        let Unsaid { connections, bytes, largest } = std::mem::take(&mut memory.unsaid);
        let largest =
            largest.map_or(String::new(), |(peer, bytes)| format!("; {} held the most, {}", host(&peer), kibibytes(bytes)));
        let lane = kit.lane();
        kit.report(&format!(
            "lane {lane}: memory is short: {connections} connections were ended that held {} of it{largest}; \
             remedy: more memory for a lane (--memory), or lower limits output_high and record_max",
            kibibytes(bytes)
        ));
    }
}

/// A peer without its port.
fn host(peer: &Address) -> String {
    peer.ip().map_or_else(|| peer.to_string(), |ip| ip.to_string())
}

/// Counts one less of `key`; who has none is forgotten.
fn uncount(counts: &mut BTreeMap<PeerKey, u32>, key: PeerKey) {
    // reason: counted when it was accepted.
    let count = counts.get_mut(&key).expect("an accepted connection was counted");
    *count -= 1;
    if *count == 0 {
        counts.remove(&key);
    }
}

fn kibibytes(bytes: usize) -> String {
    format!("{} KiB", bytes.div_ceil(1024))
}

impl Connection {
    /// Whether it has moved little of what it holds for a while.
    fn stands_still(&self, now: u64) -> bool {
        let moved_at = self.busy.as_ref().map_or(0, |busy| busy.moved_at);
        let since = if moved_at == 0 { self.active_at } else { moved_at };
        now.saturating_sub(since) >= STANDSTILL
    }
}

impl Busy {
    /// Notes that `bytes` came or left, of a connection that holds `held` bytes of memory.
    pub(crate) fn note_moved(&mut self, now: u64, bytes: usize, held: impl FnOnce() -> usize) {
        self.moved = self.moved.saturating_add(bytes);
        if self.moved_at == 0 || self.moved.saturating_mul(MOVES_DIVISOR) >= held() {
            (self.moved_at, self.moved) = (now, 0);
        }
    }
}
