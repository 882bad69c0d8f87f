//! Interfaces for tests, and packets.

use crate::node::{Node, memory};
use corelane_os::testing::network::{ip, on_thread, unshared_and_quiet};
use corelane_os::testing::skip;
use corelane_seam::FrameMemory;
use corelane_xdp::packet;
use std::net::{Ipv4Addr, Ipv6Addr};

pub const NEAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub const FAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// An address of the kernel's, at the near end.
pub const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
/// One of ours, at the same end.
pub const OURS: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
/// The far end.
pub const FAR: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 77);

/// Runs a test in an empty namespace of its own, unless this machine cannot.
pub fn on_network(test: &str, body: impl FnOnce() + Send) {
    on_thread(test, || match unshared_and_quiet() {
        Ok(_) => body(),
        Err(why) => skip(test, &why),
    });
}

pub fn run(lines: &[&str]) {
    ip(&lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>()).unwrap();
}

/// A wire between `near`, where the kernel has an address, and `far`, which the test uses.
pub fn wire(queues: usize) {
    let link = format!(
        "link add near address 02:00:00:00:00:01 numrxqueues {queues} numtxqueues {queues} type veth peer name far address \
         02:00:00:00:00:02 numrxqueues {queues} numtxqueues {queues}"
    );
    let neighbour = format!("neigh add {FAR} lladdr 02:00:00:00:00:02 dev near nud permanent");
    let address = format!("addr add {KERNEL}/24 dev near");
    run(&[&link, &address, "link set near up", "link set far up", &neighbour]);
}

/// The far end, by a packet socket.
pub fn far() -> Node {
    far_with(memory())
}

/// The same, with other memory.
pub fn far_with(memory: FrameMemory) -> Node {
    Node::new(packet::open("far", 1).unwrap().remove(0).port(memory.clone()).unwrap(), memory)
}

pub fn sum(bytes: &[u8]) -> [u8; 2] {
    let mut total: u32 = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum();
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    (!(total as u16)).to_be_bytes()
}

fn ethernet(kind: u16) -> Vec<u8> {
    [&NEAR_MAC[..], &FAR_MAC, &kind.to_be_bytes()].concat()
}

/// A packet of IPv4 with so many bytes of options, from the far end.
pub fn ipv4(to: Ipv4Addr, protocol: u8, fragment: u16, options: usize, payload: &[u8]) -> Vec<u8> {
    assert!(options.is_multiple_of(4) && options <= 40);
    let header_bytes = 20 + options;
    let mut header = vec![0x40 | (header_bytes / 4) as u8, 0];
    header.extend(((header_bytes + payload.len()) as u16).to_be_bytes());
    header.extend([0, 1]);
    header.extend(fragment.to_be_bytes());
    header.extend([64, protocol, 0, 0]);
    header.extend(FAR.octets());
    header.extend(to.octets());
    header.resize(header_bytes, 1);
    let checksum = sum(&header);
    header[10..12].copy_from_slice(&checksum);
    [ethernet(0x0800), header, payload.to_vec()].concat()
}

/// UDP without a checksum.
pub fn udp(ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let words = [ports.0, ports.1, 8 + payload.len() as u16, 0];
    [words.iter().flat_map(|word| word.to_be_bytes()).collect(), payload.to_vec()].concat()
}

pub fn datagram(to: Ipv4Addr, port: u16, payload: &[u8]) -> Vec<u8> {
    ipv4(to, 17, 0, 0, &udp((7777, port), payload))
}

/// An ICMP echo request.
pub fn ping(to: Ipv4Addr) -> Vec<u8> {
    let mut request = vec![8, 0, 0, 0, 0, 7, 0, 1, b'p', b'i', b'n', b'g'];
    let checksum = sum(&request);
    request[2..4].copy_from_slice(&checksum);
    ipv4(to, 1, 0, 0, &request)
}

/// Who has this address?
pub fn arp(for_address: Ipv4Addr) -> Vec<u8> {
    let mut packet = [&[0xff; 6][..], &FAR_MAC, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &FAR_MAC, &FAR.octets()].concat();
    packet.extend([0; 6]);
    packet.extend(for_address.octets());
    packet.resize(60, 0);
    packet
}

pub const OURS_V6: Ipv6Addr = Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 2);
pub const FAR_V6: Ipv6Addr = Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 0x77);

/// A packet of IPv6, from the far end.
pub fn ipv6(to: Ipv6Addr, next: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u16).to_be_bytes();
    [
        ethernet(0x86dd),
        vec![0x60, 0, 0, 0],
        length.to_vec(),
        vec![next, 255],
        FAR_V6.octets().into(),
        to.octets().into(),
        payload.into(),
    ]
    .concat()
}

/// Who has this address? It is asked of the group that its last three bytes name (RFC 4861, 4.3).
pub fn solicitation(target: Ipv6Addr) -> Vec<u8> {
    let [.., a, b, c] = target.octets();
    let group = Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c]);
    ipv6(group, 58, &[&[135, 0, 0, 0, 0, 0, 0, 0][..], &target.octets(), &[1, 1], &FAR_MAC].concat())
}
