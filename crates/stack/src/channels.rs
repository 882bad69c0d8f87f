//! Channels: packets that are classified before their transport looks at them, and go where somebody else does the protocol work.
//!
//! ```text
//! transport --find(protocol, addresses, ports)--> to another lane: its transport, by a parcel
//!                    |                        `-> to another process: its ring (`corelane_channel`), shown when the turn has run what there was
//!                    `- a miss: the lane's own sockets
//! ```
//!
//! A filter that names all is found in a table; others are tried in the order in which they were opened, behind it. What arrives in fragments or in
//! tunnels is put together and taken out before.

use crate::packet::{Ip, Packet};
use corelane_channel::{HandedMemory, Producer};
use corelane_wire::packet::IpProtocol;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// Channels of a lane, at most.
pub const CHANNELS_MAX: usize = 64;

/// Which packets go into a channel. What is none matches all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// The protocol's number behind the IP header.
    pub protocol: u8,
    /// Who sends.
    pub source: FilterEnd,
    /// Who is meant.
    pub destination: FilterEnd,
}

/// One end of what a filter matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterEnd {
    /// An address and the bits of it that count.
    pub network: Option<(IpAddr, u8)>,
    /// A port; of protocols without ports it matches nothing.
    pub port: Option<u16>,
}

/// Where the packets of a channel go.
#[derive(Clone)]
pub enum Target {
    /// To that lane.
    Lane(usize),
    /// Into that ring, of which this lane is the producer.
    Ring(HandedMemory),
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lane(lane) => write!(f, "Lane({lane})"),
            Self::Ring(_) => f.write_str("Ring"),
        }
    }
}

/// Why a channel was not opened. Who asked for it is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChannelRefused {
    /// There are [`CHANNELS_MAX`].
    Many,
    /// Its number is taken.
    Number,
    /// Another has the same filter.
    Filter,
    /// There is no such lane.
    Lane,
    /// The memory is no ring.
    Ring,
}

impl fmt::Display for ChannelRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Many => write!(f, "a lane has {CHANNELS_MAX} channels: close one"),
            Self::Number => f.write_str("a channel of that number is open: give another"),
            Self::Filter => f.write_str("a channel with that filter is open: close it, or filter otherwise"),
            Self::Lane => f.write_str("no such lane: name one that there is"),
            Self::Ring => f.write_str("the memory of the channel is no ring: make it by `corelane_channel::ring`"),
        }
    }
}

impl std::error::Error for ChannelRefused {}

/// What a packet is told by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Tuple {
    protocol: u8,
    source: SocketAddr,
    destination: SocketAddr,
    has_ports: bool,
}

impl Tuple {
    /// Of a packet; ports whose header is cut short are 0.
    fn of(packet: &Packet, ip: &Ip) -> Self {
        let has_ports = ip.protocol.header_with_ports().is_some();
        let first = packet.transport(ip).next().and_then(|first| first.first_chunk::<4>()).filter(|_| has_ports);
        let [a, b, c, d] = first.copied().unwrap_or_default();
        let (source, destination) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let (source, destination) = (SocketAddr::new(ip.source, source), SocketAddr::new(ip.destination, destination));
        Self { protocol: ip.protocol.0, source, destination, has_ports }
    }
}

impl FilterEnd {
    /// An end that names one address and one port.
    #[must_use]
    pub const fn exact(end: SocketAddr) -> Self {
        Self { network: Some((end.ip(), if end.is_ipv4() { 32 } else { 128 })), port: Some(end.port()) }
    }

    /// The one end that it matches, if it is one.
    fn only(&self) -> Option<SocketAddr> {
        let (ip, bits) = self.network?;
        (bits == if ip.is_ipv4() { 32 } else { 128 }).then_some(SocketAddr::new(ip, self.port?))
    }

    fn matches(&self, end: SocketAddr, has_ports: bool) -> bool {
        let is_port = self.port.is_none_or(|port| has_ports && port == end.port());
        is_port && self.network.is_none_or(|(network, bits)| is_within(end.ip(), network, bits))
    }
}

