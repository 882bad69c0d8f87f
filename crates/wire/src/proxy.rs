//! The PROXY header, versions 1 and 2: what a proxy says before the bytes of a connection, so that the server knows between which ends that one really is.
//!
//! [`write()`] makes one.
//!
//! Source: "The PROXY protocol, versions 1 & 2" (HAProxy, doc/proxy-protocol.txt), by the numbers of its sections.
//!
//! ```
//! use corelane_wire::proxy::{Ends, Step, parse};
//!
//! let bytes = b"PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\nGET / HTTP/1.1\r\n";
//! let Ok(Step::Header { ends: Ends::Ip { source, .. }, bytes: 42 }) = parse(bytes) else { panic!("it is whole") };
//! assert_eq!(source, "192.0.2.1:56324".parse().unwrap());
//! ```
//!
//! The verdict does not depend on the pieces in which the bytes come: what is not whole yet and may become a header is [`Step::More`]. A header that is none is a [`Fault`],
//! and ends the connection: a receiver must not guess (section 2).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The most bytes of a header of version 1, with its line end (section 2.1).
pub const V1_BYTES_MAX: usize = 107;
/// The most bytes of a header of version 2 that is read: the format has 65,551, senders keep to 536 unless they add certificates.
pub const V2_BYTES_MAX: usize = 4096;

/// How a header of version 2 begins (section 2.2).
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes before its addresses.
const V2_HEAD: usize = 16;
/// How one of version 1 begins (section 2.1).
const WORD: &[u8; 6] = b"PROXY ";
/// Bytes of the name of a Unix socket.
const UNIX_BYTES: usize = 108;
/// The type of the checksum among the additions (section 2.2.4).
const TYPE_CRC32C: u8 = 0x03;

/// Between whom the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends<'a> {
    /// Between those that the socket knows: the proxy speaks for itself (LOCAL), or says that it does not know (UNKNOWN, AF_UNSPEC), or it tells of what is
    /// no stream.
    OfSocket,
    /// IPv4 or IPv6.
    Ip {
        /// Who has connected to the proxy.
        source: SocketAddr,
        /// Where.
        destination: SocketAddr,
    },
    /// Unix sockets, by their names as sockaddr_un has them, without the zeros behind: empty for one without a name, beginning with a zero for an abstract one.
    Unix {
        /// Who has connected to the proxy.
        source: &'a [u8],
        /// Where.
        destination: &'a [u8],
    },
}

/// What stands at the front of the bytes shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A header, in the first `bytes`: the connection's own begin behind.
    Header {
        /// What it says.
        ends: Ends<'a>,
        /// Its bytes.
        bytes: usize,
    },
    /// The beginning of one.
    More,
}

/// Why bytes are no header. The sender is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// They begin like neither version.
    NoHeader,
    /// The line of version 1 has no end where it must, or is not as section 2.1 has it.
    Line,
    /// Version and command, of which only 0x20 and 0x21 are legal.
    Command(u8),
    /// A family or a transport that version 2 does not have, where the proxy tells of somebody else.
    Family(u8),
    /// A header longer than [`V2_BYTES_MAX`].
    TooLong(usize),
    /// Less room than its addresses need, or an addition that ends behind the header.
    TooShort,
    /// The checksum is not that of the bytes (section 2.2.4).
    Checksum,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHeader => write!(f, "no PROXY header comes first"),
            Self::Line => write!(f, "the line of a PROXY header is malformed"),
            Self::Command(byte) => {
                write!(f, "a PROXY header has version and command {byte:#04x}, which is neither 0x20 nor 0x21")
            }
            Self::Family(byte) => write!(f, "a PROXY header has the unknown family and transport {byte:#04x}"),
            Self::TooLong(bytes) => write!(f, "a PROXY header has {bytes} bytes, over the bound of {V2_BYTES_MAX}"),
            Self::TooShort => write!(f, "a PROXY header is shorter than what it holds"),
            Self::Checksum => write!(f, "the checksum of a PROXY header is wrong"),
        }
    }
}

impl std::error::Error for Fault {}

/// Reads the header at the front of `bytes`.
///
/// # Errors
/// [`Fault`].
pub fn parse(bytes: &[u8]) -> Result<Step<'_>, Fault> {
    let begins = |with: &[u8]| bytes.iter().zip(with).all(|(a, b)| a == b);
    if begins(SIGNATURE) {
        if bytes.len() < V2_HEAD { early(bytes) } else { version_2(bytes) }
    } else if begins(WORD) {
        version_1(bytes)
    } else {
        Err(Fault::NoHeader)
    }
}

/// What can be told before the length has come.
fn early(bytes: &[u8]) -> Result<Step<'_>, Fault> {
    let Some(&byte) = bytes.get(12) else { return Ok(Step::More) };
    if let (true, Some(&byte)) = (command(byte)?, bytes.get(13)) {
        family(byte)?;
    }
    Ok(Step::More)
}

