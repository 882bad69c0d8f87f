//! A port that the stack has: asked of the driver below, one receive and one send at a time.
//!
//! Frames that came wait here until the lane's budget lets them be handled; meanwhile nothing more is received.

use crate::trunk::Trunk;
use corelane_seam::{
    Completion, Driver, Fault, Frame, FrameOp, FrameOutcome, Handle, LossPort, Outcome, Port, PortId, PortNews, PortState,
    Reason, Worked,
};
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

/// The class of the stack's own operations, which are of no work.
const CLASS: u8 = Handle::CLASSES - 1;
const OPEN: u32 = 0;
const RECEIVE: u32 = 1;
const SEND: u32 = 2;
const CLOSE: u32 = 3;
/// Operations of one port: the number in a handle is the port's times these, and the operation's.
const OPERATIONS: u32 = 4;

/// Frames that one receive brings at most.
const FRAMES_EACH: usize = 64;
/// Nanoseconds until an interface that is down is tried again.
const AGAIN: u64 = 10_000_000;

/// How far the port is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GateState {
    Opening,
    Open(PortId),
    Closing,
    /// It is closed, was never opened, or is gone.
    Closed,
}

/// A port.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Its number, which is its trunk's.
    port: u32,
    state: GateState,
    is_receiving: bool,
    /// The number of the send that is under way, and of those whose frames the port has not released.
    sending: Option<u64>,
    unreleased: VecDeque<u64>,
    /// The interface was down: it is tried again then.
    again: Option<u64>,
    /// It was down, and was tried again: if it has not said by then that it is still, it is up.
    up_at: Option<u64>,
    /// What the port tells beside its frames.
    news: Rc<Cell<PortNews>>,
    /// Why the port is closed, if nobody wanted that.
    fault: Option<Fault>,
    wants_close: bool,
    /// How long the port had worked when it was asked last.
    worked: Worked,
    /// Frames that its longest packet lies in.
    pieces_max: usize,
    /// Frames that came and were not handled yet, and those of the chunk that were.
    incoming: VecDeque<Frame>,
    brought: usize,
    /// What it was when it was looked at last.
    looked_at: Option<GateState>,
    /// Storage of frames that were sent.
    spare: Vec<Frame>,
}

/// What an ended operation brought beside frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Frames that were given to the port, and did not leave.
    pub unsent: u64,
    /// The interface was found down.
    pub is_down: bool,
    /// When frames came, if some did.
    pub came_at: Option<u64>,
}

/// Which port one of the stack's own operations is of.
pub(crate) fn port_of(completion: &Completion) -> usize {
    (completion.handle.index() / OPERATIONS) as usize
}

/// Whether a completion is of the stack's own operations.
pub(crate) fn is_own(completion: &Completion) -> bool {
    let handle = completion.handle;
    handle.work() == Handle::NOBODY.work() && handle.class() == CLASS
}

impl Gate {
    /// Opens a port, which has that number, on the driver.
    pub fn open(driver: &mut impl Driver, number: u32, port: Box<dyn Port>) -> Self {
        let (port, news) = LossPort::new(port);
        driver.push(name(number, OPEN), FrameOp::Open(Box::new(port)).into());
        Self {
            port: number,
            state: GateState::Opening,
            is_receiving: false,
            sending: None,
            unreleased: VecDeque::new(),
            again: None,
            up_at: None,
            news,
            fault: None,
            wants_close: false,
            worked: Worked::default(),
            // Until it is looked at first, before anything is asked of it.
            pieces_max: 1,
            incoming: VecDeque::with_capacity(FRAMES_EACH),
            brought: 0,
            looked_at: None,
            spare: Vec::with_capacity(FRAMES_EACH),
        }
    }

    /// From now on nothing is received; the port is closed as soon as it may be.
    pub fn close(&mut self) {
        self.wants_close = true;
    }

    /// Whether the port is closed.
    pub fn is_closed(&self) -> bool {
        self.state == GateState::Closed && !self.is_receiving && self.sending.is_none()
    }

    /// The number of the first send that has not left; none if all have.
    pub fn first_unsent(&self) -> Option<u64> {
        self.unreleased.front().copied().or(self.sending)
    }

    /// When an interface that was down is tried again, or taken to be up.
    pub fn due(&self) -> Option<u64> {
        self.again.or(self.up_at).filter(|_| matches!(self.state, GateState::Open(_)))
    }

    /// Why it is closed, if nobody wanted that.
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// Takes in what can be known of the port without asking the driver, where that is due, or it was opened or closed.
    pub fn look(&mut self, now: u64, is_due: bool, trunk: &mut Trunk) {
        let is_new = self.looked_at.replace(self.state) != Some(self.state);
        if is_due || is_new {
            let PortNews { lost, facts, state, .. } = self.news.get();
            self.pieces_max = facts.pieces_max;
            trunk.note_lost(lost);
            trunk.note_facts(&facts);
            trunk.note_port(state, matches!(self.state, GateState::Open(_)));
        }
        if self.up_at.is_some_and(|time| time <= now) {
            self.up_at = None;
            trunk.note_errors(PortState::Up);
        }
    }

