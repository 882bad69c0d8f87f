//! Writing heads and chunks. Whatever is given, no line more than is meant comes out: what would be another line is refused.

use super::token::{are_token, is_value};
use super::{Date, Status};
use crate::Error;
use crate::xdr::Writer;

/// Writes the head of an answer of HTTP/1.1: status line, what `fields` writes, empty line.
///
/// # Errors
/// [`Error::NoRoom`], and what `fields` returns; then nothing was written.
pub fn write_response(
    to: &mut Writer<'_>,
    status: Status,
    fields: impl FnOnce(&mut FieldLines<'_, '_>) -> Result<(), Error>,
) -> Result<(), Error> {
    head(to, &[b"HTTP/1.1 ", &status.digits(), b" ", status.phrase().as_bytes(), b"\r\n"], fields)
}

/// Writes the head of a request of HTTP/1.1. `target` is encoded already.
///
/// # Errors
/// [`Error::Malformed`] where the method is no token, or the target has other than visible ASCII; [`Error::NoRoom`], and what `fields` returns. Then nothing was written.
pub fn write_request(
    to: &mut Writer<'_>,
    method: &str,
    target: &[u8],
    fields: impl FnOnce(&mut FieldLines<'_, '_>) -> Result<(), Error>,
) -> Result<(), Error> {
    if !are_token(method.as_bytes()) {
        return Err(Error::Malformed { what: "method" });
    }
    if target.is_empty() || !target.iter().all(u8::is_ascii_graphic) {
        return Err(Error::Malformed { what: "request target" });
    }
    head(to, &[method.as_bytes(), b" ", target, b" HTTP/1.1\r\n"], fields)
}

/// Writes the line before a chunk of `bytes` bytes; [`CHUNK_END`] comes behind it.
///
/// # Errors
/// [`Error::NoRoom`]; then nothing was written.
///
/// # Panics
/// If there are none: that would end the content, which [`write_last_chunk`] does.
pub fn write_chunk_begin(to: &mut Writer<'_>, bytes: u64) -> Result<(), Error> {
    assert!(bytes > 0, "a chunk without bytes ends the content");
    let mut line = *b"0000000000000000\r\n";
    let mut begin = 16;
    let mut left = bytes;
    while left > 0 {
        begin -= 1;
        line[begin] = b"0123456789abcdef"[(left & 15) as usize];
        left >>= 4;
    }
    to.put(&line[begin..])
}

/// What stands behind the bytes of a chunk.
pub const CHUNK_END: &[u8] = b"\r\n";

/// Writes the end of chunked content, with the trailers that `fields` writes.
///
/// # Errors
/// [`Error::NoRoom`], and what `fields` returns; then nothing was written.
pub fn write_last_chunk(
    to: &mut Writer<'_>,
    fields: impl FnOnce(&mut FieldLines<'_, '_>) -> Result<(), Error>,
) -> Result<(), Error> {
    head(to, &[b"0\r\n"], fields)
}

