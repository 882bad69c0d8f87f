//! What is kept of a connection: nothing between its requests.

use crate::application::{Application, Exchange, Minds};
use crate::backlog::Unsent;
use crate::desk::Desk;
use crate::facts::{Facts, Framing};
use crate::log::{Note, Sent};
use crate::outcome::Begun;
use crate::outgoing::Outgoing;
use crate::within::Within;
use corelane::Next;
use corelane::service::{ConnectionId, Lease, Shared, Ticket};
use corelane_wire::http1::{Body, Requests};

/// What is kept of a connection.
pub struct Session<A: Application> {
    /// What is under way; none between requests.
    pub(crate) active: Option<Box<Active<A>>>,
    /// The lane drains, or another process serves in its place: the answer to the last request that has come is the last one, and says so.
    pub(crate) is_last: bool,
}

/// What a connection has under way.
pub(crate) enum Active<A: Application> {
    /// A head has begun.
    Head(Requests),
    /// A request that was answered, before there was memory for the answer.
    Kept(Box<Kept<A>>),
    /// A request whose content is to be collected, of so many bytes at the most, once there is memory for its head.
    Wanted(u64),
    /// Content that nobody wants, of so many bytes at the most.
    Unwanted { body: Body, left: u64 },
    /// Content that its request is to be served with.
    Collected(Collected),
    /// An exchange.
    Running(Running<A>),
    /// Another protocol than HTTP, with who speaks it on the other connection: bytes pass as they come.
    Tunnel(ConnectionId),
    /// It is no client's, but one that the application has opened.
    Outgoing(Box<dyn Outgoing<A::Talk>>),
}

/// Boxes kept for what connections have under way next.
const SPARE_MAX: usize = 64;

/// Boxes in which nothing is under way.
// Boxed: what is under way moves between sessions and this list as it is.
#[allow(clippy::vec_box)]
pub(crate) struct Spare<A: Application>(Vec<Box<Active<A>>>);

impl<A: Application> Spare<A> {
    pub fn new() -> Self {
        Self(Vec::new())
    }

    /// A box for what is under way.
    pub fn boxed(&mut self, active: Active<A>) -> Box<Active<A>> {
        match self.0.pop() {
            Some(mut spare) => {
                *spare = active;
                spare
            }
            None => Box::new(active),
        }
    }

    /// Takes out what is under way, and keeps its box.
    pub fn unboxed(&mut self, mut active: Box<Active<A>>) -> Active<A> {
        let inside = std::mem::replace(&mut *active, Active::Wanted(0));
        if self.0.len() < SPARE_MAX {
            self.0.push(active);
        }
        inside
    }
}

/// What serving one request comes to.
pub(crate) enum Served<A: Application> {
    /// The next one behind it.
    Next,
    /// There is no room, and nobody was asked: it is offered again.
    Refused,
    /// It is answered, and there was no memory for the answer.
    Kept(Box<Kept<A>>),
    /// Its content is to be collected, of so many bytes at the most, and there was no memory for its head.
    Wanted(u64),
    /// Its content must be dealt with first, or the exchange that it has begun.
    Active(Active<A>),
    /// The connection closes once all has left.
    Close,
    /// An answer was begun that has no end: the connection is broken off.
    Broken,
}

/// A request that was answered with what is kept.
pub(crate) struct Kept<A: Application> {
    pub unsent: Unsent,
    /// Bytes at the front of the input that it came in: they stay there, so that the lane knows of it.
    pub taken: usize,
    /// What comes behind the answer.
    pub then: Served<A>,
}

impl<A: Application> Kept<A> {
    /// The request lies in the first bytes of the input.
    pub fn lies_in(&mut self, bytes: usize) {
        self.taken = bytes;
    }
}

/// A request whose content is collected.
pub(crate) struct Collected {
    /// Its head, which is parsed again when all is there.
    pub head: Shared,
    pub body: Body,
    /// What has come; none as long as nothing has.
    pub content: Option<Lease>,
    /// Bytes at the front of the input for which there was no memory.
    pub untaken: usize,
    /// All of it.
    pub whole: Option<Shared>,
    /// None where nothing is logged.
    pub note: Option<Note>,
}

/// An exchange that goes on.
pub(crate) struct Running<A: Application> {
    pub exchange: Box<dyn Exchange<A>>,
    pub facts: Facts,
    /// The rest of the request's content.
    pub body: Body,
    /// Whether the client sends that without waiting to be told.
    pub is_invited: bool,
    pub stage: Stage,
    pub relaying: Relaying,
    /// The head of its answer, until there is memory for it.
    pub unsent: Option<Unsent>,
    /// Held while the application owes something: a drain waits for it, for as long as `answer_limit` says.
    pub owed: Option<Ticket>,
    /// What was answered so far; the status is none yet before it has begun.
    pub sent: Sent,
    /// None where nothing is logged, and once somebody else has it.
    pub note: Option<Note>,
}

