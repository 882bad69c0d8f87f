//! The debt of a connection's peer, as its requests come and are answered: so the lane's limits of time hold for requests, whatever else is said.

use crate::frames::Frames;
use crate::heads::{FramedHeads, Look, TextHeads};
use corelane::aio::{AtWork, Connection};
use corelane::service::{Input, Owes};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

/// A connection and the requests that are in hand on it.
#[derive(Debug)]
pub(crate) struct Course {
    /// It ends when hyper lets go of it, whatever handlers still run.
    connection: Weak<Connection>,
    in_hand: Cell<usize>,
    /// A head has begun that has not come whole.
    is_amid_head: Cell<bool>,
    /// Bytes of the input that may be handed over.
    free: Cell<usize>,
    /// In HTTP/1 all that comes between two requests is of the next one.
    heads: RefCell<Heads>,
    /// None in HTTP/1.
    streams: Option<RefCell<Streams>>,
}

/// How heads come.
#[derive(Debug)]
enum Heads {
    Text(TextHeads),
    Framed(FramedHeads),
}

/// Both directions of an HTTP/2 connection.
#[derive(Debug)]
struct Streams {
    heard: Frames,
    said: Frames,
}

impl Course {
    /// Of a connection on which nothing was asked yet.
    pub fn new(connection: &Rc<Connection>, is_http2: bool) -> Rc<Self> {
        connection.peer_owes(Owes::Request);
        let streams = is_http2.then(|| RefCell::new(Streams { heard: Frames::of_client(), said: Frames::of_server() }));
        let heads = if is_http2 { Heads::Framed(FramedHeads::new()) } else { Heads::Text(TextHeads::default()) };
        Rc::new(Self {
            connection: Rc::downgrade(connection),
            in_hand: Cell::new(0),
            is_amid_head: Cell::new(false),
            free: Cell::new(0),
            heads: RefCell::new(heads),
            streams,
        })
    }

    /// Says what the client owes: the rest of a head first of all, whatever else is in hand.
    fn say_what_is_owed(&self) {
        let owes = match (self.is_amid_head.get(), self.in_hand.get()) {
            (true, _) => Owes::Rest,
            (false, 0) => Owes::Request,
            (false, _) => Owes::Nothing,
        };
        self.connection.upgrade().iter().for_each(|connection| connection.peer_owes(owes));
    }

    /// A head has begun that has not come whole; or none has.
    pub fn be_amid_head(&self, is_amid: bool) {
        if self.is_amid_head.replace(is_amid) != is_amid {
            self.say_what_is_owed();
        }
    }

    /// How many bytes of what lies there hyper may have; else how many there must be first, because a head has not come whole.
    pub fn look(&self, input: &Input) -> Look {
        if input.is_empty() {
            return Look::Await(1);
        }
        let look = match &mut *self.heads.borrow_mut() {
            _ if self.free.get() > 0 => Look::Pass(self.free.get()),
            Heads::Text(_) if self.in_hand.get() > 0 => Look::Pass(input.len()),
            Heads::Text(heads) => heads.look(input.pieces()),
            Heads::Framed(heads) => heads.look(input.pieces()),
        };
        if let Look::Pass(bytes) = look {
            self.free.set(bytes);
        }
        look
    }

    /// The stream has ended: what lies there is all that there is, and hyper's.
    pub fn pass_all(&self, input: &Input) -> usize {
        self.free.set(input.len());
        input.len()
    }

    /// These are handed over; returns how much of them is of requests.
    pub fn pass(&self, bytes: &[u8]) -> usize {
        assert!(bytes.len() <= self.free.get(), "what is handed over was looked at");
        self.free.set(self.free.get() - bytes.len());
        if let Heads::Text(heads) = &mut *self.heads.borrow_mut()
            && self.in_hand.get() == 0
        {
            heads.pass(bytes);
        }
        self.streams.as_ref().map_or(bytes.len(), |streams| streams.borrow_mut().heard.content(bytes))
    }

    /// The client has sent something, and so much of requests.
    pub fn hear(&self, content: usize) {
        match self.streams.is_none() && self.in_hand.get() == 0 {
            true => self.be_amid_head(true),
            false => {
                self.be_amid_head(false);
                self.move_on(content);
            }
        }
    }

    /// The client is sent this. In HTTP/2 content waits for its windows to open, so that it leaves shows that it takes something.
    pub fn say(&self, bytes: &[u8]) {
        if let Some(streams) = &self.streams {
            self.move_on(streams.borrow_mut().said.content(bytes));
        }
    }

    /// Nothing is in hand any more: what comes next begins a request.
    fn begin_anew(&self) {
        if let Heads::Text(heads) = &mut *self.heads.borrow_mut() {
            heads.begin_anew();
            self.free.set(0);
            self.is_amid_head.set(false);
        }
        self.say_what_is_owed();
    }

    fn move_on(&self, content: usize) {
        if let Some(connection) = self.connection.upgrade().filter(|_| content > 0) {
            connection.note_moved(content);
        }
    }
}

/// A request that was taken and is not answered whole: its connection is at work, and a drain leaves its end to hyper.
pub(crate) struct InHand {
    /// None if hyper has let go of the connection.
    work: Option<AtWork>,
    course: Rc<Course>,
}

impl InHand {
    pub fn new(course: &Rc<Course>) -> Self {
        course.in_hand.set(course.in_hand.get() + 1);
        let work = course.connection.upgrade().map(|connection| {
            connection.count_requests(1);
            connection.outlive_drain(true);
            connection.at_work()
        });
        if course.streams.is_none() {
            course.is_amid_head.set(false);
        }
        course.say_what_is_owed();
        Self { work, course: course.clone() }
    }

    /// Whether another process serves, so that a client of HTTP/1.1 is to come anew. In HTTP/2 GOAWAY says so.
    pub fn sends_away(&self) -> bool {
        self.course.streams.is_none() && self.course.connection.upgrade().is_some_and(|connection| connection.is_handed_over())
    }

    /// Its answer goes on.
    pub fn goes_on(&self) {
        self.work.iter().for_each(AtWork::goes_on);
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        self.goes_on();
        let course = &self.course;
        assert!(course.in_hand.get() > 0, "what ends was in hand");
        course.in_hand.set(course.in_hand.get() - 1);
        let Some(connection) = course.connection.upgrade() else { return };
        if course.in_hand.get() == 0 {
            course.begin_anew();
        }
        // In HTTP/2 a drain always leaves the end to hyper.
        if course.streams.is_none() {
            connection.outlive_drain(false);
        }
    }
}
