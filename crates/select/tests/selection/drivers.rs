//! The drivers' own sockets, through the contract alone.

use crate::group::{FLOWS, TRANSPORTS, even, hasher};
use crate::network::{SERVER_V4, on_network};
use crate::sockets::{PATIENCE, begin};
use corelane_drivers::{EpollDriver, Error, Probes, UringDriver};
use corelane_os::testing::skip;
use corelane_rss::{HashTypes, Protocol, Transport, Tuple};
use corelane_seam::{
    Address, Arena, Bind, Completion, DatagramOp, DatagramOutcome, Datagrams, Driver, Handle, Listen, Op, Outcome, Socket,
    StreamOp, StreamOptions, StreamOutcome, Tuning, Wait,
};
use corelane_select::{Group, Means, Selector};
use std::net::SocketAddr;
use std::time::Instant;

const LANES: usize = 3;

struct Lane {
    driver: Box<dyn Driver>,
    socket: Socket,
    address: SocketAddr,
}

impl Lane {
    fn open(mut driver: Box<dyn Driver>, group: &Group, lane: usize, transport: Transport, address: SocketAddr) -> Self {
        let mut entry = group.entry(lane).unwrap();
        let (share_port, v6_only, stream) = (true, false, StreamOptions::default());
        let bind =
            Bind { address: address.into(), peer: None, share_port, v6_only, receive_buffer_bytes: 0, send_buffer_bytes: 0 };
        let socket = match transport {
            Transport::Tcp => driver.listen(&Listen { address: address.into(), backlog: 1024, share_port, v6_only, stream }),
            Transport::Udp => driver.bind(&bind),
        };
        let socket = socket.unwrap();
        entry.register(driver.descriptor(socket).unwrap()).unwrap();
        let op = match transport {
            Transport::Tcp => Op::Stream(StreamOp::Accept { listener: socket }),
            Transport::Udp => Op::Datagram(DatagramOp::Receive { socket, into: Datagrams::new() }),
        };
        driver.push(HANDLE, op);
        let address = driver.local_address(socket).unwrap().inet().unwrap();
        Self { driver, socket, address }
    }

    /// The flows that have come, as this end sees them.
    fn collect(&mut self) -> Vec<Tuple> {
        let mut completions = Vec::new();
        self.driver.collect(Wait::No, 64, &mut completions);
        completions.into_iter().flat_map(|completion| self.flows(completion)).collect()
    }

    fn flows(&mut self, completion: Completion) -> Vec<Tuple> {
        match completion.outcome {
            Outcome::Stream(StreamOutcome::Accepted { peer, local, .. }) => {
                vec![Tuple::new(peer.inet().unwrap(), local.inet().unwrap(), Protocol::TCP).unwrap()]
            }
            Outcome::Datagram(DatagramOutcome::Arrived { batch, .. }) => {
                let tuple = |peer: &Address| Tuple::new(peer.inet().unwrap(), self.address, Protocol::UDP).unwrap();
                let flows = batch.arrivals().iter().map(|arrival| tuple(&arrival.peer)).collect();
                self.driver.push(HANDLE, Op::Datagram(DatagramOp::Receive { socket: self.socket, into: batch }));
                flows
            }
            other => panic!("{other:?}"),
        }
    }
}

const HANDLE: Handle = Handle::new(0, 0, 0);

fn check(test: &str, make: fn(Arena) -> Result<Box<dyn Driver>, Error>) {
    on_network(test, |network| {
        let (hasher, table) = (hasher(HashTypes::ALL), even(LANES));
        for (means, transport) in [Means::Program, Means::Classic].into_iter().flat_map(|m| TRANSPORTS.map(|t| (m, t))) {
            let selector = Selector::new(means, &hasher, &table, LANES).unwrap();
            let group = selector.group(transport).unwrap();
            let mut address = SocketAddr::new(SERVER_V4.parse().unwrap(), 0);
            let mut lanes = Vec::new();
            for number in 0..LANES {
                let driver = match make(Arena::new(8 << 20).unwrap()) {
                    Ok(driver) => driver,
                    Err(error) => return skip(test, &error.to_string()),
                };
                let lane = Lane::open(driver, &group, number, transport, address);
                address = lane.address;
                lanes.push(lane);
            }
            let clients = network.clients(transport, address, FLOWS);
            // On a thread of their own: what a ring has to do on this one interrupts their calls.
            let begin_all = || clients.iter().for_each(|client| begin(client, address, &[7]));
            std::thread::scope(|scope| scope.spawn(begin_all).join().unwrap());
            let (mut found, give_up) = (0, Instant::now() + PATIENCE);
            while found < FLOWS {
                assert!(Instant::now() < give_up, "{found} flows came");
                for (number, lane) in lanes.iter_mut().enumerate() {
                    for flow in lane.collect() {
                        assert_eq!(table.lane_of(hasher.tuple(&flow).unwrap().flow), number, "{flow}");
                        found += 1;
                    }
                }
            }
        }
    });
}

#[test]
fn sockets_of_epoll_are_selected() {
    check("sockets_of_epoll_are_selected", |arena| Ok(Box::new(EpollDriver::new(arena, Tuning::default(), Probes::default())?)));
}

#[test]
fn sockets_of_uring_are_selected() {
    check("sockets_of_uring_are_selected", |arena| Ok(Box::new(UringDriver::new(arena, Tuning::default(), Probes::default())?)));
}
