//! The ports of a driver and what is under way on them: the part of [`FrameOp`] that is the same for every driver.
//!
//! A driver keeps a [`PortTable`], begins in it what it is asked, and attends to a port whenever there is a reason: something was asked, its
//! descriptor became readable or writable, its time has come, or it [has more](Port::has_more). Each end comes out as a [`PortEnd`], which
//! carries whatever the driver knows an operation by. A closed port is taken out last, for the driver to end watching before it drops it.

use crate::error::{Fault, Reason};
use crate::frame::Frame;
use crate::operation::{FrameOp, FrameOutcome, Outcome};
use crate::port::{Port, PortId};
use crate::slab::{Key, Slab};
use std::collections::VecDeque;

/// How an operation ended.
#[derive(Debug)]
pub struct PortEnd<T> {
    /// The operation as the driver knows it.
    pub asked: T,
    /// Its port; none if it made the port.
    pub port: Option<PortId>,
    /// How it went.
    pub outcome: Outcome,
    /// Whether its memory is released; otherwise [`Outcome::Released`] follows.
    pub released: bool,
}

impl<T> PortEnd<T> {
    fn of(port: PortId, asked: T, outcome: impl Into<Outcome>) -> Self {
        Self { asked, port: Some(port), outcome: outcome.into(), released: true }
    }
}

/// The directions for which a port is asked where something waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attention {
    /// Frames that have arrived.
    pub receive: bool,
    /// Room for what is to leave.
    pub send: bool,
}

/// A receive that waits for frames.
struct Receive<T> {
    asked: T,
    into: Vec<Frame>,
    at_most: usize,
}

/// A send of which not all frames were taken.
struct Send<T> {
    asked: T,
    frames: Vec<Frame>,
    taken: u64,
    refused: u64,
}

/// A port, and what is under way on it.
struct Open<T> {
    id: PortId,
    port: Box<dyn Port>,
    /// The work that has it.
    work: u8,
    receive: Option<Receive<T>>,
    send: Option<Send<T>>,
    /// Frames that it has ever taken.
    taken: u64,
    /// Sends that have ended and whose memory is not released, with the number of their last frame.
    unreleased: VecDeque<(u64, T)>,
    closing: Option<T>,
}

/// The ports that are open on a driver.
pub struct PortTable<T> {
    open: Slab<Open<T>>,
}

impl<T> Default for PortTable<T> {
    fn default() -> Self {
        Self { open: Slab::default() }
    }
}

fn key(port: PortId) -> Key {
    Key::new(port.index, port.generation)
}

fn id(key: Key) -> PortId {
    PortId { index: key.index, generation: key.generation }
}

impl<T: Copy> PortTable<T> {
    /// How many ports there are.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The names of all.
    pub fn ids(&self) -> impl Iterator<Item = PortId> {
        self.open.keys().map(id)
    }

    /// A port that is open, or being closed.
    pub fn port(&self, port: PortId) -> Option<&dyn Port> {
        self.open.get(key(port)).map(|open| &*open.port)
    }

    /// The same, to be changed.
    pub fn port_mut(&mut self, port: PortId) -> Option<&mut (dyn Port + 'static)> {
        self.open.get_mut(key(port)).map(|open| &mut *open.port)
    }

    /// Those of the works that `is_gone` names, unless they are being closed.
    pub fn of_works(&self, is_gone: impl Fn(u8) -> bool) -> Vec<PortId> {
        let gone = self.open.iter().filter(|(_, open)| open.closing.is_none() && is_gone(open.work));
        gone.map(|(key, _)| id(key)).collect()
    }

    /// The earliest time at which one of them wants to be asked again.
    pub fn wakes_at(&self) -> Option<u64> {
        self.open.values().filter_map(|open| open.port.wakes_at()).min()
    }

    /// Whether a receive is under way.
    pub fn is_receiving(&self, port: PortId) -> bool {
        self.open.get(key(port)).is_some_and(|open| open.receive.is_some())
    }

    /// Whether a receive is under way for which frames lie ready.
    pub fn can_receive(&self, port: PortId) -> bool {
        let can = |open: &Open<T>| open.receive.is_some() && open.port.has_more();
        self.open.get(key(port)).is_some_and(can)
    }

    /// Whether something waits for the interface to take or to release frames.
    pub fn awaits_room(&self, port: PortId) -> bool {
        let waits = |open: &Open<T>| open.send.is_some() || open.closing.is_some() && !open.unreleased.is_empty();
        self.open.get(key(port)).is_some_and(waits)
    }

    /// Takes a port up for a work, and says so.
    pub fn take_up(&mut self, work: u8, asked: T, port: Box<dyn Port>, ended: &mut Vec<PortEnd<T>>) -> PortId {
        let facts = port.facts();
        let key = self.open.insert_with(|key| Open {
            id: id(key),
            port,
            work,
            receive: None,
            send: None,
            taken: 0,
            unreleased: VecDeque::new(),
            closing: None,
        });
        let port = id(key);
        let outcome = FrameOutcome::Opened { port, facts }.into();
        ended.push(PortEnd { asked, port: None, outcome, released: true });
        port
    }

