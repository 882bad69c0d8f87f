//! Lanes of one program, each with its stack, services and packets.

use corelane_lane::{Control, Homing, Kit, Lane, LaneSettings, Mesh, Order, Report as Operator, Tell, Turn as LaneTurn, Works};
use corelane_rss::{Buckets, FlowHasher, HashTypes, Key, Table};
use corelane_seam::parcel::{AbroadLimits, ParcelHome};
use corelane_seam::{Arena, Datagrams, FrameMemory, Record, Tuning};
use corelane_sim::{CardSetup, Faults, Interface, SimDriver, SimPort, Turn, WireFaults, World};
use corelane_stack::{PacketCounts, Packets, Policy, Settings, Stack, report_of};
use corelane_svc::{Cx, DatagramService, Limits, Replies, Services, Sharing, Silent};
use corelane_watch::{Description, LaneCounter, LaneName, PacketCounter as P, Page, Reader, ServiceName};
use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

pub const PORT: u16 = 60_007;

/// Keeps the lines of rules, and hears nothing else but of the port.
struct Listener(Rc<RefCell<Vec<String>>>);

impl Operator for Listener {
    fn line(&mut self, record: Record) {
        if record.text.starts_with("ipfw: ") || record.code.is_some_and(|code| code.as_str() == "CL-0043") {
            return self.0.borrow_mut().push(record.text);
        }
        // Wires of a simulation may be down for a while, somebody there may have an address, and they may carry less.
        let is_of_port = record.code.is_some_and(|code| ["CL-0026", "CL-0032", "CL-0033"].contains(&code.as_str()))
            || record.text.ends_with("is up again")
            || record.text.contains(" has an MTU of ");
        assert!(is_of_port, "a lane has something to tell: {record}");
    }
}

/// Is told of each datagram instead of its sender: of whom it is, and its payload.
pub type Heard = Rc<dyn Fn(SocketAddr, &[u8])>;

/// Sends back what it gets, unless somebody is to be told of it.
struct Echo(Option<Heard>);

impl DatagramService for Echo {
    type Talk = Silent;

    fn receive(&mut self, _cx: &mut Cx<'_>, batch: &Datagrams, replies: &mut Replies) {
        for arrival in batch.arrivals() {
            match &self.0 {
                None => replies.echo(batch, arrival),
                Some(heard) => {
                    let datagrams = batch.payload(arrival).chunks(arrival.datagram_bytes as usize);
                    datagrams.for_each(|datagram| heard(arrival.peer.inet().expect("a sender over frames"), datagram));
                }
            }
        }
    }
}

/// What the card does with flows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Card {
    /// It knows the lanes' key and table.
    Aligned,
    /// It has a key of its own: each queue brings packets of all lanes.
    Scattered,
    /// It hashes nothing: all arrives at its first queue.
    Plain,
}

/// How a program is made.
pub struct Plan {
    pub lanes: usize,
    pub seed: u64,
    pub faults: Faults,
    pub wire: WireFaults,
    pub card: Card,
    /// Frames of each lane's port.
    pub frames: usize,
    /// Packets that a lane handles in a turn at most.
    pub turn: usize,
    pub change: fn(Settings) -> Settings,
    /// Who is told of datagrams; where nobody is, they are answered.
    pub heard: Option<Heard>,
}

/// Lanes that echo at [`PORT`] of both addresses, on one card with a queue for each, and the test's machine beside it.
pub struct Program {
    pub world: World,
    pub test: Interface,
    pub card: Interface,
    pub control: Arc<Control>,
    pub lanes: Vec<Option<Lane<Stack<SimDriver>>>>,
    pub memories: Vec<FrameMemory>,
    pub arenas: Vec<Arena>,
    pub wire: WireFaults,
    pub tell: Tell<Policy>,
    /// Who looks from outside.
    pub reader: Reader,
    pub seen: Seen,
}

/// What the test sees of the lanes, beside what they send.
#[derive(Default)]
pub struct Seen {
    /// Lines of rules, and of turns that were too long.
    pub lines: Rc<RefCell<Vec<String>>>,
    /// Turns that lanes have had.
    pub turns: usize,
    /// What is counted is not looked at behind each turn.
    pub is_quick: bool,
}

