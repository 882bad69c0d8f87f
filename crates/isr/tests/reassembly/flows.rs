//! Rows F-01, F-02 and F-08: what hides a flow, and where it goes once it is seen.

use super::checks::{Rig, limits};
use super::parts::{BOTH, IsV6, V4, in_front, v4_header};
use corelane_isr::reassembly::Memory;
use corelane_rss::{FlowHasher, HashType, HashTypes, Key, Verdict};
use corelane_wire::packet::checksum::Addresses;
use corelane_wire::packet::{EtherType, Network, Packet, Protocol, ethernet, gre, udp, vxlan};

fn hasher(types: HashTypes) -> FlowHasher {
    FlowHasher::new(&Key::MICROSOFT, types)
}

fn computed(verdict: Verdict) -> (u32, HashType) {
    match verdict {
        Verdict::Computed(hashed) => (hashed.flow.0, hashed.hash_type),
        other => panic!("{other:?}"),
    }
}

#[test]
fn f_01_all_fragments_of_a_datagram_are_hashed_by_addresses() {
    let hasher = hasher(HashTypes::ALL);
    for family in BOTH {
        let data = family.datagram(1000);
        let addresses = if family.0 { HashType::Ipv6 } else { HashType::Ipv4 };
        let hashes = family.parts(1, &data, 256).into_iter().map(|part| computed(hasher.packet(&part, None)));
        let hashes: Vec<_> = hashes.collect();
        assert!(hashes.iter().all(|hash| *hash == hashes[0] && hash.1 == addresses), "{hashes:?}");
        assert_ne!(computed(hasher.packet(&family.whole(1, &data), None)), hashes[0], "other than whole datagrams, with ports");
    }
}

#[test]
fn f_02_a_reassembled_datagram_has_the_hash_of_a_whole_one() {
    for (types, with_ports) in [(HashTypes::ALL, true), (HashTypes::DEFAULT, false)] {
        let hasher = hasher(types);
        for family in BOTH {
            let data = family.datagram(1000);
            let mut rig = Rig::new(limits());
            let parts = family.parts(1, &data, 256);
            let arrived = computed(hasher.packet(&parts[0], None));
            rig.all(&parts);
            let whole = computed(hasher.packet(&family.whole(1, &data), None));
            // The first piece has all that is hashed.
            let first = rig.pieces[0].bytes();
            assert_eq!(computed(hasher.packet(first, None)), whole);
            let again = hasher.packet(first, Some(arrived.1));
            match with_ports {
                true => assert_eq!(computed(again), whole, "the fragments' hash is of another type"),
                false => assert_eq!(again, Verdict::Keep(arrived.1), "the fragments' hash is the datagram's, and is kept"),
            }
        }
    }
}

#[test]
fn f_08_the_inner_packet_of_a_tunnel_has_the_hash_of_its_own_flow() {
    let hasher = hasher(HashTypes::ALL);
    let outer = |protocol, behind: &[u8]| in_front(behind, |to| v4_header(1, protocol).emit(behind.len(), to));
    for family in BOTH {
        let inner = family.whole(1, &family.datagram(100));
        let wanted = computed(hasher.packet(&inner, None));
        let protocol = if family.0 { EtherType::IPV6 } else { EtherType::IPV4 };
        let header = gre::Header { has_checksum: true, key: Some(7), sequence: None, protocol };
        let routed = in_front(&inner, |to| header.emit(&inner, to));
        let mac = ethernet::Mac::BROADCAST;
        let bridged = in_front(&inner, |to| ethernet::Header { destination: mac, source: mac, protocol }.emit(to));
        let bridged = in_front(&bridged, |to| vxlan::Header { network: vxlan::Network::new(5)? }.emit(to));
        let addresses = v4_header(1, Protocol::UDP).addresses();
        let bridged = in_front(&bridged, |to| udp::Header { source: 1, destination: vxlan::PORT }.emit(&addresses, &bridged, to));
        let tunnels = [
            outer(if family.0 { Protocol::IPV6 } else { Protocol::IPV4 }, &inner),
            outer(Protocol::GRE, &routed),
            outer(Protocol::UDP, &bridged),
        ];
        for (number, bytes) in tunnels.iter().enumerate() {
            assert_ne!(computed(hasher.packet(bytes, None)), wanted, "the tunnel hides the flow");
            let packet = Packet::of_network(EtherType::IPV4, bytes).unwrap();
            let (_, opened) = packet.inner().unwrap().unwrap();
            let bytes = match opened.network {
                Network::V4(view) => view.bytes(),
                Network::V6(view, _) => view.bytes(),
                _ => unreachable!(),
            };
            assert_eq!(computed(hasher.packet(bytes, None)), wanted, "tunnel {number}");
        }
    }
}

#[test]
fn f_08_a_tunnel_in_fragments_is_opened_once_it_is_whole() {
    let hasher = hasher(HashTypes::ALL);
    let inner = IsV6(true).whole(1, &IsV6(true).datagram(400));
    let parts = (0..inner.len()).step_by(128).map(|start| {
        let end = inner.len().min(start + 128);
        super::parts::v4_part(v4_header(4, Protocol::IPV6), &inner, start, end, end < inner.len())
    });
    let parts: Vec<_> = parts.collect();
    let mut rig = Rig::new(limits());
    let whole = rig.all(&parts);
    let packet = Packet::of_network(EtherType::IPV4, &whole).unwrap();
    let flow = packet.flow().unwrap();
    assert_eq!(flow.addresses, Addresses::V4 { source: V4[0], destination: V4[1] });
    let (_, opened) = packet.inner().unwrap().unwrap();
    assert_eq!(computed(hasher.packet(&inner, None)).1, HashType::Udp6);
    assert_eq!(opened.flow().unwrap().protocol, Protocol::UDP);
}
