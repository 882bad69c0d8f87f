//! A frame in words, header by header and field by field, as the script for Scapy tells it too.

use corelane_wire::packet::extension::{Extension, Kind};
use corelane_wire::packet::{
    EtherType, IpProtocol, Network, Packet, Tunnel, UpperLayer, ethernet, icmp, icmpv6, ipv4, ipv6, neighbour, tcp, vlan,
};
use std::net::Ipv6Addr;

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// All of a frame.
pub fn frame(bytes: &[u8]) -> String {
    let mut layers = links(bytes);
    tell(&Packet::of_frame(bytes).unwrap(), &mut layers);
    layers.join("|")
}

/// What the innermost packet of a frame carries, headers in front; none if it is not IP.
pub fn innermost(bytes: &[u8]) -> Option<&[u8]> {
    let mut packet = Packet::of_frame(bytes).unwrap();
    while let Some((_, inner)) = packet.inner().unwrap() {
        packet = inner;
    }
    packet.carried().map(|(_, bytes)| bytes)
}

/// Ethernet and its tags.
fn links(bytes: &[u8]) -> Vec<String> {
    let view = ethernet::View::new(bytes).unwrap();
    let header = view.header();
    let mut layers = vec![format!("eth:{},{},{}", header.destination, header.source, header.protocol.number())];
    let (mut protocol, mut rest) = (header.protocol, view.payload());
    while protocol.is_vlan() {
        let view = vlan::View::new(rest).unwrap();
        let tag = view.tag();
        let eligible = u8::from(tag.is_drop_eligible());
        layers.push(format!("vlan:{},{eligible},{},{}", tag.priority(), tag.number(), tag.protocol.number()));
        (protocol, rest) = (tag.protocol, view.payload());
    }
    layers
}

fn tell(packet: &Packet<'_>, layers: &mut Vec<String>) {
    match packet.network {
        Network::V4(view) => {
            assert!(view.is_checksum_right());
            layers.push(v4(&view));
        }
        Network::V6(view, _) => v6(&view, layers),
        Network::Arp(message) => {
            let ends = [(message.sender_mac, message.sender), (message.target_mac, message.target)];
            let [sender, target] = ends.map(|(mac, ip)| format!("{mac},{ip}"));
            return layers.push(format!("arp:{},{sender},{target}", message.operation as u16));
        }
        Network::Other(..) => unreachable!("no such frame is made"),
    }
    transport(packet, layers);
    match packet.inner().unwrap() {
        Some((tunnel, inner)) => {
            opened(tunnel, packet, layers);
            tell(&inner, layers);
        }
        None => layers.push(format!("data:{}", hex(data(packet)))),
    }
}

fn v4(view: &ipv4::View<'_>) -> String {
    let header = view.header().unwrap();
    let flags = u8::from(header.fragment.more) | u8::from(header.fragment.keep_whole) << 1;
    let options: Vec<_> = view.options().map(|option| option.map(|o| format!("{}={}", o.kind, hex(o.data))).unwrap()).collect();
    format!(
        "ip4:{},{},{flags},{},{},{},{},{},{}",
        header.traffic.0,
        header.identification,
        header.fragment.offset.bytes() / 8,
        header.hops,
        header.protocol,
        header.source,
        header.destination,
        options.join(";")
    )
}

fn address(address: Ipv6Addr) -> String {
    hex(&address.octets())
}

fn v6(view: &ipv6::View<'_>, layers: &mut Vec<String>) {
    let header = view.header();
    let (source, destination) = (address(header.source), address(header.destination));
    let (traffic, label, next, hops) = (header.traffic.0, header.label.number(), header.next, header.hops);
    layers.push(format!("ip6:{traffic},{label},{next},{hops},{source},{destination}"));
    let (mut next, mut rest) = (view.next(), view.payload());
    loop {
        let (kind, name) = match next {
            IpProtocol::HOP_BY_HOP => (Kind::HopByHop, "hop"),
            IpProtocol::DESTINATION => (Kind::Destination, "dst"),
            IpProtocol::FRAGMENT => {
                let header = corelane_wire::packet::fragment::View::new(rest).unwrap().header();
                let (offset, more) = (header.offset.bytes() / 8, u8::from(header.more));
                return layers.push(format!("frag:{},{offset},{more},{}", header.next, header.identification));
            }
            _ => return,
        };
        let (header, behind) = Extension::parse(kind, rest).unwrap();
        let options = header.options().map(|option| option.map(|o| format!("{}={}", o.kind, hex(o.data))).unwrap());
        layers.push(format!("{name}:{},{}", header.next(), options.collect::<Vec<_>>().join(";")));
        (next, rest) = (header.next(), behind);
    }
}

