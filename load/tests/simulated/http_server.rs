//! A server of HTTP/1.1 that answers rightly, or as it is told to.

use corelane::service::{Cx, Input, Next, Output, Peer, Silent, StreamService};
use corelane_load::plan::Plan;
use corelane_load::workloads::http::HttpSettings;
use corelane_wire::http1::{Body, Limits, Method, Part, Requests, Scratch, Step};
use std::cell::Cell;
use std::rc::Rc;

/// How requests are answered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Answers {
    Right,
    /// In chunks with extensions, and trailers behind.
    Chunked,
    /// Without a length, and then the end.
    UntilClose,
    /// With the word that the connection ends, and then it does; what was asked behind is not answered.
    ClosesEach,
    /// The same after so many answers.
    ClosesAfter(u64),
    /// As HTTP/1.0 does.
    Http10,
    /// With this status, and no content.
    Status(u16),
    /// With this status, and content.
    Failing(u16),
    /// With a redirect.
    Elsewhere,
    /// With 100 and 103 before the answer.
    Interim,
    /// The third content is a byte shorter.
    Shorter,
    /// The third content has another byte.
    Changed,
    /// No HTTP.
    Nonsense,
    /// Lines end with LF alone.
    BareLf,
    /// With two lengths.
    TwoLengths,
    /// With a chunk that does not end where it should.
    BadChunk,
    /// With a head that has no end.
    EndlessHead,
    /// Switching to something else.
    Switches,
    /// The content ends in the middle.
    Cut,
    /// The head ends in the middle.
    CutHead,
    /// The connection is broken off in the middle of the content.
    Reset,
    /// Byte by byte.
    Slowly,
    /// With this status, byte by byte.
    FailingSlowly(u16),
    Never,
    /// With content that never ends, of this many chunks at once.
    Endless,
    /// Twice.
    Twice,
}

/// What came, and what was answered.
#[derive(Default)]
pub struct Seen {
    pub requests: Cell<u64>,
    pub answers: Cell<u64>,
    pub connections: Cell<u64>,
    pub content_bytes: Cell<u64>,
    /// Requests that said they are the last of their connection.
    pub last: Cell<u64>,
    /// Requests for each of the paths /0 to /3.
    pub paths: [Cell<u64>; 4],
}

#[derive(Clone)]
pub struct Server {
    pub answers: Answers,
    pub seen: Rc<Seen>,
}

pub struct Session {
    requests: Requests,
    body: Option<(Body, bool, u64)>,
    slow: Vec<u8>,
    answered: u64,
}

pub const CONTENT: &str = "what was asked for, and nothing else";

/// A right answer.
pub fn right() -> String {
    with("HTTP/1.1 200 OK", &format!("Content-Length: {}\r\n", CONTENT.len()), CONTENT)
}

fn with(line: &str, fields: &str, content: &str) -> String {
    format!("{line}\r\nServer: sim\r\n{fields}\r\n{content}")
}

/// Bytes of a request of a plan, and of a right answer.
pub fn bytes_of(plan: &Plan) -> (u64, u64) {
    let settings = HttpSettings::in_plan(plan);
    let content = if plan.size > 0 { format!("Content-Length: {}\r\n", plan.size) } else { String::new() };
    let (method, path) = (settings.method(plan.size), &settings.wanted[0].path);
    let agent = settings.agent.as_ref().map_or(String::new(), |agent| format!("User-Agent: {agent}\r\n"));
    let head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n{agent}{content}\r\n", settings.host);
    ((head.len() + plan.size) as u64, right().len() as u64)
}

fn count(cell: &Cell<u64>, more: u64) {
    cell.set(cell.get() + more);
}

