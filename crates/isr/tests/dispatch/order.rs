//! No flow is reordered: several lanes that place packets on each other, every policy, and changes while they run.
//!
//! `CORELANE_DISPATCH_PACKETS` sets how many packets.

use corelane_isr::dispatch::{Dispatch, Facts, Isr, Number, PacketStep, Placed, Placement, Registration};
use corelane_seam::Random;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

const LANES: usize = 4;
const FLOWS: usize = 64;
const PACKETS: u64 = 1_000_000;

/// The third packet of flow 7, and so on. A flow that comes by several ports is numbered where it is placed, for only there it has an order.
#[derive(Debug)]
struct Packet {
    flow: usize,
    sequence: Rc<Cell<u64>>,
}

/// What each lane asks to find a flow's lane.
type Table = Rc<RefCell<Vec<usize>>>;

/// Lanes, the channels between them, and what each flow has sent and seen.
struct World {
    isrs: Vec<Isr<Packet>>,
    tables: Vec<Table>,
    /// Packets on their way, by lane that gets them: who placed them.
    channels: Vec<VecDeque<(Placed, Number, Packet)>>,
    /// What is on its way home, by lane.
    homes: Vec<VecDeque<(Number, Placed)>>,
    packets: u64,
    numbered: [u64; FLOWS],
    seen: [u64; FLOWS],
    run: u64,
    dropped: u64,
    /// Whether some flows come by several ports.
    has_wide: bool,
    /// A handler of one protocol passes some packets on to another.
    nested: usize,
}

const NUMBERS: [Number; 2] = [Number::IP, Number::IP_DIRECT];

impl World {
    fn new(dispatch: Dispatch, has_wide: bool) -> Self {
        let tables: Vec<Table> = (0..LANES).map(|_| Rc::new(RefCell::new((0..FLOWS).collect()))).collect();
        let isrs = tables.iter().enumerate().map(|(lane, table)| {
            let mut isr = Isr::new(lane, LANES, dispatch);
            for number in NUMBERS {
                let table = table.clone();
                let choose = move |packet: &Packet| Some(table.borrow()[packet.flow]);
                let (placement, choose) = (Placement::Lane, Some(Box::new(choose) as _));
                isr.register(Registration { placement, choose, ..Registration::new("ip", number) }).unwrap();
            }
            isr.set_share(3);
            isr
        });
        let isrs = isrs.collect();
        let (channels, homes) = ((0..LANES).map(|_| VecDeque::new()).collect(), (0..LANES).map(|_| VecDeque::new()).collect());
        Self {
            isrs,
            tables,
            channels,
            homes,
            packets: 0,
            numbered: [0; FLOWS],
            seen: [0; FLOWS],
            run: 0,
            dropped: 0,
            has_wide,
            nested: 0,
        }
    }

    /// The protocol and the port of a flow: they stay.
    fn fixed(flow: usize) -> (Number, usize) {
        (NUMBERS[flow % 2], flow / 2 % LANES)
    }

    fn send(&mut self, flow: usize, depth: usize, random: &mut Random) {
        let (number, lane) = Self::fixed(flow);
        let is_wide = self.is_wide(flow);
        let lane = if is_wide { random.index(LANES) } else { lane };
        let sequence = Rc::new(Cell::new(0));
        if !is_wide {
            self.number(flow, &sequence);
        }
        self.packets += 1;
        let step =
            self.isrs[lane].arrive(number, Packet { flow, sequence: sequence.clone() }, Facts { flow: None, source: lane });
        if is_wide && matches!(step, PacketStep::Run(_) | PacketStep::Queued) {
            self.number(flow, &sequence);
        }
        self.carry_out(lane, step, depth, random);
    }

    /// Whether a flow comes by several ports, as one does of which some datagrams come in fragments.
    fn is_wide(&self, flow: usize) -> bool {
        self.has_wide && flow % 16 == 5
    }

    fn number(&mut self, flow: usize, sequence: &Cell<u64>) {
        self.numbered[flow] += 1;
        sequence.set(self.numbered[flow]);
    }

    fn carry_out(&mut self, lane: usize, step: PacketStep<Packet>, depth: usize, random: &mut Random) {
        match step {
            PacketStep::Run(run) => {
                let Packet { flow, sequence } = run.packet;
                let sequence = sequence.get();
                assert!(sequence > self.seen[flow], "flow {flow}: {sequence} after {}", self.seen[flow]);
                self.seen[flow] = sequence;
                self.run += 1;
                // A handler from which other packets come, of other flows of the same port.
                if depth < 2 && random.index(8) == 0 {
                    self.nested += 1;
                    let other = (random.index(FLOWS / 8) * 8 + 2 * lane + random.index(2)) % FLOWS;
                    if other != flow {
                        self.send(other, depth + 1, random);
                    }
                }
                self.isrs[lane].finished(run.mark);
                if run.placed.lane != lane {
                    self.homes[run.placed.lane].push_back((run.number, run.placed));
                }
            }
            PacketStep::Elsewhere { lane: to, number, packet, placed } => self.channels[to].push_back((placed, number, packet)),
            PacketStep::Dropped(_) => self.dropped += 1,
            PacketStep::Queued | PacketStep::Parked | PacketStep::Drained(_) => {}
            PacketStep::Unregistered(packet) => panic!("{packet:?}"),
        }
        self.isrs.iter().for_each(|isr| assert!(isr.protocols().all(|(_, _, counts)| counts.add_up())));
    }

