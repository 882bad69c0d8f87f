//! The table of hostile heads, `tests/data/http1-heads.tsv`: what each comes to here, and at three other servers.

use crate::parsers::http1::exchange::{Event, Listener};

/// A row.
pub struct HostileHead {
    pub what: String,
    pub sent: Vec<u8>,
    here: String,
    theirs: Vec<String>,
    why: String,
}

/// All rows.
pub fn rows() -> Vec<HostileHead> {
    let lines = include_str!("../../data/http1-heads.tsv").lines().filter(|line| !line.starts_with('#'));
    let row = |line: &str| {
        let cells: Vec<_> = line.split('\t').map(str::to_owned).collect();
        let [section, what, sent, here, node, go, h11, why] = cells.try_into().unwrap();
        HostileHead {
            what: format!("{section}, {what}"),
            sent: unescaped(&repeated(&sent)),
            here,
            theirs: vec![node, go, h11],
            why,
        }
    };
    lines.skip(1).map(row).collect()
}

/// `{a*3}` as `aaa`.
fn repeated(text: &str) -> String {
    let Some((before, rest)) = text.split_once('{') else { return text.to_owned() };
    let (inside, after) = rest.split_once('}').unwrap();
    let (what, count) = inside.rsplit_once('*').unwrap();
    before.to_owned() + &what.repeat(count.parse().unwrap()) + &repeated(after)
}

fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let (byte, length) = match (first, after.first()) {
            (b'\\', Some(b'r')) => (b'\r', 2),
            (b'\\', Some(b'n')) => (b'\n', 2),
            (b'\\', Some(b't')) => (b'\t', 2),
            (b'\\', Some(b'x')) => (u8::from_str_radix(std::str::from_utf8(&rest[2..4]).unwrap(), 16).unwrap(), 4),
            (b'\\', _) => panic!("{text}"),
            (other, _) => (*other, 1),
        };
        bytes.push(byte);
        rest = &rest[length..];
    }
    bytes
}

/// What `sent` comes to, as the table has it.
fn verdict(sent: &[u8]) -> String {
    let mut server = Listener::server();
    server.feed(sent);
    let one = |event: &Event| match event {
        Event::Whole(content) => Some(format!("200:{}", content.len())),
        Event::Refused(refusal, _) => Some(format!("{:?}", refusal.status())),
        Event::Closed(Some(refusal)) if *refusal != corelane_wire::http1::Refusal::CutShort => {
            Some(format!("{:?}!", refusal.status()))
        }
        _ => None,
    };
    let all: Vec<_> = server.finish().iter().filter_map(one).collect();
    if all.is_empty() { "more".to_owned() } else { all.join(" ") }
}

/// A verdict as far as servers must agree: what is served with how much content, and what is not.
fn essence(verdict: &str) -> Vec<&str> {
    verdict.split(' ').map(|one| if one == "more" || one.starts_with("200") { one } else { "refused" }).collect()
}

#[test]
fn each_head_comes_to_what_the_table_says() {
    let rows = rows();
    assert!(rows.len() > 200);
    for row in rows {
        assert_eq!(verdict(&row.sent), row.here, "{}", row.what);
    }
}

#[test]
fn where_others_judge_otherwise_the_table_says_why() {
    for HostileHead { what, here, theirs, why, .. } in rows() {
        let differs = theirs.iter().any(|theirs| essence(theirs) != essence(&here));
        assert_eq!(differs, !why.is_empty(), "{what}: here {here}, elsewhere {theirs:?}, because {why:?}");
    }
}

/// Nothing that all others refuse is served here, but for what the RFC demands.
#[test]
fn what_all_others_refuse_is_refused() {
    let serves = |verdict: &str| verdict.starts_with("200");
    let alone = rows().into_iter().filter(|row| serves(&row.here) && !row.theirs.iter().any(|theirs| serves(theirs)));
    let alone: Vec<_> = alone.map(|row| row.what).collect();
    assert_eq!(alone, ["9112 7.1.1, an extension with white space"]);
}
