//! Lanes that come and go, and connections that nobody has accepted yet.

use crate::group::{FLOWS, Lanes, TRANSPORTS, even, hasher};
use crate::network::{SERVER_V4, SERVER_V6, on_network, sysctl};
use crate::sockets::{begin, send, set, with_address};
use corelane_rss::{HashTypes, Table, Transport};
use corelane_select::{Means, Selector};
use std::collections::BTreeSet;
use std::io::Read;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

const LANES: usize = 4;
/// The lane that goes.
const LEAVES: usize = 1;

/// The even table, with the buckets of one lane given to all others.
fn without() -> Table {
    let mut table = even(LANES);
    let mut others = (0..LANES).filter(|lane| *lane != LEAVES).cycle();
    for bucket in even(LANES).owned(LEAVES) {
        table.set(bucket, others.next().unwrap()).unwrap();
    }
    table
}

/// Where the server listens, and the address that its clients reach it at.
fn places() -> [(IpAddr, IpAddr); 3] {
    let [v4, v6] = [SERVER_V4, SERVER_V6].map(|address| address.parse::<IpAddr>().unwrap());
    [(v4, v4), (v6, v6), (Ipv6Addr::UNSPECIFIED.into(), v4)]
}

#[test]
fn lanes_leave_and_come_back() {
    on_network("lanes_leave_and_come_back", |network| {
        let hasher = hasher(HashTypes::ALL);
        for (means, transport) in [Means::Program, Means::Classic].into_iter().flat_map(|m| TRANSPORTS.map(|t| (m, t))) {
            let selector = Selector::new(means, &hasher, &even(LANES), LANES).unwrap();
            let mut lanes = Lanes::open(&selector, transport, SocketAddr::new(places()[0].0, 0), LANES);
            let address = lanes.address();
            selector.rewrite(&without()).unwrap();
            lanes.group.refresh(lanes.any()).unwrap();
            lanes.close(LEAVES);
            lanes.check_new(network, address, &hasher, &without());
            lanes.join(LEAVES, address);
            selector.rewrite(&even(LANES)).unwrap();
            lanes.group.refresh(lanes.any()).unwrap();
            lanes.check_new(network, address, &hasher, &even(LANES));
        }
    });
}

/// Its flows are left to the kernel, though its socket is still there.
#[test]
fn a_lane_that_leaves_with_its_socket_open_is_selected_no_more() {
    on_network("a_lane_that_leaves_with_its_socket_open_is_selected_no_more", |network| {
        let (hasher, table) = (hasher(HashTypes::ALL), even(LANES));
        let selector = Selector::new(Means::Program, &hasher, &table, LANES).unwrap();
        let lanes = Lanes::open(&selector, Transport::Udp, SocketAddr::new(places()[0].0, 0), LANES);
        let to = lanes.address();
        lanes.group.leave(LEAVES);
        let mut its_own = 0;
        for client in network.clients(Transport::Udp, to, FLOWS) {
            begin(&client, to, &[7]);
            its_own += u64::from(lanes.next().1.lane(&hasher, &table, to) == Some(LEAVES));
        }
        let counts = selector.counts().unwrap().unwrap();
        assert!(its_own > 0, "flows of its buckets came");
        assert_eq!((counts.left.selected(), counts.lanes[LEAVES].selected()), (its_own, 0));
    });
}

#[test]
fn connections_that_wait_move_to_the_lanes_of_their_buckets() {
    on_network("connections_that_wait_move_to_the_lanes_of_their_buckets", |network| {
        let hasher = hasher(HashTypes::ALL);
        for (address, asked) in places() {
            let selector = Selector::new(Means::Program, &hasher, &even(LANES), LANES).unwrap();
            let mut lanes = Lanes::open(&selector, Transport::Tcp, SocketAddr::new(address, 0), LANES);
            let to = SocketAddr::new(asked, lanes.address().port());
            let clients = network.clients(Transport::Tcp, to, FLOWS);
            clients.iter().for_each(|client| begin(client, to, &[7]));
            selector.rewrite(&without()).unwrap();
            lanes.close(LEAVES);
            accept_all(&lanes, &selector, to);
        }
    });
}

