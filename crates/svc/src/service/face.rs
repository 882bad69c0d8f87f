//! A service behind one erased face, with the table of its sessions and its post.

use crate::connection::input::Input;
use crate::connection::output::Output;
use crate::datagrams::replies::Replies;
use crate::post::{Mail, News, Post};
use crate::service::cx::Site;
use crate::service::{DatagramService, StreamService};
use crate::words::names::{Ending, Next, Peer, SocketId};
use crate::words::ticket::Ticket;
use crate::words::transform::{MakeTransform, Side, Transform};
use corelane_seam::slab::Slab;
use corelane_seam::{Address, Datagrams, Fault, Outcome};
use std::any::Any;

/// Which of a stream service's calls is meant.
pub(crate) enum Callback {
    Receive,
    Connected,
    Drained,
    Timer(u64),
    /// The news for the connection lies in the post.
    Message,
    Draining,
    HandedOver,
    /// A ticket has expired: another one for the same request, and the token of its hold.
    Expired(Ticket, u64),
    /// A message that has begun to come did not come in time.
    Overdue,
}

/// A service of either kind, its type erased: calls that are about no connection and no socket.
pub(crate) trait AnyFace {
    fn started(&mut self, site: &mut Site<'_>);
    fn alarm(&mut self, site: &mut Site<'_>, token: u64);
    fn completed(&mut self, site: &mut Site<'_>, token: u64, outcome: Outcome);
    fn drain_began(&mut self, site: &mut Site<'_>);
    fn ending(&mut self, site: &mut Site<'_>);
    fn nudged(&mut self, site: &mut Site<'_>);
    fn operate(&mut self, site: &mut Site<'_>, words: &str) -> Option<String>;
    /// Tells the service the next that has come for it.
    fn hear(&mut self, site: &mut Site<'_>);
    /// Drops what a connection was to be told next.
    fn drop_notice(&mut self);
    fn mail(&self) -> &dyn Mail;
    fn mail_mut(&mut self) -> &mut dyn Mail;
}

/// A stream service, its type erased: the one dynamic dispatch on a request's path.
pub(crate) trait StreamFace: AnyFace {
    fn open(&mut self, site: &mut Site<'_>, peer: &Peer) -> u32;
    /// Takes over a session made before its connection was open; none if it is of another type.
    fn adopt(&mut self, session: Box<dyn Any>) -> Option<u32>;
    fn call(&mut self, site: &mut Site<'_>, session: u32, call: Callback, input: &mut Input, output: &mut Output) -> Next;
    fn closed(&mut self, site: &mut Site<'_>, session: u32, ending: Ending);
    /// Takes a session out, as plain data.
    ///
    /// # Errors
    /// Its place, which may be another one: the service does not pack it.
    fn pack(&mut self, site: &mut Site<'_>, session: u32) -> Result<Box<dyn Any + Send>, u32>;
    /// Makes a session of what was packed on another lane; returns its place.
    ///
    /// # Errors
    /// It comes back: the service has not packed it.
    fn unpack(&mut self, site: &mut Site<'_>, packed: Box<dyn Any + Send>) -> Result<u32, Box<dyn Any + Send>>;
    /// The transform of a connection, if it is to have one.
    fn transform(&mut self, side: Side, peer: &Peer) -> Option<Box<dyn Transform>>;
    /// This makes them for the connections for which none that was added before does.
    fn add_transform(&mut self, make: MakeTransform);
    /// From now on what this makes of all that makes transforms does.
    fn wrap_transforms(&mut self, wrap: Box<dyn FnOnce(MakeTransform) -> MakeTransform>);
    /// Whether the service sees to the end of this connection in a drain.
    fn ends_itself(&self, session: u32) -> bool;
    fn peer_begins(&self) -> bool;
    /// All sessions, to be dropped.
    fn take_sessions(&mut self) -> Vec<Box<dyn Any>>;
}

/// A datagram service, its type erased.
pub(crate) trait DatagramFace: AnyFace {
    fn receive(&mut self, site: &mut Site<'_>, batch: &Datagrams, replies: &mut Replies);
    fn opened(&mut self, site: &mut Site<'_>, socket: SocketId, outcome: Result<Address, Fault>);
    fn sent(&mut self, site: &mut Site<'_>, socket: SocketId, replies: &mut Replies);
    fn fault(&mut self, site: &mut Site<'_>, socket: SocketId, fault: Fault);
    fn owes(&self) -> bool;
}

/// A service of either kind.
pub(crate) enum Face {
    Stream(Box<dyn StreamFace>),
    Datagram(Box<dyn DatagramFace>),
}

impl Face {
    pub(crate) fn stream(&mut self) -> Option<&mut dyn StreamFace> {
        match self {
            Self::Stream(face) => Some(face.as_mut()),
            Self::Datagram(_) => None,
        }
    }

    pub(crate) fn datagrams(&mut self) -> Option<&mut dyn DatagramFace> {
        match self {
            Self::Stream(_) => None,
            Self::Datagram(face) => Some(face.as_mut()),
        }
    }

    pub(crate) fn any(&self) -> &dyn AnyFace {
        match self {
            Self::Stream(face) => face.as_ref(),
            Self::Datagram(face) => face.as_ref(),
        }
    }

    pub(crate) fn any_mut(&mut self) -> &mut dyn AnyFace {
        match self {
            Self::Stream(face) => face.as_mut(),
            Self::Datagram(face) => face.as_mut(),
        }
    }
}

/// A service over connections, its sessions and its post.
pub(crate) struct Sessions<S: StreamService> {
    service: S,
    sessions: Slab<S::Session>,
    post: Post<S::Talk>,
    make_transforms: Vec<MakeTransform>,
}

impl<S: StreamService> Sessions<S> {
    pub(crate) fn new(service: S, post: Post<S::Talk>) -> Self {
        Self { service, sessions: Slab::roomy(), post, make_transforms: Vec::new() }
    }
}

/// A service over datagrams, and its post.
pub(crate) struct DatagramSockets<S: DatagramService> {
    service: S,
    post: Post<S::Talk>,
}

impl<S: DatagramService> DatagramSockets<S> {
    pub(crate) fn new(service: S, post: Post<S::Talk>) -> Self {
        Self { service, post }
    }
}

macro_rules! any_port {
    ($face:ident, $service:ident) => {
        impl<S: $service> AnyFace for $face<S> {
            fn started(&mut self, site: &mut Site<'_>) {
                self.service.started(&mut site.with(&mut self.post));
            }

            fn alarm(&mut self, site: &mut Site<'_>, token: u64) {
                self.service.alarm(&mut site.with(&mut self.post), token);
            }

            fn completed(&mut self, site: &mut Site<'_>, token: u64, outcome: Outcome) {
                self.service.completed(&mut site.with(&mut self.post), token, outcome);
            }

            fn drain_began(&mut self, site: &mut Site<'_>) {
                self.service.drain_began(&mut site.with(&mut self.post));
            }

            fn nudged(&mut self, site: &mut Site<'_>) {
                self.service.nudged(&mut site.with(&mut self.post));
            }

            fn operate(&mut self, site: &mut Site<'_>, words: &str) -> Option<String> {
                self.service.operate(&mut site.with(&mut self.post), words)
            }

            fn ending(&mut self, site: &mut Site<'_>) {
                self.service.ending(&mut site.with(&mut self.post));
            }

            fn hear(&mut self, site: &mut Site<'_>) {
                let Self { service, post, .. } = self;
                let cx = &mut site.with(post);
                // The news that was counted may have been the outcome of a question that was lost before; then nothing is left.
                let Some(told) = cx.next_told() else { return };
                match told {
                    News::Message(from, message) => service.lane_message(cx, from, message),
                    News::Question(from, question, call) => service.asked(cx, from, question, call),
                    News::Reply(asking, outcome) => service.replied(cx, asking, outcome),
                    News::Room(lane) => {
                        cx.resume_waiting();
                        service.room(cx, lane);
                    }
                }
            }

            fn drop_notice(&mut self) {
                drop(self.post.take_notice());
            }

            fn mail(&self) -> &dyn Mail {
                &self.post
            }

            fn mail_mut(&mut self) -> &mut dyn Mail {
                &mut self.post
            }
        }
    };
}

any_port!(Sessions, StreamService);
any_port!(DatagramSockets, DatagramService);

impl<S: StreamService> StreamFace for Sessions<S> {
    fn open(&mut self, site: &mut Site<'_>, peer: &Peer) -> u32 {
        let session = self.service.open(&mut site.with(&mut self.post), peer);
        self.sessions.insert(session).index
    }

    fn adopt(&mut self, session: Box<dyn Any>) -> Option<u32> {
        let session = session.downcast::<S::Session>().ok()?;
        Some(self.sessions.insert(*session).index)
    }

    fn call(&mut self, site: &mut Site<'_>, session: u32, call: Callback, input: &mut Input, output: &mut Output) -> Next {
        let Self { service, sessions, post, .. } = self;
        // A connection keeps the place of its session until that is closed.
        let session = sessions.at_mut(session);
        let cx = &mut site.with(post);
        match call {
            Callback::Receive => service.receive(cx, session, input, output),
            Callback::Connected => service.connected(cx, session, output),
            Callback::Drained => service.drained(cx, session, output),
            Callback::Timer(token) => service.timer(cx, session, output, token),
            Callback::Message => {
                let notice = cx.take_notice();
                service.message(cx, session, output, notice)
            }
            Callback::Expired(ticket, token) => service.expired(cx, session, output, ticket, token),
            Callback::Overdue => service.overdue(cx, session, input, output),
            Callback::Draining => {
                service.draining(cx, session, output);
                Next::Continue
            }
            Callback::HandedOver => {
                service.handed_over(cx, session, output);
                Next::Continue
            }
        }
    }

    fn closed(&mut self, site: &mut Site<'_>, session: u32, ending: Ending) {
        let session = self.sessions.remove_at(session);
        self.service.closed(&mut site.with(&mut self.post), session, ending);
    }

    fn pack(&mut self, site: &mut Site<'_>, session: u32) -> Result<Box<dyn Any + Send>, u32> {
        let session = self.sessions.remove_at(session);
        let packed = self.service.pack(&mut site.with(&mut self.post), session);
        packed.map_err(|session| self.sessions.insert(session).index)
    }

    fn unpack(&mut self, site: &mut Site<'_>, packed: Box<dyn Any + Send>) -> Result<u32, Box<dyn Any + Send>> {
        let session = self.service.unpack(&mut site.with(&mut self.post), packed)?;
        Ok(self.sessions.insert(session).index)
    }

    fn transform(&mut self, side: Side, peer: &Peer) -> Option<Box<dyn Transform>> {
        self.make_transforms.iter_mut().find_map(|make| make(side, peer))
    }

    fn add_transform(&mut self, make: MakeTransform) {
        self.make_transforms.push(make);
    }

    fn wrap_transforms(&mut self, wrap: Box<dyn FnOnce(MakeTransform) -> MakeTransform>) {
        let mut inner = std::mem::take(&mut self.make_transforms);
        self.make_transforms.push(wrap(Box::new(move |side, peer| inner.iter_mut().find_map(|make| make(side, peer)))));
    }

    fn peer_begins(&self) -> bool {
        S::PEER_BEGINS
    }

    fn ends_itself(&self, session: u32) -> bool {
        self.service.ends_itself(self.sessions.at(session))
    }

    fn take_sessions(&mut self) -> Vec<Box<dyn Any>> {
        self.sessions.drain().map(|(_, session)| Box::new(session) as Box<dyn Any>).collect()
    }
}

impl<S: DatagramService> DatagramFace for DatagramSockets<S> {
    fn receive(&mut self, site: &mut Site<'_>, batch: &Datagrams, replies: &mut Replies) {
        self.service.receive(&mut site.with(&mut self.post), batch, replies);
    }

    fn opened(&mut self, site: &mut Site<'_>, socket: SocketId, outcome: Result<Address, Fault>) {
        self.service.opened(&mut site.with(&mut self.post), socket, outcome);
    }

    fn sent(&mut self, site: &mut Site<'_>, socket: SocketId, replies: &mut Replies) {
        self.service.sent(&mut site.with(&mut self.post), socket, replies);
    }

    fn fault(&mut self, site: &mut Site<'_>, socket: SocketId, fault: Fault) {
        self.service.fault(&mut site.with(&mut self.post), socket, fault);
    }

    fn owes(&self) -> bool {
        self.service.owes()
    }
}
