//! The test's own ends of the network: clients and servers that are played by hand, without a driver.

use crate::log::{Detail, Site};
use crate::net::connect::{ListenerPort, Opener};
use crate::net::datagrams::{DatagramPort, Packet};
use crate::net::peers::{PeerState, Status};
use crate::net::streams::Incoming;
use crate::net::unix::is_unix;
use crate::net::{Binding, OUTSIDE, Owner, TOO_LARGE, canonical};
use crate::state::{State, World};
use corelane_seam::{Address, Fault, StreamOptions, Unix, datagram_bytes_max};
use std::net::SocketAddr;

/// One end of a connection, played by the test. What arrives waits until it is read; while it is not, the window
/// closes and the other end's sends stop. Cloning gives another name of the same end.
#[derive(Clone)]
pub struct Peer {
    world: World,
    id: usize,
}

impl PartialEq for Peer {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Peer({})", self.id)
    }
}

impl Peer {
    /// Its number: peers of all kinds are counted together, from 0, in the order of their making.
    pub fn id(&self) -> usize {
        self.id
    }

    /// Its own address.
    pub fn local(&self) -> SocketAddr {
        self.world.0.borrow().peers[self.id].local
    }

    /// The address of the other end, as this end asked for it.
    pub fn remote(&self) -> SocketAddr {
        self.world.0.borrow().peers[self.id].remote
    }

    /// How far it is. A reset shows when all that arrived before it was read.
    pub fn status(&self) -> Status {
        let state = &mut *self.world.0.borrow_mut();
        let peer = &mut state.peers[self.id];
        let Some((name, side)) = peer.at else { return peer.status };
        if let (Status::Open | Status::Ended, Some(stream)) = (peer.status, state.net.streams.get_mut(name)) {
            match stream.incoming(side) {
                Incoming::Fault(fault) => peer.status = Status::Failed(fault),
                Incoming::End => peer.status = Status::Ended,
                Incoming::Bytes(_) | Incoming::Nothing => {}
            }
        }
        peer.status
    }

    /// Sends as many of `bytes` as the send buffer takes; returns how many. None once it has finished or is broken.
    /// After a send that was cut short there is a turn when a third of the buffer is free again.
    pub fn send(&self, bytes: &[u8]) -> usize {
        let state = &mut *self.world.0.borrow_mut();
        let Some((name, side)) = state.peers[self.id].at else { return 0 };
        let stream = state.net.held(name);
        let wanted = bytes.len();
        let bytes = &bytes[..wanted.min(stream.room(side))];
        state.peers[self.id].wants_room = bytes.len() < wanted;
        stream.pipes[side].put(bytes, bytes);
        state.log.note(state.clock.now(), Site::Peer(self.id), "sends", Detail::Amount(bytes.len() as u64));
        state.pump(name, side);
        bytes.len()
    }

    /// Reads what has arrived, at most `most` bytes.
    pub fn read(&self, most: usize) -> Vec<u8> {
        let state = &mut *self.world.0.borrow_mut();
        let Some((name, side)) = state.peers[self.id].at else { return Vec::new() };
        let stream = state.net.held(name);
        let pipe = &mut stream.pipes[1 - side];
        let mut bytes = vec![0; most.min(pipe.readable())];
        pipe.read(&mut bytes);
        state.log.note(state.clock.now(), Site::Peer(self.id), "reads", Detail::Amount(bytes.len() as u64));
        state.release_passed(name, 1 - side);
        state.pump(name, 1 - side);
        bytes
    }

    /// Bytes that have arrived and were not read.
    pub fn readable_bytes(&self) -> usize {
        let state = self.world.0.borrow();
        let at = state.peers[self.id].at;
        at.and_then(|(name, side)| Some(state.net.streams.get(name)?.pipes[1 - side].readable())).unwrap_or(0)
    }

    /// Sends no more: the other end sees the end of the stream behind what was sent.
    pub fn finish(&self) {
        let state = &mut *self.world.0.borrow_mut();
        if let Some((name, side)) = state.peers[self.id].at {
            state.finish_end(name, side);
        }
    }

    /// Closes; with unread bytes that resets the connection, as a kernel does.
    pub fn close(&self) {
        self.end(false);
    }

    /// Breaks the connection off.
    pub fn reset(&self) {
        self.end(true);
    }

    fn end(&self, reset: bool) {
        let state = &mut *self.world.0.borrow_mut();
        let peer = &mut state.peers[self.id];
        peer.status = Status::Closed;
        if let Some((name, side)) = peer.at.take() {
            state.log.note(state.clock.now(), Site::Peer(self.id), if reset { "resets" } else { "closes" }, Detail::Nothing);
            state.close_end(name, side, reset);
        }
    }
}

/// A datagram socket, played by the test. Cloning gives another name of the same socket.
#[derive(Clone)]
pub struct DatagramPeer {
    world: World,
    id: usize,
    port: u64,
}

impl PartialEq for DatagramPeer {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl std::fmt::Debug for DatagramPeer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DatagramPeer({})", self.id)
    }
}

impl DatagramPeer {
    /// Its number, as for [`Peer::id`].
    pub fn id(&self) -> usize {
        self.id
    }

