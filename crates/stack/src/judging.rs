//! Packets meet rules: what these see of one that comes or goes on, and of one that the stack itself sends.

use crate::packet::{HEADER_BYTES_V6, Ip, Packet};
use crate::routes::Routes;
use crate::settings::Settings;
use corelane_rules::{Decision, Direction, Facts, Family, Interface, Part, Records, RuleId, RuleSet, Transport};
use corelane_seam::{Level, Record};
use corelane_wire::packet::{IpProtocol, ipv4};
use std::net::IpAddr;
use std::sync::Arc;

/// Where the flags of TCP stand in its header.
const TCP_FLAGS_AT: usize = 13;
/// Where ports stand: the source's and the destination's.
const PORT_BYTES: usize = 2;

/// The rules in force, and what packets leave behind of them.
#[derive(Debug)]
pub(crate) struct Judging {
    rules: Option<Arc<RuleSet>>,
    records: Records,
    /// The names of the interfaces, by their numbers.
    names: Vec<Box<str>>,
}

/// A packet that the stack itself is about to send, whole: it is cut afterwards, if at all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnPacket<'a> {
    /// The interface that it leaves by.
    pub interface: usize,
    pub source: IpAddr,
    pub destination: IpAddr,
    pub protocol: IpProtocol,
    /// The first bytes behind the network's header, with all of the transport's.
    pub head: &'a [u8],
    /// How many there are in all.
    pub length: usize,
}

impl Judging {
    pub fn new(settings: &Settings) -> Self {
        let names = settings.interfaces.iter().map(|one| one.name.clone()).collect();
        Self { rules: settings.rules.clone(), records: Records::default(), names }
    }

    /// These rules are in force from now on; counters and states stay with the rules that stay.
    pub fn set_rules(&mut self, rules: Arc<RuleSet>) {
        self.rules = Some(rules);
    }

    /// The rules in force.
    pub const fn rules(&self) -> Option<&Arc<RuleSet>> {
        self.rules.as_ref()
    }

    /// What packets have left behind of them.
    pub const fn records(&self) -> &Records {
        &self.records
    }

    /// Counters of these rules begin with 0 again.
    pub fn zero(&mut self, rules: &[RuleId]) {
        self.records.zero(rules);
    }

    /// Lines of these rules are counted from 0 again.
    pub fn reset_log(&mut self, rules: &[RuleId]) {
        self.records.reset_log(rules);
    }

    /// The next line for the operator. Those that are not taken wait, within their own bound.
    pub fn take_line(&mut self) -> Option<Record> {
        let line = self.records.take_line()?;
        let name = |interface: Interface| {
            let name = usize::from(interface.0).checked_sub(1).and_then(|number| self.names.get(number));
            name.map_or("?", |name| name)
        };
        Some(Record::new(Level::Info, line.words(name)))
    }

    /// What rules see of a packet that has come in; none if there are none.
    pub fn facts(&self, routes: &Routes, packet: &Packet, ip: &Ip) -> Option<Facts> {
        let rules = self.rules.as_ref()?;
        let mut facts = facts(packet, ip);
        if rules.asks_for_ours() {
            facts.source_is_ours = routes.is_own(ip.source);
            facts.destination_is_ours = routes.is_own(ip.destination);
        }
        Some(facts)
    }

    /// Judges a packet.
    pub fn judge(&mut self, now: u64, facts: &Facts) -> Decision {
        let Some(rules) = &self.rules else { return Decision::Allow };
        rules.judge(facts, now, &mut self.records).decision
    }

    /// Whether rules let one of our own packets leave. Whatever they say of one that they do not, nobody is told: that would be the next of our packets.
    pub fn lets_out(&mut self, now: u64, routes: &Routes, own: &OwnPacket<'_>) -> bool {
        let Some(rules) = &self.rules else { return true };
        let mut facts = own_facts(own);
        if rules.asks_for_ours() {
            facts.source_is_ours = routes.is_own(own.source);
            facts.destination_is_ours = routes.is_own(own.destination);
        }
        self.judge(now, &facts) == Decision::Allow
    }
}

/// What is seen of a packet that has come in, but for whose its addresses are.
fn facts(packet: &Packet, ip: &Ip) -> Facts {
    let part = match ip.is_part {
        false => Part::Whole,
        true if ip.is_later(&packet.first) => Part::Later,
        true => Part::First,
    };
    let (protocol, transport) = match packet.chain_behind(ip) {
        Some(chain) => (chain.protocol, Some(chain.payload)),
        None => (ip.protocol, packet.transport(ip).next().filter(|_| part != Part::Later)),
    };
    Facts {
        direction: Direction::In,
        receive: interface(packet.interface),
        transmit: Interface::NONE,
        family: family(ip.source),
        source: ip.source.into(),
        destination: ip.destination.into(),
        source_is_ours: false,
        destination_is_ours: false,
        protocol: protocol.0,
        transport: transport.and_then(|bytes| transport_of(bytes, protocol, family(ip.source))).unwrap_or_default(),
        part,
        length: length(ip.head + ip.length),
    }
}

/// What is seen of a packet of our own, but for whose its addresses are: it has been received by no interface.
fn own_facts(own: &OwnPacket<'_>) -> Facts {
    let OwnPacket { interface: leaves_by, source, destination, protocol, head, length: bytes } = *own;
    let family = family(source);
    let header = if family == Family::V4 { ipv4::Header::BYTES } else { HEADER_BYTES_V6 };
    Facts {
        direction: Direction::Out,
        transmit: interface(leaves_by),
        protocol: protocol.0,
        transport: transport_of(head, protocol, family).unwrap_or_default(),
        length: length(header + bytes),
        ..Facts::between(source, destination)
    }
}

fn family(source: IpAddr) -> Family {
    if source.is_ipv4() { Family::V4 } else { Family::V6 }
}

/// Bytes as a packet's header has them, which has no room for more.
fn length(bytes: usize) -> u16 {
    bytes.min(u16::MAX.into()) as u16
}

/// What a header of the transport says; none if it is cut short, or of a kind that rules do not ask for.
fn transport_of(bytes: &[u8], protocol: IpProtocol, family: Family) -> Option<Transport> {
    let ports = || Some((bytes.first_chunk()?, bytes.get(PORT_BYTES..)?.first_chunk()?));
    let ports = || ports().map(|(source, destination)| (u16::from_be_bytes(*source), u16::from_be_bytes(*destination)));
    match protocol {
        IpProtocol::TCP => {
            let (source, destination) = ports()?;
            Some(Transport::Tcp(source, destination, *bytes.get(TCP_FLAGS_AT)?))
        }
        IpProtocol::UDP => ports().map(|(source, destination)| Transport::Ports(source, destination)),
        IpProtocol::ICMP if family == Family::V4 => bytes.first().copied().map(Transport::Icmp),
        IpProtocol::ICMPV6 if family == Family::V6 => bytes.first().copied().map(Transport::Icmp),
        _ => None,
    }
}

/// An interface of the stack's, as rules know it.
pub(crate) const fn interface(number: usize) -> Interface {
    // There are fewer (`INTERFACES_MAX`).
    Interface(number as u16 + 1)
}

const _: () = assert!(crate::settings::INTERFACES_MAX < u16::MAX as usize);
