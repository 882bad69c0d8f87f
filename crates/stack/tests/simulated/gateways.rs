//! Lanes that are a gateway together: what they are told while packets pass, and answers that come home through the translation.

use crate::forwarded::with_options;
use crate::frames::{Datagram, STACK, TEST, TEST_MAC, datagram, ethernet, packets, udp_in, written};
use crate::gateway::{arp_of, ip, tagged, untagged};
use crate::lanes::{ADDRESSES, mac, plan};
use crate::program::{Card, PORT, Plan, Program};
use corelane_nat::{Forward, Settings as Nat};
use corelane_rss::Transport;
use corelane_rules::language::import;
use corelane_rules::{Count, Direction, Execution, Facts, Interface, Limits, Records, RuleId, RuleSet, Rules, Transport as Seen};
use corelane_stack::{Drop, Look, NatSettings, Policy, ReversePath, Route, RouteChange, Settings, Tags, View};
use corelane_wire::packet::arp::Operation;
use corelane_wire::packet::icmp::{Code, Echo, Message};
use corelane_wire::packet::{EtherType, IpProtocol, Network, Packet, UpperLayer};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

/// The inside: a VLAN with a router to all inside hosts.
const INSIDE: Tags = Tags::One(7);
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 9);
/// A port outside, and the port of the inside host that it leads to.
const FORWARDED: (u16, u16) = (8080, 80);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 80);

fn gateway(settings: Settings) -> Settings {
    let settings = settings.with_interface("out").with_forwarding(ReversePath::Strict).with_route(ip("0.0.0.0"), 0, TEST.into());
    let settings = settings.and_vlan("in", INSIDE).with_network(ip("10.99.0.1"), 24).with_forwarding(ReversePath::Strict);
    settings.with_route(ip("10.98.0.0"), 16, ROUTER.into())
}

fn translating(settings: Settings) -> Settings {
    let mut nat = Nat::new(STACK);
    let ports = FORWARDED.0..=FORWARDED.0;
    nat.forwards = vec![Forward { transport: Transport::Udp, external: STACK, ports, inside: SERVER, inside_port: FORWARDED.1 }];
    gateway(settings).with_nat(NatSettings { interfaces: vec![0], settings: nat })
}

/// What the test's machine gets, with the tags of it; who is asked for answers.
fn hear(program: &mut Program) -> Vec<(Tags, Vec<u8>)> {
    let mut came = Vec::new();
    for frame in program.test.take() {
        let (tags, frame) = untagged(&frame);
        match Packet::of_frame(&frame).unwrap().network {
            Network::Arp(message) if message.operation == Operation::Request => {
                let answer = arp_of(TEST_MAC, Operation::Reply, mac(program), message.target, message.sender);
                program.test.send(&tagged(&answer, tags));
            }
            Network::Arp(_) => {}
            _ => came.push((tags, frame)),
        }
    }
    came
}

fn open(plan: &Plan) -> Program {
    let mut program = Program::new(plan, &ADDRESSES);
    // Each lane gets to know both routers.
    for _ in 0..4 {
        for (tags, from, to) in [(Tags::None, TEST, STACK), (INSIDE, ROUTER, Ipv4Addr::new(10, 99, 0, 1))] {
            let question = arp_of(TEST_MAC, Operation::Request, mac(&program), from, to);
            program.test.send(&tagged(&question, tags));
        }
        program.pass(1_000_000);
    }
    program.test.take();
    program
}

/// A host inside, by its number; and one outside.
fn inside(number: u32) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(0x0a62_0000 + 100 + number % 200)), 1024 + (number / 200) as u16)
}

fn outside(number: u32) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(0xc000_0200 + number % 7)), 53)
}

fn send(program: &Program, tags: Tags, from: SocketAddr, to: SocketAddr, payload: &[u8]) {
    let frame = udp_in(mac(program), from, to, payload, 65_528, 0).remove(0);
    program.test.send(&tagged(&frame, tags));
}

fn datagrams(came: Vec<(Tags, Vec<u8>)>) -> Vec<(Tags, Datagram)> {
    came.into_iter().filter_map(|(tags, frame)| Some((tags, datagram(&frame)?))).collect()
}

