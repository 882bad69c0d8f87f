//! A packet in words, for those who ask what becomes of it.
//!
//! ```text
//! [in|out] [recv LINK] [xmit LINK] [via LINK] PROTOCOL SOURCE[:PORT] > DESTINATION[:PORT] [FLAGS] [type N] [iplen N] [frag first|later]
//! ```

use super::names;
use super::operands::{number, tcp_flags};
use super::rule::Test;
use super::words::{Cursor, split};
use crate::error::Error;
use crate::facts::{Direction, Facts, Interface, Part, Transport};
use std::net::{IpAddr, SocketAddr};

/// Protocols of which rules see ports (the registry "Protocol Numbers").
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: [u8; 2] = [1, 58];

/// The facts of a packet such as `in via vlan10 tcp 10.0.10.5:4000 > 192.0.2.1:80 syn`; without a direction it comes in. Interfaces have these names, the first is
/// number 1. Whose the addresses are is not said.
///
/// # Errors
/// [`Error::Syntax`].
pub fn packet(text: &str, links: &[String]) -> Result<Facts, Error> {
    let mut words = Vec::new();
    split(text, 1, &mut words);
    let mut cursor = Cursor::new(1, &words);
    let (direction, receive, transmit) = way(&mut cursor, links)?;
    let protocol = protocol(&mut cursor)?;
    let (source, from) = end(&mut cursor, "where it comes from")?;
    if !cursor.take(">") && !cursor.take("to") {
        return Err(cursor.fault("the packet goes nowhere", "write > and where it goes to, such as > 192.0.2.1:80"));
    }
    let (destination, to) = end(&mut cursor, "where it goes to")?;
    if source.is_ipv4() != destination.is_ipv4() {
        return Err(cursor.fault_before("the addresses are of two families", "write two of one"));
    }
    let mut facts = Facts { direction, receive, transmit, protocol, ..Facts::between(source, destination) };
    let more = more(&mut cursor, protocol, &mut facts)?;
    facts.transport = transport(&cursor, &facts, (from, to), &more)?;
    if more.length.is_none() {
        facts.length = length(&facts);
    }
    Ok(facts)
}

/// Which way it goes, and by which interfaces.
fn way(cursor: &mut Cursor<'_>, links: &[String]) -> Result<(Direction, Interface, Interface), Error> {
    let is_out = cursor.take("out");
    if !is_out {
        cursor.take("in");
    }
    let (mut receive, mut transmit) = (Interface::NONE, Interface::NONE);
    while let Some(word) = cursor.peek().filter(|word| matches!(*word, "via" | "recv" | "xmit")) {
        cursor.require(word)?;
        let name = cursor.word("the name of an interface")?;
        let Some(at) = links.iter().position(|known| known == name) else {
            let known = links.iter().take(8).map(String::as_str).collect::<Vec<_>>().join(", ");
            let more = if links.len() > 8 { ", .." } else { "" };
            return Err(cursor.fault_before(format!("there is no interface \"{name}\""), format!("name one of {known}{more}")));
        };
        let number = Interface(u16::try_from(at + 1).unwrap_or(u16::MAX));
        match word {
            "recv" => receive = number,
            "xmit" if !is_out => return Err(cursor.fault_before("what comes in has no way out yet", "write out before it")),
            "via" if !is_out => receive = number,
            _ => transmit = number,
        }
    }
    Ok((if is_out { Direction::Out } else { Direction::In }, receive, transmit))
}

fn protocol(cursor: &mut Cursor<'_>) -> Result<u8, Error> {
    cursor.take("proto");
    let word = cursor.word("the packet's protocol: tcp, udp, icmp, ipv6-icmp or a number")?;
    let found = names::number(names::PROTOCOLS, word).or_else(|| word.parse().ok());
    found.ok_or_else(|| {
        let remedy = "write in or out, via and an interface, then tcp, udp, icmp, ipv6-icmp or a number to 255";
        cursor.fault_before(format!("\"{word}\" is no protocol"), remedy)
    })
}

