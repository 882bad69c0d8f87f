//! Ports: frames in both directions, their memory, and their end.

use crate::bench::Bench;
use crate::rig::{Rig, SIDES, Side};
use corelane_seam::{
    Fault, FaultyPort, Frame, FrameCounts, FrameMemory, FrameOp, FrameOutcome, Handle, Op, Outcome, Port, PortFaults, PortId,
};

const FRAMES: usize = 64;
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
    on_wire_with(|port| port, body);
}

/// The same, with something around the server's port.
fn on_wire_with<R: Rig>(around: impl FnOnce(Box<dyn Port>) -> Box<dyn Port>, body: impl FnOnce(&mut Wire<R>)) {
    let mut bench = Bench::<R>::new();
    let memory = [(); 2].map(|()| FrameMemory::new(FRAMES, 2048).unwrap());
    let [server, client] = match bench.rig.ports(memory.clone()) {
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
        let memory = [(); 2].map(|()| FrameMemory::new(FRAMES, 2048).unwrap());
        let Ok([server, client]) = wire.bench.rig.ports(memory.clone()) else { panic!("there were ports before") };
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
    on_wire_with::<R>(around, |wire| {
        wire.send(Side::Client, 0..6);
        wire.bench.settle();
        let receive = wire.receive(Side::Server, 4);
        let (frames, _) = wire.arrived(Side::Server, receive);
        assert_eq!(frames.iter().map(number).collect::<Vec<_>>(), [4, 5]);
    });
}

pub fn a_driver_may_go_with_a_port_open<R: Rig>() {
    let memory = [(); 2].map(|()| FrameMemory::new(FRAMES, 2048).unwrap());
    let mut bench = Bench::<R>::new();
    let Ok(ports) = bench.rig.ports(memory.clone()) else { return };
    for (side, port) in SIDES.into_iter().zip(ports) {
        let port = opened(&mut bench, side, port);
        bench.push(side, Op::Frame(FrameOp::Receive { port, at_most: 8, into: Vec::new() }));
    }
    bench.settle();
    drop(bench);
    memory.iter().for_each(|memory| assert_eq!(memory.counts(), all_free()));
}
