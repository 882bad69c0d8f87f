//! Services on several lanes: each flow on its bucket's lane, in order, whatever policy is in force and whatever the wire does.

use crate::frames::{STACK, STACK_V6, TEST, TEST_V6, arp, datagram, solicitation, udp_in};
use crate::program::{Card, PORT, Plan, Program};
use corelane_isr::dispatch::{Dispatch, Number};
use corelane_rss::{Buckets, Table};
use corelane_sim::{Faults, Random, WireFaults, for_seeds};
use corelane_stack::{Drop, PROTOCOLS, Packets, Policy};
use corelane_watch::PacketCounter;
use corelane_wire::packet::arp::Operation;
use corelane_wire::packet::ethernet::Mac;
use corelane_wire::packet::{Packet, UpperLayer, icmp, icmpv6};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

pub const ADDRESSES: [IpAddr; 2] = [IpAddr::V4(STACK), IpAddr::V6(STACK_V6)];

pub fn plan(lanes: usize, seed: u64) -> Plan {
    let (faults, wire) = (Faults::none(), WireFaults::default());
    Plan { lanes, seed, faults, wire, card: Card::Aligned, frames: 1024, turn: 256, change: |settings| settings, heard: None }
}

/// The ends of flow `number`.
pub fn flow(number: u16, v6: bool) -> (SocketAddr, SocketAddr) {
    let (from, to) = if v6 { (IpAddr::V6(TEST_V6), IpAddr::V6(STACK_V6)) } else { (TEST.into(), STACK.into()) };
    (SocketAddr::new(from, 2000 + number), SocketAddr::new(to, PORT))
}

/// The test's machine makes itself known, as often as the wire needs it.
pub fn meet(program: &mut Program) {
    for _ in 0..20 {
        program.test.send(&arp(Operation::Request, Mac::BROADCAST, TEST, STACK));
        program.test.send(&solicitation(STACK_V6, 255));
        program.pass(1_000_000);
    }
    program.test.take();
}

/// Answers what the stack asks, and counts what came: the numbers of each flow in the order of their coming.
pub fn hear(program: &mut Program, heard: &mut BTreeMap<(u16, bool), Vec<u32>>) {
    for frame in program.test.take() {
        let packet = match corelane_wire::packet::Packet::of_frame(&frame) {
            Ok(packet) => packet,
            // What the wire has bent is no question and no answer.
            Err(_) => continue,
        };
        match packet.network {
            corelane_wire::packet::Network::Arp(message) if message.operation == Operation::Request => {
                program.test.send(&arp(Operation::Reply, message.sender_mac, TEST, message.sender));
            }
            _ => {}
        }
        if matches!(packet.transport, corelane_wire::packet::UpperLayer::Udp(_)) && program.wire == WireFaults::default() {
            let found = datagram(&frame).unwrap();
            let number = u32::from_be_bytes(*found.payload.first_chunk().unwrap());
            assert!(found.payload[4..].iter().all(|byte| *byte == number as u8), "what was sent comes back");
            heard.entry((found.to.port() - 2000, found.to.is_ipv6())).or_default().push(number);
        }
    }
}

pub fn payload(number: u32, length: usize) -> Vec<u8> {
    let mut payload = number.to_be_bytes().to_vec();
    payload.resize(length.max(4), number as u8);
    payload
}

pub fn mac(program: &Program) -> Mac {
    Mac(program.card.link_address())
}

#[test]
fn each_flow_is_served_by_its_lane_and_stays_in_order() {
    for lanes in [1, 2, 4] {
        let mut program = Program::new(&plan(lanes, 3), &ADDRESSES);
        meet(&mut program);
        let (mac, mut heard) = (mac(&program), BTreeMap::new());
        for number in 0..30 {
            for source in 0..16 {
                let (from, to) = flow(source, source % 2 == 1);
                udp_in(mac, from, to, &payload(number, 300), 1400, 0).iter().for_each(|frame| program.test.send(frame));
            }
            program.pass(500_000);
            hear(&mut program, &mut heard);
        }
        program.pass(20_000_000);
        hear(&mut program, &mut heard);
        assert_eq!(heard.len(), 16);
        assert!(heard.values().all(|numbers| *numbers == (0..30).collect::<Vec<_>>()), "{heard:?}");
        let counts: Vec<_> = (0..lanes).map(|lane| program.counts(lane)).collect();
        assert_eq!(counts.iter().map(|counts| counts.datagrams_in).sum::<u64>(), 480);
        assert!(counts.iter().all(|counts| counts.datagrams_in > 0 && counts.crossed == 0), "{counts:?}");
        program.close();
    }
}