/// So many packets of 4,000 flows go out and their answers come home, wherever the card brings them.
fn come_home(card: Card, lanes: usize, packets: u32) {
    let mut program = open(&Plan { card, change: translating, ..plan(lanes, 9) });
    program.seen.is_quick = true;
    let (mut sent, mut answered, mut ports) = (0, 0, BTreeMap::new());
    while answered < packets / 2 {
        assert!(sent < packets, "{answered} of {sent}");
        for number in sent..sent + 100 {
            let flow = number % 4000;
            send(&program, INSIDE, inside(flow), outside(flow), &number.to_be_bytes());
        }
        sent += 100;
        program.pass(400_000);
        for _ in 0..3 {
            for (tags, found) in datagrams(hear(&mut program)) {
                let number = u32::from_be_bytes(*found.payload.first_chunk().unwrap());
                let flow = number % 4000;
                match tags {
                    Tags::None => {
                        assert_eq!((found.from.ip(), found.to), (STACK.into(), outside(flow)));
                        let of = *ports.entry((found.from.port(), found.to)).or_insert(flow);
                        assert_eq!(of, flow, "a port is of one flow");
                        send(&program, Tags::None, found.to, found.from, &number.to_be_bytes());
                    }
                    _ => {
                        assert_eq!((found.from, found.to), (outside(flow), inside(flow)), "{number}");
                        answered += 1;
                    }
                }
            }
            program.pass(200_000);
        }
    }
    assert_eq!((sent, ports.len()), (packets / 2, 4000.min(packets as usize / 2)));
    let each: Vec<_> = (0..lanes).map(|lane| program.counts(lane).forwarded).collect();
    assert!(each.iter().all(|forwarded| *forwarded > u64::from(packets) / 20), "{each:?}");
    program.close();
}

#[test]
fn answers_come_home_and_none_of_a_hundred_thousand_is_mixed_up() {
    come_home(Card::Aligned, 4, 50_000);
    come_home(Card::Scattered, 2, 30_000);
    come_home(Card::Plain, 3, 20_000);
}

/// The payload of an echo request or reply, with its ends and identifier.
fn echo_of(frame: &[u8]) -> Option<(IpAddr, IpAddr, u16)> {
    let packet = Packet::of_frame(frame).unwrap();
    let (Network::V4(view), UpperLayer::Icmp(message)) = (&packet.network, packet.transport) else { return None };
    assert!(message.is_checksum_right());
    let header = view.header().unwrap();
    match message.message().unwrap() {
        Message::EchoRequest(echo) | Message::EchoReply(echo) => {
            Some((header.source.into(), header.destination.into(), echo.identification))
        }
        _ => None,
    }
}

fn echo_frame(program: &Program, from: IpAddr, to: IpAddr, identification: u16, is_reply: bool) -> Vec<u8> {
    let echo = Echo { identification, sequence: 1, data: b"12345678" };
    let message = if is_reply { Message::EchoReply(echo) } else { Message::EchoRequest(echo) };
    let message = written(16, |writer| message.emit(writer));
    ethernet(mac(program), EtherType::IPV4, &packets(from, to, IpProtocol::ICMP, &message, 65_528, 7)[0])
}

