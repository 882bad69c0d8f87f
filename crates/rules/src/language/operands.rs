//! Numbers, addresses, ports and names, as rules and commands have them.

use super::names;
use super::rule::{Hosts, InTable, Link, Test};
use super::words::Cursor;
use crate::error::Error;
use crate::facts::Family;
use crate::prefix::Prefix;
use std::net::{IpAddr, Ipv4Addr};

/// Characters of a table's name at the most.
const TABLE_NAME_MAX: usize = 63;
/// Characters of an interface's name at the most (`IFNAMSIZ`).
const LINK_NAME_MAX: usize = 15;

/// A number from `least` to `most`.
pub fn number(cursor: &mut Cursor<'_>, what: &str, least: u32, most: u32) -> Result<u32, Error> {
    let word = cursor.word(&format!("{what}, {least} to {most}"))?;
    let number = word.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| cursor.fault_before(format!("\"{word}\" is not {what}"), format!("write {least} to {most}")))
}

/// The number of a set.
pub fn set(cursor: &mut Cursor<'_>) -> Result<u8, Error> {
    number(cursor, "the number of a set", 0, 31).map(|set| set as u8)
}

/// The number of a rule that can be added and deleted.
pub fn rule_number(cursor: &mut Cursor<'_>) -> Result<u16, Error> {
    number(cursor, "the number of a rule", 1, 65_534).map(|number| number as u16)
}

/// A protocol or a family; none for all.
pub fn protocol(cursor: &mut Cursor<'_>) -> Result<Option<Test>, Error> {
    let word = cursor.word("a protocol")?;
    Ok(Some(match word {
        "ip" | "all" => return Ok(None),
        "ip4" | "ipv4" => Test::Family(Family::V4),
        "ip6" | "ipv6" => Test::Family(Family::V6),
        _ => match names::number(names::PROTOCOLS, word).or_else(|| word.parse().ok()) {
            Some(number) => Test::Protocol(number),
            None => {
                let remedy = "write ip, ip4, ip6, tcp, udp, icmp, ipv6-icmp or a number to 255";
                return Err(cursor.fault_before(format!("\"{word}\" is no protocol"), remedy));
            }
        },
    }))
}

/// Addresses; none for any.
pub fn hosts(cursor: &mut Cursor<'_>) -> Result<Option<Hosts>, Error> {
    let word = cursor.word("an address, a prefix, any, me or table(NAME)")?;
    Ok(Some(match word {
        "any" => return Ok(None),
        "me" => Hosts::Me,
        "me6" => Hosts::Me6,
        _ if word.starts_with("table(") => Hosts::Table(table_of(cursor, word)?),
        _ => {
            let prefixes: Result<Vec<Prefix>, String> = word.split(',').map(prefix_of).collect();
            let remedy = "write an address, a prefix such as 10.0.0.0/8, any, me or table(NAME)";
            Hosts::Prefixes(prefixes.map_err(|what| cursor.fault_before(what, remedy))?)
        }
    }))
}

/// One prefix.
pub fn prefix(cursor: &mut Cursor<'_>) -> Result<Prefix, Error> {
    let word = cursor.word("an address or a prefix")?;
    prefix_of(word).map_err(|what| cursor.fault_before(what, "write an address, or a prefix such as 10.0.0.0/8"))
}

/// The prefix that a text means, or what is wrong with it.
pub fn prefix_of(text: &str) -> Result<Prefix, String> {
    if text.contains('{') {
        return Err(format!("\"{text}\" is a list of last bytes, which is not understood"));
    }
    let (address, length) = match (text.split_once('/'), text.parse::<IpAddr>()) {
        (None, Ok(address)) => return Ok(Prefix::of(address.into())),
        (Some((address, length)), _) => (address, length.parse().ok()),
        (None, Err(_)) => match text.split_once(':') {
            Some((address, mask)) => (address, mask.parse().ok().and_then(length_of)),
            None => (text, None),
        },
    };
    let Ok(address) = address.parse() else {
        return Err(format!("\"{text}\" is no address; names are not looked up"));
    };
    let prefix = length.and_then(|length| Prefix::new(address, length));
    prefix.ok_or_else(|| format!("the length of \"{text}\" is none of its family's"))
}

/// The length of a mask whose ones stand in front.
fn length_of(mask: Ipv4Addr) -> Option<u8> {
    let mask = u32::from(mask);
    (mask.leading_ones() + mask.trailing_zeros() >= 32).then_some(mask.leading_ones() as u8)
}

