//! A service that does what its clients tell it, line by line, and a book of what became of its sessions.
//!
//! Lines: `say TEXT`, `hold NAME` and `any NAME` (take a ticket, ordered or not), `keep NAME BYTES` (with memory for the answer), `within NAME MILLISECONDS` (one that
//! expires; answered with `late` and the milliseconds then), `answer NAME TEXT` (through the lane), `reply NAME TEXT` (the same with a copy),
//! `here NAME TEXT` (in this call), `drop NAME`, `flood BYTES` (of lane memory), `lump BYTES` (in one piece), `weigh NAME BYTES` (as an answer), `static BYTES`, `need BYTES`, `fill BYTES`, `more` (of a message), `owes WHAT`, `wait` and `resume NAME` (the connection of that ticket),
//! `close`, `abort`, `panic`, `lane`, `peer`, `connect ADDRESS LINE`, `after MILLISECONDS LINE`, `tell LINE`, `drained LINE`,
//! `stop` (the timer started last), `closing` (panic when closed), `shut NAME` (close the connection of a ticket), `pair NAME` (with that connection), `hangup` (close what
//! was connected last), `half` (our side of that says no more), `produce PIECES` (one whenever the output has drained), `pass LANE LINE`.

use crate::rig::{Rig, RigPlan, burst, endings};
use corelane_seam::{Chain, Shared};
use corelane_sim::{Faults, World};
use corelane_svc::{
    ConnectionId, Ending, Hold, Input, Limits, Next, Order, Origin, Output, Owes, Peer, Side, StreamService, Ticket, Timer,
    Transform,
};
use corelane_watch::{ConnectionState, Reader, ServiceCounter};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// What became of the sessions of all lanes.
#[derive(Default)]
pub struct Book {
    pub opened: usize,
    /// The ending of each session, by its number.
    pub endings: Vec<(usize, Ending)>,
    /// What the service noted.
    pub notes: Vec<String>,
}

impl Book {
    /// How many sessions ended so.
    pub fn count(&self, ending: Ending) -> u64 {
        self.endings.iter().filter(|entry| entry.1 == ending).count() as u64
    }
}

/// What puppets say.
pub enum Talk {}

impl corelane_svc::Talk for Talk {
    type Message = String;
    type Question = Infallible;
    type Answer = Infallible;
    type Notice = String;
}

type Cx<'a> = corelane_svc::Cx<'a, Talk>;

/// Makes the transform of a connection.
pub type MakeTransform = fn(Side, &Peer) -> Option<Box<dyn Transform>>;

pub struct Puppet {
    book: Rc<RefCell<Book>>,
    tickets: BTreeMap<String, Ticket>,
    connected: Option<ConnectionId>,
    /// Lane memory that is sent again and again, by its length.
    values: BTreeMap<usize, Shared>,
}

#[derive(Default)]
pub struct Session {
    number: Option<usize>,
    on_connected: String,
    on_drained: String,
    /// Done when what was begun does not come; nothing: it is broken off.
    on_overdue: String,
    timers: Vec<String>,
    last_timer: Option<Timer>,
    /// Bytes of a flood that have been written: it goes on where the memory was used up.
    flooded: usize,
    panics_when_closed: bool,
}

/// The client number (`rig::client`) whose session panics when it opens.
pub const PANICS_IN_OPEN: usize = 100;
/// The client number for which the making of the transform panics.
pub const PANICS_IN_TRANSFORM: usize = 101;

fn is_client(peer: &Peer, number: usize) -> bool {
    peer.address.ip() == Some(crate::rig::client(number).ip())
}

fn chain_of(cx: &Cx<'_>, text: &str) -> Chain {
    let mut chain = Chain::new();
    chain.push(cx.arena().copy_of(format!("{text}\n").as_bytes()).unwrap().share());
    chain
}

fn split(line: &str) -> (&str, &str) {
    line.split_once(' ').unwrap_or((line, ""))
}

impl Puppet {
    pub fn new(book: &Rc<RefCell<Book>>) -> Self {
        Self { book: book.clone(), tickets: BTreeMap::new(), connected: None, values: BTreeMap::new() }
    }

