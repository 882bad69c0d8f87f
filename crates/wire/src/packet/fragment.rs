//! The fragment header of IPv6 (RFC 8200, section 4.5).

use super::bytes::{set, split, u16_at, u32_at};
use super::ipv4::Offset;
use super::protocol::IpProtocol;
use crate::Error;
use crate::xdr::Writer;

/// A fragment header and what follows it.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    header: Header,
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// The header at the front of `bytes`. Bits that are reserved are not looked at.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let (head, payload) = split::<{ Header::BYTES }>(bytes)?;
        let field = u16_at::<2, _>(head);
        let (offset, more) = (Offset::of_units(field >> 3), field & 1 == 1);
        Ok(Self { header: Header { next: IpProtocol(head[0]), offset, more, identification: u32_at::<4, _>(head) }, payload })
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> Header {
        self.header
    }

    /// What follows.
    #[must_use]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A fragment header: each value is legal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// What follows in the whole packet.
    pub next: IpProtocol,
    /// Where the fragment begins.
    pub offset: Offset,
    /// Whether others follow.
    pub more: bool,
    /// Which packet it is of.
    pub identification: u32,
}

impl Header {
    /// Bytes of a header.
    pub const BYTES: usize = 8;

    /// Whether it is of a fragment, and not of a whole packet (RFC 6946).
    #[must_use]
    pub fn is_part(&self) -> bool {
        self.more || self.offset != Offset::START
    }

    /// Writes it.
    ///
    /// # Errors
    /// [`Error::NoRoom`]; then nothing was written.
    pub fn emit(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        let mut head = [0; Self::BYTES];
        head[0] = self.next.0;
        let field = self.offset.units() << 3 | u16::from(self.more);
        set::<2, 2, _>(&mut head, field.to_be_bytes());
        set::<4, 4, _>(&mut head, self.identification.to_be_bytes());
        to.put(&head)
    }
}
