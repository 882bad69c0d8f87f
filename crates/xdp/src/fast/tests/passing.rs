//! Which packets leave, and what they are like then.

use super::drawn::{head, packet, seal};
use super::{DENY, FROM, LANE, NEXT, SENT, STATION, beside, enter, entries, fast, learn, may, program, program_at, tags, way};
use crate::fast::ways::{self, Beside, Entry};
use corelane_rules::language::command;
use corelane_rules::{Execution, Interface, Limits, RuleSet, Rules};
use corelane_seam::{LearntWay, LinkSide, Random, VlanTag};
use corelane_wire::packet::IpProtocol;
use std::net::{IpAddr, Ipv4Addr};

fn all_pass() -> RuleSet {
    Rules::new(true, Limits::default()).compile(Execution::Tree)
}

/// A frame as a router sends it on: another header of the link, one hop less, and the right sum.
fn sent(frame: &[u8], comes: u16, leaves: u16) -> Vec<u8> {
    let tag_bytes = 4 * tags(comes).iter().flatten().count();
    let (kind, packet) = frame[12 + tag_bytes..].split_at(2);
    let mut packet = packet.to_vec();
    if kind == [8, 0] {
        packet[8] -= 1;
        seal(&mut packet);
    } else {
        packet[7] -= 1;
    }
    let tags = tags(leaves).into_iter().flatten().flat_map(|tag| [tag.protocol.to_be_bytes(), tag.control.to_be_bytes()]);
    [NEXT.to_vec(), FROM.to_vec(), tags.flatten().collect(), kind.to_vec(), packet].concat()
}

/// Whatever tags a frame has, and is to have.
#[test]
fn a_packet_leaves_as_a_router_sends_it() {
    if !may("a_packet_leaves_as_a_router_sends_it") {
        return;
    }
    let (fast, mut random) = (fast(), Random::new(7));
    let program = program(&fast, &all_pass(), &[], false).unwrap();
    let mut seen = std::collections::BTreeMap::new();
    for _ in 0..2_000 {
        let (facts, frame) = packet(&mut random, false);
        let pair: (IpAddr, IpAddr) = (facts.source.into(), facts.destination.into());
        if pair.0 == pair.1 {
            assert_eq!(program.answer(&frame), Ok(LANE), "land");
            continue;
        }
        // Each time by the interface that was drawn.
        learn(&fast, &way(pair, facts.receive.0, facts.transmit.0));
        let (answer, left) = program.answer_and_change(&frame).unwrap();
        assert_eq!((answer, left), (SENT, sent(&frame, facts.receive.0, facts.transmit.0)), "{facts:?}\n{frame:02x?}");
        *seen.entry((facts.receive, facts.transmit)).or_insert(0) += 1;
    }
    assert!(seen.len() == 16 && seen.values().all(|count| *count > 50), "{seen:?}");
}

/// The sum of a header that is changed is the one that is computed anew, whatever it was.
#[test]
fn each_sum_of_a_header_is_right_with_one_hop_less() {
    if !may("each_sum_of_a_header_is_right_with_one_hop_less") {
        return;
    }
    let fast = fast();
    let program = program(&fast, &all_pass(), &[], false).unwrap();
    let pair = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    learn(&fast, &way(pair, 1, 1));
    let mut frame = head(1, true);
    frame.extend([0x45, 0, 0, 20, 0, 0, 0, 0, 64, 47, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    for number in (0..=u16::MAX).step_by(3) {
        frame[18..20].copy_from_slice(&number.to_be_bytes());
        frame[22] = 2 + (number % 254) as u8;
        seal(&mut frame[14..]);
        let (answer, left) = program.answer_and_change(&frame).unwrap();
        assert_eq!((answer, left), (SENT, sent(&frame, 1, 1)), "{number}");
    }
}

fn v4() -> Vec<u8> {
    let mut frame = head(1, true);
    frame.extend([0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0]);
    seal(&mut frame[14..]);
    frame
}

fn v6() -> Vec<u8> {
    let mut frame = head(1, false);
    frame.extend([0x60, 0, 0, 0, 0, 8, 17, 64]);
    frame.extend([[1; 16], [2; 16]].concat());
    frame.extend([0, 1, 0, 2, 0, 8, 0, 0]);
    frame
}

const V4: (IpAddr, IpAddr) = (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)));

/// The frame with another byte there, and with a right sum if that is in a header of IPv4.
fn with(frame: &[u8], at: usize, byte: u8) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[at] = byte;
    if at > 13 && frame[12..14] == [8, 0] {
        seal(&mut frame[14..]);
    }
    frame
}

/// A packet that carries so many bytes of that protocol, in a frame that is longer.
fn carrying(protocol: u8, bytes: u8) -> Vec<u8> {
    with(&with(&v4(), 23, protocol), 17, 20 + bytes)
}

