//! What a rule matches.

use super::operands::{hosts, is_ports, link, numbers, ports, protocol, tcp_flags};
use super::rule::{Body, Clause, Keep, LimitBy, Literal, Test};
use super::words::{COMMENT, Cursor};
use crate::error::Error;
use crate::facts::Direction;

/// What ipfw's rules may ask, and ours do not.
const NOT_ASKED: &[&str] = &[
    "antispoof",
    "bridged",
    "diverted",
    "diverted-loopback",
    "diverted-output",
    "dscp",
    "ext6hdr",
    "flow",
    "flow-id",
    "fib",
    "gid",
    "ipid",
    "ipoptions",
    "ipprecedence",
    "ipsec",
    "iptos",
    "ipttl",
    "ipversion",
    "jail",
    "layer2",
    "lookup",
    "mac",
    "MAC",
    "mac-type",
    "defer-immediate-action",
    "defer-action",
    "record-state",
    "set-limit",
    "sockarg",
    "src-ip-mac",
    "tagged",
    "tcpack",
    "tcpdatalen",
    "tcpmss",
    "tcpoptions",
    "tcpseq",
    "tcpwin",
    "uid",
    "verrevpath",
    "versrcreach",
];

/// The clauses of a rule, and whether it makes states; up to a comment or the end.
pub fn body(cursor: &mut Cursor<'_>) -> Result<(Body, Option<Keep>), Error> {
    let mut body = Body::default();
    if has_head(cursor) {
        body.protocol = clause(cursor, protocol)?;
        cursor.require("from")?;
        body.source = clause(cursor, |cursor| Ok(hosts(cursor)?.map(Test::Source)))?;
        body.source_ports = port_clause(cursor, Test::SourcePorts)?;
        cursor.require("to")?;
        body.destination = clause(cursor, |cursor| Ok(hosts(cursor)?.map(Test::Destination)))?;
        body.destination_ports = port_clause(cursor, Test::DestinationPorts)?;
    }
    let mut keep = None;
    while let Some(word) = cursor.peek().filter(|word| !word.starts_with(COMMENT)) {
        if matches!(word, "keep-state" | "limit") {
            let former = keep.replace(state(cursor)?);
            if former.is_some() {
                return Err(cursor.fault_before("the rule makes its state twice", "write keep-state or limit once"));
            }
            continue;
        }
        let one = clause(cursor, |cursor| option(cursor).map(Some))?;
        let of_ports = one.iter().all(|literal| matches!(literal.test, Test::DestinationPorts(_)));
        if of_ports && body.destination_ports.is_empty() && body.options.is_empty() {
            body.destination_ports = one;
        } else {
            body.options.push(one);
        }
    }
    Ok((body, keep))
}

/// Whether protocol and addresses come, rather than options alone.
fn has_head(cursor: &Cursor<'_>) -> bool {
    let first = (0..2).find_map(|ahead| cursor.ahead(ahead).filter(|word| !matches!(*word, "not" | "{")));
    first.is_none_or(|word| !is_option(word) && !word.starts_with(COMMENT))
}

fn is_option(word: &str) -> bool {
    const OPTIONS: &[&str] = &[
        "in",
        "out",
        "via",
        "recv",
        "xmit",
        "tcpflags",
        "established",
        "setup",
        "frag",
        "icmptypes",
        "icmp6types",
        "iplen",
        "proto",
        "src-ip",
        "dst-ip",
        "src-ip6",
        "dst-ip6",
        "src-port",
        "dst-port",
        "keep-state",
        "limit",
    ];
    OPTIONS.contains(&word) || NOT_ASKED.contains(&word)
}

/// One question, or several in braces with `or` between them. A question that everything meets makes the clause empty.
fn clause(cursor: &mut Cursor<'_>, mut one: impl FnMut(&mut Cursor<'_>) -> Result<Option<Test>, Error>) -> Result<Clause, Error> {
    let mut literals = Vec::new();
    let mut meets_all = false;
    let is_block = cursor.take("{");
    loop {
        let not = cursor.take("not");
        match one(cursor)? {
            Some(test) => literals.push(Literal { not, test }),
            None if not => return Err(cursor.fault_before("nothing is not that", "leave `not` out, or the rule")),
            None => meets_all = true,
        }
        if !is_block || cursor.take("}") {
            break;
        }
        cursor.require("or")?;
    }
    Ok(if meets_all { Vec::new() } else { literals })
}

