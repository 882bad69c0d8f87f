//! Content-Range, and several ranges in one answer (RFC 9110 sections 14.4 and 14.6).

use super::range::Span;
use super::token::is_value;
use super::write::{DIGITS_MAX, decimal};
use crate::Error;
use crate::xdr::Writer;

/// Most bytes of a Content-Range.
const CONTENT_RANGE_BYTES_MAX: usize = 6 + 3 * DIGITS_MAX + 2;
/// Bytes of a boundary.
const BOUNDARY_BYTES: usize = 24;

/// A Content-Range.
#[derive(Clone, Copy, Debug)]
pub struct ContentRange {
    text: [u8; CONTENT_RANGE_BYTES_MAX],
    length: usize,
}

impl ContentRange {
    /// For the bytes of `span` of something with `length` bytes; without a span, for 416.
    pub fn new(span: Option<Span>, length: u64) -> Self {
        let mut text = [0; CONTENT_RANGE_BYTES_MAX];
        let mut writer = Writer::new(&mut text);
        let written = Self::write(&mut writer, span, length);
        assert!(written.is_ok(), "three numbers fit");
        let length = writer.len();
        Self { text, length }
    }

    fn write(to: &mut Writer<'_>, span: Option<Span>, length: u64) -> Result<(), Error> {
        to.put(b"bytes ")?;
        match span {
            Some(Span { begin, end }) => {
                assert!(begin < end && end <= length, "a part of what is there");
                put_decimal(to, begin)?;
                to.put(b"-")?;
                put_decimal(to, end - 1)?;
            }
            None => to.put(b"*")?,
        }
        to.put(b"/")?;
        put_decimal(to, length)
    }

    /// The value of the field.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[..self.length]
    }
}

fn put_decimal(to: &mut Writer<'_>, value: u64) -> Result<(), Error> {
    to.put(decimal(value, &mut [0; DIGITS_MAX]))
}

/// What stands before, between and behind the parts of a `multipart/byteranges` (RFC 9110 section 14.6, RFC 2046 section 5.1).
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    boundary: [u8; BOUNDARY_BYTES],
    media_type: &'a [u8],
    length: u64,
}

impl<'a> Parts<'a> {
    /// Parts of something with `length` bytes of `media_type`. `random`: 64 bits that whoever wrote the content cannot foresee, for the boundary.
    ///
    /// # Errors
    /// [`Error::Malformed`] where the media type has control characters.
    pub fn new(random: u64, media_type: &'a [u8], length: u64) -> Result<Self, Error> {
        if !media_type.iter().copied().all(is_value) {
            return Err(Error::Malformed { what: "media type" });
        }
        let mut boundary = *b"corelane0000000000000000";
        for (index, byte) in boundary[8..].iter_mut().enumerate() {
            *byte = b"0123456789abcdef"[(random >> (4 * index) & 15) as usize];
        }
        Ok(Self { boundary, media_type, length })
    }

    /// Writes the value of Content-Type.
    ///
    /// # Errors
    /// [`Error::NoRoom`].
    pub fn write_content_type(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        to.put(b"multipart/byteranges; boundary=")?;
        to.put(&self.boundary)
    }

    /// Writes what stands before the bytes of `span`.
    ///
    /// # Errors
    /// [`Error::NoRoom`]; then a part may have been written.
    pub fn write_begin(&self, to: &mut Writer<'_>, span: Span) -> Result<(), Error> {
        let range = ContentRange::new(Some(span), self.length);
        self.begin(&range).iter().try_for_each(|part| to.put(part))
    }

    /// Writes what stands behind the last part.
    ///
    /// # Errors
    /// [`Error::NoRoom`]; then a part may have been written.
    pub fn write_end(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        self.end().iter().try_for_each(|part| to.put(part))
    }

    /// The Content-Length of all `spans` with what stands around them.
    pub fn content_length(&self, spans: &[Span]) -> u64 {
        let bytes = |parts: &[&[u8]]| parts.iter().map(|part| part.len() as u64).sum::<u64>();
        let part = |span: &Span| bytes(&self.begin(&ContentRange::new(Some(*span), self.length))) + span.bytes();
        spans.iter().map(part).sum::<u64>() + bytes(&self.end())
    }

    fn begin<'p>(&'p self, range: &'p ContentRange) -> [&'p [u8]; 7] {
        let (boundary, range) = (&self.boundary[..], range.as_bytes());
        [b"\r\n--", boundary, b"\r\nContent-Type: ", self.media_type, b"\r\nContent-Range: ", range, b"\r\n\r\n"]
    }

    fn end(&self) -> [&[u8]; 3] {
        [b"\r\n--", &self.boundary, b"--\r\n"]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPANS: [Span; 2] = [Span { begin: 0, end: 2 }, Span { begin: 9, end: 10 }];

    #[test]
    fn content_ranges() {
        assert_eq!(ContentRange::new(Some(SPANS[0]), 10).as_bytes(), b"bytes 0-1/10");
        assert_eq!(ContentRange::new(None, 10).as_bytes(), b"bytes */10");
        let widest = ContentRange::new(Some(Span { begin: u64::MAX - 1, end: u64::MAX }), u64::MAX);
        assert_eq!(widest.as_bytes(), b"bytes 18446744073709551614-18446744073709551614/18446744073709551615");
    }

    #[test]
    fn the_length_is_that_of_what_is_written() {
        let parts = Parts::new(0x0123_4567_89ab_cdef, b"text/plain", 10).unwrap();
        let mut memory = [0; 512];
        let mut writer = Writer::new(&mut memory);
        for span in SPANS {
            parts.write_begin(&mut writer, span).unwrap();
            writer.put(&b"0123456789"[span.begin as usize..span.end as usize]).unwrap();
        }
        parts.write_end(&mut writer).unwrap();
        assert_eq!(writer.len() as u64, parts.content_length(&SPANS));
        let expected = "\r\n--corelanefedcba9876543210\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-1/10\r\n\r\n01\
                        \r\n--corelanefedcba9876543210\r\nContent-Type: text/plain\r\nContent-Range: bytes 9-9/10\r\n\r\n9\
                        \r\n--corelanefedcba9876543210--\r\n";
        assert_eq!(writer.written(), expected.as_bytes());
        assert!(Parts::new(0, b"a\r\nb", 1).is_err());
    }
}