/// No card hashes identifiers of echoes, nor what errors quote: they are brought to the lane whose port it is.
#[test]
fn what_no_hash_brings_home_is_brought_by_its_port() {
    let mut program = open(&Plan { change: translating, ..plan(4, 3) });
    let mut home = 0;
    for number in 0..200_u16 {
        let (from, to) = (inside(u32::from(number)).ip(), outside(u32::from(number)).ip());
        program.test.send(&tagged(&echo_frame(&program, from, to, number, false), INSIDE));
        program.pass(300_000);
        for (tags, frame) in hear(&mut program) {
            let (source, destination, identification) = echo_of(&frame).unwrap();
            assert_eq!((tags, source, destination), (Tags::None, STACK.into(), to));
            program.test.send(&echo_frame(&program, destination, source, identification, true));
        }
        program.pass(300_000);
        for (tags, frame) in hear(&mut program) {
            assert_eq!((tags, echo_of(&frame)), (INSIDE, Some((to, from, number))));
            home += 1;
        }
    }
    assert_eq!(home, 200);
    let counts = nat_counts(&mut program);
    assert!(counts.iter().map(|counts| counts.elsewhere).sum::<u64>() > 100, "{counts:?}");
    // Who asks us is answered by us, from both sides, and so is who sends to our service: its port is one that inside hosts may get, too.
    for (tags, from) in [(Tags::None, outside(0)), (INSIDE, inside(0))] {
        program.test.send(&tagged(&echo_frame(&program, from.ip(), STACK.into(), 9, false), tags));
        program.pass(300_000);
        let came: Vec<_> = hear(&mut program).iter().map(|(tags, frame)| (*tags, echo_of(frame))).collect();
        assert_eq!(came, [(tags, Some((STACK.into(), from.ip(), 9)))]);
        let delivered = |program: &Program| [0, 1, 2, 3].map(|lane| program.counts(lane).datagrams_in);
        let before = delivered(&program);
        for number in 0..20 {
            let (from, to) = (SocketAddr::new(from.ip(), 3000 + number), SocketAddr::new(STACK.into(), PORT));
            send(&program, tags, from, to, b"to us");
            program.pass(300_000);
            let came = datagrams(hear(&mut program));
            assert_eq!(came, [(tags, Datagram { from: to, to: from, payload: b"to us".to_vec() })], "{number}");
        }
        // Each lane has a socket there: nobody is brought to that of the port's lane.
        let now = delivered(&program);
        assert!(now.iter().zip(&before).all(|(now, before)| now > before), "{tags:?}: {before:?} {now:?}");
    }
    program.close();
}

/// What an inside host, or a router there, says of an answer is hashed by other ends than the flow. It finds the lane that has the session, so that senders outside hear of ports that
/// nobody has, and of links that carry less.
#[test]
fn errors_from_inside_find_the_lane_of_the_session() {
    for card in [Card::Aligned, Card::Scattered, Card::Plain] {
        let mut program = open(&Plan { card, change: translating, ..plan(4, 3) });
        for number in 0..40 {
            let (from, to) = (inside(number), outside(number));
            send(&program, INSIDE, from, to, b"question");
            program.pass(300_000);
            let left = datagrams(hear(&mut program)).remove(0).1;
            send(&program, Tags::None, to, left.from, b"answer");
            program.pass(300_000);
            let (tags, answer) = hear(&mut program).remove(0);
            assert_eq!((tags, datagram(&answer).unwrap().to), (INSIDE, from));
            let told = Message::Unreachable { code: Code::new(3).unwrap(), packet: &answer[14..] };
            let told = written(8 + answer.len() - 14, |writer| told.emit(writer));
            let teller = if number % 2 == 0 { from.ip() } else { ip("10.98.7.7") };
            let told = packets(teller, to.ip(), IpProtocol::ICMP, &told, 65_528, 7).remove(0);
            program.test.send(&tagged(&ethernet(mac(&program), EtherType::IPV4, &told), INSIDE));
            program.pass(300_000);
            let came = hear(&mut program);
            assert_eq!(came.len(), 1, "{number}: from {teller} of {from}");
            let packet = Packet::of_frame(&came[0].1).unwrap();
            let (Network::V4(view), UpperLayer::Icmp(message)) = (&packet.network, packet.transport) else { panic!() };
            let header = view.header().unwrap();
            assert!(view.is_checksum_right() && message.is_checksum_right());
            assert_eq!((came[0].0, header.source, IpAddr::V4(header.destination)), (Tags::None, STACK, to.ip()));
            let Message::Unreachable { packet, .. } = message.message().unwrap() else { panic!() };
            assert_eq!((&packet[16..20], &packet[22..24]), (&STACK.octets()[..], &left.from.port().to_be_bytes()[..]));
        }
        program.close();
    }
}