/// Whether the first `bits` of both are the same. More bits than there are is all of them.
fn is_within(ip: IpAddr, network: IpAddr, bits: u8) -> bool {
    let differing = |ip: u128, network: u128, all: u32| {
        let outside = all.saturating_sub(bits.into());
        (ip ^ network).checked_shr(outside).unwrap_or(0)
    };
    match (ip, network) {
        (IpAddr::V4(ip), IpAddr::V4(network)) => differing(ip.to_bits().into(), network.to_bits().into(), 32) == 0,
        (IpAddr::V6(ip), IpAddr::V6(network)) => differing(ip.to_bits(), network.to_bits(), 128) == 0,
        _ => false,
    }
}

impl Filter {
    /// The one tuple that it matches, if it is one.
    fn only(&self) -> Option<Tuple> {
        let has_ports = IpProtocol(self.protocol).header_with_ports().is_some();
        let (source, destination) = (self.source.only()?, self.destination.only()?);
        has_ports.then_some(Tuple { protocol: self.protocol, source, destination, has_ports })
    }

    fn matches(&self, tuple: &Tuple) -> bool {
        self.protocol == tuple.protocol
            && self.source.matches(tuple.source, tuple.has_ports)
            && self.destination.matches(tuple.destination, tuple.has_ports)
    }
}

impl FromStr for Filter {
    type Err = NoFilter;

    /// `PROTOCOL SOURCE DESTINATION`: a name (`udp`, `tcp`, `icmp`) or number, and of each end `*`, `ADDRESS/BITS`, `*:PORT` or `ADDRESS/BITS:PORT`,
    /// addresses of IPv6 in brackets: `udp 10.1.0.0/16 [fd00::2]/128:7000`.
    fn from_str(text: &str) -> Result<Self, NoFilter> {
        let mut words = text.split_ascii_whitespace();
        let (Some(protocol), Some(source), Some(destination), None) = (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(NoFilter);
        };
        let protocol = match protocol {
            "udp" => IpProtocol::UDP.0,
            "tcp" => IpProtocol::TCP.0,
            "icmp" => IpProtocol::ICMP.0,
            number => number.parse().map_err(|_| NoFilter)?,
        };
        let end = |text| end_of(text).ok_or(NoFilter);
        Ok(Self { protocol, source: end(source)?, destination: end(destination)? })
    }
}

fn end_of(text: &str) -> Option<FilterEnd> {
    if let Some(rest) = text.strip_prefix('*') {
        return Some(FilterEnd { network: None, port: port_of(rest)? });
    }
    let (address, rest) = match text.strip_prefix('[') {
        Some(text) => text.split_once(']').and_then(|(address, rest)| Some((address, rest.strip_prefix('/')?)))?,
        None => text.split_once('/')?,
    };
    let address: IpAddr = address.parse().ok().filter(|ip: &IpAddr| ip.is_ipv6() == text.starts_with('['))?;
    let (bits, port) = rest.split_at(rest.find(':').unwrap_or(rest.len()));
    let bits = bits.parse().ok().filter(|bits| *bits <= if address.is_ipv4() { 32 } else { 128 })?;
    Some(FilterEnd { network: Some((address, bits)), port: port_of(port)? })
}

/// The port behind a colon; outer none where something else is there.
fn port_of(text: &str) -> Option<Option<u16>> {
    if text.is_empty() { Some(None) } else { text.strip_prefix(':')?.parse().ok().map(Some) }
}

/// A text that is no [`Filter`]. Who wrote it is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoFilter;

impl fmt::Display for NoFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no filter of packets: write PROTOCOL SOURCE DESTINATION, as udp * 10.0.0.2/32:7000 or tcp [fd00::]/64 *:80")
    }
}

impl std::error::Error for NoFilter {}

/// Where a channel's packets go, on its lane.
#[derive(Debug)]
pub(crate) enum Sink {
    Lane(usize),
    Ring(Producer),
}

/// The channels of a lane.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    exact: BTreeMap<Tuple, u64>,
    masked: Vec<(Filter, u64)>,
    sinks: BTreeMap<u64, Sink>,
}

