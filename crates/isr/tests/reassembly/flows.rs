//! Rows F-01, F-02 and F-08: what hides a flow, and where it goes once it is seen.

use super::checks::{Became, Rig, limits};
use super::parts::{BOTH, IsV6, V4, in_front, seconds, v4_header};
use corelane_isr::dispatch::{Dispatch, Facts, Isr, Number, PacketStep, Placement, Registration};
use corelane_isr::reassembly::{Memory, Reorders};
use corelane_rss::{Buckets, FlowHasher, FlowId, HashType, HashTypes, Key, Table, Tuple, Verdict};
use corelane_wire::packet::checksum::Addresses;
use corelane_wire::packet::{EtherType, Flow, IpProtocol, Network, Packet, Ports, ethernet, gre, udp, vxlan};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

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
        let addresses = v4_header(1, IpProtocol::UDP).addresses();
        let bridged = in_front(&bridged, |to| udp::Header { source: 1, destination: vxlan::PORT }.emit(&addresses, &bridged, to));
        let tunnels = [
            outer(if family.0 { IpProtocol::IPV6 } else { IpProtocol::IPV4 }, &inner),
            outer(IpProtocol::GRE, &routed),
            outer(IpProtocol::UDP, &bridged),
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
        super::parts::v4_part(v4_header(4, IpProtocol::IPV6), &inner, start, end, end < inner.len())
    });
    let parts: Vec<_> = parts.collect();
    let mut rig = Rig::new(limits());
    let whole = rig.all(&parts);
    let packet = Packet::of_network(EtherType::IPV4, &whole).unwrap();
    let flow = packet.flow().unwrap();
    assert_eq!(flow.addresses, Addresses::V4 { source: V4[0], destination: V4[1] });
    let (_, opened) = packet.inner().unwrap().unwrap();
    assert_eq!(computed(hasher.packet(&inner, None)).1, HashType::Udp6);
    assert_eq!(opened.flow().unwrap().protocol, IpProtocol::UDP);
}