fn transport(packet: &Packet<'_>, layers: &mut Vec<String>) {
    let addresses = packet.flow().unwrap().addresses;
    match packet.transport {
        UpperLayer::Udp(view) => {
            assert!(view.is_checksum_right(&addresses));
            layers.push(format!("udp:{},{}", view.header().source, view.header().destination));
        }
        UpperLayer::Tcp(view) => {
            assert!(view.is_checksum_right(&addresses));
            layers.push(segment(&view));
        }
        UpperLayer::Icmp(view) => {
            assert!(view.is_checksum_right());
            layers.push(message_v4(&view));
        }
        UpperLayer::Icmpv6(view) => {
            assert!(view.is_checksum_right(&addresses));
            layers.push(message_v6(&view));
        }
        UpperLayer::Other(..) | UpperLayer::Part(..) => {}
        UpperLayer::Broken(..) | UpperLayer::None => unreachable!("no such packet is made: {:?}", packet.transport),
    }
}

fn segment(view: &tcp::View<'_>) -> String {
    let header = view.header().unwrap();
    let told = |choice| match choice {
        tcp::Choice::SegmentMax(bytes) => format!("mss={bytes}"),
        tcp::Choice::WindowShift(shift) => format!("ws={shift}"),
        tcp::Choice::MayAcknowledge => "sok".to_owned(),
        tcp::Choice::Acknowledged(blocks) => {
            let ends = blocks.iter().map(tcp::block).map(|(first, end)| format!("{first}-{end}"));
            format!("sack={}", ends.collect::<Vec<_>>().join("+"))
        }
        tcp::Choice::Times { time, echo } => format!("ts={time}-{echo}"),
        tcp::Choice::Other(option) => format!("{}={}", option.kind, hex(option.data)),
    };
    let options: Vec<_> = view.options().map(|option| told(tcp::Choice::of(option.unwrap()))).collect();
    format!(
        "tcp:{},{},{},{},{},{},{},{}",
        header.source,
        header.destination,
        header.sequence,
        header.acknowledgement,
        header.flags.bits(),
        header.window,
        header.urgent,
        options.join(";")
    )
}

fn message_v4(view: &icmp::View<'_>) -> String {
    let (kind, code) = view.kind();
    let rest = match view.message().unwrap() {
        icmp::Message::EchoRequest(echo) | icmp::Message::EchoReply(echo) => format!("{},{}", echo.identification, echo.sequence),
        icmp::Message::TooBig { most, .. } => most.to_string(),
        icmp::Message::Redirect { router, .. } => router.to_string(),
        icmp::Message::ParameterProblem { at, .. } => at.to_string(),
        icmp::Message::Unreachable { .. } | icmp::Message::TimeExceeded { .. } => String::new(),
    };
    format!("icmp:{kind},{code},{rest}")
}

fn message_v6(view: &icmpv6::View<'_>) -> String {
    let (kind, code) = view.kind();
    let rest = match view.message().unwrap() {
        icmpv6::Message::EchoRequest(echo) | icmpv6::Message::EchoReply(echo) => {
            format!("{},{}", echo.identification, echo.sequence)
        }
        icmpv6::Message::TooBig { most, .. } => most.to_string(),
        icmpv6::Message::ParameterProblem { at, .. } => at.to_string(),
        icmpv6::Message::Unreachable { .. } | icmpv6::Message::TimeExceeded { .. } => String::new(),
        icmpv6::Message::Neighbour(message) => discovery(&message),
    };
    format!("icmp6:{kind},{code},{rest}")
}

