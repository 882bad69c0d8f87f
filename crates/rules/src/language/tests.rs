//! What is understood, what is refused, and that what is printed means the same.

use super::*;
use crate::error::Error;
use crate::facts::Family;

fn added(text: &str) -> (Option<u16>, Rule) {
    match command(&format!("add {text}"), 1) {
        Ok(Command::Add(number, rule)) => (number, rule),
        other => panic!("{text}: {other:?}"),
    }
}

fn printed(text: &str) -> String {
    let (number, rule) = added(text);
    let printed = rule.to_string();
    assert_eq!(added(&printed).1, rule, "{text}: {printed}");
    number.map_or(printed.clone(), |number| format!("{number:05} {printed}"))
}

#[test]
fn rules_are_printed_as_ipfw_prints_them() {
    for (text, expected) in [
        ("100 allow all from any to any", "00100 allow ip from any to any"),
        ("count ip from any to any in via vlan12", "count ip from any to any in via vlan12"),
        ("pass tcp from 10.1.2.3/8 to me ssh,80 setup", "allow tcp from 10.0.0.0/8 to me dst-port 22,80 setup"),
        ("drop udp from any 53,1000-2000 to not 192.168.1.1", "deny udp from any 53,1000-2000 to not 192.168.1.1"),
        ("deny ip from 10.0.0.0:255.255.0.0 to any", "deny ip from 10.0.0.0/16 to any"),
        ("unreach host ip from any to any", "reject ip from any to any"),
        ("unreach filter-prohib ip from any to any", "unreach filter-prohib ip from any to any"),
        ("unreach6 admin-prohib ip6 from any to any", "unreach6 admin-prohib ip6 from any to any"),
        ("unreach6 6 ip6 from any to any", "unreach6 6 ip6 from any to any"),
        ("reset tcp from any to any 25", "reset tcp from any to any dst-port 25"),
        ("skipto 500 ip from any to any via em*", "skipto 500 ip from any to any via em*"),
        ("65534 set 31 deny log logamount 5 ip from any to any", "65534 set 31 deny log logamount 5 ip from any to any"),
        ("deny log ip from any to any", "deny log ip from any to any"),
        ("count ip from 10.0.0.1, 10.0.0.2/31 to any", "count ip from 10.0.0.1,10.0.0.2/31 to any"),
        ("count ip from { 10.0.0.1 or not me } to any", "count ip from { 10.0.0.1 or not me } to any"),
        ("count { tcp or udp } from any to any", "count { tcp or udp } from any to any"),
        ("count not tcp from not me6 to table(bad)", "count not tcp from not me6 to table(bad)"),
        ("count ip from table(1,5) to 2001:db8::/32", "count ip from table(1,5) to 2001:db8::/32"),
        ("count tcp from any to any established not frag", "count tcp from any to any established not frag"),
        ("count tcp from any to any tcpflags syn,!ack,!fin", "count tcp from any to any tcpflags !fin,syn,!ack"),
        ("count icmp from any to any icmptypes 0,8,11", "count icmp from any to any icmptypes 0,8,11"),
        ("count icmp6 from any to any icmp6types 128-129", "count ipv6-icmp from any to any icmp6types 128-129"),
        ("count ip from any to any iplen 0-63,1500", "count ip from any to any iplen 0-63,1500"),
        ("count 47 from any to any out recv a0 xmit table(2)", "count gre from any to any out recv a0 xmit table(2)"),
        ("count ip from any to any { in or not via em0 }", "count ip from any to any { in or not via em0 }"),
        ("count ip from any to any { dst-port 1 or dst-port 2 }", "count ip from any to any { dst-port 1 or dst-port 2 }"),
        ("count ip from any not 80 to any not 90", "count ip from any not 80 to any not dst-port 90"),
        ("count via em0", "count ip from any to any via em0"),
        ("count not in", "count ip from any to any not in"),
        ("check-state", "check-state :default"),
        ("allow tcp from me to any setup keep-state", "allow tcp from me to any setup keep-state :default"),
        ("allow tcp from any to me limit src-addr 4", "allow tcp from any to me limit src-addr 4 :default"),
        ("allow ip from any to any // hello, {there}", "allow ip from any to any // hello, {there}"),
        ("allow ip from { 1.2.3.4 or any } to any", "allow ip from any to any"),
        ("allow ip4 from 0.0.0.0/0 to any proto tcp", "allow ip4 from 0.0.0.0/0 to any proto tcp"),
        (
            "allow ip from any to any src-ip 1.2.3.4 src-port 5 dst-ip me",
            "allow ip from any to any src-ip 1.2.3.4 src-port 5 dst-ip me",
        ),
    ] {
        assert_eq!(printed(text), expected, "{text}");
    }
}