/// Whichever lane a packet comes to first, it is looked at there: no route of its sender's gets in by way of the lane whose port it is for.
#[test]
fn routes_of_senders_get_in_by_no_lane() {
    let mut program = open(&Plan { change: translating, ..plan(4, 3) });
    for number in 0..40_u16 {
        let (from, to) = (inside(u32::from(number)).ip(), outside(u32::from(number)).ip());
        program.test.send(&tagged(&echo_frame(&program, from, to, number, false), INSIDE));
        program.pass(300_000);
        let (source, destination, identification) = echo_of(&hear(&mut program)[0].1).unwrap();
        let reply = echo_frame(&program, destination, source, identification, true);
        program.test.send(&with_options(&reply, &[131, 7, 4, 10, 98, 0, 1, 0]));
        program.pass(300_000);
        // The sender may hear of it.
        assert!(hear(&mut program).iter().all(|(tags, _)| *tags == Tags::None), "{number}");
        program.test.send(&reply);
        program.pass(300_000);
        assert_eq!(hear(&mut program).iter().map(|(tags, _)| *tags).collect::<Vec<_>>(), [INSIDE], "{number}");
    }
    program.close();
}

/// By the outside address from inside, on whatever lanes both ways are.
#[test]
fn inside_hosts_meet_at_the_outside_address() {
    for card in [Card::Aligned, Card::Scattered] {
        let mut program = open(&Plan { card, change: translating, ..plan(4, 3) });
        let (server, door) = (SocketAddr::new(SERVER.into(), FORWARDED.1), SocketAddr::new(STACK.into(), FORWARDED.0));
        for number in 0..100 {
            send(&program, INSIDE, inside(number), door, b"question");
            program.pass(300_000);
            let came = datagrams(hear(&mut program));
            assert_eq!((came.len(), came[0].0, came[0].1.to, came[0].1.from.ip()), (1, INSIDE, server, STACK.into()));
            send(&program, INSIDE, server, came[0].1.from, b"answer");
            program.pass(300_000);
            let came = datagrams(hear(&mut program));
            let answer = Datagram { from: door, to: inside(number), payload: b"answer".to_vec() };
            assert_eq!(came, [(INSIDE, answer)], "{number}");
        }
        program.close();
    }
}

/// What a lane brings to another was judged where it came, and is judged there alone.
#[test]
fn what_is_brought_to_another_lane_is_counted_once() {
    let mut program = open(&Plan { change: translating, ..plan(4, 3) });
    let set = Arc::new(rules("add 100 count icmp from any to any in").compile(Execution::Tree));
    tell(&mut program, &Policy::Rules(set.clone()));
    for number in 0..40_u16 {
        let (from, to) = (inside(u32::from(number)).ip(), outside(u32::from(number)).ip());
        program.test.send(&tagged(&echo_frame(&program, from, to, number, false), INSIDE));
        program.pass(300_000);
        for (_, frame) in hear(&mut program) {
            let (source, destination, identification) = echo_of(&frame).unwrap();
            program.test.send(&echo_frame(&program, destination, source, identification, true));
        }
        program.pass(300_000);
        assert_eq!(hear(&mut program).len(), 1, "{number}");
    }
    assert!(nat_counts(&mut program).iter().map(|counts| counts.elsewhere).sum::<u64>() > 10);
    assert_eq!(counted(&mut program)[&id_of(&set, 100)].packets, 80);
    program.close();
}

/// A session whose time is over is not shown, though no packet has come since.
#[test]
fn who_looks_sees_no_session_that_has_ended() {
    let mut program = open(&Plan { change: translating, ..plan(2, 5) });
    send(&program, INSIDE, inside(3), outside(1), b"one");
    program.pass(1_000_000);
    let in_use = |program: &mut Program| look(program, |view| view.nat_in_use().unwrap().0).into_iter().sum::<usize>();
    assert_eq!(in_use(&mut program), 1);
    program.pass(302_000_000_000);
    assert_eq!(in_use(&mut program), 0);
    program.close();
}

