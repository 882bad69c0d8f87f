//! After the first datagrams the stack allocates nothing for one, whole or in fragments.

use corelane_rss::{Buckets, FlowHasher, HashType, HashTypes, Key, Table};
use corelane_seam::{
    Address, Arena, Bell, Bind, Completion, DatagramOp, DatagramOutcome, Datagrams, Driver, DriverCounters, Fault, Frame,
    FrameMemory, FrameOp, FrameOutcome, Handle, Link, Listen, Op, Outcome, Port, PortFacts, PortId, PortKind, Reason, Socket,
    Taken, Trains, Tuning, Wait,
};
use corelane_stack::{ReversePath, Settings, Stack};
use corelane_wire::packet::arp::{self, Operation};
use corelane_wire::packet::ethernet::{self, Mac};
use corelane_wire::packet::ipv4::{self, Fragment, Offset};
use corelane_wire::packet::{EtherType, IpProtocol, udp};
use corelane_wire::xdr::Writer;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::net::SocketAddr;
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const OURS: Mac = Mac([2, 0, 0, 0, 0, 1]);
const THEIRS: Mac = Mac([2, 0, 0, 0, 0, 2]);
const BATCH: usize = 32;

/// An interface at which the same frames arrive again and again, and where whatever is sent vanishes.
#[derive(Debug)]
struct Circle {
    memory: FrameMemory,
    frames: Vec<Vec<u8>>,
    next: usize,
    sent: u64,
}

impl Port for Circle {
    fn facts(&self) -> PortFacts {
        PortFacts {
            link: Link { interface: 1, mac: OURS.0 },
            queue: 0,
            frame_bytes_max: 1514,
            pieces_max: 1,
            kind: PortKind::Simulated,
            leaves_sums: false,
        }
    }

    fn memory(&self) -> &FrameMemory {
        &self.memory
    }

    fn receive(&mut self, _now: u64, at_most: usize, into: &mut Vec<Frame>) -> Result<(), Fault> {
        for _ in 0..at_most.min(BATCH) {
            let Some(mut frame) = self.memory.frame() else { break };
            frame.append(&self.frames[self.next]);
            self.next = (self.next + 1) % self.frames.len();
            into.push(frame);
        }
        Ok(())
    }

    fn has_more(&self) -> bool {
        true
    }

    fn send(&mut self, _now: u64, frames: &mut Vec<Frame>) -> Result<Taken, Fault> {
        for fragment in frames.iter().filter(|frame| is_fragment(frame)) {
            assert!(fragment.facts.hash.is_some_and(|hash| hash.hash_type == HashType::Udp4), "a fragment has its flow's hash");
        }
        let taken = frames.drain(..).count() as u64;
        self.sent += taken;
        Ok(Taken { taken, refused: 0 })
    }

    fn released(&mut self, _now: u64) -> u64 {
        self.sent
    }
}

/// Whether a frame of IPv4 is one of several.
fn is_fragment(frame: &[u8]) -> bool {
    frame[12..14] == [8, 0] && (u16::from_be_bytes([frame[20], frame[21]]) & 0x3fff) != 0
}

struct Still;

impl Bell for Still {
    fn ring(&self) {}
}

/// A driver that drives one port, and nothing else.
struct Below {
    port: Option<Box<dyn Port>>,
    asked: Vec<(Handle, Op)>,
}

const PORT: PortId = PortId { index: 0, generation: 0 };

