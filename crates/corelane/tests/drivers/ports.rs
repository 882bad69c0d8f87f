//! Ports: frames in both directions, their memory, and their end.

use crate::bench::Bench;
use crate::rig::{Rig, SIDES, Side};
use corelane_seam::{
    Fault, Frame, FrameCounts, FrameMemory, FrameOp, FrameOutcome, Handle, Op, Outcome, Port, PortFacts, PortId, Taken, Wait,
};
use corelane_sim::{FaultyPort, PortFaults};
use std::cell::Cell;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::rc::Rc;

const FRAMES: usize = 64;
const FRAME_BYTES: usize = 2048;
/// Bytes that a frame has room for, and frames that a packet may lie in.
const ROOM: usize = FRAME_BYTES - Frame::HEADROOM;
const PIECES_MAX: usize = 17;
/// As of any Ethernet; and of one whose longest packet, with a VLAN tag, fills as many frames as one may have.
const MTU: usize = 1500;
const MTU_LONG: usize = PIECES_MAX * ROOM - 14 - 4;
/// Two addresses, and a type that no stack answers.
const HEADER: [u8; 14] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
/// What an interface may fill a short frame up to.
const SHORTEST: usize = 60;

struct Wire<R: Rig> {
    bench: Bench<R>,
    memory: [FrameMemory; 2],
    ports: [PortId; 2],
}

/// Runs a case on two ports that are open, unless this machine has none.
fn on_wire<R: Rig>(body: impl FnOnce(&mut Wire<R>)) {
    on_wire_with(MTU, |port| port, body);
}

/// The same, on a wire of that MTU and with something around the server's port.
fn on_wire_with<R: Rig>(mtu: usize, around: impl FnOnce(Box<dyn Port>) -> Box<dyn Port>, body: impl FnOnce(&mut Wire<R>)) {
    let mut bench = Bench::<R>::new();
    let memory = [(); 2].map(|()| FrameMemory::new(FRAMES, FRAME_BYTES).unwrap());
    let [server, client] = match bench.rig.ports(memory.clone(), mtu) {
        Ok(ports) => ports,
        Err(why) => {
            let thread = std::thread::current();
            return crate::skips::skip(thread.name().unwrap_or_default(), &why);
        }
    };
    let ports = [opened(&mut bench, Side::Server, around(server)), opened(&mut bench, Side::Client, client)];
    let mut wire = Wire { bench, memory, ports };
    body(&mut wire);
    for side in SIDES {
        wire.close(side);
    }
    let Wire { bench, memory, .. } = wire;
    bench.finish();
    memory.iter().for_each(|memory| assert_eq!(memory.counts(), all_free()));
}

fn all_free() -> FrameCounts {
    FrameCounts { free: FRAMES, ..FrameCounts::default() }
}

fn opened<R: Rig>(bench: &mut Bench<R>, side: Side, port: Box<dyn Port>) -> PortId {
    match bench.run(side, FrameOp::Open(port)) {
        Outcome::Frame(FrameOutcome::Opened { port, facts }) => {
            assert!(facts.frame_bytes_max >= 1514 && facts.link.interface > 0, "{facts:?}");
            port
        }
        other => panic!("not opened: {other:?}"),
    }
}

impl<R: Rig> Wire<R> {
    fn port(&self, side: Side) -> PortId {
        self.ports[side as usize]
    }

    fn frame(&self, side: Side, payload: &[u8]) -> Frame {
        let mut frame = self.memory[side as usize].frame().unwrap();
        frame.append(&HEADER);
        frame.append(payload);
        frame.append(&vec![0; SHORTEST.saturating_sub(frame.len())]);
        frame
    }

    fn receive(&mut self, side: Side, at_most: usize) -> Handle {
        let port = self.port(side);
        self.bench.push(side, FrameOp::Receive { port, at_most, into: Vec::new() })
    }

    /// Sends one frame for each number; all are taken.
    fn send(&mut self, side: Side, numbers: std::ops::Range<u8>) {
        let frames: Vec<_> = numbers.map(|number| self.frame(side, &[number; 50])).collect();
        let count = frames.len() as u64;
        let (taken, refused, fault) = self.sent(side, frames);
        assert_eq!((taken, refused, fault), (count, 0, None));
    }