/// The listener waits for data before it lets a handshake end. So the clients have connected, and the server has not.
#[test]
fn handshakes_under_way_move_to_the_lanes_of_their_buckets() {
    on_network("handshakes_under_way_move_to_the_lanes_of_their_buckets", |network| {
        let hasher = hasher(HashTypes::ALL);
        for (address, asked) in places() {
            let selector = Selector::new(Means::Program, &hasher, &even(LANES), LANES).unwrap();
            let mut lanes = Lanes::open(&selector, Transport::Tcp, SocketAddr::new(address, 0), LANES);
            for socket in lanes.sockets.values() {
                set(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, &60_i32.to_ne_bytes());
            }
            let to = SocketAddr::new(asked, lanes.address().port());
            let clients = network.clients(Transport::Tcp, to, FLOWS);
            clients.iter().for_each(|client| with_address(client.as_fd(), to, libc::connect));
            assert!(lanes.sockets.values().all(|socket| socket.next().is_none()), "all wait for data");
            selector.rewrite(&without()).unwrap();
            lanes.close(LEAVES);
            clients.iter().for_each(|client| send(client, &[7]));
            accept_all(&lanes, &selector, to);
        }
    });
}

/// Those of the lane that left are where the new table says, the others where they were; none is lost, nor is what it sent.
fn accept_all(lanes: &Lanes, selector: &Selector, to: SocketAddr) {
    let hasher = hasher(HashTypes::ALL);
    let (mut peers, mut moved) = (BTreeSet::new(), 0);
    for _ in 0..FLOWS {
        let (lane, arrived) = lanes.next();
        let was = arrived.lane(&hasher, &even(LANES), to);
        let expected = if was == Some(LEAVES) { arrived.lane(&hasher, &without(), to) } else { was };
        assert_eq!(Some(lane), expected, "{}", arrived.peer);
        moved += u64::from(was == Some(LEAVES));
        let mut stream = arrived.stream.unwrap();
        let mut first = [0];
        stream.set_nonblocking(false).unwrap();
        stream.read_exact(&mut first).unwrap();
        assert!(first == [7] && peers.insert(arrived.peer));
    }
    let counts = selector.counts().unwrap().unwrap();
    assert!(moved > 0);
    assert_eq!(counts.lanes.iter().map(|lane| lane.migrations).sum::<u64>(), moved);
    assert_eq!((counts.lanes[LEAVES].migrations, counts.left.migrations), (0, 0));
}

/// A classic program is not asked where a connection moves: the kernel chooses, if it is set to.
#[test]
fn connections_that_wait_are_not_lost_with_a_classic_program() {
    on_network("connections_that_wait_are_not_lost_with_a_classic_program", |network| {
        sysctl("net/ipv4/tcp_migrate_req", "1");
        let selector = Selector::new(Means::Classic, &hasher(HashTypes::ALL), &even(LANES), LANES).unwrap();
        let mut lanes = Lanes::open(&selector, Transport::Tcp, SocketAddr::new(places()[0].0, 0), LANES);
        let to = lanes.address();
        let clients = network.clients(Transport::Tcp, to, FLOWS);
        clients.iter().for_each(|client| begin(client, to, &[7]));
        selector.rewrite(&without()).unwrap();
        lanes.group.refresh(lanes.any()).unwrap();
        lanes.close(LEAVES);
        let peers: BTreeSet<SocketAddr> = (0..FLOWS).map(|_| lanes.next().1.peer).collect();
        assert_eq!(peers.len(), FLOWS);
        lanes.check_new(network, to, &hasher(HashTypes::ALL), &without());
    });
}
