//! IPv6 (RFC 8200). Jumbograms (RFC 2675) are refused: no link here carries them. Their length field is 0, so the walk finds the options that
//! would say their length cut short ([`Chain::walk`](super::extension::Chain::walk)).

use super::bytes::{length_u16, set, split, split_at, split_front, u16_at, u32_at, v6_at};
use super::checksum::Addresses;
use super::protocol::IpProtocol;
use super::traffic::Traffic;
use crate::Error;
use crate::xdr::Writer;
use std::net::Ipv6Addr;

const VERSION: u8 = 6;
const LABEL: u32 = 0xf_ffff;

/// A packet whose length is checked: what is not the packet's is cut off.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    bytes: &'a [u8],
    head: &'a [u8; Header::BYTES],
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// The packet at the front of `bytes`; padding may be behind it.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Unknown`] for another version.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        Self::of_front(bytes, 0)
    }

    /// The same, of which up to `missing` bytes more lie elsewhere: what is here of it.
    ///
    /// # Errors
    /// As [`View::new`].
    pub fn of_front(bytes: &'a [u8], missing: usize) -> Result<Self, Error> {
        let (head, _) = split::<{ Header::BYTES }>(bytes)?;
        if head[0] >> 4 != VERSION {
            return Err(Error::Unknown { what: "version of IP", got: (head[0] >> 4).into() });
        }
        let (bytes, _) = split_front(bytes, Header::BYTES + usize::from(u16_at::<4, _>(head)), missing)?;
        let (_, payload) = split_at(bytes, Header::BYTES)?;
        Ok(Self { bytes, head, payload })
    }

    /// The whole packet, as it lies.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Bytes of the whole packet, as its header says.
    #[must_use]
    pub fn length(&self) -> usize {
        Header::BYTES + u16_at::<4, _>(self.head) as usize
    }

    /// Who sends and who is meant.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        Addresses::V6 { source: v6_at::<8, _>(self.head), destination: v6_at::<24, _>(self.head) }
    }

    /// How it is to be treated.
    #[must_use]
    pub const fn traffic(&self) -> Traffic {
        Traffic(self.head[0] << 4 | self.head[1] >> 4)
    }

    /// What follows the header.
    #[must_use]
    pub const fn next(&self) -> IpProtocol {
        IpProtocol(self.head[6])
    }

    /// What follows the header: extension headers, if there are any, and what the packet carries.
    #[must_use]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Its header.
    #[must_use]
    pub fn header(&self) -> Header {
        Header {
            traffic: self.traffic(),
            label: Label(u32_at::<0, _>(self.head) & LABEL),
            next: self.next(),
            hops: self.head[7],
            source: v6_at::<8, _>(self.head),
            destination: v6_at::<24, _>(self.head),
        }
    }
}

/// The flow label, 20 bits (RFC 6437).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Label(u32);

impl Label {
    /// That label.
    ///
    /// # Errors
    /// [`Error::Oversized`] for more than 20 bits.
    pub const fn new(label: u32) -> Result<Self, Error> {
        if label > LABEL { Err(Error::Oversized { limit: LABEL, got: label as usize }) } else { Ok(Self(label)) }
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// The header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// How it is to be treated.
    pub traffic: Traffic,
    /// The flow label.
    pub label: Label,
    /// What follows.
    pub next: IpProtocol,
    /// Routers that may still pass it on (hop limit).
    pub hops: u8,
    /// Who sends.
    pub source: Ipv6Addr,
    /// Who is meant.
    pub destination: Ipv6Addr,
}

impl Header {
    /// Bytes of a header without extensions.
    pub const BYTES: usize = 40;

    /// Who sends and who is meant.
    #[must_use]
    pub const fn addresses(&self) -> Addresses {
        Addresses::V6 { source: self.source, destination: self.destination }
    }

    /// Writes the header of a packet with so many bytes of `payload`, extension headers among them.
    ///
    /// # Errors
    /// [`Error::Oversized`] for more than 65,535 bytes; [`Error::NoRoom`]. Nothing was written then.
    pub fn emit(&self, payload: usize, to: &mut Writer<'_>) -> Result<(), Error> {
        let mut head = [0; Self::BYTES];
        let word = u32::from(VERSION) << 28 | u32::from(self.traffic.0) << 20 | self.label.0;
        set::<0, 4, _>(&mut head, word.to_be_bytes());
        set::<4, 2, _>(&mut head, length_u16(payload)?.to_be_bytes());
        (head[6], head[7]) = (self.next.0, self.hops);
        set::<8, 16, _>(&mut head, self.source.octets());
        set::<24, 16, _>(&mut head, self.destination.octets());
        to.put(&head)
    }
}