fn version_1(bytes: &[u8]) -> Result<Step<'_>, Fault> {
    let shown = &bytes[..bytes.len().min(V1_BYTES_MAX)];
    let Some(end) = shown.iter().position(|&byte| byte == b'\n') else {
        return if shown.len() < V1_BYTES_MAX { Ok(Step::More) } else { Err(Fault::Line) };
    };
    let line = shown[..end].strip_suffix(b"\r").and_then(|line| line.get(WORD.len()..)).ok_or(Fault::Line)?;
    let line = std::str::from_utf8(line).map_err(|_| Fault::Line)?;
    let ends = if line == "UNKNOWN" || line.starts_with("UNKNOWN ") { Ends::OfSocket } else { words(line).ok_or(Fault::Line)? };
    Ok(Step::Header { ends, bytes: end + 1 })
}

/// `TCP4 SOURCE DESTINATION PORT PORT`: one space between, and no zeros before a number.
fn words(line: &str) -> Option<Ends<'static>> {
    let mut words = line.split(' ');
    let protocol = words.next()?;
    let mut ip = || -> Option<IpAddr> {
        let word = words.next()?;
        match protocol {
            "TCP4" => word.parse::<Ipv4Addr>().ok().map(IpAddr::from),
            "TCP6" => word.parse::<Ipv6Addr>().ok().map(IpAddr::from),
            _ => None,
        }
    };
    let (source, destination) = (ip()?, ip()?);
    let mut port = || {
        let word = words.next()?;
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit()) && (word == "0" || !word.starts_with('0'));
        word.parse::<u16>().ok().filter(|_| is_number)
    };
    let (source, destination) = (SocketAddr::new(source, port()?), SocketAddr::new(destination, port()?));
    words.next().is_none().then_some(Ends::Ip { source, destination })
}

/// Whether the proxy tells of somebody else (PROXY), and not of itself (LOCAL).
fn command(byte: u8) -> Result<bool, Fault> {
    match byte {
        0x20 => Ok(false),
        0x21 => Ok(true),
        _ => Err(Fault::Command(byte)),
    }
}

/// What addresses are about.
#[derive(Clone, Copy)]
enum Family {
    Unspecified,
    V4,
    V6,
    Unix,
}

/// The family, and whether it is of streams.
fn family(byte: u8) -> Result<(Family, bool), Fault> {
    let family = match byte >> 4 {
        0 => Family::Unspecified,
        1 => Family::V4,
        2 => Family::V6,
        3 => Family::Unix,
        _ => return Err(Fault::Family(byte)),
    };
    match byte & 15 {
        0..=2 => Ok((family, byte & 15 == 1)),
        _ => Err(Fault::Family(byte)),
    }
}

fn version_2(bytes: &[u8]) -> Result<Step<'_>, Fault> {
    let told = if command(bytes[12])? { Some(family(bytes[13])?) } else { None };
    let length = V2_HEAD + usize::from(u16::from_be_bytes([bytes[14], bytes[15]]));
    if length > V2_BYTES_MAX {
        return Err(Fault::TooLong(length));
    }
    let Some(header) = bytes.get(..length) else { return Ok(Step::More) };
    // Of LOCAL the receiver ignores the family and discards the block, whatever they hold (section 2.2).
    let Some((family, is_stream)) = told else { return Ok(Step::Header { ends: Ends::OfSocket, bytes: length }) };
    let (ends, additions) = addresses(family, &header[V2_HEAD..])?;
    check_additions(header, length - additions.len())?;
    Ok(Step::Header { ends: if is_stream { ends } else { Ends::OfSocket }, bytes: length })
}

/// The ends, and what stands behind them.
fn addresses(family: Family, bytes: &[u8]) -> Result<(Ends<'_>, &[u8]), Fault> {
    let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let split = |length: usize| bytes.split_at_checked(length).ok_or(Fault::TooShort);
    match family {
        Family::Unspecified => Ok((Ends::OfSocket, bytes)),
        Family::V4 => {
            let (block, rest) = split(12)?;
            let ip = |at: usize| Ipv4Addr::from([block[at], block[at + 1], block[at + 2], block[at + 3]]);
            let (source, destination) = ((ip(0), port(8)).into(), (ip(4), port(10)).into());
            Ok((Ends::Ip { source, destination }, rest))
        }
        Family::V6 => {
            let (block, rest) = split(36)?;
            let (source, behind) = block.split_first_chunk::<16>().ok_or(Fault::TooShort)?;
            let (destination, _) = behind.split_first_chunk::<16>().ok_or(Fault::TooShort)?;
            let (source, destination) = (Ipv6Addr::from(*source), Ipv6Addr::from(*destination));
            Ok((Ends::Ip { source: (source, port(32)).into(), destination: (destination, port(34)).into() }, rest))
        }
        Family::Unix => {
            let (block, rest) = split(2 * UNIX_BYTES)?;
            let (source, destination) = block.split_at(UNIX_BYTES);
            Ok((Ends::Unix { source: name(source), destination: name(destination) }, rest))
        }
    }
}