    fn sent(&mut self, side: Side, frames: Vec<Frame>) -> (u64, u64, Option<Fault>) {
        let port = self.port(side);
        match self.bench.run(side, FrameOp::Send { port, frames }) {
            Outcome::Frame(FrameOutcome::Departed { taken, refused, fault, .. }) => (taken, refused, fault),
            other => panic!("not sent: {other:?}"),
        }
    }

    fn arrived(&mut self, side: Side, handle: Handle) -> (Vec<Frame>, Option<Fault>) {
        match self.bench.end(side, handle) {
            Outcome::Frame(FrameOutcome::Arrived { frames, fault }) => (frames, fault),
            other => panic!("not arrived: {other:?}"),
        }
    }

    /// Receives until so many frames have come; returns their numbers.
    fn numbers(&mut self, side: Side, count: usize, at_most: usize) -> Vec<u8> {
        let mut numbers = Vec::new();
        while numbers.len() < count {
            let receive = self.receive(side, at_most);
            let (frames, fault) = self.arrived(side, receive);
            assert!(fault.is_none() && (1..=at_most).contains(&frames.len()), "{fault:?} {}", frames.len());
            numbers.extend(frames.iter().map(number));
        }
        numbers
    }

    fn close(&mut self, side: Side) {
        let port = self.port(side);
        let outcome = self.bench.run(side, FrameOp::Close { port });
        assert!(matches!(outcome, Outcome::Closed | Outcome::Failed(Fault::CANCELLED)), "{outcome:?}");
    }
}

fn number(frame: &Frame) -> u8 {
    assert!(frame.starts_with(&HEADER) && frame.len() >= 64, "{frame:?}");
    assert!(frame[14..64].iter().all(|&byte| byte == frame[14]));
    frame[14]
}

pub fn frames_go_there_and_back<R: Rig>() {
    on_wire::<R>(|wire| {
        for round in 0..3 {
            let receive = wire.receive(Side::Server, 16);
            wire.send(Side::Client, round..round + 1);
            let (mut frames, fault) = wire.arrived(Side::Server, receive);
            assert_eq!((frames.len(), fault), (1, None));
            // The frame that came is the one that goes back.
            frames[0][0..12].rotate_left(6);
            let (taken, ..) = wire.sent(Side::Server, frames);
            assert_eq!(taken, 1);
            let receive = wire.receive(Side::Client, 16);
            let (frames, _) = wire.arrived(Side::Client, receive);
            assert_eq!((&frames[0][..6], &frames[0][14..64]), (&HEADER[6..12], &[round; 50][..]));
        }
    });
}

pub fn a_receive_keeps_to_its_budget_and_loses_nothing<R: Rig>() {
    on_wire::<R>(|wire| {
        wire.send(Side::Client, 0..12);
        wire.bench.settle();
        assert_eq!(wire.numbers(Side::Server, 12, 5), (0..12).collect::<Vec<_>>());
        let receive = wire.receive(Side::Server, 5);
        wire.bench.settle();
        assert!(!wire.bench.has_ended(Side::Server, receive));
    });
}

pub fn a_stopped_receive_of_frames_ends<R: Rig>() {
    on_wire::<R>(|wire| {
        let port = wire.port(Side::Server);
        for _ in 0..2 {
            let receive = wire.receive(Side::Server, 4);
            wire.bench.settle();
            wire.bench.push(Side::Server, FrameOp::StopReceive { port });
            let (frames, fault) = wire.arrived(Side::Server, receive);
            assert_eq!((frames.len(), fault), (0, Some(Fault::CANCELLED)));
            wire.bench.push(Side::Server, FrameOp::StopReceive { port });
        }
        wire.send(Side::Client, 1..2);
        assert_eq!(wire.numbers(Side::Server, 1, 4), [1]);
    });
}

pub fn a_stopped_receive_of_frames_delivers_what_has_come<R: Rig>() {
    on_wire::<R>(|wire| {
        wire.send(Side::Client, 0..3);
        wire.bench.settle();
        let port = wire.port(Side::Server);
        let receive = wire.receive(Side::Server, 8);
        wire.bench.push(Side::Server, FrameOp::StopReceive { port });
        let (frames, _) = wire.arrived(Side::Server, receive);
        assert_eq!(frames.iter().map(number).collect::<Vec<_>>(), [0, 1, 2]);
    });
}

