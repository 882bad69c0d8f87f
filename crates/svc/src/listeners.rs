//! Where a lane's listening sockets come from, and how what they accept becomes a connection.

use crate::connection::Connection;
use crate::cx::Site;
use crate::error::Error;
use crate::fence::fenced;
use crate::found::Found;
use crate::limits::SECOND;
use crate::machine::Machine;
use crate::port::StreamPort;
use crate::service::{ConnectionId, Ending, Peer};
use crate::services::{Services, Sharing};
use crate::steering::Place;
use crate::table::{Arrived, Listener, class};
use corelane_lane::Kit;
use corelane_rss::Protocol;
use corelane_seam::{Bind, Completion, Driver, Handle, Listen, Op, Outcome, Payer, Reason};
use corelane_watch::{LaneCounter, ServiceCounter};
use std::net::SocketAddr;

/// How soon accepting is tried again when the system had no descriptor and no connection has ended meanwhile.
const ACCEPT_AGAIN: u64 = SECOND / 10;

/// What a datagram socket is to be.
pub(crate) fn datagram_socket(address: SocketAddr, peer: Option<SocketAddr>, sharing: Sharing) -> Bind {
    let Sharing { share_port, v6_only } = sharing;
    // Bursts of large datagrams do not fit in the default of 208 KiB.
    let buffer = 4 << 20;
    Bind { address, peer, share_port, v6_only, receive_buffer_bytes: buffer, send_buffer_bytes: buffer }
}

impl Services {
    /// Makes the socket of a listener that has none.
    pub(crate) fn open_listener(&mut self, driver: &mut dyn Driver, index: usize) -> Result<(), Error> {
        let Listener { address, service, sharing: Sharing { share_port, v6_only }, .. } = self.table.listeners[index];
        let limits = self.table.limits(service);
        let listen = Listen { address, backlog: limits.backlog, share_port, v6_only, stream: limits.stream };
        let at = Place { protocol: Protocol::TCP, address };
        let socket =
            self.open_socket(driver, at, |driver| driver.listen(&listen).map_err(|fault| Error::Listen { address, fault }))?;
        let listener = &mut self.table.listeners[index];
        (listener.socket, listener.accepting, listener.starved, listener.closing) = (Some(socket), false, false, false);
        Ok(())
    }

    /// Starts accepting on every listener that has room and is not accepting.
    pub(crate) fn start_listening(&mut self, kit: &mut Kit) {
        for index in 0..self.table.listeners.len() {
            let listener = &self.table.listeners[index];
            let (service, idle) = (listener.service, !(listener.accepting || listener.starved || listener.closing));
            let Some(socket) = listener.socket.filter(|_| idle) else { continue };
            if self.table.services[service as usize].waiting.is_empty() && self.table.has_room(service) {
                self.table.listeners[index].accepting = true;
                kit.submit(Handle::new(class::LISTENER, index as u32, 0), Op::Accept { listener: socket });
            }
        }
    }

    pub(crate) fn listener_completed(&mut self, kit: &mut Kit, completion: Completion) {
        let index = completion.handle.index() as usize;
        let listener = &mut self.table.listeners[index];
        listener.accepting &= completion.more;
        let service = listener.service;
        match completion.outcome {
            Outcome::Accepted { socket, peer, local } => {
                listener.accepted_at = kit.now();
                self.table.services[service as usize].waiting.push_back(Arrived { socket, peer, local });
                self.admit_waiting(kit, service);
            }
            Outcome::Closed => {
                listener.socket = None;
                let at = Place { protocol: Protocol::TCP, address: listener.address };
                self.place_closed(at);
            }
            Outcome::Failed(fault) if fault.reason != Reason::Cancelled => {
                if matches!(fault.reason, Reason::NoDescriptor | Reason::NoMemory) {
                    self.table.count(service, ServiceCounter::AcceptsNoDescriptor, 1);
                }
                self.table.listeners[index].starved = true;
                kit.start_timer(kit.now() + ACCEPT_AGAIN, Handle::new(class::ACCEPT_AGAIN, 0, 0));
            }
            _ => {}
        }
    }

    /// Lets listeners that found no descriptor try again.
    pub(crate) fn accept_again(&mut self, kit: &mut Kit) {
        self.table.listeners.iter_mut().for_each(|listener| listener.starved = false);
        self.start_listening(kit);
    }

