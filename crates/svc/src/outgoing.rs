//! Outgoing connections that come home: the source port is chosen so that what the peer sends belongs to the lane that asked.
//!
//! The flow that comes back has our address in it. Where the service names none, a datagram socket towards the peer tells which one the
//! system takes, and that is remembered for a while; meanwhile the connections to that peer wait, for a turn.

use crate::class;
use crate::connection::Connection;
use crate::cx::destination;
use crate::flows::{Flow, Flows};
use crate::limits::SECOND;
use crate::machine::Phase;
use crate::names::ConnectionId;
use crate::services::Services;
use crate::slab::Slab;
use crate::table::Table;
use corelane_lane::Kit;
use corelane_seam::{Address, Bind, Completion, Fault, Handle, Op, Outcome, Reason};
use corelane_watch::ServiceCounter;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;

/// An own address that was not named.
pub(crate) const NOWHERE: Address = Address::Ip(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0));

/// Ports that are tried for one connection, before the system chooses.
const TRIES: u8 = 8;

/// How long it is believed from which address a peer is reached: routes change.
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
    asked: Slab<SocketAddr>,
}

impl Outgoing {
    pub(crate) fn new(ports: Vec<RangeInclusive<u16>>) -> Self {
        Self { ports, next: None, routes: BTreeMap::new(), waiting: BTreeMap::new(), asked: Slab::new() }
    }

    /// A port that leads from `peer` to `local` and home.
    fn choose(&mut self, flows: &Flows, lane: usize, local: IpAddr, peer: SocketAddr, now: u64) -> Option<u16> {
        // An earlier process should not have begun with the same.
        let next = self.next.unwrap_or((now / 1_000 % u64::from(u16::MAX)) as u16);
        let part = |ports: &RangeInclusive<u16>, first: u16, last: u16| first.max(*ports.start())..=last.min(*ports.end());
        let ahead = self.ports.iter().map(|ports| part(ports, next, u16::MAX));
        let behind = self.ports.iter().map(|ports| part(ports, 0, next.saturating_sub(1)));
        let port = ahead.chain(behind).find_map(|ports| flows.home_port(lane, local, peer, ports))?;
        self.next = Some(port.wrapping_add(1));
        Some(port)
    }

    /// Our address towards a peer, if that was seen lately.
    fn route(&self, peer: SocketAddr, now: u64) -> Option<SocketAddr> {
        let (local, seen) = self.routes.get(&host(peer))?;
        (now.saturating_sub(*seen) < ROUTE_LASTS).then_some(*local)
    }

    /// Has a connection wait for the route to its peer; answers under which name to ask for it, if nobody has yet.
    fn wait(&mut self, id: ConnectionId, peer: SocketAddr) -> Option<Handle> {
        let waiting = self.waiting.entry(host(peer)).or_default();
        waiting.push(id);
        if waiting.len() > 1 {
            return None;
        }
        let (index, generation) = self.asked.insert(host(peer));
        Some(Handle::new(class::ROUTE, index, generation))
    }

    /// The answer to a question: who waits for it.
    fn answered(&mut self, question: Handle, local: Option<SocketAddr>, now: u64) -> Vec<ConnectionId> {
        if self.asked.get(question.index(), question.generation()).is_none() {
            return Vec::new();
        }
        let Some(peer) = self.asked.remove(question.index()) else { return Vec::new() };
        if let Some(local) = local {
            if self.routes.len() >= ROUTES_MAX {
                self.routes.clear();
            }
            self.routes.insert(peer, (local, now));
        }
        self.waiting.remove(&peer).unwrap_or_default()
    }
}

/// A peer without its port.
fn host(mut peer: SocketAddr) -> SocketAddr {
    peer.set_port(0);
    peer
}

/// From where a connection is to be opened.
enum From {
    /// From an address that is still to be found out, towards this peer.
    Unknown(SocketAddr),
    /// From here, chosen to come home.
    Chosen(Address),
    /// As the service said, and else as the system likes.
    Any,
}

impl Table {
    /// Opens a connection that has just been admitted: `local` of its peer is what its service wants.
    pub(crate) fn begin_connect(&mut self, kit: &mut Kit, index: u32) {
        if let Some(connection) = self.connections.at(index) {
            connection.tries_left = TRIES;
        }
        self.go_on_connecting(kit, index);
    }

    fn go_on_connecting(&mut self, kit: &mut Kit, index: u32) {
        let Some(connection) = self.connections.at(index) else { return };
        let (to, wanted) = (connection.peer.address.clone(), connection.peer.local.clone());
        match self.from(kit, index, &to, &wanted) {
            From::Unknown(to) => self.ask_route(kit, index, to),
            From::Chosen(from) => self.submit_connect(kit, index, Some(from)),
            From::Any => {
                if let Some(connection) = self.connections.at(index) {
                    connection.tries_left = 0;
                }
                self.submit_connect(kit, index, Some(wanted).filter(|wanted| *wanted != NOWHERE));
            }
        }
    }

