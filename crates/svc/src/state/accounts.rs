//! Who pays for a lane's memory: each peer with its connections, and each service with what it keeps itself.

use corelane_seam::ordered::{Ordered, Rank};
use corelane_seam::slab::Slab;
use corelane_seam::{Address, Arena, Payer, Role};
use std::net::IpAddr;
use std::num::NonZeroU32;

/// Who is one peer to limits and to memory: an IPv4 address, or the IPv6 addresses of one /64, which is what one host is given
/// (RFC 6177, section 2); over a Unix socket a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PeerKey {
    /// An IPv4 address.
    V4(u32),
    /// The first half of an IPv6 address.
    V6(u64),
    /// A user of this machine (unix(7)); none is whoever listens where this side connects to.
    User(Option<u32>),
    /// A card on its link.
    Card([u8; 6]),
}

impl PeerKey {
    /// Of whom an address is.
    pub fn of(address: &Address) -> Self {
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

/// The kind, then its number; of users the one that is none comes first.
impl Rank for PeerKey {
    fn rank(self) -> u128 {
        let (kind, number) = match self {
            Self::V4(address) => (0, u64::from(address)),
            Self::V6(network) => (1, network),
            Self::User(user) => (2, user.map_or(0, |user| u64::from(user) + 1)),
            Self::Card([a, b, c, d, e, f]) => (3, u64::from_be_bytes([0, 0, a, b, c, d, e, f])),
        };
        kind << 64 | u128::from(number)
    }

    fn of_rank(rank: u128) -> Self {
        let number = rank as u64;
        match rank >> 64 {
            0 => Self::V4(number as u32),
            1 => Self::V6(number),
            2 => Self::User(number.checked_sub(1).map(|user| user as u32)),
            _ => {
                let [_, _, a, b, c, d, e, f] = number.to_be_bytes();
                Self::Card([a, b, c, d, e, f])
            }
        }
    }
}

/// A connection that waits for a place among the handshakes of its service.
#[derive(Clone, Copy)]
pub(crate) struct Parked {
    pub(crate) service: u16,
    pub(crate) peer: PeerKey,
    /// In the order in which they came.
    pub(crate) number: u32,
}

impl Parked {
    /// The place behind all others of a peer.
    pub(crate) fn last_of(service: u16, peer: PeerKey) -> Self {
        Self { service, peer, number: u32::MAX }
    }
}

impl Rank for Parked {
    fn rank(self) -> u128 {
        u128::from(self.service) << 100 | self.peer.rank() << 32 | u128::from(self.number)
    }

    fn of_rank(rank: u128) -> Self {
        let peer = rank >> 32 & ((1 << 68) - 1);
        Self { service: (rank >> 100) as u16, peer: PeerKey::of_rank(peer), number: rank as u32 }
    }
}

/// What a lane keeps of a peer, as long as it has connections.
struct PeerAccount {
    key: PeerKey,
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

/// Names an account as long as its peer has connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PeerAccountId(NonZeroU32);

impl PeerAccountId {
    fn of(index: u32) -> Self {
        Self(NonZeroU32::MIN.saturating_add(index))
    }

    fn index(self) -> u32 {
        self.0.get() - 1
    }
}

/// The accounts of all peers that have connections.
pub(crate) struct Accounts {
    /// Under whom they are.
    work: Payer,
    accounts: Slab<PeerAccount>,
    peers: Ordered<PeerKey, PeerAccountId>,
}

impl Default for Accounts {
    fn default() -> Self {
        Self { work: Payer::LANE, accounts: Slab::new(), peers: Ordered::default() }
    }
}

impl Accounts {
    /// Connections that a peer has opened to all services.
    pub(crate) fn accepted(&self, peer: PeerKey) -> u32 {
        self.peers.get(peer).map_or(0, |account| self.accounts.at(account.index()).accepted)
    }

    /// From now on accounts are opened under that of this work.
    pub(crate) fn belong_to(&mut self, work: Payer) {
        assert!(self.peers.is_empty(), "the work pays before its first connection");
        self.work = work;
    }

    /// Opens the account of a connection, which has that tag and belongs to the service that is paid for by `service`; with that of its peer.
    pub(crate) fn open(
        &mut self,
        arena: &Arena,
        peer: PeerKey,
        is_accepted: bool,
        (tag, service): (u32, Payer),
    ) -> (PeerAccountId, Payer) {
        let Self { work, accounts, peers } = self;
        let open = || {
            let payer = arena.open_payer(*work, Role::Peer);
            PeerAccountId::of(accounts.insert(PeerAccount { key: peer, payer, connections: 0, accepted: 0 }).index)
        };
        let id = *peers.or_insert_with(peer, open);
        let account = accounts.at_mut(id.index());
        account.connections += 1;
        account.accepted += u32::from(is_accepted);
        assert!(account.connections >= account.accepted, "those that a peer has opened are among its own");
        (id, arena.open_payer(account.payer, Role::Connection { tag, service }))
    }

    /// Counts a connection that this side has opened among those of another peer, which pays for what it holds from now on; returns the name under which it does. Blocks that it holds already stay charged
    /// to the peer before.
    pub(crate) fn transfer(
        &mut self,
        arena: &Arena,
        (from, payer): (PeerAccountId, Payer),
        to: PeerAccountId,
        (tag, service): (u32, Payer),
    ) -> Payer {
        assert!(from != to, "a connection is counted among those of another peer than before");
        let account = self.accounts.at_mut(to.index());
        account.connections += 1;
        let opened = arena.open_payer(account.payer, Role::Connection { tag, service });
        self.close(arena, from, false, payer);
        opened
    }

    /// Closes the account of a connection that is gone, and its peer's with the last one; returns whose it was.
    pub(crate) fn close(&mut self, arena: &Arena, id: PeerAccountId, is_accepted: bool, payer: Payer) -> PeerKey {
        arena.close_payer(payer);
        // Opened with the first of the peer's connections, closed with the last.
        let account = self.accounts.at_mut(id.index());
        assert!(account.connections > 0 && account.accepted >= u32::from(is_accepted), "an account closes once");
        account.connections -= 1;
        account.accepted -= u32::from(is_accepted);
        let key = account.key;
        if account.connections == 0 {
            arena.close_payer(self.accounts.remove_at(id.index()).payer);
            self.peers.remove(key);
        }
        key
    }

    /// Which peer has this account.
    pub(crate) fn key(&self, id: PeerAccountId) -> PeerKey {
        self.accounts.at(id.index()).key
    }

    /// Who pays for what that peer holds.
    pub(crate) fn payer(&self, id: PeerAccountId) -> Payer {
        self.accounts.at(id.index()).payer
    }

    /// Bytes that a peer holds.
    pub(crate) fn held(&self, id: PeerAccountId, arena: &Arena) -> usize {
        arena.held(self.accounts.at(id.index()).payer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::memory::Place;

    /// Those of a tree come in this order, and two of one rank would be one.
    #[test]
    fn ranks_have_the_order_of_their_keys_and_give_them_back() {
        let users = [None, Some(0), Some(u32::MAX)].map(PeerKey::User);
        let peers = [
            &[0, 1, u32::MAX].map(PeerKey::V4)[..],
            &[0, 1 << 32, u64::MAX].map(PeerKey::V6),
            &users,
            &[[0; 6], [0, 0, 0, 0, 0, 1], [1, 0, 0, 0, 0, 0], [255; 6]].map(PeerKey::Card),
        ]
        .concat();
        assert!(peers.windows(2).all(|two| two[0].rank() < two[1].rank()), "{peers:?}");
        assert!(peers.iter().all(|peer| PeerKey::of_rank(peer.rank()) == *peer));
        let mut last = None;
        for service in [0, 1, u16::MAX] {
            for &peer in &peers {
                for number in [0, 1, u32::MAX] {
                    let rank = Parked { service, peer, number }.rank();
                    assert!(last.replace(rank) < Some(rank), "{service} {peer:?} {number}");
                    let back = Parked::of_rank(rank);
                    assert_eq!((back.service, back.peer, back.number), (service, peer, number));
                }
            }
        }
    }

    #[test]
    fn a_place_among_those_who_wait_has_its_order() {
        let numbers = [0_u128, 1, u64::MAX.into(), 1 << 64, (1 << 96) - 1];
        let places = numbers.map(Place::of_rank);
        assert!(places.is_sorted() && places.map(Rank::rank) == numbers);
    }
}