#[test]
fn what_a_program_does_not_understand_is_the_lanes_as_it_came() {
    if !may("what_a_program_does_not_understand_is_the_lanes_as_it_came") {
        return;
    }
    let fast = fast();
    let program = program(&fast, &all_pass(), &[], false).unwrap();
    learn(&fast, &way(V4, 1, 1));
    let v6_pair: (IpAddr, IpAddr) = ([1; 16].into(), [2; 16].into());
    learn(&fast, &way(v6_pair, 1, 3));
    // There and back, so that a packet from an address to itself has both halves.
    learn(&fast, &way((V4.1, V4.0), 1, 1));
    learn(&fast, &way((v6_pair.1, v6_pair.0), 1, 3));
    assert_eq!((program.answer(&v4()), program.answer(&v6())), (Ok(SENT), Ok(SENT)));
    let before = fast.traffic(Interface(1)).unwrap();
    let tagged = |tags: &[u8]| [&v4()[..12], tags, &v4()[12..]].concat();
    let mut wrong_sum = v4();
    wrong_sum[24] ^= 1;
    let others = [
        ("another station", with(&v4(), 5, 9)),
        ("another station's last bytes", with(&v4(), 0, 9)),
        ("a version of none", with(&v4(), 14, 0x55)),
        ("options", with(&v4(), 14, 0x46)),
        ("more fragments", with(&v4(), 20, 0x20)),
        ("a later fragment", with(&v4(), 21, 1)),
        ("the last hop", with(&v4(), 22, 1)),
        ("no hop", with(&v4(), 22, 0)),
        ("longer than the frame", with(&v4(), 17, 41)),
        ("shorter than its header", with(&v4(), 17, 19)),
        ("no room for TCP", with(&v4(), 17, 39)),
        ("no room for TCP's header", with(&v4(), 46, 0x60)),
        ("TCP's header too short", with(&v4(), 46, 0x40)),
        ("no room for UDP", carrying(17, 7)),
        ("no room for ICMP", carrying(1, 7)),
        ("a wrong sum", wrong_sum),
        ("another source", with(&v4(), 29, 9)),
        ("another destination", with(&v4(), 33, 9)),
        ("to its own source", with(&v4(), 33, 1)),
        ("to its own source, IPv6", [&v6()[..38], &[1; 16], &v6()[54..]].concat()),
        ("ARP", with(&v4(), 13, 6)),
        ("IPv6 of another version", with(&v6(), 14, 0x40)),
        ("the last hop of IPv6", with(&v6(), 21, 1)),
        ("longer than the frame, IPv6", with(&v6(), 19, 9)),
        ("another source of IPv6", with(&v6(), 37, 9)),
        ("another destination of IPv6", with(&v6(), 38, 9)),
        ("an unknown VLAN", tagged(&[0x81, 0, 0, 8])),
        ("a priority alone", tagged(&[0x81, 0, 0, 0])),
        ("one tag of a provider", tagged(&[0x88, 0xa8, 0, 7])),
        ("two tags of customers", tagged(&[0x81, 0, 0, 7, 0x81, 0, 0, 9])),
        ("three tags", tagged(&[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9, 0x81, 0, 0, 9])),
    ];
    for (what, frame) in others {
        assert_eq!(program.answer_and_change(&frame), Ok((LANE, frame.clone())), "{what}");
    }
    for (frame, cut) in [v4(), v6()].iter().flat_map(|frame| (14..frame.len()).map(move |cut| (frame, cut))) {
        assert_eq!(program.answer(&frame[..cut]), Ok(LANE), "{cut}");
    }
    assert_eq!(fast.traffic(Interface(1)).unwrap(), before);
}

#[test]
fn a_way_holds_for_its_time_its_length_and_its_generation() {
    if !may("a_way_holds_for_its_time_its_length_and_its_generation") {
        return;
    }
    let fast = fast();
    let program = program(&fast, &all_pass(), &[], false).unwrap();
    let answer = |change: &dyn Fn(&mut LearntWay)| {
        let mut changed = way(V4, 1, 2);
        change(&mut changed);
        learn(&fast, &changed);
        program.answer(&v4()).unwrap()
    };
    assert_eq!(answer(&|_| ()), SENT);
    assert_eq!(answer(&|way| way.until = 1), LANE, "it was over long ago");
    let now = corelane_os::clock::now();
    assert_eq!(answer(&|way| way.until = now + 60_000_000_000), SENT);
    assert_eq!(answer(&|way| way.mtu = 40), SENT);
    assert_eq!(answer(&|way| way.mtu = 39), LANE, "it is to be cut, or its sender told");
    let opens: [fn(&mut LearntWay); 2] = [|way| way.comes.hands_over_opening = true, |way| way.leaves.hands_over_opening = true];
    for hand_over in opens {
        assert_eq!(answer(&hand_over), LANE);
        let mut established = v4();
        established[47] = 0x10;
        assert_eq!(program.answer(&established), Ok(SENT));
    }
    assert_eq!(answer(&|_| ()), SENT);
    fast.unlearn();
    assert_eq!(program.answer(&v4()), Ok(LANE), "learnt before something changed");
}