/// A packet that has come lies in a frame that was lent, so it can be received though none is free.
pub fn what_has_come_needs_no_free_frame<R: Rig>() {
    let around = |inner| -> Box<dyn Port> { Box::new(Odd { ahead: Some(VecDeque::new()), ..Odd::around(inner) }) };
    on_wire_with::<R>(MTU, around, |wire| {
        let memory = wire.memory[Side::Server as usize].clone();
        let mut others: Vec<_> = std::iter::from_fn(|| memory.frame()).take(memory.counts().free.saturating_sub(8)).collect();
        wire.send(Side::Client, 0..8);
        wire.bench.settle();
        let mut kept = Vec::new();
        while kept.len() < 8 {
            let receive = wire.receive(Side::Server, 1);
            kept.extend(wire.arrived(Side::Server, receive).0);
            others.extend(std::iter::from_fn(|| memory.frame()));
        }
        assert_eq!(kept.iter().map(number).collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
    });
}

pub fn a_closed_port_ends_what_is_under_way<R: Rig>() {
    on_wire::<R>(|wire| {
        let receive = wire.receive(Side::Server, 8);
        wire.bench.settle();
        let port = wire.port(Side::Server);
        let close = wire.bench.push(Side::Server, FrameOp::Close { port });
        let (frames, fault) = wire.arrived(Side::Server, receive);
        assert_eq!((frames.len(), fault), (0, Some(Fault::CANCELLED)));
        assert!(matches!(wire.bench.end(Side::Server, close), Outcome::Closed));
        assert_eq!(wire.memory[Side::Server as usize].counts(), all_free());
    });
}

pub fn a_closed_port_is_a_name_of_nothing<R: Rig>() {
    on_wire::<R>(|wire| {
        wire.close(Side::Server);
        let receive = wire.receive(Side::Server, 8);
        assert_eq!(wire.arrived(Side::Server, receive).1, Some(Fault::CANCELLED));
        let frame = wire.frame(Side::Server, b"to nobody");
        assert_eq!(wire.sent(Side::Server, vec![frame]), (0, 0, Some(Fault::CANCELLED)));
        let port = wire.port(Side::Server);
        wire.bench.push(Side::Server, FrameOp::StopReceive { port });
        assert!(matches!(wire.bench.run(Side::Server, FrameOp::Close { port }), Outcome::Failed(Fault::CANCELLED)));
    });
}

pub fn a_port_can_be_opened_again<R: Rig>() {
    on_wire::<R>(|wire| {
        wire.close(Side::Server);
        let memory = [(); 2].map(|()| FrameMemory::new(FRAMES, FRAME_BYTES).unwrap());
        let Ok([server, client]) = wire.bench.rig.ports(memory.clone(), MTU) else { panic!("there were ports before") };
        wire.close(Side::Client);
        wire.ports = [opened(&mut wire.bench, Side::Server, server), opened(&mut wire.bench, Side::Client, client)];
        wire.memory = memory;
        wire.send(Side::Client, 1..3);
        assert_eq!(wire.numbers(Side::Server, 2, 4), [1, 2]);
    });
}

pub fn the_ports_of_a_work_that_left_are_closed<R: Rig>() {
    on_wire::<R>(|wire| {
        wire.bench.work = 2;
        let receive = wire.receive(Side::Server, 8);
        wire.bench.settle();
        wire.bench.work = 0;
        wire.bench.driver(Side::Server).abandon(2);
        let (frames, fault) = wire.arrived(Side::Server, receive);
        assert_eq!((frames.len(), fault), (0, Some(Fault::CANCELLED)));
        wire.bench.settle();
        assert_eq!(wire.memory[Side::Server as usize].counts(), all_free());
        wire.send(Side::Client, 1..2);
    });
}

pub fn what_no_interface_takes_is_refused<R: Rig>() {
    on_wire::<R>(|wire| {
        let mut batch: Vec<_> = (0..4).map(|number| wire.frame(Side::Client, &[number; 50])).collect();
        batch[1].set_length(0);
        batch[2].set_length(1600);
        assert_eq!(wire.sent(Side::Client, batch), (2, 2, None));
        assert_eq!(wire.numbers(Side::Server, 2, 4), [0, 3]);
    });
}

pub fn who_has_no_frame_left_receives_later<R: Rig>() {
    on_wire::<R>(|wire| {
        let memory = wire.memory[Side::Server as usize].clone();
        let mut kept: Vec<_> = std::iter::from_fn(|| memory.frame()).collect();
        let lent = memory.counts().lent as u8;
        let receive = wire.receive(Side::Server, 64);
        wire.send(Side::Client, 0..lent + 2);
        wire.bench.settle();
        kept.clear();
        drop(kept);
        // What was lent before has come; of the others the interface may have kept some.
        let (frames, fault) = wire.arrived(Side::Server, receive);
        assert!(fault.is_none() && !frames.is_empty() && number(&frames[0]) == 0);
        drop(frames);
        wire.send(Side::Client, 100..101);
        while *wire.numbers(Side::Server, 1, 1).last().unwrap() != 100 {}
    });
}

/// A receive that comes to nothing because all that lay ready was lost on its way is not the end of what lies ready.
pub fn what_a_wrapper_loses_holds_nothing_up<R: Rig>() {
    let mut drawn = 0_u64;
    let first_four = move || {
        drawn += 1;
        // A frame that is not dropped draws for each other fault, none of which is likely.
        if drawn <= 4 { 0 } else { u64::MAX }
    };
    let around = |port: Box<dyn Port>| -> Box<dyn Port> {
        let faults = PortFaults { drop: 1, ..PortFaults::default() };
        Box::new(FaultyPort::new(port, faults, first_four).0)
    };
    on_wire_with::<R>(MTU, around, |wire| {
        wire.send(Side::Client, 0..6);
        wire.bench.settle();
        let receive = wire.receive(Side::Server, 4);
        let (frames, _) = wire.arrived(Side::Server, receive);
        assert_eq!(frames.iter().map(number).collect::<Vec<_>>(), [4, 5]);
    });
}

/// A port whose interface lets go of its memory when it may, or that has news of its own.
#[derive(Debug)]
struct Odd {
    inner: Box<dyn Port>,
    may_end: Rc<Cell<bool>>,
    asks_again_at: Option<u64>,
    news: Option<UnixDatagram>,
    taken: Rc<Cell<u32>>,
    /// Frames that it has received before they are asked for, if it does that.
    ahead: Option<VecDeque<Frame>>,
}

impl Odd {
    fn around(inner: Box<dyn Port>) -> Self {
        Self { inner, may_end: Rc::new(Cell::new(true)), asks_again_at: None, news: None, taken: Rc::default(), ahead: None }
    }
}

impl Port for Odd {
    fn facts(&self) -> PortFacts {
        self.inner.facts()
    }

    fn memory(&self) -> &FrameMemory {
        self.inner.memory()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor()
    }

    fn news(&self) -> Option<BorrowedFd<'_>> {
        self.news.as_ref().map(UnixDatagram::as_fd)
    }

    fn take_news(&mut self) {
        while self.news.as_ref().is_some_and(|news| news.recv(&mut [0]).is_ok()) {
            self.taken.set(self.taken.get() + 1);
        }
    }

    fn has_more(&self) -> bool {
        self.ahead.as_ref().is_some_and(|ahead| !ahead.is_empty()) || self.inner.has_more()
    }

    fn wakes_at(&self) -> Option<u64> {
        self.asks_again_at.or_else(|| self.inner.wakes_at())
    }

    fn receive(&mut self, now: u64, at_most: usize, into: &mut Vec<Frame>) -> Result<(), Fault> {
        let Some(ahead) = &mut self.ahead else { return self.inner.receive(now, at_most, into) };
        let mut come = Vec::new();
        let received = self.inner.receive(now, FRAMES, &mut come);
        ahead.extend(come);
        into.extend(ahead.drain(..at_most.min(ahead.len())));
        received
    }

    fn send(&mut self, now: u64, frames: &mut Vec<Frame>) -> Result<Taken, Fault> {
        self.inner.send(now, frames)
    }

    fn released(&mut self, now: u64) -> u64 {
        self.inner.released(now)
    }

    fn end(&mut self, now: u64) -> bool {
        self.asks_again_at = Some(now + 1_000_000);
        self.may_end.get() && self.inner.end(now)
    }
}

