//! Percent-encoding (RFC 3986 section 2.1), and pairs of a query as forms send them.

use super::Refusal;
use crate::Error;
use crate::xdr::Writer;

/// The bytes that `text` stands for: itself where nothing is encoded, else written to `memory`, for which as many bytes as `text` has are enough. What they mean is
/// not looked at: overlong or otherwise broken UTF-8 stays what it is, bytes.
///
/// # Errors
/// [`Refusal::PercentEncoding`]; [`Refusal::PathTooLong`] where the memory is too small.
pub fn decode<'a>(text: &'a [u8], memory: &'a mut [u8]) -> Result<&'a [u8], Refusal> {
    if text.contains(&b'%') { decode_into(text, memory, |byte| byte) } else { Ok(text) }
}

/// As [`decode`], for the names and values of a form: a plus sign stands for a space (WHATWG URL section 5.1).
///
/// # Errors
/// As for [`decode`].
pub fn decode_form<'a>(text: &'a [u8], memory: &'a mut [u8]) -> Result<&'a [u8], Refusal> {
    let is_encoded = text.iter().any(|byte| matches!(byte, b'%' | b'+'));
    let plus = |byte| if byte == b'+' { b' ' } else { byte };
    if is_encoded { decode_into(text, memory, plus) } else { Ok(text) }
}

/// Decodes `text`; `plain` says what a byte that is not encoded stands for.
fn decode_into<'a>(text: &[u8], memory: &'a mut [u8], plain: impl Fn(u8) -> u8) -> Result<&'a [u8], Refusal> {
    let (mut rest, mut length) = (text, 0);
    while let [first, after @ ..] = rest {
        let byte = if *first == b'%' { encoded(after).ok_or(Refusal::PercentEncoding)? } else { plain(*first) };
        rest = if *first == b'%' { &after[2..] } else { after };
        *memory.get_mut(length).ok_or(Refusal::PathTooLong)? = byte;
        length += 1;
    }
    Ok(&memory[..length])
}

/// The byte of two hexadecimal digits.
fn encoded(digits: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*digits.get(at)?).to_digit(16);
    Some((digit(0)? << 4 | digit(1)?) as u8)
}

/// Writes `path` so that it may stand in a target or in Location: all is encoded but what RFC 3986 section 3.3 lets stand in a path, and slashes.
///
/// # Errors
/// [`Error::NoRoom`]; then a part may have been written.
pub fn write_path(to: &mut Writer<'_>, path: &[u8]) -> Result<(), Error> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte);
    for &byte in path {
        if is_plain(byte) {
            to.put(&[byte])?;
        } else {
            const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
            to.put(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]])?;
        }
    }
    Ok(())
}

/// The names and values of a query, still encoded (for [`decode_form`]): `a=1&b` is `a` with `1`, and `b` with nothing. Empty pairs are passed over.
pub fn pairs(query: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let pair = |pair| split_once(pair, b'=').unwrap_or((pair, &[]));
    query.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()).map(pair)
}

fn split_once(bytes: &[u8], by: u8) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|byte| *byte == by)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_encoded_is_not_copied() {
        assert_eq!(decode(b"/a+b", &mut []), Ok(&b"/a+b"[..]));
        assert_eq!(decode_form(b"a", &mut []), Ok(&b"a"[..]));
        assert_eq!(decode(b"%41", &mut []), Err(Refusal::PathTooLong));
    }

    #[test]
    fn overlong_sequences_stay_bytes() {
        assert_eq!(decode(b"/%c0%ae%c0%AF", &mut [0; 8]), Ok(&b"/\xc0\xae\xc0\xaf"[..]));
        assert_eq!(decode(b"%2541", &mut [0; 8]), Ok(&b"%41"[..]), "once, not again");
        for text in ["%", "%4", "%4g", "a%", "%%41", "%+1", "%u0041"] {
            assert_eq!(decode(text.as_bytes(), &mut [0; 16]), Err(Refusal::PercentEncoding), "{text}");
        }
    }

    #[test]
    fn what_is_written_reads_the_same() {
        let path: Vec<u8> = (0..=255).collect();
        let mut memory = [0; 768];
        let mut writer = Writer::new(&mut memory);
        write_path(&mut writer, &path).unwrap();
        assert!(writer.written().iter().all(|byte| byte.is_ascii_graphic() && !b"\"<>#?%\\".contains(byte) || *byte == b'%'));
        assert_eq!(decode(writer.written(), &mut [0; 256]), Ok(&path[..]));
    }

    #[test]
    fn pairs_of_forms() {
        let all: Vec<_> = pairs(b"a=1&b&&c==&=d").collect();
        assert_eq!(all, [(&b"a"[..], &b"1"[..]), (b"b", b""), (b"c", b"="), (b"", b"d")]);
        assert_eq!(decode_form(b"a+b%2B", &mut [0; 8]), Ok(&b"a b+"[..]));
    }
}
