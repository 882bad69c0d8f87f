//! Packets meet rules: what these see of one, and what comes of what they say.

use crate::icmp::errors::Wrong;
use crate::packet::{Ip, Packet};
use crate::routes::Routes;
use crate::settings::Settings;
use corelane_rules::{Decision, Direction, Facts, Family, Interface, Part, Records, Reject, RuleId, RuleSet, Transport};
use corelane_seam::{Level, Record};
use corelane_wire::packet::IpProtocol;
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

/// What the sender of a packet hears that goes no further.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    Nothing,
    Error(Wrong),
    Reset,
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
    pub(super) fn facts(&self, routes: &Routes, packet: &Packet, ip: &Ip) -> Option<Facts> {
        let rules = self.rules.as_ref()?;
        let mut facts = facts(packet, ip);
        if rules.asks_for_ours() {
            facts.source_is_ours = routes.is_own(ip.source);
            facts.destination_is_ours = routes.is_own(ip.destination);
        }
        Some(facts)
    }

    /// Judges a packet.
    ///
    /// # Errors
    /// It goes no further; its sender is to hear that.
    pub(super) fn judge(&mut self, now: u64, facts: &Facts) -> Result<(), Answer> {
        let Some(rules) = &self.rules else { return Ok(()) };
        match rules.judge(facts, now, &mut self.records).decision {
            Decision::Allow => Ok(()),
            Decision::Deny => Err(Answer::Nothing),
            Decision::Reject(reject) => Err(answer(reject, facts)),
        }
    }
}

/// What a sender hears, where that is of the packet's kind, and a code of its family.
fn answer(reject: Reject, facts: &Facts) -> Answer {
    const CODE_MAX: u8 = 15;
    const CODE_MAX_V6: u8 = 8;
    match (reject, facts.family) {
        (Reject::Unreachable(code), Family::V4) if code <= CODE_MAX => Answer::Error(Wrong::Refused { code }),
        (Reject::Unreachable6(code), Family::V6) if code <= CODE_MAX_V6 => Answer::Error(Wrong::Refused { code }),
        (Reject::Reset, _) if matches!(facts.transport, Transport::Tcp(..)) && facts.part == Part::Whole => Answer::Reset,
        _ => Answer::Nothing,
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
        family: if ip.source.is_ipv4() { Family::V4 } else { Family::V6 },
        source: ip.source.into(),
        destination: ip.destination.into(),
        source_is_ours: false,
        destination_is_ours: false,
        protocol: protocol.0,
        transport: transport.and_then(|bytes| transport_of(bytes, &Ip { protocol, ..*ip })).unwrap_or_default(),
        part,
        // A packet's header has no room for more.
        length: (ip.head + ip.length).min(u16::MAX.into()) as u16,
    }
}

/// What a header of the transport says; none if it is cut short, or of a kind that rules do not ask for.
fn transport_of(bytes: &[u8], ip: &Ip) -> Option<Transport> {
    let ports = || Some((bytes.first_chunk()?, bytes.get(PORT_BYTES..)?.first_chunk()?));
    let ports = || ports().map(|(source, destination)| (u16::from_be_bytes(*source), u16::from_be_bytes(*destination)));
    match ip.protocol {
        IpProtocol::TCP => {
            let (source, destination) = ports()?;
            Some(Transport::Tcp(source, destination, *bytes.get(TCP_FLAGS_AT)?))
        }
        IpProtocol::UDP => ports().map(|(source, destination)| Transport::Ports(source, destination)),
        IpProtocol::ICMP if ip.source.is_ipv4() => bytes.first().copied().map(Transport::Icmp),
        IpProtocol::ICMPV6 if ip.source.is_ipv6() => bytes.first().copied().map(Transport::Icmp),
        _ => None,
    }
}

/// An interface of the stack's, as rules know it.
pub(super) const fn interface(number: usize) -> Interface {
    // There are fewer (`INTERFACES_MAX`).
    Interface(number as u16 + 1)
}

const _: () = assert!(crate::settings::INTERFACES_MAX < u16::MAX as usize);
