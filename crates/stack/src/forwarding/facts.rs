//! What somebody who judges packets sees of one, and what he may say.

use crate::packet::{Ip, Packet};
use corelane_wire::packet::IpProtocol;
use std::fmt::Debug;
use std::net::IpAddr;

/// Which way a packet goes when it is judged. One that is forwarded is judged twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It has come in.
    In,
    /// It is about to leave.
    Out,
}

/// Which part of a packet it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// The first fragment: the transport's header is in it.
    First,
    /// A later fragment: it has neither ports, flags nor types.
    Later,
}

/// What is seen of a packet. It is looked at once, however often it is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketFacts {
    /// Which way it goes.
    pub direction: Direction,
    /// The number of the interface that it came in by.
    pub came_by: usize,
    /// That which it leaves by; none while it has come in.
    pub leaves_by: Option<usize>,
    /// Who sends it.
    pub source: IpAddr,
    /// Who is meant.
    pub destination: IpAddr,
    /// The protocol behind the headers of the network, by its number.
    pub protocol: u8,
    /// Source and destination port, where its protocol has ports and they are in it.
    pub ports: Option<(u16, u16)>,
    /// The flags of TCP (RFC 9293, section 3.1); 0 for others.
    pub tcp_flags: u8,
    /// Type and code of ICMP of its family.
    pub icmp: Option<(u8, u8)>,
    /// Which part of a packet it is.
    pub part: Part,
    /// Bytes of it, the header of the network among them.
    pub length: usize,
    /// It is for an address of ours, and is not forwarded.
    pub is_to_us: bool,
}

/// What is said of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Judgement {
    /// It goes on.
    #[default]
    Pass,
    /// It does not, and nobody hears of it.
    Drop,
    /// It does not, and its sender hears why, within the bound of errors.
    Refuse(Refusal),
}

/// What the sender of a packet hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Somebody has forbidden it (ICMP 3/13, ICMPv6 1/1).
    Prohibited,
    /// There is no way to the network (ICMP 3/0, ICMPv6 1/0).
    Network,
    /// There is no such host (ICMP 3/1, ICMPv6 1/3).
    Host,
    /// Nobody has the port (ICMP 3/3, ICMPv6 1/4).
    Port,
    /// There is no such connection: a reset, in the name of who is meant; of others than TCP nothing.
    Reset,
}

/// Somebody who says which packets go on: rules. Each call is within the lane's turn, so it neither waits nor allocates.
pub trait Judge: Debug {
    /// Judges a packet that has come in, at that time in nanoseconds. It is for us, or is to be forwarded.
    fn judge_in(&mut self, _now: u64, _packet: &PacketFacts) -> Judgement {
        Judgement::Pass
    }

    /// Judges a packet that is forwarded and about to leave.
    fn judge_out(&mut self, _now: u64, _packet: &PacketFacts) -> Judgement {
        Judgement::Pass
    }
}

/// Where the flags of TCP stand in its header.
const TCP_FLAGS_AT: usize = 13;

impl PacketFacts {
    /// Of a packet that has come in.
    pub(super) fn of(packet: &Packet, ip: &Ip) -> Self {
        let part = match ip.is_part {
            false => Part::Whole,
            true if ip.is_later(&packet.first) => Part::Later,
            true => Part::First,
        };
        let transport = packet.transport(ip).next().filter(|_| part != Part::Later).unwrap_or_default();
        let word = |at: usize| transport.get(at..at + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
        let is_icmp = ip.protocol == if ip.source.is_ipv4() { IpProtocol::ICMP } else { IpProtocol::ICMPV6 };
        let flags = transport.get(TCP_FLAGS_AT).filter(|_| ip.protocol == IpProtocol::TCP);
        Self {
            direction: Direction::In,
            came_by: packet.interface,
            leaves_by: None,
            source: ip.source,
            destination: ip.destination,
            protocol: ip.protocol.0,
            ports: ip.protocol.header_with_ports().and_then(|_| Some((word(0)?, word(2)?))),
            tcp_flags: flags.copied().unwrap_or(0),
            icmp: transport.first_chunk::<2>().filter(|_| is_icmp).map(|[kind, code]| (*kind, *code)),
            part,
            length: ip.head + ip.length,
            is_to_us: !ip.passes,
        }
    }
}
