//! The name that a client of TLS asks for, found in its first message without opening anything: for who passes the bytes on to the server of that name.
//!
//! Source: RFC 8446 sections 4.1.2 and 5.1 (records and the ClientHello, the same in RFC 5246), RFC 6066 section 3 (the name).
//!
//! ```
//! use corelane_wire::hello::{Fault, NAME_BYTES_MAX, Step, server_name};
//!
//! let mut memory = [0; NAME_BYTES_MAX];
//! assert_eq!(server_name(b"\x16\x03\x01", &mut memory), Ok(Step::More));
//! assert_eq!(server_name(b"GET / HTTP/1.1\r\n", &mut memory), Err(Fault::NotTls));
//! ```
//!
//! The verdict does not depend on the pieces in which the bytes come. Lengths are held against those of what they lie in; what lies behind the name is not looked at.

use std::fmt;

/// The most bytes of a ClientHello that is read.
pub const HELLO_BYTES_MAX: usize = 16 << 10;
/// The most records that it may lie in.
pub const RECORDS_MAX: usize = 16;
/// The most bytes that are looked at: all of it, with the heads of its records.
pub const BYTES_MAX: usize = HELLO_BYTES_MAX + HANDSHAKE_HEAD + RECORDS_MAX * RECORD_HEAD;
/// The longest name (RFC 1035 section 2.3.4).
pub const NAME_BYTES_MAX: usize = 255;

const RECORD_HEAD: usize = 5;
const HANDSHAKE_HEAD: usize = 4;
/// The most bytes of a record in plain (RFC 8446 section 5.1).
const RECORD_BYTES_MAX: usize = 1 << 14;
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: usize = 0;
const HOST_NAME: usize = 0;

/// What the bytes come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'n> {
    /// It is not whole as far as the name: show the same bytes again, with more.
    More,
    /// The client asks for this name, in small letters, without a dot at its end.
    Name(&'n str),
    /// It asks for none.
    NoName,
}

/// Why nobody knows what the client asks for. The client is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does not speak TLS.
    NotTls,
    /// Its message is longer than is read, or lies in more records.
    TooLong,
    /// A length in it does not fit, or its name is none.
    Malformed,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotTls => "the client does not speak TLS",
            Self::TooLong => "the client's first message is longer than 16 KiB, or lies in more than 16 records",
            Self::Malformed => "the client's first message is malformed",
        })
    }
}

impl std::error::Error for Fault {}

/// Why reading stops.
enum Stop {
    More,
    Fault(Fault),
}

/// Finds the name at the front of a client's `bytes`, which is written to `memory`.
///
/// # Errors
/// [`Fault`]: more bytes change nothing.
pub fn server_name<'n>(bytes: &[u8], memory: &'n mut [u8; NAME_BYTES_MAX]) -> Result<Step<'n>, Fault> {
    match find(bytes, memory) {
        Ok(Some(length)) => Ok(Step::Name(std::str::from_utf8(&memory[..length]).map_err(|_| Fault::Malformed)?)),
        Ok(None) => Ok(Step::NoName),
        Err(Stop::More) => Ok(Step::More),
        Err(Stop::Fault(fault)) => Err(fault),
    }
}

/// The length of the name, in `memory`; none where there is none.
fn find(bytes: &[u8], memory: &mut [u8]) -> Result<Option<usize>, Stop> {
    let mut hello = Hello { bytes, at: 0, in_record: 0, records: 0, left: HANDSHAKE_HEAD };
    if hello.number(1)? != usize::from(CLIENT_HELLO) {
        return Err(Stop::Fault(Fault::NotTls));
    }
    hello.left = hello.number(3)?;
    if hello.left > HELLO_BYTES_MAX {
        return Err(Stop::Fault(Fault::TooLong));
    }
    hello.skip(2 + 32)?; // its version and its random bytes
    for length_bytes in [1, 2, 1] {
        // Its session, its ciphers, its compressions.
        let length = hello.number(length_bytes)?;
        hello.skip(length)?;
    }
    if hello.left == 0 {
        return Ok(None);
    }
    if hello.number(2)? != hello.left {
        return Err(Stop::Fault(Fault::Malformed));
    }
    while hello.left > 0 {
        let (kind, length) = (hello.number(2)?, hello.number(2)?);
        if length > hello.left {
            return Err(Stop::Fault(Fault::Malformed));
        }
        match kind {
            SERVER_NAME => return hello.name(length, memory),
            _ => hello.skip(length)?,
        }
    }
    Ok(None)
}

/// The bytes of the message, without the heads of the records in which they lie.
struct Hello<'b> {
    bytes: &'b [u8],
    at: usize,
    /// Bytes of the record that are still to come.
    in_record: usize,
    records: usize,
    /// The same of the message.
    left: usize,
}

impl Hello<'_> {
    fn begin_record(&mut self) -> Result<(), Stop> {
        let head = &self.bytes[self.at..];
        let is = |place: usize, byte: u8| head.get(place).is_none_or(|found| *found == byte);
        if !is(0, HANDSHAKE) || !is(1, 3) {
            return Err(Stop::Fault(if self.records == 0 { Fault::NotTls } else { Fault::Malformed }));
        }
        let Some(&[_, _, _, high, low]) = head.first_chunk::<RECORD_HEAD>() else { return Err(Stop::More) };
        let length = usize::from(u16::from_be_bytes([high, low]));
        if length == 0 || length > RECORD_BYTES_MAX {
            return Err(Stop::Fault(Fault::Malformed));
        }
        if self.records == RECORDS_MAX {
            return Err(Stop::Fault(Fault::TooLong));
        }
        (self.records, self.in_record, self.at) = (self.records + 1, length, self.at + RECORD_HEAD);
        Ok(())
    }

    /// Some of the next bytes, `most` at the most and one at least.
    fn next(&mut self, most: usize) -> Result<&[u8], Stop> {
        if most > self.left {
            return Err(Stop::Fault(Fault::Malformed));
        }
        if self.in_record == 0 {
            self.begin_record()?;
        }
        let rest = &self.bytes[self.at..];
        let length = most.min(self.in_record).min(rest.len());
        if length == 0 {
            return Err(Stop::More);
        }
        (self.at, self.in_record, self.left) = (self.at + length, self.in_record - length, self.left - length);
        Ok(&rest[..length])
    }

    fn skip(&mut self, mut bytes: usize) -> Result<(), Stop> {
        while bytes > 0 {
            bytes -= self.next(bytes)?.len();
        }
        Ok(())
    }

    /// A number of so many bytes.
    fn number(&mut self, bytes: usize) -> Result<usize, Stop> {
        (0..bytes).try_fold(0, |number, _| Ok(number << 8 | usize::from(self.next(1)?[0])))
    }

    /// The name in an extension of so many bytes (RFC 6066 section 3). There is one at the most, of one kind.
    fn name(&mut self, length: usize, memory: &mut [u8]) -> Result<Option<usize>, Stop> {
        let malformed = Stop::Fault(Fault::Malformed);
        if length < 5 || self.number(2)? != length - 2 || self.number(1)? != HOST_NAME {
            return Err(malformed);
        }
        let bytes = self.number(2)?;
        if bytes == 0 || bytes > memory.len() || bytes > length - 5 {
            return Err(malformed);
        }
        let mut at = 0;
        while at < bytes {
            let piece = self.next(bytes - at)?;
            memory[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        let name = &mut memory[..bytes];
        name.make_ascii_lowercase();
        if !name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(byte)) {
            return Err(malformed);
        }
        Ok(Some(bytes - usize::from(name.ends_with(b"."))))
    }
}
