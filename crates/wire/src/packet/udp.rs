//! UDP (RFC 768).

use super::bytes::{length_u16, set, split, split_at, u16_at};
use super::checksum::{Addresses, Sum};
use super::protocol::IpProtocol;
use crate::Error;
use crate::xdr::Writer;

/// A datagram whose length is checked: what is not the datagram's is cut off.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    bytes: &'a [u8],
    head: &'a [u8; Header::BYTES],
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// The datagram at the front of `bytes`.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Malformed`] for a length below that of the header.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let (head, _) = split::<{ Header::BYTES }>(bytes)?;
        let length = usize::from(u16_at::<4, _>(head));
        if length < Header::BYTES {
            return Err(Error::Malformed { what: "length of a UDP datagram" });
        }
        let (bytes, _) = split_at(bytes, length)?;
        let (_, payload) = split_at(bytes, Header::BYTES)?;
        Ok(Self { bytes, head, payload })
    }

    /// Its header.
    #[must_use]
    pub fn header(&self) -> Header {
        Header { source: u16_at::<0, _>(self.head), destination: u16_at::<2, _>(self.head) }
    }

    /// What it carries.
    #[must_use]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Whether it has a checksum. Over IPv6 only tunnels may have none, each for the port that it says (RFC 6935; VXLAN, RFC 7348, section 5).
    #[must_use]
    pub fn has_checksum(&self) -> bool {
        u16_at::<6, _>(self.head) != 0
    }

    /// Whether its checksum is right, or it has none, which is legal over IPv4 only (RFC 8200, section 8.1) but for tunnels
    /// ([`View::has_checksum`]).
    #[must_use]
    pub fn is_checksum_right(&self, addresses: &Addresses) -> bool {
        let has_none = !self.has_checksum();
        let pseudo = addresses.pseudo(IpProtocol::UDP, self.bytes.len());
        match addresses {
            Addresses::V4 { .. } if has_none => true,
            Addresses::V6 { .. } if has_none => false,
            _ => pseudo.is_ok_and(|sum| sum.and(self.bytes).is_right()),
        }
    }
}

/// The header of a datagram: each value is legal. Length and checksum follow from the datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Port of who sends; 0 where no answer is wanted.
    pub source: u16,
    /// Port of who is meant.
    pub destination: u16,
}

impl Header {
    /// Bytes of a header.
    pub const BYTES: usize = 8;

    /// Writes the header of the datagram with `payload`, its checksum computed.
    ///
    /// # Errors
    /// [`Error::Oversized`] for more than 65,535 bytes; [`Error::NoRoom`]. Nothing was written then.
    pub fn emit(&self, addresses: &Addresses, payload: &[u8], to: &mut Writer<'_>) -> Result<(), Error> {
        let head = self.head(payload.len())?;
        let sum = addresses.pseudo(IpProtocol::UDP, Self::BYTES.saturating_add(payload.len()))?;
        Self::put(head, sum.and(&head).and(payload).checksum_of_udp(), to)
    }

    /// As [`Header::emit`], but says that there is no checksum: legal over IPv4, and over IPv6 for tunnels alone ([`View::has_checksum`]).
    ///
    /// # Errors
    /// As [`Header::emit`].
    pub fn emit_without_checksum(&self, payload: usize, to: &mut Writer<'_>) -> Result<(), Error> {
        Self::put(self.head(payload)?, 0, to)
    }

    /// As [`Header::emit`], but leaves the checksum to the card: in its place stands the sum of the pseudo header.
    ///
    /// # Errors
    /// As [`Header::emit`].
    pub fn emit_partial(&self, addresses: &Addresses, payload: usize, to: &mut Writer<'_>) -> Result<(), Error> {
        let pseudo: Sum = addresses.pseudo(IpProtocol::UDP, Self::BYTES.saturating_add(payload))?;
        Self::put(self.head(payload)?, pseudo.partial(), to)
    }

    fn head(&self, payload: usize) -> Result<[u8; Self::BYTES], Error> {
        let mut head = [0; Self::BYTES];
        set::<0, 2, _>(&mut head, self.source.to_be_bytes());
        set::<2, 2, _>(&mut head, self.destination.to_be_bytes());
        set::<4, 2, _>(&mut head, length_u16(Self::BYTES.saturating_add(payload))?.to_be_bytes());
        Ok(head)
    }

    fn put(mut head: [u8; Self::BYTES], checksum: u16, to: &mut Writer<'_>) -> Result<(), Error> {
        set::<6, 2, _>(&mut head, checksum.to_be_bytes());
        to.put(&head)
    }
}
