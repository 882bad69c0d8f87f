//! Outgoing connections on their way to be open: from which port, and what becomes of those that wait to know from which address.

use crate::places::outgoing::{NOWHERE, TRIES, destination};
use crate::table::LaneTable;
use crate::words::class;
use crate::words::flows::Flow;
use crate::words::names::ConnectionId;
use corelane_lane::Kit;
use corelane_seam::{Address, Bind, DatagramOp, Fault, Handle, Reason, StreamOp};
use corelane_watch::ServiceCounter;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// From where a connection is to be opened.
enum From {
    /// From an address that is still to be found out, towards this peer.
    Unknown(SocketAddr),
    /// From here, chosen to come home.
    Chosen(Address),
    /// As the service said, and else as the system likes.
    Any,
}

impl LaneTable {
    /// Opens a connection that has just been admitted: `local` of its peer is what its service wants.
    pub(crate) fn begin_connect(&mut self, kit: &mut Kit, index: u32) {
        self.connections.there(index).set_tries(TRIES);
        self.go_on_connecting(kit, index);
    }

    pub(crate) fn go_on_connecting(&mut self, kit: &mut Kit, index: u32) {
        let connection = self.connections.there(index);
        let (to, wanted) = (connection.ends().address.clone(), connection.ends().local.as_ref().clone());
        match self.from(kit, index, &to, &wanted) {
            From::Unknown(to) => self.ask_route(kit, index, to),
            From::Chosen(from) => self.submit_connect(kit, index, Some(from)),
            From::Any => {
                self.connections.there(index).set_tries(0);
                self.submit_connect(kit, index, Some(wanted).filter(|wanted| *wanted != NOWHERE));
            }
        }
    }

    fn from(&mut self, kit: &Kit, index: u32, to: &Address, wanted: &Address) -> From {
        let (&Address::Ip(to), &Address::Ip(wanted)) = (to, wanted) else { return From::Any };
        let (Some(outgoing), Some(flows)) = (&mut self.outgoing, &self.flows) else { return From::Any };
        let is_free = self.connections.there(index).tries_left() > 0 && wanted.port() == 0;
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
        let connection = self.connections.there(index);
        let (to, service) = (connection.ends().address.clone(), connection.service());
        let options = self.limits(service).stream;
        kit.submit(self.connections.handle(class::CONNECTION, index), StreamOp::Connect { to, from, options });
    }

    fn ask_route(&mut self, kit: &mut Kit, index: u32, to: SocketAddr) {
        let id = self.there(index).id;
        // reason: without ports to choose from, the address does not matter.
        let outgoing = self.outgoing.as_mut().expect("who asks for a route knows what to choose from");
        // Somebody has asked already: all who wait go on together.
        let Some(question) = outgoing.wait(id, to) else { return };
        let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let address = SocketAddr::new(any, 0).into();
        let (share_port, v6_only, receive_buffer_bytes, send_buffer_bytes) = (false, false, 0, 0);
        let peer = Some(to.into());
        kit.submit(
            question,
            DatagramOp::Bind(Bind { address, peer, share_port, v6_only, receive_buffer_bytes, send_buffer_bytes }),
        );
    }

    /// It was found out from where a peer is reached, or not: those that wait for that.
    pub(crate) fn route_found(&mut self, question: Handle, local: Option<SocketAddr>, now: u64) -> Vec<ConnectionId> {
        // reason: only who has ports to choose from asks, and they are not taken away.
        let outgoing = self.outgoing.as_mut().expect("who asked for a route knows what to choose from");
        outgoing.found(question, local, now)
    }

    /// Goes on with a connection whose port turned out to be taken; false if it has failed for good.
    pub(crate) fn try_another_port(&mut self, kit: &mut Kit, index: u32, fault: Fault) -> bool {
        let connection = self.connections.there(index);
        let is_taken = matches!(fault.reason, Reason::AddressInUse | Reason::AddressUnknown);
        if !is_taken || connection.tries_left() == 0 || !connection.is_being_opened() {
            return false;
        }
        connection.set_tries(connection.tries_left() - 1);
        let peer = connection.ends().address.inet();
        // It may be the address that is not ours any more.
        if let (Reason::AddressUnknown, Some(outgoing), Some(peer)) = (fault.reason, &mut self.outgoing, peer) {
            outgoing.forget(peer);
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