fn discovery(message: &neighbour::Message<'_>) -> String {
    let fields = match message {
        neighbour::Message::RouterSolicitation { .. } => String::new(),
        neighbour::Message::RouterAdvertisement(router, _) => {
            let flags = u8::from(router.is_managed) << 1 | u8::from(router.has_others);
            format!("{},{flags},{},{},{}", router.hops, router.lifetime, router.reachable, router.again)
        }
        neighbour::Message::Solicitation { target, .. } => address(*target),
        neighbour::Message::Advertisement { target, flags, .. } => {
            let bits = u8::from(flags.is_router) << 2 | u8::from(flags.is_solicited) << 1 | u8::from(flags.replaces);
            format!("{bits},{}", address(*target))
        }
        neighbour::Message::Redirect { target, destination, .. } => format!("{},{}", address(*target), address(*destination)),
    };
    let told = |choice| match choice {
        neighbour::Choice::Source(mac) => format!("src={mac}"),
        neighbour::Choice::Target(mac) => format!("tgt={mac}"),
        neighbour::Choice::Most(bytes) => format!("mtu={bytes}"),
        neighbour::Choice::Prefix(prefix) => {
            let flags = u8::from(prefix.is_on_link) << 1 | u8::from(prefix.is_autonomous);
            let address = address(prefix.prefix);
            format!("prefix={}+{flags}+{}+{}+{address}", prefix.bits, prefix.valid, prefix.preferred)
        }
        neighbour::Choice::Redirected(packet) => format!("packet={}", hex(packet)),
        neighbour::Choice::Other(kind, data) => format!("{kind}={}", hex(data)),
    };
    let options: Vec<_> = message.options().iter().map(told).collect();
    format!("{fields},{}", options.join(";"))
}

/// The tunnel's own header, and the frame's if a frame is in it.
fn opened(tunnel: Tunnel, packet: &Packet<'_>, layers: &mut Vec<String>) {
    let outer = packet.carried().unwrap().1;
    match tunnel {
        Tunnel::IpInIp | Tunnel::Ipv6InIp => {}
        Tunnel::Gre(header) => {
            assert!(corelane_wire::packet::gre::View::new(outer).unwrap().is_checksum_right());
            let word = |word: Option<u32>| word.map_or("-".to_owned(), |word| word.to_string());
            let (checksum, key, sequence) = (u8::from(header.has_checksum), word(header.key), word(header.sequence));
            layers.push(format!("gre:{checksum},{key},{sequence},{}", header.protocol.number()));
            if header.protocol == EtherType::ETHERNET {
                layers.extend(links(&outer[header.header_bytes()..]));
            }
        }
        Tunnel::Vxlan(header) => {
            layers.push(format!("vxlan:{}", header.network.number()));
            layers.extend(links(&outer[16..]));
        }
    }
}

/// What the last header carries.
fn data<'a>(packet: &Packet<'a>) -> &'a [u8] {
    match packet.transport {
        UpperLayer::Udp(view) => view.payload(),
        UpperLayer::Tcp(view) => view.payload(),
        UpperLayer::Other(_, data) | UpperLayer::Part(_, data) => data,
        UpperLayer::Icmp(view) => match view.message().unwrap() {
            icmp::Message::EchoRequest(echo) | icmp::Message::EchoReply(echo) => echo.data,
            icmp::Message::Unreachable { packet, .. }
            | icmp::Message::TooBig { packet, .. }
            | icmp::Message::Redirect { packet, .. }
            | icmp::Message::TimeExceeded { packet, .. }
            | icmp::Message::ParameterProblem { packet, .. } => packet,
        },
        UpperLayer::Icmpv6(view) => match view.message().unwrap() {
            icmpv6::Message::EchoRequest(echo) | icmpv6::Message::EchoReply(echo) => echo.data,
            icmpv6::Message::Unreachable { packet, .. }
            | icmpv6::Message::TooBig { packet, .. }
            | icmpv6::Message::TimeExceeded { packet, .. }
            | icmpv6::Message::ParameterProblem { packet, .. } => packet,
            icmpv6::Message::Neighbour(_) => &[],
        },
        UpperLayer::Broken(..) | UpperLayer::None => &[],
    }
}
