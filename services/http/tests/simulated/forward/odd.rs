//! A server behind, whose path says what it does wrong: `/KIND/ID`. It looks at each request with eyes of its own, and keeps what it saw.

use corelane::service::{Ending, Input, Order, Output, Ticket};
use corelane::testing::Random;
use corelane::{Cx, Next, Peer, Silent, StreamService};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

/// An answer that nobody has asked for.
const STRAY: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray";

/// A request, as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub method: String,
    pub target: String,
    pub fields: Vec<(String, String)>,
    pub content: Vec<u8>,
}

impl Seen {
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.fields.iter().filter(move |(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub fn is(&self, name: &str, value: &str) -> bool {
        self.all(name).any(|found| found == value)
    }
}

/// The whole requests, and bytes that are none yet, of each connection.
#[derive(Default)]
pub struct Book {
    pub requests: Vec<Seen>,
    /// Bytes of requests whose connection ended before they were whole, and how; none of connections that had changed their protocol and were broken off.
    pub halves: Vec<(Vec<u8>, Ending)>,
    pub connections: usize,
}

pub type BookRef = Rc<RefCell<Book>>;

pub struct Odd {
    pub book: BookRef,
    pub random: Random,
}

/// What is done next.
enum Act {
    Say(Vec<u8>),
    Close,
    Reset,
}

pub struct Talk {
    heard: Vec<u8>,
    acts: VecDeque<Act>,
    ticket: Option<Ticket>,
    /// It looks at nothing more: its request was answered before all had come, or is none that it reads.
    is_over: bool,
    /// It says a piece a second.
    is_slow: bool,
    upgraded: bool,
}

/// The content in two chunks, of which the first has an extension, with a trailer.
fn in_chunks(content: &str) -> String {
    let (first, rest) = content.split_at(1);
    format!("1;x\r\n{first}\r\n{:x}\r\n{rest}\r\n0\r\nT: 1\r\n\r\n", rest.len())
}

impl Odd {
    pub fn new(book: BookRef, seed: u64) -> Self {
        Self { book, random: Random::new(seed) }
    }

    /// Cuts bytes into pieces of a length that is nobody's.
    fn say(&mut self, acts: &mut VecDeque<Act>, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(self.random.one_to(rest.len()));
            acts.push_back(Act::Say(piece.to_vec()));
            rest = behind;
        }
    }

    fn act(&mut self, talk: &mut Talk, seen: &Seen) {
        let mut parts = seen.target.trim_start_matches('/').split('/');
        let (kind, id) = (parts.next().unwrap_or_default().to_owned(), parts.next().unwrap_or_default());
        let content = format!("{id}:{}", seen.content.len());
        let length = content.len();
        let ok = "HTTP/1.1 200 OK\r\n";
        let whole = format!("{ok}Content-Length: {length}\r\n\r\n{}", if seen.method == "HEAD" { "" } else { &content });
        let (text, end) = match kind.as_str() {
            kind if special(kind, &content).is_some() => (special(kind, &content).unwrap_or_default(), None),
            "chunked" => (format!("{ok}Transfer-Encoding: chunked\r\n\r\n{}", in_chunks(&content)), None),
            "close" => (format!("{ok}Server: x\r\n\r\n{content}"), Some(Act::Close)),
            "old" => (format!("HTTP/1.0 200 OK\r\nContent-Length: {length}\r\n\r\n{content}"), Some(Act::Close)),
            "short" => (format!("{ok}Content-Length: 100\r\n\r\n{content}"), Some(Act::Close)),
            "cut" => (format!("{ok}Transfer-Encoding: chunked\r\n\r\nff\r\n{content}"), Some(Act::Close)),
            "long" => (format!("{whole}and more"), None),
            "headless" => (format!("{ok}Content-Length: {length}\r\n"), Some(Act::Close)),
            "garbage" => ("220 mail.example ESMTP\r\n\r\n".to_owned(), None),
            "both" => (format!("{ok}Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n{content}"), None),
            "twice" => (format!("{ok}Content-Length: {length}\r\nContent-Length: 1\r\n\r\n{content}"), None),
            "bare" => (format!("{ok}Content-Length: {length}\nX: 1\r\n\r\n{content}"), None),
            "badchunk" => (format!("{ok}Transfer-Encoding: chunked\r\n\r\nzz\r\n{content}"), None),
            "dribble" => (format!("{ok}X: {}", "x".repeat(200)), None),
            "reset" => (String::new(), Some(Act::Reset)),
            "silent" => (String::new(), None),
            "stall" => (format!("{ok}Content-Length: 100\r\n\r\n{content}"), None),
            "interim" => (format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n{whole}"), None),
            "leave" => (whole, Some(Act::Close)),
            "204" => (format!("HTTP/1.1 204 No Content\r\nX-Id: {id}\r\n\r\n"), None),
            "304" => (format!("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nETag: \"{id}\"\r\n\r\n"), None),
            "large" => {
                let content = "0123456789".repeat(50_000);
                (format!("{ok}Content-Length: {}\r\n\r\n{content}", content.len()), None)
            }
            // Content where none may be, which looks like an answer.
            "stray" => (format!("{ok}Content-Length: {}\r\n\r\n{}", STRAY.len(), STRAY), None),
            "stray304" => (format!("HTTP/1.1 304 Not Modified\r\nContent-Length: {}\r\n\r\n{}", STRAY.len(), STRAY), None),
            "stray204" => (format!("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n{}", STRAY), None),
            _ => (whole, None),
        };
        match kind.as_str() {
            "dribble" => talk.acts.extend(text.bytes().map(|byte| Act::Say(vec![byte]))),
            _ => self.say(&mut talk.acts, text.as_bytes()),
        }
        talk.is_slow = kind == "dribble";
        talk.acts.extend(end);
        talk.upgraded = kind == "switch" && seen.is("connection", "Upgrade");
    }

    fn look(&mut self, cx: &mut Cx<'_>, talk: &mut Talk, output: &mut Output) {
        while !talk.is_over && talk.acts.is_empty() && !talk.upgraded {
            let Some((seen, bytes)) = request(&talk.heard) else { break };
            talk.heard.drain(..bytes);
            self.book.borrow_mut().requests.push(seen.clone());
            self.act(talk, &seen);
        }
        // Answered as soon as the head has come.
        let is_early = talk.heard.windows(7).any(|found| found == b"/early/") && head_end(&talk.heard).is_some();
        if is_early && talk.acts.is_empty() && !talk.is_over {
            talk.is_over = true;
            self.say(&mut talk.acts, b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 5\r\n\r\nearly");
        }
        // Its request is looked at no more, and never answered.
        talk.is_over |= talk.heard.starts_with(b"PUT /deaf/") && head_end(&talk.heard).is_some();
        if !talk.acts.is_empty() && talk.ticket.is_none() {
            talk.ticket = output.hold(Order::Any).ok();
            let after = if talk.is_slow { 1_000_000_000 } else { self.random.delay().min(300_000) };
            let after = Duration::from_nanos(after);
            cx.start_timer(after, 0).unwrap();
        }
    }
}

/// An answer by which this kind is known, where it is one.
fn special(kind: &str, content: &str) -> Option<String> {
    malformed(kind, content).or_else(|| oversized(kind, content)).or_else(|| switching(kind))
}

/// An answer that passes a bound, where this kind is one.
fn oversized(kind: &str, content: &str) -> Option<String> {
    let (ok, length) = ("HTTP/1.1 200 OK\r\n", content.len());
    let text = match kind {
        "fat" => format!("{ok}X: {}\r\n\r\n", "x".repeat(70_000)),
        "fat-line" => format!("HTTP/1.1 200 {}\r\n\r\n", "x".repeat(9_000)),
        "many-fields" => format!("{ok}{}Content-Length: {length}\r\n\r\n{content}", "X: 1\r\n".repeat(200)),
        "endless" => "HTTP/1.1 102 Processing\r\n\r\n".repeat(40),
        "extensions" => format!("{ok}Transfer-Encoding: chunked\r\n\r\n3;{}\r\n{content}\r\n0\r\n\r\n", "x".repeat(10_000)),
        "trailers" => format!("{ok}Transfer-Encoding: chunked\r\n\r\n0\r\nX: {}\r\n\r\n", "x".repeat(10_000)),
        _ => return None,
    };
    Some(text)
}

/// An answer that changes the protocol, or would, where this kind is one.
fn switching(kind: &str) -> Option<String> {
    let (version, lines) = match kind {
        "switch" => ("1.1", "Upgrade: x\r\nConnection: upgrade\r\nX-Mine: 1\r\n"),
        "switch-capital" => ("1.1", "Upgrade: X\r\nConnection: keep-alive, Upgrade\r\n"),
        "switch-other" => ("1.1", "Upgrade: h2c\r\nConnection: upgrade\r\n"),
        "switch-more" => ("1.1", "Upgrade: x, h2c\r\nConnection: upgrade\r\n"),
        "switch-begin" => ("1.1", "Upgrade: x/1\r\nConnection: upgrade\r\n"),
        "switch-old" => ("1.0", "Upgrade: x\r\nConnection: upgrade\r\n"),
        "switch-untold" => ("1.1", "Upgrade: x\r\n"),
        "switch-unnamed" => ("1.1", "Connection: upgrade\r\nX-Mine: 1\r\n"),
        "required" => return Some(required("Upgrade: x, y/2\r\nUpgrade: z\r\nConnection: upgrade\r\nKeep-Alive: 1\r\n")),
        "required-unnamed" => return Some(required("Connection: upgrade\r\n")),
        _ => return None,
    };
    Some(format!("HTTP/{version} 101 Switching Protocols\r\n{lines}\r\n"))
}

/// The answer that another protocol is to be asked for.
fn required(lines: &str) -> String {
    format!("HTTP/1.1 426 Upgrade Required\r\n{lines}Content-Length: 3\r\n\r\n7:0")
}

/// An answer that is none of the standard's, where this kind is one: two readers could take it differently.
fn malformed(kind: &str, content: &str) -> Option<String> {
    let (ok, length) = ("HTTP/1.1 200 OK\r\n", content.len());
    let text = match kind {
        "folded" => format!("{ok}X: a\r\n b\r\nContent-Length: {length}\r\n\r\n{content}"),
        "foldedlength" => format!("{ok}Content-Length:\r\n {length}\r\n\r\n{content}"),
        "nul" => format!("{ok}X: a\0b\r\nContent-Length: {length}\r\n\r\n{content}"),
        "spaced" => format!("{ok}Content-Length : {length}\r\n\r\n{content}"),
        "plus" => format!("{ok}Content-Length: +{length}\r\n\r\n{content}"),
        "listed" => format!("{ok}Content-Length: {length}, {length}\r\n\r\n{content}"),
        "huge" => format!("{ok}Content-Length: 99999999999999999999\r\n\r\n{content}"),
        "hugechunk" => format!("{ok}Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{content}"),
        "identity" => format!("{ok}Transfer-Encoding: chunked, identity\r\n\r\n3\r\n{content}\r\n0\r\n\r\n"),
        "gzip" => format!("{ok}Transfer-Encoding: gzip, chunked\r\n\r\n3\r\n{content}\r\n0\r\n\r\n"),
        "oldchunks" => "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n7:0\r\n0\r\n\r\n".to_owned(),
        "status" => "HTTP/1.1 99 Low\r\nContent-Length: 0\r\n\r\n".to_owned(),
        "major" => "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned(),
        _ => return None,
    };
    Some(text)
}

impl StreamService for Odd {
    type Talk = Silent;
    type Session = Talk;

    fn open(&mut self, _: &mut Cx<'_>, _: &Peer) -> Talk {
        self.book.borrow_mut().connections += 1;
        Talk { heard: Vec::new(), acts: VecDeque::new(), ticket: None, is_over: false, is_slow: false, upgraded: false }
    }

    fn receive(&mut self, cx: &mut Cx<'_>, talk: &mut Talk, input: &mut Input, output: &mut Output) -> Next {
        if talk.is_over {
            return Next::Wait;
        }
        input.pieces().for_each(|piece| talk.heard.extend_from_slice(piece));
        input.skip(usize::MAX);
        if talk.upgraded && talk.acts.is_empty() {
            let said: Vec<u8> = talk.heard.drain(..).map(|byte| byte.to_ascii_uppercase()).collect();
            output.write(&said).unwrap();
            return if said.ends_with(b"BREAK OFF") { Next::Abort } else { Next::Continue };
        }
        self.look(cx, talk, output);
        Next::Continue
    }

    fn timer(&mut self, cx: &mut Cx<'_>, talk: &mut Talk, output: &mut Output, _token: u64) -> Next {
        let ticket = talk.ticket.take().unwrap();
        cx.answer(ticket, &b""[..]);
        match talk.acts.pop_front() {
            Some(Act::Say(bytes)) if output.write(&bytes).is_err() => return Next::Abort,
            Some(Act::Close) => return Next::Close,
            Some(Act::Reset) => return Next::Abort,
            Some(Act::Say(_)) | None => {}
        }
        self.look(cx, talk, output);
        if talk.upgraded && talk.acts.is_empty() {
            cx.resume(cx.id());
        }
        Next::Continue
    }

    fn closed(&mut self, _: &mut Cx<'_>, talk: Talk, ending: Ending) {
        let is_half = !talk.heard.is_empty() && !talk.is_over;
        if is_half || talk.upgraded && ending == Ending::Error {
            self.book.borrow_mut().halves.push((talk.heard, ending));
        }
    }
}

fn head_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|found| found == b"\r\n\r\n").map(|at| at + 4)
}

/// The first request, and its bytes, if it is whole.
///
/// # Panics
/// If it is not well-formed in every respect, or has what is of one connection alone.
pub fn request(bytes: &[u8]) -> Option<(Seen, usize)> {
    let end = head_end(bytes)?;
    let head = std::str::from_utf8(&bytes[..end - 2]).expect("heads of these tests are text");
    assert!(head.replace("\r\n", "").bytes().all(|byte| !matches!(byte, b'\r' | b'\n' | 0)), "lines end with CR LF: {head:?}");
    let mut lines = head.split_terminator("\r\n");
    let words: Vec<_> = lines.next().unwrap().split(' ').collect();
    let [method, target, "HTTP/1.1"] = words[..] else { panic!("three words: {words:?}") };
    assert!(!target.is_empty() && target.bytes().all(|byte| byte.is_ascii_graphic()), "{target:?}");
    assert!(target.starts_with('/') || target == "*", "the form of the origin: {target}");
    let is_token = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
    };
    let field = |line: &str| {
        let (name, value) = line.split_once(": ").unwrap_or_else(|| panic!("{line:?} is no field"));
        assert!(is_token(name) && value.trim() == value, "{line:?}");
        (name.to_owned(), value.to_owned())
    };
    let fields: Vec<_> = lines.map(field).collect();
    assert!(is_token(method), "{method:?}");
    let mut seen = Seen { method: method.to_owned(), target: target.to_owned(), fields, content: Vec::new() };
    for once in ["host", "forwarded", "x-forwarded-for", "x-forwarded-proto"] {
        assert_eq!(seen.all(once).count(), 1, "{once}: {head}");
    }
    for never in ["keep-alive", "proxy-connection", "te", "trailer", "http2-settings", "proxy-authorization"] {
        assert_eq!(seen.all(never).count(), 0, "{never}: {head}");
    }
    assert!(
        seen.all("connection").all(|value| value == "Upgrade") && seen.all("x-forwarded-for").all(|value| !value.contains(','))
    );
    assert!(seen.fields.iter().all(|(name, _)| !name.contains('_')), "{head}");
    let lengths: Vec<_> = seen.all("content-length").collect();
    let codings: Vec<_> = seen.all("transfer-encoding").collect();
    let (content, bytes_of_it) = match (&lengths[..], &codings[..]) {
        ([], []) => (Vec::new(), 0),
        ([length], []) => {
            let length: usize = length.parse().unwrap();
            (bytes.get(end..end + length)?.to_vec(), length)
        }
        ([], ["chunked"]) => chunks(&bytes[end..])?,
        _ => panic!("how it is framed is not clear: {head}"),
    };
    seen.content = content;
    Some((seen, end + bytes_of_it))
}

/// Content in chunks, without extensions and trailers.
fn chunks(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut content, mut at) = (Vec::new(), 0);
    loop {
        let line = bytes[at..].windows(2).position(|found| found == b"\r\n")?;
        let size = std::str::from_utf8(&bytes[at..at + line]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap_or_else(|_| panic!("{size:?} is no size"));
        at += line + 2;
        let chunk = bytes.get(at..at + size + 2)?;
        assert!(chunk.ends_with(b"\r\n"), "a chunk ends");
        content.extend_from_slice(&chunk[..size]);
        at += size + 2;
        if size == 0 {
            return Some((content, at));
        }
    }
}