    /// So many bytes of lane memory; the same for all who want so many.
    fn value(&mut self, cx: &Cx<'_>, bytes: usize) -> Shared {
        let make = || {
            let mut lease = cx.arena().lease(bytes).unwrap();
            lease.append(&vec![b'm'; bytes]);
            lease.share()
        };
        self.values.entry(bytes).or_insert_with(make).clone()
    }

    fn number(&self, session: &mut Session) -> usize {
        let mut book = self.book.borrow_mut();
        *session.number.get_or_insert_with(|| {
            book.opened += 1;
            book.opened - 1
        })
    }

    /// Does what a line says; none if it must wait.
    #[expect(clippy::too_many_lines, reason = "there is one arm a word")]
    fn obey(&mut self, cx: &mut Cx<'_>, session: &mut Session, output: &mut Output, line: &str) -> Option<Next> {
        let (word, rest) = split(line);
        match word {
            "say" => return writeln!(output, "{rest}").ok().map(|()| Next::Continue),
            "hold" => return self.hold(output, rest, Order::Kept),
            "any" => return self.hold(output, rest, Order::Any),
            "keep" => {
                let (name, bytes) = split(rest);
                return self.hold(output, name, Hold::new(Order::Kept).reserve(bytes.parse().unwrap()));
            }
            "within" => {
                let (name, milliseconds) = split(rest);
                let good = Duration::from_millis(milliseconds.parse().unwrap());
                return self.hold(output, name, Hold::new(Order::Kept).expires(good, milliseconds.parse().unwrap()));
            }
            "reply" => {
                let (name, text) = split(rest);
                if let Err((ticket, refused)) = cx.answer_bytes(self.tickets.remove(name).unwrap(), text.as_bytes()) {
                    self.book.borrow_mut().notes.push(format!("{refused:?}"));
                    self.tickets.insert(name.to_string(), ticket);
                }
            }
            "here" => {
                let (name, text) = split(rest);
                let answer = chain_of(cx, text);
                output.answer(self.tickets.remove(name).unwrap(), answer).map_err(drop).unwrap();
            }
            "flood" => return flood(session, output, rest.parse().unwrap()),
            "lump" => output.push(self.value(cx, rest.parse().unwrap())),
            "static" => output.push(&[b's'; 1 << 20][..rest.parse().unwrap()]),
            "need" => return Some(Next::Need(rest.parse().unwrap())),
            "fill" => {
                let until = rest.parse().unwrap();
                return Some(Next::Fill { lease: cx.lease(until).ok()?, until });
            }
            "more" => return Some(Next::More),
            "owes" => output.peer_owes(match rest {
                "request" => Owes::Request,
                "rest" => Owes::Rest,
                _ => Owes::Nothing,
            }),
            "wait" => return Some(Next::Wait),
            "close" => return Some(Next::Close),
            "abort" => return Some(Next::Abort),
            "panic" => burst("told to"),
            "drained" => {
                session.on_drained = rest.to_string();
                output.notify_drained();
            }
            "after" => {
                let (milliseconds, line) = split(rest);
                session.timers.push(line.to_string());
                let after = Duration::from_millis(milliseconds.parse().unwrap());
                if let Ok(timer) = cx.start_timer(after, session.timers.len() as u64 - 1) {
                    session.last_timer = Some(timer);
                }
            }
            "stop" => cx.stop_timer(session.last_timer.unwrap()),
            "overdue" => session.on_overdue = rest.to_string(),
            "produce" => produce(session, output, rest.parse().unwrap()),
            "pair" => cx.pair(cx.id(), self.tickets[rest].connection()),
            "closing" => session.panics_when_closed = true,
            "tell" => cx.notify(cx.id(), rest.to_string()),
            "lane" => return writeln!(output, "{}", cx.lane()).ok().map(|()| Next::Continue),
            "peer" => {
                let peer = cx.peer(cx.id()).unwrap().address;
                return writeln!(output, "{peer}").ok().map(|()| Next::Continue);
            }
            _ => self.act(cx, line),
        }
        Some(Next::Continue)
    }

