//! What the stack itself sends meets the rules before it leaves, as with ipfw; what keeps a link going meets none.

use crate::forwarded::{changed, told};
use crate::forwarding::{PLACES, ask, datagram, four, host, open, routed};
use crate::frames::{self, addresses, discovery, ethernet, packets, solicitation, udp, udp_in, written};
use crate::gateway::{Came, Gateway, ip, question};
use crate::nat::{EXTERNAL, FORWARDED, translating};
use crate::presence::query;
use crate::rules::{compiled, counted, segment};
use corelane_seam::{Bind, DatagramOp, DatagramOutcome, Driver, Handle, Outcome, Socket, Trains};
use corelane_stack::{Advertised, Drop, ReversePath, Settings};
use corelane_wire::packet::ethernet::Mac;
use corelane_wire::packet::icmp::{Echo, Message};
use corelane_wire::packet::neighbour::{Message as Neighbour, Options};
use corelane_wire::packet::tcp::Flags;
use corelane_wire::packet::{EtherType, IpProtocol, icmpv6};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

fn end(address: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(address, port)
}

fn ruled(set: &str) -> Gateway {
    open(&routed(four()).with_rules(compiled(set)))
}

/// Packets that each rule has counted, but the last.
fn packets_of(gateway: &Gateway) -> Vec<u64> {
    counted(gateway).into_iter().map(|(packets, _)| packets).collect()
}

/// A ping of the host at a place for an address of the stack's.
fn ping(gateway: &Gateway, place: usize, to: IpAddr) -> Vec<u8> {
    let (from, request) = (host(place, to.is_ipv6(), 9), Echo { identification: 7, sequence: 9, data: b"ping" });
    let v6 = to.is_ipv6();
    let message = written(12, |writer| match v6 {
        false => Message::EchoRequest(request).emit(writer),
        true => icmpv6::Message::EchoRequest(request).emit(&addresses(from, to), writer),
    });
    let (protocol, kind) = if v6 { (IpProtocol::ICMPV6, EtherType::IPV6) } else { (IpProtocol::ICMP, EtherType::IPV4) };
    ethernet(gateway.mac(PLACES[place].0), kind, &packets(from, to, protocol, &message, 65_528, 7).remove(0))
}

fn bind(gateway: &mut Gateway, at: SocketAddr) -> Socket {
    let bind = Bind {
        address: at.into(),
        peer: None,
        share_port: false,
        v6_only: false,
        receive_buffer_bytes: 1 << 16,
        send_buffer_bytes: 0,
    };
    gateway.stack.bind(&bind).unwrap()
}

/// Has a socket send a datagram. Its end says that it was sent; what came of it.
fn send(gateway: &mut Gateway, socket: Socket, to: SocketAddr, payload: &[u8]) -> Vec<Came> {
    let mut trains = Trains::new();
    assert!(trains.add_single(&to.into(), None, 0, gateway.arena.copy_of(payload).unwrap().share().into()));
    let handle = Handle::new(1, 7, 0).of(1);
    gateway.stack.push(handle, DatagramOp::Send { socket, trains }.into());
    let came = gateway.hear();
    let place = gateway.completions.iter().position(|completion| completion.handle == handle).unwrap();
    match gateway.completions.remove(place).outcome {
        Outcome::Datagram(DatagramOutcome::Departed { datagrams: 1, refused: 0, .. }) => came,
        other => panic!("{other:?}"),
    }
}

#[test]
fn answers_to_pings_are_judged_out_with_all_that_rules_ask_for() {
    let set = "count icmp from me to 10.0.0.9 out xmit eth0.7 icmptypes 0 iplen 32
        count ipv6-icmp from me6 to fd00::9 out via eth0.7 icmp6types 129 iplen 52
        count ip from me to any
        count ip from any to any out recv any
        count ip from any to any out xmit eth0
        count ip from any to me out
        count ip from any to any out frag";
    let mut gateway = ruled(set);
    for v6 in [false, true] {
        let frame = ping(&gateway, 0, host(0, v6, 1));
        assert_eq!(ask(&mut gateway, 0, &frame).len(), 1);
    }
    assert_eq!(packets_of(&gateway), [1, 1, 2, 0, 0, 0, 0]);
    assert_eq!(counted(&gateway)[2].1, 32 + 52);
    // An answer leaves by the way back, whatever link our address is of.
    let frame = ping(&gateway, 0, host(2, false, 1));
    assert_eq!(ask(&mut gateway, 0, &frame).len(), 1);
    assert_eq!(packets_of(&gateway)[..3], [2, 1, 3]);
}

