//! Every flow reaches the lane that its bucket names.

use crate::group::{FLOWS, Lanes, TRANSPORTS, even, hasher, other};
use crate::network::{Network, Rights, SERVER_V4, SERVER_V6, on_network};
use crate::sockets::set;
use corelane_rss::{HashTypes, Table, Transport};
use corelane_select::{Error, holders};
use corelane_select::{Means, Selector, probe};
use std::net::{Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

const LANES: usize = 5;

fn addresses() -> [SocketAddr; 2] {
    [SERVER_V4, SERVER_V6].map(|address| SocketAddr::new(address.parse().unwrap(), 0))
}

/// TCP and UDP, IPv4 and IPv6, by two tables.
fn all_flows_by_two_tables(means: Means, rights: Rights, test: &str) {
    on_network(test, |network| {
        // Nobody may enter a namespace again later: all clients are made before.
        let clients = |transport, to| [(); 2].map(|()| network.clients(transport, to, FLOWS));
        let clients = TRANSPORTS.map(|transport| addresses().map(|to| clients(transport, to)));
        rights.take();
        probe(means).unwrap();
        holders::probe().unwrap();
        let hasher = hasher(HashTypes::ALL);
        for (transport, clients) in TRANSPORTS.into_iter().zip(clients) {
            for (address, [first, second]) in addresses().into_iter().zip(clients) {
                let selector = Selector::new(means, &hasher, &even(LANES), LANES).unwrap();
                let lanes = Lanes::open(&selector, transport, address, LANES);
                let _open = lanes.check(first, lanes.address(), &hasher, &even(LANES));
                selector.rewrite(&other(LANES)).unwrap();
                lanes.group.refresh(lanes.any()).unwrap();
                let _open = lanes.check(second, lanes.address(), &hasher, &other(LANES));
                assert_all_counted(&selector, 2 * FLOWS as u64);
            }
        }
    });
}

fn assert_all_counted(selector: &Selector, flows: u64) {
    match selector.counts().unwrap() {
        None => assert_eq!(selector.means(), Means::Classic),
        Some(counts) => {
            assert_eq!(counts.lanes.iter().map(|lane| lane.selected()).sum::<u64>(), flows);
            assert_eq!((counts.left.selected(), counts.left.migrations), (0, 0));
        }
    }
}

#[test]
fn a_program_of_root_selects() {
    all_flows_by_two_tables(Means::Program, Rights::Root, "a_program_of_root_selects");
}

#[test]
fn a_program_of_a_user_with_one_capability_selects() {
    all_flows_by_two_tables(Means::Program, Rights::BpfAlone, "a_program_of_a_user_with_one_capability_selects");
}

#[test]
fn a_classic_program_of_an_ordinary_user_selects() {
    all_flows_by_two_tables(Means::Classic, Rights::None, "a_classic_program_of_an_ordinary_user_selects");
}

#[test]
fn without_the_capability_the_other_means_is_named() {
    on_network("without_the_capability_the_other_means_is_named", |_| {
        Rights::None.take();
        let error = probe(Means::Program).unwrap_err();
        assert!(matches!(error, Error::BpfForbidden { .. }), "{error:?}");
        assert!(error.to_string().contains("classic") && error.to_string().contains("CAP_BPF"), "{error}");
        assert_eq!(probe(Means::Classic), Ok(()));
    });
}

/// A check by both means, as root, at the server's wildcard address, which takes both families.
fn at_wildcard(
    test: &str,
    transports: &[Transport],
    types: HashTypes,
    flows: impl Fn(&Network, &Lanes, SocketAddr, &Table) + Sync,
) {
    on_network(test, |network| {
        for means in [Means::Program, Means::Classic] {
            let selector = Selector::new(means, &hasher(types), &even(LANES), LANES).unwrap();
            for transport in transports {
                let lanes = Lanes::open(&selector, *transport, SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)), LANES);
                for mut to in addresses() {
                    to.set_port(lanes.address().port());
                    flows(network, &lanes, to, &even(LANES));
                }
            }
        }
    });
}