/// An address, and its port if it has one.
fn end(cursor: &mut Cursor<'_>, what: &str) -> Result<(IpAddr, Option<u16>), Error> {
    let word = cursor.word(&format!("{what}, such as 10.0.0.1:4000 or [2001:db8::1]:4000"))?;
    if let Ok(address) = word.parse() {
        return Ok((address, None));
    }
    match word.parse::<SocketAddr>() {
        Ok(both) => Ok((both.ip(), Some(both.port()))),
        Err(_) => Err(cursor.fault_before(
            format!("\"{word}\" is no address with or without a port; names are not looked up"),
            "write one such as 10.0.0.1:4000 or [2001:db8::1]:4000",
        )),
    }
}

/// What stands behind the addresses.
#[derive(Default)]
struct More {
    flags: u8,
    kind: Option<u8>,
    length: Option<u16>,
}

fn more(cursor: &mut Cursor<'_>, protocol: u8, facts: &mut Facts) -> Result<More, Error> {
    let mut more = More::default();
    while let Some(word) = cursor.peek() {
        match word {
            "type" if ICMP.contains(&protocol) => {
                cursor.require(word)?;
                more.kind = Some(number(cursor, "a type", 0, 255)? as u8);
            }
            "iplen" => {
                cursor.require(word)?;
                facts.length = number(cursor, "bytes of the packet", 20, 65_535)? as u16;
                more.length = Some(facts.length);
            }
            "frag" => {
                cursor.require(word)?;
                facts.part = match cursor.word("first or later")? {
                    "first" => Part::First,
                    "later" => Part::Later,
                    other => return Err(cursor.fault_before(format!("\"{other}\" is no part"), "write first or later")),
                };
            }
            _ if protocol == TCP => match tcp_flags(cursor)? {
                Test::TcpFlags { set, clear: 0 } => more.flags |= set,
                _ => return Err(cursor.fault_before("a packet has control bits or has them not", "name those that are set")),
            },
            _ => {
                return Err(cursor.fault(format!("\"{word}\" is too much"), "write type N for ICMP, iplen N or frag first|later"));
            }
        }
    }
    Ok(more)
}

fn transport(cursor: &Cursor<'_>, facts: &Facts, ports: (Option<u16>, Option<u16>), more: &More) -> Result<Transport, Error> {
    if facts.part == Part::Later {
        return Ok(Transport::None);
    }
    match (facts.protocol, ports) {
        (TCP, (Some(from), Some(to))) => Ok(Transport::Tcp(from, to, more.flags)),
        (kind, (None, None)) if ICMP.contains(&kind) => match more.kind {
            Some(kind) => Ok(Transport::Icmp(kind)),
            None => Err(cursor.fault("the message has no type", "write one, such as type 8 for an echo of ICMP")),
        },
        (kind, (Some(_), _) | (_, Some(_))) if ICMP.contains(&kind) => {
            Err(cursor.fault("ICMP has no ports", "write the addresses alone"))
        }
        (_, (Some(from), Some(to))) => Ok(Transport::Ports(from, to)),
        (TCP | UDP, _) | (_, (Some(_), None) | (None, Some(_))) => {
            Err(cursor.fault("a port is missing", "write both, such as 10.0.0.1:4000 > 192.0.2.1:80"))
        }
        (_, (None, None)) => Ok(Transport::None),
    }
}

