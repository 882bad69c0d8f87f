//! Packets of any bytes.

use corelane_wire::Error;
use corelane_wire::packet::checksum::Addresses;
use corelane_wire::packet::extension::{EXTENSIONS_MAX, Extension, Kind};
use corelane_wire::packet::{
    EtherType, Network, Packet, Ports, TAGS_MAX, TUNNELS_MAX, UpperLayer, arp, dhcp as wire_dhcp, dhcpv6 as wire_dhcpv6,
    ethernet, fragment, gre, icmp, icmpv6, ipv4, ipv6, neighbour, tcp, udp, vlan, vxlan,
};
use corelane_wire::xdr::Writer;

/// Addresses of no meaning, for checksums.
const ADDRESSES: Addresses = Addresses::V4 { source: std::net::Ipv4Addr::LOCALHOST, destination: std::net::Ipv4Addr::BROADCAST };

/// What `emit` writes into `room` bytes and a header's more, or why it does not.
fn written(room: usize, emit: impl FnOnce(&mut Writer<'_>) -> Result<(), Error>) -> Result<Vec<u8>, Error> {
    let mut memory = vec![0; room + 64];
    let mut writer = Writer::new(&mut memory);
    emit(&mut writer)?;
    Ok(writer.written().to_vec())
}

/// Walks the bytes as a frame, and as a packet of each network: the walk ends, and its parts lie where they are said to.
pub fn packet_frame(bytes: &[u8]) {
    let walks = [
        Packet::of_frame(bytes),
        Packet::of_network(EtherType::IPV4, bytes),
        Packet::of_network(EtherType::IPV6, bytes),
        Packet::of_network(EtherType::ARP, bytes),
    ];
    for packet in walks.into_iter().flatten() {
        assert!(packet.network_at <= packet.transport_at && packet.transport_at <= bytes.len());
        look(&packet);
        let mut tunnels = 0;
        let mut inner = packet;
        while let Ok(Some((_, packet))) = inner.inner() {
            (inner, tunnels) = (packet, tunnels + 1);
            look(&inner);
        }
        assert!(tunnels <= TUNNELS_MAX);
    }
}

/// What must hold for any packet.
fn look(packet: &Packet<'_>) {
    assert!(packet.link.is_none_or(|link| link.tags <= TAGS_MAX && (link.tags == 0) == link.inner.is_none()));
    if let Network::V6(_, chain) = packet.network {
        assert!(chain.headers <= EXTENSIONS_MAX);
    }
    let is_ip = matches!(packet.network, Network::V4(_) | Network::V6(..));
    assert_eq!((packet.flow().is_some(), packet.carried().is_some()), (is_ip, is_ip));
    assert_eq!(packet.fragment().is_some(), matches!(packet.transport, UpperLayer::Part(..)));
    if let Some(flow) = packet.flow().filter(|_| packet.fragment().is_some()) {
        assert_eq!(flow.ports, Ports::None, "a fragment is hashed by its addresses");
    }
}

/// Reads the bytes as each of the headers: what is read is written, and read as the same.
pub fn packet_headers(bytes: &[u8]) {
    links(bytes);
    networks(bytes);
    transports(bytes);
    messages(bytes);
    tunnels(bytes);
}

fn links(bytes: &[u8]) {
    if let Ok(view) = ethernet::View::new(bytes) {
        let again = written(bytes.len(), |to| view.header().emit(to)).unwrap();
        assert_eq!(again, bytes[..ethernet::Header::BYTES]);
    }
    if let Ok(view) = vlan::View::new(bytes) {
        assert_eq!(written(bytes.len(), |to| view.tag().emit(to)).unwrap(), bytes[..vlan::Tag::BYTES]);
    }
    if let Ok(message) = arp::Message::parse(bytes) {
        assert_eq!(written(bytes.len(), |to| message.emit(to)).unwrap(), bytes[..arp::Message::BYTES]);
    }
}

fn networks(bytes: &[u8]) {
    if let Ok(view) = ipv4::View::new(bytes) {
        assert_eq!(view.bytes().len(), view.header_bytes() + view.payload().len());
        if let Ok(header) = view.header() {
            network_v4(&header, view.payload());
        }
    }
    if let Ok(view) = ipv6::View::new(bytes) {
        let again =
            [written(bytes.len(), |to| view.header().emit(view.payload().len(), to)).unwrap(), view.payload().to_vec()].concat();
        assert_eq!(again, view.bytes());
    }
    for kind in [Kind::HopByHop, Kind::Routing, Kind::Destination, Kind::Authentication] {
        if let Ok((header, rest)) = Extension::parse(kind, bytes) {
            assert_eq!(written(bytes.len(), |to| header.emit(to)).unwrap(), bytes[..bytes.len() - rest.len()]);
            assert!(header.options().all(|option| option.is_ok()));
        }
    }
    if let Ok(view) = fragment::View::new(bytes) {
        let again = written(bytes.len(), |to| view.header().emit(to)).unwrap();
        assert_eq!(fragment::View::new(&again).unwrap().header(), view.header());
    }
}

fn network_v4(header: &ipv4::Header, payload: &[u8]) {
    match written(0, |to| header.emit(payload.len(), to)) {
        Ok(again) => {
            let whole = [&again, payload].concat();
            let view = ipv4::View::new(&whole).unwrap();
            assert_eq!((view.header(), view.is_checksum_right()), (Ok(*header), true));
        }
        Err(error) => assert!(header.fragment.is_part(), "{error}: only a fragment can lie about its place"),
    }
}

fn transports(bytes: &[u8]) {
    if let Ok(view) = udp::View::new(bytes) {
        let again = written(bytes.len(), |to| view.header().emit(&ADDRESSES, view.payload(), to)).unwrap();
        let whole = [&again, view.payload()].concat();
        let again = udp::View::new(&whole).unwrap();
        assert_eq!((again.header(), again.is_checksum_right(&ADDRESSES)), (view.header(), true));
    }
    let Ok(view) = tcp::View::new(bytes) else { return };
    let Ok(header) = view.header() else { return };
    if let Ok(again) = written(bytes.len(), |to| header.emit(&ADDRESSES, view.payload(), to)) {
        let whole = [&again, view.payload()].concat();
        let again = tcp::View::new(&whole).unwrap();
        assert_eq!((again.header(), again.is_checksum_right(&ADDRESSES)), (Ok(header), true));
    }
    for option in view.options().flatten() {
        let choice = tcp::Choice::of(option);
        let options = choice.put(corelane_wire::packet::Options::NONE).unwrap();
        assert_eq!(options.iter().next().unwrap().map(tcp::Choice::of), Ok(choice));
    }
}

fn messages(bytes: &[u8]) {
    if let Ok(message) = icmp::View::new(bytes).and_then(|view| view.message()) {
        let again = written(bytes.len(), |to| message.emit(to)).unwrap();
        let view = icmp::View::new(&again).unwrap();
        assert_eq!((view.message(), view.is_checksum_right()), (Ok(message), true));
    }
    if let Ok(message) = icmpv6::View::new(bytes).and_then(|view| view.message())
        && let Ok(again) = written(bytes.len(), |to| message.emit(&ADDRESSES, to))
    {
        let view = icmpv6::View::new(&again).unwrap();
        assert_eq!((view.message(), view.is_checksum_right(&ADDRESSES)), (Ok(message), true));
    }
    if let Ok(options) = neighbour::Options::new(bytes) {
        for choice in options.iter() {
            let again = written(bytes.len(), |to| choice.emit(to)).unwrap();
            let read: Vec<_> = neighbour::Options::new(&again).unwrap().iter().collect();
            assert_eq!(read.len(), 1);
            assert!(read[0] == choice || matches!(choice, neighbour::Choice::Redirected(_)), "{read:?} is filled at most");
        }
    }
}

fn tunnels(bytes: &[u8]) {
    if let Ok(view) = gre::View::new(bytes) {
        let again = written(bytes.len(), |to| view.header().emit(view.payload(), to)).unwrap();
        let whole = [&again, view.payload()].concat();
        let again = gre::View::new(&whole).unwrap();
        assert_eq!((again.header(), again.is_checksum_right()), (view.header(), true));
    }
    if let Ok(view) = vxlan::View::new(bytes) {
        let again = written(bytes.len(), |to| view.header().emit(to)).unwrap();
        assert_eq!(vxlan::View::new(&again).unwrap().header(), view.header());
    }
}

/// Reads the bytes as a message of DHCP: what is read is written, and read as the same.
pub fn dhcp(bytes: &[u8]) {
    let Ok(view) = wire_dhcp::View::new(bytes) else { return };
    let (header, options) = (view.header(), view.options());
    let again = written(bytes.len().max(wire_dhcp::BYTES_MIN), |to| header.emit(options, to)).unwrap();
    assert!(again.len() >= wire_dhcp::BYTES_MIN);
    let read = wire_dhcp::View::new(&again).unwrap();
    assert_eq!(read.header(), header);
    assert!(read.options().eq(options), "{bytes:?}");
    for option in options {
        let inner = option.within().map(|inner| inner.map(|choice| choice.bytes()).sum::<usize>());
        assert!(inner.is_ok_and(|bytes| bytes == option.data.len()) || option.within().is_err());
    }
}

/// The same as a message of DHCP for IPv6, and as one of a relay.
pub fn dhcpv6(bytes: &[u8]) {
    let kind = wire_dhcpv6::Kind::of(bytes);
    let Ok(view) = wire_dhcpv6::View::new(bytes) else { return };
    assert_eq!(kind, Ok(view.header().kind));
    let again = written(bytes.len(), |to| view.header().emit(view.options(), to)).unwrap();
    assert_eq!(again, bytes);
    let within = view.option(wire_dhcpv6::RELAY_MESSAGE);
    assert_eq!(within, view.options().find(|option| option.code == wire_dhcpv6::RELAY_MESSAGE).map(|option| option.data));
}
