//! Characters by their meaning (RFC 9110 section 5.6).

/// Whether `byte` may stand in a token: methods, field names, transfer codings.
pub(super) const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~')
}

/// Whether `bytes` are a token.
pub(super) fn are_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().copied().all(is_token)
}

/// Whether `byte` may stand in a field value: visible, of another character set, space or tab.
pub(super) const fn is_value(byte: u8) -> bool {
    byte >= b' ' && byte != 0x7f || byte == b'\t'
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