/// `first`, what `fields` writes, and an empty line; or nothing.
fn head(
    to: &mut Writer<'_>,
    first: &[&[u8]],
    fields: impl FnOnce(&mut FieldLines<'_, '_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let begin = to.len();
    let write = || {
        first.iter().try_for_each(|part| to.put(part))?;
        fields(&mut FieldLines(to))?;
        to.put(b"\r\n")
    };
    let written = write();
    if written.is_err() {
        to.truncate(begin);
    }
    written
}

/// Whether a field line can be written (RFC 9110 sections 5.1 and 5.5); for who puts lines together himself.
///
/// # Errors
/// [`Error::Malformed`] where the name is no token, or the value has control characters, CR and LF among them.
pub fn check_field(name: &str, value: &[u8]) -> Result<(), Error> {
    if !are_token(name.as_bytes()) {
        return Err(Error::Malformed { what: "field name" });
    }
    if !value.iter().copied().all(is_value) {
        return Err(Error::Malformed { what: "field value" });
    }
    Ok(())
}

/// Writes field lines.
#[derive(Debug)]
pub struct FieldLines<'w, 'm>(&'w mut Writer<'m>);

impl FieldLines<'_, '_> {
    /// A field line.
    ///
    /// # Errors
    /// [`Error::Malformed`] where the name is no token, or the value has control characters, CR and LF among them; [`Error::NoRoom`].
    pub fn field(&mut self, name: &str, value: &[u8]) -> Result<(), Error> {
        check_field(name, value)?;
        [name.as_bytes(), b": ", value, b"\r\n"].iter().try_for_each(|part| self.0.put(part))
    }

    /// A field line with a number, for example Content-Length.
    ///
    /// # Errors
    /// As for [`FieldLines::field`].
    pub fn number(&mut self, name: &str, value: u64) -> Result<(), Error> {
        let mut memory = [0; DIGITS_MAX];
        self.field(name, decimal(value, &mut memory))
    }

    /// A field line with a date, for example Last-Modified.
    ///
    /// # Errors
    /// As for [`FieldLines::field`].
    pub fn date(&mut self, name: &str, value: Date) -> Result<(), Error> {
        self.field(name, &value.text())
    }
}

/// Most decimal digits of 64 bits.
pub const DIGITS_MAX: usize = 20;

/// `value` in decimal digits, at the end of `memory`.
pub fn decimal(value: u64, memory: &mut [u8; DIGITS_MAX]) -> &[u8] {
    let (mut begin, mut left) = (DIGITS_MAX, value);
    loop {
        begin -= 1;
        memory[begin] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            return &memory[begin..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(room: usize, name: &str, value: &[u8]) -> Result<Vec<u8>, Error> {
        let mut memory = vec![0; room];
        let mut writer = Writer::new(&mut memory);
        writer.put(b"x")?;
        let written = write_response(&mut writer, Status::OK, |fields| fields.field(name, value));
        assert!(written.is_ok() || writer.written() == b"x", "whole or nothing");
        written.map(|()| writer.written()[1..].to_vec())
    }

    #[test]
    fn a_head_is_whole_or_not_there() {
        let whole = b"HTTP/1.1 200 OK\r\nserver: a\xe9\tb\r\n\r\n";
        assert_eq!(response(100, "server", b"a\xe9\tb").unwrap(), whole);
        for room in 1..=whole.len() {
            assert!(matches!(response(room, "server", b"a\xe9\tb"), Err(Error::NoRoom { .. })), "{room}");
        }
    }

    #[test]
    fn no_line_more_than_is_meant() {
        for value in ["a\r\nset-cookie: b", "a\n", "a\r", "a\0", "\u{7f}", "\x1b"] {
            assert_eq!(response(100, "a", value.as_bytes()), Err(Error::Malformed { what: "field value" }), "{value:?}");
        }
        for name in ["", "a b", "a:", "a\r\nb", "\u{e9}"] {
            assert_eq!(response(100, name, b""), Err(Error::Malformed { what: "field name" }), "{name:?}");
        }
        let mut memory = [0; 64];
        let mut writer = Writer::new(&mut memory);
        for (method, target) in [("GET ", "/"), ("", "/"), ("GET", ""), ("GET", "/ HTTP/1.1\r\n"), ("GET", "/\u{e9}")] {
            let written = write_request(&mut writer, method, target.as_bytes(), |_| Ok(()));
            assert!(matches!(written, Err(Error::Malformed { .. })) && writer.is_empty(), "{method} {target}");
        }
    }

    #[test]
    fn numbers() {
        for value in [0, 9, 10, 1_234_567_890, u64::MAX] {
            assert_eq!(decimal(value, &mut [0; DIGITS_MAX]), value.to_string().as_bytes());
        }
        for value in [1, 15, 16, 0xabc, u64::MAX] {
            let mut memory = [0; 18];
            let mut writer = Writer::new(&mut memory);
            write_chunk_begin(&mut writer, value).unwrap();
            assert_eq!(writer.written(), format!("{value:x}\r\n").as_bytes());
        }
    }
}