/// Whichever lane gets it, and whosever the port is: what nothing leads on from is answered in our address, to the inside host as he knows himself.
#[test]
fn who_wants_what_nobody_has_hears_so_on_each_lane() {
    for card in [Card::Aligned, Card::Scattered] {
        let mut program = open(&Plan { card, change: translating, ..plan(4, 3) });
        for (tags, from) in [(INSIDE, inside(3)), (Tags::None, outside(3))] {
            for number in 0..40 {
                let (from, to) = (SocketAddr::new(from.ip(), 3000 + number), SocketAddr::new(STACK.into(), 1030 + 1600 * number));
                send(&program, tags, from, to, b"anybody?");
                // A lane that has not heard its neighbour for long asks for him first.
                let mut came = Vec::new();
                for _ in 0..2 {
                    program.pass(100_000_000);
                    came.extend(hear(&mut program));
                }
                assert_eq!(came.iter().map(|came| came.0).collect::<Vec<_>>(), [tags], "{from} to {to}");
                let packet = Packet::of_frame(&came[0].1).unwrap();
                let (Network::V4(view), UpperLayer::Icmp(message)) = (&packet.network, packet.transport) else {
                    panic!("{packet:?}")
                };
                let header = view.header().unwrap();
                assert_eq!((IpAddr::V4(header.source), IpAddr::V4(header.destination)), (to.ip(), from.ip()));
                let Message::Unreachable { code, packet } = message.message().unwrap() else { panic!("{message:?}") };
                let ends = [from.port().to_be_bytes(), to.port().to_be_bytes()].concat();
                assert_eq!((code.number(), &packet[20..24]), (3, &ends[..]));
                assert!(view.is_checksum_right() && message.is_checksum_right());
            }
        }
        program.close();
    }
}

/// Somebody who looks, and writes it down by lane.
#[derive(Debug)]
struct Looker<T>(Mutex<BTreeMap<usize, T>>, fn(&View<'_>) -> T);

impl<T: std::fmt::Debug + Send> Look for Looker<T> {
    fn look(&self, view: &View<'_>) {
        let before = self.0.lock().unwrap().insert(view.lane, (self.1)(view));
        assert!(before.is_none(), "each lane shows it once");
    }
}

/// Tells all lanes, and waits until each has carried it out.
fn tell(program: &mut Program, policy: &Policy) {
    let note = Arc::new(());
    for lane in 0..program.lanes.len() {
        program.tell.tell(lane, policy.clone()).unwrap();
        program.tell.tell(lane, Policy::Noted(note.clone())).unwrap();
    }
    for _ in 0..1000 {
        if Arc::strong_count(&note) == 1 {
            return;
        }
        program.pass(10_000);
    }
    panic!("a lane has not heard");
}

fn look<T: std::fmt::Debug + Send + 'static>(program: &mut Program, of: fn(&View<'_>) -> T) -> Vec<T> {
    let looker = Arc::new(Looker(Mutex::default(), of));
    tell(program, &Policy::Look(looker.clone()));
    let found = std::mem::take(&mut *looker.0.lock().unwrap());
    assert_eq!(found.len(), program.lanes.len());
    found.into_values().collect()
}

fn nat_counts(program: &mut Program) -> Vec<corelane_nat::Counts> {
    look(program, |view| view.nat().unwrap())
}

fn rules(lines: &str) -> Rules {
    let mut rules = Rules::new(true, Limits::default());
    rules.name_interfaces(["out", "in"].map(String::from).to_vec()).unwrap();
    apply(&mut rules, lines);
    rules
}

fn apply(rules: &mut Rules, lines: &str) {
    let script: String = lines.lines().map(|line| format!("ipfw {line}\n")).collect();
    rules.apply_all(import(&script).unwrap().into_iter().map(|(_, command)| command)).unwrap();
}

/// What each rule of the set in force has counted on all lanes.
fn counted(program: &mut Program) -> BTreeMap<RuleId, Count> {
    let mut all = BTreeMap::<RuleId, Count>::new();
    let each = look(program, |view| {
        let rules = view.rules().unwrap().rules();
        rules.map(|(id, ..)| (id, view.records().count(id))).collect::<Vec<_>>()
    });
    each.into_iter().flatten().for_each(|(id, count)| *all.entry(id).or_default() += count);
    all
}

/// A packet as rules see it that comes from inside, and before it leaves.
fn facts(from: SocketAddr, to: SocketAddr, payload: usize) -> [Facts; 2] {
    let come = Facts {
        receive: Interface(2),
        protocol: 17,
        transport: Seen::Ports(from.port(), to.port()),
        length: 28 + payload as u16,
        ..Facts::between(from.ip(), to.ip())
    };
    [come, Facts { direction: Direction::Out, transmit: Interface(1), ..come }]
}

