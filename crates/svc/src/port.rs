//! A service behind one erased face, with the table of its sessions.

use crate::cx::Cx;
use crate::input::Input;
use crate::names::{Ending, Next, Peer, SocketId};
use crate::output::Output;
use crate::replies::Replies;
use crate::service::{DatagramService, StreamService};
use crate::slab::Slab;
use crate::ticket::Ticket;
use crate::transform::{MakeTransform, Side, Transform};
use corelane_seam::{Address, Datagrams, Fault, Outcome};
use std::any::Any;

/// Which of a stream service's calls is meant.
pub(crate) enum Call {
    Receive,
    Connected,
    Drained,
    Timer(u64),
    Message(Box<dyn Any>),
    Draining,
    /// A ticket has expired: another one for the same request, and the token of its hold.
    Expired(Ticket, u64),
}

/// A stream service, its type erased: the one dynamic dispatch on a request's path.
pub(crate) trait StreamPort {
    fn started(&mut self, cx: &mut Cx<'_>);
    fn alarm(&mut self, cx: &mut Cx<'_>, token: u64);
    fn open(&mut self, cx: &mut Cx<'_>, peer: &Peer) -> u32;
    /// Takes over a session made before its connection was open; none if it is of another type.
    fn adopt(&mut self, session: Box<dyn Any>) -> Option<u32>;
    fn call(&mut self, cx: &mut Cx<'_>, session: u32, call: Call, input: &mut Input, output: &mut Output) -> Next;
    fn closed(&mut self, cx: &mut Cx<'_>, session: u32, ending: Ending);
    fn completed(&mut self, cx: &mut Cx<'_>, token: u64, outcome: Outcome);
    fn lane_message(&mut self, cx: &mut Cx<'_>, from: usize, message: Box<dyn Any + Send>);
    /// The transform of a connection, if it is to have one.
    fn transform(&mut self, side: Side, peer: &Peer) -> Option<Box<dyn Transform>>;
    /// From now on this makes them.
    fn set_transform(&mut self, make: MakeTransform);
    /// All sessions, to be dropped.
    fn take_sessions(&mut self) -> Vec<Box<dyn Any>>;
}

/// A datagram service, its type erased.
pub(crate) trait DatagramPort {
    fn started(&mut self, cx: &mut Cx<'_>);
    fn alarm(&mut self, cx: &mut Cx<'_>, token: u64);
    fn receive(&mut self, cx: &mut Cx<'_>, batch: &Datagrams, replies: &mut Replies);
    fn opened(&mut self, cx: &mut Cx<'_>, socket: SocketId, outcome: Result<Address, Fault>);
    fn sent(&mut self, cx: &mut Cx<'_>, socket: SocketId, replies: &mut Replies);
    fn fault(&mut self, cx: &mut Cx<'_>, socket: SocketId, fault: Fault);
    fn owes(&self) -> bool;
    fn completed(&mut self, cx: &mut Cx<'_>, token: u64, outcome: Outcome);
    fn lane_message(&mut self, cx: &mut Cx<'_>, from: usize, message: Box<dyn Any + Send>);
}

/// A service of either kind.
pub(crate) enum Port {
    Stream(Box<dyn StreamPort>),
    Datagram(Box<dyn DatagramPort>),
}

impl Port {
    pub(crate) fn stream(&mut self) -> Option<&mut dyn StreamPort> {
        match self {
            Self::Stream(port) => Some(port.as_mut()),
            Self::Datagram(_) => None,
        }
    }

    pub(crate) fn datagrams(&mut self) -> Option<&mut dyn DatagramPort> {
        match self {
            Self::Stream(_) => None,
            Self::Datagram(port) => Some(port.as_mut()),
        }
    }
}

pub(crate) struct Sessions<S: StreamService> {
    pub(crate) service: S,
    sessions: Slab<S::Session>,
    make_transform: Option<MakeTransform>,
}

impl<S: StreamService> Sessions<S> {
    pub(crate) fn new(service: S) -> Self {
        Self { service, sessions: Slab::new(), make_transform: None }
    }
}

impl<S: StreamService> StreamPort for Sessions<S> {
    fn started(&mut self, cx: &mut Cx<'_>) {
        self.service.started(cx);
    }

    fn alarm(&mut self, cx: &mut Cx<'_>, token: u64) {
        self.service.alarm(cx, token);
    }

    fn open(&mut self, cx: &mut Cx<'_>, peer: &Peer) -> u32 {
        let session = self.service.open(cx, peer);
        self.sessions.insert(session).0
    }

    fn adopt(&mut self, session: Box<dyn Any>) -> Option<u32> {
        let session = session.downcast::<S::Session>().ok()?;
        Some(self.sessions.insert(*session).0)
    }

    fn call(&mut self, cx: &mut Cx<'_>, session: u32, call: Call, input: &mut Input, output: &mut Output) -> Next {
        // reason: a connection keeps the place of its session until that is closed.
        let session = self.sessions.at(session).expect("a session is there until it is closed");
        match call {
            Call::Receive => self.service.receive(cx, session, input, output),
            Call::Connected => self.service.connected(cx, session, output),
            Call::Drained => self.service.drained(cx, session, output),
            Call::Timer(token) => self.service.timer(cx, session, output, token),
            Call::Message(message) => self.service.message(cx, session, output, message),
            Call::Expired(ticket, token) => self.service.expired(cx, session, output, ticket, token),
            Call::Draining => {
                self.service.draining(cx, session, output);
                Next::Continue
            }
        }
    }

    fn closed(&mut self, cx: &mut Cx<'_>, session: u32, ending: Ending) {
        // reason: as above.
        let session = self.sessions.remove(session).expect("a session is closed once");
        self.service.closed(cx, session, ending);
    }

    fn completed(&mut self, cx: &mut Cx<'_>, token: u64, outcome: Outcome) {
        self.service.completed(cx, token, outcome);
    }

    fn lane_message(&mut self, cx: &mut Cx<'_>, from: usize, message: Box<dyn Any + Send>) {
        self.service.lane_message(cx, from, message);
    }

    fn transform(&mut self, side: Side, peer: &Peer) -> Option<Box<dyn Transform>> {
        self.make_transform.as_mut()?(side, peer)
    }

    fn set_transform(&mut self, make: MakeTransform) {
        self.make_transform = Some(make);
    }

    fn take_sessions(&mut self) -> Vec<Box<dyn Any>> {
        self.sessions.take_all().map(|session| Box::new(session) as Box<dyn Any>).collect()
    }
}

impl<S: DatagramService> DatagramPort for S {
    fn started(&mut self, cx: &mut Cx<'_>) {
        DatagramService::started(self, cx);
    }

    fn alarm(&mut self, cx: &mut Cx<'_>, token: u64) {
        DatagramService::alarm(self, cx, token);
    }

    fn receive(&mut self, cx: &mut Cx<'_>, batch: &Datagrams, replies: &mut Replies) {
        DatagramService::receive(self, cx, batch, replies);
    }

    fn opened(&mut self, cx: &mut Cx<'_>, socket: SocketId, outcome: Result<Address, Fault>) {
        DatagramService::opened(self, cx, socket, outcome);
    }

    fn sent(&mut self, cx: &mut Cx<'_>, socket: SocketId, replies: &mut Replies) {
        DatagramService::sent(self, cx, socket, replies);
    }

    fn fault(&mut self, cx: &mut Cx<'_>, socket: SocketId, fault: Fault) {
        DatagramService::fault(self, cx, socket, fault);
    }

    fn owes(&self) -> bool {
        DatagramService::owes(self)
    }

    fn completed(&mut self, cx: &mut Cx<'_>, token: u64, outcome: Outcome) {
        DatagramService::completed(self, cx, token, outcome);
    }

    fn lane_message(&mut self, cx: &mut Cx<'_>, from: usize, message: Box<dyn Any + Send>) {
        DatagramService::lane_message(self, cx, from, message);
    }
}