    fn from(&mut self, kit: &Kit, index: u32, to: &Address, wanted: &Address) -> From {
        let (&Address::Ip(to), &Address::Ip(wanted)) = (to, wanted) else { return From::Any };
        let (Some(outgoing), Some(flows)) = (&mut self.outgoing, &self.flows) else { return From::Any };
        let is_free = self.connections.at(index).is_some_and(|connection| connection.tries_left > 0) && wanted.port() == 0;
        // A peer with two spellings is left to the system: answers come from the other one.
        if !is_free || destination(to.into()) != to || !flows.divides(kit.lane()) {
            return From::Any;
        }
        let local = if wanted.ip().is_unspecified() { outgoing.route(to, kit.now()) } else { Some(wanted) };
        let Some(mut local) = local else { return From::Unknown(to) };
        match outgoing.choose(flows, kit.lane(), local.ip(), to, kit.now()) {
            None => From::Any,
            Some(port) => {
                local.set_port(port);
                From::Chosen(local.into())
            }
        }
    }

    fn submit_connect(&mut self, kit: &mut Kit, index: u32, from: Option<Address>) {
        let Some(connection) = self.connections.at(index) else { return };
        let (to, service) = (connection.peer.address.clone(), connection.service);
        let options = self.limits(service).stream;
        kit.submit(self.handle(class::CONNECTION, index), Op::Connect { to, from, options });
    }

    fn ask_route(&mut self, kit: &mut Kit, index: u32, to: SocketAddr) {
        let id = self.id(index);
        let Some(question) = self.outgoing.as_mut().and_then(|outgoing| outgoing.wait(id, to)) else { return };
        let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let address = SocketAddr::new(any, 0).into();
        let (share_port, v6_only, receive_buffer_bytes, send_buffer_bytes) = (false, false, 0, 0);
        let peer = Some(to.into());
        kit.submit(question, Op::Bind(Bind { address, peer, share_port, v6_only, receive_buffer_bytes, send_buffer_bytes }));
    }

    /// Goes on with a connection whose port turned out to be taken; false if it has failed for good.
    pub(crate) fn try_another_port(&mut self, kit: &mut Kit, index: u32, fault: Fault) -> bool {
        let Some(connection) = self.connections.at(index) else { return false };
        let is_taken = matches!(fault.reason, Reason::AddressInUse | Reason::AddressUnknown);
        if !is_taken || connection.tries_left == 0 || !connection.is_being_opened() {
            return false;
        }
        connection.tries_left -= 1;
        let peer = connection.peer.address.inet();
        // It may be the address that is not ours any more.
        if let (Reason::AddressUnknown, Some(outgoing), Some(peer)) = (fault.reason, &mut self.outgoing, peer) {
            outgoing.routes.remove(&host(peer));
        }
        self.go_on_connecting(kit, index);
        true
    }

    /// Counts whether what comes back on an outgoing connection belongs to this lane.
    pub(crate) fn count_home(&mut self, service: u16, flow: Option<Flow>, lane: usize) {
        if self.outgoing.is_some() && flow.is_some() {
            let is_stray = self.is_stray(flow, lane);
            self.count(service, if is_stray { ServiceCounter::ConnectsStray } else { ServiceCounter::ConnectsHome }, 1);
        }
    }
}

impl Services {
    /// It is known from which address a peer is reached, or that it is not: the connections that waited go on.
    pub(crate) fn route_completed(&mut self, kit: &mut Kit, completion: Completion) {
        let local = match completion.outcome {
            Outcome::Bound { socket, local } => {
                kit.submit(Handle::new(class::DISCARDED, 0, 0), Op::Close { socket, reset: false });
                local.inet()
            }
            _ => None,
        };
        let Some(outgoing) = &mut self.table.outgoing else { return };
        for id in outgoing.answered(completion.handle, local, kit.now()) {
            let Some(connection) = self.table.find(id) else { continue };
            if !connection.is_being_opened() {
                self.opening_failed(kit, id.index, Fault::CANCELLED);
                continue;
            }
            if local.is_none() {
                connection.tries_left = 0;
            }
            self.table.go_on_connecting(kit, id.index);
        }
    }
}

impl Connection {
    /// Whether nobody has given up opening it: neither its service nor its limit.
    fn is_being_opened(&self) -> bool {
        self.machine.phase() == Phase::Opening && self.timer.is_some()
    }
}
