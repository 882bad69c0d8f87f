//! Characters by their meaning (RFC 9110 section 5.6).

/// What bytes may be, a bit each; a table, because every byte of a head is asked about.
static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = class(byte as u8);
        byte += 1;
    }
    classes
};

const TOKEN: u8 = 1;
const VALUE: u8 = 2;
const NAME: u8 = 4;
const TARGET: u8 = 8;

const fn class(byte: u8) -> u8 {
    let symbol = matches!(byte, b'!' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'_' | b'~');
    let is_token = byte.is_ascii_alphanumeric() || symbol || matches!(byte, b'#' | b'^' | b'`' | b'|');
    let is_name = byte.is_ascii_alphanumeric() || symbol || matches!(byte, b'(' | b')' | b',' | b';' | b'=');
    let is_value = (byte >= b' ' && byte != 0x7f) || byte == b'\t';
    let is_target = byte.is_ascii_graphic() && byte != b'#';
    (TOKEN * is_token as u8) | (VALUE * is_value as u8) | (NAME * is_name as u8) | (TARGET * is_target as u8)
}

/// Whether `byte` may stand in a token: methods, field names, transfer codings.
#[inline]
pub(super) fn is_token(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & TOKEN != 0
}

/// Whether `bytes` are a token.
#[inline]
pub(super) fn are_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().copied().all(is_token)
}

/// Whether `byte` may stand in a field value: visible, of another character set, space or tab.
#[inline]
pub(super) fn is_value(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & VALUE != 0
}

/// Whether `byte` may stand in a registered name or an IPv4 address (RFC 3986 section 3.2.2).
#[inline]
pub(super) fn is_name(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & NAME != 0
}

/// Whether `byte` may stand in a target: visible ASCII. A fragment is never sent (RFC 9110 section 7.1), and what is not ASCII must be percent-encoded.
#[inline]
pub(super) fn is_target(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & TARGET != 0
}

/// Whether `byte` is optional white space.
const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// `bytes` without spaces and tabs at either end. (Other white space is content, and refused where it stands.)
pub(super) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && is_space(*first)
    {
        bytes = rest;
    }
    while let [rest @ .., last] = bytes
        && is_space(*last)
    {
        bytes = rest;
    }
    bytes
}

/// A decimal number of digits alone: none for anything else, saturated where it is over 64 bits.
pub(super) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, digit| {
        digit.is_ascii_digit().then(|| value.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_alone() {
        assert_eq!(decimal(b"18446744073709551614"), Some(u64::MAX - 1));
        assert_eq!(decimal(b"99999999999999999999999999"), Some(u64::MAX));
        for text in ["", "+1", "-1", " 1", "1 ", "0x1", "1.", "1,1"] {
            assert_eq!(decimal(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn only_spaces_and_tabs_are_trimmed() {
        assert_eq!(trim(b" \t a b\t "), b"a b");
        assert_eq!(trim(b"\x0ba"), b"\x0ba");
        assert_eq!(trim(b" "), b"");
    }
}
