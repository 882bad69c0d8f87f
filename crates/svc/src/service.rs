//! Services: the code that a user of Corelane writes.
//!
//! The two traits repeat the calls that they share: a trait below both would be a second `impl` in every service, with its `type Talk`, for what
//! most leave as it is.

pub(crate) mod cx;
pub(crate) mod face;
pub(crate) mod lending;
pub(crate) mod own;

use crate::connection::input::Input;
use crate::connection::output::Output;
use crate::datagrams::replies::Replies;
use crate::post::call::Call;
use crate::service::cx::Cx;
use crate::words::names::{Ending, Next, Peer, SocketId};
use crate::words::talk::{Asking, Lost, Origin, Talk};
use crate::words::ticket::Ticket;
use corelane_seam::{Address, Datagrams, Fault, Outcome};
use corelane_watch::Declaration;
use std::any::Any;

/// A service over connections. One is built for each lane: its state is the lane's own, needs no `Send` and no lock.
///
/// A panic in any of these calls ends the connection that it was for (`Aborted`, counted); the lane lives on.
pub trait StreamService: Sized + 'static {
    /// The state that the service keeps for each connection.
    type Session: 'static;

    /// The types in which the service talks to itself on its lanes, to its connections, and to those who ask it from outside.
    /// [`Silent`](crate::Silent) for most.
    type Talk: Talk;

    /// Counters of the service's own, beside those of all services: `DECLARED` of an enum that [`counters!`](corelane_watch::counters) makes.
    /// [`Cx::count`] counts in them. The page is made from this list before the first lane begins. Counting in a counter that is not declared
    /// panics, with words that name the counter, the service and what to declare.
    const COUNTERS: &'static [Declaration] = &[];

    /// Whether the peer always speaks first, as in HTTP. Then the kernel hands a connection over TCP out with its first bytes, or after about a second
    /// (TCP_DEFER_ACCEPT, tcp(7)): the lane is woken once where it was woken twice, and who connects and says nothing costs it nothing for so long.
    const PEER_BEGINS: bool = false;

    /// The lane's first turn: the place to set an [alarm](Cx::start_alarm), or to open connections.
    fn started(&mut self, _cx: &mut Cx<'_, Self::Talk>) {}

    /// A connection was accepted, and the handshake of its transform, if it has one, is over. Never called for a service that only opens
    /// connections itself.
    fn open(&mut self, cx: &mut Cx<'_, Self::Talk>, peer: &Peer) -> Self::Session;

    /// Bytes have arrived, or there is room for output again, or the peer has finished ([`Input::is_finished`]: the last
    /// call, perhaps without bytes). Take all complete requests, count them ([`Cx::count_requests`]: only the service
    /// knows what a request is), and leave the rest.
    fn receive(
        &mut self,
        cx: &mut Cx<'_, Self::Talk>,
        session: &mut Self::Session,
        input: &mut Input,
        output: &mut Output,
    ) -> Next;

    /// A connection that [`Cx::connect`] asked for is open, and the handshake of its transform, if it has one, is over.
    fn connected(&mut self, _cx: &mut Cx<'_, Self::Talk>, _session: &mut Self::Session, _output: &mut Output) -> Next {
        Next::Continue
    }

    /// All output has left, after [`Output::notify_drained`]: go on producing.
    fn drained(&mut self, _cx: &mut Cx<'_, Self::Talk>, _session: &mut Self::Session, _output: &mut Output) -> Next {
        Next::Continue
    }

    /// A timer of this connection has come ([`Cx::start_timer`]).
    fn timer(&mut self, _cx: &mut Cx<'_, Self::Talk>, _session: &mut Self::Session, _output: &mut Output, _token: u64) -> Next {
        Next::Continue
    }

    /// The service has something for the connection ([`Cx::notify`]).
    fn message(
        &mut self,
        _cx: &mut Cx<'_, Self::Talk>,
        _session: &mut Self::Session,
        _output: &mut Output,
        _notice: <Self::Talk as Talk>::Notice,
    ) -> Next {
        Next::Continue
    }

    /// A ticket expired before its request was answered ([`Hold::expires`](crate::Hold::expires) gave the `token`). That ticket is void:
    /// an answer with it is only counted (`answers_late`). `ticket` is a new one for the same request, and does not expire. By default the connection is
    /// broken off.
    fn expired(
        &mut self,
        _cx: &mut Cx<'_, Self::Talk>,
        _session: &mut Self::Session,
        _output: &mut Output,
        _ticket: Ticket,
        _token: u64,
    ) -> Next {
        Next::Abort
    }

    /// A message that the peer has begun did not come in time (`read_limit`), or too slowly (`receive_rate_min`): the connection ends after this call, whatever
    /// it returns. The place to tell the peer so, and to return [`Next::Close`], so that it hears that. By default the connection is broken off.
    fn overdue(
        &mut self,
        _cx: &mut Cx<'_, Self::Talk>,
        _session: &mut Self::Session,
        _input: &mut Input,
        _output: &mut Output,
    ) -> Next {
        Next::Abort
    }

    /// The lane has begun to drain; what has arrived is still answered. Called for each connection.
    fn draining(&mut self, _cx: &mut Cx<'_, Self::Talk>, _session: &mut Self::Session, _output: &mut Output) {}

    /// Another process serves at these addresses from now on. This connection is served as before, until the lane drains about a second later. A protocol in
    /// which a server may send its clients elsewhere does so with its next answer (HTTP: `Connection: close`), so that no client asks just as the drain closes
    /// its connection. Called for each accepted connection, and for those that are accepted later.
    fn handed_over(&mut self, _cx: &mut Cx<'_, Self::Talk>, _session: &mut Self::Session, _output: &mut Output) {}

    /// The connection has ended. Called once for each session; [`Cx::fault`] says why, if its ending is `Error`.
    fn closed(&mut self, _cx: &mut Cx<'_, Self::Talk>, _session: Self::Session, _ending: Ending) {}

    /// The connection is idle, and is to go to another lane: its session becomes plain data there and back again ([`StreamService::unpack`]). Nothing that belongs to this lane may be in it: no
    /// lease, file, ticket or timer. State that the service keeps elsewhere under the connection's name ([`Cx::id`]) goes with it or is given up here, because the name is void from then on.
    /// A session that is `Send` and names nothing of its lane goes as it is:
    ///
    /// ```
    /// # mod corelane { pub mod service { pub use corelane_svc::{Cx, Input, Next, Output, Peer, Silent, StreamService}; } }
    /// # use corelane::service::{Cx, Input, Next, Output, Peer, Silent, StreamService};
    /// # use std::any::Any;
    /// # struct Counts;
    /// # impl StreamService for Counts {
    /// # type Session = u64;
    /// # type Talk = Silent;
    /// # fn open(&mut self, _: &mut Cx<'_>, _: &Peer) -> u64 { 0 }
    /// # fn receive(&mut self, _: &mut Cx<'_>, _: &mut u64, _: &mut Input, _: &mut Output) -> Next { Next::Continue }
    /// fn pack(&mut self, _cx: &mut Cx<'_>, session: u64) -> Result<Box<dyn Any + Send>, u64> {
    ///     Ok(Box::new(session))
    /// }
    ///
    /// fn unpack(&mut self, _cx: &mut Cx<'_>, packed: Box<dyn Any + Send>) -> Result<u64, Box<dyn Any + Send>> {
    ///     packed.downcast().map(|session| *session)
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// The session comes back, and its connection stays on this lane: the default.
    fn pack(&mut self, _cx: &mut Cx<'_, Self::Talk>, session: Self::Session) -> Result<Box<dyn Any + Send>, Self::Session> {
        Err(session)
    }

    /// A connection has come from another lane, with what this service has packed there; or back to this one. It is open, its name is new, and [`StreamService::open`] is not called for it. It
    /// may go back still: then it is packed again.
    ///
    /// # Errors
    /// What was packed comes back, and so does the connection to the lane that it has left; where that fails as well, it ends. The default.
    fn unpack(
        &mut self,
        _cx: &mut Cx<'_, Self::Talk>,
        packed: Box<dyn Any + Send>,
    ) -> Result<Self::Session, Box<dyn Any + Send>> {
        Err(packed)
    }

    /// An operation that the service started has ended (files, polling, offloaded calls: [`Cx::open_file`] and the like).
    fn completed(&mut self, _cx: &mut Cx<'_, Self::Talk>, _token: u64, _outcome: Outcome) {}

    /// A message from a lane ([`Cx::send`]), or from outside ([`Remote::send`](crate::Remote::send)). By default it is dropped, counted
    /// (`messages_dropped`) and told ([`Cx::drop_message`]).
    fn lane_message(&mut self, cx: &mut Cx<'_, Self::Talk>, _from: Origin, message: <Self::Talk as Talk>::Message) {
        cx.drop_message(message);
    }

    /// A question from a lane ([`Cx::ask`]), or from outside ([`Remote::ask`](crate::Remote::ask)). Reply to the call
    /// ([`Cx::reply`]), now or later; a drain waits for the reply, until `drain_limit`.
    fn asked(
        &mut self,
        _cx: &mut Cx<'_, Self::Talk>,
        _from: Origin,
        _question: <Self::Talk as Talk>::Question,
        call: Call<Self::Talk>,
    ) {
        drop(call);
    }

    /// The outcome of a question of this service on this lane: the answer, or why there is none. Comes once for each.
    fn replied(&mut self, _cx: &mut Cx<'_, Self::Talk>, _asking: Asking, _outcome: Result<<Self::Talk as Talk>::Answer, Lost>) {}

    /// A message or a question for `lane` was refused for want of room ([`Cx::send`], [`Cx::ask`]). Now there is room, or that lane
    /// is gone.
    fn room(&mut self, _cx: &mut Cx<'_, Self::Talk>, _lane: usize) {}

    /// The lane has begun to drain: the service should finish what it does with other lanes. Called once for the service;
    /// [`draining`](Self::draining) is called for each connection.
    fn drain_began(&mut self, _cx: &mut Cx<'_, Self::Talk>) {}

    /// Something of the service on this lane has [nudged](crate::Nudge) it: the last call of a turn before what connections are to send is taken.
    fn nudged(&mut self, _cx: &mut Cx<'_, Self::Talk>) {}

    /// Whether the service sees to the end of this connection in a drain: then [`draining`](Self::draining) is all that the lane does, and what the
    /// peer says is taken as before until the service closes the connection, or `drain_limit` is over. By default an accepted connection is closed when all
    /// that was readable as the drain began is answered; one that this side opened is the service's to close in any case.
    fn ends_itself(&self, _session: &Self::Session) -> bool {
        false
    }

    /// Somebody who operates the program asks something of the service on this lane, or orders it, by the program's control socket. The first of the words says what they are about.
    /// Returns the answer, as JSON in one line; none where the service knows no such words, which is the default. Called on each lane.
    fn operate(&mut self, _cx: &mut Cx<'_, Self::Talk>, _words: &str) -> Option<String> {
        None
    }

    /// The lane ends, in order or because it was stopped. This is the last call; then the service is dropped. Nothing new can begin.
    fn ending(&mut self, _cx: &mut Cx<'_, Self::Talk>) {}

    /// An alarm of the service has come ([`Cx::start_alarm`]).
    fn alarm(&mut self, _cx: &mut Cx<'_, Self::Talk>, _token: u64) {}
}

/// A service over datagrams: on the sockets that it is served at, and on those that it opens itself.
///
/// A panic in any of these calls is counted, and what the call added before it is still sent.
pub trait DatagramService: Sized + 'static {
    /// As [`StreamService::Talk`].
    type Talk: Talk;

    /// As [`StreamService::COUNTERS`].
    const COUNTERS: &'static [Declaration] = &[];

    /// Whether it opens datagram sockets for its clients ([`Cx::open_datagrams`]), as many as [`Limits::datagram_sockets_max`](crate::Limits::datagram_sockets_max) allows: then a start asks whether the
    /// process may have so many descriptors. A service that opens a few of its own need not say so.
    const OPENS_SOCKETS: bool = false;

    /// As [`StreamService::started`].
    fn started(&mut self, _cx: &mut Cx<'_, Self::Talk>) {}

    /// As [`StreamService::alarm`]: the timers of a service over datagrams.
    fn alarm(&mut self, _cx: &mut Cx<'_, Self::Talk>, _token: u64) {}

    /// A batch has arrived on one socket ([`Cx::socket`]): up to 64 arrivals, each one datagram or a train of equal ones.
    fn receive(&mut self, cx: &mut Cx<'_, Self::Talk>, batch: &Datagrams, replies: &mut Replies);

    /// A socket that [`Cx::open_datagrams`] asked for is open, at this address; or it could not be opened, and its name is void.
    fn opened(&mut self, _cx: &mut Cx<'_, Self::Talk>, _socket: SocketId, _outcome: Result<Address, Fault>) {}

    /// Everything sent from a socket has left, and nothing waits there: the place to go on sending. Not called in a drain.
    fn sent(&mut self, _cx: &mut Cx<'_, Self::Talk>, _socket: SocketId, _replies: &mut Replies) {}

    /// The system refused to send something; or, on a socket with a peer, the network reported that something sent earlier
    /// did not arrive (`Refused`: nobody is bound there). The socket goes on.
    fn fault(&mut self, _cx: &mut Cx<'_, Self::Talk>, _socket: SocketId, _fault: Fault) {}

    /// Whether the service still owes answers to what it received. In a drain the sockets stay open until no service owes any, no operation
    /// of the lane is under way, and no lane has anything left to ask another; but no longer than `drain_limit`. The default, no, is right
    /// unless a service answers in an alarm or a task, or asks somebody outside first.
    fn owes(&self) -> bool {
        false
    }

    /// As [`StreamService::completed`].
    fn completed(&mut self, _cx: &mut Cx<'_, Self::Talk>, _token: u64, _outcome: Outcome) {}

    /// As [`StreamService::lane_message`].
    fn lane_message(&mut self, cx: &mut Cx<'_, Self::Talk>, _from: Origin, message: <Self::Talk as Talk>::Message) {
        cx.drop_message(message);
    }

    /// As [`StreamService::asked`].
    fn asked(
        &mut self,
        _cx: &mut Cx<'_, Self::Talk>,
        _from: Origin,
        _question: <Self::Talk as Talk>::Question,
        call: Call<Self::Talk>,
    ) {
        drop(call);
    }

    /// As [`StreamService::replied`].
    fn replied(&mut self, _cx: &mut Cx<'_, Self::Talk>, _asking: Asking, _outcome: Result<<Self::Talk as Talk>::Answer, Lost>) {}

    /// As [`StreamService::room`].
    fn room(&mut self, _cx: &mut Cx<'_, Self::Talk>, _lane: usize) {}

    /// As [`StreamService::drain_began`].
    fn drain_began(&mut self, _cx: &mut Cx<'_, Self::Talk>) {}

    /// As [`StreamService::nudged`].
    fn nudged(&mut self, _cx: &mut Cx<'_, Self::Talk>) {}

    /// As [`StreamService::operate`].
    fn operate(&mut self, _cx: &mut Cx<'_, Self::Talk>, _words: &str) -> Option<String> {
        None
    }

    /// As [`StreamService::ending`].
    fn ending(&mut self, _cx: &mut Cx<'_, Self::Talk>) {}
}
