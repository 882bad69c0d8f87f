//! Packets meet rules on their way: what these see, what senders hear, and what is counted.

use crate::forwarded::told;
use crate::forwarding::{PLACES, ask, datagram, four, host, open, routed};
use crate::frames::{ethernet, packets, udp_in, written};
use crate::gateway::{Gateway, ip};
use corelane_rules::language::import;
use corelane_rules::{Execution, Limits, RuleSet, Rules};
use corelane_stack::Drop;
use corelane_wire::packet::ethernet::Mac;
use corelane_wire::packet::tcp::Flags;
use corelane_wire::packet::{EtherType, IpProtocol, icmp, icmpv6, tcp};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The names of the interfaces in the test's settings, in their order.
const NAMES: [&str; 5] = ["eth0", "eth0.7", "eth0.8", "eth0.300.7", "eth1"];

/// Rules, a line each, and all others go on.
pub fn rules(lines: &str) -> Rules {
    let mut rules = Rules::new(true, Limits::default());
    rules.name_interfaces(NAMES.map(String::from).to_vec()).unwrap();
    let script: String = lines.lines().map(|line| format!("ipfw add {line}\n")).collect();
    rules.apply_all(import(&script).unwrap().into_iter().map(|(_, command)| command)).unwrap();
    rules
}

pub fn compiled(lines: &str) -> Arc<RuleSet> {
    Arc::new(rules(lines).compile(Execution::Tree))
}

/// Packets and bytes that each rule has counted, but the last.
pub fn counted(gateway: &Gateway) -> Vec<(u64, u64)> {
    let view = gateway.stack.view();
    let all = view.rules().unwrap().rules().map(|(id, ..)| view.records().count(id));
    let mut counts: Vec<_> = all.map(|count| (count.packets, count.bytes)).collect();
    counts.pop();
    counts
}

/// Packets that each of these rules has counted.
fn seen(set: &str, play: impl FnOnce(&mut Gateway)) -> Vec<u64> {
    let mut gateway = open(&routed(four()).with_rules(compiled(set)));
    play(&mut gateway);
    counted(&gateway).into_iter().map(|(packets, _)| packets).collect()
}

/// A segment that a host at a place sends to the stack's station.
pub fn segment(gateway: &Gateway, place: usize, (from, to): (IpAddr, IpAddr), flags: Flags) -> Vec<u8> {
    let header = tcp::Header {
        source: 4000,
        destination: 80,
        sequence: 77,
        acknowledgement: 0,
        flags,
        window: 1000,
        urgent: 0,
        options: Default::default(),
    };
    let bytes = written(20, |writer| header.emit(&crate::frames::addresses(from, to), &[], writer));
    let packet = packets(from, to, IpProtocol::TCP, &bytes, 65_528, 7).remove(0);
    let protocol = if from.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
    ethernet(gateway.mac(PLACES[place].0), protocol, &packet)
}