/// A card brings what has no flow to the first lane. A flood of words that nobody has asked for does not keep the other lanes from hearing who was asked.
#[test]
fn unasked_words_keep_no_answer_from_other_lanes() {
    let mut program = Program::new(&plan(4, 3), &ADDRESSES);
    let (mac, mut heard) = (mac(&program), BTreeMap::new());
    for source in (0..32).step_by(2) {
        let (from, to) = flow(source, false);
        udp_in(mac, from, to, &payload(1, 300), 1400, 0).iter().for_each(|frame| program.test.send(frame));
    }
    program.pass(500_000);
    assert!((0..4).all(|lane| program.counts(lane).datagrams_in > 0), "each has something to answer");
    for stranger in 20..=220 {
        let stranger = [10, 0, 0, stranger].into();
        program.test.send(&arp(Operation::Request, Mac::BROADCAST, stranger, stranger));
    }
    hear(&mut program, &mut heard);
    program.pass(500_000);
    hear(&mut program, &mut heard);
    assert_eq!(heard.len(), 16, "{heard:?}");
    program.close();
}

/// All lanes together ask no more of the whole link than one alone may.
#[test]
fn questions_to_all_of_the_link_are_bounded_for_all_lanes_together() {
    let change: fn(corelane_stack::Settings) -> corelane_stack::Settings = |settings| settings.with_network(STACK.into(), 8);
    let mut program = Program::new(&Plan { change, ..plan(4, 3) }, &ADDRESSES);
    let mac = mac(&program);
    let mut questions = vec![0; 4];
    for number in 0..800_u32 {
        let from = SocketAddr::new(IpAddr::from((0x0a09_0000 + number).to_be_bytes()), 2000);
        program.test.send(&udp_in(mac, from, (STACK, PORT).into(), b"forged", 1400, 0).remove(0));
        if number % 100 == 99 {
            program.pass(1_000_000);
        }
    }
    program.pass(1_000_000);
    (0..4).for_each(|lane| questions[lane] = program.counts(lane).questions_asked);
    assert!(questions.iter().all(|asked| (25..=30).contains(asked)), "a hundred at once: {questions:?}");
    assert!((0..4).all(|lane| program.counts(lane).questions_limited > 0));
    program.close();
}

/// The card puts all on the first lane; the others get theirs as parcels, which go home.
#[test]
fn on_a_card_without_rss_packets_change_lanes_in_order_under_every_policy() {
    let policies: [fn(corelane_stack::Settings) -> corelane_stack::Settings; 2] =
        [|settings| settings.with_dispatch(Dispatch::Hybrid), |settings| settings.with_dispatch(Dispatch::Deferred)];
    for change in policies {
        let mut program = Program::new(&Plan { card: Card::Plain, change, ..plan(4, 5) }, &ADDRESSES);
        meet(&mut program);
        let (mac, mut heard) = (mac(&program), BTreeMap::new());
        for number in 0..40 {
            for source in 0..12 {
                let (from, to) = flow(source, source % 2 == 1);
                udp_in(mac, from, to, &payload(number, 200), 1400, 0).iter().for_each(|frame| program.test.send(frame));
            }
            program.pass(500_000);
            hear(&mut program, &mut heard);
        }
        program.pass(20_000_000);
        hear(&mut program, &mut heard);
        assert!(heard.len() == 12 && heard.values().all(|numbers| *numbers == (0..40).collect::<Vec<_>>()), "{heard:?}");
        assert!(program.counts(0).crossed > 100);
        let served = (0..4).filter(|&lane| program.counts(lane).datagrams_in > 0).count();
        assert!(served > 2, "{served} lanes have served");
        program.close();
    }
}