/// `table(NAME)` or `table(NAME,VALUE)`.
fn table_of(cursor: &Cursor<'_>, word: &str) -> Result<InTable, Error> {
    let inside = word.strip_prefix("table(").and_then(|rest| rest.strip_suffix(')'));
    let parsed = inside.and_then(|inside| match inside.split_once(',') {
        None => Some(InTable { name: inside.to_owned(), value: None }),
        Some((name, value)) => Some(InTable { name: name.to_owned(), value: Some(value.parse().ok()?) }),
    });
    match parsed {
        Some(table) if is_table_name(&table.name) => Ok(table),
        _ => Err(cursor.fault_before(format!("\"{word}\" is no table"), "write table(NAME) or table(NAME,NUMBER)")),
    }
}

fn is_table_name(name: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (1..=TABLE_NAME_MAX).contains(&name.len()) && name.chars().all(fine)
}

/// The name of a table.
pub fn table_name(cursor: &mut Cursor<'_>) -> Result<String, Error> {
    let name = cursor.word("the name of a table")?;
    if is_table_name(name) {
        return Ok(name.to_owned());
    }
    let remedy = format!("write at most {TABLE_NAME_MAX} letters, digits, `_`, `-` and `.`");
    Err(cursor.fault_before(format!("\"{name}\" is no name of a table"), remedy))
}

/// The name of an interface, without anything that stands for others.
pub fn link_name(cursor: &mut Cursor<'_>) -> Result<String, Error> {
    match link(cursor)? {
        Link::Name(name) if !name.contains(['*', '?']) => Ok(name),
        _ => Err(cursor.fault_before("this is not the name of one interface", "write its name")),
    }
}

/// Interfaces.
pub fn link(cursor: &mut Cursor<'_>) -> Result<Link, Error> {
    let word = cursor.word("the name of an interface")?;
    if word == "any" {
        return Ok(Link::Any);
    }
    if word.starts_with("table(") {
        return table_of(cursor, word).map(Link::Table);
    }
    if word.parse::<IpAddr>().is_ok() {
        return Err(cursor.fault_before(format!("\"{word}\" is an address"), "write the interface's name"));
    }
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '@' | '*' | '?');
    if (1..=LINK_NAME_MAX).contains(&word.len()) && word.chars().all(fine) {
        return Ok(Link::Name(word.to_owned()));
    }
    Err(cursor.fault_before(format!("\"{word}\" is no name of an interface"), "write one such as vlan12 or vlan*"))
}

/// Whether a word looks like a list of ports.
pub fn is_ports(word: &str) -> bool {
    word.split([',', '-']).next().is_some_and(|first| port_of(first).is_some())
        || word.split(',').all(|one| names::number(names::SERVICES, one).is_some())
}

fn port_of(text: &str) -> Option<u16> {
    text.parse().ok().or_else(|| names::number(names::SERVICES, text))
}

/// A list of ports and ranges of ports.
pub fn ports(cursor: &mut Cursor<'_>) -> Result<Vec<(u16, u16)>, Error> {
    let word = cursor.word("a port")?;
    list_of(word, port_of)
        .ok_or_else(|| cursor.fault_before(format!("\"{word}\" is no list of ports"), "write one such as 22,1000-2000"))
}

/// A list of numbers, and ranges of them, up to `most`.
pub fn numbers(cursor: &mut Cursor<'_>, most: u16) -> Result<Vec<(u16, u16)>, Error> {
    let word = cursor.word("a number")?;
    let remedy = format!("write numbers to {most}, such as 3,8-10");
    list_of(word, |text| text.parse().ok().filter(|number| *number <= most))
        .ok_or_else(|| cursor.fault_before(format!("\"{word}\" is no list of such numbers"), remedy))
}

fn list_of(word: &str, one: impl Fn(&str) -> Option<u16>) -> Option<Vec<(u16, u16)>> {
    let range = |text: &str| {
        // A name may have a hyphen within.
        if let Some(only) = one(text) {
            return Some((only, only));
        }
        let (first, last) = text.split_once('-')?;
        let (first, last) = (one(first)?, one(last)?);
        (first <= last).then_some((first, last))
    };
    word.split(',').map(range).collect()
}

/// TCP's control bits: those that are set, those that are not.
pub fn tcp_flags(cursor: &mut Cursor<'_>) -> Result<Test, Error> {
    let word = cursor.word("TCP's control bits")?;
    let (mut set, mut clear) = (0, 0);
    for flag in word.split(',') {
        let (name, bits) = flag.strip_prefix('!').map_or((flag, &mut set), |name| (name, &mut clear));
        match names::number(names::TCP_FLAGS, name) {
            Some(bit) => *bits |= bit,
            None => {
                let remedy = "write fin, syn, rst, psh, ack, urg, with ! for those that are not set";
                return Err(cursor.fault_before(format!("\"{flag}\" is no control bit of TCP"), remedy));
            }
        }
    }
    if set & clear != 0 {
        return Err(cursor.fault_before(format!("\"{word}\" wants a bit both ways"), "name each bit once"));
    }
    Ok(Test::TcpFlags { set, clear })
}
