//! The ports of a lane's driver: carries out what is asked of them, outside of the world's state, which they themselves look at.

use super::SimDriver;
use crate::check::Asked;
use crate::kind::entered_as;
use crate::lane::Undelivered;
use crate::state::entry;
use corelane_seam::slab::{Key, Slab};
use corelane_seam::{Completion, Fault, Frame, FrameOp, FrameOutcome, Handle, Op, Outcome, Port, PortId, Reason, Socket};
use std::collections::VecDeque;

/// How an operation ended, the name of its port in the books, and whether its memory is released.
struct Ended {
    asked: Asked,
    port: Option<Socket>,
    outcome: Outcome,
    released: bool,
}

impl Ended {
    fn of(port: PortId, asked: Asked, outcome: impl Into<Outcome>) -> Self {
        Self { asked, port: Some(entered_as(port)), outcome: outcome.into(), released: true }
    }
}

/// A receive that waits for frames.
struct Receive {
    asked: Asked,
    into: Vec<Frame>,
    at_most: usize,
}

/// A send of which not all frames were taken.
struct Send {
    asked: Asked,
    frames: Vec<Frame>,
    taken: u64,
    refused: u64,
}

/// A port, and what is under way on it.
struct Open {
    id: PortId,
    port: Box<dyn Port>,
    /// The work that has it.
    work: u8,
    receive: Option<Receive>,
    send: Option<Send>,
    /// Frames that it has ever taken.
    taken: u64,
    /// Sends that have ended and whose memory is not released, with the number of their last frame.
    unreleased: VecDeque<(u64, Asked)>,
    closing: Option<Asked>,
}

/// What a driver has of ports.
#[derive(Default)]
pub(super) struct Ports {
    asked: Vec<(Asked, FrameOp)>,
    open: Slab<Open>,
    abandoned: u16,
    /// Ends that the world is to be told of.
    ended: Vec<Ended>,
}

impl Ports {
    pub(super) fn push(&mut self, asked: Asked, op: FrameOp) {
        self.asked.push((asked, op));
    }

    pub(super) fn abandon(&mut self, work: u8) {
        self.abandoned |= 1 << work;
    }

    pub(super) fn open_count(&self) -> usize {
        self.open.len()
    }

    /// Does what can be done now.
    fn drive(&mut self, now: u64) {
        for (asked, op) in std::mem::take(&mut self.asked) {
            self.start(now, asked, op);
        }
        let ended = &mut self.ended;
        let keys: Vec<_> = self.open.keys().collect();
        for key in keys {
            let open = self.open.at_mut(key.index);
            open.note_released(now, ended);
            open.attempt_send(now, ended);
            open.note_released(now, ended);
            open.attempt_receive(now, ended);
            if let Some(asked) = open.closing.filter(|_| open.unreleased.is_empty()) {
                let id = open.id;
                self.open.remove_at(key.index);
                ended.push(Ended::of(id, asked, Outcome::Closed));
            }
        }
    }

    fn start(&mut self, now: u64, asked: Asked, op: FrameOp) {
        if let FrameOp::Open(port) = op {
            return self.take_up(asked, port);
        }
        let (FrameOp::Receive { port, .. }
        | FrameOp::Send { port, .. }
        | FrameOp::StopReceive { port }
        | FrameOp::Close { port }) = op
        else {
            unreachable!("opening has been done");
        };
        let ended = &mut self.ended;
        let Some(open) = self.open.get_mut(Key::new(port.index, port.generation)).filter(|open| open.closing.is_none()) else {
            return ended.extend(refused(op).map(|outcome| Ended::of(port, asked, outcome)));
        };
        open.work = asked.handle.work();
        match op {
            FrameOp::Receive { mut into, at_most, .. } => {
                assert!(at_most > 0, "a receive has room for a frame");
                into.clear();
                assert!(open.receive.replace(Receive { asked, into, at_most }).is_none(), "a port has one receive under way");
            }
            FrameOp::Send { frames, .. } => {
                let send = Send { asked, frames, taken: 0, refused: 0 };
                assert!(open.send.replace(send).is_none(), "a port has one send under way");
                open.attempt_send(now, ended);
            }
            FrameOp::StopReceive { .. } => open.stop_receive(now, ended),
            FrameOp::Close { .. } => open.close(now, asked, ended),
            FrameOp::Open(_) => {}
        }
    }

    fn take_up(&mut self, asked: Asked, port: Box<dyn Port>) {
        let facts = port.facts();
        let work = asked.handle.work();
        let key = self.open.insert_with(|Key { index, generation }| {
            let id = PortId { index, generation };
            Open { id, port, work, receive: None, send: None, taken: 0, unreleased: VecDeque::new(), closing: None }
        });
        let port = PortId { index: key.index, generation: key.generation };
        self.ended.push(Ended { port: None, ..Ended::of(port, asked, FrameOutcome::Opened { port, facts }) });
    }

