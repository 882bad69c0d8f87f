//! A packet path in few lines: takes frames from a port, gives those of other lanes away as parcels, and sends what is its own, whoever's
//! memory it lies in. Beside that it lends pieces of its arena to other lanes, which look at them and keep them for a while.

use crate::guard::Mine;
use corelane_lane::{Channels, Homing, Kit, Mesh, Work, Works};
use corelane_seam::parcel::{AbroadLimits, Guest, Parcel, ParcelHome};
use corelane_seam::{
    Completion, Driver, Frame, FrameMemory, FrameOp, FrameOutcome, FrameParcel, Handle, Instant, Outcome, PortId,
};
use corelane_sim::{Random, SimPort};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const OPEN: u8 = 1;
const RECEIVE: u8 = 2;
const SEND: u8 = 3;
const CLOSE: u8 = 4;

/// The byte of a frame that says which lane is to send it.
pub const LANE_AT: usize = 14;

/// What lanes say to each other.
pub enum Given {
    Frame(FrameParcel),
    Bytes(u8, Parcel),
}

/// What all lanes of a run have seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trade {
    pub received: u64,
    pub given: u64,
    pub taken: u64,
    pub sent: u64,
    pub dropped: u64,
    pub lent: u64,
    pub refused: u64,
}

pub struct Exchange {
    mesh: Mesh<Given>,
    trade: Rc<RefCell<Trade>>,
    post: ParcelHome,
    memory: FrameMemory,
    port: Option<SimPort>,
    open: Option<PortId>,
    is_receiving: bool,
    is_sending: bool,
    outgoing: Vec<Frame>,
    kept: Vec<(u8, Guest)>,
    is_draining: bool,
    random: Random,
    mine: Mine,
    closing: bool,
    closed: bool,
}

/// What the lane lives for beside the exchange, so that it goes on without it.
struct Keeper(bool);

impl Work for Keeper {
    fn name(&self) -> &'static str {
        "keeper"
    }

    fn complete(&mut self, _: &mut Kit, completion: Completion) {
        panic!("it has nothing under way: {completion:?}");
    }

    fn serve(&mut self, _: &mut Kit) {}

    fn flush(&mut self, _: &mut Kit) {}

    fn has_work(&self) -> bool {
        false
    }

    fn has_ended(&self) -> bool {
        self.0
    }

    fn drain(&mut self, _: &mut Kit, _: &mut dyn Driver) {}

    fn all_are_quiet(&mut self, _: &mut Kit) {
        self.0 = true;
    }
}

/// What a lane of these tests is made of.
pub struct Parts {
    pub mesh: Mesh<Given>,
    pub homing: Mesh<Parcel>,
    pub port: SimPort,
    pub memory: FrameMemory,
    pub post: ParcelHome,
    pub seed: u64,
    pub mine: Mine,
}

impl Exchange {
    /// The works of a lane: the exchange, and behind it what brings parcels home.
    pub fn works(parts: Parts, trade: &Rc<RefCell<Trade>>) -> Works {
        let Parts { mesh, homing, port, memory, post, seed, mine } = parts;
        let homing = Homing::new(post.clone(), homing);
        let exchange = Self {
            mesh,
            trade: trade.clone(),
            post,
            memory,
            port: Some(port),
            open: None,
            is_receiving: false,
            is_sending: false,
            outgoing: Vec::new(),
            kept: Vec::new(),
            is_draining: false,
            random: Random::new(seed),
            mine,
            closing: false,
            closed: false,
        };
        Works::of(exchange).and(Keeper(false)).and(homing)
    }

    /// Sends a frame, here or by the lane that it is for.
    fn dispatch(&mut self, kit: &Kit, frame: Frame) {
        let mut trade = self.trade.borrow_mut();
        trade.received += 1;
        let lane = frame.get(LANE_AT).map_or(0, |byte| *byte as usize) % kit.lanes();
        if lane == kit.lane() {
            return self.outgoing.push(frame);
        }
        match frame
            .parcel(lane, Instant::from_nanoseconds(kit.now()))
            .map_err(|(_, refused)| assert!(!refused.to_string().is_empty()))
        {
            Ok(parcel) => match self.mesh.send(kit, lane, Given::Frame(parcel)) {
                Ok(()) => trade.given += 1,
                Err(_) => trade.dropped += 1,
            },
            Err(()) => trade.dropped += 1,
        }
    }

    /// Lends some bytes of the arena to another lane, to be read or to be written.
    fn lend(&mut self, kit: &Kit) {
        let (to, byte) = (self.random.below(kit.lanes() as u64) as usize, self.random.below(256) as u8);
        if to == kit.lane() {
            return;
        }
        let Some(lease) = kit.arena.copy_of(&[byte; 300]) else { return };
        let parcel = match byte % 2 {
            0 => lease.parcel(to, Instant::from_nanoseconds(kit.now())).ok(),
            _ => lease.share().parcel(to, Instant::from_nanoseconds(kit.now())).ok(),
        };
        let sent = parcel.and_then(|parcel| self.mesh.send(kit, to, Given::Bytes(byte, parcel)).ok());
        let mut trade = self.trade.borrow_mut();
        match sent {
            Some(()) => trade.lent += 1,
            None => trade.refused += 1,
        }
    }

