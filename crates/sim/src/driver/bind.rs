//! How listening sockets and datagram sockets are made.

use crate::check::Booked;
use crate::lane::sockets::Body;
use crate::net::connect::ListenerPort;
use crate::net::datagrams::DatagramPort;
use crate::net::unix::is_unix;
use crate::net::{Binding, Owner, destination};
use crate::state::State;
use corelane_seam::{Address, Bind, DatagramOutcome, Fault, Listen, Outcome, Socket};
use std::collections::VecDeque;

impl State {
    /// Makes a listening socket of a lane.
    pub(super) fn listen(&mut self, lane: usize, listen: &Listen, descriptor: i32) -> Result<Socket, Fault> {
        let host = self.lanes[lane].host;
        let address = self.net.inward_to_bind(host, &listen.address)?;
        let place = Binding { host, address, share: listen.share_port, v6_only: listen.v6_only };
        let address = self.net.settle_listener(place)?;
        let port = self.net.name();
        let socket = self.lanes[lane].sockets.add(0, Body::Listener { port, accept: None }, descriptor);
        let listener = ListenerPort {
            place: Binding { address, ..place },
            owner: Owner::Lane(lane, socket),
            backlog: listen.backlog.max(1) as usize,
            refuses_new: false,
            options: listen.stream,
            queue: VecDeque::new(),
        };
        self.net.note_bound(address, listener.owner);
        self.net.listeners.insert(port, listener);
        Ok(socket)
    }

    /// Makes a datagram socket of a lane, for the work of this number.
    pub(super) fn bind(&mut self, lane: usize, work: u8, bind: &Bind, descriptor: i32) -> Result<(Socket, Address), Fault> {
        let host = self.lanes[lane].host;
        let address = self.net.inward_to_bind(host, &bind.address)?;
        let place = Binding { host, address, share: bind.share_port, v6_only: bind.v6_only };
        let mut address = self.net.settle_port(place)?;
        let peer = bind.peer.as_ref().map(|peer| self.net.inward(host, peer)).transpose()?.map(destination);
        if let Some(peer) = peer {
            address.set_ip(self.net.own_end(host, address.ip(), None, peer.ip())?);
            if is_unix(peer.ip()) {
                self.at_name(address, peer)?;
            }
        }
        let port = self.net.name();
        let socket = self.lanes[lane].sockets.add(work, Body::Datagram { port, receive: None }, descriptor);
        let owner = Owner::Lane(lane, socket);
        self.net.note_bound(address, owner);
        self.net.ports.insert(port, DatagramPort::new(Binding { address, ..place }, peer, owner, bind.receive_buffer_bytes));
        Ok((socket, self.net.own(address)))
    }

    /// Makes a socket that a running lane asked for.
    pub(super) fn bind_later(&mut self, lane: usize, asked: Booked, bind: &Bind) {
        let (work, descriptor) = (asked.handle.work(), self.open_descriptor(lane));
        let outcome = match self.with_descriptor(lane, descriptor, |state, descriptor| state.bind(lane, work, bind, descriptor)) {
            Ok((socket, local)) => Outcome::Datagram(DatagramOutcome::Bound { socket, local }),
            Err(fault) => Outcome::Failed(fault),
        };
        self.complete(lane, asked, None, outcome);
    }
}