/// What comes by IPv4 to a socket of IPv6 has addresses of IPv4.
#[test]
fn a_wildcard_takes_both_families() {
    at_wildcard("a_wildcard_takes_both_families", &TRANSPORTS, HashTypes::ALL, |network, lanes, to, table| {
        lanes.check_new(network, to, &hasher(HashTypes::ALL), table);
    });
}

/// The default: fragments carry no ports, so datagrams are hashed by addresses.
#[test]
fn datagrams_may_be_hashed_by_addresses() {
    let test = "datagrams_may_be_hashed_by_addresses";
    at_wildcard(test, &TRANSPORTS, HashTypes::DEFAULT, |network, lanes, to, table| {
        lanes.check_new(network, to, &hasher(HashTypes::DEFAULT), table);
    });
}

/// IP options, and extension headers of several kinds: the ports stand behind them.
#[test]
fn headers_with_options_are_read() {
    at_wildcard("headers_with_options_are_read", &TRANSPORTS, HashTypes::ALL, |network, lanes, to, table| {
        let transport = if lanes.sockets[&0].is_tcp() { Transport::Tcp } else { Transport::Udp };
        let clients = network.clients(transport, to, FLOWS);
        clients.iter().zip(0..).for_each(|(client, which)| with_options(client, to.is_ipv4(), which));
        lanes.check(clients, to, &hasher(HashTypes::ALL), table);
    });
}

fn with_options(client: &OwnedFd, v4: bool, which: usize) {
    if v4 {
        // So many "no operation" (RFC 791, 3.1): a header of up to 60 bytes.
        return set(client.as_fd(), libc::IPPROTO_IP, libc::IP_OPTIONS, &[1; 40][..4 * (which % 11)]);
    }
    // A header of 8 or 16 bytes, filled with one option that who does not know it skips (RFC 8200, 4.2).
    let short: &[u8] = &[0, 0, 0x1e, 4, 0, 0, 0, 0];
    let long: &[u8] = &[0, 1, 0x1e, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let header = if which & 4 == 0 { short } else { long };
    if which & 1 != 0 {
        set(client.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_HOPOPTS, header);
    }
    if which & 2 != 0 {
        set(client.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_DSTOPTS, header);
    }
}

/// The wire takes 1,500 bytes: these come in fragments, and are put together before.
#[test]
fn fragments_are_selected_whole() {
    at_wildcard("fragments_are_selected_whole", &[Transport::Udp], HashTypes::ALL, |network, lanes, to, table| {
        let clients = network.clients(Transport::Udp, to, FLOWS);
        lanes.check_of(clients, to, &[3; 5_000], &hasher(HashTypes::ALL), table);
    });
}

#[test]
fn several_services_share_one_table() {
    on_network("several_services_share_one_table", |network| {
        let hasher = hasher(HashTypes::ALL);
        for means in [Means::Program, Means::Classic] {
            let selector = Selector::new(means, &hasher, &even(LANES), LANES).unwrap();
            let places = addresses().into_iter().flat_map(|address| TRANSPORTS.map(|transport| (address, transport)));
            let groups: Vec<Lanes> = places.map(|(to, transport)| Lanes::open(&selector, transport, to, LANES)).collect();
            for table in [even(LANES), other(LANES)] {
                selector.rewrite(&table).unwrap();
                for lanes in &groups {
                    lanes.group.refresh(lanes.any()).unwrap();
                    lanes.check_new(network, lanes.address(), &hasher, &table);
                }
            }
            assert_all_counted(&selector, 8 * FLOWS as u64);
        }
    });
}

#[test]
fn as_many_lanes_as_there_may_be() {
    on_network("as_many_lanes_as_there_may_be", |network| {
        let hasher = hasher(HashTypes::ALL);
        let buckets = corelane_rss::Buckets::new(1_024).unwrap();
        let table = Table::even(buckets, 256).unwrap();
        for (means, transport) in [(Means::Program, Transport::Tcp), (Means::Classic, Transport::Udp)] {
            let selector = Selector::new(means, &hasher, &table, 256).unwrap();
            let lanes = Lanes::open(&selector, transport, addresses()[0], 256);
            lanes.check_new(network, lanes.address(), &hasher, &table);
            assert_all_counted(&selector, FLOWS as u64);
        }
    });
}