impl Driver for Below {
    fn name(&self) -> &'static str {
        "circle"
    }
    fn now(&self) -> u64 {
        1_000_000
    }
    fn time_of_day(&self) -> u64 {
        0
    }
    fn listen(&mut self, _: &Listen) -> Result<Socket, Fault> {
        Err(Fault::of(Reason::Unsupported))
    }
    fn bind(&mut self, _: &Bind) -> Result<Socket, Fault> {
        Err(Fault::of(Reason::Unsupported))
    }
    fn local_address(&self, _: Socket) -> Result<Address, Fault> {
        Err(Fault::of(Reason::Unsupported))
    }
    fn refuse_new(&mut self, _: Socket) {}
    fn finish(&mut self, _: Socket) {}
    fn readable_bytes(&self, _: Socket) -> usize {
        0
    }
    fn unsent_bytes(&self, _: Socket) -> Option<usize> {
        None
    }
    fn broken(&self, _: Socket, _: bool) -> Option<Fault> {
        None
    }
    fn dropped(&self, _: Socket) -> Option<u32> {
        None
    }
    fn push(&mut self, handle: Handle, op: Op) {
        self.asked.push((handle, op));
    }
    fn abandon(&mut self, _: u8) {}
    fn rest(&mut self, _: u64, _: &mut Vec<Completion>) -> u64 {
        unreachable!("no part of the CPU is kept for others")
    }
    fn collect(&mut self, _: Wait, _: usize, completions: &mut Vec<Completion>) {
        for (handle, op) in self.asked.drain(..) {
            let outcome = match op {
                Op::Frame(FrameOp::Open(port)) => {
                    let facts = port.facts();
                    self.port = Some(port);
                    FrameOutcome::Opened { port: PORT, facts }
                }
                Op::Frame(FrameOp::Receive { at_most, mut into, .. }) => {
                    let port = self.port.as_mut().expect("it is open");
                    port.receive(0, at_most, &mut into).expect("it is up");
                    FrameOutcome::Arrived { frames: into, fault: None }
                }
                Op::Frame(FrameOp::Send { mut frames, .. }) => {
                    let port = self.port.as_mut().expect("it is open");
                    let Taken { taken, refused } = port.send(0, &mut frames).expect("it is up");
                    FrameOutcome::Departed { frames, taken, refused, fault: None }
                }
                other => panic!("nobody asks for {other:?}"),
            };
            completions.push(Completion::last(handle, Outcome::Frame(outcome)));
        }
    }
    fn offload_max(&self) -> usize {
        0
    }
    fn bell(&self) -> Arc<dyn Bell> {
        Arc::new(Still)
    }
    fn counters(&self) -> DriverCounters {
        DriverCounters::default()
    }
}

