//! Reading.

use super::padding;
use crate::Error;

/// A view over bytes that items are taken from, front to back.
///
/// A reader that has refused an item stands somewhere in it; do not go on reading.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What has not been read.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Checks that all has been read.
    ///
    /// # Errors
    /// [`Error::Trailing`].
    pub const fn finish(self) -> Result<(), Error> {
        match self.rest.len() {
            0 => Ok(()),
            got => Err(Error::Trailing { got }),
        }
    }

    /// An unsigned integer (RFC 4506 section 4.2).
    ///
    /// # Errors
    /// [`Error::Truncated`].
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Error> {
        self.chunk().map(|bytes| u32::from_be_bytes(*bytes))
    }

    /// An unsigned hyper integer (RFC 4506 section 4.5).
    ///
    /// # Errors
    /// [`Error::Truncated`].
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Error> {
        self.chunk().map(|bytes| u64::from_be_bytes(*bytes))
    }

    /// A boolean (RFC 4506 section 4.4): 0 or 1.
    ///
    /// # Errors
    /// [`Error::Truncated`], [`Error::Unknown`].
    #[inline]
    pub fn boolean(&mut self) -> Result<bool, Error> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            got => Err(Error::Unknown { what: "bool", got }),
        }
    }

    /// Fixed-length opaque data (RFC 4506 section 4.9): a view of `N` bytes. Its padding is passed over.
    ///
    /// # Errors
    /// [`Error::Truncated`], also where only the padding is missing.
    #[inline]
    pub fn fixed<const N: usize>(&mut self) -> Result<&'a [u8; N], Error> {
        let data = self.chunk()?;
        self.take(padding(N))?;
        Ok(data)
    }

    /// Variable-length opaque data (RFC 4506 section 4.10) of `limit` bytes at most: a view. Its padding is passed over.
    /// `what` names it in errors.
    ///
    /// # Errors
    /// [`Error::TooLong`] before anything is done with the length; [`Error::Truncated`].
    #[inline]
    pub fn opaque(&mut self, what: &'static str, limit: u32) -> Result<&'a [u8], Error> {
        let length = self.length(what, limit)? as usize;
        let data = self.take(length)?;
        self.take(padding(length))?;
        Ok(data)
    }

    /// A string (RFC 4506 section 4.11) of `limit` bytes at most: opaque data that must be ASCII.
    ///
    /// # Errors
    /// Those of [`Reader::opaque`]; [`Error::NotAscii`].
    pub fn string(&mut self, what: &'static str, limit: u32) -> Result<&'a str, Error> {
        let bytes = self.opaque(what, limit)?;
        let not_ascii = || Error::NotAscii { what, at: bytes.iter().take_while(|byte| byte.is_ascii()).count() };
        // All ASCII is UTF-8, so only the check for ASCII can fail.
        let ascii = bytes.is_ascii().then(|| std::str::from_utf8(bytes).ok()).flatten();
        ascii.ok_or_else(not_ascii)
    }

    /// A length or a count of `limit` at most.
    ///
    /// # Errors
    /// [`Error::TooLong`], [`Error::Truncated`].
    #[inline]
    pub fn length(&mut self, what: &'static str, limit: u32) -> Result<u32, Error> {
        match self.u32()? {
            got if got > limit => Err(Error::TooLong { what, limit, got }),
            length => Ok(length),
        }
    }

    #[inline]
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], Error> {
        let Some((taken, rest)) = self.rest.split_at_checked(bytes) else { return Err(self.truncated(bytes)) };
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    fn chunk<const N: usize>(&mut self) -> Result<&'a [u8; N], Error> {
        let Some((chunk, rest)) = self.rest.split_first_chunk() else { return Err(self.truncated(N)) };
        self.rest = rest;
        Ok(chunk)
    }

    #[cold]
    const fn truncated(&self, expected: usize) -> Error {
        Error::Truncated { expected, got: self.rest.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_big_endian() {
        let mut reader = Reader::new(&[0, 0, 1, 2, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 1, 0, 0, 0, 2]);
        assert_eq!(reader.u32(), Ok(0x102));
        assert_eq!(reader.read(), Ok(-2_i32));
        assert_eq!(reader.u64(), Ok(0x1_0000_0002));
        assert_eq!(reader.u32(), Err(Error::Truncated { expected: 4, got: 0 }));
    }

    #[test]
    fn booleans_have_two_values() {
        let mut reader = Reader::new(&[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2]);
        assert_eq!((reader.boolean(), reader.boolean()), (Ok(false), Ok(true)));
        assert_eq!(reader.boolean(), Err(Error::Unknown { what: "bool", got: 2 }));
    }

    #[test]
    fn opaque_data_is_a_view_and_its_padding_may_hold_anything() {
        let bytes = [0, 0, 0, 5, b'h', b'e', b'l', b'l', b'o', 9, 9, 9, 7];
        let mut reader = Reader::new(&bytes);
        let data = reader.opaque("data", 5).unwrap();
        assert_eq!((data, reader.rest()), (&b"hello"[..], &[7][..]));
        assert!(std::ptr::eq(data, &bytes[4..9]));
    }

    #[test]
    fn a_length_is_bounded_before_it_is_used() {
        let huge = [0xff; 4];
        let error = Error::TooLong { what: "data", limit: 9, got: u32::MAX };
        assert_eq!(Reader::new(&huge).opaque("data", 9), Err(error));
        let error = Error::Truncated { expected: u32::MAX as usize, got: 0 };
        assert_eq!(Reader::new(&huge).opaque("data", u32::MAX), Err(error));
    }

    #[test]
    fn missing_padding_is_missing() {
        let short = [0, 0, 0, 5, 1, 2, 3, 4, 5, 0, 0];
        assert_eq!(Reader::new(&short).opaque("data", 9), Err(Error::Truncated { expected: 3, got: 2 }));
        assert_eq!(Reader::new(&short).fixed::<10>(), Err(Error::Truncated { expected: 2, got: 1 }));
        assert_eq!(Reader::new(&short).fixed::<4>(), Ok(&[0, 0, 0, 5]));
    }

    #[test]
    fn strings_are_ascii() {
        assert_eq!(Reader::new(b"\0\0\0\x03tcp\0").string("netid", 3), Ok("tcp"));
        let error = Error::NotAscii { what: "netid", at: 1 };
        assert_eq!(Reader::new(b"\0\0\0\x03t\xffp\0").string("netid", 3), Err(error));
    }

    #[test]
    fn what_is_left_is_told() {
        assert_eq!(Reader::new(&[1]).finish(), Err(Error::Trailing { got: 1 }));
        assert_eq!(Reader::new(&[]).finish(), Ok(()));
    }
}
