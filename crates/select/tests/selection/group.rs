//! A group under test: all lanes' sockets at one address.

use crate::network::{CLIENTS, Network};
use crate::sockets::{Arrived, Shared, begin, client, wait};
use corelane_rss::{Buckets, FlowHasher, HashTypes, Key, Table, Transport};
use corelane_select::{Group, Selector};
use std::collections::BTreeMap;
use std::net::{Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

pub const TRANSPORTS: [Transport; 2] = [Transport::Tcp, Transport::Udp];
/// Flows of one check.
pub const FLOWS: usize = 400;

pub fn hasher(types: HashTypes) -> FlowHasher {
    FlowHasher::new(&Key::MICROSOFT, types)
}

pub fn even(lanes: usize) -> Table {
    Table::even(Buckets::DEFAULT, lanes).unwrap()
}

/// Another table of the same lanes: nearly every bucket has another lane than in [`even`], and the shares differ.
pub fn other(lanes: usize) -> Table {
    let mut table = even(lanes);
    for bucket in table.buckets().all() {
        table.set(bucket, (bucket.index() * bucket.index() / 3 + 1) % lanes).unwrap();
    }
    table
}

/// The sockets of all lanes at one address.
pub struct Lanes {
    pub group: Group,
    /// By lane.
    pub sockets: BTreeMap<usize, Shared>,
    transport: Transport,
}

impl Lanes {
    pub fn open(selector: &Selector, transport: Transport, address: SocketAddr, lanes: usize) -> Self {
        let mut opened = Self { group: selector.group(transport).unwrap(), sockets: BTreeMap::new(), transport };
        for lane in 0..lanes {
            let address = opened.sockets.values().next().map_or(address, Shared::address);
            opened.join(lane, address);
        }
        opened
    }

    /// Opens a lane's socket.
    pub fn join(&mut self, lane: usize, address: SocketAddr) {
        let mut entry = self.group.entry(lane).unwrap();
        let socket = Shared::new(self.transport, address);
        entry.register(socket.as_fd()).unwrap();
        drop(entry);
        self.sockets.insert(lane, socket);
    }

    /// Closes a lane's socket, whose buckets have gone to others.
    pub fn close(&mut self, lane: usize) {
        drop(self.sockets.remove(&lane).unwrap());
        self.group.leave(lane);
        self.group.refresh(self.any()).unwrap();
    }

    pub fn any(&self) -> BorrowedFd<'_> {
        self.sockets.values().next().unwrap().as_fd()
    }

    pub fn address(&self) -> SocketAddr {
        self.sockets.values().next().unwrap().address()
    }

    /// Waits for the next flow; says on which lane it was.
    pub fn next(&self) -> (usize, Arrived) {
        assert!(wait(self.sockets.values().map(Shared::as_fd)), "a flow did not arrive");
        self.sockets.iter().find_map(|(lane, socket)| Some((*lane, socket.next()?))).unwrap()
    }

    /// Begins a flow of each client, and has each found on the lane that its bucket names. They go on if they can.
    pub fn check(&self, clients: Vec<OwnedFd>, to: SocketAddr, hasher: &FlowHasher, table: &Table) -> Vec<OwnedFd> {
        self.check_of(clients, to, &[7], hasher, table)
    }

    /// As [`Lanes::check`], with what each sends first.
    pub fn check_of(
        &self,
        clients: Vec<OwnedFd>,
        to: SocketAddr,
        bytes: &[u8],
        hasher: &FlowHasher,
        table: &Table,
    ) -> Vec<OwnedFd> {
        let mut found = BTreeMap::new();
        for clients in clients.chunks(20) {
            clients.iter().for_each(|client| begin(client, to, bytes));
            for _ in clients {
                let (lane, arrived) = self.next();
                assert_eq!(Some(lane), arrived.lane(hasher, table, to), "{} from {} to {to}", arrived.local, arrived.peer);
                *found.entry(lane).or_insert(0) += 1;
            }
        }
        assert!(self.sockets.values().all(|socket| socket.next().is_none()), "each flow came once");
        let owners = table.owners().count().min(clients.len());
        assert!(found.len() * 2 > owners, "flows reach the lanes: {found:?}");
        clients
    }

    /// As [`Lanes::check`], with new clients, on the address that the clients reach.
    pub fn check_new(&self, network: &Network, to: SocketAddr, hasher: &FlowHasher, table: &Table) -> Vec<OwnedFd> {
        let clients = network.clients(self.transport, to, FLOWS);
        self.check(clients, to, hasher, table)
    }
}

impl Network {
    /// Clients that are bound to the client's addresses in turn, of the family of `to`.
    pub fn clients(&self, transport: Transport, to: SocketAddr, count: usize) -> Vec<OwnedFd> {
        let address = |index: usize| match to {
            SocketAddr::V4(_) => SocketAddr::from(([10, 77, 1, (index % CLIENTS + 1) as u8], 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 1, (index % CLIENTS + 1) as u16), 0)),
        };
        self.on_client_side(|| (0..count).map(|index| client(transport, address(index))).collect())
    }
}