/// What the stack of a lane is told.
fn settings_of(plan: &Plan, hasher: &Arc<FlowHasher>, table: &Table, lane: usize, addresses: &[IpAddr]) -> Settings {
    let mut settings = Settings::new(hasher.clone(), table.clone(), (lane, plan.lanes), 11 + lane as u128);
    if plan.card == Card::Aligned {
        settings = settings.with_card_of_key();
    }
    for address in addresses {
        settings = settings.with_network(*address, if address.is_ipv4() { 24 } else { 64 });
    }
    (plan.change)(settings)
}

impl Program {
    pub fn new(plan: &Plan, addresses: &[IpAddr]) -> Self {
        let world = World::new(plan.seed, plan.faults);
        let lanes = plan.lanes;
        let hasher = FlowHasher::new(&Key::MICROSOFT, HashTypes::ALL);
        let table = Table::even(Buckets::DEFAULT, lanes).unwrap();
        let rss = match plan.card {
            Card::Aligned => Some((hasher.clone(), table.clone())),
            Card::Scattered => Some((FlowHasher::new(&Key::SYMMETRIC, HashTypes::ALL), table.clone())),
            Card::Plain => None,
        };
        let test = world.interface(CardSetup { queues: 0, ..CardSetup::default() });
        let card = world.interface(CardSetup { queues: lanes, rss, ..CardSetup::default() });
        world.join(&[&test, &card]);
        let control = Control::new(lanes);
        let (crossings, homings) = (Mesh::between(&control, 256), Mesh::between(&control, 256));
        let hasher = Arc::new(hasher);
        let services = vec![ServiceName { name: "echo".into(), url: String::new(), counters: Vec::new() }];
        let names = (0..lanes).map(|_| LaneName::default()).collect();
        let page = Page::heap(&Description { program: "test".into(), services, lanes: names, ..Description::default() }).unwrap();
        let (tell, ears) = control.words();
        let (lanes_of, memories, arenas) = Default::default();
        let (reader, wire, seen) = (Reader::of(&page).unwrap(), plan.wire, Seen::default());
        let mut program = Self { world, test, card, control, lanes: lanes_of, memories, arenas, wire, tell, reader, seen };
        for (lane, ((crossing, homing), ear)) in crossings.into_iter().zip(homings).zip(ears).enumerate() {
            let settings = LaneSettings::new().memory_bytes(8 << 20).turn_completions(plan.turn);
            let arena = Arena::new(8 << 20).unwrap();
            let below = program.world.driver(arena.clone(), Tuning::default());
            let (memory, post) = (FrameMemory::new(plan.frames, 2048).unwrap(), ParcelHome::default());
            memory.open_abroad(lane as u16, AbroadLimits::default(), &post);
            let port = SimPort::open(&program.card, lane, below.lane(), memory.clone(), 256.min(plan.frames / 2)).unwrap();
            let of_stack = settings_of(plan, &hasher, &table, lane, addresses);
            let stack = Stack::new(below, arena.clone(), Tuning::default(), Box::new(port), &of_stack);
            let mut stack = stack.unwrap();
            let limits = Limits::new().drain_limit(Duration::from_nanos(1 << 60));
            let mut services = Services::new(16);
            let service = services.add_datagrams(Echo(plan.heard.clone()), limits, page.service(lane, 0).unwrap());
            for address in addresses {
                let sharing = Sharing { share_port: lanes > 1, v6_only: false };
                services.bind(&mut stack, service, SocketAddr::new(*address, PORT), sharing).unwrap();
            }
            let mut packets = stack.packets(crossing);
            packets.set_ear(ear);
            packets.set_row(page.packets(lane).unwrap());
            let works = Works::of(services).and(packets).and(Homing::new(post, homing));
            let operator = Box::new(Listener(program.seen.lines.clone()));
            let kit = Kit::new(lane, &program.control, arena.clone(), page.lane(lane).unwrap(), &settings, operator);
            program.lanes.push(Some(Lane::new(stack, works, kit, program.control.clone(), settings)));
            program.memories.push(memory);
            program.arenas.push(arena);
        }
        program.world.wire_faults(program.wire);
        program
    }

