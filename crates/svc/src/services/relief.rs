//! Memory for those who wait: who is called again, and who ends so that others get memory.

use crate::connection::entry::Connection;
use crate::services::served::Served;
use crate::state::memory::{LOOK_AGAIN, LOOK_SOON, Waiting};
use crate::table::LaneTable;
use crate::words::names::Ending;
use corelane_lane::Kit;
use corelane_seam::{Arena, DATAGRAM_BLOCK_BYTES_LEAST, Holder, Payer};
use corelane_watch::ServiceCounter;

/// A peer must hold so many times what a waiting one would hold, before its connections end for that one.
const TIMES_AS_MUCH: usize = 4;
/// The same of a connection of its own peer: many that hold little may have all that the peer is lent.
const TIMES_A_FELLOW: usize = 2;
/// The reserve is nearly gone when less than this part of it is free; then connections end until twice as much is.
const NEARLY_GONE_DIVISOR: usize = 4;
/// What a receive brings at the most while there is plenty.
const RECEIVE_BLOCK_BYTES: usize = 64 << 10;

impl LaneTable {
    /// Calls those again to whom the lane would now lend what they were refused.
    #[inline]
    pub(crate) fn revive_starved(&mut self, arena: &Arena, now: u64) {
        let memory = self.agenda.memory_mut();
        if memory.waits() && memory.begin_look(arena.given_back(), now) {
            self.revive_some(arena, now);
        }
    }

    // Seldom called; a turn in which nobody waits pays only for the check.
    #[inline(never)]
    fn revive_some(&mut self, arena: &Arena, now: u64) {
        let (free, small) = (arena.free(), arena.small());
        let main = free.saturating_sub(arena.reserve());
        let (mut promised, mut revived) = (0, 0);
        for place in self.agenda.memory_mut().next_places() {
            let waiting = self.agenda.memory().at(place);
            let room = if waiting.bytes <= small { free } else { main };
            // What arrives may take a whole block.
            let takes = if promised < main { waiting.bytes.max(RECEIVE_BLOCK_BYTES) } else { waiting.bytes };
            match self.find(waiting.id) {
                // It has gone while it waited.
                None => drop(self.agenda.memory_mut().leave(place)),
                Some(connection) if promised + waiting.bytes <= room && arena.would_lend(connection.payer(), waiting.bytes) => {
                    (promised, revived) = (promised + takes, revived + 1);
                    self.agenda.memory_mut().leave(place);
                    self.there(waiting.id.index).revive(now);
                }
                Some(_) => {}
            }
        }
        if revived == 0 {
            self.grant_one(arena, main, now);
        }
    }

    /// Grants the one that has waited longest what it needs of the `main` bytes, which are free beside the reserve.
    fn grant_one(&mut self, arena: &Arena, main: usize, now: u64) {
        if self.watch_grantee(arena, now) {
            return;
        }
        let LaneTable { connections, agenda, .. } = self;
        // If its peer does not take its output, more memory would not bring it to an end.
        let mut moves = |id| connections.find(id).is_some_and(|connection| !connection.holds_output());
        let memory = agenda.memory_mut();
        let place = memory.first_by_age(|waiting| waiting.bytes <= main && moves(waiting.id));
        if let Some(id) = memory.grant_at(place) {
            self.there(id.index).revive(now);
        }
    }

    /// Notes what the one with a grant does; returns whether it still makes use of it.
    fn watch_grantee(&mut self, arena: &Arena, now: u64) -> bool {
        let Some(connection) = self.agenda.memory().grantee().and_then(|id| self.find(id)) else { return false };
        let (holds, moves) =
            (arena.held(connection.payer()) > 0, !connection.machine().has_ended() && !connection.stands_still(now));
        self.agenda.memory_mut().watch_grant(holds, moves)
    }
}

impl Served {
    /// Ends connections if the reserve is nearly gone, or if somebody waits for little while others hold much and stand still.
    pub(crate) fn relieve(&mut self, kit: &mut Kit) {
        let is_short = kit.arena.is_short(DATAGRAM_BLOCK_BYTES_LEAST);
        if !is_short && self.table.agenda.memory().is_at_rest() {
            return;
        }
        let (free, reserve) = (kit.arena.free(), kit.arena.reserve());
        let since_look = self.table.agenda.memory().since_look(kit.now());
        let nearly_gone = reserve / NEARLY_GONE_DIVISOR;
        let is_in_pieces = !kit.arena.has(DATAGRAM_BLOCK_BYTES_LEAST);
        if (free < nearly_gone || is_in_pieces) && since_look >= LOOK_SOON {
            let wanted = (2 * nearly_gone).saturating_sub(free).max(DATAGRAM_BLOCK_BYTES_LEAST);
            let wanted = wanted.saturating_sub(self.table.coming_back(kit));
            let holders = self.table.holders(kit, |_| true);
            self.end_holders(kit, holders, wanted);
        } else if self.table.agenda.memory().waits() && since_look >= LOOK_AGAIN {
            self.relieve_one(kit);
        }
        let memory = self.table.agenda.memory_mut();
        memory.say_who_ended(kit);
        memory.set_timer(kit);
    }

