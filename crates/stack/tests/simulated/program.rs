//! Lanes of one program, each with its stack, services and packets.

use corelane_lane::{Control, Homing, Kit, Lane, LaneSettings, Mesh, Order, Report as Operator, Turn as LaneTurn, Works};
use corelane_rss::{Buckets, FlowHasher, HashTypes, Key, Table};
use corelane_seam::parcel::{AbroadLimits, Post};
use corelane_seam::{Arena, Datagrams, FrameMemory, Tuning};
use corelane_sim::{CardSetup, Faults, Interface, SimDriver, SimPort, Turn, WireFaults, World};
use corelane_stack::{Counts, Packets, Settings, Stack};
use corelane_svc::{Cx, DatagramService, Limits, Replies, Services, Sharing, Silent};
use corelane_watch::{Description, LaneName, Page, ServiceName};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

pub const PORT: u16 = 60_007;

struct Nobody;

impl Operator for Nobody {
    fn line(&mut self, line: &str) {
        panic!("a lane has something to tell: {line}");
    }

    fn dropped(&self) -> u64 {
        0
    }
}

/// Sends back what it gets.
struct Echo;

impl DatagramService for Echo {
    type Talk = Silent;

    fn receive(&mut self, _cx: &mut Cx<'_>, batch: &Datagrams, replies: &mut Replies) {
        batch.arrivals().iter().for_each(|arrival| replies.echo(batch, arrival));
    }
}

/// How a program is made.
pub struct Plan {
    pub lanes: usize,
    pub seed: u64,
    pub faults: Faults,
    pub wire: WireFaults,
    /// Whether the card knows the lanes' table; else all arrives at its first queue.
    pub is_aligned: bool,
    pub change: fn(Settings) -> Settings,
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
}

impl Program {
    pub fn new(plan: &Plan, addresses: &[IpAddr]) -> Self {
        let world = World::new(plan.seed, plan.faults);
        let lanes = plan.lanes;
        let hasher = FlowHasher::new(&Key::MICROSOFT, HashTypes::ALL);
        let table = Table::even(Buckets::DEFAULT, lanes).unwrap();
        let rss = plan.is_aligned.then(|| (hasher.clone(), table.clone()));
        let test = world.interface(CardSetup { queues: 0, ..CardSetup::default() });
        let card = world.interface(CardSetup { queues: lanes, rss, ..CardSetup::default() });
        world.join(&[&test, &card]);
        let control = Control::new(lanes);
        let (crossings, homings) = (Mesh::between(&control, 256), Mesh::between(&control, 256));
        let hasher = Arc::new(hasher);
        let services = vec![ServiceName { name: "echo".into(), url: String::new(), counters: Vec::new() }];
        let names = (0..lanes).map(|_| LaneName::default()).collect();
        let page = Page::heap(&Description { program: "test".into(), services, lanes: names, ..Description::default() }).unwrap();
        let mut program =
            Self { world, test, card, control, lanes: Vec::new(), memories: Vec::new(), arenas: Vec::new(), wire: plan.wire };
        for (lane, (crossing, homing)) in crossings.into_iter().zip(homings).enumerate() {
            let settings = LaneSettings::new().memory_bytes(8 << 20);
            let arena = Arena::new(8 << 20).unwrap();
            let below = program.world.driver(arena.clone(), Tuning::default());
            let (memory, post) = (FrameMemory::new(1024, 2048).unwrap(), Post::default());
            memory.open_abroad(lane as u16, AbroadLimits::default(), &post);
            let port = SimPort::open(&program.card, lane, below.lane(), memory.clone(), 256).unwrap();
            let mut of_stack = Settings::new(hasher.clone(), table.clone(), (lane, lanes), 11 + lane as u128);
            for address in addresses {
                of_stack = of_stack.with_network(*address, if address.is_ipv4() { 24 } else { 64 });
            }
            let stack = Stack::new(below, arena.clone(), Tuning::default(), Box::new(port), &(plan.change)(of_stack));
            let mut stack = stack.unwrap();
            let limits = Limits::new().drain_limit(Duration::from_nanos(1 << 60));
            let mut services = Services::new(16);
            let service = services.add_datagrams(Echo, limits, page.service(lane, 0).unwrap());
            for address in addresses {
                let sharing = Sharing { share_port: lanes > 1, v6_only: false };
                services.bind(&mut stack, service, SocketAddr::new(*address, PORT), sharing).unwrap();
            }
            let packets = stack.packets(crossing);
            let works = Works::of(services).and(packets).and(Homing::new(post, homing));
            let kit = Kit::new(lane, &program.control, arena.clone(), page.lane(lane).unwrap(), &settings, Box::new(Nobody));
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
        self.world.alarm(self.world.now() + nanoseconds, OVER);
        loop {
            match self.world.step().expect("the alarm is to come") {
                Turn::Lane(lane) => self.turn(lane),
                Turn::Alarm(OVER) => return,
                other => panic!("nobody asked for {other:?}"),
            }
        }
    }

    fn turn(&mut self, lane: usize) {
        let running = self.lanes[lane].as_mut().expect("only a lane that lives has a turn");
        if running.turn() == LaneTurn::Ended {
            self.lanes[lane] = None;
        }
        self.each_adds_up();
    }

    /// In every snapshot, handled is what was dispatched and queued less what waits.
    fn each_adds_up(&self) {
        for lane in self.lanes.iter().flatten() {
            // The work has left when its lane is about to end.
            let report = lane.work::<Packets>().map(Packets::workstreams);
            assert!(report.iter().flat_map(|report| &report.streams).all(|row| row.counts.add_up()), "{report:?}");
        }
    }

    pub fn counts(&self, lane: usize) -> Counts {
        self.lanes[lane].as_ref().unwrap().work::<Packets>().unwrap().counts()
    }

    /// Drains, and looks that everything was given back.
    pub fn close(mut self) {
        self.world.wire_faults(WireFaults::default());
        self.control.give(Order::Drain);
        for _ in 0..200 {
            if self.lanes.iter().all(Option::is_none) {
                break;
            }
            self.pass(10_000_000);
        }
        assert!(self.lanes.iter().all(Option::is_none), "lanes did not end");
        for (memory, arena) in self.memories.iter().zip(&self.arenas) {
            let counts = memory.counts();
            assert_eq!((counts.free, arena.used()), (memory.frames(), 0), "{counts:?}");
        }
        self.world.check().unwrap();
    }
}