/// The tree on several lanes counts what the reference counts of the same packets, each of which is looked at twice if it goes on.
#[test]
fn lanes_count_what_the_reference_counts() {
    let lines = "add count ip from 10.98.0.0/25 to any in
        add count udp from any 1024-1030 to any out via out
        add skipto 500 udp from any to 192.0.2.0/30
        add deny udp from any to any iplen 40-60 in
        add 500 count ip from any to me
        add deny udp from any 1029 to any out
        add count ip from any to any recv in xmit out
        add count ip from 10.98.0.128/25 to 192.0.2.0/24";
    let mut rules = rules(lines);
    let flat = rules.clone().compile(Execution::Flat);
    let mut program = open(&Plan { change: gateway, ..plan(4, 5) });
    tell(&mut program, &Policy::Rules(Arc::new(rules.compile(Execution::Tree))));
    let (mut records, mut left, mut came) = (Records::default(), 0, 0);
    for number in 0..3000_u32 {
        let (from, to) = (inside(number * 7 % 3000), outside(number));
        let payload = vec![1; 8 + number as usize % 40];
        send(&program, INSIDE, from, to, &payload);
        left += u32::from(facts(from, to, payload.len()).iter().all(|facts| flat.judge(facts, 1, &mut records).is_allowed()));
        if number % 50 == 49 {
            program.pass(300_000);
            came += hear(&mut program).len() as u32;
        }
    }
    assert_eq!(came, left);
    assert!((500..2900).contains(&left), "{left}");
    let counts = counted(&mut program);
    for (id, number, rule) in flat.rules() {
        let (expected, found) = (records.count(id), counts[&id]);
        assert_eq!((expected.packets, expected.bytes), (found.packets, found.bytes), "{number} {rule}");
    }
    let each = look(&mut program, |view| view.records().count(view.rules().unwrap().rules().next().unwrap().0).packets);
    assert!(each.iter().all(|count| *count > 50), "{each:?}");
    let kept: u64 = (0..4).map(|lane| program.counts(lane).of(Drop::Judged)).sum();
    assert_eq!(kept, u64::from(3000 - left));
    program.close();
}

fn id_of(set: &RuleSet, number: u16) -> RuleId {
    set.rules().find(|(_, of, _)| *of == number).unwrap().0
}

/// Sets are swapped under load a hundred times: each packet meets one of them whole, none is lost, and no count is.
#[test]
fn a_swap_of_rules_loses_no_count_and_no_packet_meets_half_a_set() {
    let lines = "add 100 count ip from any to any
        add 200 set 1 count ip from any to any
        add 300 set 2 count ip from any to any
        add 400 set 1 count ip from any to any
        add 500 set 2 count ip from any to any
        set disable 2";
    let mut rules = rules(lines);
    let first = Arc::new(rules.compile(Execution::Tree));
    let mut program = open(&Plan { change: gateway, ..plan(4, 5) });
    tell(&mut program, &Policy::Rules(first.clone()));
    let (mut sent, mut came) = (0, 0);
    for swap in 0..100 {
        apply(&mut rules, if swap % 2 == 0 { "set disable 1 enable 2" } else { "set disable 2 enable 1" });
        let set = Arc::new(rules.compile(if swap % 3 == 0 { Execution::Skipto } else { Execution::Tree }));
        for number in 0..40_u32 {
            send(&program, INSIDE, inside(number), outside(number), b"under load");
            sent += 1;
            if number == 20 {
                (0..4).for_each(|lane| program.tell.tell(lane, Policy::Rules(set.clone())).unwrap());
            }
        }
        program.pass(100_000);
        came += hear(&mut program).len();
    }
    program.pass(1_000_000);
    came += hear(&mut program).len();
    assert_eq!(came, sent);
    apply(&mut rules, "set enable 1 2");
    let all = Arc::new(rules.compile(Execution::Tree));
    tell(&mut program, &Policy::Rules(all.clone()));
    let counts = counted(&mut program);
    let of = |number| counts[&id_of(&all, number)].packets;
    // Nobody asks lanes for anything else meanwhile: each packet was judged when it came and when it left.
    assert_eq!((of(100), of(200) + of(300)), (2 * sent as u64, 2 * sent as u64));
    assert!(of(200) == of(400) && of(300) == of(500) && of(200) > 1000 && of(300) > 1000);
    // Counters go back to 0 for those that are named, on each lane.
    let named: Arc<[RuleId]> = [id_of(&all, 200), id_of(&all, 300)].into();
    tell(&mut program, &Policy::ZeroRules(named));
    let counts = counted(&mut program);
    assert_eq!([100, 200, 300].map(|number| counts[&id_of(&all, number)].packets), [2 * sent as u64, 0, 0]);
    program.close();
}