    /// Begins what a work asks of a port that is open; what can end at once does. A receive begins only: attend to it.
    ///
    /// # Panics
    /// If a second receive or send begins before the first has ended, for a receive of no frames, and for `Open`, which is
    /// [`PortTable::take_up`].
    pub fn begin(&mut self, now: u64, work: u8, asked: T, op: FrameOp, ended: &mut Vec<PortEnd<T>>) {
        let port = named(&op);
        let Some(open) = self.open.get_mut(key(port)).filter(|open| open.closing.is_none()) else {
            return ended.extend(refused(op).map(|outcome| PortEnd::of(port, asked, outcome)));
        };
        open.work = work;
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
            FrameOp::Open(_) => unreachable!("a port is taken up"),
        }
    }

    /// Does what can be done now at one port.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn attend(&mut self, now: u64, port: PortId, attention: Attention, ended: &mut Vec<PortEnd<T>>) {
        // reason: whoever attends to ports goes through those that are there.
        let open = self.open.get_mut(key(port)).expect("a port that is attended to is there");
        open.note_released(now, ended);
        if attention.send {
            open.attempt_send(now, ended);
            open.note_released(now, ended);
        }
        if attention.receive {
            open.attempt_receive(now, ended);
        }
    }

    /// Takes out a port whose close was asked for and whose memory is released, with what the close is known by.
    pub fn take_closed(&mut self, port: PortId) -> Option<(T, Box<dyn Port>)> {
        let asked = self.open.get(key(port)).filter(|open| open.unreleased.is_empty())?.closing?;
        let open = self.open.remove(key(port))?;
        assert!(open.receive.is_none() && open.send.is_none(), "what was under way has ended");
        Some((asked, open.port))
    }
}

impl<T: Copy> Open<T> {
    fn note_released(&mut self, now: u64, ended: &mut Vec<PortEnd<T>>) {
        let released = self.port.released(now);
        assert!(released <= self.taken, "no more is released than was taken");
        while let Some((_, asked)) = self.unreleased.pop_front_if(|(last, _)| *last <= released) {
            ended.push(PortEnd::of(self.id, asked, Outcome::Released));
        }
    }

    fn attempt_send(&mut self, now: u64, ended: &mut Vec<PortEnd<T>>) {
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

    fn end_send(&mut self, now: u64, fault: Option<Fault>, ended: &mut Vec<PortEnd<T>>) {
        // reason: whoever ends it has just looked at it.
        let Send { asked, frames, taken, refused } = self.send.take().expect("a send that ends is under way");
        let is_released = taken == 0 || self.port.released(now) >= self.taken;
        if !is_released {
            self.unreleased.push_back((self.taken, asked));
        }
        let outcome = FrameOutcome::Departed { frames, taken, refused, fault };
        ended.push(PortEnd { released: is_released, ..PortEnd::of(self.id, asked, outcome) });
    }

    fn attempt_receive(&mut self, now: u64, ended: &mut Vec<PortEnd<T>>) {
        let Some(receive) = &mut self.receive else { return };
        let fault = self.port.receive(now, receive.at_most, &mut receive.into).err();
        assert!(receive.into.len() <= receive.at_most, "a port keeps to the budget");
        if receive.into.is_empty() && fault.is_none() {
            return;
        }
        // reason: it was looked at above.
        let Receive { asked, into: frames, .. } = self.receive.take().expect("it is under way");
        let fault = fault.filter(|_| frames.is_empty());
        ended.push(PortEnd::of(self.id, asked, FrameOutcome::Arrived { frames, fault }));
    }

    /// Frames that have arrived are still delivered.
    fn stop_receive(&mut self, now: u64, ended: &mut Vec<PortEnd<T>>) {
        self.attempt_receive(now, ended);
        self.cancel_receive(ended);
    }

    fn cancel_receive(&mut self, ended: &mut Vec<PortEnd<T>>) {
        let Some(Receive { asked, into: frames, .. }) = self.receive.take() else { return };
        ended.push(PortEnd::of(self.id, asked, FrameOutcome::Arrived { frames, fault: Some(Fault::CANCELLED) }));
    }

    fn close(&mut self, now: u64, asked: T, ended: &mut Vec<PortEnd<T>>) {
        self.cancel_receive(ended);
        if self.send.is_some() {
            self.end_send(now, Some(Fault::CANCELLED), ended);
        }
        self.closing = Some(asked);
    }
}

fn named(op: &FrameOp) -> PortId {
    match op {
        FrameOp::Receive { port, .. } | FrameOp::Send { port, .. } | FrameOp::StopReceive { port } | FrameOp::Close { port } => {
            *port
        }
        FrameOp::Open(_) => unreachable!("a port that is opened has no name yet"),
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

impl<T> std::fmt::Debug for PortTable<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PortTable({} open)", self.open.len())
    }
}
