//! Paths as names beneath a root (RFC 3986 sections 5.2.4 and 6.2.2).

use super::{Refusal, percent};

/// The path that `path` (of a [`Target`](super::Target)) means: decoded, without dot segments and without empty segments. It begins with a slash, and ends with
/// one if what was asked for is a directory (`/a/.` and `/a/..` are). Itself where nothing is to be done, else written to `memory`, for which
/// as many bytes as `path` has are enough.
///
/// It is decoded once, and before dot segments are looked for, so `%2e%2e` is one and `%252e` is none. Whether links lead out of the root is for the one who opens it.
///
/// # Errors
/// [`Refusal::AboveRoot`], [`Refusal::Nul`], [`Refusal::EncodedSlash`], [`Refusal::PercentEncoding`]; [`Refusal::PathTooLong`] where the memory is too small;
/// [`Refusal::Target`] where it does not begin with a slash, as that of OPTIONS and CONNECT may not.
pub fn normal<'a>(path: &'a [u8], memory: &'a mut [u8]) -> Result<&'a [u8], Refusal> {
    if path.first() != Some(&b'/') {
        return Err(Refusal::Target);
    }
    if is_normal(path) {
        return Ok(path);
    }
    let slashes = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'/').count();
    let memory = memory.get_mut(..path.len()).ok_or(Refusal::PathTooLong)?;
    let decoded = percent::decode(path, memory)?;
    if decoded.contains(&0) {
        return Err(Refusal::Nul);
    }
    if slashes(decoded) != slashes(path) {
        return Err(Refusal::EncodedSlash);
    }
    let length = decoded.len();
    if !path.contains(&b'%') {
        memory.copy_from_slice(path);
    }
    let length = without_dots(&mut memory[..length])?;
    Ok(&memory[..length])
}

/// Whether there is nothing to be done, as almost always.
fn is_normal(path: &[u8]) -> bool {
    let is_dot_or_empty = |pair: &[u8]| pair[0] == b'/' && matches!(pair[1], b'/' | b'.');
    !path.iter().any(|byte| matches!(byte, b'%' | 0)) && !path.windows(2).any(is_dot_or_empty)
}

/// Takes dot segments and empty segments out of `path`, in place; the length of what is left.
fn without_dots(path: &mut [u8]) -> Result<usize, Refusal> {
    let (mut written, mut read) = (0, 0);
    while read < path.len() {
        let begin = read + 1;
        let end = path[begin..].iter().position(|byte| *byte == b'/').map_or(path.len(), |at| begin + at);
        match &path[begin..end] {
            b"" | b"." => {}
            b".." => written = path[..written].iter().rposition(|byte| *byte == b'/').ok_or(Refusal::AboveRoot)?,
            _ => {
                debug_assert!(written <= read, "what is written was read");
                path.copy_within(read..end, written);
                written += end - read;
            }
        }
        let is_directory = end == path.len() && matches!(&path[begin..end], b"" | b"." | b"..");
        if is_directory {
            path[written] = b'/';
            written += 1;
        }
        read = end;
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expected: Result<&str, Refusal>) {
        let mut memory = vec![0xff; path.len()];
        assert_eq!(normal(path.as_bytes(), &mut memory), expected.map(str::as_bytes), "{path}");
    }

    #[test]
    fn dot_segments_are_taken_out() {
        let same = ["/", "/a", "/a/", "/a/b.c", "/a..b/c."];
        same.iter().for_each(|path| check(path, Ok(path)));
        let others = [
            ("/.", "/"),
            ("/a/.", "/a/"),
            ("/a/..", "/"),
            ("/a/b/../c", "/a/c"),
            ("/a/b/..", "/a/"),
            ("/a/./b", "/a/b"),
            ("/%2e", "/"),
            ("/a/%2E%2e/b", "/b"),
            ("/a/.%2e/.b", "/.b"),
            ("/a/...", "/a/..."),
            ("/%252e%252e/a", "/%2e%2e/a"),
            ("//a", "/a"),
            ("/a//b///", "/a/b/"),
            ("//", "/"),
            ("/a/../b/../c/", "/c/"),
        ];
        others.iter().for_each(|(path, expected)| check(path, Ok(expected)));
    }

    #[test]
    fn what_is_no_name_beneath_the_root_is_refused() {
        for path in ["/..", "/../a", "/a/../..", "/%2e%2e/a", "/./..", "/a/..//..", "/.%2e"] {
            check(path, Err(Refusal::AboveRoot));
        }
        check("/a%00.html", Err(Refusal::Nul));
        check("/a\0.html", Err(Refusal::Nul));
        check("/a%2fb", Err(Refusal::EncodedSlash));
        check("/..%2f..%2fetc", Err(Refusal::EncodedSlash));
        check("/%zz", Err(Refusal::PercentEncoding));
        check("*", Err(Refusal::Target));
        check("", Err(Refusal::Target));
        assert_eq!(normal(b"/%61", &mut [0; 3]), Err(Refusal::PathTooLong));
    }

    #[test]
    fn overlong_dots_are_names() {
        assert_eq!(normal(b"/%c0%ae%c0%ae/a", &mut [0; 32]), Ok(&b"/\xc0\xae\xc0\xae/a"[..]));
    }
}
