//! The payers of an arena's blocks, and the rule by which the arena lends.
//!
//! Payers form a tree: the lane, its works, their peers, the peers' connections, and beside the peers the services with what they keep
//! themselves. A block is charged to one payer and to all above it, by the bytes of the whole block; what a connection holds is counted in
//! its service's sum, too. The rule is one of peers, because a peer can have as many connections as it likes, and to as many services:
//!
//! * **A peer never holds more than it leaves.** What it holds after a lease is at most what is free for everybody then (a dynamic
//!   threshold, Choudhury and Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches", 1998). So one peer alone may
//!   hold half, and many that hold as much as they can leave room for the next one.
//! * **A reserve is kept for small requests**: the last quarter of the arena is lent only to who holds little after the lease.
//! * **Within a peer, too, little is lent before much.** Of what it may hold, the last quarter is for those of its connections that hold
//!   little, and half of that for those that hold hardly anything: everybody behind one proxy is one peer. To these something is lent though their peer holds its share, until half of the reserve is gone.
//! * The lane itself takes what there is; its driver, for what arrives, all but what is kept for answers.
//!
//! Tasks have the same payers, and are shared by the same rule ([`Share`]): they are counted here, because a task may outlive its connection.

use crate::buddy::LEASE_BYTES_MAX;
use crate::ordered::OrderedSet;
use crate::payer::Payer;
use crate::share::Share;
use crate::slab::ROOMY_BYTES;

/// The kind of a payer, which decides by what rule the arena lends to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A sum of others: the lane, a work, or a service. Memory for the sum itself is lent without asking.
    Sum,
    /// A service itself, with what it keeps beside its connections: it may hold what is free but for the reserve.
    Keeper,
    /// A peer: all its connections together, to whichever services, hold no more than they leave.
    Peer,
    /// A connection: the rule of its peer is its own.
    Connection {
        /// Its owner's number for it, to find it again ([`Holder::tag`]).
        tag: u32,
        /// The sum that it counts in beside its peer's.
        service: Payer,
    },
}

/// A connection that holds memory, as [`Arena::holders`](crate::Arena::holders) lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The number that it was opened with.
    pub tag: u32,
    /// Bytes that it holds.
    pub bytes: usize,
    /// Its peer.
    pub peer: Payer,
    /// Bytes that all connections of its peer hold.
    pub peer_bytes: usize,
}

/// A connection that has tasks, as [`Arena::task_holders`](crate::Arena::task_holders) lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskHolder {
    /// The number that it was opened with.
    pub tag: u32,
    /// Tasks that have not ended.
    pub tasks: u32,
    /// Its peer.
    pub peer: Payer,
    /// Those of all connections of its peer.
    pub peer_tasks: u32,
}

#[derive(Clone, Copy)]
struct Node {
    units: u32,
    tasks: u32,
    parent: u32,
    role: Role,
    /// Its owner is gone: it is free with its last block.
    closed: bool,
}

impl Node {
    /// Whether its owner is gone, and nothing is charged to it any more.
    fn is_spent(&self) -> bool {
        self.closed && self.units == 0 && self.tasks == 0
    }
}

const NOBODY: u32 = u32::MAX;
/// Of what a peer may hold, so much is for those of its connections that hold little: a quarter.
const FELLOWS_DIVISOR: usize = 4;
/// So much counts as little there: what a small request needs to be received and answered.
const FELLOW_BYTES: usize = 20 << 10;
/// Half of that is for those that hold hardly anything: who has just come finds many that hold little.
const NEWCOMER_BYTES: usize = 8 << 10;
/// A connection with fewer tasks gets another one though its peer has its share.
const FEW_TASKS: u32 = 4;
/// The part of an arena that is kept for small requests: a quarter.
const RESERVE_DIVISOR: usize = 4;
/// As long as no more than this part is used, a quarter, the rule refuses nobody: a peer that held all of it would leave twice as much, and three quarters of that are more.
const PLENTY_DIVISOR: usize = 4;
/// Peers that the reserve is enough for at the same time: 64 who take all they can, and as many others.
const RESERVE_PEERS: usize = 128;
/// The part of the reserve that is not given to what arrives: an eighth. A receive may have been asked for by each of thousands of
/// connections before any of them held memory, and what was received must be answered.
const ANSWERS_DIVISOR: usize = 8;
/// The least that a peer may hold of the reserve: what one turn needs to serve a request of some kilobytes.
const SMALL_BYTES_MIN: usize = 32 << 10;

