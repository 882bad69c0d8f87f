//! A key-value store of which each lane keeps a share. Whichever lane a client comes to asks the key's home, so no lane waits for a lock, and answers
//! keep the order of their requests. A value is lent to the lane that asks: it is sent from where it lies, and its memory goes home when it has left. A line is `set KEY VALUE`, answered with `ok` or `full`, or `get KEY`, answered with `= VALUE` or `none`; any other
//! is answered with `error`, and a request whose home has ended with `gone`.
use corelane::service::{
    self, Asking, Asks, Call, Chain, Hold, Lends, Lost, Order, Origin, Parcel, Shared, Silence, Ticket, Unheard,
};
use corelane::{Cx, Input, Lanes, Next, Output, Peer, StreamService};
use std::collections::BTreeMap;

/// Keys that a lane keeps at most.
const KEYS_MAX: usize = 100_000;

/// The longest line, in bytes, with its line feed; so the longest answer as well.
const LINE_BYTES: usize = 1024;

/// What a key's home is asked.
pub enum Request {
    /// Its value.
    Get(Vec<u8>),
    /// To keep this value.
    Set(Vec<u8>, Vec<u8>),
}

/// What it answers.
pub enum Response {
    /// The value was taken.
    Kept,
    /// There is no room for another key.
    Full,
    /// The value, in the memory of its home.
    Lent(Parcel),
    /// A copy of the value, where its home lends no more.
    Copied(Vec<u8>),
    /// There is none.
    None,
}

/// What the lanes say to each other.
pub type Talk = Lends<Asks<Request, Response>>;

/// One lane's share, and the requests of its clients.
#[derive(Default)]
pub struct Store {
    values: BTreeMap<Vec<u8>, Shared>,
    waiting: BTreeMap<Asking, Ticket>,
}

impl Request {
    fn parse(line: &[u8]) -> Option<Self> {
        let mut words = line.trim_ascii_end().splitn(3, |&byte| byte == b' ');
        let (verb, key, value) = (words.next()?, words.next()?, words.next());
        match (verb, value) {
            _ if key.is_empty() => None,
            (b"get", None) => Some(Self::Get(key.to_vec())),
            (b"set", Some(value)) => Some(Self::Set(key.to_vec(), value.to_vec())),
            _ => None,
        }
    }

    /// The lane that keeps the key.
    fn home(&self, lanes: usize) -> usize {
        let (Self::Get(key) | Self::Set(key, _)) = self;
        service::home(key, lanes)
    }
}

impl Store {
    fn serve(&mut self, cx: &mut Cx<'_, Talk>, from: Origin, request: Request) -> Response {
        match request {
            Request::Get(key) => match self.values.get(&key) {
                Some(value) => Self::lend(cx, value, from),
                None => Response::None,
            },
            Request::Set(key, _) if self.values.len() >= KEYS_MAX && !self.values.contains_key(&key) => Response::Full,
            Request::Set(key, value) => self.keep(cx, key, &value),
        }
    }

    fn lend(cx: &mut Cx<'_, Talk>, value: &Shared, to: Origin) -> Response {
        match to {
            Origin::Lane(lane) => cx.lend(value, lane).map_or_else(|_| Response::Copied(value.to_vec()), Response::Lent),
            Origin::Outside => Response::Copied(value.to_vec()),
        }
    }

    fn keep(&mut self, cx: &mut Cx<'_, Talk>, key: Vec<u8>, value: &[u8]) -> Response {
        let Ok(mut lease) = cx.lease(value.len()) else { return Response::Full };
        lease.append(value);
        // The one before may be with another lane, where it stays as it is until that has sent it.
        self.values.insert(key, lease.share());
        Response::Kept
    }

    /// Takes a request; the ticket comes back if it is to be offered again.
    fn take(&mut self, cx: &mut Cx<'_, Talk>, line: &[u8], ticket: Ticket) -> Option<Ticket> {
        let Some(request) = Request::parse(line) else {
            Self::answer(cx, ticket, b"error\n");
            return None;
        };
        match cx.ask(request.home(cx.lanes()), request) {
            Ok(asking) => drop(self.waiting.insert(asking, ticket)),
            Err(Unheard { why: Silence::Full, .. }) => return Some(ticket),
            Err(_) => Self::answer(cx, ticket, b"gone\n"),
        }
        None
    }

    fn answer(cx: &mut Cx<'_, Talk>, ticket: Ticket, answer: &[u8]) {
        // Its memory was kept, so there is always an answer.
        let _ = cx.answer_bytes(ticket, answer);
    }
}

impl StreamService for Store {
    type Talk = Talk;
    /// The ticket of the first request in the input, where the request was refused to its home.
    type Session = Option<Ticket>;

    fn open(&mut self, _cx: &mut Cx<'_, Talk>, _peer: &Peer) -> Option<Ticket> {
        None
    }

    fn receive(&mut self, cx: &mut Cx<'_, Talk>, session: &mut Option<Ticket>, input: &mut Input, output: &mut Output) -> Next {
        while let Some(end) = input.position(b'\n') {
            if end >= LINE_BYTES {
                return Next::Abort;
            }
            // What finds no room stays in the input, and is offered again.
            let Some(line) = input.contiguous(end + 1) else { break };
            let hold = || output.hold(Hold::new(Order::Kept).reserve(LINE_BYTES)).ok();
            let Some(ticket) = session.take().or_else(hold) else { break };
            *session = self.take(cx, line, ticket);
            if session.is_some() {
                break;
            }
            input.skip(end + 1);
            cx.count_requests(1);
        }
        Next::Continue
    }

    fn asked(&mut self, cx: &mut Cx<'_, Talk>, from: Origin, request: Request, call: Call<Talk>) {
        let response = self.serve(cx, from, request);
        cx.reply(call, response);
    }

    fn replied(&mut self, cx: &mut Cx<'_, Talk>, asking: Asking, outcome: Result<Response, Lost>) {
        let Some(ticket) = self.waiting.remove(&asking) else { return };
        match outcome {
            Ok(Response::Kept) => Self::answer(cx, ticket, b"ok\n"),
            Ok(Response::Full) => Self::answer(cx, ticket, b"full\n"),
            Ok(Response::None) => Self::answer(cx, ticket, b"none\n"),
            Ok(Response::Copied(value)) => Self::answer(cx, ticket, &[b"= ", &value[..], b"\n"].concat()),
            Ok(Response::Lent(parcel)) => {
                let mut answer = Chain::new();
                answer.push(&b"= "[..]);
                answer.push(cx.guests().admit(parcel));
                answer.push(&b"\n"[..]);
                cx.answer_chain(ticket, answer);
            }
            Err(_) => Self::answer(cx, ticket, b"gone\n"),
        }
    }
}

fn main() -> corelane::Result<()> {
    Lanes::per_core().serve("tcp://127.0.0.1:7007", |_lane| Store::default())?.run()
}