/// The name of a Unix socket: up to the first zero, or, of an abstract one, without the zeros behind.
fn name(bytes: &[u8]) -> &[u8] {
    let last = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    match bytes.first() {
        Some(0) => &bytes[..last],
        _ => bytes.split(|&byte| byte == 0).next().unwrap_or_default(),
    }
}

/// Looks at the additions from `at` on: each must end within the header, and the checksum, if there is one, must be right.
fn check_additions(header: &[u8], at: usize) -> Result<(), Fault> {
    let mut at = at;
    while at < header.len() {
        let Some(&[kind, high, low]) = header[at..].first_chunk::<3>() else { return Err(Fault::TooShort) };
        let end = at + 3 + usize::from(u16::from_be_bytes([high, low]));
        let value = header.get(at + 3..end).ok_or(Fault::TooShort)?;
        if kind == TYPE_CRC32C {
            let given = <[u8; 4]>::try_from(value).map_err(|_| Fault::Checksum)?;
            let parts = [&header[..at + 3], &[0; 4], &header[end..]];
            if crc32c(parts.into_iter().flatten().copied()) != u32::from_be_bytes(given) {
                return Err(Fault::Checksum);
            }
        }
        at = end;
    }
    Ok(())
}

/// The versions of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A line of text (section 2.1).
    V1,
    /// Bytes (section 2.2).
    V2,
}

/// The most bytes that [`write()`] writes.
pub const HEADER_BYTES_MAX: usize = V1_BYTES_MAX;

/// Writes the header for a connection between these ends, its source first, in front of `memory`; returns its length. Without ends it says that they are not known: then the receiver takes
/// those of the socket. Where one address is IPv4 and the other IPv6, the former is written as a mapped one (RFC 4291 section 2.5.5.2).
pub fn write(version: Version, ends: Option<(SocketAddr, SocketAddr)>, memory: &mut [u8; HEADER_BYTES_MAX]) -> usize {
    let ends = ends.map(|(source, destination)| match (source.ip().to_canonical(), destination.ip().to_canonical()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => (from.into(), to.into(), source.port(), destination.port()),
        (from, to) => (IpAddr::V6(as_v6(from)), IpAddr::V6(as_v6(to)), source.port(), destination.port()),
    });
    match version {
        Version::V1 => write_version_1(ends, memory),
        Version::V2 => write_version_2(ends, memory),
    }
}

/// Both addresses, of one family, and both ports.
type Written = (IpAddr, IpAddr, u16, u16);

fn as_v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

fn write_version_1(ends: Option<Written>, memory: &mut [u8; HEADER_BYTES_MAX]) -> usize {
    let mut room = &mut memory[..];
    let written = match ends {
        None => std::io::Write::write_all(&mut room, b"PROXY UNKNOWN\r\n"),
        Some((from, to, from_port, to_port)) => {
            let family = if from.is_ipv4() { "TCP4" } else { "TCP6" };
            std::io::Write::write_fmt(&mut room, format_args!("PROXY {family} {from} {to} {from_port} {to_port}\r\n"))
        }
    };
    assert!(written.is_ok(), "the longest line fits (section 2.1)");
    HEADER_BYTES_MAX - room.len()
}

fn write_version_2(ends: Option<Written>, memory: &mut [u8; HEADER_BYTES_MAX]) -> usize {
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        memory[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    put(SIGNATURE);
    let Some((from, to, from_port, to_port)) = ends else {
        put(&[0x21, 0x00, 0, 0]);
        return at;
    };
    put(if from.is_ipv4() { &[0x21, 0x11, 0, 12] } else { &[0x21, 0x21, 0, 36] });
    for ip in [from, to] {
        match ip {
            IpAddr::V4(ip) => put(&ip.octets()),
            IpAddr::V6(ip) => put(&ip.octets()),
        }
    }
    put(&from_port.to_be_bytes());
    put(&to_port.to_be_bytes());
    at
}

/// CRC-32C (RFC 3720 appendix B.4), bit by bit: headers are short and rare.
fn crc32c(bytes: impl Iterator<Item = u8>) -> u32 {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let bit = |sum: u32| (sum >> 1) ^ if sum & 1 == 1 { POLYNOMIAL } else { 0 };
    !bytes.fold(u32::MAX, |sum, byte| (0..8).fold(sum ^ u32::from(byte), |sum, _| bit(sum)))
}

#[cfg(test)]
mod tests;