pub(crate) struct Ledger {
    nodes: Vec<Node>,
    free: Vec<u32>,
    limit: usize,
    current: Payer,
    /// The current payer may hold more than it leaves, once.
    granted: bool,
    /// The largest block that was refused for now since somebody last looked, in bytes.
    largest_refused: usize,
    refused: u64,
    /// Blocks given back so far.
    given_back: u64,
    /// Tasks that there may be.
    tasks_max: u32,
    /// Peers that have their share of tasks, and of which a connection with few wanted one.
    crowded: OrderedSet<Payer>,
}

impl Ledger {
    /// A ledger for an arena of `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        // A connection has a node, too: as in `Slab::roomy`.
        let mut nodes = Vec::with_capacity(ROOMY_BYTES / size_of::<Node>());
        nodes.push(Node { units: 0, tasks: 0, parent: NOBODY, role: Role::Sum, closed: false });
        Self {
            nodes,
            free: Vec::new(),
            limit,
            current: Payer::LANE,
            granted: false,
            largest_refused: 0,
            refused: 0,
            given_back: 0,
            tasks_max: u32::MAX,
            crowded: OrderedSet::default(),
        }
    }

    pub(crate) fn reserve(&self) -> usize {
        self.limit / RESERVE_DIVISOR
    }

    /// The memory kept for answers when all else is given to what arrives.
    pub(crate) fn answers(&self) -> usize {
        self.reserve() / ANSWERS_DIVISOR
    }

    /// The memory that a peer may hold however little is free.
    pub(crate) fn small(&self) -> usize {
        (self.reserve() / RESERVE_PEERS).max(SMALL_BYTES_MIN)
    }

    pub(crate) fn current(&self) -> Payer {
        self.current
    }

    pub(crate) fn pay_as(&mut self, payer: Payer) -> Payer {
        assert!(!self.node(payer).closed, "nobody pays for who is gone");
        self.granted = false;
        self.largest_refused = 0;
        std::mem::replace(&mut self.current, payer)
    }

    pub(crate) fn grant(&mut self) {
        self.granted = true;
    }

    pub(crate) fn open(&mut self, under: Payer, role: Role) -> Payer {
        let parent = self.node(under);
        let fits = match role {
            Role::Sum | Role::Peer | Role::Keeper => parent.role == Role::Sum,
            // The part that the service's sum is above already is counted there.
            Role::Connection { service, .. } => {
                parent.role == Role::Peer && self.node(service).role == Role::Sum && !self.is_below(under.0, service)
            }
        };
        assert!(fits && !parent.closed, "a {role:?} is not opened under a {:?}", parent.role);
        let node = Node { units: 0, tasks: 0, parent: under.0, role, closed: false };
        if let Some(index) = self.free.pop() {
            assert!(self.nodes[index as usize].is_spent(), "an account is opened anew after its last block and task are back");
            self.nodes[index as usize] = node;
            return Payer(index);
        }
        self.nodes.push(node);
        Payer(self.nodes.len() as u32 - 1)
    }

    /// The payer's owner is gone. The memory that it still holds goes on being counted above it.
    pub(crate) fn close(&mut self, payer: Payer) {
        assert!(payer != Payer::LANE && payer != self.current, "a payer is closed by others");
        let node = &mut self.nodes[payer.0 as usize];
        assert!(!node.closed, "a payer is closed once");
        assert!(node.parent != NOBODY, "whoever is closed stands below somebody");
        node.closed = true;
        if node.is_spent() {
            self.free.push(payer.0);
        }
    }

    /// The owner of the payer is gone, and knew all below it.
    pub(crate) fn abandon(&mut self, payer: Payer) {
        assert!(!self.node(payer).closed, "a payer is closed once");
        for at in 0..self.nodes.len() as u32 {
            if !self.nodes[at as usize].closed && self.is_below(at, payer) {
                self.close(Payer(at));
            }
        }
    }

    /// Whether the account at `at` is `payer`'s, or below it.
    fn is_below(&self, mut at: u32, payer: Payer) -> bool {
        while at != payer.0 && at != NOBODY {
            at = self.nodes[at as usize].parent;
        }
        at == payer.0
    }

    /// Charges to `to` what `from` has paid for. The sums that both have above them stay as they are: where the lane has paid, that is
    /// the lane itself.
    pub(crate) fn recharge(&mut self, from: Payer, to: Payer, units: u32) {
        assert!(from != to, "a block is charged to another payer than before");
        if from != Payer::LANE {
            self.charge(to, units);
            return self.discharge(from, units);
        }
        self.charge_below(Payer::LANE.0, to, units);
    }

    pub(crate) fn charge(&mut self, payer: Payer, units: u32) {
        self.charge_below(NOBODY, payer, units);
    }

    /// Charges `units` to a payer and all above it, up to the one that stands below `top`.
    fn charge_below(&mut self, top: u32, payer: Payer, units: u32) {
        if let Role::Connection { service, .. } = self.node(payer).role {
            self.nodes[service.0 as usize].units += units;
        }
        let mut at = payer.0;
        while at != top {
            let node = &mut self.nodes[at as usize];
            node.units += units;
            at = node.parent;
        }
    }

    pub(crate) fn discharge(&mut self, payer: Payer, units: u32) {
        self.given_back += 1;
        if let Role::Connection { service, .. } = self.node(payer).role {
            let node = &mut self.nodes[service.0 as usize];
            assert!(node.units >= units, "a service's sum has all that its connections hold");
            node.units -= units;
            if node.is_spent() {
                self.free.push(service.0);
            }
        }
        let mut at = payer.0;
        while at != NOBODY {
            let node = &mut self.nodes[at as usize];
            assert!(node.units >= units, "no more is given back than was taken");
            node.units -= units;
            if node.is_spent() {
                self.free.push(at);
            }
            at = node.parent;
        }
    }

    pub(crate) fn units(&self, payer: Payer) -> u32 {
        self.node(payer).units
    }

    /// The largest block that can ever be lent: what the arena has beside its reserve.
    pub(crate) fn lend_max(&self) -> usize {
        let most = self.limit - self.reserve();
        LEASE_BYTES_MAX.min(most.next_power_of_two() >> usize::from(!most.is_power_of_two()))
    }

    /// Whether a block of `bytes` may be lent to `payer` while `used` bytes of the arena are in use.
    #[inline]
    pub(crate) fn lends(&self, payer: Payer, bytes: usize, used: usize, unit: usize) -> bool {
        // With so much left nobody is refused, whoever holds all that is used: most often nothing more is looked at.
        let is_plenty = used + bytes <= self.limit / PLENTY_DIVISOR;
        debug_assert!(!is_plenty || self.lends_by_rule(payer, bytes, used, unit), "with plenty left the rule lends");
        is_plenty || self.lends_by_rule(payer, bytes, used, unit)
    }

    fn lends_by_rule(&self, payer: Payer, bytes: usize, used: usize, unit: usize) -> bool {
        let node = self.node(payer);
        let (role, units) = match node.role {
            Role::Connection { .. } => (Role::Peer, self.nodes[node.parent as usize].units),
            role => (role, node.units),
        };
        let after = units as usize * unit + bytes;
        let is_newcomer = matches!(node.role, Role::Connection { .. }) && node.units as usize * unit + bytes <= NEWCOMER_BYTES;
        let fellows = (units - node.units) as usize * unit;
        let left = (self.limit - self.reserve()).saturating_sub(used).checked_sub(bytes);
        match (role, left) {
            (Role::Sum, _) => true,
            _ if after <= self.small() => true,
            _ if is_newcomer && self.limit.saturating_sub(used) >= self.reserve() / 2 + bytes => true,
            (_, None) => false,
            (Role::Keeper, Some(_)) => true,
            (_, Some(left)) => {
                let is_granted = self.granted && payer == self.current;
                is_granted || after <= left && (fellows == 0 || leaves_to_fellows(after - fellows, after, left))
            }
        }
    }

    /// The peer that a connection is of; of any other payer itself.
    pub(crate) fn peer_of(&self, payer: Payer) -> Payer {
        let node = self.node(payer);
        if let Role::Connection { .. } = node.role { Payer(node.parent) } else { payer }
    }

    /// Whether the payer is a sum of others, to which all is lent.
    pub(crate) fn is_sum(&self, payer: Payer) -> bool {
        self.node(payer).role == Role::Sum
    }

    /// Sets how many tasks there may be.
    pub(crate) fn set_tasks_max(&mut self, tasks: u32) {
        self.tasks_max = tasks;
    }

    /// How many tasks there are, and may be.
    pub(crate) fn tasks(&self) -> Share {
        Share { limit: self.tasks_max, used: self.nodes[0].tasks }
    }

    /// Counts one more task of `payer`, if its peer may have one.
    pub(crate) fn take_task(&mut self, payer: Payer) -> bool {
        let admits = self.admits_task(payer);
        let mut at = if admits { payer.0 } else { NOBODY };
        while at != NOBODY {
            let node = &mut self.nodes[at as usize];
            node.tasks += 1;
            at = node.parent;
        }
        admits
    }

    fn admits_task(&mut self, payer: Payer) -> bool {
        let (node, share) = (*self.node(payer), self.tasks());
        let Role::Connection { .. } = node.role else { return share.left() > 0 };
        if share.admits(self.nodes[node.parent as usize].tasks) {
            return true;
        }
        let has_few = node.tasks < FEW_TASKS;
        if has_few {
            self.crowded.insert(Payer(node.parent), ());
        }
        has_few && share.admits_few()
    }

    /// A task of `payer` has ended.
    pub(crate) fn give_task_back(&mut self, payer: Payer) {
        let mut at = payer.0;
        while at != NOBODY {
            let node = &mut self.nodes[at as usize];
            assert!(node.tasks > 0, "a task ends that was counted");
            node.tasks -= 1;
            if node.is_spent() {
                self.free.push(at);
            }
            at = node.parent;
        }
    }

    /// Whether a connection with few tasks found that its peer has its share.
    pub(crate) fn is_crowded(&self) -> bool {
        !self.crowded.is_empty()
    }

    /// The peers of which that is so, since the last call of this.
    pub(crate) fn take_crowded(&mut self) -> OrderedSet<Payer> {
        std::mem::take(&mut self.crowded)
    }

    /// The connections that have tasks.
    pub(crate) fn task_holders(&self) -> impl Iterator<Item = TaskHolder> {
        self.nodes.iter().filter_map(|node| {
            let Role::Connection { tag, .. } = node.role else { return None };
            let (peer, peer_tasks) = (Payer(node.parent), self.nodes[node.parent as usize].tasks);
            (node.tasks > 0 && !node.closed).then_some(TaskHolder { tag, tasks: node.tasks, peer, peer_tasks })
        })
    }

    /// Notes that the current payer was refused a block of `bytes`.
    pub(crate) fn note_refusal(&mut self, bytes: usize) {
        self.refused += 1;
        self.largest_refused = self.largest_refused.max(bytes);
    }

    /// Notes that more was asked for than can ever be lent.
    pub(crate) fn note_final(&mut self) {
        self.refused += 1;
    }

    pub(crate) fn take_refusal(&mut self) -> usize {
        std::mem::take(&mut self.largest_refused)
    }

    /// How often somebody gave something back: as long as it stays the same, who was refused would be again.
    pub(crate) fn given_back(&self) -> u64 {
        self.given_back
    }

    /// How often somebody was refused.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// The connections that hold memory.
    pub(crate) fn holders(&self, unit: usize) -> impl Iterator<Item = Holder> {
        self.nodes.iter().filter_map(move |node| {
            let Role::Connection { tag, .. } = node.role else { return None };
            let peer_bytes = self.nodes[node.parent as usize].units as usize * unit;
            let holder = Holder { tag, bytes: node.units as usize * unit, peer: Payer(node.parent), peer_bytes };
            (node.units > 0 && !node.closed).then_some(holder)
        })
    }

    fn node(&self, payer: Payer) -> &Node {
        &self.nodes[payer.0 as usize]
    }
}