#[test]
fn datagrams_of_sockets_are_judged_whole_before_they_are_cut() {
    let set = "count udp from me 7000 to 10.1.0.9 9 out via eth0.8 iplen 3028
        count udp from me to any out frag
        deny udp from me to any 10 out";
    let mut gateway = ruled(set);
    let socket = bind(&mut gateway, end(host(1, false, 1), 7000));
    let came = send(&mut gateway, socket, end(host(1, false, 9), 9), &[5; 3000]);
    assert_eq!((came.len(), gateway.stack.counts().fragments_out), (3, 3));
    assert_eq!(packets_of(&gateway), [1, 0, 0]);
    // What rules keep back leaves no trace but their counts, and its sender goes on.
    assert!(send(&mut gateway, socket, end(host(1, false, 9), 10), &[5; 3000]).is_empty());
    assert_eq!(packets_of(&gateway), [1, 0, 1]);
    let counts = *gateway.stack.counts();
    assert_eq!((counts.fragments_out, counts.datagrams_out, counts.of(Drop::Judged), counts.dropped()), (3, 1, 1, 1));
    assert_eq!(
        gateway.losses().iter().map(|losses| losses.refused).collect::<Vec<_>>(),
        [0, 0, 1, 0, 0],
        "where it was to leave"
    );
    assert_eq!(send(&mut gateway, socket, end(host(1, false, 9), 9), b"on").len(), 1);
    assert!(gateway.memories.iter().all(|memory| memory.counts().held == 0), "nothing is kept");
}

/// What a rule keeps of a flow that we begin lets its answers in.
#[test]
fn a_state_of_what_we_ask_lets_answers_in() {
    let set = "check-state
        allow udp from me to any 53 out keep-state
        deny udp from any to any";
    let mut gateway = ruled(set);
    let (ours, theirs) = (end(host(0, false, 1), 7000), end(host(0, false, 9), 53));
    let socket = bind(&mut gateway, ours);
    let answer = udp(gateway.mac(0), theirs, ours, b"answer");
    ask(&mut gateway, 0, &answer);
    assert_eq!((gateway.stack.counts().datagrams_in, gateway.stack.view().records().states()), (0, 0));
    assert_eq!(send(&mut gateway, socket, theirs, b"question").len(), 1);
    ask(&mut gateway, 0, &answer);
    assert_eq!((gateway.stack.counts().datagrams_in, gateway.stack.view().records().states()), (1, 1));
}

/// RFC 1812, section 4.3.2: whatever is wrong, the word about it is ours.
#[test]
fn errors_are_judged_out_and_those_that_rules_refuse_are_silent() {
    let far = |v6| ip(if v6 { "2001:db8::1" } else { "192.0.2.1" });
    for v6 in [false, true] {
        let counts = "count icmp from me to 10.0.0.9 out via eth0.7 icmptypes 3\ncount ipv6-icmp from me to fd00::9 out via eth0.7 icmp6types 1";
        let mut gateway = open(&four().with_rules(compiled(counts)));
        let frame = datagram(&gateway, 0, (host(0, v6, 9), far(v6)), 100);
        assert_eq!(ask(&mut gateway, 0, &frame).len(), 1);
        assert_eq!(packets_of(&gateway), if v6 { [0, 1] } else { [1, 0] });
        let mut gateway = open(&four().with_rules(compiled("reject ip from me to any\nunreach6 port ip from me to any")));
        for _ in 0..3 {
            assert!(ask(&mut gateway, 0, &frame).is_empty());
        }
        let counts = gateway.stack.counts();
        // Once for want of a way, once for the rule.
        assert_eq!((counts.of(Drop::NoRoute), counts.of(Drop::Judged), counts.errors_out), (3, 3, 0));
        assert_eq!(packets_of(&gateway), [3, 0], "each error meets the rules once, and nothing is said of it");
    }
}

/// A rule that refuses all refuses what we would say of that, too.
#[test]
fn who_refuses_all_hears_nothing_of_it() {
    let mut gateway = ruled("reject ip from any to any\nunreach6 port ip from any to any");
    let frame = datagram(&gateway, 0, (host(0, false, 9), host(1, false, 9)), 100);
    assert!(ask(&mut gateway, 0, &frame).is_empty());
    assert_eq!((packets_of(&gateway), gateway.stack.counts().of(Drop::Judged)), (vec![2, 0], 2));
    // Of those that let our own packets out, he does.
    let mut gateway = ruled("allow ip from me to any out\nreject ip from any to any");
    let came = ask(&mut gateway, 0, &frame);
    assert_eq!(told(&came, 0).0, (3, 1, 0));
    assert_eq!((packets_of(&gateway), gateway.stack.counts().of(Drop::Judged)), (vec![1, 1], 1));
}

