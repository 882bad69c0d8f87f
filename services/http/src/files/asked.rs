//! What a request asks of a file, beside its name.

use corelane_wire::http1::{self, Coding, Fields, Method, Refusal, Scratch, trailers};
use std::cell::OnceCell;

/// What may be done with files.
pub(super) const METHODS: &str = "GET, HEAD, OPTIONS";

/// Codings of files that may lie beside others, best first, and how their names end.
pub(super) const CODINGS: [(Coding, &str); 3] = [(Coding::Brotli, ".br"), (Coding::Zstandard, ".zst"), (Coding::Gzip, ".gz")];

/// Codings that a client takes, best first.
pub(super) type Codings = http1::Codings<{ CODINGS.len() }>;

/// What a request asks.
pub(super) struct FileRequest<'a> {
    pub method: Method<'a>,
    pub fields: Fields<'a>,
    /// Whether it has conditions or ranges.
    pub is_special: bool,
    /// Whether it says which codings it takes.
    names_codings: bool,
    codings: OnceCell<Codings>,
}

/// What a field line is for a file.
enum Concern {
    None,
    Special,
    Codings,
}

fn concern(name: &str) -> Concern {
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    // Most names are none of these by their length alone.
    let special = match name.len() {
        5 => is("range"),
        8 => is("if-match") || is("if-range"),
        13 => is("if-none-match"),
        15 => return if is("accept-encoding") { Concern::Codings } else { Concern::None },
        17 => is("if-modified-since"),
        19 => is("if-unmodified-since"),
        _ => false,
    };
    if special { Concern::Special } else { Concern::None }
}

impl<'a> FileRequest<'a> {
    pub fn of(method: Method<'a>, fields: Fields<'a>) -> Self {
        let (mut is_special, mut names_codings) = (false, false);
        for (name, _) in fields.iter() {
            match concern(name) {
                Concern::None => {}
                Concern::Special => is_special = true,
                Concern::Codings => names_codings = true,
            }
        }
        Self { method, fields, is_special, names_codings, codings: OnceCell::new() }
    }

    /// The codings that are to be looked for, best first; the field is read once.
    pub fn codings(&self) -> Codings {
        *self.codings.get_or_init(|| match self.names_codings {
            true => http1::codings(self.fields, CODINGS.map(|(coding, _)| coding)),
            false => Codings::NONE,
        })
    }

    /// The field lines that concern files, to be kept.
    pub fn keep(&self) -> KeptFields {
        let mut lines = Vec::new();
        for (name, value) in self.fields.iter().filter(|(name, _)| !matches!(concern(name), Concern::None)) {
            for part in [name.as_bytes(), b": ", value, b"\r\n"] {
                lines.extend_from_slice(part);
            }
        }
        lines.extend_from_slice(b"\r\n");
        KeptFields { is_head: self.method == Method::Head, lines }
    }
}

/// What a request asks, kept after the call that it came in.
pub(super) struct KeptFields {
    is_head: bool,
    lines: Vec<u8>,
}

impl KeptFields {
    /// As it was asked.
    pub fn asked<'a, 'b: 'a>(&'b self, scratch: &'a mut Scratch<'b>) -> Result<FileRequest<'a>, Refusal> {
        let method = if self.is_head { Method::Head } else { Method::Get };
        Ok(FileRequest::of(method, trailers(&self.lines, scratch)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<T>(lines: &str, body: impl FnOnce(FileRequest<'_>) -> T) -> T {
        let mut scratch = Scratch::new();
        body(FileRequest::of(Method::Get, trailers(lines.as_bytes(), &mut scratch).unwrap()))
    }

    #[test]
    fn what_concerns_files_is_kept() {
        let lines = "Host: a\r\nRANGE: bytes=0-1\r\nCookie: b\r\nAccept-Encoding: gzip, br;q=0.5\r\n\r\n";
        let kept = with(lines, |asked| {
            assert!(asked.is_special);
            assert_eq!(asked.codings().as_slice(), [Coding::Gzip, Coding::Brotli]);
            asked.keep()
        });
        let mut scratch = Scratch::new();
        let again = kept.asked(&mut scratch).unwrap();
        assert_eq!((again.fields.len(), again.fields.get("range")), (2, Some(&b"bytes=0-1"[..])));
        assert!(with("Host: a\r\nAccept: b\r\n\r\n", |asked| !asked.is_special && asked.codings().as_slice().is_empty()));
    }

    #[test]
    fn codings_come_in_order() {
        let codings =
            |value: &str| with(&format!("accept-encoding: {value}\r\n\r\n"), |asked| asked.codings().as_slice().to_vec());
        assert_eq!(codings("gzip, deflate, br, zstd"), [Coding::Brotli, Coding::Zstandard, Coding::Gzip]);
        assert_eq!(codings("*"), [Coding::Brotli, Coding::Zstandard, Coding::Gzip]);
        assert_eq!(codings("identity, gzip;q=0"), []);
        assert_eq!(codings(""), []);
    }
}
