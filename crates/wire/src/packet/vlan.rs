//! VLAN tags, single (IEEE 802.1Q) and stacked (IEEE 802.1ad, QinQ). A tag stands behind the type that announces it.

use super::bytes::{set, split, u16_at};
use super::protocol::EtherType;
use crate::Error;
use crate::xdr::Writer;

/// A tag and what follows it.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    tag: Tag,
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// The tag at the front of `bytes`, right behind the type that announced it.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Unknown`] where a length follows.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let (head, payload) = split::<{ Tag::BYTES }>(bytes)?;
        let tag = Tag { control: u16_at::<0, _>(head), protocol: EtherType::new(u16_at::<2, _>(head))? };
        Ok(Self { tag, payload })
    }

    /// The tag.
    #[must_use]
    pub const fn tag(&self) -> Tag {
        self.tag
    }

    /// What follows.
    #[must_use]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag {
    /// Priority (3 bits), drop eligibility (1) and number (12): each value is legal.
    pub control: u16,
    /// What follows.
    pub protocol: EtherType,
}

impl Tag {
    /// Bytes of a tag, without the type that announces it.
    pub const BYTES: usize = 4;

    /// Priority, 0 to 7.
    #[must_use]
    pub const fn priority(&self) -> u8 {
        (self.control >> 13) as u8
    }

    /// Whether it may be dropped before others.
    #[must_use]
    pub const fn is_drop_eligible(&self) -> bool {
        self.control & 0x1000 != 0
    }

    /// Number of the VLAN, 0 to 4,095; 0 for a tag that carries a priority only.
    #[must_use]
    pub const fn number(&self) -> u16 {
        self.control & 0xfff
    }

    /// Writes it.
    ///
    /// # Errors
    /// [`Error::NoRoom`]; then nothing was written.
    pub fn emit(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        let mut head = [0; Self::BYTES];
        set::<0, 2, _>(&mut head, self.control.to_be_bytes());
        set::<2, 2, _>(&mut head, self.protocol.number().to_be_bytes());
        to.put(&head)
    }
}
