//! Lists of a field (RFC 9110 section 5.6.1).

use super::token::trim;

/// The elements of a comma-separated list, trimmed. Empty ones are passed over; commas in quoted strings divide nothing.
pub(super) fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    divided(value, true)
}

/// The same of a list of entity tags, which are no quoted strings: a backslash in one stands for itself (RFC 9110 section 8.8.3).
pub(super) fn tags(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    divided(value, false)
}

fn divided(value: &[u8], escapes: bool) -> impl Iterator<Item = &[u8]> {
    let mut rest = value;
    let next = move || {
        let (element, after) = split(rest, escapes)?;
        rest = after;
        Some(trim(element))
    };
    std::iter::from_fn(next).filter(|element| !element.is_empty())
}

/// The bytes up to the first comma outside of quotes, and those behind; none of nothing.
fn split(list: &[u8], escapes: bool) -> Option<(&[u8], &[u8])> {
    if list.is_empty() {
        return None;
    }
    let (mut is_quoted, mut is_escaped) = (false, false);
    let ends = |byte: &u8| {
        let escaped = std::mem::replace(&mut is_escaped, false);
        match *byte {
            b'\\' if escapes && is_quoted && !escaped => is_escaped = true,
            b'"' if !escaped => is_quoted = !is_quoted,
            b',' => return !is_quoted,
            _ => {}
        }
        false
    };
    let end = list.iter().position(ends).unwrap_or(list.len());
    Some((&list[..end], list.get(end + 1..).unwrap_or(&[])))
}

/// An element with parameters: what stands before the first semicolon, and its weight in thousandths (RFC 9110 section 12.4.2), 1,000 where
/// there is none. None where the weight is no legal one.
pub(super) fn weighted(element: &[u8]) -> Option<(&[u8], u16)> {
    let mut parts = element.split(|byte| *byte == b';').map(trim);
    let name = parts.next()?;
    let mut weight = 1_000;
    for part in parts {
        if let [b'q' | b'Q', b'=', digits @ ..] = part {
            weight = thousandths(digits)?;
        }
    }
    Some((name, weight))
}

/// `0.75` as 750.
fn thousandths(text: &[u8]) -> Option<u16> {
    let (whole, fraction) = match text {
        [whole] => (whole, &[][..]),
        [whole, b'.', fraction @ ..] if fraction.len() <= 3 => (whole, fraction),
        _ => return None,
    };
    let is_legal = matches!(whole, b'0' | b'1') && fraction.iter().all(u8::is_ascii_digit);
    let digit = |at: usize| fraction.get(at).map_or(0, |digit| u16::from(digit.wrapping_sub(b'0')));
    let value = || u16::from(whole - b'0') * 1_000 + digit(0) * 100 + digit(1) * 10 + digit(2);
    is_legal.then(value).filter(|value| *value <= 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(value: &str) -> Vec<&[u8]> {
        elements(value.as_bytes()).collect()
    }

    #[test]
    fn elements_are_trimmed_and_empty_ones_passed_over() {
        assert_eq!(all(",a ,\t, b,,"), [b"a", b"b"]);
        assert_eq!(all(r#""a,\",b", c"#), [&br#""a,\",b""#[..], b"c"]);
        assert_eq!(all(r#""a\\", b"#), [&br#""a\\""#[..], b"b"], "a backslash stands for itself behind another");
        assert!(all("").is_empty() && all(" , ").is_empty());
    }

    #[test]
    fn a_backslash_in_a_tag_stands_for_itself() {
        let all: Vec<_> = tags(br#""a\", W/"b,\", "c""#).collect();
        assert_eq!(all, [&br#""a\""#[..], br#"W/"b,\""#, br#""c""#]);
    }

    #[test]
    fn weights_have_three_digits_at_most() {
        let weight = |text: &str| weighted(text.as_bytes()).map(|(_, weight)| weight);
        assert_eq!(weight("br"), Some(1_000));
        assert_eq!(weight("br ; Q=0.5"), Some(500));
        assert_eq!(weight("br;q=1.000"), Some(1_000));
        assert_eq!(weight("br;level=1;q=0.001"), Some(1));
        for text in ["br;q=1.001", "br;q=2", "br;q=-1", "br;q=", "br;q=0.1234", "br;q=.5", "br;q=0.x"] {
            assert_eq!(weight(text), None, "{text}");
        }
    }
}