    /// Asks the driver for what is to be asked for now, and to receive at most so many frames; `sends` is the number of the send that was given last to any port.
    pub fn ask(&mut self, now: u64, frames: usize, sends: &mut u64, trunk: &mut Trunk, driver: &mut impl Driver) {
        let GateState::Open(port) = self.state else {
            if self.state == GateState::Closed {
                self.incoming.clear();
                trunk.drop_outgoing();
            }
            return;
        };
        if trunk.outgoing() > 0 && self.sending.is_none() {
            *sends += 1;
            self.sending = Some(*sends);
            let frames = trunk.take_outgoing(std::mem::take(&mut self.spare));
            driver.push(name(self.port, SEND), FrameOp::Send { port, frames }.into());
        }
        if self.wants_close {
            self.state = GateState::Closing;
            self.incoming.clear();
            return driver.push(name(self.port, CLOSE), FrameOp::Close { port }.into());
        }
        if self.again.is_some_and(|again| again > now) {
            return;
        }
        if self.again.take().is_some() {
            self.up_at = Some(now + AGAIN);
        }
        // A send may have failed while a receive goes on.
        if self.is_receiving || !self.incoming.is_empty() || frames == 0 {
            return;
        }
        self.is_receiving = true;
        let into = std::mem::take(&mut self.incoming).into();
        // A packet comes whole.
        let at_most = frames.max(self.pieces_max).min(FRAMES_EACH);
        driver.push(name(self.port, RECEIVE), FrameOp::Receive { port, at_most, into }.into());
    }

    /// A chunk begins.
    pub fn begin_chunk(&mut self) {
        self.brought = 0;
    }

    /// Frames of the chunk that were handled.
    pub fn brought(&self) -> usize {
        self.brought
    }

    /// Frames that came and were not handled.
    pub fn incoming(&self) -> impl Iterator<Item = &Frame> {
        self.incoming.iter()
    }

    /// The next frame that came and was not handled; and whether it is the last of its batch.
    pub fn next_frame(&mut self) -> Option<(Frame, bool)> {
        let frame = self.incoming.pop_front()?;
        self.brought += 1;
        Some((frame, self.incoming.is_empty()))
    }

    /// How long the port has worked since this was asked last.
    pub fn take_worked(&mut self) -> Worked {
        let worked = self.news.get().worked;
        let before = std::mem::replace(&mut self.worked, worked);
        Worked { looked: worked.looked - before.looked, sent: worked.sent - before.sent }
    }

    /// Whether frames came that were not handled.
    pub fn has_frames(&self) -> bool {
        !self.incoming.is_empty()
    }

    /// One of the port's operations has ended.
    pub fn complete(&mut self, now: u64, trunk: &mut Trunk, completion: Completion) -> Ended {
        let (mut ended, is_released) = (Ended::default(), completion.released);
        let fault = match (completion.handle.index() % OPERATIONS, completion.outcome) {
            (OPEN, Outcome::Frame(FrameOutcome::Opened { port, .. })) => {
                assert_eq!(self.state, GateState::Opening, "a port is opened once");
                self.state = GateState::Open(port);
                None
            }
            (RECEIVE, Outcome::Frame(FrameOutcome::Arrived { frames, fault })) => {
                assert!(std::mem::take(&mut self.is_receiving), "a receive ends once");
                if !frames.is_empty() && fault.is_none() {
                    self.up_at = None;
                    trunk.note_errors(PortState::Up);
                }
                ended.came_at = frames.first().map(|frame| frame.facts.time);
                self.incoming = frames.into();
                fault
            }
            (SEND, Outcome::Frame(FrameOutcome::Departed { mut frames, fault, .. })) => {
                // reason: one is under way at most.
                let number = self.sending.take().expect("a send ends once");
                self.unreleased.extend(Some(number).filter(|_| !is_released));
                ended.unsent = frames.len() as u64;
                frames.clear();
                self.spare = frames;
                fault
            }
            (SEND, Outcome::Released) => {
                assert!(self.unreleased.pop_front().is_some(), "a send is released once, in order");
                None
            }
            (_, Outcome::Released) => None,
            (CLOSE, _) => {
                self.state = GateState::Closed;
                None
            }
            (_, Outcome::Failed(fault)) => {
                trunk.note_errors(PortState::Gone);
                (self.state, self.fault) = (GateState::Closed, Some(fault));
                None
            }
            (_, other) => unreachable!("{other:?} is no end of what the stack asks for"),
        };
        ended.is_down = fault.is_some_and(|fault| self.note(now, trunk, fault));
        ended
    }

    /// What the interface says; whether it was found down.
    fn note(&mut self, now: u64, trunk: &mut Trunk, fault: Fault) -> bool {
        match fault.reason {
            Reason::Cancelled => false,
            Reason::NoInterface => {
                self.fault = Some(fault);
                self.wants_close = true;
                trunk.note_errors(PortState::Gone);
                false
            }
            _ => {
                (self.again, self.up_at) = (Some(now + AGAIN), None);
                // What else is refused says nothing of the interface.
                if fault.reason == Reason::Down {
                    trunk.note_errors(PortState::Down);
                }
                true
            }
        }
    }
}

fn name(port: u32, operation: u32) -> Handle {
    Handle::new(CLASS, port * OPERATIONS + operation, 0)
}
