//! Row C-03: packets go into the channel that a filter names; a miss goes to the lane's own sockets.

use crate::frames::{STACK, STACK_V6, TEST, TEST_V6, echo, solicitation, udp_in};
use crate::lanes::{ADDRESSES, flow, hear, mac, meet, payload, plan};
use crate::presence::query;
use crate::program::{Card, Plan, Program};
use corelane_channel::{Consumer, HandedMemory, PACKET_BYTES_MAX, ring};
use corelane_sim::{WireFaults, for_seeds};
use corelane_stack::{Drop, Filter, FilterEnd, Policy, Target};
use corelane_wire::packet::{EtherType, Packet, UpperLayer};
use std::collections::BTreeMap;
use std::net::{Ipv6Addr, SocketAddr};

const UDP: u8 = 17;

fn exact(from: SocketAddr, to: SocketAddr) -> Filter {
    Filter { protocol: UDP, source: FilterEnd::exact(from), destination: FilterEnd::exact(to) }
}

/// Opens a channel of this number on all lanes; its consumers, by lane.
fn open(program: &mut Program, number: u64, filter: Filter, slots: usize) -> Vec<Consumer> {
    let rings: Vec<HandedMemory> = program.lanes.iter().map(|_| ring(slots).unwrap().0).collect();
    for (lane, ring) in rings.iter().enumerate() {
        program.tell.tell(lane, Policy::OpenChannel(number, filter, Target::Ring(ring.clone()))).unwrap();
    }
    program.pass(1_000_000);
    rings.into_iter().map(|ring| Consumer::new(ring).unwrap()).collect()
}

/// What the consumers find: the numbers of each flow in order, each packet walked and its checksum looked at in their own context.
fn consume(consumers: &mut [Consumer], found: &mut BTreeMap<u16, Vec<u32>>) {
    let mut bytes = [0; PACKET_BYTES_MAX];
    for consumer in consumers {
        while let Some(length) = consumer.take(&mut bytes).unwrap() {
            let kind = if bytes[0] >> 4 == 6 { EtherType::IPV6 } else { EtherType::IPV4 };
            let packet = Packet::of_network(kind, &bytes[..length]).unwrap();
            let UpperLayer::Udp(view) = packet.transport else { panic!("{packet:?}") };
            assert!(view.is_checksum_right(&packet.flow().unwrap().addresses), "the packet as it came");
            let number = u32::from_be_bytes(*view.payload().first_chunk().unwrap());
            found.entry(view.header().source - 2000).or_default().push(number);
        }
    }
}

/// Sends number `number` of 8 flows, every third in fragments.
fn send(program: &mut Program, number: u32) {
    let mac = mac(program);
    for source in 0..8 {
        let (from, to) = flow(source, source % 2 == 1);
        let part = if number.is_multiple_of(3) { 496 } else { 1472 };
        let frames = udp_in(mac, from, to, &payload(number, 1200), part, (number * 8) as u16 + source);
        frames.iter().for_each(|frame| program.test.send(frame));
    }
    program.pass(2_000_000);
}

#[test]
fn c_03_a_flow_goes_into_its_channel_and_all_others_to_the_default() {
    for card in [Card::Aligned, Card::Plain] {
        let mut program = Program::new(&Plan { card, ..plan(4, 3) }, &ADDRESSES);
        meet(&mut program);
        let (mut heard, mut found) = (BTreeMap::new(), BTreeMap::new());
        let (from, to) = flow(3, true);
        let mut consumers = open(&mut program, 1, exact(from, to), 64);
        for number in 0..20 {
            send(&mut program, number);
            hear(&mut program, &mut heard);
            consume(&mut consumers, &mut found);
        }
        let all: Vec<u32> = (0..20).collect();
        assert_eq!(found, BTreeMap::from([(3, all.clone())]));
        assert!(heard.len() == 7 && heard.values().all(|numbers| *numbers == all), "{heard:?}");
        let counts: Vec<_> = (0..4).map(|lane| program.counts(lane)).collect();
        assert_eq!(counts.iter().map(|counts| counts.channelled).sum::<u64>(), 20);
        assert_eq!(counts.iter().filter(|counts| counts.channelled > 0).count(), 1, "one lane is its producer");
        program.close();
    }
}

#[test]
fn c_03_masks_match_networks_and_ports_behind_what_is_exact() {
    let mut program = Program::new(&plan(2, 4), &ADDRESSES);
    meet(&mut program);
    let (mut heard, mut wide, mut narrow) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let network = |ip, bits| FilterEnd { network: Some((ip, bits)), port: None };
    let all_v4 = Filter {
        protocol: UDP,
        source: network(TEST.into(), 24),
        destination: FilterEnd { port: Some(60_007), ..FilterEnd::default() },
    };
    let mut of_network = open(&mut program, 1, all_v4, 64);
    let (from, to) = flow(4, false);
    let mut of_flow = open(&mut program, 2, exact(from, to), 64);
    // None of these matches: another network, another port, another protocol.
    let other = Filter { protocol: UDP, source: network("10.1.0.0".parse().unwrap(), 16), destination: FilterEnd::default() };
    let port = Filter {
        protocol: UDP,
        source: FilterEnd { port: Some(9), ..FilterEnd::default() },
        destination: network(STACK_V6.into(), 64),
    };
    let tcp = Filter { protocol: 6, source: network(TEST_V6.into(), 0), destination: network(STACK.into(), 0) };
    let mut nothing: Vec<Consumer> = [(3, other), (4, port), (5, tcp)]
        .into_iter()
        .flat_map(|(number, filter)| open(&mut program, number, filter, 64))
        .collect();
    for number in 0..12 {
        send(&mut program, number);
        hear(&mut program, &mut heard);
        consume(&mut of_network, &mut wide);
        consume(&mut of_flow, &mut narrow);
    }
    assert!(wide.keys().eq(&[0, 2, 6]) && narrow.keys().eq(&[4]), "{wide:?} {narrow:?}");
    assert!(heard.keys().all(|(_, v6)| *v6) && heard.len() == 4, "{heard:?}");
    consume(&mut nothing, &mut BTreeMap::new());
    assert!(nothing.iter().all(|consumer| consumer.dropped() == 0));
    program.close();
}

