//! The published vectors, those of the original's author, and the rules of the original.

use std::net::{IpAddr, SocketAddr};

use corelane_rss::{Buckets, FlowId, FlowPlan, HashType, HashTypes, Key, Protocol, Toeplitz, Tuple, Verdict, bitwise};

use crate::common::{fragment_v6, hasher, input, packet_v4, packet_v6, ports_header, rows, tuple};

const TOEPLITZ: &str = include_str!("../data/toeplitz.tsv");

fn flow(hex: &str) -> FlowId {
    FlowId(u32::from_str_radix(hex, 16).unwrap())
}

fn vectors() -> impl Iterator<Item = (Tuple, FlowId, Option<FlowId>)> {
    rows(TOEPLITZ).map(|row| {
        let [source, sport, destination, dport, with_addresses, with_ports, _] = row[..] else { panic!("{row:?}") };
        let end = |address: &str, port: &str| SocketAddr::new(address.parse().unwrap(), port.parse().unwrap_or(0));
        let tuple = Tuple::new(end(source, sport), end(destination, dport), Protocol::TCP).unwrap();
        (tuple, flow(with_addresses), (!with_ports.is_empty()).then(|| flow(with_ports)))
    })
}

#[test]
fn every_form_gives_the_published_hashes() {
    let toeplitz = Toeplitz::new(&Key::MICROSOFT);
    assert_eq!(vectors().count(), 17);
    for (tuple, with_addresses, with_ports) in vectors() {
        for (expected, ports) in [(Some(with_addresses), false), (with_ports, true)] {
            let Some(expected) = expected else { continue };
            assert_eq!(bitwise(&Key::MICROSOFT, &input(&tuple, ports)), expected, "{tuple}");
            assert_eq!(toeplitz.hash(&input(&tuple, ports)), expected, "{tuple}");
            let types = if ports { HashTypes::DEFAULT } else { HashTypes::from_mask(0x0a).unwrap() };
            assert_eq!(hasher(types).tuple(&tuple).unwrap().flow, expected, "{tuple}");
        }
        let mut flows = [FlowId::default()];
        match (tuple.source(), tuple.destination()) {
            (SocketAddr::V4(remote), SocketAddr::V4(local)) => toeplitz.batch_v4(local, &[remote], &mut flows),
            (SocketAddr::V6(remote), SocketAddr::V6(local)) => toeplitz.batch_v6(&local, &[remote], &mut flows),
            _ => panic!("{tuple}"),
        }
        assert!(with_ports.is_none_or(|expected| flows == [expected]), "{tuple}");
    }
}

#[test]
fn the_eight_clients_of_the_original_plan_take_the_eight_buckets() {
    let by_addresses = hasher(HashTypes::DEFAULT);
    let buckets = Buckets::new(8).unwrap();
    let client = |host: u8| tuple(&format!("10.11.2.{host}:1000"), "10.11.2.1:8080", Protocol::UDP);
    let bucket = |tuple: &Tuple| Some(buckets.of(by_addresses.tuple(tuple)?.flow).index());
    let hosts = [3, 2, 32, 33, 64, 65, 17, 18];
    let found: Vec<_> = hosts.iter().map(|host| bucket(&client(*host)).unwrap()).collect();
    assert_eq!(found, [0, 1, 2, 3, 4, 5, 6, 7]);

    let plan = FlowPlan::cover(0..8, hosts.map(client), bucket).unwrap();
    let planned: Vec<_> = plan.iter().map(|(bucket, tuple)| (bucket, tuple.source().ip())).collect();
    let expected = hosts.map(|host| IpAddr::from([10, 11, 2, host]));
    assert_eq!(planned, expected.into_iter().enumerate().collect::<Vec<_>>());
}

#[test]
fn the_reverse_direction_has_its_own_hash() {
    let by_addresses = hasher(HashTypes::DEFAULT);
    let reverse = [(3, 0xcb96_f977), (2, 0xeb25_6be9), (32, 0x7279_3e32), (33, 0x52ca_acac), (4, 0x3350_4601)];
    for (host, expected) in reverse {
        let tuple = tuple(&format!("10.11.2.{host}:0"), "10.11.2.1:0", Protocol::UDP);
        assert_eq!(by_addresses.transmit(&tuple).unwrap().flow, FlowId(expected));
        assert_eq!(by_addresses.tuple(&tuple.reversed()).unwrap().flow, FlowId(expected));
    }
}