/// Fragments are hashed by their addresses alone; what they make is of the lane that its ports say.
#[test]
fn fragments_and_whole_datagrams_of_a_flow_come_to_one_lane() {
    let mut program = Program::new(&plan(4, 7), &ADDRESSES);
    meet(&mut program);
    let (mac, mut heard) = (mac(&program), BTreeMap::new());
    for number in 0..30_u32 {
        for source in 0..8 {
            let (from, to) = flow(source, source % 2 == 1);
            // Every third is in three fragments, and answered with a whole frame: so it comes back at 1,400 bytes.
            let part = if number % 3 == 0 { 496 } else { 1472 };
            let name = (number * 8) as u16 + source;
            udp_in(mac, from, to, &payload(number, 1200), part, name).iter().for_each(|frame| program.test.send(frame));
        }
        program.pass(2_000_000);
        hear(&mut program, &mut heard);
    }
    program.pass(20_000_000);
    hear(&mut program, &mut heard);
    assert!(heard.len() == 8 && heard.values().all(|numbers| numbers.len() == 30), "{heard:?}");
    assert!(heard.values().all(|numbers| numbers.is_sorted()), "{heard:?}");
    let crossed: u64 = (0..4).map(|lane| program.counts(lane).crossed).sum();
    assert!(crossed > 0, "what was put together went to another lane");
    program.close();
}

/// A datagram that was put together on another lane goes to its own in frames of which an eighth may be away: what finds none is counted, and told with its remedy.
#[test]
fn what_finds_no_frames_to_change_lanes_in_is_counted() {
    for (frames, lost) in [(256, true), (512, false)] {
        let mut program = Program::new(&Plan { frames, ..plan(2, 3) }, &ADDRESSES);
        meet(&mut program);
        for source in 0..16 {
            let (from, to) = flow(source, false);
            let parts = udp_in(mac(&program), from, to, &payload(1, 60_000), 1472, source);
            parts.iter().for_each(|frame| program.test.send(frame));
            program.pass(20_000_000);
        }
        let sum = |counter| program.reader.snapshot(0).packets_sum(counter);
        let (delivered, crossing) = (sum(PacketCounter::UdpDelivered), sum(PacketCounter::CrossingLost));
        assert_eq!((sum(PacketCounter::Reassembled), delivered + crossing, crossing > 0), (16, 16, lost), "{frames} frames");
        program.close();
    }
}

/// Each of four lanes brings packets of all four, while their policies change.
#[test]
fn while_policies_change_four_producers_reorder_no_flow() {
    let mut program = Program::new(&Plan { card: Card::Scattered, ..plan(4, 9) }, &ADDRESSES);
    meet(&mut program);
    let (mac, mut heard) = (mac(&program), BTreeMap::new());
    let policies = [
        Policy::Dispatch(Dispatch::Deferred),
        Policy::DispatchOf(Number::IP, Some(Dispatch::Hybrid)),
        Policy::Limit(Number::IP, 2000),
        Policy::DispatchOf(Number::IP, None),
        Policy::Dispatch(Dispatch::Hybrid),
        Policy::DispatchOf(Number::IP6, Some(Dispatch::Deferred)),
    ];
    for number in 0..200_u32 {
        for source in 0..24 {
            let (from, to) = flow(source, source % 2 == 1);
            udp_in(mac, from, to, &payload(number, 100), 1400, 0).iter().for_each(|frame| program.test.send(frame));
        }
        let lane = number as usize % 4;
        program.tell.tell(lane, policies[(number as usize / 4) % policies.len()].clone()).unwrap();
        program.pass(300_000);
        hear(&mut program, &mut heard);
    }
    program.pass(50_000_000);
    hear(&mut program, &mut heard);
    assert!(heard.len() == 24 && heard.values().all(|numbers| *numbers == (0..200).collect::<Vec<_>>()), "{heard:?}");
    let counts: Vec<_> = (0..4).map(|lane| program.counts(lane)).collect();
    assert!(counts.iter().all(|counts| counts.crossed > 500 && counts.datagrams_in > 100), "{counts:?}");
    program.all_is_told();
    program.close();
}

