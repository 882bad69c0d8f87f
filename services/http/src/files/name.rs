//! What a path of a request names beneath the root.

use corelane_wire::http1::{Refusal, Status, path};

/// The longest path that is looked for, in bytes: the system knows none longer (PATH_MAX).
pub(crate) const PATH_BYTES_MAX: usize = 4000;

/// Memory to decode a path in.
#[derive(Default)]
pub(super) struct Decoded(Vec<u8>);

impl Decoded {
    pub fn new() -> Self {
        Self(vec![0; PATH_BYTES_MAX])
    }

    /// The name that a path means: without the slash in front, and with one behind it if it is that of a directory; empty for the root.
    ///
    /// # Errors
    /// The status to answer with.
    pub fn name<'a>(&'a mut self, path: &'a [u8]) -> Result<&'a [u8], Status> {
        // A call that panicked has not put it back.
        if self.0.is_empty() {
            *self = Self::new();
        }
        let normal = path::normal(path, &mut self.0).map_err(|refusal| match refusal {
            Refusal::PathTooLong => Status::URI_TOO_LONG,
            refusal => refusal.status(),
        })?;
        let name = &normal[1..];
        match name {
            _ if name.len() > PATH_BYTES_MAX => Err(Status::URI_TOO_LONG),
            // What begins with a dot is nobody's but the owner's, as for ls(1).
            _ if is_hidden(name) => Err(Status::NOT_FOUND),
            name => Ok(name),
        }
    }
}

/// The one directory whose name begins with a dot and that is everybody's, right beneath the root (RFC 8615 section 3).
const WELL_KNOWN: &[u8] = b".well-known";

fn is_hidden(name: &[u8]) -> bool {
    let mut parts = name.split(|byte| *byte == b'/');
    let is_first_hidden = parts.next().is_some_and(|first| first.starts_with(b".") && first != WELL_KNOWN);
    is_first_hidden || parts.any(|part| part.starts_with(b"."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let mut decoded = Decoded::new();
        for (path, expected) in [
            ("/", Ok("")),
            ("/a", Ok("a")),
            ("/a/", Ok("a/")),
            ("//a//b", Ok("a/b")),
            ("/a/../b", Ok("b")),
            ("/a%20b\\c", Ok("a b\\c")),
            ("/a/.b", Err(Status::NOT_FOUND)),
            ("/.b/a", Err(Status::NOT_FOUND)),
            ("/%2eb", Err(Status::NOT_FOUND)),
            ("/a/..b", Err(Status::NOT_FOUND)),
            ("/.well-known/acme-challenge/a", Ok(".well-known/acme-challenge/a")),
            ("/.well-known", Ok(".well-known")),
            ("/.well-known/.a", Err(Status::NOT_FOUND)),
            ("/.well-knowns/a", Err(Status::NOT_FOUND)),
            ("/a/.well-known/b", Err(Status::NOT_FOUND)),
            ("/..", Err(Status::BAD_REQUEST)),
            ("/a%00", Err(Status::BAD_REQUEST)),
            ("/a%2fb", Err(Status::BAD_REQUEST)),
            ("/%zz", Err(Status::BAD_REQUEST)),
        ] {
            assert_eq!(decoded.name(path.as_bytes()), expected.map(str::as_bytes), "{path}");
        }
        let longest = format!("/{}", "a".repeat(PATH_BYTES_MAX));
        assert_eq!(decoded.name(longest.as_bytes()), Ok(&longest.as_bytes()[1..]));
        let long = longest + "a";
        assert_eq!(decoded.name(long.as_bytes()), Err(Status::URI_TOO_LONG));
        assert_eq!(decoded.name(format!("/%61{long}").as_bytes()), Err(Status::URI_TOO_LONG));
    }
}