/// A reset that a rule asks for is the rules' own word; one that says that nobody listens is ours.
#[test]
fn a_reset_of_a_rule_is_not_judged_and_one_of_ours_is() {
    for (to, way) in [(1, "in"), (9, "out")] {
        let to = host(usize::from(to == 9), false, to);
        let mut gateway = ruled("reset tcp from any to any");
        let frame = segment(&gateway, 0, (host(0, false, 9), to), Flags::SYN);
        assert_eq!(ask(&mut gateway, 0, &frame).len(), 1, "{way}");
        assert_eq!(packets_of(&gateway), [1], "{way}");
    }
    let mut gateway = ruled("reset tcp from any to any out");
    let frame = segment(&gateway, 0, (host(0, false, 9), host(1, false, 9)), Flags::SYN);
    assert_eq!((ask(&mut gateway, 0, &frame).len(), packets_of(&gateway)), (1, vec![1]));
    let mut gateway = ruled("reset tcp from me 80 to 10.0.0.9 4000 out tcpflags rst");
    let frame = segment(&gateway, 0, (host(0, false, 9), host(0, false, 1)), Flags::SYN);
    assert!(ask(&mut gateway, 0, &frame).is_empty());
    assert_eq!((packets_of(&gateway), gateway.stack.counts().errors_out), (vec![1], 0));
}

/// What goes to ourselves leaves by no interface.
#[test]
fn what_we_send_to_ourselves_is_judged_when_it_comes() {
    let mut gateway = ruled("count udp from me to me in\ncount ip from any to any out");
    let (one, other) = (end(host(0, false, 1), 7000), end(host(1, false, 1), 7001));
    let socket = bind(&mut gateway, one);
    let _its_peer = bind(&mut gateway, other);
    assert!(send(&mut gateway, socket, other, b"to ourselves").is_empty());
    assert_eq!((packets_of(&gateway), gateway.stack.counts().datagrams_in), (vec![1, 0], 1));
}

/// A message of DHCP, without names and with what it is about alone.
fn dhcp(operation: u8, relay: [u8; 4], yours: [u8; 4]) -> Vec<u8> {
    let mut message = vec![0; 300];
    message[..3].copy_from_slice(&[operation, 1, 6]);
    message[16..20].copy_from_slice(&yours);
    message[24..28].copy_from_slice(&relay);
    message[28..34].copy_from_slice(&[2, 7, 7, 7, 7, 7]);
    message[236..244].copy_from_slice(&[99, 130, 83, 99, 53, 1, 1, 255]);
    message
}

#[test]
fn relayed_messages_are_judged_out() {
    let relaying = |set: &str| {
        let mut settings = routed(four()).with_rules(compiled(set));
        settings.interfaces[1].relay = vec!["10.3.0.9".parse().unwrap()];
        open(&settings)
    };
    let asked =
        udp_in(Mac::BROADCAST, end(ip("0.0.0.0"), 68), end(ip("255.255.255.255"), 67), &dhcp(1, [0; 4], [0; 4]), 65_528, 1);
    let told = |gateway: &Gateway| {
        let message = dhcp(2, [10, 0, 0, 1], [10, 0, 0, 50]);
        udp_in(gateway.mac(1), end(host(3, false, 9), 67), end(host(0, false, 1), 67), &message, 65_528, 1).remove(0)
    };
    let mut gateway =
        relaying("count udp from me 67 to 10.3.0.9 67 out via eth1\ncount udp from me 67 to 10.0.0.50 68 out via eth0.7");
    assert_eq!(ask(&mut gateway, 0, &asked[0]).len(), 1);
    let frame = told(&gateway);
    assert_eq!(ask(&mut gateway, 3, &frame).len(), 1);
    assert_eq!(packets_of(&gateway), [1, 1]);
    let mut gateway = relaying("deny udp from me 67 to any out");
    assert!(ask(&mut gateway, 0, &asked[0]).is_empty());
    assert!(ask(&mut gateway, 3, &frame).is_empty());
    assert_eq!((packets_of(&gateway), gateway.stack.counts().of(Drop::Judged)), (vec![2], 2));
    assert!(gateway.memories.iter().all(|memory| memory.counts().held == 0), "nothing is kept");
}

/// The first place's network has an address of the link, and says that a router is there.
fn linked() -> Settings {
    let mut settings = routed(four());
    settings.interfaces[1].networks.push(corelane_stack::Network { address: ip("fe80::1"), bits: 64 });
    settings.interfaces[1].advertises = Some(Advertised { lifetime: 900, ..Advertised::default() });
    settings.with_rules(compiled("deny ip from any to any"))
}