    /// One thing that one lane does; whether there was something.
    fn turn(&mut self, lane: usize, what: usize, random: &mut Random) -> bool {
        match what {
            0 => self.homes[lane].pop_front().is_some_and(|(number, placed)| {
                self.isrs[lane].settled(number, placed, 1);
                true
            }),
            1 => self.channels[lane].pop_front().is_some_and(|(placed, number, packet)| {
                if self.is_wide(packet.flow) {
                    self.number(packet.flow, &packet.sequence);
                }
                if let PacketStep::Dropped(_) = self.isrs[lane].admit(number, packet, placed) {
                    self.dropped += 1;
                    self.homes[placed.lane].push_back((number, placed));
                }
                true
            }),
            _ => {
                let step = if what == 2 { self.isrs[lane].help() } else { self.isrs[lane].next_step() };
                step.is_some_and(|step| {
                    self.carry_out(lane, step, 0, random);
                    true
                })
            }
        }
    }

    /// Changes something, live.
    fn change(&mut self, random: &mut Random) {
        let lane = random.index(LANES);
        let dispatch = [Dispatch::Deferred, Dispatch::Hybrid, Dispatch::Direct][random.index(3)];
        match random.index(8) {
            0 => self.isrs[lane].set_dispatch(dispatch),
            1 => self.isrs[lane].set_dispatch_of(NUMBERS[random.index(2)], Some(dispatch)).unwrap(),
            2 => self.isrs[lane].set_dispatch_of(NUMBERS[random.index(2)], None).unwrap(),
            3 => {
                self.tables[lane].borrow_mut()[random.index(FLOWS)] = random.index(LANES);
                self.isrs[lane].begin_generation();
            }
            // Half of all changes: a few flows alone.
            _ => {
                let first = random.index(FLOWS);
                let moved = first..FLOWS.min(first + 1 + random.index(4));
                moved.clone().for_each(|flow| self.tables[lane].borrow_mut()[flow] = random.index(LANES));
                self.isrs[lane].begin_generation_of(move |packet| moved.contains(&packet.flow));
            }
        }
    }

    /// Runs what is left.
    fn drain(&mut self, random: &mut Random) {
        while (0..LANES).any(|lane| (0..4).any(|what| self.turn(lane, what, random))) {}
    }
}

fn packets() -> u64 {
    std::env::var("CORELANE_DISPATCH_PACKETS").map_or(PACKETS, |text| text.parse().unwrap())
}

fn run(dispatch: Dispatch, packets: u64, changes: usize) -> World {
    let (mut world, mut random) = (World::new(dispatch, changes == 0), Random::new(0x5eed + changes as u64));
    while world.packets < packets {
        // In trains, as cards give them.
        let flow = random.index(FLOWS);
        (0..1 + random.index(4)).for_each(|_| world.send(flow, 0, &mut random));
        for _ in 0..32 {
            world.turn(random.index(LANES), random.index(4), &mut random);
        }
        if changes > 0 && random.index(changes) == 0 {
            world.change(&mut random);
        }
    }
    world.drain(&mut random);
    assert_eq!(world.run + world.dropped, world.packets, "each packet was run once, or dropped");
    assert!(world.run > 9 * world.dropped && world.nested > 0, "{} run, {} dropped", world.run, world.dropped);
    assert!(world.channels.iter().all(VecDeque::is_empty) && world.homes.iter().all(VecDeque::is_empty));
    world
}

#[test]
fn n_06_no_flow_is_reordered_under_hybrid_with_four_producers() {
    let world = run(Dispatch::Hybrid, packets(), 0);
    let (mut at_once, mut later) = (0, 0);
    for (_, _, counts) in world.isrs.iter().flat_map(|isr| isr.protocols()) {
        (at_once, later) = (at_once + counts.hybrid, later + counts.queued);
    }
    assert!(at_once > 0 && later > 0, "{at_once} at once, {later} later: both happen");
    println!("{} packets: {at_once} at once, {later} later, {} dropped", world.run, world.dropped);
}

#[test]
fn n_05_no_flow_is_reordered_across_changes_of_policy_and_of_lanes() {
    for dispatch in [Dispatch::Deferred, Dispatch::Hybrid, Dispatch::Direct] {
        for changes in [3, 50, 1_000] {
            run(dispatch, packets() / 10, changes);
        }
    }
}