impl Channels {
    /// Opens a channel, whose number is the caller's.
    pub fn open(&mut self, number: u64, filter: &Filter, target: Target, lanes: usize) -> Result<(), ChannelRefused> {
        if self.sinks.len() >= CHANNELS_MAX {
            return Err(ChannelRefused::Many);
        }
        if self.sinks.contains_key(&number) {
            return Err(ChannelRefused::Number);
        }
        let tuple = filter.only();
        if tuple.is_some_and(|tuple| self.exact.contains_key(&tuple)) || self.masked.iter().any(|(known, _)| known == filter) {
            return Err(ChannelRefused::Filter);
        }
        let sink = match target {
            Target::Lane(lane) if lane < lanes => Sink::Lane(lane),
            Target::Lane(_) => return Err(ChannelRefused::Lane),
            Target::Ring(memory) => Sink::Ring(Producer::new(memory).map_err(|_| ChannelRefused::Ring)?),
        };
        match tuple {
            Some(tuple) => drop(self.exact.insert(tuple, number)),
            None => self.masked.push((*filter, number)),
        }
        self.sinks.insert(number, sink);
        assert_eq!(self.sinks.len(), self.exact.len() + self.masked.len(), "each channel has one filter");
        Ok(())
    }

    /// Takes a channel away: its packets are the lane's again. Whether there was one.
    pub fn close(&mut self, number: u64) -> bool {
        self.exact.retain(|_, of| *of != number);
        self.masked.retain(|(_, of)| *of != number);
        let had = self.sinks.remove(&number).is_some();
        assert_eq!(self.sinks.len(), self.exact.len() + self.masked.len(), "each channel has one filter");
        had
    }

    /// The channel of a packet.
    pub fn find(&mut self, packet: &Packet, ip: &Ip) -> Option<&mut Sink> {
        if self.sinks.is_empty() {
            return None;
        }
        let tuple = Tuple::of(packet, ip);
        let masked = || self.masked.iter().find(|(filter, _)| filter.matches(&tuple)).map(|(_, number)| number);
        let number = self.exact.get(&tuple).or_else(masked)?;
        let sink = self.sinks.get_mut(number);
        assert!(sink.is_some(), "each filter has its channel");
        sink
    }

    /// Shows consumers what was put in since the last time.
    pub fn publish(&mut self) {
        for sink in self.sinks.values_mut() {
            if let Sink::Ring(producer) = sink {
                producer.publish();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_03_filters_are_read_and_what_is_none_is_refused() {
        let end = |ip: &str, bits, port| FilterEnd { network: Some((ip.parse().unwrap(), bits)), port };
        for (text, source, destination) in [
            ("udp * *", FilterEnd::default(), FilterEnd::default()),
            ("udp *:9 10.0.0.2/32:7000", FilterEnd { port: Some(9), ..FilterEnd::default() }, end("10.0.0.2", 32, Some(7000))),
            ("17 [fd00::]/64 [fd00::2]/128:7", end("fd00::", 64, None), end("fd00::2", 128, Some(7))),
        ] {
            assert_eq!(text.parse(), Ok(Filter { protocol: 17, source, destination }), "{text}");
        }
        for text in [
            "",
            "udp",
            "udp *",
            "udp * * *",
            "dns * *",
            "udp 10.0.0.2 *",
            "udp 10.0.0.2/33 *",
            "udp fd00::/64 *",
            "udp *9 *",
            "udp *:70000 *",
        ] {
            assert_eq!(text.parse::<Filter>(), Err(NoFilter), "{text}");
        }
    }

    #[test]
    fn c_03_masks_of_any_width_match_what_is_within() {
        for (ip, network, bits, is_in) in [
            ("10.0.0.9", "10.0.0.1", 24, true),
            ("10.0.1.9", "10.0.0.1", 24, false),
            ("1.2.3.4", "9.9.9.9", 0, true),
            ("9.9.9.8", "9.9.9.9", 32, false),
            ("fd00::9", "fd00::1", 64, true),
            ("fd00:0:0:1::9", "fd00::1", 64, false),
            ("fe00::", "::1", 0, true),
            ("::2", "::1", 128, false),
            ("::1", "1.2.3.4", 0, false),
        ] {
            assert_eq!(is_within(ip.parse().unwrap(), network.parse().unwrap(), bits), is_in, "{ip} {network}/{bits}");
        }
    }
}
