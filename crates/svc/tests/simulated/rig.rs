//! Lanes with services in a simulated world, and how a test lets them run.

use corelane_lane::{Control, Ear, Kit, Lane, LaneSettings, Order, Report, Tell, Turn as LaneTurn, Works};
use corelane_seam::{Arena, Tuning};
use corelane_sim::{Peer, SimDriver, Turn, World};
use corelane_svc::{Exchange, LANE_CONNECTIONS_MAX, Limits, Services, Sharing, Steer, StreamService};
use corelane_watch::{
    CounterName, Declaration, Description, LaneCounter, LaneName, Page, Reader, ServiceCounter, ServiceName, Snapshot,
};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// A millisecond, in nanoseconds.
pub const MS: u64 = 1_000_000;
/// A second, in nanoseconds.
pub const S: u64 = 1_000 * MS;
/// Steps after which a world is said never to come to rest.
const STEPS_MAX: usize = 4_000_000;
/// The token of the alarm that ends a span of time.
const SPAN_IS_OVER: u64 = u64::MAX;

/// Where the service under test listens.
pub fn address() -> SocketAddr {
    at(7)
}

/// The host of the lanes, at another port.
pub fn at(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], port))
}

/// A client's host.
pub fn client(number: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1 + (number % 200) as u8], 0))
}

/// Limits without any in time: for runs whose clock jumps.
pub fn patient() -> Limits {
    let never = 1 << 60;
    Limits {
        receive_rate_min: 0,
        idle_limit: 0,
        read_limit: 0,
        send_limit: 0,
        answer_limit: 0,
        drain_limit: never,
        ..Limits::default()
    }
}

/// Everybody in a world who is no lane.
pub trait Play {
    /// Somebody has news.
    fn news(&mut self, world: &World, turn: Turn);
    /// Whether the run is over.
    fn is_over(&self) -> bool;
}

/// Peers that do nothing by themselves.
pub struct Nobody;

impl Play for Nobody {
    fn news(&mut self, _: &World, _: Turn) {}

    fn is_over(&self) -> bool {
        false
    }
}

/// How the lanes of a rig are made.
#[derive(Clone)]
pub struct Plan {
    pub lanes: usize,
    pub settings: LaneSettings,
    pub tuning: Tuning,
    /// The cap of a lane over all its services.
    pub connections_max: u32,
    pub services: usize,
    /// What each of them counts of its own.
    pub counters: &'static [Declaration],
}

impl Plan {
    /// Lanes with one service and 16 MiB each.
    pub fn lanes(lanes: usize) -> Self {
        let settings = LaneSettings { memory_bytes: 16 << 20, ..LaneSettings::default() };
        Self { lanes, settings, tuning: Tuning::default(), connections_max: LANE_CONNECTIONS_MAX, services: 1, counters: &[] }
    }

    pub fn memory(self, memory_bytes: usize) -> Self {
        Self { settings: LaneSettings { memory_bytes, ..self.settings }, ..self }
    }
}

/// Whom the lanes tell what an operator should see, as long as somebody reads it.
struct Operator {
    reports: Rc<RefCell<Vec<String>>>,
    is_gone: Rc<Cell<bool>>,
    dropped: u64,
}

impl Report for Operator {
    fn line(&mut self, line: &str) {
        match self.is_gone.get() {
            true => self.dropped += 1,
            false => self.reports.borrow_mut().push(line.to_string()),
        }
    }

    fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// Lanes of one program in a world.
pub struct Rig {
    pub world: World,
    pub control: Arc<Control>,
    /// Where the services of all lanes find each other.
    pub exchange: Exchange,
    /// Speaks to the services of each lane.
    pub tell: Tell<Steer>,
    pub page: Page,
    /// What the lanes told their operator.
    pub reports: Rc<RefCell<Vec<String>>>,
    /// Nobody reads what they tell: lines are dropped.
    pub operator_is_gone: Rc<Cell<bool>>,
    pub arenas: Vec<Arena>,
    lanes: Vec<Option<Lane<SimDriver>>>,
}

/// What a step of the world was.
#[derive(PartialEq)]
enum Step {
    Rest,
    SpanIsOver,
    News,
}

impl Rig {
    /// Lanes after `plan`; `add` gives each its services and listens.
    pub fn new(world: &World, plan: &Plan, add: impl Fn(usize, &mut Services, &mut SimDriver, &Page)) -> Self {
        let counters = CounterName::all(plan.counters);
        let name = |number: usize| ServiceName { name: number.to_string(), url: String::new(), counters: counters.clone() };
        let page = Page::heap(&Description {
            program: "simulation".into(),
            services: (0..plan.services).map(name).collect(),
            lanes: (0..plan.lanes).map(|_| LaneName::default()).collect(),
            ..Description::default()
        });
        let (page, control) = (page.unwrap(), Control::new(plan.lanes));
        let (reports, operator_is_gone) = Default::default();
        let ((tell, ears), world) = (control.words(), world.clone());
        let exchange = Exchange::new(&control, plan.settings.channel_messages);
        let mut rig =
            Self { world, control, exchange, tell, page, reports, operator_is_gone, arenas: Vec::new(), lanes: Vec::new() };
        for ear in ears {
            rig.add_lane(ear, plan, &add);
        }
        rig
    }

    fn add_lane(&mut self, ear: Ear<Steer>, plan: &Plan, add: impl Fn(usize, &mut Services, &mut SimDriver, &Page)) {
        let number = self.lanes.len();
        let arena = Arena::new(plan.settings.memory_bytes).unwrap();
        let mut driver = self.world.driver(arena.clone(), plan.tuning);
        let mut services = Services::new(plan.connections_max);
        services.set_exchange(number, self.exchange.clone());
        services.set_ear(ear);
        add(number, &mut services, &mut driver, &self.page);
        let row = self.page.lane(number).unwrap();
        let report = Box::new(Operator { reports: self.reports.clone(), is_gone: self.operator_is_gone.clone(), dropped: 0 });
        let kit = Kit::new(number, &self.control, arena.clone(), row, &plan.settings, report);
        self.lanes.push(Some(Lane::new(driver, Works::of(services), kit, self.control.clone(), plan.settings)));
        self.arenas.push(arena);
    }

    /// Lanes with one service over connections that listens at [`address`].
    pub fn serving<S: StreamService>(world: &World, plan: &Plan, limits: Limits, make: impl Fn(usize) -> S) -> Self {
        let plan = Plan { counters: S::COUNTERS, ..plan.clone() };
        Self::new(world, &plan, |lane, services, driver, page| {
            let service = services.add_stream(make(lane), limits, page.service(lane, 0).unwrap());
            services.listen(driver, service, address(), Sharing { share_port: true, v6_only: false }).unwrap();
        })
    }

    fn turn(&mut self, lane: usize) {
        if let Some(running) = self.lanes[lane].as_mut()
            && running.turn() == LaneTurn::Ended
        {
            self.lanes[lane] = None;
        }
    }

    /// A lane breaks: it is dropped where it stands.
    pub fn break_lane(&mut self, lane: usize) {
        self.lanes[lane] = None;
    }

    /// The first lane that has a connection.
    pub fn lane_of_first_connection(&self) -> usize {
        let has_some =
            |lane: &Option<Lane<SimDriver>>| lane.as_ref().is_some_and(|lane| lane.work::<Services>().unwrap().connections() > 0);
        self.lanes.iter().position(has_some).expect("a connection is open")
    }

    pub fn has_ended(&self) -> bool {
        self.lanes.iter().all(Option::is_none)
    }

    /// The connections of all lanes.
    pub fn connections(&self) -> usize {
        self.lanes.iter().flatten().map(|lane| lane.work::<Services>().unwrap().connections()).sum()
    }

    pub fn snapshot(&self) -> Snapshot {
        Reader::of(&self.page).unwrap().snapshot(0)
    }

