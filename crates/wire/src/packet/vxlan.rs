//! VXLAN (RFC 7348): Ethernet frames in UDP.

use super::bytes::{split, u32_at};
use crate::Error;
use crate::xdr::Writer;

/// The port that datagrams go to.
pub const PORT: u16 = 4789;

/// The flag that says that the network's number is valid.
const HAS_NETWORK: u32 = 0x0800_0000;

/// A header and the frame that follows it.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    header: Header,
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// The header at the front of a datagram's data.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Unknown`] without the flag that it must have.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let (head, payload) = split::<{ Header::BYTES }>(bytes)?;
        let flags = u32_at::<0, _>(head);
        if flags & HAS_NETWORK == 0 {
            return Err(Error::Unknown { what: "flags of VXLAN", got: flags });
        }
        Ok(Self { header: Header { network: Network(u32_at::<4, _>(head) >> 8) }, payload })
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> Header {
        self.header
    }

    /// The inner frame.
    #[must_use]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// The number of a network, 24 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Network(u32);

impl Network {
    /// That number.
    ///
    /// # Errors
    /// [`Error::Oversized`] for more than 24 bits.
    pub const fn new(number: u32) -> Result<Self, Error> {
        const LIMIT: u32 = 0xff_ffff;
        if number > LIMIT { Err(Error::Oversized { limit: LIMIT, got: number as usize }) } else { Ok(Self(number)) }
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Which network the frame is of.
    pub network: Network,
}

impl Header {
    /// Bytes of a header.
    pub const BYTES: usize = 8;

    /// Writes it.
    ///
    /// # Errors
    /// [`Error::NoRoom`]; then nothing was written.
    pub fn emit(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        let [a, b, c, d] = HAS_NETWORK.to_be_bytes();
        let [e, f, g, h] = (self.network.0 << 8).to_be_bytes();
        to.put(&[a, b, c, d, e, f, g, h])
    }
}
