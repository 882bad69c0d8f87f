//! What an author writes: applications, and exchanges that go on after the first call.

use crate::outcome::{Answered, Begun, Switched};
use crate::request::Whose;
use crate::within::Within;
use crate::{Parts, Reply, Request};
use corelane::service::{Asking, Call, Declaration, Lost, Origin, Outcome, Refused, Shared};
use corelane::{Cx, Talk};
use corelane_upstreams::{Targets, Upstreams};

/// What answers requests. One is built for each lane: its state is the lane's own, needs no `Send` and no lock.
///
/// A panic in any of these calls ends the connection that it was for; the lane lives on.
pub trait Application: Sized + 'static {
    /// As [`StreamService::Talk`](corelane::StreamService::Talk).
    type Talk: Talk;

    /// What the application counts beside what HTTP does: `DECLARED` of an enum that [`counters!`](corelane::counters) makes, and that stands `behind HttpCounter`.
    /// [`Cx::count`] counts in it, and `corelane stat` shows it.
    ///
    /// ```
    /// use corelane_http::HttpCounter;
    ///
    /// corelane::counters! {
    ///     /// What the shop counts.
    ///     pub enum Sold behind HttpCounter {
    ///         Apples "apples_sold" Counter "apples" "Apples that were paid for.";
    ///     }
    /// }
    /// ```
    const COUNTERS: &'static [Declaration] = &[];

    /// A request has come. Answer it with `reply`, take the right to answer it later ([`Reply::hold`]), or say how it goes on ([`Handled`]).
    ///
    /// `cx.peer(cx.id())` says who asks: both addresses, and behind TLS the name that was asked for, the protocol and the client's certificates
    /// ([`Learned`](corelane::service::Learned)).
    ///
    /// It is called once for each request, and once more with the content where it asks for that ([`Handled::Collect`]): so it may change whatever it likes, and then answer. Where the lane has no memory
    /// for an answer, the answer is kept until it has. It is called only while the connection's output has room (`output_high`) and a request may be held (`requests_in_flight_max`).
    ///
    /// # Errors
    /// What the application was refused, by [`Cx::lease`] or [`Reply::hold`]: the request is answered with 503 (Service Unavailable), or, if it can never be had
    /// ([`Refused::TooLarge`]), with 500 (Internal Server Error). To wait for it instead, begin an exchange ([`First::Wait`]).
    fn request(&mut self, cx: &mut Cx<'_, Self::Talk>, request: &Request<'_>, reply: Reply<'_>)
    -> Result<Handled<Self>, Refused>;

    /// As [`StreamService::started`](corelane::StreamService::started).
    fn started(&mut self, _cx: &mut Cx<'_, Self::Talk>) {}

    /// As [`StreamService::completed`](corelane::StreamService::completed).
    fn completed(&mut self, _cx: &mut Cx<'_, Self::Talk>, _token: u64, _outcome: Outcome) {}

    /// As [`StreamService::lane_message`](corelane::StreamService::lane_message).
    fn lane_message(&mut self, cx: &mut Cx<'_, Self::Talk>, _from: Origin, message: <Self::Talk as Talk>::Message) {
        cx.drop_message(message);
    }

    /// As [`StreamService::asked`](corelane::StreamService::asked).
    fn asked(
        &mut self,
        _cx: &mut Cx<'_, Self::Talk>,
        _from: Origin,
        _question: <Self::Talk as Talk>::Question,
        call: Call<Self::Talk>,
    ) {
        drop(call);
    }

    /// As [`StreamService::replied`](corelane::StreamService::replied).
    fn replied(&mut self, _cx: &mut Cx<'_, Self::Talk>, _asking: Asking, _outcome: Result<<Self::Talk as Talk>::Answer, Lost>) {}

    /// As [`StreamService::room`](corelane::StreamService::room).
    fn room(&mut self, _cx: &mut Cx<'_, Self::Talk>, _lane: usize) {}

    /// As [`StreamService::alarm`](corelane::StreamService::alarm).
    fn alarm(&mut self, _cx: &mut Cx<'_, Self::Talk>, _token: u64) {}

    /// As [`StreamService::drain_began`](corelane::StreamService::drain_began).
    fn drain_began(&mut self, _cx: &mut Cx<'_, Self::Talk>) {}

    /// Is told, before all else, how connections are opened in the service that it stands in. Applications within another are told by that one.
    #[doc(hidden)] // The service calls it, and no program.
    fn stand_within(&mut self, _within: Within<Self::Talk>) {}

    /// As [`StreamService::ending`](corelane::StreamService::ending).
    fn ending(&mut self, _cx: &mut Cx<'_, Self::Talk>) {}

    /// Which of several applications within it a request is for, by its host and the name in TLS.
    #[doc(hidden)] // The service calls it, and no program.
    fn whose(&self, _cx: &mut Cx<'_, Self::Talk>, _host: Option<&[u8]>) -> Whose {
        Whose::Anybody
    }

    /// Shows `see` each table of upstreams that it has: so operators see them, take them out and in again.
    fn upstreams(&mut self, _see: &mut dyn FnMut(&mut Upstreams)) {}

    /// An operator has taken upstreams out, or in again, in a table that [`Application::upstreams`] has shown.
    fn upstreams_changed(&mut self, _cx: &mut Cx<'_, Self::Talk>) {}

    /// From now on it has these upstreams, or has none as before. Returns whether that is so.
    fn retarget(&mut self, _cx: &mut Cx<'_, Self::Talk>, targets: Option<&Targets>) -> bool {
        targets.is_none()
    }

    /// Whether it could do so.
    fn can_retarget(&mut self, targets: Option<&Targets>) -> bool {
        targets.is_none()
    }

    /// The same for itself, or for each of several applications within it: all of them, or none.
    #[doc(hidden)] // The service calls it, and no program.
    fn retarget_each(&mut self, cx: &mut Cx<'_, Self::Talk>, targets: &[Option<Targets>]) -> bool {
        match targets {
            [targets] => self.retarget(cx, targets.as_ref()),
            _ => false,
        }
    }

    /// From now on it, or each of several applications within it, has redirects by path, or has none. The service carries them out.
    #[doc(hidden)] // The service calls it, and no program.
    fn redirect_each(&mut self, _redirects: &[bool]) {}
}

/// How a request goes on.
#[non_exhaustive]
pub enum Handled<A: Application> {
    /// It is answered, or held.
    Answered(Answered),
    /// [`Application::request`] is to be called again with the whole content ([`Request::content`]), of so many bytes at the most; longer content is
    /// answered with 413 (Content Too Large). Where there is no content it is called at once, with an empty one.
    Collect(u64),
    /// The exchange takes over. Requests behind it wait for its end.
    Begin(Box<dyn Exchange<A>>, First),
}

/// What an exchange begins with.
#[derive(Debug)]
#[non_exhaustive]
pub enum First {
    /// It takes the content, of so many bytes at the most, piece by piece: [`Exchange::content`], and [`Exchange::go_on`] behind the last one.
    Receive(u64),
    /// It takes content, of so many bytes at the most, while it answers: [`Exchange::go_on`] is called at once to begin the answer, and content comes as
    /// [`Produced::Content`] asks for it. For clients that read while they send; who sends all first and is answered much waits for ever. A drain reads no more
    /// of the content, as of any, and cuts the answer short.
    Converse(u64),
    /// It hands the content on to somebody else as it comes, before its answer and beside that: [`Exchange::content`] as long as [`Exchange::takes_content`] says so, and then
    /// [`Exchange::content_ended`]. [`Exchange::go_on`] is called at once. A client that waits for 100 (Continue) is told so by [`Goes::Invite`] alone.
    Relay,
    /// It waits for something: [`Exchange::go_on`] is called after [`Cx::resume`].
    Wait,
    /// The answer has begun, and its content comes from [`Exchange::produce`].
    Produce(Begun),
}

impl<A: Application> From<Answered> for Handled<A> {
    fn from(answered: Answered) -> Self {
        Self::Answered(answered)
    }
}

impl<A: Application, E: Exchange<A>> From<(E, First)> for Handled<A> {
    fn from((exchange, first): (E, First)) -> Self {
        Self::Begin(Box::new(exchange), first)
    }
}

/// One request and its answer that take more than a call: what is kept for them. A connection has one at a time. Content is read before the answer begins
/// ([`First::Receive`]), for most clients read no answer before they have sent all; or while it is written ([`First::Converse`]): then what the client does not read is not
/// written, and as long as there is no room for the answer the content waits with the client.
///
/// What has begun ends once: it is answered whole, or it is told that it is [gone](Exchange::gone). Then it is dropped.
pub trait Exchange<A: Application>: 'static {
    /// A piece of the content has come, as it lies in the lane's memory.
    fn content(&mut self, _application: &mut A, _cx: &mut Cx<'_, A::Talk>, _piece: Shared) -> Flow {
        Flow::More
    }

    /// Of one that [relays](First::Relay): whether it takes content now. It is asked again after [`Cx::resume`], and perhaps earlier.
    fn takes_content(&mut self, _application: &mut A, _cx: &mut Cx<'_, A::Talk>) -> bool {
        true
    }

    /// Of one that [relays](First::Relay): the content has come whole. Not called where there is none.
    fn content_ended(&mut self, _application: &mut A, _cx: &mut Cx<'_, A::Talk>) {}

    /// The content has ended, or [`Cx::resume`] was called for the connection; or something else has happened that might concern it: what is still missing is
    /// waited for with [`Goes::Wait`]. Once it has answered, or begun to, it is not called again.
    ///
    /// # Errors
    /// As for [`Application::request`]; the exchange is gone then.
    fn go_on(&mut self, application: &mut A, cx: &mut Cx<'_, A::Talk>, reply: Reply<'_>) -> Result<Goes, Refused>;

    /// There is room for more of the answer that was begun.
    fn produce(&mut self, _application: &mut A, _cx: &mut Cx<'_, A::Talk>, _parts: &mut Parts<'_>) -> Produced {
        Produced::End
    }

    /// Which ends of its client's connection it is to learn of while it waits, with the content whole: it is [gone](Exchange::gone) then. By default of none before it answers.
    fn minds(&self) -> Minds {
        Minds::Nothing
    }

    /// The exchange has ended, and its answer is not whole: its connection has ended, by a panic of this exchange as well; or its content was refused, from the beginning (413 (Content Too Large))
    /// or later; or it was refused what it needs, and said so; or it has ended its content short of what was announced.
    fn gone(&mut self, _application: &mut A, _cx: &mut Cx<'_, A::Talk>) {}
}

/// Which ends of a client's connection an exchange is to learn of while it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Minds {
    /// None: they show when it answers.
    Nothing,
    /// That the client breaks off.
    Resets,
    /// That it breaks off, or finishes its side. One that closes its connection does so; one that finishes may hear on, and is not answered then.
    Ends,
}

/// Whether an exchange takes more content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// More, as it comes.
    More,
    /// None until [`Cx::resume`] is called for the connection, or in an answer that has begun until [`Produced::Content`] asks for more.
    Wait,
}

/// How an exchange goes on.
#[derive(Debug)]
#[non_exhaustive]
pub enum Goes {
    /// It is answered, or held: the exchange is over.
    Answered(Answered),
    /// It is called again after [`Cx::resume`]; perhaps earlier.
    Wait,
    /// The client is told 100 (Continue), and then it is called again.
    Invite,
    /// The client's protocol is changed to that of another connection of this service, which it is coupled with: all bytes pass from here on.
    Switched(Switched),
    /// The answer has begun, and its content comes from [`Exchange::produce`].
    Produce(Begun),
}

impl From<Answered> for Goes {
    fn from(answered: Answered) -> Self {
        Self::Answered(answered)
    }
}

/// What an exchange has to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Produced {
    /// More, at once if there is room.
    More,
    /// More, once all that was written has left.
    Drained,
    /// Nothing until [`Cx::resume`] is called for the connection; it may be asked before that.
    Wait,
    /// Nothing until more content has come ([`First::Converse`]): [`Exchange::content`] takes what has, and then the exchange is asked again, as it is when the content has ended
    /// ([`Parts::has_all_content`]).
    Content,
    /// All was written. If that is less than was announced, the connection is broken off.
    End,
    /// The rest cannot be had: the connection is broken off.
    Broken,
}