/// Ports, if any come.
fn port_clause(cursor: &mut Cursor<'_>, test: fn(Vec<(u16, u16)>) -> Test) -> Result<Clause, Error> {
    let at = (0..2).find(|ahead| !matches!(cursor.ahead(*ahead), Some("not" | "{"))).unwrap_or(2);
    if cursor.ahead(at).is_some_and(is_ports) {
        clause(cursor, |cursor| ports(cursor).map(test).map(Some))
    } else {
        Ok(Vec::new())
    }
}

fn state(cursor: &mut Cursor<'_>) -> Result<Keep, Error> {
    let mut keep = Keep::State;
    if cursor.word("keep-state or limit")? == "limit" {
        let mut by = LimitBy::default();
        loop {
            match cursor.peek() {
                Some("src-addr") => by.source = true,
                Some("src-port") => by.source_port = true,
                Some("dst-addr") => by.destination = true,
                Some("dst-port") => by.destination_port = true,
                _ => break,
            }
            cursor.word("a part")?;
        }
        if by == LimitBy::default() {
            return Err(cursor.fault("limit does not say what is counted", "write src-addr, src-port, dst-addr or dst-port"));
        }
        keep = Keep::Limit(by, super::operands::number(cursor, "the number of flows", 1, 65_535)? as u16);
    }
    flow_name(cursor)?;
    Ok(keep)
}

/// The name of states, of which there is one.
pub fn flow_name(cursor: &mut Cursor<'_>) -> Result<(), Error> {
    let Some(name) = cursor.peek().filter(|word| word.starts_with(':')) else { return Ok(()) };
    cursor.word("a name")?;
    if matches!(name, ":default" | ":any") {
        return Ok(());
    }
    Err(cursor.fault_before(format!("states named \"{name}\" are not kept apart"), "leave the name out"))
}

/// One question among the options.
fn option(cursor: &mut Cursor<'_>) -> Result<Test, Error> {
    let all = |cursor: &Cursor<'_>| cursor.fault_before("that asks nothing", "leave it out");
    let word = cursor.word("an option")?;
    Ok(match word {
        "in" => Test::Direction(Direction::In),
        "out" => Test::Direction(Direction::Out),
        "via" => Test::Via(link(cursor)?),
        "recv" => Test::Receive(link(cursor)?),
        "xmit" => Test::Transmit(link(cursor)?),
        "tcpflags" => tcp_flags(cursor)?,
        "established" => Test::Established,
        "setup" => Test::Setup,
        "frag" => fragment(cursor)?,
        "icmptypes" => Test::IcmpTypes(numbers(cursor, 255)?),
        "icmp6types" => Test::Icmp6Types(numbers(cursor, 255)?),
        "iplen" => Test::Lengths(numbers(cursor, u16::MAX)?),
        "proto" => protocol(cursor)?.ok_or_else(|| all(cursor))?,
        "src-ip" | "src-ip6" => Test::Source(hosts(cursor)?.ok_or_else(|| all(cursor))?),
        "dst-ip" | "dst-ip6" => Test::Destination(hosts(cursor)?.ok_or_else(|| all(cursor))?),
        "src-port" => Test::SourcePorts(ports(cursor)?),
        "dst-port" => Test::DestinationPorts(ports(cursor)?),
        _ if NOT_ASKED.contains(&word) => {
            return Err(cursor.fault_before(format!("\"{word}\" is not looked at here"), "write the rule without it"));
        }
        _ => {
            let remedy = "write in, out, via, recv, xmit, src-port, dst-port, tcpflags, established, setup, frag, icmptypes, \
                          icmp6types, iplen, proto, src-ip, dst-ip, keep-state or limit";
            return Err(cursor.fault_before(format!("\"{word}\" is no option"), remedy));
        }
    })
}

fn fragment(cursor: &Cursor<'_>) -> Result<Test, Error> {
    match cursor.peek() {
        Some(kind) if ["df", "mf", "rf", "offset", "!"].iter().any(|known| kind.starts_with(known)) => {
            Err(cursor
                .fault("the bits of a fragment are not asked one by one", "write frag alone: a fragment other than the first"))
        }
        _ => Ok(Test::Fragment),
    }
}