    /// Makes connections of accepted sockets as long as there is room; stops accepting when there is none.
    pub(crate) fn admit_waiting(&mut self, kit: &mut Kit, service: u16) {
        while self.table.has_room(service) {
            let Some(arrived) = self.table.services[service as usize].waiting.pop_front() else { return };
            self.admit(kit, service, arrived);
        }
        let state = &self.table.services[service as usize];
        let at_lane_bound = state.open < state.limits.connections_max;
        let mut stopped = false;
        for listener in self.table.listeners.iter_mut().filter(|listener| listener.service == service && listener.accepting) {
            if let Some(socket) = listener.socket {
                kit.submit(Handle::new(class::LISTENER, 0, 0), Op::StopAccept { listener: socket });
                stopped = true;
            }
        }
        if stopped && at_lane_bound {
            kit.row.add(LaneCounter::ConnectionsCapHits, 1);
        } else if stopped {
            self.table.count(service, ServiceCounter::ConnectionsMaxHits, 1);
        }
    }

    fn admit(&mut self, kit: &mut Kit, service: u16, arrived: Arrived) {
        if self.table.peer_is_full(service, arrived.peer.ip()) {
            self.table.count(service, ServiceCounter::ConnectionsPerPeerMaxHits, 1);
            self.table.count(service, ServiceCounter::AcceptsRefused, 1);
            self.table.turn_away(kit, arrived.socket);
            return;
        }
        let flow = self.table.flow(arrived.peer, arrived.local, Protocol::TCP);
        let peer = Peer { address: arrived.peer, local: arrived.local, flow };
        // In this order: who sees the arrival in the page sees whether it was a stray.
        self.table.count(service, ServiceCounter::Strays, self.table.is_stray(flow, kit.lane()).into());
        self.table.count(service, ServiceCounter::Accepts, 1);
        self.note_selection(kit);
        let machine = Machine::accepted(self.table.draining);
        let connection = Connection::new(Some(arrived.socket), peer, service, machine, kit.now());
        let index = self.table.admit(connection, &kit.arena);
        self.table.there(index).mark_dirty();
        self.open_session(kit, index, peer);
    }

    fn open_session(&mut self, kit: &mut Kit, index: u32, peer: Peer) {
        let session = self.connection_call(kit, index, |port: &mut dyn StreamPort, cx| port.open(cx, &peer));
        self.begin_session(kit, index, peer, session);
    }

    /// Gives a connection its session and what its service wants between it and the socket. Without a session, or after a
    /// panic, it ends.
    pub(crate) fn begin_session(&mut self, kit: &mut Kit, index: u32, peer: Peer, session: Option<u32>) {
        self.table.there(index).connection.session = session;
        match session.and_then(|_| self.connection_call(kit, index, |port, _| port.transform(&peer))) {
            Some(transform) => self.table.there(index).connection.transform = transform,
            None => self.end(kit, index, Ending::Aborted),
        }
    }

    /// Calls into the connection's service, fenced. None after a panic, which is counted and reported.
    pub(crate) fn connection_call<R>(
        &mut self,
        kit: &mut Kit,
        index: u32,
        call: impl FnOnce(&mut dyn StreamPort, &mut Site<'_>) -> R,
    ) -> Option<R> {
        let about = self.table.there(index).about();
        self.fenced_call(kit, &about, call).0
    }

    /// The same for a connection that was looked up; returns as well how much memory was refused to the service.
    pub(crate) fn fenced_call<R>(
        &mut self,
        kit: &mut Kit,
        about: &About,
        call: impl FnOnce(&mut dyn StreamPort, &mut Site<'_>) -> R,
    ) -> (Option<R>, usize) {
        // reason: only a service over connections has any.
        let port = self.ports[about.service as usize].stream().expect("a connection belongs to a service over connections");
        let before = kit.arena.pay_as(about.payer);
        if about.is_granted {
            kit.arena.grant();
        }
        let mut cx = Site::new(kit, &mut self.table, about.service, Some(about.id));
        let result = fenced(|| call(port, &mut cx));
        let refused = kit.arena.pay_no_longer(before);
        (result.map_err(|words| self.report_panic(kit, about.service, Some(about.peer), &words)).ok(), refused)
    }

    /// Counts a panic and tells the operator whose it was.
    pub(crate) fn report_panic(&mut self, kit: &mut Kit, service: u16, peer: Option<SocketAddr>, words: &str) {
        self.table.count(service, ServiceCounter::Panics, 1);
        let lane = kit.lane();
        let whose = peer.map_or(String::new(), |peer| format!(", connection of {peer}"));
        kit.report_kind("panics", &format!("lane {lane}, service {service}{whose}: a session panicked and was ended: {words}"));
    }
}

/// For whom a call into a service is, and who pays for what it takes.
pub(crate) struct About {
    id: ConnectionId,
    service: u16,
    peer: SocketAddr,
    payer: Payer,
    is_granted: bool,
}

impl Found<'_> {
    pub(crate) fn about(&mut self) -> About {
        let is_granted = self.desk.memory.is_granted(self.id);
        let Connection { service, peer, payer, .. } = *self.connection;
        About { id: self.id, service, peer: peer.address, payer, is_granted }
    }
}
