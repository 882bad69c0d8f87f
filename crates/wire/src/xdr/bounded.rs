//! Opaque data and strings that cannot be longer than their protocol allows.

use super::{Decode, Encode, Reader, Writer};
use crate::Error;

/// A view of opaque data of `MAX` bytes at most (RFC 4506 section 4.10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opaque<'a, const MAX: u32>(&'a [u8]);

/// A view of an ASCII string of `MAX` bytes at most (RFC 4506 section 4.11).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Text<'a, const MAX: u32>(&'a str);

impl<'a, const MAX: u32> Opaque<'a, MAX> {
    /// No bytes.
    pub const EMPTY: Self = Self(&[]);

    /// Views `data`.
    ///
    /// # Errors
    /// [`Error::Oversized`].
    pub const fn new(data: &'a [u8]) -> Result<Self, Error> {
        if data.len() > MAX as usize {
            return Err(Error::Oversized { limit: MAX, got: data.len() });
        }
        Ok(Self(data))
    }

    /// The data.
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }
}

impl<'a, const MAX: u32> Text<'a, MAX> {
    /// Views `text`.
    ///
    /// # Errors
    /// [`Error::Oversized`], [`Error::NotAscii`].
    pub fn new(text: &'a str) -> Result<Self, Error> {
        Opaque::<MAX>::new(text.as_bytes())?;
        match text.bytes().position(|byte| !byte.is_ascii()) {
            Some(at) => Err(Error::NotAscii { what: "string", at }),
            None => Ok(Self(text)),
        }
    }

    /// The text.
    pub const fn as_str(self) -> &'a str {
        self.0
    }
}

impl<'a, const MAX: u32> Decode<'a> for Opaque<'a, MAX> {
    #[inline]
    fn decode(from: &mut Reader<'a>) -> Result<Self, Error> {
        from.opaque("opaque data", MAX).map(Self)
    }
}

impl<const MAX: u32> Encode for Opaque<'_, MAX> {
    #[inline]
    fn encode(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        to.opaque(self.0)
    }
}

impl<'a, const MAX: u32> Decode<'a> for Text<'a, MAX> {
    fn decode(from: &mut Reader<'a>) -> Result<Self, Error> {
        from.string("string", MAX).map(Self)
    }
}

impl<const MAX: u32> Encode for Text<'_, MAX> {
    fn encode(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        to.opaque(self.0.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_longer_can_be_made() {
        assert_eq!(Opaque::<3>::new(b"abc").unwrap().bytes(), b"abc");
        assert_eq!(Opaque::<3>::new(b"abcd"), Err(Error::Oversized { limit: 3, got: 4 }));
        assert_eq!(Text::<3>::new("abcd"), Err(Error::Oversized { limit: 3, got: 4 }));
        assert_eq!(Text::<3>::new("a\u{e4}"), Err(Error::NotAscii { what: "string", at: 1 }));
    }
}