/// Buckets move to one lane and back: nothing is lost, and what arrives afterwards is where they are.
#[test]
fn buckets_change_lanes_while_packets_pass_and_none_is_lost() {
    let mut program = Program::new(&Plan { card: Card::Scattered, ..plan(4, 10) }, &ADDRESSES);
    meet(&mut program);
    let (mac, mut heard) = (mac(&program), BTreeMap::new());
    let even = Table::even(Buckets::DEFAULT, 4).unwrap();
    let first = Table::weighted(Buckets::DEFAULT, &[1, 0, 0, 0]).unwrap();
    let mut before = 0;
    for number in 0..120_u32 {
        for source in 0..12 {
            let (from, to) = flow(source, source % 2 == 1);
            udp_in(mac, from, to, &payload(number, 100), 1400, 0).iter().for_each(|frame| program.test.send(frame));
        }
        if number % 40 == 20 {
            let table = if number == 60 { &even } else { &first };
            (0..4).for_each(|lane| program.tell.tell(lane, Policy::Table(table.clone())).unwrap());
        }
        if number == 110 {
            before = program.counts(0).datagrams_in;
        }
        program.pass(500_000);
        hear(&mut program, &mut heard);
    }
    program.pass(50_000_000);
    hear(&mut program, &mut heard);
    assert!(heard.len() == 12 && heard.values().all(|numbers| numbers.len() == 120), "{heard:?}");
    assert!(program.counts(0).datagrams_in - before >= 100, "the first lane has all buckets in the end");
    program.close();
}

/// All that wires do, and all that the driver may do: nothing is lost that the wire did not lose, and all memory comes home.
#[test]
fn runs_from_seeds_on_bad_wires_end_clean() {
    let mut dropped = 0;
    for_seeds(30, |seed| {
        let wire = WireFaults { down: 2, ..WireFaults::all(60) };
        let late =
            Faults { late_completion: 100, reordered_completion: 100, late_release: 100, delayed_bell: 50, ..Faults::none() };
        let plan = Plan {
            faults: late,
            wire,
            card: [Card::Aligned, Card::Scattered, Card::Plain][seed as usize % 3],
            ..plan(1 + seed as usize % 4, seed)
        };
        let mut program = Program::new(&plan, &ADDRESSES);
        let (mac, mut heard) = (mac(&program), BTreeMap::new());
        meet(&mut program);
        for number in 0..60_u32 {
            for source in 0..6 {
                let (from, to) = flow(source, source % 2 == 1);
                let part = if number % 3 == 0 { 496 } else { 1472 };
                let frames = udp_in(mac, from, to, &payload(number, 1200), part, (number * 6) as u16 + source);
                frames.iter().for_each(|frame| program.test.send(frame));
            }
            program.pass(500_000);
            hear(&mut program, &mut heard);
        }
        for lane in 0..plan.lanes {
            let counts = program.counts(lane);
            dropped += counts.of(Drop::Checksum) + counts.of(Drop::Malformed) + counts.of(Drop::NotOurs);
        }
        program.pass(60_000_000_000);
        let counts = program.world.wire_counts();
        assert!(counts.lost > 0 && counts.duplicated > 0 && counts.reordered > 0 && counts.corrupted > 0, "{counts:?}");
        program.close();
    });
    assert!(dropped > 0, "what the wire has bent is dropped");
}

/// What is answered of so many datagrams that arrive at once, ten times over; each flow in order.
fn answered(card: Card, offer: u32) -> usize {
    const FLOWS: u32 = 64;
    let mut program = Program::new(&Plan { card, ..plan(4, 12) }, &ADDRESSES);
    meet(&mut program);
    let (mac, mut heard) = (mac(&program), BTreeMap::new());
    for number in 0..10 * offer {
        let (from, to) = flow((number % FLOWS) as u16, number % 2 == 1);
        udp_in(mac, from, to, &payload(number, 60), 1400, 0).iter().for_each(|frame| program.test.send(frame));
        if (number + 1) % offer == 0 {
            program.pass(2_000_000);
            hear(&mut program, &mut heard);
        }
    }
    program.pass(20_000_000);
    hear(&mut program, &mut heard);
    assert!(heard.values().all(|numbers| numbers.is_sorted()), "a flow that loses some keeps the order of the others");
    let counts = (0..4).map(|lane| program.counts(lane));
    let in_and_out = counts.fold((0, 0), |(into, out), counts| (into + counts.datagrams_in, out + counts.datagrams_out));
    assert_eq!(in_and_out.0, in_and_out.1, "what a socket has taken is answered");
    program.close();
    heard.values().map(Vec::len).sum()
}