/// Ten thousand changes are made while packets pass, some in each turn; none of the packets is lost.
#[test]
fn many_routes_change_and_no_packet_waits_for_all_of_them() {
    const CHANGES: u32 = 10_000;
    let mut program = open(&Plan { change: gateway, ..plan(2, 5) });
    let route = |number: u32| Route {
        destination: IpAddr::V4(Ipv4Addr::from_bits(0x1400_0000 + (number << 8))),
        bits: 24,
        router: ROUTER.into(),
        interface: None,
    };
    let to = |number: u32| SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(0x1400_0009 + (number << 8))), 53);
    let added: Arc<[_]> = (0..CHANGES).map(|number| RouteChange::Add(route(number))).collect();
    let note = Arc::new(());
    let before = program.seen.turns;
    (0..2).for_each(|lane| program.tell.tell(lane, Policy::Routes(added.clone())).unwrap());
    (0..2).for_each(|lane| program.tell.tell(lane, Policy::Noted(note.clone())).unwrap());
    let (mut sent, mut came, mut early) = (0, Vec::new(), 0);
    while Arc::strong_count(&note) > 1 {
        assert!(sent < 100_000, "they come to an end");
        send(&program, INSIDE, inside(sent), to(CHANGES - 1), b"while routes change");
        sent += 1;
        program.pass(3_000);
        came.extend(hear(&mut program));
        early = came.len();
    }
    let turns = program.seen.turns - before;
    assert!(turns >= 2 * CHANGES as usize / 128, "{turns} turns");
    assert!(early > 0, "packets pass meanwhile");
    program.pass(1_000_000);
    came.extend(hear(&mut program));
    // Before the last change they go by the old way, behind it by the new one.
    assert_eq!(came.len(), sent as usize);
    assert_eq!(came[0].0, Tags::None);
    send(&program, Tags::None, outside(0), to(CHANGES - 1), b"behind");
    program.pass(1_000_000);
    assert_eq!(hear(&mut program)[0].0, INSIDE);
    let deleted: Vec<_> = (0..CHANGES)
        .map(route)
        .map(|Route { destination, bits, router, .. }| RouteChange::Delete { destination, bits, router })
        .collect();
    tell(&mut program, &Policy::Routes(deleted.into()));
    let ways =
        look(&mut program, |view| [0x1400_0009, 0x1427_0f09].map(|bits| view.way(Ipv4Addr::from_bits(bits).into()).unwrap().1));
    assert_eq!(ways, [[IpAddr::V4(TEST); 2]; 2]);
    program.close();
}