#[test]
fn f_02_fragmented_and_whole_datagrams_of_a_flow_run_on_the_same_lane() {
    const LANES: usize = 4;
    let hasher = hasher(HashTypes::ALL);
    let table = Rc::new(Table::even(Buckets::DEFAULT, LANES).unwrap());
    let (of_packet, of_table) = (hasher.clone(), table.clone());
    let choose = move |packet: &Vec<u8>| Some(of_table.lane_of(FlowId(computed(of_packet.packet(packet, None)).0)));
    for family in BOTH {
        let data = family.datagram(1000);
        let whole = family.whole(1, &data);
        let home = table.lane_of(FlowId(computed(hasher.packet(&whole, None)).0));
        let mut rig = Rig::new(limits());
        rig.all(&family.parts(1, &data, 256));
        let reassembled = rig.pieces[0].bytes().to_vec();
        for lane in 0..LANES {
            let mut isr = Isr::new(lane, LANES, Dispatch::Hybrid);
            let choose = Some(Box::new(choose.clone()) as _);
            let registration =
                Registration { placement: Placement::Lane, choose, ..Registration::new("ip_direct", Number::IP_DIRECT) };
            isr.register(registration).unwrap();
            for packet in [&whole, &reassembled] {
                match isr.arrive(Number::IP_DIRECT, packet.clone(), Facts::default()) {
                    PacketStep::Run(run) => {
                        assert_eq!(lane, home, "it runs at once where it belongs");
                        isr.finished(run.mark);
                    }
                    PacketStep::Elsewhere { lane: to, .. } => assert!(to == home && lane != home, "from {lane} to {to}"),
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

/// What a lane computes from the flow that the walk tells.
fn of_flow(hasher: &FlowHasher, flow: &Flow) -> Option<(u32, HashType)> {
    let ends: [IpAddr; 2] = match flow.addresses {
        Addresses::V4 { source, destination } => [source.into(), destination.into()],
        Addresses::V6 { source, destination } => [source.into(), destination.into()],
    };
    let (ports, protocol) = match flow.ports {
        Ports::Both(source, destination) => ([source, destination], flow.protocol.0),
        // By addresses alone, as of a protocol that has no ports.
        Ports::None => ([0, 0], 255),
        Ports::Cut => return None,
    };
    let [source, destination] = [0, 1].map(|end| SocketAddr::new(ends[end], ports[end]));
    let tuple = Tuple::new(source, destination, corelane_rss::Protocol(protocol)).ok()?;
    hasher.tuple(&tuple).map(|hashed| (hashed.flow.0, hashed.hash_type))
}

#[test]
fn the_walk_tells_the_flow_that_is_hashed() {
    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/../wire/fuzz/seeds/packet_frame");
    let frames = std::fs::read_dir(seeds).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
    let (mut hashed, mut cut, mut parts) = (0, 0, 0);
    for frame in frames {
        for types in [HashTypes::ALL, HashTypes::DEFAULT] {
            let hasher = hasher(types);
            let mut next = Packet::of_frame(&frame).ok();
            while let Some(packet) = next {
                let bytes = match packet.network {
                    Network::V4(view) => view.bytes(),
                    Network::V6(view, _) => view.bytes(),
                    _ => break,
                };
                let flow = packet.flow().unwrap();
                match of_flow(&hasher, &flow) {
                    Some(wanted) => assert_eq!(computed(hasher.packet(bytes, None)), wanted, "{packet:?}"),
                    None if flow.ports == Ports::Cut => cut += 1,
                    None => panic!("{flow:?} has no hash"),
                }
                hashed += 1;
                parts += usize::from(packet.fragment().is_some());
                next = packet.inner().unwrap().map(|(_, inner)| inner);
            }
        }
    }
    assert!(hashed > 100 && parts > 0 && cut == 0, "{hashed} hashed, {parts} fragments, {cut} cut");
}

#[test]
fn f_02_a_datagram_that_whole_ones_overtook_is_counted() {
    const FLOW: u32 = 0x51cc_c178;
    for family in BOTH {
        let parts = family.parts(1, &family.datagram(120), 64);
        let mut rig = Rig::new(limits());
        let mut reorders = Reorders::default();
        let Became::Whole(datagram) = ({
            assert_eq!(rig.at(1, &parts[0]), Became::Held);
            rig.at(3, &parts[1])
        }) else {
            panic!("both fragments are there")
        };
        assert_eq!(datagram.arrived, seconds(1), "its place is that of its first fragment");
        // A whole one came before it, one at the same time, and one between its fragments.
        assert!(!reorders.run(FLOW, seconds(0)) && !reorders.run(FLOW, seconds(1)) && !reorders.run(FLOW, seconds(2)));
        assert!(reorders.run(FLOW, datagram.arrived), "{datagram:?}");
        assert!(reorders.run(FLOW, seconds(1)), "what is late takes the place of none");
        assert!(!reorders.run(FLOW, seconds(2)) && !reorders.run(FLOW, seconds(4)));
        assert_eq!((reorders.counted(), reorders.forgotten()), (2, 0));
    }
}

#[test]
fn f_02_reorders_are_of_one_flow_and_memory_is_fixed() {
    let mut reorders = Reorders::default();
    // Flows of one bucket, as a lane has them: each has a place of its own.
    let flow = |number: u32| number << 22 | 5;
    (0..1024).for_each(|number| assert!(!reorders.run(flow(number), seconds(u64::from(2000 - number)))));
    assert_eq!((reorders.counted(), reorders.forgotten()), (0, 0), "others' arrivals do not matter");
    (0..1024).for_each(|number| assert!(reorders.run(flow(number), seconds(0))));
    assert_eq!((reorders.counted(), reorders.forgotten()), (1024, 0));
    // Another flow in the same place: the first is forgotten, and begins anew.
    assert!(!reorders.run(flow(7) | 1 << 9, seconds(0)));
    assert!(!reorders.run(flow(7), seconds(0)));
    assert_eq!((reorders.counted(), reorders.forgotten()), (1024, 2));
}

/// A packet as the registrations of row N-10 see it: what the card computed, and its bytes from the network's header on.
#[derive(Clone, Debug)]
struct Hashed {
    card: Option<u32>,
    bytes: Vec<u8>,
}

#[test]
fn n_10_ether_goes_by_the_cards_hash_and_ip_by_its_own() {
    const LANES: usize = 4;
    let table = Rc::new(Table::even(Buckets::DEFAULT, LANES).unwrap());
    let hasher = hasher(HashTypes::ALL);
    let register = |lane| {
        let mut isr = Isr::new(lane, LANES, Dispatch::Deferred);
        let add = |isr: &mut Isr<Hashed>, name, number, dispatch, choose| {
            let (placement, dispatch, choose) = (Placement::Lane, Some(dispatch), Some(choose));
            isr.register(Registration { placement, dispatch, choose, ..Registration::new(name, number) }).unwrap();
        };
        let of_card = table.clone();
        let by_card = move |packet: &Hashed| packet.card.map(|hash| of_card.lane_of(FlowId(hash)));
        add(&mut isr, "ether", Number::ETHER, Dispatch::Direct, Box::new(by_card));
        for (name, number) in [("ip", Number::IP), ("ip_direct", Number::IP_DIRECT), ("ip6_direct", Number::IP6_DIRECT)] {
            let (hasher, table) = (hasher.clone(), table.clone());
            let again = move |packet: &Hashed| Some(table.lane_of(FlowId(computed(hasher.packet(&packet.bytes, None)).0)));
            add(&mut isr, name, number, Dispatch::Hybrid, Box::new(again) as _);
        }
        isr
    };
    let rows: Vec<_> =
        register(0).protocol_rows().iter().map(|row| row.to_string().split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(rows[..2], ["ip 1 256 cpu hybrid C--", "ether 5 256 cpu direct C--"], "as the original prints them");
    for family in BOTH {
        let number = if family.0 { Number::IP6_DIRECT } else { Number::IP_DIRECT };
        let data = family.datagram(1000);
        let bytes = family.whole(1, &data);
        let home = table.lane_of(FlowId(computed(hasher.packet(&bytes, None)).0));
        for lane in 0..LANES {
            let mut isr = register(lane);
            // The card put it on this lane by a hash that says otherwise: it runs here, and is hashed again behind.
            let packet = Hashed { card: Some(home as u32 + 1), bytes: bytes.clone() };
            let PacketStep::Run(ether) = isr.arrive(Number::ETHER, packet, Facts::default()) else { panic!("direct") };
            let next = isr.arrive(number, ether.packet.clone(), Facts { flow: ether.packet.card, source: lane });
            match next {
                PacketStep::Run(run) if lane == home => isr.finished(run.mark),
                PacketStep::Elsewhere { lane: to, .. } if lane != home => assert_eq!(to, home),
                other => panic!("lane {lane}, home {home}: {other:?}"),
            }
            isr.finished(ether.mark);
            let (ether, ip) = (isr.counts(Number::ETHER).unwrap(), isr.counts(number).unwrap());
            assert_eq!((ether.dispatched, ip.hybrid), (1, u64::from(lane == home)));
        }
    }
}
