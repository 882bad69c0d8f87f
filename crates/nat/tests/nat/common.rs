//! Packets, and lanes that translate them.

use corelane_nat::{Nat, Settings, Verdict};
use corelane_rss::{Buckets, FlowHasher, FlowId, HashTypes, Key, Table};
use corelane_seam::Random;
use corelane_wire::packet::checksum::Addresses;
use corelane_wire::packet::{EtherType, IpProtocol, Network, Packet, UpperLayer, icmp, ipv4, tcp, udp};
use corelane_wire::xdr::Writer;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

pub const SECOND: u64 = 1_000_000_000;
pub const EXTERNAL: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub const FIN: tcp::Flags = tcp::Flags::FIN;
pub const SYN: tcp::Flags = tcp::Flags::SYN;
pub const ACK: tcp::Flags = tcp::Flags::ACK;

pub fn end(text: &str) -> SocketAddrV4 {
    text.parse().unwrap()
}

pub fn ip(protocol: IpProtocol, from: Ipv4Addr, to: Ipv4Addr) -> ipv4::Header {
    ipv4::Header {
        traffic: Default::default(),
        identification: 1,
        fragment: Default::default(),
        hops: 64,
        protocol,
        source: from,
        destination: to,
        options: Default::default(),
    }
}

/// The packet of a header and what `put` writes behind it.
pub fn packet(header: &ipv4::Header, length: usize, put: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = vec![0; ipv4::Header::BYTES + length];
    let mut writer = Writer::new(&mut bytes);
    header.emit(length, &mut writer).unwrap();
    put(&mut writer);
    bytes
}

pub fn datagram(from: SocketAddrV4, to: SocketAddrV4, data: &[u8]) -> Vec<u8> {
    let ip = ip(IpProtocol::UDP, *from.ip(), *to.ip());
    let header = udp::Header { source: from.port(), destination: to.port() };
    packet(&ip, udp::Header::BYTES + data.len(), |writer| {
        header.emit(&ip.addresses(), data, writer).unwrap();
        writer.put(data).unwrap();
    })
}

pub fn segment(from: SocketAddrV4, to: SocketAddrV4, flags: tcp::Flags) -> Vec<u8> {
    let ip = ip(IpProtocol::TCP, *from.ip(), *to.ip());
    let header = tcp::Header {
        source: from.port(),
        destination: to.port(),
        sequence: 1,
        acknowledgement: 2,
        flags,
        window: 3,
        urgent: 0,
        options: Default::default(),
    };
    packet(&ip, tcp::Header::BYTES, |writer| header.emit(&ip.addresses(), &[], writer).unwrap())
}

pub fn echo(from: Ipv4Addr, to: Ipv4Addr, identification: u16, is_reply: bool) -> Vec<u8> {
    let echo = icmp::Echo { identification, sequence: 9, data: b"ping" };
    let message = if is_reply { icmp::Message::EchoReply(echo) } else { icmp::Message::EchoRequest(echo) };
    packet(&ip(IpProtocol::ICMP, from, to), 12, |writer| message.emit(writer).unwrap())
}

/// Source and destination, and whether all checksums are right. Of an echo, both ports are its identifier.
pub fn ends(bytes: &[u8]) -> (SocketAddrV4, SocketAddrV4) {
    let packet = Packet::of_network(EtherType::IPV4, bytes).unwrap();
    let Network::V4(view) = packet.network else { unreachable!("it is of IPv4") };
    assert!(view.is_checksum_right(), "the header's checksum");
    let addresses = view.addresses();
    let Addresses::V4 { source, destination } = addresses else { unreachable!("it is of IPv4") };
    let word = |at: usize| u16::from_be_bytes([view.payload()[at], view.payload()[at + 1]]);
    let ports = match packet.transport {
        UpperLayer::Udp(view) => (view.is_checksum_right(&addresses), word(0), word(2)),
        UpperLayer::Tcp(view) => (view.is_checksum_right(&addresses), word(0), word(2)),
        UpperLayer::Icmp(view) => (view.is_checksum_right(), word(4), word(4)),
        _ => panic!("{:?}", packet.transport),
    };
    assert!(ports.0, "the transport's checksum");
    (SocketAddrV4::new(source, ports.1), SocketAddrV4::new(destination, ports.2))
}

/// One lane's translation, and which flows come to it.
pub struct Lane {
    pub nat: Nat,
    pub table: Table,
    pub hasher: Arc<FlowHasher>,
    pub lane: usize,
}

impl Lane {
    pub fn new(settings: &Settings) -> Self {
        let mut random = Random::new(settings.lane.0 as u64 + 1);
        let hasher = Arc::new(FlowHasher::new(&Key::MICROSOFT, HashTypes::ALL));
        let table = Table::even(Buckets::DEFAULT, settings.lane.1).unwrap();
        let nat = Nat::new(settings, hasher.clone(), || random.bits()).unwrap();
        Self { nat, table, hasher, lane: settings.lane.0 }
    }

    pub fn is_home(&self, flow: FlowId) -> bool {
        self.table.lane_of(flow) == self.lane
    }

    pub fn out(&mut self, now: u64, bytes: &mut [u8]) -> Verdict {
        let Self { nat, table, lane, .. } = self;
        nat.outgoing(now, bytes, |flow| table.lane_of(flow) == *lane)
    }

    /// Translates a packet that has to be, and says its source then.
    pub fn source(&mut self, now: u64, mut bytes: Vec<u8>) -> SocketAddrV4 {
        let to = ends(&bytes).1;
        assert_eq!(self.out(now, &mut bytes), Verdict::Translated);
        let (source, destination) = ends(&bytes);
        assert_eq!(destination.ip(), to.ip());
        source
    }

    /// The same for an answer, and its destination.
    pub fn destination(&mut self, now: u64, mut bytes: Vec<u8>) -> Option<SocketAddrV4> {
        let (from, before) = (ends(&bytes).0, bytes.clone());
        match self.nat.incoming(now, &mut bytes) {
            Verdict::Translated => {
                let (source, destination) = ends(&bytes);
                assert_eq!(source.ip(), from.ip());
                Some(destination)
            }
            verdict => {
                assert_eq!((verdict, &bytes), (Verdict::Untouched, &before));
                None
            }
        }
    }
}
