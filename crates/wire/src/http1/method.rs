//! Methods (RFC 9110 section 9).

use super::token::are_token;

/// Most bytes in a method: what is longer is no method that anybody implements.
pub const METHOD_BYTES_MAX: usize = 32;

/// A method. Their names know upper and lower case (RFC 9110 section 9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names say it
pub enum Method<'a> {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Connect,
    Options,
    Trace,
    Patch,
    /// Any other token.
    Other(&'a str),
}

impl<'a> Method<'a> {
    /// The method of this name; none if it is no token.
    #[inline]
    pub(super) fn of(name: &'a [u8]) -> Option<Self> {
        Some(match name {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"DELETE" => Self::Delete,
            b"CONNECT" => Self::Connect,
            b"OPTIONS" => Self::Options,
            b"TRACE" => Self::Trace,
            b"PATCH" => Self::Patch,
            other => Self::Other(std::str::from_utf8(other).ok().filter(|_| are_token(other))?),
        })
    }

    /// Its name.
    pub const fn name(self) -> &'a str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
            Self::Options => "OPTIONS",
            Self::Trace => "TRACE",
            Self::Patch => "PATCH",
            Self::Other(name) => name,
        }
    }
}

/// The version a peer speaks, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1, and minor versions above, which are treated as it (RFC 9110 section 2.5).
    Http11,
}

impl Version {
    /// The version named by `text`: none where it is no version, and the major number where that is not 1.
    pub(super) fn of(text: &[u8]) -> Option<Result<Self, u8>> {
        match text {
            b"HTTP/1.1" => Some(Ok(Self::Http11)),
            b"HTTP/1.0" => Some(Ok(Self::Http10)),
            [b'H', b'T', b'T', b'P', b'/', major, b'.', minor] if major.is_ascii_digit() && minor.is_ascii_digit() => {
                Some(if *major == b'1' { Ok(Self::Http11) } else { Err(*major - b'0') })
            }
            _ => None,
        }
    }
}