/// Each half holds for itself: with one of them over, changed or another's, packets are the lane's.
#[test]
fn a_way_holds_as_long_as_both_halves() {
    if !may("a_way_holds_as_long_as_both_halves") {
        return;
    }
    let fast = fast();
    let program = program(&fast, &all_pass(), &[], false).unwrap();
    // A half that is over, of another generation, or in whose place there is another.
    let changes: [fn(&mut Entry); 3] =
        [|half| half.value[8..16].copy_from_slice(&1_u64.to_ne_bytes()), |half| half.value[16] ^= 1, |half| half.value[0] ^= 1];
    for (frame, pair) in [(v4(), V4), (v6(), ([1; 16].into(), [2; 16].into()))] {
        for half in 0..2 {
            assert_eq!(program.answer(&frame), Ok(LANE), "one half is not known");
            enter(&fast, &entries(&fast, &way(pair, 1, 2))[half]);
        }
        assert_eq!(program.answer(&frame), Ok(SENT));
        for (half, change) in (0..6).map(|number| (number % 2, number / 2)) {
            let halves = entries(&fast, &way(pair, 1, 2));
            let mut changed = halves[half].clone();
            changes[change](&mut changed);
            enter(&fast, &changed);
            assert_eq!(program.answer(&frame), Ok(LANE), "half {half}, change {change}");
            enter(&fast, &halves[half]);
            assert_eq!(program.answer(&frame), Ok(SENT));
        }
    }
}

/// A source of one way and a destination of another are one: it comes as the one, and leaves as the other.
#[test]
fn halves_of_different_ways_go_together() {
    if !may("halves_of_different_ways_go_together") {
        return;
    }
    let fast = fast();
    let program = program(&fast, &all_pass(), &[], false).unwrap();
    learn(&fast, &way((V4.0, [10, 9, 9, 9].into()), 1, 2));
    assert_eq!(program.answer(&v4()), Ok(LANE), "nobody has told where it goes");
    learn(&fast, &way(([10, 9, 9, 8].into(), V4.1), 2, 3));
    assert_eq!(program.answer_and_change(&v4()), Ok((SENT, sent(&v4(), 1, 3))));
    let [came, between, left] = [1, 2, 3].map(|interface| fast.traffic(Interface(interface)).unwrap());
    assert_eq!((came.packets_in, between.packets_in + between.packets_out, left.packets_out), (1, 0, 1));
}

/// With two tags the longest packet is shorter than the interface has it: the system takes a frame with one.
#[test]
fn ways_that_a_program_cannot_go_are_not_entered() {
    let beside = Beside { place: 3, queue: 2, generation: 9, leaves_by: 5, frame_bytes_max: 1514 };
    let mtu = |leaves| ways::entries(&way(V4, 1, leaves), beside).map(|[_, to]| u16::from_ne_bytes([to.value[46], to.value[47]]));
    assert_eq!([1, 2, 3].map(mtu), [Some(1500), Some(1500), Some(1496)]);
    let tag = |protocol| Some(VlanTag { protocol, control: 7 });
    for tags in [[tag(0x88a8), None], [tag(0x8100), tag(0x8100)], [None, tag(0x8100)]] {
        let side = LinkSide { interface: 2, tags, destination: STATION, hands_over_opening: false };
        assert_eq!(ways::entries(&LearntWay { comes: side, ..way(V4, 1, 1) }, beside), None);
        assert_eq!(ways::entries(&LearntWay { leaves: side, ..way(V4, 1, 1) }, beside), None);
    }
    assert_eq!(ways::entries(&way((V4.0, [1; 16].into()), 1, 1), beside), None, "of two families");
    let short = Beside { frame_bytes_max: 13, ..beside };
    assert_eq!(ways::entries(&way(V4, 1, 3), short), None);
}