/// Overload is dropped where it costs least, at the card: what was taken in is answered. So ten times as much as lanes can take brings no less.
#[test]
fn at_ten_times_of_what_lanes_take_they_answer_as_much_as_at_their_best() {
    for card in [Card::Aligned, Card::Scattered] {
        let offers = [64, 256, 512, 1024, 2048];
        let found: Vec<usize> = offers.iter().map(|offer| answered(card, *offer)).collect();
        let peak = found.iter().copied().max().unwrap();
        let best = offers[found.iter().position(|found| *found == peak).unwrap()];
        assert!(peak < 10 * 2048, "the highest offer is more than lanes take: {found:?}");
        let overload = answered(card, 10 * best);
        println!("{overload} answered at ten times {best}, {found:?} of {offers:?}, each ten times over");
        assert!(overload * 10 >= peak * 9, "{overload} answered at ten times {best}, where {peak} were");
    }
}

/// Lanes say once that they have nothing left, and end together. Packets come meanwhile, change lanes, and are more than a turn handles.
#[test]
fn lanes_that_are_flooded_end_all_the_same() {
    for_seeds(50, |seed| {
        let mut random = Random::new(seed);
        let change = |settings: corelane_stack::Settings| settings.with_dispatch(Dispatch::Deferred);
        let mut program = Program::new(&Plan { card: Card::Plain, change, turn: 4, ..plan(2, seed) }, &ADDRESSES);
        meet(&mut program);
        let mac = mac(&program);
        let mut flood = |program: &mut Program| {
            for number in 0..random.below(16) as u32 {
                let (from, to) = flow((number % 16) as u16, false);
                udp_in(mac, from, to, &payload(number, 60), 1400, 0).iter().for_each(|frame| program.test.send(frame));
            }
        };
        (0..4).for_each(|_| flood(&mut program));
        program.pass(20_000);
        program.close_while(1 + seed * 20, flood);
    });
}

/// So many datagrams, as many at once as is said; returns how often lanes went to sleep for each that was answered.
fn sleeps(offers: u32, at_once: u32) -> f64 {
    let mut program = Program::new(&plan(1, 13), &ADDRESSES);
    meet(&mut program);
    let (mac, mut heard) = (mac(&program), BTreeMap::new());
    let before = program.sleeps();
    for number in 0..offers * at_once {
        let (from, to) = flow((number % 8) as u16, false);
        udp_in(mac, from, to, &payload(number, 60), 1400, 0).iter().for_each(|frame| program.test.send(frame));
        if (number + 1) % at_once == 0 {
            program.pass(300_000);
            hear(&mut program, &mut heard);
        }
    }
    let answered: usize = heard.values().map(Vec::len).sum();
    let slept = program.sleeps() - before;
    assert!(slept > 0 && answered > 100, "{slept} sleeps, {answered} answered");
    program.close();
    slept as f64 / answered as f64
}

/// A lane sleeps once for all that comes together, not once for each: so a flood costs it a tenth of the switches of one that is woken by each datagram.
#[test]
fn x_07_a_flooded_lane_sleeps_once_for_many_datagrams() {
    let (calm, flooded) = (sleeps(500, 1), sleeps(20, 256));
    println!("{calm} sleeps a datagram one by one, {flooded} under a flood");
    assert!(calm >= 1.0 && flooded <= calm / 10.0, "{calm} sleeps a datagram one by one, {flooded} under a flood");
}