fn frame(protocol: EtherType, write: impl FnOnce(&mut Writer<'_>) -> Result<(), corelane_wire::Error>) -> Vec<u8> {
    let mut bytes = vec![0; 1514];
    let mut writer = Writer::new(&mut bytes);
    let header = ethernet::Header { destination: OURS, source: THEIRS, protocol };
    header.emit(&mut writer).and_then(|()| write(&mut writer)).expect("it fits");
    writer.written().to_vec()
}

/// A datagram in pieces of at most `part` bytes.
fn datagram(destination: [u8; 4], bytes: usize, part: usize, name: u16) -> Vec<Vec<u8>> {
    let head = |offset, more| ipv4::Header {
        traffic: Default::default(),
        identification: name,
        fragment: Fragment { offset, more, keep_whole: false },
        hops: 64,
        protocol: IpProtocol::UDP,
        source: [10, 0, 0, 2].into(),
        destination: destination.into(),
        options: Default::default(),
    };
    let payload = vec![7; bytes];
    let mut whole = vec![0; 8 + bytes];
    let mut writer = Writer::new(&mut whole);
    let addresses = head(Offset::START, false).addresses();
    let header = udp::Header { source: 5000, destination: 60_007 };
    header.emit(&addresses, &payload, &mut writer).and_then(|()| writer.put(&payload)).expect("it fits");
    let pieces = whole.chunks(part).enumerate();
    pieces
        .map(|(number, piece)| {
            let offset = Offset::new(number * part).expect("a multiple of eight");
            let more = (number + 1) * part < whole.len();
            frame(EtherType::IPV4, |to| head(offset, more).emit(piece.len(), to).and_then(|()| to.put(piece)))
        })
        .collect()
}

/// Echoes so many batches; returns how many datagrams came back.
fn echo(stack: &mut Stack<Below>, socket: Socket, place: &mut (Option<Datagrams>, Option<Trains>), rounds: usize) -> u64 {
    let (receive, send) = (Handle::new(0, 1, 0).of(1), Handle::new(0, 2, 0).of(1));
    let (mut completions, mut echoed) = (Vec::with_capacity(16), 0);
    for _ in 0..rounds {
        if let Some(into) = place.0.take() {
            stack.push(receive, DatagramOp::Receive { socket, into }.into());
        }
        stack.collect(Wait::No, 64, &mut completions);
        for completion in completions.drain(..) {
            match completion.outcome {
                Outcome::Datagram(DatagramOutcome::Arrived { mut batch, .. }) => {
                    let mut trains = place.1.take().expect("one send after the other");
                    for arrival in batch.arrivals() {
                        assert!(trains.add(&arrival.peer, None, 0, batch.share(arrival), arrival.datagram_bytes as usize));
                    }
                    batch.clear();
                    place.0 = Some(batch);
                    stack.push(send, DatagramOp::Send { socket, trains }.into());
                }
                Outcome::Datagram(DatagramOutcome::Departed { trains, datagrams, refused: 0, .. }) => {
                    echoed += u64::from(datagrams);
                    place.1 = Some(trains);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    echoed
}

// One test in this program, so that no other thread allocates meanwhile.
#[test]
fn x_08_a_datagram_costs_no_allocation_after_warm_up_and_its_fragments_have_its_hash() {
    let memory = FrameMemory::new(1024, 2048).expect("there is memory for the test");
    let arena = Arena::new(8 << 20).expect("there is memory for the test");
    let request = arp::Message {
        operation: Operation::Request,
        sender_mac: THEIRS,
        sender: [10, 0, 0, 2].into(),
        target_mac: Mac([0; 6]),
        target: [10, 0, 0, 1].into(),
    };
    let mut frames = vec![frame(EtherType::ARP, |to| request.emit(to))];
    for name in 0..20 {
        frames.extend(datagram([10, 0, 0, 1], 510, 1480, name));
        frames.extend(datagram([10, 0, 0, 1], 3000, 1400, 100 + name));
        // Two that are somebody else's, and go on to him.
        (0..2).for_each(|_| frames.extend(datagram([192, 0, 2, 9], 510, 1480, name)));
    }
    let hasher = Arc::new(FlowHasher::new(&Key::MICROSOFT, HashTypes::ALL));
    let table = Table::even(Buckets::DEFAULT, 1).expect("one lane");
    let settings = Settings::new(hasher, table, (0, 1), 5).with_network([10, 0, 0, 1].into(), 24);
    let router = [10, 0, 0, 2].into();
    let settings = settings.with_route([192, 0, 2, 0].into(), 24, router).with_forwarding(ReversePath::Strict);
    let port = Box::new(Circle { memory, frames, next: 0, sent: 0 });
    let below = Below { port: None, asked: Vec::new() };
    let mut stack = Stack::new(below, arena, Tuning::default(), port, &settings).expect("settings that can be");
    let address = SocketAddr::from(([10, 0, 0, 1], 60_007)).into();
    let (share_port, v6_only) = (false, false);
    let bind = Bind { address, peer: None, share_port, v6_only, receive_buffer_bytes: 1 << 20, send_buffer_bytes: 0 };
    let socket = stack.bind(&bind).expect("nobody has it");
    let mut place = (Some(Datagrams::new()), Some(Trains::for_batch()));
    echo(&mut stack, socket, &mut place, 200);
    let before = stack.counts().forwarded;
    // The thread that began this test may still be about its own business: it is over before the last of these.
    let windows: [_; 3] = std::array::from_fn(|_| {
        let region = Region::new(ALLOCATOR);
        let echoed = echo(&mut stack, socket, &mut place, 500);
        let allocations = region.change().allocations;
        assert!(echoed > 2_000, "{echoed} datagrams");
        allocations
    });
    // The list of completions is the test's own.
    assert_eq!(windows.iter().min(), Some(&1), "{windows:?}");
    assert!(stack.counts().fragments_out > 1_000);
    assert!(stack.counts().forwarded > before + 2_000, "{}", stack.counts().forwarded - before);
}