#[test]
fn c_03_a_full_channel_drops_and_counts_and_one_that_is_taken_away_leaves_the_default() {
    let mut program = Program::new(&plan(2, 6), &ADDRESSES);
    meet(&mut program);
    let (mut heard, mut found) = (BTreeMap::new(), BTreeMap::new());
    let (from, to) = flow(2, false);
    // Nobody takes anything out.
    let mut consumers = open(&mut program, 9, exact(from, to), 8);
    for number in 0..20 {
        send(&mut program, number);
        hear(&mut program, &mut heard);
    }
    let dropped: u64 = (0..2).map(|lane| program.counts(lane).of(Drop::Channel)).sum();
    assert_eq!((dropped, consumers.iter().map(Consumer::dropped).sum::<u64>()), (12, 12));
    assert!(heard.len() == 7 && heard.values().all(|numbers| numbers.len() == 20), "others are as ever: {heard:?}");
    (0..2).for_each(|lane| program.tell.tell(lane, Policy::CloseChannel(9)).unwrap());
    program.pass(1_000_000);
    send(&mut program, 20);
    hear(&mut program, &mut heard);
    assert_eq!(heard[&(2, false)], [20]);
    consume(&mut consumers, &mut found);
    assert_eq!(found[&2], (0..8).collect::<Vec<_>>());
    assert!(consumers.iter().all(Consumer::has_ended), "the consumer learns it");
    program.close();
}

#[test]
fn c_03_x_10_x_11_a_channel_of_a_lane_has_that_lane_do_the_work() {
    let mut program = Program::new(&Plan { card: Card::Scattered, ..plan(4, 8) }, &ADDRESSES);
    meet(&mut program);
    let all = Filter { protocol: UDP, source: FilterEnd::default(), destination: FilterEnd::default() };
    (0..4).for_each(|lane| program.tell.tell(lane, Policy::OpenChannel(1, all, Target::Lane(2))).unwrap());
    program.pass(1_000_000);
    let mut heard = BTreeMap::new();
    for number in 0..30 {
        send(&mut program, number);
        hear(&mut program, &mut heard);
    }
    program.pass(20_000_000);
    hear(&mut program, &mut heard);
    assert!(heard.len() == 8 && heard.values().all(|numbers| numbers.len() == 30), "{heard:?}");
    let served: Vec<u64> = (0..4).map(|lane| program.counts(lane).datagrams_in).collect();
    assert_eq!(served, [0, 0, 240, 0]);
    program.close();
}

/// Wires and drivers at their worst: what comes into channels is in order and of its flow, and all memory comes home.
#[test]
fn c_03_channels_on_bad_wires_end_clean() {
    let mut taken = 0;
    for_seeds(10, |seed| {
        let wire = WireFaults { down: 2, ..WireFaults::all(60) };
        let card = [Card::Aligned, Card::Scattered, Card::Plain][seed as usize % 3];
        let mut program = Program::new(&Plan { card, wire, ..plan(1 + seed as usize % 4, seed) }, &ADDRESSES);
        meet(&mut program);
        let (from, to) = flow(2, false);
        let mut consumers = open(&mut program, 1, exact(from, to), 16);
        let mut bytes = [0; PACKET_BYTES_MAX];
        for number in 0..40 {
            send(&mut program, number);
            for consumer in &mut consumers {
                while consumer.take(&mut bytes).unwrap().is_some() {
                    taken += 1;
                }
            }
            if number == 30 {
                (0..program.lanes.len()).for_each(|lane| program.tell.tell(lane, Policy::CloseChannel(1)).unwrap());
            }
        }
        program.pass(60_000_000_000);
        program.close();
    });
    assert!(taken > 100, "{taken}");
}

/// Echoes go where the filter says; who asks for the address, or who listens, is answered by the lane, or nobody would reach it any more.
#[test]
fn c_03_a_filter_takes_no_neighbour_discovery() {
    let mut program = Program::new(&plan(1, 4), &ADDRESSES);
    meet(&mut program);
    let all = Filter { protocol: 58, source: FilterEnd::default(), destination: FilterEnd::default() };
    let mut consumers = open(&mut program, 1, all, 64);
    program.test.take();
    let mac = mac(&program);
    program.test.send(&solicitation(STACK_V6, 255));
    program.test.send(&echo(mac, true, b"anybody?", 65_528)[0]);
    program.pass(1_000_000);
    let answers = program.test.take();
    assert_eq!(answers.len(), 1, "the solicitation alone is answered");
    assert_eq!(answers[0][54], 136);
    program.test.send(&query("fe80::1".parse().unwrap(), 1, true, Ipv6Addr::UNSPECIFIED, 28));
    program.pass(1_100_000_000);
    let answers = program.test.take();
    assert_eq!(answers.iter().map(|frame| frame[62]).collect::<Vec<_>>(), [143], "and the query for listeners");
    let mut bytes = [0; PACKET_BYTES_MAX];
    assert_eq!(consumers[0].take(&mut bytes).unwrap().map(|_| bytes[40]), Some(128));
    assert_eq!(consumers[0].take(&mut bytes), Ok(None));
    program.close();
}