    /// A counter of the first service, over all lanes.
    pub fn count(&self, counter: ServiceCounter) -> u64 {
        self.count_of(0, counter)
    }

    pub fn count_of(&self, service: usize, counter: ServiceCounter) -> u64 {
        self.snapshot().services[service].values.get(counter)
    }

    /// A counter of the first service by its name, be it one that all have or one of its own, over all lanes.
    pub fn named(&self, name: &str) -> u64 {
        self.named_of(0, name)
    }

    pub fn named_of(&self, service: usize, name: &str) -> u64 {
        let snapshot = self.snapshot();
        snapshot.services[service].values.all().find(|value| value.name == name).expect("it is declared").value
    }

    /// A counter of the lanes, in sum.
    pub fn lane_count(&self, counter: LaneCounter) -> u64 {
        self.snapshot().total.get(counter)
    }

    /// A new connection to [`address`] from client `number`.
    pub fn connect(&self, number: usize) -> Peer {
        self.world.connect(client(number), address()).unwrap()
    }

    fn step(&mut self, cast: &mut impl Play) -> Step {
        match self.world.step() {
            None => return Step::Rest,
            Some(Turn::Lane(lane)) => self.turn(lane),
            Some(Turn::Alarm(SPAN_IS_OVER)) => return Step::SpanIsOver,
            Some(turn) => cast.news(&self.world, turn),
        }
        Step::News
    }

    /// Lets everybody run until the cast is done; false if the world came to rest before.
    pub fn play(&mut self, cast: &mut impl Play) -> bool {
        for _ in 0..STEPS_MAX {
            if cast.is_over() {
                return true;
            }
            if self.step(cast) == Step::Rest {
                return false;
            }
        }
        panic!("the world does not come to rest");
    }

    /// Lets a span of time pass.
    pub fn pass(&mut self, nanoseconds: u64, cast: &mut impl Play) {
        self.world.alarm(self.world.now() + nanoseconds, SPAN_IS_OVER);
        while self.step(cast) != Step::SpanIsOver {}
    }

    /// [`Rig::pass`] with nobody else in the world.
    pub fn wait(&mut self, nanoseconds: u64) {
        self.pass(nanoseconds, &mut Nobody);
    }

    /// What the service answers to `text` within some milliseconds.
    pub fn ask(&mut self, peer: &Peer, text: &str) -> String {
        assert_eq!(peer.send(text.as_bytes()), text.len(), "room to ask {text:?}");
        self.hear(peer)
    }

    /// What has come for `peer` some milliseconds from now.
    pub fn hear(&mut self, peer: &Peer) -> String {
        self.wait(5 * MS);
        String::from_utf8_lossy(&peer.read(usize::MAX)).into_owned()
    }

    /// Tells the lanes to drain, and lets everybody run until they have ended.
    pub fn drain(&mut self, cast: &mut impl Play) {
        self.control.give(Order::Drain);
        self.until_ended(cast);
        assert!(self.has_ended(), "lanes did not end: {} connections left", self.connections());
        for arena in &self.arenas {
            assert_eq!(arena.used(), 0, "memory of an ended lane is in use");
        }
    }

    /// Lets everybody run until all lanes have ended, or nothing moves any more.
    pub fn until_ended(&mut self, cast: &mut impl Play) {
        for _ in 0..STEPS_MAX {
            if self.has_ended() || self.step(cast) == Step::Rest {
                return;
            }
        }
        panic!("the lanes do not end");
    }

    /// Drains, and has the world judge.
    pub fn close(&mut self, cast: &mut impl Play) {
        self.drain(cast);
        self.world.check().unwrap();
    }
}

/// All endings of a service.
pub fn endings(rig: &Rig, service: usize) -> u64 {
    use ServiceCounter as C;
    [C::EndingsCompleted, C::EndingsEndOfStream, C::EndingsClosing, C::EndingsError, C::EndingsAborted]
        .iter()
        .map(|&counter| rig.count_of(service, counter))
        .sum()
}
