//! What the peer of a connection owes, as its requests come and are answered: so the lane's limits of time hold for requests, whatever else is said.

use crate::frames::Frames;
use corelane::aio::{AtWork, Connection};
use corelane::service::Owes;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

/// A connection and the requests that are in hand on it.
#[derive(Debug)]
pub(crate) struct Course {
    /// It ends when hyper lets go of it, whatever handlers still run.
    connection: Weak<Connection>,
    in_hand: Cell<usize>,
    /// None in HTTP/1, where all that comes between two requests is of the next one.
    streams: Option<RefCell<Streams>>,
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
        Rc::new(Self { connection: Rc::downgrade(connection), in_hand: Cell::new(0), streams })
    }

    fn peer_owes(&self, owes: Owes) {
        self.connection.upgrade().iter().for_each(|connection| connection.peer_owes(owes));
    }

    /// How much of what the client has sent is of requests.
    pub fn weigh(&self, bytes: &[u8]) -> usize {
        self.streams.as_ref().map_or(bytes.len(), |streams| streams.borrow_mut().heard.content(bytes))
    }

    /// The client has sent something, and so much of requests.
    pub fn hear(&self, content: usize) {
        match self.streams.is_none() && self.in_hand.get() == 0 {
            true => self.peer_owes(Owes::Rest),
            false => self.move_on(content),
        }
    }

    /// The client is sent this. In HTTP/2 content waits for its windows to open, so that it leaves shows that it takes something.
    pub fn say(&self, bytes: &[u8]) {
        if let Some(streams) = &self.streams {
            self.move_on(streams.borrow_mut().said.content(bytes));
        }
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
            connection.peer_owes(Owes::Nothing);
            connection.at_work()
        });
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
            connection.peer_owes(Owes::Request);
        }
        // In HTTP/2 a drain always leaves the end to hyper.
        if course.streams.is_none() {
            connection.outlive_drain(false);
        }
    }
}