/// The driver goes on meanwhile, and tells of the end when that is there.
pub fn a_port_that_takes_its_time_to_end_holds_nobody_up<R: Rig>() {
    let may_end = Rc::new(Cell::new(false));
    let when = may_end.clone();
    let around = |inner| -> Box<dyn Port> { Box::new(Odd { may_end: when, ..Odd::around(inner) }) };
    on_wire_with::<R>(MTU, around, |wire| {
        let port = wire.port(Side::Server);
        let close = wire.bench.push(Side::Server, FrameOp::Close { port });
        wire.bench.settle();
        assert!(!wire.bench.has_ended(Side::Server, close), "the interface has its memory");
        assert!(wire.memory[Side::Server as usize].counts().held == 0);
        wire.send(Side::Client, 0..3);
        let frame = wire.frame(Side::Server, b"nobody sends it");
        assert_eq!(wire.sent(Side::Server, vec![frame]), (0, 0, Some(Fault::CANCELLED)));
        assert!(!wire.bench.has_ended(Side::Server, close), "still");
        may_end.set(true);
        assert!(matches!(wire.bench.end(Side::Server, close), Outcome::Closed));
        assert_eq!(wire.memory[Side::Server as usize].counts(), all_free());
    });
}

/// Other news than frames end a wait, though nothing completes: who has the port looks at what it is by now.
pub fn other_news_of_a_port_end_a_wait<R: Rig>() {
    let ((tell, news), taken) = (UnixDatagram::pair().unwrap(), Rc::new(Cell::new(0)));
    news.set_nonblocking(true).unwrap();
    let counted = taken.clone();
    let around = |inner| -> Box<dyn Port> { Box::new(Odd { news: Some(news), taken: counted, ..Odd::around(inner) }) };
    on_wire_with::<R>(MTU, around, |wire| {
        let receive = wire.receive(Side::Server, 8);
        wire.bench.settle();
        for round in 1..=3 {
            tell.send(&[0]).unwrap();
            let far = wire.bench.driver(Side::Server).now() + 30_000_000_000;
            assert_eq!(wire.bench.collect(Side::Server, Wait::Until(far), 64), 0);
            assert_eq!(taken.get(), round);
            assert!(wire.bench.driver(Side::Server).now() < far, "the wait went on");
        }
        assert!(!wire.bench.has_ended(Side::Server, receive));
    });
}