#[test]
fn what_is_not_understood_is_refused_where_it_stands() {
    for (text, column) in [
        ("add allow tcp from any to any prot 80", 31),
        ("add allow tcp form any to any", 15),
        ("add allow tpc from any to any", 11),
        ("add allow ip from 10.0.0.0/33 to any", 19),
        ("add allow ip from 1.2.3.4{1,2} to any", 19),
        ("add allow ip from host.example to any", 19),
        ("add allow ip from any to any via", 33),
        ("add allow ip from any to any uid 5", 30),
        ("add divert 5 ip from any to any", 5),
        ("add 0 allow ip from any to any", 5),
        ("add 65535 allow ip from any to any", 5),
        ("add set 32 allow ip from any to any", 9),
        ("add 500 skipto 500 ip from any to any", 16),
        ("add skipto 65536 ip from any to any", 12),
        ("add allow tcp from any to any 80-70", 31),
        ("add allow tcp from any to any 70000", 31),
        ("add allow ip from not any to any", 23),
        ("add allow ip from { 1.2.3.4 to any", 29),
        ("add allow tcp from any to any tcpflags syn,!syn", 40),
        ("add allow ip from any to any via 1.2.3.4", 34),
        ("add allow ip from any to any limit 5", 36),
        ("add allow ip from any to any keep-state keep-state", 41),
        ("add allow ip from any to any frag mf", 35),
        ("add allow ip from any to any keep-state :web", 41),
        ("add allow ip from table(a,b) to any", 19),
        ("add allow ip from any to any iplen 70000", 36),
        ("add unreach nothing ip from any to any", 13),
        ("flush all", 7),
        ("list", 1),
        ("", 1),
        ("set disable 1 enable 1", 22),
        ("set", 4),
        ("delete", 7),
        ("delete 0", 8),
        ("table t create type number", 21),
        ("table t grow", 9),
        ("table a/b create", 7),
    ] {
        match command(text, 7) {
            Err(Error::Syntax { place, what, remedy }) => {
                assert_eq!((place.line, place.column), (7, column), "{text}: {what}; {remedy}");
                assert!(!what.is_empty() && !remedy.is_empty());
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    let long = format!("add allow ip from any to any // {}", "a".repeat(81));
    assert!(command(&long, 1).is_err() && command(&"a ".repeat(3_000), 1).is_err());
}

#[test]
fn commands_are_understood() {
    let prefix = |text: &str| Key::Prefix(crate::Prefix::new(text.parse().unwrap(), 16).unwrap());
    for (text, expected) in [
        ("ipfw -q -f flush", Command::Flush),
        ("delete 100 200-300", Command::Delete(vec![(100, 100), (200, 300)])),
        ("delete set 5", Command::DeleteSet(5)),
        ("zero", Command::Zero(Vec::new())),
        ("resetlog 100", Command::ResetLog(vec![(100, 100)])),
        ("set disable 1 2 enable 3", Command::Set(SetChange::Switch { off: 0b110, on: 0b1000 })),
        ("set swap 1 2", Command::Set(SetChange::Swap(1, 2))),
        ("set move 1 to 2", Command::Set(SetChange::Move(1, 2))),
        ("set move rule 100 to 2", Command::Set(SetChange::MoveRule(100, 2))),
        ("table 1 create", Command::Table("1".into(), TableChange::Create { of_links: false })),
        ("table l create type iface", Command::Table("l".into(), TableChange::Create { of_links: true })),
        (
            "table l add em0 5 em1",
            Command::Table("l".into(), TableChange::Add(vec![(Key::Link("em0".into()), 5), (Key::Link("em1".into()), 0)])),
        ),
        ("table 1 add 10.1.0.0/16 7", Command::Table("1".into(), TableChange::Add(vec![(prefix("10.1.0.0"), 7)]))),
        ("table 1 delete 10.1.0.0/16", Command::Table("1".into(), TableChange::Delete(vec![prefix("10.1.0.0")]))),
        ("table 1 destroy", Command::Table("1".into(), TableChange::Destroy)),
    ] {
        assert_eq!(command(text, 1), Ok(expected), "{text}");
    }
}

#[test]
fn the_structure_is_what_the_words_say() {
    let (number, rule) = added("7 set 3 count log tcp from not 10.0.0.0/8 1-2 to me 80 in // x");
    assert_eq!((number, rule.set, rule.action, rule.log, rule.comment.as_str()), (Some(7), 3, Action::Count, Log::Yes, "x"));
    assert_eq!(rule.body.protocol, [Literal { not: false, test: Test::Protocol(6) }]);
    assert!(rule.body.source[0].not && rule.body.clauses().count() == 6);
    assert_eq!(rule.body.source_ports, [Literal { not: false, test: Test::SourcePorts(vec![(1, 2)]) }]);
    assert_eq!(added("count ip6 from any to any").1.body.protocol[0].test, Test::Family(Family::V6));
}