    /// Its own address.
    pub fn local(&self) -> SocketAddr {
        self.world.0.borrow().peers[self.id].local
    }

    /// Sends one datagram.
    ///
    /// # Errors
    /// `TooLarge` over [`datagram_bytes_max`]. To a Unix name also that nobody is there, or that there is no room.
    pub fn send(&self, to: SocketAddr, bytes: &[u8]) -> Result<(), Fault> {
        if bytes.len() > datagram_bytes_max(&to.into()) {
            return Err(TOO_LARGE);
        }
        let packet = Packet { from: self.local(), to, bytes: bytes.to_vec() };
        let state = &mut *self.world.0.borrow_mut();
        if is_unix(to.ip()) {
            return state.give(packet);
        }
        state.emit(self.port, packet);
        Ok(())
    }

    /// Takes the next datagram that has arrived, with its sender.
    pub fn receive(&self) -> Option<(SocketAddr, Vec<u8>)> {
        let state = &mut *self.world.0.borrow_mut();
        let packet = state.net.ports.get_mut(&self.port)?.pop()?;
        Some((packet.from, packet.bytes))
    }
}

impl World {
    /// Opens a connection to `to` as a client at `from`, which may be any address outside of the world's hosts, or a
    /// loopback address for a client on the first host; port 0 lets the world choose.
    ///
    /// # Errors
    /// `AddressInUse` if that client has a connection to the same place.
    pub fn connect(&self, from: SocketAddr, to: SocketAddr) -> Result<Peer, Fault> {
        let state = &mut *self.0.borrow_mut();
        let id = state.peers.len();
        let (_, local) = state.start_attempt(Opener::Peer(id), OUTSIDE, Some(from), canonical(to), StreamOptions::default())?;
        state.peers.push(PeerState::new(local, to));
        Ok(Peer { world: self.clone(), id })
    }

    /// Listens at `address` for connections that lanes open; each comes as [`Turn::Incoming`](crate::Turn::Incoming).
    ///
    /// # Errors
    /// `AddressInUse`.
    pub fn listen(&self, address: SocketAddr) -> Result<(), Fault> {
        let state = &mut *self.0.borrow_mut();
        let place = state.outside_place(address);
        let address = state.net.settle_listener(place)?;
        state.net.note_bound(address, Owner::Gone);
        let listener = ListenerPort {
            place: Binding { address, ..place },
            owner: Owner::Gone,
            backlog: usize::MAX,
            refuses_new: false,
            options: StreamOptions::default(),
            queue: Default::default(),
        };
        let name = state.net.name();
        state.net.listeners.insert(name, listener);
        Ok(())
    }

    /// Has attempts at `address`, where somebody [listens](World::listen), go unanswered from now on, as behind a filter that drops them; or be answered again.
    pub fn silence(&self, address: SocketAddr, is_silent: bool) {
        let listeners = &mut self.0.borrow_mut().net.listeners;
        listeners.values_mut().filter(|listener| listener.place.address == address).for_each(|one| one.refuses_new = is_silent);
    }

    /// Nobody [listens](World::listen) at `address` any more: attempts there are refused. Connections live on.
    pub fn stop_listening(&self, address: SocketAddr) {
        self.0.borrow_mut().net.listeners.retain(|_, listener| listener.place.address != address);
    }

    /// Makes a datagram socket at `address`, which may be any address as for [`World::connect`].
    ///
    /// # Errors
    /// `AddressInUse`.
    pub fn bind(&self, address: SocketAddr) -> Result<DatagramPeer, Fault> {
        let state = &mut *self.0.borrow_mut();
        let place = state.outside_place(address);
        let address = state.net.settle_port(place)?;
        state.net.note_bound(address, Owner::Gone);
        let (id, port) = (state.peers.len(), state.net.name());
        state.net.ports.insert(port, DatagramPort::new(Binding { address, ..place }, None, Owner::Peer(id), 0));
        let mut peer = PeerState::new(address, address);
        peer.port = Some(port);
        state.peers.push(peer);
        Ok(DatagramPeer { world: self.clone(), id, port })
    }

    /// The address by which a Unix name on the first host is known in this world, for a peer's calls: to connect there, or to listen or be bound
    /// there itself. With a user it says whose process that peer is; lanes are of user 1000. Without a name it is one more socket's, to connect or send from.
    pub fn named(&self, unix: &Unix) -> SocketAddr {
        self.0.borrow_mut().net.of_peer(unix)
    }

    /// What such an address stands for, with its user; any other as it is.
    pub fn meaning(&self, address: SocketAddr) -> Address {
        self.0.borrow().net.peer(address)
    }

    pub(crate) fn peer(&self, id: usize) -> Peer {
        Peer { world: self.clone(), id }
    }

    pub(crate) fn datagram_peer(&self, id: usize, port: u64) -> DatagramPeer {
        DatagramPeer { world: self.clone(), id, port }
    }
}

impl State {
    fn outside_place(&self, address: SocketAddr) -> Binding {
        let address = canonical(address);
        Binding { host: self.net.host_of(OUTSIDE, address.ip()), address, share: false, v6_only: false }
    }
}