/// A packet of so many bytes, which are told from those of another number.
fn long(number: u8, bytes: usize) -> Vec<u8> {
    HEADER.into_iter().chain((HEADER.len()..bytes).map(|at| (at % 251) as u8 ^ number)).collect()
}

impl<R: Rig> Wire<R> {
    /// The packet in frames of which each but the last has `each` bytes.
    fn pieces(&self, side: Side, packet: &[u8], each: usize) -> Vec<Frame> {
        let last = packet.len().div_ceil(each) - 1;
        let piece = |(number, bytes): (usize, &[u8])| {
            let mut frame = self.memory[side as usize].frame().unwrap();
            frame.append(bytes);
            frame.facts.continues = number < last;
            frame
        };
        packet.chunks(each).enumerate().map(piece).collect()
    }

    /// Receives until so many packets have come.
    fn packets(&mut self, side: Side, count: usize, at_most: usize) -> Vec<Vec<Frame>> {
        let mut packets = Vec::new();
        while packets.len() < count {
            let receive = self.receive(side, at_most);
            let (mut frames, fault) = self.arrived(side, receive);
            assert!(fault.is_none() && (1..=at_most).contains(&frames.len()), "{fault:?} {}", frames.len());
            assert!(frames.last().is_some_and(|last| !last.facts.continues), "a batch ends with a packet");
            let lengths: Vec<_> = Frame::packets(&frames).map(<[Frame]>::len).collect();
            packets.extend(lengths.into_iter().map(|length| frames.drain(..length).collect::<Vec<_>>()));
        }
        packets
    }
}

fn bytes(packet: &[Frame]) -> Vec<u8> {
    packet.iter().flat_map(|frame| frame.to_vec()).collect()
}

/// In as many frames as they take, up to 17, between shorter ones and in order; the frames that came are those that go back.
pub fn packets_longer_than_a_frame_come_and_go_whole<R: Rig>() {
    on_wire_with::<R>(
        MTU_LONG,
        |port| port,
        |wire| {
            let lengths = [60, ROOM, ROOM + 1, 2 * ROOM, 5000, 100, PIECES_MAX * ROOM - 4, 61];
            for (number, length) in (0_u8..).zip(lengths) {
                let packet = long(number, length);
                // Where they are cut is the sender's to say.
                for each in [ROOM, length.div_ceil(PIECES_MAX)] {
                    let frames = wire.pieces(Side::Client, &packet, each);
                    let count = frames.len() as u64;
                    assert_eq!(wire.sent(Side::Client, frames), (count, 0, None));
                    let mut came = wire.packets(Side::Server, 1, 32).remove(0);
                    assert_eq!(came.len(), length.div_ceil(ROOM), "{length} bytes");
                    assert!(bytes(&came) == packet, "{length} bytes");
                    came[0][0..12].rotate_left(6);
                    assert_eq!(wire.sent(Side::Server, came).0, length.div_ceil(ROOM) as u64);
                    let back = wire.packets(Side::Client, 1, 32).remove(0);
                    assert!(bytes(&back)[12..] == packet[12..] && back[0][..6] == HEADER[6..12]);
                }
            }
            let batch: Vec<_> =
                [3 * ROOM, 60, ROOM + 1, 61].into_iter().zip(0..).map(|(length, number)| long(number, length)).collect();
            let frames = batch.iter().flat_map(|packet| wire.pieces(Side::Client, packet, ROOM)).collect();
            assert_eq!(wire.sent(Side::Client, frames), (7, 0, None));
            let came: Vec<_> = wire.packets(Side::Server, 4, 32).iter().map(|packet| bytes(packet)).collect();
            assert!(came == batch);
        },
    );
}