    fn look_at_kept(&mut self) {
        for (byte, guest) in &mut self.kept {
            assert!(guest[1..].iter().all(|other| other == byte), "memory of another lane is as it was sent");
            if let Some(bytes) = guest.bytes_mut() {
                bytes[0] = bytes[0].wrapping_add(1);
            }
        }
        let most = self.random.below(12) as usize;
        self.kept.truncate(most);
    }
}

impl Exchange {
    fn given(&mut self, kit: &mut Kit, from: usize, given: Given) {
        match given {
            Given::Frame(parcel) => {
                assert_eq!(parcel.home(), from);
                self.trade.borrow_mut().taken += 1;
                let mut frame = Frame::arrived(&kit.guests, parcel);
                assert_eq!(frame[LANE_AT] as usize % kit.lanes(), kit.lane(), "it is for this lane");
                frame[0] |= 2;
                self.outgoing.push(frame);
            }
            Given::Bytes(byte, parcel) => self.kept.push((byte, kit.guests.admit(parcel))),
        }
    }
}

impl Work for Exchange {
    fn name(&self) -> &'static str {
        "exchange"
    }

    fn meshes(&mut self, each: &mut dyn FnMut(&mut dyn Channels)) {
        each(&mut self.mesh);
    }

    fn complete(&mut self, kit: &mut Kit, completion: Completion) {
        match (completion.handle.class(), completion.outcome) {
            (OPEN, Outcome::Frame(FrameOutcome::Opened { port, .. })) => self.open = Some(port),
            (RECEIVE, Outcome::Frame(FrameOutcome::Arrived { mut frames, fault })) => {
                self.is_receiving = fault.is_some();
                if fault.is_some() {
                    // An interface that is down comes up again.
                    kit.alarm = kit.now() + 1_000_000;
                }
                frames.drain(..).for_each(|frame| self.dispatch(kit, frame));
            }
            (SEND, Outcome::Frame(FrameOutcome::Departed { taken, refused, frames, .. })) => {
                self.is_sending = false;
                let mut trade = self.trade.borrow_mut();
                trade.sent += taken;
                trade.dropped += refused + frames.len() as u64;
            }
            (SEND, Outcome::Released) => {}
            (CLOSE, Outcome::Closed) => self.closed = true,
            (class, outcome) => panic!("not of the exchange: {class} {outcome:?}"),
        }
    }

    fn serve(&mut self, kit: &mut Kit) {
        if let Some(port) = self.port.take() {
            let limits = AbroadLimits::default().parcels_max(8).overdue(Duration::from_millis(20));
            kit.arena.open_abroad(kit.lane() as u16, limits, &self.post);
            self.memory.open_abroad(kit.lane() as u16, limits, &self.post);
            kit.submit(Handle::new(OPEN, 0, 0), FrameOp::Open(Box::new(port)));
        }
        if kit.now() >= kit.alarm {
            (self.is_receiving, kit.alarm) = (false, u64::MAX);
        }
        self.mine.step();
        self.look_at_kept();
        if self.random.below(4) == 0 && !self.closing {
            self.lend(kit);
        }
    }

    fn take_messages(&mut self, kit: &mut Kit, at_most: usize) -> usize {
        let mut given = Vec::new();
        let taken = self.mesh.take(at_most, |from, one| given.extend(one.map(|one| (from, one))));
        given.into_iter().for_each(|(from, one)| self.given(kit, from, one));
        taken
    }

    fn flush(&mut self, kit: &mut Kit) {
        if self.is_draining {
            self.kept.clear();
        }
        let Some(port) = self.open.filter(|_| !self.closing) else { return };
        if !self.is_sending && !self.outgoing.is_empty() {
            self.is_sending = true;
            kit.submit(Handle::new(SEND, 0, 0), FrameOp::Send { port, frames: std::mem::take(&mut self.outgoing) });
        }
        if !std::mem::replace(&mut self.is_receiving, true) {
            kit.submit(Handle::new(RECEIVE, 0, 0), FrameOp::Receive { port, at_most: 4, into: Vec::new() });
        }
    }

    fn has_work(&self) -> bool {
        !self.kept.is_empty() && !self.closing
    }

    fn has_ended(&self) -> bool {
        self.closed
    }

    fn drain(&mut self, _kit: &mut Kit, _driver: &mut dyn Driver) {
        self.is_draining = true;
        self.kept.clear();
    }

    fn is_quiet(&self, _kit: &mut Kit) -> bool {
        assert!(self.is_draining && self.kept.is_empty(), "in a drain nothing is kept");
        !self.is_sending && self.outgoing.is_empty()
    }

    fn all_are_quiet(&mut self, kit: &mut Kit) {
        self.closing = true;
        self.kept.clear();
        match self.open {
            Some(port) => kit.submit(Handle::new(CLOSE, 0, 0), FrameOp::Close { port }),
            None => self.closed = true,
        }
    }
}