    /// What needs no connection of its own.
    fn act(&mut self, cx: &mut Cx<'_>, line: &str) {
        let (word, rest) = split(line);
        let (name, text) = split(rest);
        match word {
            "answer" => {
                let answer = chain_of(cx, text);
                cx.answer_chain(self.tickets.remove(name).unwrap(), answer);
            }
            "drop" => drop(self.tickets.remove(name).unwrap()),
            "write" => {
                let to = self.tickets[name].connection();
                writeln!(cx.connection(to).unwrap(), "{text}").unwrap();
            }
            "weigh" => {
                let answer = self.value(cx, text.parse().unwrap());
                cx.answer(self.tickets.remove(name).unwrap(), answer);
            }
            "resume" => cx.resume(self.tickets[name].connection()),
            "shut" => cx.close(self.tickets[name].connection()),
            "pass" => cx.send(name.parse().unwrap(), text.to_string()).unwrap(),
            "connect" => {
                let session = Session { on_connected: text.to_string(), ..Session::default() };
                self.connected = Some(cx.connect(name.parse::<SocketAddr>().unwrap(), session).unwrap());
            }
            "hangup" => cx.close(self.connected.unwrap()),
            "half" => cx.finish(self.connected.unwrap()),
            "burst" => burst("told to, in a call for the service"),
            _ => panic!("a line that says nothing: {line:?}"),
        }
    }

    fn hold(&mut self, output: &mut Output, name: &str, hold: impl Into<Hold>) -> Option<Next> {
        let ticket = output.hold(hold).ok()?;
        self.tickets.insert(name.to_string(), ticket);
        Some(Next::Continue)
    }

    fn lines(&mut self, cx: &mut Cx<'_>, session: &mut Session, input: &mut Input, output: &mut Output) -> Next {
        while let Some(end) = input.position(b'\n') {
            if !output.ask_room() {
                break;
            }
            let Some(line) = input.contiguous(end + 1) else { break };
            let line = String::from_utf8_lossy(line).trim_end().to_string();
            cx.count_requests(1);
            match self.obey(cx, session, output, &line) {
                None => break,
                Some(Next::Continue) => input.skip(end + 1),
                Some(next) => {
                    input.skip(end + 1);
                    return next;
                }
            }
        }
        Next::Continue
    }
}

/// Writes so many bytes of lane memory; none if there is not enough now.
fn flood(session: &mut Session, output: &mut Output, bytes: usize) -> Option<Next> {
    while session.flooded < bytes {
        let piece = (bytes - session.flooded).min(16 << 10);
        if output.write(&[b'f'; 16 << 10][..piece]).is_err() {
            return None;
        }
        session.flooded += piece;
    }
    session.flooded = 0;
    Some(Next::Continue)
}

/// Writes a piece, and asks to be called for the others.
fn produce(session: &mut Session, output: &mut Output, pieces: usize) {
    if pieces > 0 {
        output.write(&[b'p'; 1_000]).unwrap();
        session.on_drained = format!("produce {}", pieces - 1);
        output.notify_drained();
    }
}

impl StreamService for Puppet {
    type Talk = Talk;
    type Session = Session;

    fn open(&mut self, _cx: &mut Cx<'_>, peer: &Peer) -> Session {
        assert!(!is_client(peer, PANICS_IN_OPEN), "told to, in open");
        let mut session = Session::default();
        self.number(&mut session);
        session
    }

    fn receive(&mut self, cx: &mut Cx<'_>, session: &mut Session, input: &mut Input, output: &mut Output) -> Next {
        if let Some(lease) = input.filled() {
            let sum: usize = lease.iter().map(|&byte| usize::from(byte)).sum();
            writeln!(output, "filled {} {sum}", lease.len()).unwrap();
        }
        self.lines(cx, session, input, output)
    }

    fn connected(&mut self, cx: &mut Cx<'_>, session: &mut Session, output: &mut Output) -> Next {
        self.number(session);
        let line = std::mem::take(&mut session.on_connected);
        self.obey(cx, session, output, &line).unwrap()
    }

    fn drained(&mut self, cx: &mut Cx<'_>, session: &mut Session, output: &mut Output) -> Next {
        let line = std::mem::take(&mut session.on_drained);
        self.obey(cx, session, output, &line).unwrap()
    }

    fn timer(&mut self, cx: &mut Cx<'_>, session: &mut Session, output: &mut Output, token: u64) -> Next {
        let line = std::mem::take(&mut session.timers[token as usize]);
        self.obey(cx, session, output, &line).unwrap()
    }