/// Frames that a side makes.
type Made<R> = fn(&Wire<R>) -> Vec<Frame>;

/// Too many frames, too many bytes, an empty one among them, the last missing: what is beside it leaves.
pub fn what_is_no_whole_packet_is_refused_with_all_its_frames<R: Rig>() {
    on_wire_with::<R>(
        MTU_LONG,
        |port| port,
        |wire| {
            let client = Side::Client;
            let refused: [Made<R>; 4] = [
                |wire| wire.pieces(Side::Client, &long(1, 10 * (PIECES_MAX + 1)), 10),
                |wire| wire.pieces(Side::Client, &long(2, PIECES_MAX * ROOM + 1), ROOM),
                |wire| {
                    let mut frames = wire.pieces(Side::Client, &long(3, 5000), ROOM);
                    frames[1].set_length(0);
                    frames
                },
                |wire| {
                    let mut frames = wire.pieces(Side::Client, &long(4, 5000), ROOM);
                    frames.pop();
                    frames
                },
            ];
            for (number, refused) in (100_u8..).zip(refused) {
                let beside = long(number, 3000);
                let mut frames = wire.pieces(client, &beside, ROOM);
                let bad = refused(wire);
                let count = bad.len() as u64;
                frames.extend(bad);
                if frames.last().is_some_and(|last| !last.facts.continues) {
                    frames.extend(wire.pieces(client, &beside, ROOM));
                }
                let good = frames.len() as u64 - count;
                assert_eq!(wire.sent(client, frames), (good, count, None), "{number}");
                let came = wire.packets(Side::Server, good as usize / 2, 32);
                assert!(came.iter().all(|packet| bytes(packet) == beside), "{number}");
            }
        },
    );
}

/// A packet that has no room in the rest of a budget comes with the next, and one that never has is lost whole.
pub fn a_budget_is_kept_to_by_whole_packets<R: Rig>() {
    on_wire_with::<R>(
        MTU_LONG,
        |port| port,
        |wire| {
            let lengths = [3 * ROOM, 3 * ROOM, 60, 6 * ROOM, 2 * ROOM, 61];
            let packets: Vec<_> = (0_u8..).zip(lengths).map(|(number, length)| long(number, length)).collect();
            for packet in &packets {
                let frames = wire.pieces(Side::Client, packet, ROOM);
                assert_eq!(wire.sent(Side::Client, frames).1, 0);
            }
            wire.bench.settle();
            let came: Vec<_> = wire.packets(Side::Server, 5, 5).iter().map(|packet| bytes(packet)).collect();
            let kept = [0, 1, 2, 4, 5].map(|index| packets[index].clone());
            assert!(came == kept, "{:?}", came.iter().map(Vec::len).collect::<Vec<_>>());
        },
    );
}

pub fn a_driver_may_go_with_a_port_open<R: Rig>() {
    let memory = [(); 2].map(|()| FrameMemory::new(FRAMES, FRAME_BYTES).unwrap());
    let mut bench = Bench::<R>::new();
    let Ok(ports) = bench.rig.ports(memory.clone(), MTU) else { return };
    for (side, port) in SIDES.into_iter().zip(ports) {
        let port = opened(&mut bench, side, port);
        bench.push(side, Op::Frame(FrameOp::Receive { port, at_most: 8, into: Vec::new() }));
    }
    bench.settle();
    drop(bench);
    memory.iter().for_each(|memory| assert_eq!(memory.counts(), all_free()));
}