/// The stack's registrations beside the original's with RSS: IP by the protocol's own choice, under the policy of all, which is hybrid; Ethernet at once, so that
/// it is never asked where, while the original has the card's hash for it; ARP, which the original queues, at once as well. IPv6 is as IPv4 here.
#[test]
fn n_10_the_stacks_protocols_are_registered_as_the_originals_are() {
    let mut program = Program::new(&plan(2, 3), &ADDRESSES);
    meet(&mut program);
    for lane in program.lanes.iter().flatten() {
        let report = lane.work::<Packets>().unwrap().workstreams();
        assert_eq!(report.dispatch, Dispatch::Hybrid);
        let rows = report.protocols.iter().map(|row| row.to_string().split_whitespace().collect::<Vec<_>>().join(" "));
        let wanted = [
            "ip 1 256 cpu default C--",
            "arp 4 256 source direct ---",
            "ether 5 256 source direct ---",
            "ip6 6 256 cpu default C--",
            "ip_direct 9 256 cpu default C--",
            "ip6_direct 10 256 cpu default C--",
        ];
        assert_eq!(rows.collect::<Vec<_>>(), wanted);
        assert!(report.protocols.iter().map(|row| (row.name.as_str(), row.number)).eq(PROTOCOLS));
        // What was asked by ARP and by IPv6 was dispatched so.
        let counted = |name: &str| report.streams.iter().find(|row| row.name == name).unwrap().counts;
        assert!(counted("ether").queued + counted("ether").hybrid + counted("arp").queued + counted("arp").hybrid == 0);
        assert_eq!((counted("ip6").dispatched, counted("ip").dispatched), (0, 0));
    }
    program.close();
}

/// RFC 6864, section 4.3: what two lanes send at the same time to one peer may be cut on its way, and is told apart.
#[test]
fn no_two_lanes_give_packets_the_same_name() {
    let mut program = Program::new(&plan(3, 3), &ADDRESSES);
    meet(&mut program);
    let mut names = Vec::new();
    for number in 0..20 {
        for source in 0..16 {
            let (from, to) = flow(source, false);
            udp_in(mac(&program), from, to, &payload(number, 60), 1400, 0).iter().for_each(|frame| program.test.send(frame));
        }
        program.pass(2_000_000);
        let answers = program.test.take();
        names.extend(answers.iter().filter(|frame| datagram(frame).is_some()).map(|frame| [frame[18], frame[19]]));
    }
    assert!(names.len() == 320 && (0..3).all(|lane| program.counts(lane).datagrams_out > 0));
    names.sort_unstable();
    assert!(names.windows(2).all(|two| two[0] != two[1]), "{names:?}");
    program.close();
}

/// A lane that sleeps, with nothing arriving, wakes when a datagram in fragments has waited for 30 seconds, of IPv6 for 60, once and not before; then its sender is told.
#[test]
fn f_04_fragments_expire_after_30_or_60_seconds_though_nothing_arrives() {
    for (v6, keep) in [(false, 30), (true, 60)] {
        let mut program = Program::new(&plan(1, 9), &ADDRESSES);
        meet(&mut program);
        let (from, to) = flow(1, v6);
        let frames = udp_in(mac(&program), from, to, &payload(1, 3000), 1400, 3);
        program.test.send(&frames[0]);
        // Once, soon after, it looks what was lost at its port.
        program.pass(200_000_000);
        let sleeps = program.sleeps();
        program.pass(keep * 1_000_000_000 - 210_000_000);
        assert_eq!((program.sleeps(), program.counts(0).errors_out, program.test.take().len()), (sleeps, 0, 0));
        program.pass(20_000_000);
        assert!(program.sleeps() > sleeps && program.counts(0).errors_out == 1, "{:?}", program.counts(0));
        let told = program.test.take().iter().any(|frame| match Packet::of_frame(frame).unwrap().transport {
            UpperLayer::Icmp(view) => {
                matches!(view.message(), Ok(icmp::Message::TimeExceeded { code, .. }) if code.number() == 1)
            }
            UpperLayer::Icmpv6(view) => {
                matches!(view.message(), Ok(icmpv6::Message::TimeExceeded { code, .. }) if code.number() == 1)
            }
            _ => false,
        });
        assert!(told, "by ICMP");
        program.close();
    }
}
