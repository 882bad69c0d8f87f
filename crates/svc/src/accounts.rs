//! Who pays for a lane's memory: each peer with its connections, and each service with what it keeps itself.

use corelane_seam::{Address, Arena, Payer, Role};
use std::collections::BTreeMap;
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

/// The accounts of all peers that have connections.
pub(crate) struct Accounts {
    /// Under whom they are.
    work: Payer,
    peers: BTreeMap<PeerKey, PeerAccount>,
}

impl Default for Accounts {
    fn default() -> Self {
        Self { work: Payer::LANE, peers: BTreeMap::new() }
    }
}

impl Accounts {
    /// Connections that a peer has opened to all services.
    pub(crate) fn accepted(&self, peer: PeerKey) -> u32 {
        self.peers.get(&peer).map_or(0, |account| account.accepted)
    }

    /// From now on accounts are opened under that of this work.
    pub(crate) fn belong_to(&mut self, work: Payer) {
        assert!(self.peers.is_empty(), "the work pays before its first connection");
        self.work = work;
    }

    /// Opens the account of a connection, which has that tag and belongs to the service that is paid for by `service`.
    pub(crate) fn open(&mut self, arena: &Arena, peer: PeerKey, is_accepted: bool, (tag, service): (u32, Payer)) -> Payer {
        let open = || PeerAccount { payer: arena.open_payer(self.work, Role::Peer), connections: 0, accepted: 0 };
        let account = self.peers.entry(peer).or_insert_with(open);
        account.connections += 1;
        account.accepted += u32::from(is_accepted);
        assert!(account.connections >= account.accepted, "those that a peer has opened are among its own");
        arena.open_payer(account.payer, Role::Connection { tag, service })
    }

    /// Closes the account of a connection that is gone, and its peer's with the last one.
    pub(crate) fn close(&mut self, arena: &Arena, peer: PeerKey, is_accepted: bool, payer: Payer) {
        arena.close_payer(payer);
        // reason: opened with the first of its connections, closed with the last.
        let account = self.peers.get_mut(&peer).expect("a peer has an account as long as it has connections");
        assert!(account.connections > 0 && account.accepted >= u32::from(is_accepted), "an account closes once");
        account.connections -= 1;
        account.accepted -= u32::from(is_accepted);
        if account.connections == 0 {
            arena.close_payer(account.payer);
            self.peers.remove(&peer);
        }
    }

    /// Bytes that a peer holds.
    pub(crate) fn held(&self, peer: PeerKey, arena: &Arena) -> usize {
        self.peers.get(&peer).map_or(0, |account| arena.held(account.payer))
    }
}