#[test]
fn the_automatic_number_of_buckets_is_the_originals() {
    let mut cpus = 0;
    for row in rows(include_str!("../data/bits-buckets.tsv")) {
        let [count, bits, buckets, mask] = row[..] else { panic!("{row:?}") };
        cpus += 1;
        assert_eq!(count, cpus.to_string());
        let automatic = Buckets::automatic(cpus);
        assert_eq!(
            [automatic.bits().to_string(), automatic.count().to_string(), automatic.mask().to_string()],
            [bits, buckets, mask]
        );
    }
    assert_eq!(cpus, 256);
    assert_eq!(Buckets::automatic(0).count(), 1);
    assert_eq!(Buckets::automatic(usize::MAX).count(), 128);
}

#[test]
fn the_log_of_the_misrouting_device_is_told_apart() {
    let queues = Buckets::new(4).unwrap();
    let log = include_str!("../data/misrouted-queue-log.tsv");
    let mut strays = 0;
    for row in rows(log) {
        let [flow_id, seen, expected] = row[..] else { panic!("{row:?}") };
        let right = queues.of(flow(flow_id.trim_start_matches("0x"))).index();
        assert_eq!(right.to_string(), expected);
        strays += usize::from(right.to_string() != seen);
    }
    assert_eq!(strays, rows(log).count());
    assert!(strays > 0);
}

/// The packet that a row of the rule describes.
fn packet(description: &str) -> Vec<u8> {
    let (kind, rest) = description.split_once(' ').unwrap();
    let (protocol, header) = match &kind[..kind.len() - 1] {
        "tcp" => (6, ports_header([2794, 1766], 20)),
        "udp" => (17, ports_header([2794, 1766], 8)),
        "sctp" => (132, ports_header([2794, 1766], 12)),
        other => panic!("{other}"),
    };
    let v4 = ["66.9.149.187", "161.142.100.80"].map(|address| address.parse().unwrap());
    let v6 = ["3ffe:2501:200:1fff::7", "3ffe:2501:200:3::1"].map(|address| address.parse().unwrap());
    match (kind.ends_with('4'), rest) {
        (true, "whole") => packet_v4(v4, protocol, 0, 0x4000, &header),
        (true, "fragment") => packet_v4(v4, protocol, 0, 0x2000, &header),
        (true, "header cut short") => packet_v4(v4, protocol, 0, 0, &header[..header.len() - 1]),
        (false, "whole") => packet_v6(v6, protocol, &[], &header),
        (false, "fragment") => packet_v6(v6, protocol, &[fragment_v6(0, true)], &header),
        (false, "atomic fragment") => packet_v6(v6, protocol, &[fragment_v6(0, false)], &header),
        (_, other) => panic!("{other}"),
    }
}

#[test]
fn hashes_are_kept_computed_or_impossible_by_the_originals_rule() {
    let rule = include_str!("../data/hash-keep-rule.tsv");
    assert_eq!(rows(rule).count(), 18);
    for row in rows(rule) {
        let [description, mask, present, result, after] = row[..] else { panic!("{row:?}") };
        let mask = u32::from_str_radix(mask.trim_start_matches("0x"), 16).unwrap();
        let hasher = hasher(HashTypes::from_mask(mask).unwrap());
        let verdict = hasher.packet(&packet(description), present.parse().ok());
        let (found, hash_type) = match verdict {
            Verdict::Keep(hash_type) => ("keep", Some(hash_type)),
            Verdict::Computed(hashed) => ("compute", Some(hashed.hash_type)),
            Verdict::Cannot(_) => ("cannot", None),
        };
        assert_eq!((found, hash_type.map_or("none", HashType::name)), (result, after), "{row:?}");
        if let Verdict::Computed(hashed) = verdict {
            let expected = match hashed.hash_type {
                HashType::Ipv4 => 0x323e_8fc2,
                HashType::Tcp4 | HashType::Udp4 => 0x51cc_c178,
                HashType::Ipv6 => 0x2cc1_8cd5,
                HashType::Tcp6 => 0x4020_7d3d,
                other => panic!("{other}"),
            };
            assert_eq!(hashed.flow, FlowId(expected), "{row:?}");
        }
    }
}