/// Bytes of the least such packet.
fn length(facts: &Facts) -> u16 {
    let ip = if facts.source.is_v4() { 20 } else { 40 };
    ip + match facts.transport {
        Transport::None => 0,
        Transport::Tcp(..) => 20,
        Transport::Ports(..) | Transport::Icmp(_) => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links() -> Vec<String> {
        (0..20).map(|number| format!("vlan{number}")).collect()
    }

    fn read(text: &str) -> Facts {
        packet(text, &links()).unwrap()
    }

    #[test]
    fn packets_are_read() {
        let source: IpAddr = "10.0.10.5".parse().unwrap();
        let facts = read("in via vlan10 tcp 10.0.10.5:4000 > 192.0.2.1:80 syn");
        let expected = Facts {
            receive: Interface(11),
            protocol: 6,
            transport: Transport::Tcp(4000, 80, 2),
            length: 40,
            ..Facts::between(source, "192.0.2.1".parse().unwrap())
        };
        assert_eq!(facts, expected);
        assert_eq!(read("via vlan10 tcp 10.0.10.5:4000 to 192.0.2.1:80 syn"), expected, "it comes in, and `to` is as good");
        let out = read("out recv vlan1 via vlan2 udp [2001:db8::1]:53 > [2001:db8::2]:54 iplen 900");
        assert_eq!((out.direction, out.receive, out.transmit), (Direction::Out, Interface(2), Interface(3)));
        assert_eq!((out.transport, out.length), (Transport::Ports(53, 54), 900));
        assert_eq!(read("out xmit vlan0 89 10.0.0.1 > 224.0.0.5").transmit, Interface(1));
        assert_eq!(read("icmp 10.0.0.1 > 10.0.0.2 type 8").transport, Transport::Icmp(8));
        assert_eq!(read("ipv6-icmp fe80::1 > ff02::1 type 135").transport, Transport::Icmp(135));
        assert_eq!(read("tcp 10.0.0.1:1 > 10.0.0.2:2 syn,ack psh").transport, Transport::Tcp(1, 2, 0x1a));
        let later = read("udp 10.0.0.1 > 10.0.0.2 frag later");
        assert_eq!((later.part, later.transport, later.length), (Part::Later, Transport::None, 20));
        assert_eq!(read("udp 10.0.0.1:1 > 10.0.0.2:2 frag first").part, Part::First);
        assert_eq!(read("sctp 10.0.0.1:1 > 10.0.0.2:2").transport, Transport::Ports(1, 2));
    }

    #[test]
    fn what_is_wrong_with_a_packet_is_said_with_its_column() {
        for (text, column, words) in [
            ("", 1, "the line ends too early; write the packet's protocol"),
            ("in via vlan99 tcp", 8, "there is no interface \"vlan99\"; name one of vlan0, vlan1"),
            ("in xmit vlan1 tcp", 9, "what comes in has no way out yet"),
            ("tpc 1.2.3.4:5 > 1.2.3.4:6", 1, "\"tpc\" is no protocol"),
            ("tcp host:5 > 1.2.3.4:6", 5, "\"host:5\" is no address"),
            ("tcp 1.2.3.4:5 1.2.3.4:6", 15, "the packet goes nowhere"),
            ("tcp 1.2.3.4:5 >", 16, "the line ends too early"),
            ("tcp 1.2.3.4:5 > [::1]:6", 17, "two families"),
            ("tcp 1.2.3.4 > 1.2.3.5:6", 24, "a port is missing"),
            ("udp 1.2.3.4:5 > 1.2.3.5", 24, "a port is missing"),
            ("gre 1.2.3.4:5 > 1.2.3.5", 24, "a port is missing"),
            ("icmp 1.2.3.4:5 > 1.2.3.5 type 0", 32, "ICMP has no ports"),
            ("icmp 1.2.3.4 > 1.2.3.5", 23, "the message has no type"),
            ("icmp 1.2.3.4 > 1.2.3.5 type 256", 29, "write 0 to 255"),
            ("udp 1.2.3.4:5 > 1.2.3.5:6 syn", 27, "\"syn\" is too much"),
            ("tcp 1.2.3.4:5 > 1.2.3.5:6 !syn", 27, "a packet has control bits or has them not"),
            ("tcp 1.2.3.4:5 > 1.2.3.5:6 sin", 27, "\"sin\" is no control bit"),
            ("tcp 1.2.3.4:5 > 1.2.3.5:6 frag last", 32, "\"last\" is no part"),
            ("tcp 1.2.3.4:5 > 1.2.3.5:6 iplen 19", 33, "write 20 to 65535"),
        ] {
            match packet(text, &links()).unwrap_err() {
                Error::Syntax { place, what, remedy } => {
                    let said = format!("{what}; {remedy}");
                    assert!(said.contains(words) && (place.line, place.column) == (1, column), "{text}: {place:?} {said}");
                }
                other => panic!("{other}"),
            }
        }
    }
}
