//! Requests: a head a path, written once, and content from the pattern.

use super::expect::Expect;
use super::head::Head;
use super::settings::{HttpSettings, Wanted};
use crate::error::Error;
use crate::pattern;
use corelane::Output;
use corelane_wire::http1::{FieldLines, write_request};
use corelane_wire::xdr::Writer;

/// The longest head of a request.
const HEAD_MAX: usize = 64 << 10;

/// A path as one lane knows it.
pub struct Path {
    head: Vec<u8>,
    /// The same, with the word that the connection ends behind it.
    last_head: Vec<u8>,
    pub expect: Expect,
    /// The head of an answer, byte for byte, and what it says: the next one mostly has the same bytes.
    known: Option<(Vec<u8>, Head)>,
}

/// The paths that settings ask for.
///
/// # Errors
/// [`Error::Setting`] with what cannot be written.
pub fn paths(settings: &HttpSettings, size: usize) -> Result<Vec<Path>, Error> {
    let path = |wanted: &Wanted| {
        let head = |is_last| head(settings, &wanted.path, size, is_last);
        let expect = wanted.expect.unwrap_or(settings.expect);
        Ok(Path { head: head(false)?, last_head: head(true)?, expect, known: None })
    };
    settings.wanted.iter().map(path).collect()
}

fn head(settings: &HttpSettings, path: &str, size: usize, is_last: bool) -> Result<Vec<u8>, Error> {
    let mut memory = vec![0; HEAD_MAX];
    let mut writer = Writer::new(&mut memory);
    let fields = |lines: &mut FieldLines<'_, '_>| {
        if !settings.says("host") {
            lines.field("Host", settings.host.as_bytes())?;
        }
        if let Some(agent) = settings.agent.as_ref().filter(|_| !settings.says("user-agent")) {
            lines.field("User-Agent", agent.as_bytes())?;
        }
        if size > 0 || settings.has_content(size) {
            lines.number("Content-Length", size as u64)?;
        }
        settings.headers.iter().try_for_each(|(name, value)| lines.field(name, value.as_bytes()))?;
        if is_last && !settings.says("connection") { lines.field("Connection", b"close") } else { Ok(()) }
    };
    let written = write_request(&mut writer, settings.method(size), path.as_bytes(), fields);
    let why = |error: corelane_wire::Error| match error {
        corelane_wire::Error::NoRoom { .. } => {
            format!("the head of a request is over {HEAD_MAX} bytes: shorten its path or headers")
        }
        error => format!("{path:?} with its headers is no request: {error}"),
    };
    written.map_err(|error| Error::Setting { name: "path", why: why(error) })?;
    Ok(writer.written().to_vec())
}

impl Path {
    /// What the head in front of these bytes says, if it is the one that is known.
    pub fn known(&self, bytes: &[u8]) -> Option<Head> {
        self.known.as_ref().filter(|(known, _)| bytes.starts_with(known)).map(|(_, head)| *head)
    }

    /// Keeps the head of an answer; an interim one is none.
    pub fn learn(&mut self, head: Head, bytes: &[u8]) -> Head {
        if !head.is_interim {
            let (mut known, _) = self.known.take().unwrap_or((Vec::new(), head));
            known.clear();
            known.extend_from_slice(bytes);
            self.known = Some((known, head));
        }
        head
    }

    /// Writes a request with a content of `size` bytes; false if the lane's memory does not suffice.
    pub fn write(&self, is_last: bool, size: usize, output: &mut Output) -> bool {
        if output.write(if is_last { &self.last_head } else { &self.head }).is_err() {
            return false;
        }
        let mut at = 0;
        while at < size {
            let piece = pattern::piece(at as u64, size - at);
            output.push(piece);
            at += piece.len();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(settings: &HttpSettings, size: usize, is_last: bool) -> String {
        String::from_utf8(head(settings, "/a?b", size, is_last).unwrap()).unwrap()
    }

    #[test]
    fn a_head_has_what_a_server_needs() {
        let settings = HttpSettings {
            host: "h:1".into(),
            agent: Some("me".into()),
            wanted: vec![Wanted::new("/a?b")],
            ..HttpSettings::default()
        };
        assert_eq!(written(&settings, 0, false), "GET /a?b HTTP/1.1\r\nHost: h:1\r\nUser-Agent: me\r\n\r\n");
        assert_eq!(
            written(&settings, 9, true),
            "POST /a?b HTTP/1.1\r\nHost: h:1\r\nUser-Agent: me\r\nContent-Length: 9\r\nConnection: close\r\n\r\n"
        );
        let put = HttpSettings { method: Some("PUT".into()), agent: None, ..settings };
        assert_eq!(written(&put, 0, false), "PUT /a?b HTTP/1.1\r\nHost: h:1\r\nContent-Length: 0\r\n\r\n");
    }

    #[test]
    fn what_the_user_says_takes_the_place_of_what_the_generator_says() {
        let headers = [("host", "x"), ("USER-AGENT", "y"), ("Connection", "keep-alive"), ("A", "")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let settings = HttpSettings { headers, agent: Some("me".into()), ..HttpSettings::default() };
        assert_eq!(
            written(&settings, 0, true),
            "GET /a?b HTTP/1.1\r\nhost: x\r\nUSER-AGENT: y\r\nConnection: keep-alive\r\nA: \r\n\r\n"
        );
    }

    #[test]
    fn what_is_no_request_is_said() {
        let settings = HttpSettings::default();
        for (path, words) in
            [("/a b", "request target"), ("/\u{e4}", "request target"), (&*"/a".repeat(40_000), "over 65536 bytes")]
        {
            let said = head(&settings, path, 0, false).unwrap_err().to_string();
            assert!(said.contains(words), "{said}");
        }
    }
}