impl<A: Application> Running<A> {
    /// Whether no answer has begun.
    pub fn has_not_answered(&self) -> bool {
        matches!(self.stage, Stage::Content | Stage::Pause | Stage::Application) && self.unsent.is_none()
    }

    /// Whether it waits for its application, with nothing to come from its client, and is to hear whether that leaves.
    pub fn listens(&self) -> bool {
        let waits = self.owed.is_some() && self.unsent.is_none() && self.relaying == Relaying::No;
        waits && matches!(self.stage, Stage::Application | Stage::Room(_)) && self.exchange.minds() != Minds::Nothing
    }

    /// So much was answered.
    pub fn note_sent(&mut self, sent: Sent) {
        self.sent = sent;
        if let Some(note) = &mut self.note {
            note.note_sent(sent);
        }
    }

    /// Why this server has answered, or breaks off, for the log.
    pub fn because(&mut self, why: Option<&'static str>) {
        if let (Some(note), Some(why)) = (&mut self.note, why) {
            note.because(why);
        }
    }

    /// The same, where nothing was known before.
    pub fn because_unless_known(&mut self, why: &'static str) {
        self.note.iter_mut().for_each(|note| note.because_unless_known(why));
    }

    /// Its answer has begun.
    pub fn begin_answer(&mut self, begun: Begun, desk: &Desk) {
        let Begun { framing, status, is_kept } = begun;
        self.note_sent(Sent { status, bytes: 0 });
        self.unsent = is_kept.then(|| desk.take_unsent());
        self.stage = Stage::Room(framing);
    }
}

/// Whether an exchange has its content handed over as it comes, before its answer and beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relaying {
    /// It has not asked for that, or all has come.
    No,
    /// The client owes the rest.
    Reads,
    /// It takes nothing now.
    Waits,
}

/// What an exchange waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// More content.
    Content,
    /// Its application, before it takes more content.
    Pause,
    /// Its application, before the answer.
    Application,
    /// Room for more of the answer, or its application.
    Room(Framing),
    /// More content, with which the answer goes on.
    Converse(Framing),
    /// All that was written to leave.
    Drained(Framing),
    /// The same, behind the whole answer: what is sent in parts may hold files open, so the next request waits for its end.
    Leaving,
}

impl<A: Application> Session<A> {
    pub(crate) fn new() -> Self {
        Self { active: None, is_last: false }
    }

    /// One that the application opens.
    pub(crate) fn opened(outgoing: Box<dyn Outgoing<A::Talk>>) -> Self {
        Self { active: Some(Box::new(Active::Outgoing(outgoing))), is_last: false }
    }

    /// How an application opens connections of the service whose sessions these are.
    pub(crate) fn within() -> Within<A::Talk> {
        Within {
            dial: |cx, to, outgoing| to.dial(cx, Self::opened(outgoing)),
            tend: |cx, tended, make| tended.tend(cx, |probe| Self::opened(make(probe))),
        }
    }

    /// The exchange that goes on, if one does.
    #[inline]
    pub(crate) fn running(&mut self) -> Option<&mut Running<A>> {
        match self.active.as_deref_mut()? {
            Active::Running(running) => Some(running),
            _ => None,
        }
    }

    /// The connection as one that the application has opened, if it is.
    #[inline]
    pub(crate) fn outgoing(&mut self) -> Option<&mut dyn Outgoing<A::Talk>> {
        match self.active.as_deref_mut()? {
            Active::Outgoing(outgoing) => Some(&mut **outgoing),
            _ => None,
        }
    }

    /// Goes on with what the serving of a request has come to.
    pub(crate) fn follow(&mut self, served: Served<A>, spare: &mut Spare<A>) -> Look {
        let (active, look) = match served {
            Served::Next => return Look::Again,
            Served::Refused => return Look::Over(Next::Continue),
            Served::Close => return Look::Over(Next::Close),
            Served::Broken => return Look::Over(Next::Abort),
            Served::Kept(kept) => (Active::Kept(kept), Look::Over(Next::Continue)),
            Served::Wanted(most) => (Active::Wanted(most), Look::Over(Next::Continue)),
            Served::Active(active) => (active, Look::Again),
        };
        self.active = Some(spare.boxed(active));
        look
    }
}

/// What is to be done after a look at what has come.
pub(crate) enum Look {
    /// Look again.
    Again,
    /// Nothing more, for now.
    Over(Next),
}
