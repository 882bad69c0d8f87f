//! What the tests share: random words, tuples, tables of test data, packets.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use corelane_rss::{FlowHasher, HashTypes, Key, Protocol, Tuple};
use corelane_seam::Random;

/// Random words from a seed.
pub fn words(seed: u64) -> impl FnMut() -> u64 {
    let mut random = Random::new(seed);
    move || random.bits()
}

/// The fields of each line of a table of test data, without notes and heading.
pub fn rows(table: &str) -> impl Iterator<Item = Vec<&str>> {
    table.lines().filter(|line| !line.starts_with('#')).skip(1).map(|line| line.split('\t').collect())
}

/// The original's hasher.
pub fn hasher(types: HashTypes) -> FlowHasher {
    FlowHasher::new(&Key::MICROSOFT, types)
}

pub fn tuple(source: &str, destination: &str, protocol: Protocol) -> Tuple {
    Tuple::new(source.parse().unwrap(), destination.parse().unwrap(), protocol).unwrap()
}

/// The input of the hash, written out once more: addresses and, if wanted, ports in network byte order.
pub fn input(tuple: &Tuple, with_ports: bool) -> Vec<u8> {
    let octets = |end: SocketAddr| match end {
        SocketAddr::V4(end) => end.ip().octets().to_vec(),
        SocketAddr::V6(end) => end.ip().octets().to_vec(),
    };
    let (source, destination) = (tuple.source(), tuple.destination());
    let mut input = [octets(source), octets(destination)].concat();
    if with_ports {
        input.extend(source.port().to_be_bytes());
        input.extend(destination.port().to_be_bytes());
    }
    input
}

/// An IPv4 packet (RFC 791) with `options` bytes of options, a multiple of 4, and the 16 bits of flags and offset.
pub fn packet_v4(ends: [Ipv4Addr; 2], protocol: u8, options: usize, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(20 + options + payload.len()).unwrap();
    let mut packet = vec![0x40 | (5 + options / 4) as u8, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([0x12, 0x34]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    packet.extend(ends.iter().flat_map(Ipv4Addr::octets));
    packet.extend(vec![1; options]);
    packet.extend(payload);
    packet
}

/// An IPv6 packet (RFC 8200) with extension headers: the kind of each and its bytes without the kind of the next.
pub fn packet_v6(ends: [Ipv6Addr; 2], protocol: u8, extensions: &[(u8, Vec<u8>)], payload: &[u8]) -> Vec<u8> {
    let kinds: Vec<u8> = extensions.iter().map(|extension| extension.0).chain([protocol]).collect();
    let mut behind = Vec::new();
    for ((_, bytes), next) in extensions.iter().zip(&kinds[1..]) {
        behind.push(*next);
        behind.extend(bytes);
    }
    behind.extend(payload);
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(u16::try_from(behind.len()).unwrap().to_be_bytes());
    packet.extend([kinds[0], 64]);
    packet.extend(ends.iter().flat_map(Ipv6Addr::octets));
    packet.extend(behind);
    packet
}

/// The rest of an IPv6 fragment header behind the kind of the next.
pub fn fragment_v6(offset: u16, more: bool) -> (u8, Vec<u8>) {
    let [high, low] = (offset & !7 | u16::from(more)).to_be_bytes();
    (44, vec![0, high, low, 0, 0, 0, 9])
}

/// A TCP header, 20 bytes, or a UDP header, 8 bytes, as far as ports go.
pub fn ports_header(ports: [u16; 2], length: usize) -> Vec<u8> {
    let mut header: Vec<u8> = ports.iter().flat_map(|port| port.to_be_bytes()).collect();
    header.resize(length, 0x55);
    header
}
