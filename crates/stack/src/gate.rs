//! The port that the stack has: asked of the driver below, one receive and one send at a time.

use crate::counts::Drop;
use crate::path::Path;
use corelane_seam::{
    Completion, Driver, Fault, Frame, FrameOp, FrameOutcome, Handle, LossPort, Outcome, Port, PortId, PortNews, PortState, Reason,
};
use std::cell::Cell;
use std::rc::Rc;

/// The class of the stack's own operations, which are of no work.
const CLASS: u8 = Handle::CLASSES - 1;
const OPEN: u32 = 0;
const RECEIVE: u32 = 1;
const SEND: u32 = 2;
const CLOSE: u32 = 3;

/// Frames that one receive brings at most.
const FRAMES_EACH: usize = 64;
/// Nanoseconds until an interface that is down is tried again.
const AGAIN: u64 = 10_000_000;

/// How far the port is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Opening,
    Open(PortId),
    Closing,
    /// It is closed, was never opened, or is gone.
    Closed,
}

/// The port.
#[derive(Debug)]
pub(crate) struct Gate {
    state: State,
    is_receiving: bool,
    is_sending: bool,
    /// The interface was down: it is tried again then.
    again: Option<u64>,
    /// It was down, and was tried again: if it has not said by then that it is still, it is up.
    up_at: Option<u64>,
    /// What the port tells beside its frames.
    news: Rc<Cell<PortNews>>,
    /// Why the port is closed, if nobody wanted that.
    pub fault: Option<Fault>,
    wants_close: bool,
    incoming: Vec<Frame>,
    spare: Vec<Frame>,
}

/// Whether a completion is of the stack's own operations.
pub(crate) fn is_own(completion: &Completion) -> bool {
    let handle = completion.handle;
    handle.work() == Handle::NOBODY.work() && handle.class() == CLASS
}

impl Gate {
    /// Opens `port` on the driver.
    pub fn open(driver: &mut impl Driver, port: Box<dyn Port>) -> Self {
        let (port, news) = LossPort::new(port);
        driver.push(name(OPEN), FrameOp::Open(Box::new(port)).into());
        let storage = || Vec::with_capacity(FRAMES_EACH);
        Self {
            state: State::Opening,
            is_receiving: false,
            is_sending: false,
            again: None,
            up_at: None,
            news,
            fault: None,
            wants_close: false,
            incoming: storage(),
            spare: storage(),
        }
    }

    /// From now on nothing is received; the port is closed as soon as it may be.
    pub fn close(&mut self) {
        self.wants_close = true;
    }

    /// Whether the port is closed.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed && !self.is_receiving && !self.is_sending
    }

    /// Whether the port has taken all that it was given to send.
    pub fn has_all_left(&self) -> bool {
        !self.is_sending
    }

    /// When an interface that was down is tried again, or taken to be up.
    pub fn due(&self) -> Option<u64> {
        self.again.or(self.up_at).filter(|_| matches!(self.state, State::Open(_)))
    }

    /// Takes in what can be known of the port without asking the driver.
    pub fn look(&mut self, path: &mut Path) {
        let PortNews { lost, facts, state } = self.news.get();
        path.note_lost(lost);
        path.note_facts(&facts);
        path.is_open = matches!(self.state, State::Open(_));
        path.note_link(state);
        if self.up_at.is_some_and(|time| time <= path.now) {
            self.up_at = None;
            path.note_port(PortState::Up);
        }
    }

    /// Asks the driver for what is to be asked for now.
    pub fn ask(&mut self, path: &mut Path, driver: &mut impl Driver) {
        let State::Open(port) = self.state else {
            if self.state == State::Closed {
                path.outgoing.clear();
            }
            return;
        };
        if !path.outgoing.is_empty() && !self.is_sending {
            self.is_sending = true;
            let frames = std::mem::replace(&mut path.outgoing, std::mem::take(&mut self.spare));
            driver.push(name(SEND), FrameOp::Send { port, frames }.into());
        }
        if self.wants_close {
            self.state = State::Closing;
            return driver.push(name(CLOSE), FrameOp::Close { port }.into());
        }
        if self.again.is_some_and(|again| again > path.now) {
            return;
        }
        if self.again.take().is_some() {
            self.up_at = Some(path.now + AGAIN);
        }
        // A send may have failed while a receive goes on.
        if self.is_receiving {
            return;
        }
        self.is_receiving = true;
        let into = std::mem::take(&mut self.incoming);
        driver.push(name(RECEIVE), FrameOp::Receive { port, at_most: FRAMES_EACH, into }.into());
    }

    /// One of the stack's own operations has ended.
    pub fn complete(&mut self, path: &mut Path, completion: Completion) {
        match (completion.handle.index(), completion.outcome) {
            (OPEN, Outcome::Frame(FrameOutcome::Opened { port, .. })) => {
                assert_eq!(self.state, State::Opening, "a port is opened once");
                self.state = State::Open(port);
            }
            (RECEIVE, Outcome::Frame(FrameOutcome::Arrived { frames, fault })) => self.arrived(path, frames, fault),
            (SEND, Outcome::Frame(FrameOutcome::Departed { frames, fault, .. })) => self.departed(path, frames, fault),
            (_, Outcome::Released) => {}
            (CLOSE, _) => self.state = State::Closed,
            (_, Outcome::Failed(fault)) => self.gone(path, fault),
            (_, other) => unreachable!("{other:?} is no end of what the stack asks for"),
        }
    }

    fn arrived(&mut self, path: &mut Path, mut frames: Vec<Frame>, fault: Option<Fault>) {
        assert!(self.is_receiving, "a receive ends once");
        self.is_receiving = false;
        if !frames.is_empty() && fault.is_none() {
            self.up_at = None;
            path.note_port(PortState::Up);
        }
        frames.drain(..).for_each(|frame| path.frame(frame));
        path.end_batch();
        self.incoming = frames;
        fault.into_iter().for_each(|fault| self.note(path, fault));
    }

    fn departed(&mut self, path: &mut Path, mut frames: Vec<Frame>, fault: Option<Fault>) {
        assert!(self.is_sending, "a send ends once");
        self.is_sending = false;
        path.counts.drop_many(Drop::Frames, frames.len() as u64);
        frames.clear();
        self.spare = frames;
        fault.into_iter().for_each(|fault| self.note(path, fault));
    }

    /// What the interface says.
    fn note(&mut self, path: &mut Path, fault: Fault) {
        match fault.reason {
            Reason::Cancelled => {}
            Reason::NoInterface => {
                self.fault = Some(fault);
                self.wants_close = true;
                path.note_port(PortState::Gone);
            }
            _ => {
                path.counts.downs += 1;
                (self.again, self.up_at) = (Some(path.now + AGAIN), None);
                // What else is refused says nothing of the interface.
                if fault.reason == Reason::Down {
                    path.note_port(PortState::Down);
                }
            }
        }
    }

    fn gone(&mut self, path: &mut Path, fault: Fault) {
        path.note_port(PortState::Gone);
        (self.state, self.fault) = (State::Closed, Some(fault));
    }
}

fn name(operation: u32) -> Handle {
    Handle::new(CLASS, operation, 0)
}
