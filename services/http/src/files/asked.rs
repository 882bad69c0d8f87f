//! What a request asks of a file, beside its name.

use corelane_wire::http1::{Coding, Fields, Method, Refusal, Scratch, coding, trailers};

/// Codings of files that may lie beside others, best first, and how their names end.
pub(super) const CODINGS: [(Coding, &str); 3] = [(Coding::Brotli, ".br"), (Coding::Zstandard, ".zst"), (Coding::Gzip, ".gz")];

/// What a request asks.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub method: Method<'a>,
    pub fields: Fields<'a>,
    /// Whether it has conditions or ranges.
    pub is_special: bool,
    /// Whether it says which codings it takes.
    names_codings: bool,
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

impl<'a> Asked<'a> {
    pub fn of(method: Method<'a>, fields: Fields<'a>) -> Self {
        let (mut is_special, mut names_codings) = (false, false);
        for (name, _) in fields.iter() {
            match concern(name) {
                Concern::None => {}
                Concern::Special => is_special = true,
                Concern::Codings => names_codings = true,
            }
        }
        Self { method, fields, is_special, names_codings }
    }

    /// The codings that are to be looked for, best first.
    pub fn codings(&self) -> Codings {
        let mut codings = Codings { all: [Coding::Identity; CODINGS.len()], count: 0 };
        if !self.names_codings {
            return codings;
        }
        let mut left = CODINGS.map(|(coding, _)| coding);
        while let Some(best) = coding(self.fields, &left).filter(|best| *best != Coding::Identity) {
            codings.all[codings.count] = best;
            codings.count += 1;
            // What is taken is asked for no more.
            left.iter_mut().filter(|one| **one == best).for_each(|one| *one = Coding::Identity);
        }
        codings
    }

    /// The field lines that concern files, to be kept.
    pub fn keep(&self) -> Kept {
        let mut lines = Vec::new();
        for (name, value) in self.fields.iter().filter(|(name, _)| !matches!(concern(name), Concern::None)) {
            for part in [name.as_bytes(), b": ", value, b"\r\n"] {
                lines.extend_from_slice(part);
            }
        }
        lines.extend_from_slice(b"\r\n");
        Kept { is_head: self.method == Method::Head, lines }
    }
}

/// Codings that a client takes, best first.
#[derive(Clone, Copy)]
pub(super) struct Codings {
    all: [Coding; CODINGS.len()],
    count: usize,
}

impl Codings {
    pub fn as_slice(&self) -> &[Coding] {
        &self.all[..self.count]
    }
}

/// What a request asks, kept after the call that it came in.
pub(super) struct Kept {
    is_head: bool,
    lines: Vec<u8>,
}

impl Kept {
    /// As it was asked.
    pub fn asked<'a, 'b: 'a>(&'b self, scratch: &'a mut Scratch<'b>) -> Result<Asked<'a>, Refusal> {
        let method = if self.is_head { Method::Head } else { Method::Get };
        Ok(Asked::of(method, trailers(&self.lines, scratch)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<T>(lines: &str, body: impl FnOnce(Asked<'_>) -> T) -> T {
        let mut scratch = Scratch::new();
        body(Asked::of(Method::Get, trailers(lines.as_bytes(), &mut scratch).unwrap()))
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
