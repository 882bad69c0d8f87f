//! Messages of DHCP for IPv6: their fields by place, their options by grammar.

use corelane_wire::Error;
use corelane_wire::packet::dhcpv6::{Choice, Header, INTERFACE_ID, Kind, RELAY_MESSAGE, View};
use corelane_wire::xdr::Writer;

/// A solicitation with its client's name.
const SOLICIT: [u8; 12] = [1, 0xa, 0xb, 0xc, 0, 1, 0, 4, 0, 3, 0, 1];

fn header() -> Header {
    Header { kind: Kind::RELAY_FORWARD, hops: 3, link: "2001:db8::1".parse().unwrap(), peer: "fe80::9".parse().unwrap() }
}

fn message(header: &Header, options: &[Choice<'_>]) -> Vec<u8> {
    let mut memory = [0xee; 1024];
    let mut writer = Writer::new(&mut memory);
    header.emit(options.iter().copied(), &mut writer).unwrap();
    writer.written().to_vec()
}

fn relayed() -> Vec<u8> {
    message(&header(), &[Choice { code: INTERFACE_ID, data: b"eth0.7" }, Choice { code: RELAY_MESSAGE, data: &SOLICIT }])
}

/// Seeds of the fuzz target.
pub fn samples() -> Vec<(&'static str, Vec<u8>)> {
    let reply = Header { kind: Kind::RELAY_REPLY, ..header() };
    let twice = message(&header(), &[Choice { code: RELAY_MESSAGE, data: &relayed() }]);
    vec![
        ("solicit", SOLICIT.to_vec()),
        ("relayed", relayed()),
        ("twice", twice),
        ("reply", message(&reply, &[Choice { code: RELAY_MESSAGE, data: &[7, 1, 2, 3] }])),
    ]
}

/// RFC 8415, sections 9 and 21.1, byte by byte.
#[test]
fn each_field_has_its_place() {
    let bytes = relayed();
    assert_eq!(bytes[..6], [12, 3, 0x20, 1, 0xd, 0xb8]);
    assert_eq!((bytes[17], &bytes[18..20], bytes[33]), (1, &[0xfe, 0x80][..], 9));
    assert_eq!(bytes[34..44], *b"\0\x12\0\x06eth0.7");
    assert_eq!((&bytes[44..48], &bytes[48..]), (&[0, 9, 0, 12][..], &SOLICIT[..]));
    let view = View::new(&bytes).unwrap();
    assert_eq!((view.header(), view.options().count()), (header(), 2));
    assert_eq!((view.option(INTERFACE_ID), view.option(RELAY_MESSAGE)), (Some(&b"eth0.7"[..]), Some(&SOLICIT[..])));
    assert_eq!(view.option(1), None);
}

#[test]
fn what_is_cut_short_is_no_message() {
    let whole = relayed();
    for length in 0..whole.len() {
        // Between two options, and in front of the first, it may end.
        let is_whole = [34, 44].contains(&length);
        assert_eq!(View::new(&whole[..length]).is_ok(), is_whole, "{length}");
        assert_eq!(Kind::of(&whole[..length]).is_ok(), is_whole, "{length}");
    }
    for length in 0..SOLICIT.len() {
        assert_eq!(Kind::of(&SOLICIT[..length]).is_ok(), length == 4, "{length}");
    }
    let over = [&SOLICIT[..], &[0, 8, 0, 3, 0, 0]].concat();
    assert_eq!(Kind::of(&over), Err(Error::Malformed { what: "list of options of a DHCPv6 message" }));
    assert_eq!(Kind::of(&SOLICIT), Ok(Kind::SOLICIT));
    assert!(matches!(View::new(&[1; 40]), Err(Error::Unknown { got: 1, .. })), "that is no relay's");
}

#[test]
fn each_kind_is_of_clients_or_of_servers_and_what_nobody_knows_of_either() {
    let of = |is_meant: fn(Kind) -> bool| (0..=255).filter(|kind| is_meant(Kind(*kind))).collect::<Vec<_>>();
    assert_eq!(of(Kind::is_of_servers), [2, 7, 10, 13]);
    assert_eq!(of(Kind::is_of_clients), [1, 3, 4, 5, 6, 8, 9, 11, 12]);
}