/// Whether a connection that holds `own` after a lease leaves enough to the others of its peer, which holds `after` then, of as much as is `left`.
fn leaves_to_fellows(own: usize, after: usize, left: usize) -> bool {
    let of_fellows = left / FELLOWS_DIVISOR;
    let kept = if own <= NEWCOMER_BYTES {
        0
    } else if own <= FELLOW_BYTES {
        of_fellows / 2
    } else {
        of_fellows
    };
    after <= left - kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{Arena, Lease};
    use proptest::prelude::*;

    const MIB: usize = 1 << 20;

    fn peer_of(arena: &Arena) -> Payer {
        arena.open_payer(Payer::LANE, Role::Peer)
    }

    fn lent(arena: &Arena, payer: Payer, bytes: usize) -> Vec<Lease> {
        let before = arena.pay_as(payer);
        let leases = std::iter::from_fn(|| arena.lease(bytes)).collect();
        arena.pay_as(before);
        leases
    }

    #[test]
    fn peers_take_half_of_what_is_left_and_leave_the_reserve() {
        let arena = Arena::new(64 * MIB).unwrap();
        let held: Vec<_> = (0..4).map(|_| lent(&arena, peer_of(&arena), MIB)).collect();
        assert_eq!(held.iter().map(Vec::len).collect::<Vec<_>>(), [24, 12, 6, 3]);
        let keeper = arena.open_payer(Payer::LANE, Role::Keeper);
        let kept = lent(&arena, keeper, MIB);
        assert_eq!(kept.len(), 3, "a service may have what is free but for the reserve");
        let (free, small) = (arena.free(), arena.small());
        assert_eq!((free, small), (arena.reserve(), arena.reserve() / 128));
        assert_eq!(lent(&arena, peer_of(&arena), small).len(), 1, "a peer has its small part of the reserve");
        assert_eq!(lent(&arena, peer_of(&arena), 2 * small).len(), 0);
        assert!(arena.lease(MIB).is_some(), "the lane itself is not refused");
    }

    #[test]
    fn a_connection_is_lent_what_its_peer_is() {
        let arena = Arena::new(64 * MIB).unwrap();
        let peer = peer_of(&arena);
        let service = arena.open_payer(Payer::LANE, Role::Sum);
        let [one, two] = [7, 8].map(|tag| arena.open_payer(peer, Role::Connection { tag, service }));
        let held = lent(&arena, one, MIB);
        assert_eq!((held.len(), lent(&arena, two, MIB).len()), (24, 0));
        assert_eq!(arena.holders(), [Holder { tag: 7, bytes: 24 * MIB, peer, peer_bytes: 24 * MIB }]);
        arena.pay_as(two);
        assert!(!arena.ask(MIB));
        arena.grant();
        assert!(arena.ask(MIB), "by a grant it may hold more than it leaves");
        assert!(!arena.would_lend(one, MIB), "and nobody else");
        arena.pay_as(two);
        assert!(!arena.ask(MIB), "which ends when somebody else pays");
    }

    #[test]
    fn within_a_peer_the_last_quarter_is_for_connections_that_hold_little() {
        let arena = Arena::new(64 * MIB).unwrap();
        let (peer, service) = (peer_of(&arena), arena.open_payer(Payer::LANE, Role::Sum));
        let [hog, other, small] = [1, 2, 3].map(|tag| arena.open_payer(peer, Role::Connection { tag, service }));
        let held = [lent(&arena, other, MIB / 2).remove(0)];
        let of_hog = lent(&arena, hog, MIB / 2);
        assert_eq!(held.len() + of_hog.len(), 41, "three quarters of what the peer leaves");
        let rest = lent(&arena, hog, 4 << 10);
        assert_eq!((lent(&arena, small, 32 << 10).len(), lent(&arena, small, 4 << 10).len()), (0, 5));
        let connection = || arena.open_payer(peer, Role::Connection { tag: 4, service });
        let many: Vec<_> = (0..100).map(|_| lent(&arena, connection(), 4 << 10)).collect();
        let lent_of_many = (many.first().map(Vec::len), many.last().map(Vec::len));
        assert_eq!(lent_of_many, (Some(5), Some(2)), "many who hold little leave some to who holds hardly anything");
        drop(many);
        drop((of_hog, rest));
        assert_eq!(lent(&arena, hog, 16 << 20).len(), 0);
        assert!(!lent(&arena, hog, 4 * MIB).is_empty());
    }

    #[test]
    fn a_peer_has_its_share_of_the_tasks_and_a_connection_with_few_another_one() {
        let arena = Arena::new(4 * MIB).unwrap();
        arena.set_tasks_max(64);
        let service = arena.open_payer(Payer::LANE, Role::Sum);
        let [one, two] = [(); 2].map(|()| peer_of(&arena));
        let [hog, fellow, honest] = [one, one, two].map(|peer| arena.open_payer(peer, Role::Connection { tag: 1, service }));
        assert!(arena.take_task(Payer::LANE));
        let taken = (0..64).filter(|_| arena.take_task(hog)).count();
        assert_eq!((taken, arena.is_crowded()), (31, false), "half of what is left");
        assert!(arena.take_task(fellow) && arena.take_task(honest));
        assert_eq!(arena.take_crowded().keys().collect::<Vec<_>>(), [one]);
        let holders = arena.task_holders();
        assert!(holders.contains(&TaskHolder { tag: 1, tasks: 31, peer: one, peer_tasks: 32 }), "{holders:?}");
        arena.close_payer(hog);
        assert_eq!(arena.task_holders().len(), 2, "who is gone can not be ended");
        let next = arena.open_payer(one, Role::Connection { tag: 2, service });
        assert!(next != hog, "an account stays until its last task has ended");
        (0..taken).for_each(|_| arena.give_task_back(hog));
        assert_eq!((arena.tasks().used, arena.open_payer(one, Role::Connection { tag: 3, service })), (3, hog));
    }

    #[test]
    fn a_refusal_is_noted_with_what_was_missing_unless_it_never_comes() {
        let arena = Arena::new(4 * MIB).unwrap();
        assert_eq!(arena.lend_max(), 2 * MIB, "a power of two, beside the reserve");
        let peer = peer_of(&arena);
        arena.pay_as(peer);
        assert!(arena.lease(2 * MIB).is_none() && arena.lease(MIB + 1).is_none());
        assert_eq!(arena.take_refusal(), 2 * MIB);
        assert!(arena.lease(2 * MIB + 1).is_none() && arena.lease(LEASE_BYTES_MAX + 1).is_none());
        assert_eq!((arena.take_refusal(), arena.refused()), (0, 4));
        let held = arena.lease(MIB).unwrap();
        assert!(arena.lease(2 * MIB).is_none() && arena.lease(MIB).is_none());
        assert_eq!(arena.take_refusal(), 2 * MIB, "the largest of those that were refused");
        drop(held);
    }

    #[test]
    fn what_arrives_is_given_less_where_only_the_reserve_is_left() {
        let arena = Arena::new(4 * MIB).unwrap();
        let receive = || arena.lease_to_receive(64 << 10, 4 << 10).map(|lease| lease.capacity());
        assert_eq!(receive(), Some(64 << 10));
        let mut held = lent(&arena, Payer::LANE, 4 << 10);
        assert_eq!((held.len(), receive()), (1024, None));
        held.truncate(1024 - 32);
        assert_eq!(receive(), None, "what is left is kept for answers: an eighth of the reserve");
        held.truncate(1024 - 33);
        assert_eq!(receive(), Some(4 << 10), "only the reserve is left");
        held.extend(lent(&arena, Payer::LANE, 4 << 10));
        held.sort_by_key(|lease| lease.as_ptr());
        let mut number = 0;
        held.retain(|_| {
            number += 1;
            number % 2 == 0
        });
        assert_eq!((arena.free() > arena.reserve(), receive()), (true, Some(4 << 10)), "there is enough, in pieces");
        held.clear();
        assert_eq!(receive(), Some(64 << 10));
    }

    #[test]
    fn an_account_lives_until_its_last_block() {
        let arena = Arena::new(MIB).unwrap();
        let service = arena.open_payer(Payer::LANE, Role::Sum);
        let peer = arena.open_payer(Payer::LANE, Role::Peer);
        let connection = arena.open_payer(peer, Role::Connection { tag: 1, service });
        let block = arena.copy_of(b"kept").unwrap().share();
        block.charge(connection);
        arena.close_payer(connection);
        arena.close_payer(peer);
        assert_eq!((arena.held(service), arena.holders()), (256, vec![]), "who is gone can not be made to give back");
        drop(block);
        assert_eq!(arena.held(service), 0);
        let mut next = [0, 1].map(|_| arena.open_payer(Payer::LANE, Role::Peer));
        next.sort_unstable();
        assert_eq!(next, [peer, connection], "the places of who is gone are used again");
        arena.close_payer(next[0]);
        assert_eq!(arena.open_payer(Payer::LANE, Role::Peer), next[0], "and of who never held anything");
    }

    #[test]
    fn all_accounts_of_a_work_are_abandoned_with_it() {
        let arena = Arena::new(MIB).unwrap();
        let [work, other] = [(); 2].map(|()| arena.open_payer(Payer::LANE, Role::Sum));
        let service = arena.open_payer(work, Role::Sum);
        let peer = arena.open_payer(work, Role::Peer);
        let [one, two] = [1, 2].map(|tag| arena.open_payer(peer, Role::Connection { tag, service }));
        let kept = arena.open_payer(other, Role::Peer);
        let [block, others] = [one, kept].map(|payer| {
            let block = arena.copy_of(b"held").unwrap().share();
            block.charge(payer);
            block
        });
        arena.close_payer(two);
        arena.abandon_payer(work);
        assert_eq!((arena.holders(), arena.held(work), arena.held(Payer::LANE)), (vec![], 256, 512));
        drop(block);
        let next: std::collections::BTreeSet<Payer> = (0..5).map(|_| arena.open_payer(other, Role::Peer)).collect();
        assert!([work, service, peer, one, two].iter().all(|gone| next.contains(gone)), "their places are used again");
        assert_eq!((arena.held(other), arena.held(Payer::LANE)), (256, 256));
        drop(others);
        assert_eq!(arena.held(Payer::LANE), 0);
    }

    #[test]
    #[should_panic(expected = "is not opened under a Sum")]
    fn a_connection_belongs_to_a_peer() {
        let arena = Arena::new(MIB).unwrap();
        let service = arena.open_payer(Payer::LANE, Role::Sum);
        let _ = arena.open_payer(service, Role::Connection { tag: 0, service });
    }

    #[test]
    #[should_panic(expected = "is not opened under a Peer")]
    fn a_connection_is_not_counted_twice_in_the_lane() {
        let arena = Arena::new(MIB).unwrap();
        let _ = arena.open_payer(peer_of(&arena), Role::Connection { tag: 0, service: Payer::LANE });
    }

    proptest! {
        /// Each account shows the sum of the blocks that are charged to it and to those below it.
        #[test]
        fn accounts_are_the_sums_of_their_blocks(steps in prop::collection::vec((0u8..5, any::<u8>(), any::<u8>()), 1..200)) {
            let arena = Arena::new(8 * MIB).unwrap();
            let service = arena.open_payer(Payer::LANE, Role::Sum);
            let mut peers = vec![arena.open_payer(Payer::LANE, Role::Peer)];
            let mut connections: Vec<(Payer, Payer, bool)> = Vec::new();
            let mut blocks: Vec<(Lease, usize)> = Vec::new();
            for (step, a, b) in steps {
                let at = a as usize;
                match step {
                    0 if b < 40 => peers.push(arena.open_payer(Payer::LANE, Role::Peer)),
                    0 => {
                        let peer = peers[at % peers.len()];
                        connections.push((arena.open_payer(peer, Role::Connection { tag: 0, service }), peer, true));
                    }
                    1 if !connections.is_empty() => {
                        let number = at % connections.len();
                        if connections[number].2 {
                            arena.pay_as(connections[number].0);
                            blocks.extend(arena.lease(1 << (b % 20)).map(|lease| (lease, number)));
                            arena.pay_as(Payer::LANE);
                        }
                    }
                    2 if !blocks.is_empty() => drop(blocks.swap_remove(at % blocks.len())),
                    3 if !blocks.is_empty() => {
                        let (block, number) = (at % blocks.len(), b as usize % connections.len());
                        if connections[number].2 {
                            blocks[block].0.charge(connections[number].0);
                            blocks[block].1 = number;
                        }
                    }
                    4 if !connections.is_empty() => {
                        let number = at % connections.len();
                        if std::mem::take(&mut connections[number].2) {
                            arena.close_payer(connections[number].0);
                        }
                    }
                    _ => {}
                }
                let sum = |of: &dyn Fn(usize) -> bool| -> usize {
                    blocks.iter().filter(|(_, number)| of(*number)).map(|(lease, _)| lease.capacity()).sum()
                };
                for (number, &(payer, _, is_open)) in connections.iter().enumerate() {
                    prop_assert!(!is_open || arena.held(payer) == sum(&|of| of == number));
                }
                for &peer in &peers {
                    prop_assert_eq!(arena.held(peer), sum(&|of| connections[of].1 == peer));
                }
                prop_assert_eq!(arena.held(service), sum(&|_| true));
                prop_assert_eq!(arena.used(), arena.held(Payer::LANE));
            }
        }
    }
}