    /// Ports of works that have left, to be closed.
    fn take_abandoned(&mut self) -> Vec<PortId> {
        let works = std::mem::take(&mut self.abandoned);
        let is_gone = |open: &Open| open.closing.is_none() && works >> open.work & 1 == 1;
        let gone = self.open.iter().filter(|(_, open)| is_gone(open));
        gone.map(|(key, _)| PortId { index: key.index, generation: key.generation }).collect()
    }

    fn wakes_at(&self) -> Option<u64> {
        self.open.values().filter_map(|open| open.port.wakes_at()).min()
    }
}

impl Open {
    fn note_released(&mut self, now: u64, ended: &mut Vec<Ended>) {
        let released = self.port.released(now);
        while let Some((_, asked)) = self.unreleased.pop_front_if(|(last, _)| *last <= released) {
            ended.push(Ended::of(self.id, asked, Outcome::Released));
        }
    }

    fn attempt_send(&mut self, now: u64, ended: &mut Vec<Ended>) {
        let Some(send) = &mut self.send else { return };
        let mut fault = None;
        match self.port.send(now, &mut send.frames) {
            Ok(taken) => {
                send.taken += taken.taken;
                send.refused += taken.refused;
                self.taken += taken.taken;
            }
            Err(why) => fault = Some(why),
        }
        if send.frames.is_empty() || fault.is_some() {
            self.end_send(now, fault, ended);
        }
    }

    fn end_send(&mut self, now: u64, fault: Option<Fault>, ended: &mut Vec<Ended>) {
        let Some(Send { asked, frames, taken, refused }) = self.send.take() else { return };
        let is_released = taken == 0 || self.port.released(now) >= self.taken;
        if !is_released {
            self.unreleased.push_back((self.taken, asked));
        }
        let outcome = FrameOutcome::Departed { frames, taken, refused, fault };
        ended.push(Ended { released: is_released, ..Ended::of(self.id, asked, outcome) });
    }

    fn attempt_receive(&mut self, now: u64, ended: &mut Vec<Ended>) {
        let Some(receive) = &mut self.receive else { return };
        let fault = self.port.receive(now, receive.at_most, &mut receive.into).err();
        assert!(receive.into.len() <= receive.at_most, "a port keeps to the budget");
        if receive.into.is_empty() && fault.is_none() {
            return;
        }
        // reason: it was looked at above.
        let Receive { asked, into: frames, .. } = self.receive.take().expect("it is under way");
        let fault = fault.filter(|_| frames.is_empty());
        ended.push(Ended::of(self.id, asked, FrameOutcome::Arrived { frames, fault }));
    }

    /// What has arrived is still delivered.
    fn stop_receive(&mut self, now: u64, ended: &mut Vec<Ended>) {
        self.attempt_receive(now, ended);
        let Some(Receive { asked, into: frames, .. }) = self.receive.take() else { return };
        ended.push(Ended::of(self.id, asked, FrameOutcome::Arrived { frames, fault: Some(Fault::CANCELLED) }));
    }

    fn close(&mut self, now: u64, asked: Asked, ended: &mut Vec<Ended>) {
        if let Some(Receive { asked, into: frames, .. }) = self.receive.take() {
            ended.push(Ended::of(self.id, asked, FrameOutcome::Arrived { frames, fault: Some(Fault::CANCELLED) }));
        }
        self.end_send(now, Some(Fault::CANCELLED), ended);
        self.closing = Some(asked);
    }
}

/// How an operation ends whose port is not there, or no longer; its frames go back.
fn refused(op: FrameOp) -> Option<Outcome> {
    let fault = Some(Fault::CANCELLED);
    Some(match op {
        FrameOp::Receive { mut into, .. } => {
            into.clear();
            FrameOutcome::Arrived { frames: into, fault }.into()
        }
        FrameOp::Send { frames, .. } => FrameOutcome::Departed { frames, taken: 0, refused: 0, fault }.into(),
        FrameOp::Close { .. } => Outcome::Failed(Fault::CANCELLED),
        FrameOp::Open(_) => Outcome::Failed(Fault::of(Reason::Other)),
        FrameOp::StopReceive { .. } => return None,
    })
}

impl SimDriver {
    /// Drives the ports, and tells the world how it went.
    pub(super) fn drive_ports(&mut self) {
        for port in self.ports.take_abandoned() {
            let op = FrameOp::Close { port };
            let number = self.world.0.borrow_mut().ledger.enter(self.lane, Handle::NOBODY, &Op::Frame(FrameOp::Close { port }));
            self.ports.push(Asked { number, handle: Handle::NOBODY }, op);
        }
        let now = self.world.now();
        self.ports.drive(now);
        let state = &mut *self.world.0.borrow_mut();
        let own = &mut state.lanes[self.lane];
        own.port_news = false;
        own.port_wakes_at = self.ports.wakes_at();
        own.ports_open = self.ports.open_count();
        for Ended { asked, port, outcome, released } in self.ports.ended.drain(..) {
            let entry = entry(asked, port, outcome);
            let completion = Completion { released, ..entry.completion };
            state.enqueue(self.lane, Undelivered { completion, ..entry });
        }
    }
}
