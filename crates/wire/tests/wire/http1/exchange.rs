//! A server and a client that only listen: what they understand of a stream that comes in pieces.

use corelane_wire::http1::{
    Answer, Body, Fields, Framing, Limits, Method, Part, Refusal, Requests, Responses, Scratch, Status, Step, trailers,
};

/// Most bytes of content.
const CONTENT_BYTES_MAX: u64 = 1 << 40;

/// What was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A head: all that it says, and its field lines.
    Head(String, Lines),
    /// Trailers.
    Trailers(Lines),
    /// A message that is whole, with its content.
    Whole(Vec<u8>),
    /// A request that is not carried out, and its content that was passed over.
    Refused(Refusal, Vec<u8>),
    /// An end.
    Closed(Option<Refusal>),
}

/// Field lines.
pub type Lines = Vec<(String, Vec<u8>)>;

fn lines(fields: Fields<'_>) -> Lines {
    fields.iter().map(|(name, value)| (name.to_owned(), value.to_vec())).collect()
}

/// Whose messages are listened to.
enum Heads {
    Requests(Requests),
    Responses(Responses, Method<'static>),
}

/// One end of a connection.
pub struct Listener {
    heads: Heads,
    body: Option<Body>,
    persists: bool,
    refusal: Option<Refusal>,
    content: Vec<u8>,
    pending: Vec<u8>,
    events: Vec<Event>,
}

impl Listener {
    /// One that listens to requests.
    pub fn server() -> Self {
        Self::new(Heads::Requests(Requests::new(Limits::default())))
    }

    /// One that listens to answers to requests with `method`.
    pub fn client(method: Method<'static>) -> Self {
        Self::new(Heads::Responses(Responses::new(Limits::default()), method))
    }

    fn new(heads: Heads) -> Self {
        let (content, pending, events) = (Vec::new(), Vec::new(), Vec::new());
        Self { heads, body: None, persists: true, refusal: None, content, pending, events }
    }

    fn is_closed(&self) -> bool {
        matches!(self.events.last(), Some(Event::Closed(_)))
    }

    fn close(&mut self, refusal: Option<Refusal>) {
        self.events.push(Event::Closed(refusal));
        self.pending.clear();
        self.body = None;
    }

    /// More of the stream has come.
    pub fn feed(&mut self, piece: &[u8]) {
        self.pending.extend_from_slice(piece);
        while !self.is_closed() {
            let stepped = if self.body.is_some() { self.body() } else { self.head() };
            match stepped {
                Ok(true) => {}
                Ok(false) => return,
                Err(refusal) => {
                    assert!(refusal.closes(), "{refusal:?}: nobody knows where to go on");
                    self.close(Some(refusal));
                }
            }
        }
    }

    /// The stream has ended.
    pub fn finish(mut self) -> Vec<Event> {
        if let Some(mut body) = self.body.take() {
            let finished = body.finish();
            if finished.is_ok() {
                self.whole();
            }
            self.close(finished.err());
        }
        self.events
    }

    fn head(&mut self) -> Result<bool, Refusal> {
        let mut scratch = Scratch::new();
        let (bytes, framing, event) = match &mut self.heads {
            Heads::Requests(requests) => match requests.next(&self.pending, &mut scratch)? {
                Step::More(drop) => {
                    self.pending.drain(..drop);
                    return Ok(false);
                }
                Step::Request { head, bytes } => {
                    (self.refusal, self.persists) = (None, head.persists);
                    let text = format!(
                        "{:?}",
                        (head.method, head.target, head.version, head.authority, head.expects_continue, head.upgrades)
                    );
                    (bytes, head.framing, Event::Head(text, lines(head.fields)))
                }
                Step::Refused { head, bytes, refusal } => {
                    assert!(!refusal.closes(), "{refusal:?}: the end is known");
                    (self.refusal, self.persists) = (Some(refusal), head.persists);
                    (bytes, head.framing, Event::Head(String::new(), lines(head.fields)))
                }
            },
            Heads::Responses(responses, method) => match responses.next(&self.pending, &mut scratch)? {
                Answer::More => return Ok(false),
                Answer::Response { head, bytes } => {
                    self.persists =
                        (head.persists(*method) || head.status.is_interim()) && head.status != Status::SWITCHING_PROTOCOLS;
                    (bytes, head.framing(*method), Event::Head(format!("{:?}", (head.version, head.status)), lines(head.fields)))
                }
            },
        };
        assert!((1..=self.pending.len()).contains(&bytes));
        assert!(framing != Framing::UntilClose || !self.persists, "a content without end is the last");
        self.events.push(event);
        self.pending.drain(..bytes);
        self.body = Some(Body::new(framing, CONTENT_BYTES_MAX)?);
        Ok(true)
    }

    fn body(&mut self) -> Result<bool, Refusal> {
        let Some(body) = &mut self.body else { return Ok(true) };
        match body.next(&self.pending)? {
            Part::Data(range) => {
                assert!(!range.is_empty(), "content of nothing is none");
                self.content.extend_from_slice(&self.pending[range.clone()]);
                self.pending.drain(..range.end);
                Ok(true)
            }
            Part::Trailers(range) => {
                let mut scratch = Scratch::new();
                let event = Event::Trailers(lines(trailers(&self.pending[range.clone()], &mut scratch)?));
                self.events.push(event);
                self.pending.drain(..range.end);
                Ok(true)
            }
            Part::More(drop) => {
                self.pending.drain(..drop);
                Ok(false)
            }
            Part::End(drop) => {
                assert!(body.is_ended());
                self.pending.drain(..drop);
                self.body = None;
                self.whole();
                Ok(true)
            }
        }
    }

    fn whole(&mut self) {
        let content = std::mem::take(&mut self.content);
        self.events.push(match self.refusal {
            Some(refusal) => Event::Refused(refusal, content),
            None => Event::Whole(content),
        });
        if !self.persists {
            self.close(None);
        }
    }
}
