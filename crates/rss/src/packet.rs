//! The headers of a packet as far as its hash needs them. Whatever the bytes are, reading them ends.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::cause::Cause;
use crate::protocol::Protocol;
use crate::tuple::Addresses;

/// Extension headers that are walked at most. RFC 8200, 4.1 has six kinds, and one of them twice.
const MOST_HEADERS: usize = 8;

/// Kinds of IPv6 extension headers (RFC 8200, section 4; RFC 4302).
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;

/// More fragments, or an offset other than 0, in the IPv4 header (RFC 791, 3.1).
const FRAGMENT_V4: u16 = 0x3fff;
/// The same in the IPv6 fragment header (RFC 8200, 4.5).
const FRAGMENT_V6: u16 = 0xfff9;

/// What the headers of a packet say.
pub(crate) struct Packet<'a> {
    pub addresses: Addresses,
    pub protocol: Protocol,
    /// Whether it is no fragment. An atomic fragment (RFC 6946) is none.
    pub whole: bool,
    /// What follows the IP headers and belongs to the packet.
    payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads the packet whose IP header is at the start of `bytes`.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Cause> {
        match bytes.first().ok_or(Cause::Truncated)? >> 4 {
            4 => Self::read_v4(bytes),
            6 => Self::read_v6(bytes),
            _ => Err(Cause::NotIp),
        }
    }

    /// Whether it is IPv6.
    pub fn is_v6(&self) -> bool {
        matches!(self.addresses, Addresses::V6(_))
    }

    /// Source and destination port. The whole header must be there, for one that was cut short is not to be trusted.
    pub fn ports(&self) -> Result<[u16; 2], Cause> {
        let least = if self.protocol == Protocol::TCP { 20 } else { 8 };
        let header = self.payload.get(..least).ok_or(Cause::Truncated)?;
        Ok([word(header, 0)?, word(header, 2)?])
    }

    fn read_v4(bytes: &'a [u8]) -> Result<Self, Cause> {
        let header: &[u8; 20] = bytes.first_chunk().ok_or(Cause::Truncated)?;
        let length = usize::from(header[0] & 0xf) * 4;
        let total = match word(header, 2)? {
            // The kernel leaves it out where it does not fit: a train of segments above 64 KiB.
            0 => bytes.len(),
            total => usize::from(total),
        };
        if length < header.len() || total < length {
            return Err(Cause::Malformed);
        }
        let [_, _, _, _, _, _, _, _, _, protocol, _, _, a, b, c, d, e, f, g, h] = *header;
        Ok(Self {
            addresses: Addresses::V4([Ipv4Addr::new(a, b, c, d), Ipv4Addr::new(e, f, g, h)]),
            protocol: Protocol(protocol),
            whole: word(header, 6)? & FRAGMENT_V4 == 0,
            payload: bytes.get(length..total.min(bytes.len())).ok_or(Cause::Truncated)?,
        })
    }

    fn read_v6(bytes: &'a [u8]) -> Result<Self, Cause> {
        let (header, rest) = bytes.split_first_chunk::<40>().ok_or(Cause::Truncated)?;
        let payload = match word(header, 4)? {
            // A jumbogram (RFC 2675), or again a train.
            0 => rest,
            length => &rest[..rest.len().min(length.into())],
        };
        let chain = Chain::walk(header[6], payload)?;
        Ok(Self {
            addresses: Addresses::V6([address(header, 8)?, address(header, 24)?]),
            protocol: Protocol(chain.next),
            whole: chain.whole,
            payload: chain.rest,
        })
    }
}

/// Where the walk through the extension headers has come.
struct Chain<'a> {
    /// What kind of header stands in `rest`.
    next: u8,
    rest: &'a [u8],
    whole: bool,
}

impl<'a> Chain<'a> {
    /// Walks from a header of kind `next` at the start of `rest` to the first that is no extension, or to a fragment
    /// header, behind which only the first fragment has headers.
    fn walk(next: u8, rest: &'a [u8]) -> Result<Self, Cause> {
        let mut chain = Self { next, rest, whole: true };
        for _ in 0..=MOST_HEADERS {
            chain = match chain.next {
                HOP_BY_HOP | ROUTING | DESTINATION => chain.skip(|units| 8 * units + 8)?,
                AUTHENTICATION => chain.skip(|units| 4 * units + 8)?,
                FRAGMENT if word(chain.rest, 2)? & FRAGMENT_V6 == 0 => chain.skip(|_| 8)?,
                FRAGMENT => return Ok(Self { whole: false, ..chain.skip(|_| 8)? }),
                _ => return Ok(chain),
            };
        }
        Err(Cause::TooManyHeaders)
    }

    /// What follows the header at the start, whose bytes are `length` of its length field.
    fn skip(&self, length: fn(usize) -> usize) -> Result<Self, Cause> {
        let [next, units, ..] = *self.rest else { return Err(Cause::Truncated) };
        let rest = self.rest.get(length(units.into())..).ok_or(Cause::Truncated)?;
        Ok(Self { next, rest, whole: self.whole })
    }
}

/// The 16 bits at `at`, in network byte order.
fn word(bytes: &[u8], at: usize) -> Result<u16, Cause> {
    let pair = bytes.get(at..).and_then(<[u8]>::first_chunk);
    pair.map(|pair| u16::from_be_bytes(*pair)).ok_or(Cause::Truncated)
}

/// The IPv6 address at `at`.
fn address(bytes: &[u8], at: usize) -> Result<Ipv6Addr, Cause> {
    let octets = bytes.get(at..).and_then(<[u8]>::first_chunk::<16>);
    octets.map(|octets| Ipv6Addr::from(*octets)).ok_or(Cause::Truncated)
}
