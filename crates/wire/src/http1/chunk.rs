//! The chunked transfer coding (RFC 9112 section 7.1): a machine that takes framing byte by byte, and content at once.

use super::lines::{Lines, SectionLimits};
use super::part::Part;
use super::token::is_value;
use super::{FIELDS_MAX, Refusal};

/// Most digits of a chunk's size, leading zeros among them: 64 bits.
const DIGITS_MAX: u8 = 16;
/// Most bytes of the extensions of all chunks of a message together. Nobody uses them; what is longer only keeps us busy.
pub const EXTENSION_BYTES_MAX: u32 = 4096;

/// Most bytes of the trailers of one message.
pub const TRAILER_BYTES_MAX: usize = 8 << 10;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chunks {
    at: At,
    /// Bytes of the chunk that have not come, or its size as far as it was read.
    left: u64,
    digits: u8,
    extensions: u32,
    trailers: Lines,
}

/// What the next byte belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum At {
    #[default]
    Size,
    /// White space behind the size, which only an extension may follow.
    Space,
    Extension,
    /// Behind the CR of the size's line.
    SizeLf,
    Data,
    DataCr,
    DataLf,
    Trailers,
}

impl Chunks {
    /// Bytes of the present chunk that have not come.
    pub const fn left(&self) -> u64 {
        if matches!(self.at, At::Data) { self.left } else { 0 }
    }

    /// Counts `bytes` of the chunk that went another way.
    pub fn advance(&mut self, bytes: u64) {
        assert!(bytes <= self.left(), "only a chunk has bytes");
        self.left -= bytes;
        if self.at == At::Data && self.left == 0 {
            self.at = At::DataCr;
        }
    }

    /// Looks at the front of `bytes`, of which there are some.
    pub fn next(&mut self, bytes: &[u8], allowed: &mut u64) -> Result<Part, Refusal> {
        for (index, byte) in bytes.iter().enumerate() {
            match self.at {
                At::Data => return Ok(self.data(index, bytes.len())),
                At::Trailers => return self.trailers(index, bytes),
                _ => self.at = self.framing(*byte, allowed)?,
            }
        }
        Ok(Part::More(bytes.len()))
    }

    fn data(&mut self, begin: usize, end: usize) -> Part {
        let length = ((end - begin) as u64).min(self.left);
        assert!(length > 0, "a chunk without bytes is the last");
        self.advance(length);
        Part::Data(begin..begin + length as usize)
    }

    /// One byte of framing; what the next belongs to.
    fn framing(&mut self, byte: u8, allowed: &mut u64) -> Result<At, Refusal> {
        match (self.at, byte) {
            (At::Size, b'\r') if self.digits > 0 => Ok(At::SizeLf),
            (At::Size, b';') if self.digits > 0 => self.extension(),
            (At::Size, b' ' | b'\t') if self.digits > 0 => self.extension().map(|_| At::Space),
            (At::Size, _) => self.digit(byte),
            (At::Space, b' ' | b'\t') => self.extension().map(|_| At::Space),
            (At::Space, b';') => self.extension(),
            (At::Space, _) => Err(Refusal::ChunkSize),
            (At::Extension, b'\r') => Ok(At::SizeLf),
            (At::Extension, b'\n') => Err(Refusal::BareLf),
            (At::Extension, _) if is_value(byte) => self.extension(),
            (At::Extension, _) => Err(Refusal::ChunkExtension),
            (At::SizeLf, b'\n') => self.size(allowed),
            (At::SizeLf, _) => Err(Refusal::BareCr),
            (At::DataCr, b'\r') => Ok(At::DataLf),
            (At::DataLf, b'\n') => Ok(At::Size),
            (At::DataCr | At::DataLf, _) => Err(Refusal::ChunkEnd),
            (At::Data | At::Trailers, _) => unreachable!("no framing"),
        }
    }

    fn digit(&mut self, byte: u8) -> Result<At, Refusal> {
        let digit = match byte {
            b'\n' if self.digits > 0 => return Err(Refusal::BareLf),
            _ => char::from(byte).to_digit(16).ok_or(Refusal::ChunkSize)?,
        };
        if self.digits == DIGITS_MAX {
            return Err(Refusal::ChunkOverflow);
        }
        (self.left, self.digits) = (self.left << 4 | u64::from(digit), self.digits + 1);
        Ok(At::Size)
    }

    fn extension(&mut self) -> Result<At, Refusal> {
        self.extensions += 1;
        if self.extensions > EXTENSION_BYTES_MAX { Err(Refusal::ExtensionsTooLong) } else { Ok(At::Extension) }
    }

    /// The line of the size has ended.
    fn size(&mut self, allowed: &mut u64) -> Result<At, Refusal> {
        assert!(self.digits > 0, "a size has digits");
        self.digits = 0;
        if self.left == 0 {
            return Ok(At::Trailers);
        }
        *allowed = allowed.checked_sub(self.left).ok_or(Refusal::ContentTooLong)?;
        Ok(At::Data)
    }

    /// Field lines are kept until all are there: their bytes are not dropped but those before them.
    fn trailers(&mut self, begin: usize, bytes: &[u8]) -> Result<Part, Refusal> {
        let limits = SectionLimits { end: TRAILER_BYTES_MAX, count: FIELDS_MAX };
        let Some(section) = self.trailers.section(&bytes[begin..], limits)? else { return Ok(Part::More(begin)) };
        let end = begin + section.end;
        Ok(if section.count == 0 { Part::End(end) } else { Part::Trailers(begin..end) })
    }
}
