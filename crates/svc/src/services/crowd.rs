//! Where connections or tasks are short, those end that have most of them, longest.

use crate::connection::entry::Connection;
use crate::services::served::Served;
use crate::state::accounts::PeerKey;
use crate::state::crowd::Among;
use crate::table::LaneTable;
use crate::words::names::Ending;
use corelane_lane::Kit;
use corelane_seam::share::Share;
use corelane_seam::{Level, Payer, Record, TaskHolder};
use corelane_watch::ServiceCounter;
use std::cmp::Reverse;

/// A connection with so many tasks may end for its peer's others though it does not stand still.
const MANY_TASKS: u32 = 8;

impl Served {
    /// A peer has its share of connections, and one more has come: the one of its own ends that has stood still longest. False if none has stood still.
    pub(crate) fn make_way(&mut self, kit: &mut Kit, service: u16, peer: PeerKey) -> bool {
        let stale = self.table.stalest(service, peer, kit.now());
        if let Some(index) = stale {
            self.end_crowding(kit, index, "connections");
        }
        stale.is_some()
    }

    /// Where nearly all connections of the lane or of a service are in use, those end that have stood still, longest first, of the peers that have most.
    pub(crate) fn relieve_connections(&mut self, kit: &mut Kit, service: u16) {
        let table = &mut self.table;
        let wanted = [(None, table.connections.share()), (Some(service), table.services[service as usize].open.share())];
        let is_due = table.crowd.connections_are_due(kit.now());
        for (among, share) in wanted.into_iter().filter(|(_, share)| is_due && share.is_nearly_gone()) {
            self.table.crowd.look_at_connections(kit.now());
            for index in self.table.crowding(among, share.wanted() as usize, kit.now()) {
                self.end_crowding(kit, index, "connections");
            }
        }
    }

    /// Where a peer has its share of the tasks, and another connection of it needs a few, those of its connections end that have most.
    #[inline]
    pub(crate) fn relieve_tasks(&mut self, kit: &mut Kit) {
        if kit.arena.is_crowded() && self.table.crowd.tasks_are_due(kit.now()) {
            self.relieve_crowded(kit);
        }
    }

    // Seldom called; every turn pays only for the check.
    #[inline(never)]
    fn relieve_crowded(&mut self, kit: &mut Kit) {
        self.table.crowd.look_at_tasks(kit.now());
        let share = kit.arena.tasks();
        let mut crowded = kit.arena.take_crowded();
        let holders = self.table.task_holders(kit);
        if share.is_nearly_gone() {
            holders.first().map(|holder| crowded.insert(holder.peer, ()));
        }
        for peer in crowded.keys() {
            let mut wanted = wanted_of(peer, share.left(), share.small(), &holders);
            for holder in holders.iter().filter(|holder| holder.peer == peer) {
                if wanted == 0 {
                    break;
                }
                wanted = wanted.saturating_sub(holder.tasks);
                self.end_crowding(kit, holder.tag, "tasks");
            }
        }
    }

    fn end_crowding(&mut self, kit: &mut Kit, index: u32, what: &'static str) {
        let found = self.table.there(index);
        found.count(ServiceCounter::ShareEndings, 1);
        let peer = found.connection.ends().address.clone();
        let words = format!(
            "{what} are short: a connection of {peer} was ended, because its address has its share of them; others are counted in share_endings; \
             remedy: a higher bound, if all of them are wanted"
        );
        kit.report_kind("short of a bounded thing", Record::new(Level::Warn, words));
        self.end(kit, index, Ending::Aborted);
    }
}

/// How many tasks a peer must give back: what it has beyond what it leaves, and a small part at once.
fn wanted_of(peer: Payer, left: u32, small: u32, holders: &[TaskHolder]) -> u32 {
    let held = holders.iter().find(|holder| holder.peer == peer).map_or(0, |holder| holder.peer_tasks);
    held.saturating_sub(left).clamp(1, small)
}

impl LaneTable {
    /// Whether no more connections are accepted for a service, and some of those that are open may end for others.
    pub(crate) fn is_crowded_out(&self, service: u16) -> bool {
        let shares = [self.connections.share(), self.services[service as usize].open.share()];
        !self.has_room(service) && shares.into_iter().any(Share::is_nearly_gone)
    }

    /// The connections that have tasks and may end for others: the largest peers' largest first, of equals those that have stood still longest.
    fn task_holders(&mut self, kit: &Kit) -> Vec<TaskHolder> {
        let now = kit.now();
        let mut holders = kit.arena.task_holders();
        holders.retain(|holder| {
            let connection = self.connections.there(holder.tag);
            !connection.machine().has_ended() && (holder.tasks >= MANY_TASKS || connection.stands_still(now))
        });
        holders.sort_by_cached_key(|holder| {
            let since = self.connections.there(holder.tag).still_since();
            (Reverse((holder.peer_tasks, holder.peer, holder.tasks)), since, holder.tag)
        });
        holders
    }

    /// The connection of a peer that has stood still longest, if one has: of the service, where its own bound is met, else of any.
    fn stalest(&mut self, service: u16, peer: PeerKey, now: u64) -> Option<u32> {
        let state = &self.services[service as usize];
        let of_lane = state.limits.connections_per_peer_max == 0
            && !self.connections.lane_admits(self.agenda.memory().accounts.accepted(peer));
        let among: Among = (!of_lane).then_some(service);
        loop {
            if !self.crowd.knows_stale(among, peer) {
                if !self.crowd.stale_are_due(now) {
                    return None;
                }
                self.find_stale(among, peer, now);
            }
            let id = self.crowd.take_stalest()?;
            let Some(connection) = self.connections.find(id) else { continue };
            if connection.may_make_way(now) {
                return Some(id.index);
            }
        }
    }

    /// Looks through all connections for those of a peer that have stood still.
    fn find_stale(&mut self, among: Among, peer: PeerKey, now: u64) {
        let accounts = &self.agenda.memory().accounts;
        let is_of_peer = |connection: &Connection| {
            among.is_none_or(|service| service == connection.service()) && accounts.key(connection.peer()) == peer
        };
        let stale = self.connections.iter().filter(|(_, connection)| connection.may_make_way(now) && is_of_peer(connection));
        let stale = stale.map(|(id, connection)| (connection.still_since(), id)).collect();
        self.crowd.note_stale(among, peer, stale, now);
    }

    /// As many connections as are wanted, of the peers that have most, those that have stood still longest.
    fn crowding(&self, among: Among, wanted: usize, now: u64) -> Vec<u32> {
        let held = |connection: &Connection| {
            let peer = self.agenda.memory().accounts.key(connection.peer());
            match among {
                Some(service) => self.services[service as usize].open.held(peer),
                None => self.agenda.memory().accounts.accepted(peer),
            }
        };
        let may_end =
            |connection: &Connection| connection.is_stale(now) && among.is_none_or(|service| service == connection.service());
        let all = self.connections.iter().filter(|(_, connection)| may_end(connection));
        let mut all: Vec<_> =
            all.map(|(id, connection)| (Reverse(held(connection)), connection.still_since(), id.index)).collect();
        all.sort_unstable();
        all.into_iter().take(wanted).map(|(.., index)| index).collect()
    }
}
