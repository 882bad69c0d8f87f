//! The table of hostile heads: what a client sends, and which requests that comes to.

use corelane_http::http1::{Body, Limits, Part, Request, Requests, Scratch, Step};

/// What is sent, and its name.
pub fn rows() -> Vec<(String, Vec<u8>)> {
    let table = include_str!("../../../../crates/wire/tests/data/http1-heads.tsv");
    let cells = |line: &str| line.split('\t').map(str::to_owned).collect::<Vec<_>>();
    let lines = table.lines().filter(|line| !line.starts_with('#')).skip(1).map(cells);
    lines.map(|cells| (cells[1].clone(), unescaped(&repeated(&cells[2])))).collect()
}

/// `{a*3}` as `aaa`.
fn repeated(text: &str) -> String {
    let Some((before, rest)) = text.split_once('{') else { return text.to_owned() };
    let (inside, after) = rest.split_once('}').unwrap();
    let (what, count) = inside.rsplit_once('*').unwrap();
    before.to_owned() + &what.repeat(count.parse().unwrap()) + &repeated(after)
}

fn unescaped(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text);
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        let (byte, length) = match after.as_bytes()[0] {
            b'r' => (b'\r', 1),
            b'n' => (b'\n', 1),
            b't' => (b'\t', 1),
            _ => (u8::from_str_radix(&after[1..3], 16).unwrap(), 3),
        };
        bytes.push(byte);
        rest = &after[length..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

/// A request, as it is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meant {
    pub method: String,
    pub target: String,
    /// Whom it asks for; none where it does not say.
    pub host: Option<String>,
    pub content: Vec<u8>,
}

impl Meant {
    /// Without its content.
    fn of(head: &Request<'_>) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let query = head.target.query.map(|query| format!("?{}", text(query))).unwrap_or_default();
        let host = head.authority.filter(|authority| !authority.host.is_empty()).map(|authority| {
            let port = authority.port.map(|port| format!(":{port}")).unwrap_or_default();
            text(authority.host) + &port
        });
        Self { method: head.method.name().to_owned(), target: text(head.target.path) + &query, host, content: Vec::new() }
    }
}

/// The requests that `bytes` come to, without one whose content is not whole.
pub fn taken(mut bytes: &[u8]) -> Vec<Meant> {
    let (mut all, mut reader) = (Vec::new(), Requests::new(Limits::default()));
    loop {
        let mut scratch = Scratch::new();
        let (head, length, is_taken) = match reader.next(bytes, &mut scratch) {
            Ok(Step::Request { head, bytes }) => {
                (head, bytes, !matches!(head.method.name(), "CONNECT" | "TRACE") && !head.target.is_https)
            }
            Ok(Step::Refused { head, bytes, .. }) => (head, bytes, false),
            Ok(Step::More(0)) | Err(_) => return all,
            Ok(Step::More(drop)) => {
                bytes = &bytes[drop..];
                continue;
            }
        };
        let (mut meant, persists) = (Meant::of(&head), head.persists);
        let Ok(mut body) = Body::new(head.framing, 1 << 30) else { return all };
        bytes = &bytes[length..];
        loop {
            match body.next(bytes) {
                Ok(Part::Data(range)) => {
                    meant.content.extend_from_slice(&bytes[range.clone()]);
                    bytes = &bytes[range.end..];
                }
                Ok(Part::Trailers(range)) => bytes = &bytes[range.end..],
                Ok(Part::End(drop)) => {
                    bytes = &bytes[drop..];
                    break;
                }
                Ok(Part::More(_)) | Err(_) => return all,
            }
        }
        if is_taken {
            all.push(meant);
        }
        if !persists {
            return all;
        }
    }
}
