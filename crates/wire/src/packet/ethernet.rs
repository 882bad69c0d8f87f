//! Ethernet II (RFC 894; IEEE 802.3, clause 3).

use super::bytes::{field, set, split, u16_at};
use super::protocol::EtherType;
use crate::Error;
use crate::xdr::Writer;
use std::fmt;

/// An address of the link. Written as `02:00:00:00:00:01`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// All stations.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Whether it is of a group, as that of all stations is.
    #[must_use]
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, rest @ ..] = self.0;
        write!(f, "{first:02x}")?;
        rest.iter().try_for_each(|byte| write!(f, ":{byte:02x}"))
    }
}

/// A frame.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    head: &'a [u8; Header::BYTES],
    protocol: EtherType,
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// The frame in `bytes`, without preamble and checksum.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Unknown`] where a length stands in the place of the type.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let (head, payload) = split(bytes)?;
        Ok(Self { head, protocol: EtherType::new(u16_at::<12, _>(head))?, payload })
    }

    /// Its header.
    #[must_use]
    pub fn header(&self) -> Header {
        let (destination, source) = (Mac(field::<0, 6, _>(self.head)), Mac(field::<6, 6, _>(self.head)));
        Header { destination, source, protocol: self.protocol }
    }

    /// What follows the header; padding may be behind it.
    #[must_use]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Who is meant.
    pub destination: Mac,
    /// Who sends.
    pub source: Mac,
    /// What follows.
    pub protocol: EtherType,
}

impl Header {
    /// Bytes of a header.
    pub const BYTES: usize = 14;

    /// Writes it.
    ///
    /// # Errors
    /// [`Error::NoRoom`]; then nothing was written.
    pub fn emit(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        let mut head = [0; Self::BYTES];
        set::<0, 6, _>(&mut head, self.destination.0);
        set::<6, 6, _>(&mut head, self.source.0);
        set::<12, 2, _>(&mut head, self.protocol.number().to_be_bytes());
        to.put(&head)
    }
}