    /// Ends connections that rest, for the first waiting one that would hold far less than they do: than their peer, or if that is its own, than
    /// each of them.
    fn relieve_one(&mut self, kit: &mut Kit) {
        let now = kit.now();
        let resting = self.table.holders(kit, |connection| connection.rests(now));
        let holders: Vec<Resting> = resting.into_iter().map(|holder| self.table.resting(holder, now)).collect();
        let waiting = self.table.agenda.memory().first_waiting();
        let mut needs = waiting.into_iter().filter_map(|waiting| self.table.need(kit, &holders, waiting));
        let Some(first) = needs.next() else { return };
        // Its fellows are as many as one address brings: room for one would be somebody else's again before the next look.
        let fellows: usize = needs.filter(|need| need.peer == first.peer).map(|need| need.bytes).sum();
        let giving: Vec<_> = holders.into_iter().filter(|holder| first.is_met_by(holder)).map(|resting| resting.holder).collect();
        let is_fellow = giving.first().is_some_and(|holder| holder.peer == first.peer);
        let wanted = if is_fellow { fellows + overdrawn(&kit.arena, first.peer, first.bytes) } else { 0 };
        self.end_holders(kit, giving, first.bytes + wanted);
    }

    /// Ends of `holders` as many as hold `bytes`.
    fn end_holders(&mut self, kit: &mut Kit, holders: Vec<Holder>, bytes: usize) {
        let mut freed = 0;
        for holder in holders {
            if freed >= bytes {
                return;
            }
            freed += holder.bytes;
            assert!(holder.bytes > 0 && holder.peer_bytes >= holder.bytes, "who holds nothing ends for nobody");
            self.end_holder(kit, &holder);
        }
    }

    fn end_holder(&mut self, kit: &mut Kit, holder: &Holder) {
        // An account is open as long as its connection is there.
        let connection = self.table.connections.there(holder.tag);
        let (service, peer) = (connection.service(), connection.ends().address.clone());
        self.table.agenda.memory_mut().note_ended(peer, holder);
        self.table.count(service, ServiceCounter::MemoryEndings, 1);
        self.end(kit, holder.tag, Ending::Aborted);
    }
}

/// How much a peer must give back before those of its connections that hold little are lent so much. It may hold more than it leaves: what arrives is charged when it has, so many that receive at the
/// same time come to more than each of them was lent.
fn overdrawn(arena: &Arena, peer: Payer, bytes: usize) -> usize {
    let (after, used) = (arena.held(peer) + bytes, arena.used() + bytes);
    // Of what it leaves it may hold three quarters, and what it gives back it leaves.
    (4 * after + 3 * used).saturating_sub(3 * (arena.limit() - arena.reserve())) / 7
}

/// What one waits for, and how much others must hold to end for it.
struct Need {
    bytes: usize,
    /// So much a peer of others.
    of_peer: usize,
    /// So much a connection of its own peer.
    of_fellow: usize,
    peer: Payer,
}

/// A holder that rests, and whether for so long that it may end for other peers than its own.
struct Resting {
    holder: Holder,
    stands_still: bool,
}

impl Need {
    fn is_met_by(&self, Resting { holder, stands_still }: &Resting) -> bool {
        let as_peer = *stands_still && holder.peer_bytes >= self.of_peer;
        as_peer || holder.peer == self.peer && holder.bytes >= self.of_fellow
    }
}

impl LaneTable {
    fn resting(&mut self, holder: Holder, now: u64) -> Resting {
        let stands_still = self.connections.there(holder.tag).stands_still(now);
        Resting { holder, stands_still }
    }

    /// What one that waits needs, if some of the holders hold far more than it would. Nothing, if the lane would lend it that by now: it is called again soon, and nobody ends for it.
    fn need(&mut self, kit: &Kit, holders: &[Resting], Waiting { id, bytes }: Waiting) -> Option<Need> {
        let connection = self.find(id).filter(|connection| !kit.arena.would_lend(connection.payer(), bytes))?;
        let (account, own) = (connection.peer(), kit.arena.held(connection.payer()));
        let accounts = &self.agenda.memory().accounts;
        let (held, peer) = (accounts.held(account, &kit.arena), accounts.payer(account));
        let of_peer = (held + bytes).saturating_mul(TIMES_AS_MUCH);
        let of_fellow = (own + bytes).saturating_mul(TIMES_A_FELLOW);
        let need = Need { bytes, of_peer, of_fellow, peer };
        holders.iter().any(|holder| need.is_met_by(holder)).then_some(need)
    }

    /// Bytes that connections hold which have ended: they are given back once the system is done with them, and nobody else ends for so much.
    fn coming_back(&mut self, kit: &Kit) -> usize {
        let mut has_ended = |holder: &Holder| self.connections.there(holder.tag).machine().has_ended();
        kit.arena.holders().iter().filter(|holder| has_ended(holder)).map(|holder| holder.bytes).sum()
    }

    /// The connections that hold memory and may end, the largest peers' largest first.
    fn holders(&mut self, kit: &Kit, may_end: impl Fn(&Connection) -> bool) -> Vec<Holder> {
        self.agenda.memory_mut().look_at_holders(kit.now());
        let mut holders = kit.arena.holders();
        holders.retain(|holder| {
            let connection = self.connections.there(holder.tag);
            !connection.machine().has_ended() && may_end(connection)
        });
        holders.sort_unstable_by_key(|holder| std::cmp::Reverse((holder.peer_bytes, holder.bytes, holder.tag)));
        holders
    }
}
