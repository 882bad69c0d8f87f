//! Universal addresses of IPv4 and IPv6 transports (RFC 5665 sections 5.2.3.3 and 5.2.3.4).
//!
//! The text is the address, a dot, the high byte of the port, a dot, the low byte, in decimal: `192.0.2.1.8.1` is port 2049.

use super::{NetId, UniversalAddress};
use crate::Error;
use crate::xdr::{Text, Writer};
use std::fmt::{self, Write};
use std::net::{IpAddr, SocketAddr};

const MALFORMED: Error = Error::Malformed { what: "universal address" };

/// Bytes that hold every universal address written here: 39 of IPv6, or 45 where IPv4 is mapped into it, and 8 of port.
pub const BYTES_MAX: usize = 64;

/// The address and port that `address` names.
///
/// # Errors
/// [`Error::Malformed`]: another form, an IPv6 zone, or a byte of the port that is over 255 or written with needless zeros.
pub fn parse(address: UniversalAddress<'_>) -> Result<SocketAddr, Error> {
    let (rest, low) = address.as_str().rsplit_once('.').ok_or(MALFORMED)?;
    let (ip, high) = rest.rsplit_once('.').ok_or(MALFORMED)?;
    let ip: IpAddr = ip.parse().map_err(|_| MALFORMED)?;
    Ok(SocketAddr::new(ip, u16::from_be_bytes([byte(high)?, byte(low)?])))
}

fn byte(text: &str) -> Result<u8, Error> {
    let plain = text.bytes().all(|digit| digit.is_ascii_digit()) && (text.len() == 1 || !text.starts_with('0'));
    plain.then(|| text.parse().ok()).flatten().ok_or(MALFORMED)
}

/// The universal address of `address`, written into `memory`; [`BYTES_MAX`] bytes suffice.
///
/// # Errors
/// [`Error::NoRoom`].
pub fn write(address: SocketAddr, memory: &mut [u8]) -> Result<UniversalAddress<'_>, Error> {
    let mut writer = Writer::new(memory);
    let [high, low] = address.port().to_be_bytes();
    let no_room = Error::NoRoom { expected: BYTES_MAX, got: writer.room() };
    write!(Plain(&mut writer), "{}.{high}.{low}", address.ip()).map_err(|_| no_room)?;
    let length = writer.len();
    let text = std::str::from_utf8(&memory[..length]).map_err(|_| MALFORMED)?;
    Text::new(text)
}

/// The netid under which a service at `address` is registered (RFC 5665, the registry of netids).
pub fn netid(address: SocketAddr, is_stream: bool) -> NetId<'static> {
    let name = match (is_stream, address.is_ipv4()) {
        (true, true) => "tcp",
        (true, false) => "tcp6",
        (false, true) => "udp",
        (false, false) => "udp6",
    };
    // These four are ASCII and short, so there always is one.
    Text::new(name).unwrap_or_default()
}

struct Plain<'w, 'm>(&'w mut Writer<'m>);

impl Write for Plain<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.put(text.as_bytes()).map_err(|_| fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASES: [(&str, &str); 6] = [
        ("192.0.2.1.8.1", "192.0.2.1:2049"),
        ("0.0.0.0.0.111", "0.0.0.0:111"),
        ("255.255.255.255.255.255", "255.255.255.255:65535"),
        ("::.0.0", "[::]:0"),
        ("fe80::1:2.3.4", "[fe80::1:2]:772"),
        ("::ffff:192.0.2.1.8.1", "[::ffff:192.0.2.1]:2049"),
    ];

    #[test]
    fn addresses_go_both_ways() {
        for (universal, socket) in CASES {
            let socket: SocketAddr = socket.parse().unwrap();
            let text = Text::new(universal).unwrap();
            assert_eq!(parse(text), Ok(socket));
            assert_eq!(write(socket, &mut [0; BYTES_MAX]), Ok(text));
        }
    }

    #[test]
    fn the_longest_address_fits() {
        let longest: SocketAddr = "[1111:2222:3333:4444:5555:6666:7777:8888]:65535".parse().unwrap();
        assert_eq!(write(longest, &mut [0; BYTES_MAX]).unwrap().as_str().len(), 39 + 8);
        assert_eq!(write(longest, &mut [0; 46]), Err(Error::NoRoom { expected: BYTES_MAX, got: 46 }));
    }

    #[test]
    fn other_forms_are_refused() {
        let others = [
            "",
            "1.2",
            "1.2.3.4",
            "1.2.3.4.5",
            "1.2.3.4.256.1",
            "1.2.3.4.5.-1",
            "1.2.3.4.+5.6",
            "1.2.3.4.05.6",
            "1.2.3.4..6",
            "1.2.3.4.5.6.7",
            "fe80::1%lo.3.4",
            "a.b.c.d.1.2",
            " 1.2.3.4.5.6",
            "/run/rpcbind.sock",
        ];
        for other in others {
            assert_eq!(parse(Text::new(other).unwrap()), Err(MALFORMED), "{other}");
        }
    }

    #[test]
    fn netids_name_transport_and_family() {
        let name = |address: &str, is_stream| netid(address.parse().unwrap(), is_stream).as_str();
        assert_eq!((name("127.0.0.1:1", true), name("[::1]:1", true)), ("tcp", "tcp6"));
        assert_eq!((name("127.0.0.1:1", false), name("[::1]:1", false)), ("udp", "udp6"));
    }
}