    /// Lets everybody go on until nothing moves within `nanoseconds`.
    pub fn pass(&mut self, nanoseconds: u64) {
        const OVER: u64 = 1 << 40;
        self.world.alarm(self.world.now() + Duration::from_nanos(nanoseconds), OVER);
        loop {
            match self.world.step().expect("the alarm is to come") {
                Turn::Lane(lane) => self.turn(lane),
                Turn::Alarm(OVER) => return,
                other => panic!("nobody asked for {other:?}"),
            }
        }
    }

    fn turn(&mut self, lane: usize) {
        self.seen.turns += 1;
        let running = self.lanes[lane].as_mut().expect("only a lane that lives has a turn");
        if running.turn() == LaneTurn::Ended {
            self.lanes[lane] = None;
        }
        if !self.seen.is_quick {
            self.each_adds_up();
        }
    }

    /// In every snapshot, handled is what was dispatched and queued less what waits.
    fn each_adds_up(&self) {
        for lane in self.lanes.iter().flatten() {
            // The work has left when its lane is about to end.
            let report = lane.work::<Packets>().map(Packets::workstreams);
            assert!(report.iter().flat_map(|report| &report.streams).all(|row| row.counts.add_up()), "{report:?}");
        }
        let report = report_of(&self.reader.snapshot(0));
        assert!(report.streams.iter().all(|row| row.counts.add_up()), "{report:?}");
        for packets in self.reader.snapshot(0).lanes.iter().filter_map(|lane| lane.packets.as_ref()) {
            let [received, sum @ ..] =
                [P::UdpReceived, P::UdpDamaged, P::UdpNoSocket, P::UdpSocketFull, P::UdpDelivered, P::UdpElsewhere]
                    .map(|counter| packets.values.get(counter));
            assert_eq!(received, sum.iter().sum::<u64>(), "{packets:?}");
        }
    }

    /// Once nothing moves, the page says what the lanes know.
    pub fn all_is_told(&self) {
        let report = report_of(&self.reader.snapshot(0));
        let lanes = self.lanes.iter().flatten().map(|lane| lane.work::<Packets>().unwrap().workstreams());
        let known: Vec<_> = lanes.flat_map(|known| known.streams).collect();
        assert_eq!(report.streams, known);
        let counts = (0..self.lanes.len()).map(|lane| self.counts(lane).datagrams_in).sum::<u64>();
        let lanes = self.reader.snapshot(0).lanes;
        assert_eq!(lanes.iter().map(|lane| lane.packets.as_ref().unwrap().values.get(P::UdpDelivered)).sum::<u64>(), counts);
    }

    /// How often lanes have gone to sleep.
    pub fn sleeps(&self) -> u64 {
        self.reader.snapshot(0).lanes.iter().map(|lane| lane.values.get(LaneCounter::Sleeps)).sum()
    }

    pub fn counts(&self, lane: usize) -> PacketCounts {
        self.lanes[lane].as_ref().unwrap().work::<Packets>().unwrap().counts()
    }

    /// Drains, and looks that everything was given back.
    pub fn close(self) {
        let memories = self.memories.clone();
        self.close_while(10_000_000, |_| {});
        memories.iter().for_each(|memory| assert_eq!(memory.counts().abroad, 0));
    }

    /// The same, while that happens every so many nanoseconds. What is on its way between lanes as one of them ends goes with it.
    pub fn close_while(mut self, nanoseconds: u64, mut happens: impl FnMut(&mut Self)) {
        self.world.wire_faults(WireFaults::default());
        self.control.give(Order::Drain);
        for _ in 0..100_000 {
            if self.lanes.iter().all(Option::is_none) {
                break;
            }
            happens(&mut self);
            self.pass(nanoseconds);
        }
        assert!(self.lanes.iter().all(Option::is_none), "lanes did not end");
        for (memory, arena) in self.memories.iter().zip(&self.arenas) {
            let counts = memory.counts();
            assert_eq!((counts.free + counts.abroad, arena.used()), (memory.frames(), 0), "{counts:?}");
        }
        self.world.check().unwrap();
    }
}