#[test]
fn rules_see_a_packet_when_it_comes_and_before_it_leaves() {
    let set = "count udp from 10.0.0.9 4000 to 10.3.0.9 5000 in via eth0.7 iplen 128
        count udp from any to any out via eth1
        count ip from any to any out recv eth0.7 xmit eth1
        count ip from any to any recv eth0.7
        count ip from any to any in via eth1
        count ip from any to any out via eth0.7
        count ip from any to me
        count ip from me to any
        count tcp from any to any
        count ip from any to any frag";
    let counts = seen(set, |gateway| {
        let frame = datagram(gateway, 0, (host(0, false, 9), host(3, false, 9)), 100);
        assert_eq!(ask(gateway, 0, &frame).len(), 1);
    });
    assert_eq!(counts, [1, 1, 1, 2, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn fragments_meet_rules_one_by_one_and_what_is_for_us_once() {
    let set = "count udp from any 1 to any 2
        count ip from any to any frag
        count udp from any to any
        count icmp from any to any icmptypes 8
        count icmp from any to any icmptypes 0
        count icmp from any to me
        count icmp from me to any
        count icmp from any to any out
        count tcp from any to any tcpflags syn,!ack
        count tcp from any to any established";
    let counts = seen(set, |gateway| {
        let ends = [host(0, true, 9), host(2, true, 9)].map(|address| SocketAddr::new(address, 0));
        let [from, to] = [(ends[0], 1), (ends[1], 2)].map(|(end, port)| SocketAddr::new(end.ip(), port));
        let parts = udp_in(gateway.mac(0), from, to, &[5; 1500], 1000, 9);
        assert_eq!(parts.iter().map(|part| ask(gateway, 0, part).len()).sum::<usize>(), 2);
        let request = icmp::Echo { identification: 7, sequence: 9, data: b"ping" };
        let message = written(12, |writer| icmp::Message::EchoRequest(request).emit(writer));
        // Who is at one link may ask for our address at another.
        let ping = packets(host(0, false, 9), host(2, false, 1), IpProtocol::ICMP, &message, 65_528, 7).remove(0);
        let ping = ethernet(gateway.mac(0), EtherType::IPV4, &ping);
        assert_eq!(ask(gateway, 0, &ping).len(), 1);
        let ends = (host(0, false, 9), host(3, false, 9));
        for flags in [Flags::SYN, Flags::SYN.with(Flags::ACK), Flags::ACK] {
            let segment = segment(gateway, 0, ends, flags);
            assert_eq!(ask(gateway, 0, &segment).len(), 1);
        }
    });
    // Of the fragments the first has ports, when it comes and when it leaves; the answer to the echo leaves only.
    assert_eq!(counts, [2, 2, 4, 1, 1, 1, 1, 1, 2, 4]);
}

/// RFC 8200, section 4.5: behind the header of a first fragment others may stand before the transport's. Rules see what follows them, and no route of the sender's hides there.
#[test]
fn rules_see_through_the_headers_of_a_first_fragment() {
    let mut gateway = open(&routed(four()).with_rules(compiled("deny tcp from any to any 80 in")));
    let ends = (host(0, true, 9), host(2, true, 9));
    let whole = segment(&gateway, 0, ends, Flags::SYN);
    let options = [6, 0, 1, 4, 0, 0, 0, 0];
    let route = [17, 2, 0, 1, 0, 0, 0, 0];
    let part = [17, 0, 0, 1, 0, 0, 0, 7];
    for (protocol, head, behind, why) in [
        (IpProtocol::DESTINATION, options, &whole[54..], Drop::Judged),
        (IpProtocol::ROUTING, route, &[0; 24][..], Drop::SourceRoute),
        (IpProtocol::FRAGMENT, part, &[0; 24][..], Drop::Malformed),
    ] {
        let payload = [&head[..], behind, &[0; 80]].concat();
        let first = packets(ends.0, ends.1, protocol, &payload, 64, 9).remove(0);
        let frame = ethernet(gateway.mac(0), EtherType::IPV6, &first);
        assert!(ask(&mut gateway, 0, &frame).is_empty(), "{why:?}");
        assert_eq!(gateway.stack.counts().of(why), 1, "{why:?}");
    }
    // Others go on.
    let payload = [&[17, 0, 1, 4, 0, 0, 0, 0][..], &[0; 100]].concat();
    let first = packets(ends.0, ends.1, IpProtocol::DESTINATION, &payload, 64, 9).remove(0);
    let frame = ethernet(gateway.mac(0), EtherType::IPV6, &first);
    assert_eq!(ask(&mut gateway, 0, &frame).len(), 1);
}

/// Fragments for us are judged as the datagram that they make.
#[test]
fn fragments_for_us_are_judged_together() {
    let counts = seen(
        "count udp from any 1 to any 2 in\ncount ip from any to any frag\ncount udp from any to any iplen 1528",
        |gateway| {
            let [from, to] =
                [(host(0, false, 9), 1), (host(0, false, 1), 2)].map(|(address, port)| SocketAddr::new(address, port));
            for part in udp_in(gateway.mac(0), from, to, &[5; 1500], 1000, 9) {
                ask(gateway, 0, &part);
            }
        },
    );
    assert_eq!(counts, [1, 0, 1]);
}

#[test]
fn what_rules_refuse_is_counted_and_told_of_as_they_say() {
    let all = "from any to any";
    for (words, words6, codes) in [
        ("deny", "deny", None),
        ("unreach filter-prohib", "unreach6 admin-prohib", Some([(3, 13, 0), (1, 1, 0)])),
        ("unreach net", "unreach6 no-route", Some([(3, 0, 0), (1, 0, 0)])),
        ("reject", "unreach6 address", Some([(3, 1, 0), (1, 3, 0)])),
        ("unreach port", "unreach6 port", Some([(3, 3, 0), (1, 4, 0)])),
        // What is of the other family, of TCP alone, or no code at all, tells nobody.
        ("unreach6 port", "unreach port", None),
        ("reset", "reset", None),
        ("unreach 200", "unreach6 9", None),
    ] {
        for (way, v6, is_ours) in
            [("in", false, false), ("in", true, true), ("out", false, false), ("out", true, false), ("in", false, true)]
        {
            let set = compiled(&format!("{} udp {all} {way}", if v6 { words6 } else { words }));
            let mut gateway = open(&routed(four()).with_rules(set));
            let to = if is_ours { host(0, v6, 1) } else { host(1, v6, 9) };
            let frame = datagram(&gateway, 0, (host(0, v6, 9), to), 100);
            let came = ask(&mut gateway, 0, &frame);
            match codes {
                None => assert!(came.is_empty(), "{words} {way} {came:?}"),
                Some(codes) => assert_eq!(told(&came, 0), (codes[usize::from(v6)], host(0, v6, 1), frame[14..].to_vec())),
            }
            assert_eq!((gateway.stack.counts().of(Drop::Judged), gateway.stack.counts().forwarded), (1, 0), "{words} {way}");
            assert_eq!(counted(&gateway), [(1, frame.len() as u64 - 14)]);
        }
    }
}

/// RFC 4443, section 2.4 (e.3): about what was for a group, rules tell nobody anything.
#[test]
fn refusals_of_what_was_for_a_group_are_silent() {
    let set = compiled("unreach6 admin-prohib ipv6-icmp from any to any icmp6types 128 in");
    let mut gateway = open(&routed(four()).with_rules(set));
    let request = icmp::Echo { identification: 7, sequence: 9, data: b"ping" };
    let near = host(0, true, 9);
    for (mac, to, answers) in [(gateway.mac(0), host(0, true, 1), 1), (Mac([0x33, 0x33, 0, 0, 0, 1]), ip("ff02::1"), 0)] {
        let of = crate::frames::addresses(near, to);
        let message = written(12, |writer| icmpv6::Message::EchoRequest(request).emit(&of, writer));
        let packet = packets(near, to, IpProtocol::ICMPV6, &message, 65_528, 7).remove(0);
        assert_eq!(ask(&mut gateway, 0, &ethernet(mac, EtherType::IPV6, &packet)).len(), answers, "{to}");
    }
    assert_eq!((gateway.stack.counts().of(Drop::Judged), gateway.stack.counts().errors_out), (2, 1));
}

/// RFC 9293, section 3.10.7.1: in the name of who was meant, whether that is us or somebody else.
#[test]
fn a_reset_answers_a_segment_in_the_name_of_who_is_meant() {
    for (way, v6, to) in [("in", false, 1), ("out", true, 9), ("in", true, 9)] {
        let mut gateway = open(&routed(four()).with_rules(compiled(&format!("reset tcp from any to any {way}"))));
        let to = if to == 1 { host(0, v6, 1) } else { host(1, v6, 9) };
        let frame = segment(&gateway, 0, (host(0, v6, 9), to), Flags::SYN);
        let came = ask(&mut gateway, 0, &frame);
        assert_eq!(came.len(), 1, "{way} {v6}");
        let head = if v6 { 40 } else { 20 };
        let view = tcp::View::new(&came[0].packet()[head..]).unwrap();
        assert!(view.is_checksum_right(&crate::frames::addresses(to, host(0, v6, 9))));
        let header = view.header().unwrap();
        assert_eq!((header.source, header.destination, header.acknowledgement), (80, 4000, 78));
        assert_eq!((header.flags, gateway.stack.counts().of(Drop::Judged)), (Flags::RST.with(Flags::ACK), 1));
        // To a reset nothing is said.
        let frame = segment(&gateway, 0, (host(0, v6, 9), to), Flags::RST);
        assert!(ask(&mut gateway, 0, &frame).is_empty());
    }
}

/// Errors have a bound, whatever rules say.
#[test]
fn refusals_are_bounded_as_other_errors() {
    let mut gateway = open(&routed(four()).with_rules(compiled("reject ip from any to any in")));
    let frame = datagram(&gateway, 0, (host(0, false, 9), host(1, false, 9)), 100);
    (0..120).for_each(|_| gateway.send(PLACES[0].0, PLACES[0].1, &frame));
    let told = gateway.hear().len();
    let counts = *gateway.stack.counts();
    assert!((50..60).contains(&told), "fifty at once, and one each millisecond: {told}");
    assert_eq!((counts.of(Drop::Judged), counts.errors_out as usize, counts.errors_limited as usize), (120, told, 120 - told));
}

/// What lines say is the rules' own; here each comes once, and no flood of them keeps anything else from the operator for long.
#[test]
fn lines_leave_for_the_operator_within_bounds() {
    let mut rules = rules("deny log logamount 0 ip from any to any in");
    let set = Arc::new(rules.compile(Execution::Tree));
    let mut gateway = open(&routed(four()).with_rules(set));
    let frame = datagram(&gateway, 0, (host(0, false, 9), host(1, false, 9)), 100);
    for _ in 0..40 {
        (0..10).for_each(|_| gateway.send(PLACES[0].0, PLACES[0].1, &frame));
        gateway.turn();
    }
    assert_eq!((gateway.stack.counts().of(Drop::Judged), counted(&gateway)[0].0), (400, 400));
    assert_eq!(gateway.stack.view().records().lines_refused(), 300, "a hundred lines a second");
}

/// A segment's state lets its answers pass.
#[test]
fn states_let_answers_pass() {
    let set = "check-state
        allow tcp from any to any setup keep-state in via eth0.7
        deny tcp from any to any";
    let mut gateway = open(&routed(four()).with_rules(compiled(set)));
    let (near, far) = (host(0, false, 9), host(3, false, 9));
    let answer = |gateway: &Gateway| {
        let mut frame = segment(gateway, 3, (far, near), Flags::SYN.with(Flags::ACK));
        // From port 80 to 4000: both words are under the sum, which their order does not change.
        frame[34..38].rotate_left(2);
        frame
    };
    let early = answer(&gateway);
    assert!(ask(&mut gateway, 3, &early).is_empty());
    let opens = segment(&gateway, 0, (near, far), Flags::SYN);
    assert_eq!(ask(&mut gateway, 0, &opens).len(), 1);
    assert_eq!(ask(&mut gateway, 3, &early).len(), 1);
    assert_eq!(gateway.stack.view().records().states(), 1);
}

/// One source that begins all the flows that it may keeps nobody else from his.
#[test]
fn who_fills_the_states_takes_his_share_alone() {
    let mut gateway = open(&routed(four()).with_rules(compiled("allow udp from any to any in keep-state")));
    let flow = |gateway: &Gateway, place: usize, port: u16| {
        let ends = [(host(place, false, 9), port), (host(3, false, 9), 53)].map(|(address, port)| SocketAddr::new(address, port));
        udp_in(gateway.mac(0), ends[0], ends[1], b"flow", 65_528, 7).remove(0)
    };
    for port in 1..=1200 {
        let frame = flow(&gateway, 0, port);
        gateway.send(PLACES[0].0, PLACES[0].1, &frame);
        if port % 50 == 0 {
            gateway.hear();
        }
    }
    let records = |gateway: &Gateway| (gateway.stack.view().records().states(), gateway.stack.view().records().states_refused());
    assert_eq!((records(&gateway), gateway.stack.counts().of(Drop::Judged)), ((1024, 176), 176));
    let frame = flow(&gateway, 1, 7);
    assert_eq!((ask(&mut gateway, 1, &frame).len(), records(&gateway).0), (1, 1025));
}