impl Server {
    /// The answer to the request with this number on its connection.
    fn answer(&self, number: u64, is_head: bool) -> String {
        let lengthy = format!("Content-Length: {}\r\n", CONTENT.len());
        let third = number == 2;
        let ok = |fields: &str, content: &str| with("HTTP/1.1 200 OK", fields, content);
        match self.answers {
            _ if is_head => with("HTTP/1.1 200 OK", "Content-Length: 1000000\r\n", ""),
            Answers::Chunked => ok("Transfer-Encoding: chunked\r\n", "5;a=b\r\nwhat \r\n3\r\nwas\r\n0\r\nA: b\r\n\r\n"),
            Answers::UntilClose => ok("", CONTENT),
            Answers::ClosesEach => ok(&format!("{lengthy}Connection: close\r\n"), CONTENT),
            Answers::ClosesAfter(each) if number + 1 == each => ok(&format!("{lengthy}Connection: close\r\n"), CONTENT),
            Answers::Http10 => with("HTTP/1.0 200 OK", &lengthy, CONTENT),
            Answers::Status(status) => with(&format!("HTTP/1.1 {status} as told"), "", ""),
            Answers::Failing(status) | Answers::FailingSlowly(status) => {
                with(&format!("HTTP/1.1 {status} as told"), &lengthy, CONTENT)
            }
            Answers::Elsewhere => with("HTTP/1.1 302 Found", "Location: /other\r\nContent-Length: 0\r\n", ""),
            Answers::Interim => {
                format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n{}", right())
            }
            Answers::Shorter if third => ok(&format!("Content-Length: {}\r\n", CONTENT.len() - 1), &CONTENT[1..]),
            Answers::Changed if third => ok(&lengthy, &CONTENT.replace('w', "W")),
            Answers::Nonsense => "SSH-2.0-OpenSSH_9.2\r\n".to_owned(),
            Answers::BareLf => right().replace("\r\n", "\n"),
            Answers::TwoLengths => ok(&format!("{lengthy}Content-Length: 5\r\n"), CONTENT),
            Answers::BadChunk => ok("Transfer-Encoding: chunked\r\n", "5\r\nwhat was\r\n0\r\n\r\n"),
            Answers::EndlessHead => format!("HTTP/1.1 200 OK\r\nA: {}", "a".repeat(20_000)),
            Answers::Switches => with("HTTP/1.1 101 Switching Protocols", "Upgrade: other\r\nConnection: upgrade\r\n", "other"),
            Answers::Cut | Answers::Reset => ok(&lengthy, &CONTENT[..9]),
            Answers::CutHead => right()[..20].to_owned(),
            Answers::Never => String::new(),
            Answers::Endless => ok("Transfer-Encoding: chunked\r\n", ""),
            Answers::Twice => right() + &right(),
            _ => right(),
        }
    }

    fn respond(&self, session: &mut Session, is_head: bool, output: &mut Output) -> Next {
        if matches!(self.answers, Answers::Reset | Answers::Endless) && session.answered > 0 {
            return Next::Continue;
        }
        let answer = self.answer(session.answered, is_head);
        session.answered += 1;
        count(&self.seen.answers, 1);
        if matches!(self.answers, Answers::Slowly | Answers::FailingSlowly(_)) {
            session.slow.extend(answer.into_bytes());
            return self.go_on(session, output);
        }
        output.write(answer.as_bytes()).expect("there is memory");
        match self.answers {
            Answers::Endless => self.go_on(session, output),
            Answers::Reset => {
                output.notify_drained();
                Next::Continue
            }
            Answers::UntilClose | Answers::ClosesEach | Answers::Cut | Answers::CutHead => Next::Close,
            Answers::ClosesAfter(each) if session.answered == each => Next::Close,
            Answers::Http10 => Next::Close,
            _ => Next::Continue,
        }
    }

    fn go_on(&self, session: &mut Session, output: &mut Output) -> Next {
        match self.answers {
            Answers::Endless => output.write(&[b"1000\r\n", &[b'x'; 0x1000][..], b"\r\n"].concat()).expect("there is memory"),
            _ if session.slow.is_empty() => return Next::Continue,
            _ => output.write(&[session.slow.remove(0)]).expect("there is memory"),
        }
        output.notify_drained();
        Next::Continue
    }

    /// Takes one request from the front; none if it is not whole.
    fn take(&self, session: &mut Session, input: &mut Input) -> Option<bool> {
        if session.body.is_none() {
            let bytes = input.contiguous(input.len())?;
            let mut scratch = Scratch::new();
            let step = session.requests.next(bytes, &mut scratch).expect("the generator speaks HTTP");
            let Step::Request { head, bytes } = step else { return None };
            let path = head.target.path.get(1).and_then(|digit| self.seen.paths.get(usize::from(digit.wrapping_sub(b'0'))));
            path.inspect(|cell| count(cell, 1));
            count(&self.seen.last, u64::from(!head.persists));
            session.body = Some((Body::new(head.framing, 1 << 30).unwrap(), head.method == Method::Head, 0));
            input.skip(bytes);
        }
        let (body, is_head, got) = session.body.as_mut().unwrap();
        while !body.is_ended() {
            match body.next(input.first()).expect("content as announced") {
                Part::Data(range) => {
                    *got += range.len() as u64;
                    input.skip(range.end);
                }
                Part::More(_) => return None,
                part => panic!("{part:?}"),
            }
        }
        let (is_head, got) = (*is_head, *got);
        session.body = None;
        count(&self.seen.requests, 1);
        count(&self.seen.content_bytes, got);
        Some(is_head)
    }
}

impl StreamService for Server {
    type Talk = Silent;
    type Session = Session;

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &Peer) -> Session {
        count(&self.seen.connections, 1);
        Session { requests: Requests::new(Limits::default()), body: None, slow: Vec::new(), answered: 0 }
    }

    fn receive(&mut self, _cx: &mut Cx<'_>, session: &mut Session, input: &mut Input, output: &mut Output) -> Next {
        while !input.is_empty() {
            let Some(is_head) = self.take(session, input) else { break };
            match self.respond(session, is_head, output) {
                Next::Continue => {}
                next => return next,
            }
        }
        Next::Continue
    }

    fn drained(&mut self, _cx: &mut Cx<'_>, session: &mut Session, output: &mut Output) -> Next {
        if self.answers == Answers::Reset { Next::Abort } else { self.go_on(session, output) }
    }
}