    fn message(&mut self, cx: &mut Cx<'_>, session: &mut Session, output: &mut Output, line: String) -> Next {
        self.obey(cx, session, output, &line).unwrap()
    }

    fn expired(&mut self, cx: &mut Cx<'_>, _: &mut Session, _: &mut Output, ticket: Ticket, token: u64) -> Next {
        cx.answer_bytes(ticket, format!("late {token}\n").as_bytes()).unwrap();
        Next::Continue
    }

    fn overdue(&mut self, cx: &mut Cx<'_>, session: &mut Session, _: &mut Input, output: &mut Output) -> Next {
        let line = std::mem::take(&mut session.on_overdue);
        match line.is_empty() {
            true => Next::Abort,
            false => match self.obey(cx, session, output, &line).unwrap() {
                Next::Continue => Next::Close,
                next => next,
            },
        }
    }

    fn draining(&mut self, _cx: &mut Cx<'_>, session: &mut Session, _output: &mut Output) {
        let number = self.number(session);
        self.book.borrow_mut().notes.push(format!("{number} drains"));
    }

    fn closed(&mut self, _cx: &mut Cx<'_>, mut session: Session, ending: Ending) {
        let number = self.number(&mut session);
        self.book.borrow_mut().endings.push((number, ending));
        assert!(!session.panics_when_closed, "told to, in closed");
    }

    fn lane_message(&mut self, cx: &mut Cx<'_>, _from: Origin, line: String) {
        self.act(cx, &line);
    }
}

/// A puppet's rig and its book.
pub struct Stage {
    pub rig: Rig,
    pub book: Rc<RefCell<Book>>,
}

impl Stage {
    /// One lane, no faults.
    pub fn new(limits: Limits) -> Self {
        Self::with(&World::new(1, Faults::none()), &RigPlan::lanes(1), limits, |_, _| None)
    }

    pub fn with(
        world: &World,
        plan: &RigPlan,
        limits: Limits,
        mut transform: impl FnMut(Side, &Peer) -> Option<Box<dyn Transform>> + Clone + 'static,
    ) -> Self {
        let book: Rc<RefCell<Book>> = Rc::default();
        let make = move |side, peer: &Peer| {
            assert!(!is_client(peer, PANICS_IN_TRANSFORM), "told to, in transform");
            transform(side, peer)
        };
        Self { rig: Rig::behind(world, plan, limits, |_| Puppet::new(&book), make), book: book.clone() }
    }

    /// Drains, has the world judge, and compares the page with the book: each session closed once, each ending counted.
    /// `unborn` are the endings of connections that had no session yet.
    pub fn close_with(mut self, unborn: &[Ending]) {
        self.rig.close(&mut crate::rig::Nobody);
        let book = self.book.borrow();
        let mut numbers: Vec<usize> = book.endings.iter().map(|entry| entry.0).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..book.opened).collect::<Vec<_>>(), "each session is closed exactly once");
        use ServiceCounter as C;
        for (ending, counter) in [
            (Ending::Completed, C::EndingsCompleted),
            (Ending::EndOfStream, C::EndingsEndOfStream),
            (Ending::Closing, C::EndingsClosing),
            (Ending::Error, C::EndingsError),
            (Ending::Aborted, C::EndingsAborted),
        ] {
            let others = unborn.iter().filter(|&&other| other == ending).count() as u64;
            assert_eq!(self.rig.count(counter), book.count(ending) + others, "the count of {ending}");
        }
        assert_eq!(endings(&self.rig, 0), (book.opened + unborn.len()) as u64);
        let reader = Reader::of(&self.rig.page).unwrap();
        let rows = (0..reader.description().lanes.len()).flat_map(|lane| reader.connections(lane));
        rows.for_each(|row| assert!(row.state != ConnectionState::Open, "the page has each ending: {row:?}"));
    }

    pub fn close(self) {
        self.close_with(&[]);
    }

    /// The ending of the session that ended last.
    pub fn last_ending(&self) -> Option<Ending> {
        self.book.borrow().endings.last().map(|entry| entry.1)
    }

    pub fn is_open(&self) -> bool {
        self.rig.connections() > 0
    }
}