/// A lane with a million routes, told while it runs, sends each packet by its own.
#[test]
fn a_million_routes_lead_where_they_say() {
    const ROUTES: u32 = 1_000_000;
    let mut program = open(&Plan { change: gateway, ..plan(1, 5) });
    // Every other one leads to the inside.
    let route = |number: u32| Route {
        destination: IpAddr::V4(Ipv4Addr::from_bits(0x1400_0000 + (number << 8))),
        bits: 24,
        router: if number.is_multiple_of(2) { ROUTER.into() } else { TEST.into() },
        interface: None,
    };
    let note = Arc::new(());
    program.tell.tell(0, Policy::Routes((0..ROUTES).map(|number| RouteChange::Add(route(number))).collect())).unwrap();
    program.tell.tell(0, Policy::Noted(note.clone())).unwrap();
    for _ in 0..ROUTES {
        if Arc::strong_count(&note) == 1 {
            break;
        }
        program.pass(10_000);
    }
    assert_eq!(Arc::strong_count(&note), 1, "the lane has them all");
    for number in 0..500_u32 {
        let place = number.wrapping_mul(2_654_435_761) % ROUTES;
        let to = SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(0x1400_0009 + (place << 8))), 53);
        send(&program, INSIDE, inside(number), to, b"one of a million");
        program.pass(400_000);
        let tags: Vec<_> = hear(&mut program).iter().map(|(tags, _)| *tags).collect();
        assert_eq!(tags, [if place.is_multiple_of(2) { INSIDE } else { Tags::None }], "{place}");
    }
    // Behind the last there is none.
    let ways = look(&mut program, |view| {
        let last = 0x1400_0009 + ((ROUTES - 1) << 8);
        [last - (1 << 8), last, last + (1 << 8)].map(|bits| view.way(Ipv4Addr::from_bits(bits).into()).unwrap().1)
    });
    assert_eq!(ways, [[ROUTER.into(), TEST.into(), IpAddr::V4(TEST)]]);
    program.close();
}

#[test]
fn lines_of_rules_reach_the_operator_in_ipfws_words() {
    let mut rules =
        rules("add 100 deny log udp from any to 192.0.2.3 in\nadd 200 count log logamount 2 ip from any to any out via out");
    let set = Arc::new(rules.compile(Execution::Tree));
    let mut program = open(&Plan { change: gateway, ..plan(2, 5) });
    tell(&mut program, &Policy::Rules(set.clone()));
    for number in 0..7 {
        send(&program, INSIDE, inside(3), outside(number), b"said");
    }
    program.pass(1_000_000);
    let lines = |program: &Program| {
        let mut lines = std::mem::take(&mut *program.seen.lines.borrow_mut());
        lines.sort();
        lines
    };
    let told = lines(&program);
    assert_eq!(told[0], "ipfw: 100 Deny UDP 10.98.0.103:1024 192.0.2.3:53 in via in");
    // Each lane has two of the other.
    assert!(
        told[1..]
            .iter()
            .all(|line| line.starts_with("ipfw: 200 Count UDP 10.98.0.103:1024 192.0.2.") && line.ends_with(" out via out"))
    );
    assert_eq!(told.len(), 5);
    let named: Arc<[RuleId]> = [id_of(&set, 200)].into();
    tell(&mut program, &Policy::ResetLog(named));
    send(&program, INSIDE, inside(3), outside(0), b"again");
    program.pass(1_000_000);
    assert_eq!(lines(&program).len(), 1);
    program.close();
}

/// Names of interfaces, neighbours and ways are seen as they are on the lane.
#[test]
fn who_looks_sees_what_there_is() {
    let mut program = open(&Plan { change: translating, ..plan(2, 5) });
    send(&program, INSIDE, inside(3), outside(1), b"one");
    for _ in 0..2 {
        program.pass(1_000_000);
        hear(&mut program);
    }
    let seen = look(&mut program, |view| {
        let known: Vec<_> = view.neighbours().collect();
        let traffic: Vec<_> = view.traffic().iter().map(|one| (one.packets_in, one.packets_out)).collect();
        (view.way(ip("192.0.2.1")), view.is_own(STACK.into()), known, traffic, view.nat_in_use().unwrap(), view.now > 0)
    });
    assert!(seen.iter().all(|(way, is_own, ..)| (*way, *is_own) == (Some((0, TEST.into())), true)));
    // The lane that has sent something to one knows him.
    let mut known: Vec<_> = seen.iter().map(|(_, _, known, ..)| known.clone()).collect();
    known.sort();
    assert_eq!(known, [[(0, 0), (0, 0)], [(1, 0), (0, 0)]]);
    let mut traffic: Vec<_> = seen.iter().map(|(.., traffic, in_use, _)| (traffic.clone(), *in_use)).collect();
    traffic.sort();
    assert_eq!(traffic, [(vec![(0, 0), (0, 0)], (0, 0)), (vec![(0, 1), (1, 0)], (1, 1))]);
    assert!(seen.iter().all(|seen| seen.5));
    program.close();
}