/// Senders on the same machine leave checksums to cards that there are not: where a packet has the sum of its pseudo-header there, a lane computes it.
#[test]
fn what_lacks_its_checksum_is_the_lanes() {
    if !may("what_lacks_its_checksum_is_the_lanes") {
        return;
    }
    let fast = fast();
    let [aware, blind] = [true, false].map(|leaves_sums| program(&fast, &all_pass(), &[], leaves_sums).unwrap());
    let pair = ([1; 16].into(), [2; 16].into());
    learn(&fast, &way(V4, 1, 1));
    learn(&fast, &way(pair, 1, 1));
    let folded = |words: &[u8], protocol: u8, length: usize| {
        let mut sum: usize = words.chunks(2).map(|pair| usize::from(pair[0]) << 8 | usize::from(pair[1])).sum();
        sum += usize::from(protocol) + length;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        (sum as u16).to_be_bytes()
    };
    let (mut tcp, mut udp) = (v4(), v6());
    let sum = folded(&tcp[26..34], 6, 20);
    tcp[50..52].copy_from_slice(&sum);
    let sum = folded(&udp[22..54], 17, 8);
    udp[60..62].copy_from_slice(&sum);
    for frame in [tcp, udp] {
        assert_eq!((aware.answer(&frame), blind.answer(&frame)), (Ok(LANE), Ok(SENT)));
        let at = if frame[12] == 8 { 51 } else { 61 };
        let other = with(&frame, at, frame[at] ^ 1);
        assert_eq!(aware.answer(&other), Ok(SENT));
    }
}

#[test]
fn what_rules_drop_is_dropped_in_both_directions() {
    if !may("what_rules_drop_is_dropped_in_both_directions") {
        return;
    }
    let fast = fast();
    learn(&fast, &way(V4, 1, 2));
    for text in ["add 7 deny ip from any to any in recv e1", "add 7 deny ip from any to any out recv e1 xmit e2"] {
        let mut rules = Rules::new(true, Limits::default());
        rules.name_interfaces(vec!["e1".into(), "e2".into()]).unwrap();
        rules.apply(command(text, 1).unwrap()).unwrap();
        let program = program(&fast, &rules.compile(Execution::Tree), &[], false).unwrap();
        assert_eq!(program.answer(&v4()), Ok(DENY), "{text}");
    }
    let [came, left] = [1, 2].map(|interface| fast.traffic(Interface(interface)).unwrap());
    assert_eq!((came.denied, came.packets_in, left.packets_out), (2, 0, 0));
}

/// What a lane walks past is the lane's: routes of senders, options, and whatever hides behind these from rules. All else goes.
#[test]
fn headers_that_a_lane_walks_past_are_the_lanes() {
    if !may("headers_that_a_lane_walks_past_are_the_lanes") {
        return;
    }
    let fast = fast();
    let program = program(&fast, &all_pass(), &[], false).unwrap();
    learn(&fast, &way(([1; 16].into(), [2; 16].into()), 1, 1));
    learn(&fast, &way(V4, 1, 1));
    for next in (0..=u8::MAX).filter(|next| *next != 6) {
        let should = if IpProtocol(next).is_extension() { LANE } else { SENT };
        assert_eq!(program.answer(&with(&v6(), 20, next)), Ok(should), "{next} with room for a header of eight bytes");
    }
    let [udp, icmp] = [17, 1].map(|protocol| program.answer(&carrying(protocol, 8)));
    assert_eq!((udp, icmp), (Ok(SENT), Ok(SENT)));
}

/// Whatever priority its tags have, a packet goes the way of its VLAN.
#[test]
fn a_priority_changes_no_way() {
    if !may("a_priority_changes_no_way") {
        return;
    }
    let fast = fast();
    let program = program(&fast, &all_pass(), &[], false).unwrap();
    for (comes, tags) in [(2, &[0x81, 0, 0, 7][..]), (3, &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9])] {
        learn(&fast, &way(V4, comes, 1));
        for priority in [0, 0x10, 0x20, 0xf0] {
            let mut tags = tags.to_vec();
            tags.chunks_mut(4).for_each(|tag| tag[2] = priority);
            let frame = [&v4()[..12], &tags, &v4()[12..]].concat();
            assert_eq!(program.answer_and_change(&frame), Ok((SENT, sent(&frame, comes, 1))), "{tags:02x?}");
        }
    }
}

/// The lane of a queue tells its own program: other queues and other ports have not heard of the way.
#[test]
fn a_half_is_of_its_port_and_its_queue() {
    if !may("a_half_is_of_its_port_and_its_queue") {
        return;
    }
    let fast = fast();
    let [first, other] = [0, 3].map(|place| program_at(&fast, place, &all_pass(), (&[], false)).unwrap());
    let told = |place, queue, leaves_by| {
        fast.unlearn();
        let by = Beside { place, queue, leaves_by, ..beside(&fast) };
        ways::entries(&way(V4, 1, 2), by).unwrap().iter().for_each(|entry| enter(&fast, entry));
        [&first, &other].map(|program| program.answer(&v4()).unwrap())
    };
    assert_eq!(told(0, 0, 0), [SENT, LANE]);
    assert_eq!(told(3, 0, 0), [LANE, SENT]);
    // The kernel's trial packets come by queue 0.
    assert_eq!((told(0, 1, 0), told(3, 9, 0)), ([LANE, LANE], [LANE, LANE]));
    assert_eq!(told(0, 0, 9), [DENY, LANE], "no port has that place: it goes nowhere");
}
