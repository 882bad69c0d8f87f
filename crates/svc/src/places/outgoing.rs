//! Outgoing connections that come home: the source port is chosen so that what the peer sends belongs to the lane that asked.
//!
//! The flow that comes back has our address in it. Where the service names none, a datagram socket towards the peer tells which one the
//! system takes, and that is remembered for a while; meanwhile the connections to that peer wait, for a turn.

use crate::limits::SECOND;
use crate::words::class;
use crate::words::flows::Flows;
use crate::words::names::ConnectionId;
use corelane_seam::slab::HandleSlab;
use corelane_seam::{Address, Handle};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;

/// Our own address, not named.
pub(crate) const NOWHERE: Address = Address::Ip(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0));

/// Ports that are tried for one connection, before the system chooses.
pub(crate) const TRIES: u8 = 8;

/// How long we rely on the address from which a peer is reached: routes change.
const ROUTE_LASTS: u64 = SECOND;

/// Peers of which that is remembered.
const ROUTES_MAX: usize = 1024;

/// What is known for choosing ports.
pub(crate) struct Outgoing {
    ports: Vec<RangeInclusive<u16>>,
    /// Where the next choice begins: so the port that was not used for the longest time comes next.
    next: Option<u16>,
    /// By peer, without its port, our address towards it, and when that was seen.
    routes: BTreeMap<SocketAddr, (SocketAddr, u64)>,
    /// The connections that wait for a route, by peer without its port.
    waiting: BTreeMap<SocketAddr, Vec<ConnectionId>>,
    /// The peers whose routes are being looked for.
    asked: HandleSlab<SocketAddr>,
}

impl Outgoing {
    pub(crate) fn new(ports: Vec<RangeInclusive<u16>>) -> Self {
        Self { ports, next: None, routes: BTreeMap::new(), waiting: BTreeMap::new(), asked: HandleSlab::new() }
    }

    /// A port that leads from `peer` to `local` and home.
    pub(crate) fn choose(&mut self, flows: &Flows, lane: usize, local: IpAddr, peer: SocketAddr, now: u64) -> Option<u16> {
        // An earlier process should not have begun with the same.
        let next = self.next.unwrap_or((now / 1_000 % u64::from(u16::MAX)) as u16);
        let part = |ports: &RangeInclusive<u16>, first: u16, last: u16| first.max(*ports.start())..=last.min(*ports.end());
        let ahead = self.ports.iter().map(|ports| part(ports, next, u16::MAX));
        let behind = self.ports.iter().map(|ports| part(ports, 0, next.saturating_sub(1)));
        let port = ahead.chain(behind).find_map(|ports| flows.home_port(lane, local, peer, ports))?;
        assert!(self.ports.iter().any(|ports| ports.contains(&port)), "a port is one of those that may be chosen");
        self.next = Some(port.wrapping_add(1));
        Some(port)
    }

    /// Our address towards a peer, if that was seen lately.
    pub(crate) fn route(&self, peer: SocketAddr, now: u64) -> Option<SocketAddr> {
        let (local, seen) = self.routes.get(&host(peer))?;
        (now.saturating_sub(*seen) < ROUTE_LASTS).then_some(*local)
    }

    /// From where a peer is reached is not believed any more.
    pub(crate) fn forget(&mut self, peer: SocketAddr) {
        self.routes.remove(&host(peer));
    }

    /// Has a connection wait for the route to its peer; returns under which name to ask for it, if nobody has yet.
    pub(crate) fn wait(&mut self, id: ConnectionId, peer: SocketAddr) -> Option<Handle> {
        let waiting = self.waiting.entry(host(peer)).or_default();
        waiting.push(id);
        if waiting.len() > 1 {
            return None;
        }
        let key = self.asked.insert(host(peer));
        Some(Handle::new(class::ROUTE, key.index, key.generation))
    }

    /// A question is over, with our address or without: who waits for that.
    pub(crate) fn found(&mut self, question: Handle, local: Option<SocketAddr>, now: u64) -> Vec<ConnectionId> {
        // reason: each bind completes once, and only this takes the question away.
        let peer = self.asked.remove(question.into()).expect("a question is answered once");
        if let Some(local) = local {
            if self.routes.len() >= ROUTES_MAX {
                self.routes.clear();
            }
            self.routes.insert(peer, (local, now));
        }
        // reason: nobody asks without waiting.
        let waiting = self.waiting.remove(&peer).expect("somebody waits for each answer");
        assert!(!waiting.is_empty() && self.asked.len() == self.waiting.len(), "one question for each peer that is waited for");
        waiting
    }
}

/// A peer without its port.
fn host(mut peer: SocketAddr) -> SocketAddr {
    peer.set_port(0);
    peer
}

/// An address in one spelling: a mapped IPv4 address is IPv4, and what goes to the wildcard address goes to this machine (ip(7)).
pub(crate) fn destination(mut peer: Address) -> Address {
    let Address::Ip(inet) = &mut peer else { return peer };
    let ip = match inet.ip().to_canonical() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    // Keeps the scope of a link-local address.
    inet.set_ip(ip);
    peer
}
