//! Messages of DHCP: their fields by place, their options by grammar.

use corelane_wire::Error;
use corelane_wire::packet::dhcp::{BYTES_MIN, Choice, Header, Operation, RELAY_INFORMATION, View};
use corelane_wire::xdr::Writer;
use std::net::Ipv4Addr;

fn header() -> Header {
    Header {
        operation: Operation::Request,
        hardware: 1,
        hardware_bytes: 6,
        hops: 3,
        transaction: 0x0102_0304,
        seconds: 0x0506,
        flags: 0x8001,
        client: Ipv4Addr::new(10, 0, 0, 1),
        yours: Ipv4Addr::new(10, 0, 0, 2),
        server: Ipv4Addr::new(10, 0, 0, 3),
        relay: Ipv4Addr::new(10, 0, 0, 4),
        hardware_address: [2, 9, 8, 7, 6, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        names: std::array::from_fn(|index| index as u8),
    }
}

fn message(header: &Header, options: &[Choice<'_>]) -> Vec<u8> {
    let mut memory = [0xee; 1024];
    let mut writer = Writer::new(&mut memory);
    header.emit(options.iter().copied(), &mut writer).unwrap();
    writer.written().to_vec()
}

const KIND: Choice<'static> = Choice { code: 53, data: &[1] };
const LIST: Choice<'static> = Choice { code: 55, data: &[1, 3, 6] };
const RELAYED: Choice<'static> = Choice { code: RELAY_INFORMATION, data: b"\x01\x04eth0" };

/// Seeds of the fuzz target.
pub fn samples() -> Vec<(&'static str, Vec<u8>)> {
    let reply = Header { operation: Operation::Reply, ..header() };
    let mut filled = message(&header(), &[KIND]);
    filled.splice(240..240, [0, 0, 0]);
    vec![
        ("bare", message(&header(), &[])),
        ("discover", message(&header(), &[KIND, LIST])),
        ("offer", message(&reply, &[KIND, RELAYED])),
        ("filled", filled),
    ]
}

/// RFC 2131, figure 1, byte by byte.
#[test]
fn each_field_has_its_place() {
    let bytes = message(&header(), &[KIND, LIST]);
    assert_eq!(bytes[..12], [1, 1, 6, 3, 1, 2, 3, 4, 5, 6, 0x80, 1]);
    assert_eq!(bytes[12..28], [10, 0, 0, 1, 10, 0, 0, 2, 10, 0, 0, 3, 10, 0, 0, 4]);
    assert_eq!(bytes[28..36], [2, 9, 8, 7, 6, 5, 0, 0]);
    assert_eq!((bytes[44], bytes[235]), (0, 191));
    assert_eq!(bytes[236..240], [99, 130, 83, 99]);
    assert_eq!(bytes[240..249], [53, 1, 1, 55, 3, 1, 3, 6, 255]);
    assert_eq!((bytes.len(), bytes[249..].iter().all(|&byte| byte == 0)), (BYTES_MIN, true));
    let view = View::new(&bytes).unwrap();
    assert_eq!((view.header(), view.options().collect::<Vec<_>>()), (header(), vec![KIND, LIST]));
}

#[test]
fn options_end_and_are_filled() {
    let mut bytes = message(&header(), &[KIND]);
    assert_eq!(View::new(&bytes[..244]).unwrap().options().collect::<Vec<_>>(), [KIND], "shorter ones are read");
    let malformed = Err(Error::Malformed { what: "list of options of a DHCP message" });
    for length in 240..244 {
        assert_eq!(View::new(&bytes[..length]).map(drop), malformed, "without an end: {length}");
    }
    for length in 0..240 {
        assert_eq!(View::new(&bytes[..length]).map(drop), Err(Error::Truncated { expected: 240, got: length }));
    }
    bytes.splice(240..240, [0, 0]);
    assert_eq!(View::new(&bytes).unwrap().options().collect::<Vec<_>>(), [KIND]);
    // The last option says more than there is, and what lies behind the end is nothing.
    bytes[245] = 12;
    bytes[246..].fill(12);
    assert_eq!(View::new(&bytes).map(drop), malformed);
    bytes[245] = 255;
    assert!(View::new(&bytes).unwrap().options().eq([KIND]));
}

#[test]
fn what_is_no_message_is_refused() {
    let bytes = message(&header(), &[KIND]);
    let changed = |at: usize, to: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = to;
        View::new(&bytes).map(drop)
    };
    assert_eq!([changed(0, 1), changed(0, 2)], [Ok(()), Ok(())]);
    for operation in [0, 3, 255] {
        assert_eq!(changed(0, operation), Err(Error::Unknown { what: "operation of DHCP", got: operation.into() }));
    }
    assert_eq!((changed(2, 16), changed(2, 0)), (Ok(()), Ok(())));
    assert_eq!(changed(2, 17), Err(Error::Malformed { what: "hardware address of a DHCP message" }));
    for at in 236..240 {
        assert_eq!(changed(at, 1), Err(Error::Malformed { what: "cookie of a DHCP message" }));
    }
}

#[test]
fn what_cannot_be_is_not_written() {
    let emit = |header: Header, option: Choice<'_>, room: usize| {
        let mut memory = vec![0; room];
        header.emit([option], &mut Writer::new(&mut memory))
    };
    let long = [7; 256];
    assert_eq!(emit(header(), Choice { code: 82, data: &long[..255] }, 498), Ok(()));
    assert_eq!(emit(header(), Choice { code: 82, data: &long[..255] }, 497), Err(Error::NoRoom { expected: 1, got: 0 }));
    assert_eq!(emit(header(), Choice { code: 82, data: &long }, 600), Err(Error::Oversized { limit: 255, got: 256 }));
    for code in [0, 255] {
        let refused = Err(Error::Unknown { what: "code of an option of DHCP", got: code.into() });
        assert_eq!(emit(header(), Choice { code, data: &[] }, 600), refused);
    }
    let header = Header { hardware_bytes: 17, ..header() };
    assert_eq!(emit(header, KIND, 600), Err(Error::Oversized { limit: 16, got: 17 }));
}

#[test]
fn what_a_relay_says_is_a_list_without_end() {
    let within = |data: &'static [u8]| Choice { code: RELAY_INFORMATION, data }.within().map(Iterator::collect::<Vec<_>>);
    let circuit = Choice { code: 1, data: b"eth0".as_slice() };
    assert_eq!(RELAYED.within().unwrap().collect::<Vec<_>>(), [circuit]);
    assert_eq!(within(b"\x01\x04eth0\x02\x00").unwrap(), [circuit, Choice { code: 2, data: &[] }]);
    assert_eq!(within(b"").unwrap(), []);
    for wrong in [b"\x01\x05eth0".as_slice(), b"\x01", b"\x01\x04eth0\xff", b"\x01\x04eth0\0"] {
        assert_eq!(within(wrong), Err(Error::Malformed { what: "option of a relay" }), "{wrong:?}");
    }
}
