//! The authority of a target, and Host, which is the same without user information (RFC 9110 sections 4.2 and 7.2, RFC 3986 section 3.2).

use super::token::{decimal, is_name};
use std::net::Ipv6Addr;

/// A host, and a port where one is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authority<'a> {
    /// A name or an address as it was sent, an IPv6 address with its brackets. Names know no upper and lower case. Empty where the client's
    /// URI has no authority (RFC 9112 section 3.2).
    pub host: &'a [u8],
    /// The port; none where the scheme's is meant.
    pub port: Option<u16>,
}

impl<'a> Authority<'a> {
    /// Reads `text`; none where it is no host with a port at most.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        let end = match text.first() {
            Some(b'[') => text.iter().position(|byte| *byte == b']')? + 1,
            _ => text.iter().position(|byte| !is_name(*byte)).unwrap_or(text.len()),
        };
        let (host, rest) = text.split_at(end);
        let port = match rest {
            [] | [b':'] => None,
            [b':', digits @ ..] if digits.len() <= 5 => Some(u16::try_from(decimal(digits)?).ok()?),
            _ => return None,
        };
        let is_host = host.first() != Some(&b'[') || is_ipv6(host);
        is_host.then_some(Self { host, port })
    }
}

/// Whether `host` is an IPv6 address in brackets. Addresses of later versions and with zones are none that anybody can listen at.
fn is_ipv6(host: &[u8]) -> bool {
    let inside = host.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
    inside.and_then(|inside| std::str::from_utf8(inside).ok()).is_some_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<(&str, Option<u16>)> {
        let authority = Authority::parse(text.as_bytes())?;
        Some((std::str::from_utf8(authority.host).unwrap(), authority.port))
    }

    #[test]
    fn a_host_and_a_port_at_most() {
        assert_eq!(parse("a.example"), Some(("a.example", None)));
        assert_eq!(parse("a.example:"), Some(("a.example", None)));
        assert_eq!(parse("127.0.0.1:80"), Some(("127.0.0.1", Some(80))));
        assert_eq!(parse("[::1]:65535"), Some(("[::1]", Some(65535))));
        assert_eq!(parse(""), Some(("", None)));
    }

    #[test]
    fn nothing_else() {
        let others = ["a:65536", "a:000080", "a:+1", "a:80:80", "::1", "[::1", "[::1]x", "[]", "[v1.x]", "[fe80::1%25eth0]"];
        for text in others.iter().chain(&["user@a", "a b", "a/b", "a\tb", "a,b c", "\u{e9}", "a?b", "a#b", "a\\b", "a]"]) {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
