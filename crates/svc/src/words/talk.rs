//! The talk of a service with itself on other lanes, and with the world outside. The service chooses the types.
//!
//! ```text
//! send     -> lane_message                     nobody is answered
//! ask      -> asked + Call -> reply -> replied  each question has one outcome: an answer, or why there is none
//! notify   -> message                          on one lane, to a connection
//! ```
//!
//! A service names one type, [`StreamService::Talk`](crate::StreamService::Talk), which names the four types it says. A service that says
//! nothing names [`Silent`]: it has no channels and sees a plain [`Cx`](crate::Cx). Other services see `Cx<'_, TheirTalk>`, so a value of the
//! wrong type does not compile.
//!
//! How what comes later uses it:
//!
//! ```text
//! // A cache: every key has a home lane. Requests on another lane go there in the turn's batch, values come back as parcels, answers keep
//! // their order because each has taken its ticket before.
//! impl StreamService for Cache {
//!     type Talk = Lends<Asks<Request, Response>>;                   // Request::Get(Key), Response::Value(Parcel)
//!     fn receive(&mut self, cx: &mut Cx<'_, Self::Talk>, ..) -> Next;
//!         // let Some(ticket) = session.ticket.take().or_else(|| output.hold(Order::Kept).ok()) else { leave it in the input };
//!         // match cx.ask(home(key), Request::Get(key)) { Ok(asking) => self.waiting.insert(asking, ticket), Err(_) => session.ticket = Some(ticket) }
//!     fn asked(&mut self, cx, Origin::Lane(from), Request::Get(key), call);   // cx.reply(call, Response::Value(cx.lend(self.values.get(key), from)?))
//!     fn replied(&mut self, cx, asking, outcome);                   // cx.answer(self.waiting.remove(asking), cx.guests().admit(parcel))
//! }
//! // An asynchronous connection: its service keeps the futures that wait, by `Asking::index`, and `replied` wakes them.
//! impl AsyncConnection { async fn ask(&self, lane: usize, question: Q) -> Result<A, Lost> }
//! // A file service with a table a lane: who is asked and has to ask elsewhere first keeps the `Call` until `replied`.
//! ```

use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;

/// The types of what a service says. Implement it for a type of no other use, or take [`Silent`], [`Says`], [`Asks`], [`Notes`] or [`Lends`].
///
/// ```
/// # mod corelane { pub use corelane_svc::Talk; }
/// use corelane::Talk;
///
/// /// A chat service: each of its rooms has its home on one lane.
/// enum Words {}
///
/// impl Talk for Words {
///     type Message = (String, usize);  // a room has so many members here
///     type Question = (String, String);  // a line for a room
///     type Answer = usize;  // so many heard it
///     type Notice = std::rc::Rc<str>;  // a line to one connection, which need not be `Send`
/// }
/// ```
pub trait Talk: 'static {
    /// The message that it sends to itself on a lane ([`Cx::send`](crate::Cx::send)), or is sent from outside of the lanes.
    type Message: Send + 'static;
    /// The question that it asks itself on a lane ([`Cx::ask`](crate::Cx::ask)), or is asked from outside of the lanes.
    type Question: Send + 'static;
    /// Its reply ([`Cx::reply`](crate::Cx::reply)).
    type Answer: Send + 'static;
    /// The notice for its connections on the same lane ([`Cx::notify`](crate::Cx::notify)).
    type Notice: 'static;
    /// Whether the lanes have channels for it.
    const HAS_CHANNELS: bool = true;
    /// Whether what it says carries memory of its lane ([`Cx::lend`](crate::Cx::lend)): then the lanes have channels by which that goes home, and look
    /// once a turn for what was lost. [`Lends`] says so of another talk.
    const HAS_PARCELS: bool = false;
}

/// The talk of a service that says nothing.
#[derive(Debug)]
pub enum Silent {}

impl Talk for Silent {
    type Message = Infallible;
    type Question = Infallible;
    type Answer = Infallible;
    type Notice = Infallible;
    const HAS_CHANNELS: bool = false;
}

/// The talk of a service that sends messages and asks nothing.
#[derive(Debug)]
pub struct Says<M>(PhantomData<M>);

impl<M: Send + 'static> Talk for Says<M> {
    type Message = M;
    type Question = Infallible;
    type Answer = Infallible;
    type Notice = Infallible;
}

/// The talk of a service that asks questions, and sends no other messages.
#[derive(Debug)]
pub struct Asks<Q, A>(PhantomData<(Q, A)>);

impl<Q: Send + 'static, A: Send + 'static> Talk for Asks<Q, A> {
    type Message = Infallible;
    type Question = Q;
    type Answer = A;
    type Notice = Infallible;
}

/// The talk of a service that tells its connections something, and says nothing to other lanes.
#[derive(Debug)]
pub struct Notes<N>(PhantomData<N>);

impl<N: 'static> Talk for Notes<N> {
    type Message = Infallible;
    type Question = Infallible;
    type Answer = Infallible;
    type Notice = N;
    const HAS_CHANNELS: bool = false;
}

/// Another talk, of a service whose messages, questions or answers carry memory of its lane ([`Cx::lend`](crate::Cx::lend)):
/// `Lends<Asks<Key, Option<Parcel>>>`.
#[derive(Debug)]
pub struct Lends<T>(PhantomData<T>);

impl<T: Talk> Talk for Lends<T> {
    type Message = T::Message;
    type Question = T::Question;
    type Answer = T::Answer;
    type Notice = T::Notice;
    const HAS_CHANNELS: bool = T::HAS_CHANNELS;
    const HAS_PARCELS: bool = T::HAS_CHANNELS;
}

/// Where something was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// On this lane, which may be the one that hears it.
    Lane(usize),
    /// Outside of the lanes ([`Remote`](crate::Remote)).
    Outside,
}

/// Names a question that waits for its outcome on the lane that asked it; void afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Asking {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl Asking {
    /// A small number, below [`Limits::asks_max`](crate::Limits::asks_max), that no other waiting question of this service on this lane
    /// has: use it as an index into a table of what waits for the outcome.
    pub fn index(self) -> usize {
        self.index as usize
    }
}

/// Why a question has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Lost {
    /// The service that was asked dropped the [`Call`](crate::Call) without a reply, which is its error, or panicked.
    Dropped,
    /// The lane that was asked, or the services there, ended before there was a reply.
    Gone,
    /// The lane that asked ends.
    Ending,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dropped => "the service that was asked dropped the call without a reply",
            Self::Gone => "the lane that was asked has ended",
            Self::Ending => "the lane that asked is ending",
        })
    }
}

impl std::error::Error for Lost {}