/// Types of ICMP for IPv6 among frames.
fn kinds(came: &[Came]) -> Vec<u8> {
    let of_v6 = came.iter().filter(|came| came.packet()[0] >> 4 == 6);
    let kind = |came: &Came| if came.packet()[6] == 0 { came.packet()[48] } else { came.packet()[40] };
    of_v6.map(kind).collect()
}

/// ARP, neighbour discovery, words about listeners and advertisements of a router go both ways, whatever rules say.
#[test]
fn who_denies_all_still_has_neighbours() {
    let mut gateway = open(&linked());
    let frame = question("10.0.0.9".parse().unwrap(), "10.0.0.1".parse().unwrap());
    let came = ask(&mut gateway, 0, &frame);
    assert_eq!(came.iter().filter(|came| came.frame[12..14] == [8, 6]).count(), 1, "ARP is no IP: {came:?}");
    let came = ask(&mut gateway, 0, &solicitation("fd00::1".parse().unwrap(), 255));
    assert_eq!(kinds(&came), [136], "who asks for us is answered");
    let link: Ipv6Addr = "fe80::77".parse().unwrap();
    let asks = Neighbour::RouterSolicitation { options: Options::new(&[]).unwrap() };
    let asks = discovery(Mac([0x33, 0x33, 0, 0, 0, 2]), (link, "ff02::2".parse().unwrap()), &asks, 65_528).remove(0);
    let (mut said, who) = (Vec::new(), PLACES[0]);
    for _ in 0..8 {
        gateway.send(who.0, who.1, &asks);
        gateway.send(who.0, who.1, &query(link, 1, true, Ipv6Addr::UNSPECIFIED, 28));
        said.extend(kinds(&gateway.hear()));
        gateway.world.pass(Duration::from_secs(1));
    }
    assert!(said.contains(&134) && said.contains(&143), "{said:?}");
    assert_eq!((packets_of(&gateway), gateway.stack.counts().dropped()), (vec![0], 0));
    // A neighbour whom we ask for is heard: what waited for him leaves once rules let it.
    let mut gateway = open(&linked().with_rules(compiled("deny ip from any to me")));
    let frame = datagram(&gateway, 0, (host(0, true, 9), host(1, true, 9)), 100);
    let came = ask(&mut gateway, 0, &frame);
    assert_eq!(came.iter().filter(|came| came.packet()[6] == IpProtocol::UDP.0).count(), 1, "{came:?}");
    assert_eq!((packets_of(&gateway), gateway.questions), (vec![0], 1));
}

/// Who is not of the link is judged, whatever he says.
#[test]
fn words_of_neighbours_from_elsewhere_are_judged() {
    let mut gateway = open(&linked());
    let near: Ipv6Addr = "fe80::77".parse().unwrap();
    let far = changed(&solicitation("fd00::1".parse().unwrap(), 255), |packet| packet[7] = 254);
    let queried = query(near, 2, true, Ipv6Addr::UNSPECIFIED, 28);
    let mut sent = 0;
    let first = ping(&gateway, 0, host(0, true, 1));
    for frame in [far, queried, first] {
        assert!(ask(&mut gateway, 0, &frame).is_empty());
        sent += 1;
        assert_eq!((packets_of(&gateway)[0], gateway.stack.counts().of(Drop::Judged)), (sent, sent));
    }
    // In fragments they are nobody's word of the link (RFC 6980).
    let asks = Neighbour::Solicitation {
        target: "fd00::1".parse().unwrap(),
        options: Options::new(&[1, 1, 2, 0, 0, 0, 0, 99]).unwrap(),
    };
    let parts = discovery(gateway.mac(0), ("fd00::9".parse().unwrap(), "fd00::1".parse().unwrap()), &asks, 16);
    assert!(parts.len() > 1 && parts.iter().all(|part| ask(&mut gateway, 0, part).is_empty()));
    assert_eq!(packets_of(&gateway), [sent + 1]);
}

/// A service of ours reaches an inside host by a forwarded port of our own outside address, though nobody may send from there by any interface.
#[test]
fn own_words_reach_a_forwarded_port() {
    let mut settings = translating();
    settings.interfaces.iter_mut().for_each(|one| one.reverse_path = ReversePath::Strict);
    let mut gateway = open(&settings);
    let own = end(EXTERNAL.into(), 60_007);
    let socket = bind(&mut gateway, own);
    let came = send(&mut gateway, socket, end(EXTERNAL.into(), FORWARDED.0), b"to a host");
    assert_eq!((came.len(), came[0].port, came[0].tags), (1, PLACES[1].0, PLACES[1].1));
    let found = frames::datagram(&came[0].frame).unwrap();
    assert_eq!((found.from, found.to, &found.payload[..]), (own, end(host(1, false, 9), FORWARDED.1), &b"to a host"[..]));
}
