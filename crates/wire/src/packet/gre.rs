//! GRE (RFC 2784) with key and sequence number (RFC 2890).

use super::bytes::{split, u16_at, u32_at};
use super::checksum::Sum;
use super::protocol::EtherType;
use crate::Error;
use crate::xdr::Writer;

const HAS_CHECKSUM: u16 = 0x8000;
const HAS_KEY: u16 = 0x2000;
const HAS_SEQUENCE: u16 = 0x1000;
/// What a receiver must refuse: routing, strict routes, the first of the recursion bits (RFC 2784, section 2.2).
const REFUSED: u16 = 0x4c00;
const VERSION: u16 = 7;

/// A header and what follows it.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    bytes: &'a [u8],
    header: Header,
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// The header at the front of `bytes`, which are all that the packet carries.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Unknown`] for another version, or for what a receiver must refuse.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let (head, mut rest) = split::<4>(bytes)?;
        let (bits, protocol) = (u16_at::<0, _>(head), EtherType::new(u16_at::<2, _>(head))?);
        if bits & (REFUSED | VERSION) != 0 {
            return Err(Error::Unknown { what: "flags and version of GRE", got: bits.into() });
        }
        let mut word = |flag| -> Result<Option<u32>, Error> {
            if bits & flag == 0 {
                return Ok(None);
            }
            let (word, behind) = split::<4>(rest)?;
            rest = behind;
            Ok(Some(u32_at::<0, _>(word)))
        };
        let has_checksum = word(HAS_CHECKSUM)?.is_some();
        let header = Header { has_checksum, key: word(HAS_KEY)?, sequence: word(HAS_SEQUENCE)?, protocol };
        Ok(Self { bytes, header, payload: rest })
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> Header {
        self.header
    }

    /// The inner packet.
    #[must_use]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Whether its checksum is right, or it has none.
    #[must_use]
    pub fn is_checksum_right(&self) -> bool {
        !self.header.has_checksum || Sum::of(self.bytes).is_right()
    }
}

/// A header: each value is legal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Whether there is a checksum.
    pub has_checksum: bool,
    /// Which flow of the tunnel's it is.
    pub key: Option<u32>,
    /// Which packet of these.
    pub sequence: Option<u32>,
    /// What follows.
    pub protocol: EtherType,
}

impl Header {
    /// Bytes of the longest header.
    pub const BYTES_MAX: usize = 16;

    /// Bytes of this one.
    #[must_use]
    pub fn header_bytes(&self) -> usize {
        4 * (1 + usize::from(self.has_checksum) + usize::from(self.key.is_some()) + usize::from(self.sequence.is_some()))
    }

    /// Writes it in front of `payload`; if it has a checksum, that is computed.
    ///
    /// # Errors
    /// [`Error::NoRoom`]; then nothing was written.
    pub fn emit(&self, payload: &[u8], to: &mut Writer<'_>) -> Result<(), Error> {
        let mut memory = [0; Self::BYTES_MAX];
        let mut head = Writer::new(&mut memory);
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        let bits =
            bit(self.has_checksum, HAS_CHECKSUM) | bit(self.key.is_some(), HAS_KEY) | bit(self.sequence.is_some(), HAS_SEQUENCE);
        head.u32(u32::from(bits) << 16 | u32::from(self.protocol.number()))?;
        let words = [self.has_checksum.then_some(0), self.key, self.sequence];
        words.into_iter().flatten().try_for_each(|word| head.u32(word))?;
        let length = head.len();
        if self.has_checksum {
            let checksum = Sum::of(&memory[..length]).and(payload).checksum();
            memory[4..6].copy_from_slice(&checksum.to_be_bytes());
        }
        to.put(&memory[..length])
    }
}
