//! Lanes with services in a simulated world, and how a test lets them run.

use crate::family::{Family, PORT};
use crate::roster::{RigPlan, Roster, sure};
use corelane_lane::{Control, Ear, Homing, Kit, Lane, Order, Report, Tell, Turn as LaneTurn, Works};
use corelane_seam::parcel::ParcelHome;
use corelane_seam::{Arena, Instant, Record};
use corelane_sim::{Peer, SimDriver, Turn, World};
use corelane_svc::{Command, Exchange, Limits, Services, Side, Steer, StreamService, Transform};
use corelane_watch::{Description, LaneCounter, LaneName, Page, Reader, ServiceCounter, Snapshot};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A millisecond.
pub const MS: Duration = Duration::from_millis(1);
/// A second.
pub const S: Duration = Duration::from_secs(1);
/// Steps after which a world is said never to come to rest.
const STEPS_MAX: usize = 4_000_000;
/// Turns of lanes after which a world is said to go round in circles, if nobody else has had one meanwhile, and each has taken no longer than this on the average: a lane that waits for something sleeps.
const TURNS_ALONE_MAX: usize = 2_000_000;
const TURN_ALONE: Duration = Duration::from_micros(10);
/// The token of the alarm that ends a span of time.
const SPAN_IS_OVER: u64 = u64::MAX;

/// Limits without any in time: for runs whose clock jumps.
pub fn patient() -> Limits {
    let never = 1 << 60;
    Limits::new()
        .receive_rate_min(0)
        .idle_limit(Duration::ZERO)
        .read_limit(Duration::ZERO)
        .send_limit(Duration::ZERO)
        .answer_limit(Duration::ZERO)
        .drain_limit(Duration::from_nanos(never))
}

/// Everybody in a world who is no lane.
pub trait Play {
    /// Somebody has news.
    fn news(&mut self, world: &World, turn: Turn);
    /// Whether the run is over; by default it never is by itself.
    fn is_over(&self) -> bool {
        false
    }
}

/// For how many connections of a lane the page of a rig has a row.
const CONNECTION_ROWS: usize = 64;

/// Peers that do nothing by themselves.
pub struct Nobody;

impl Play for Nobody {
    fn news(&mut self, _: &World, _: Turn) {}
}

/// Whom the lanes tell what an operator should see, as long as somebody reads it.
struct Operator {
    reports: Rc<RefCell<Vec<Record>>>,
    is_gone: Rc<Cell<bool>>,
    dropped: Arc<AtomicU64>,
}

impl Report for Operator {
    fn line(&mut self, record: Record) {
        match self.is_gone.get() {
            true => drop(self.dropped.fetch_add(1, Ordering::Relaxed)),
            false => self.reports.borrow_mut().push(record),
        }
    }

    fn dropped(&self) -> Option<Arc<AtomicU64>> {
        Some(self.dropped.clone())
    }
}

/// Lanes of one program in a world.
pub struct Rig {
    /// Where they are.
    pub world: World,
    /// Gives them orders.
    pub control: Arc<Control>,
    /// Where the services of all lanes find each other.
    pub exchange: Exchange,
    /// Speaks to the services of each lane.
    pub tell: Tell<Steer>,
    /// Their counters.
    pub page: Page,
    /// The lines that the lanes told their operator.
    pub reports: Rc<RefCell<Vec<Record>>>,
    /// Nobody reads what they tell: lines are dropped.
    pub operator_is_gone: Rc<Cell<bool>>,
    /// The addresses that it is played at.
    pub family: Family,
    /// Each lane's memory.
    pub arenas: Vec<Arena>,
    /// Where what each lane has lent comes home to: says what is away.
    pub posts: Vec<ParcelHome>,
    lanes: Vec<Option<Lane<SimDriver>>>,
    /// The number of the first of them in the world.
    first: usize,
    /// Turns of lanes since anybody else had one, and when the first of them was.
    alone: (usize, Instant),
}

/// The kind of a step of the world.
#[derive(PartialEq)]
enum Step {
    Rest,
    SpanIsOver,
    News,
    /// A lane goes on by itself.
    Circles,
}

/// Why a run stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It is over.
    Over,
    /// Nobody will ever do anything again.
    Rest,
    /// It goes round in circles.
    Endless,
}

impl Rig {
    /// Lanes after `plan`, each with the services that `equip` puts on its roster.
    ///
    /// # Panics
    /// If they cannot be made: no memory, an address that somebody else has, more services than a page has rows for.
    pub fn new(world: &World, plan: &RigPlan, mut equip: impl FnMut(&mut Roster)) -> Self {
        let mut rosters: Vec<Roster> = (0..plan.lanes).map(|lane| Roster::new(lane, plan.lanes)).collect();
        rosters.iter_mut().for_each(&mut equip);
        let services = rosters.iter().map(Roster::names).max_by_key(Vec::len).unwrap_or_default();
        let page = sure(
            "the page",
            Page::heap(&Description {
                program: "simulation".into(),
                services,
                lanes: (0..plan.lanes).map(|_| LaneName::default()).collect(),
                connections: CONNECTION_ROWS,
                ..Description::default()
            }),
        );
        let control = Control::new(plan.lanes);
        let ((tell, ears), world) = (control.words(), world.clone());
        let exchange = Exchange::new(&control, plan.settings.channel_messages, std::sync::Arc::new(std::task::Waker::wake));
        let (reports, operator_is_gone) = Default::default();
        let (arenas, posts, lanes) = (Vec::new(), Vec::new(), Vec::new());
        let mut rig = Self {
            world,
            control,
            exchange,
            tell,
            page,
            reports,
            operator_is_gone,
            family: plan.family,
            arenas,
            posts,
            lanes,
            first: 0,
            alone: (0, Instant::from_nanoseconds(0)),
        };
        for (roster, ear) in rosters.into_iter().zip(ears) {
            rig.add_lane(ear, plan, roster);
        }
        rig
    }

    fn add_lane(&mut self, ear: Ear<Steer>, plan: &RigPlan, roster: Roster) {
        let number = roster.lane();
        let arena = sure("the lane's memory", Arena::new(plan.settings.memory_bytes));
        let mut driver = match plan.host {
            Some(host) => self.world.driver_on(host, arena.clone(), plan.tuning),
            None => self.world.driver(arena.clone(), plan.tuning),
        };
        if number == 0 {
            self.first = driver.lane();
        }
        let mut services = Services::new(plan.connections_max);
        services.set_exchange(number, self.exchange.clone());
        services.set_ear(ear);
        services.set_connection_rows(sure("the page", self.page.connections(number)));
        roster.seat(&mut services, &mut driver, &self.page);
        let row = sure("the page", self.page.lane(number));
        let report =
            Box::new(Operator { reports: self.reports.clone(), is_gone: self.operator_is_gone.clone(), dropped: Arc::default() });
        let kit = Kit::new(number, &self.control, arena.clone(), row, &plan.settings, report);
        let post = ParcelHome::default();
        let homeward = services.open_abroad(&arena, plan.parcels, &post);
        let mut works = Works::of(services);
        if let Some(channels) = homeward {
            works = works.and(Homing::new(post.clone(), channels));
        }
        self.lanes.push(Some(Lane::new(driver, works, kit, self.control.clone(), plan.settings)));
        self.posts.push(post);
        self.arenas.push(arena);
    }

    /// Lanes with one service over connections that listens at [`address`](crate::address), or at that port's place in the plan's family.
    pub fn serving<S: StreamService>(world: &World, plan: &RigPlan, limits: Limits, make: impl Fn(usize) -> S) -> Self {
        Self::new(world, plan, |roster| roster.serve(plan.family.at(PORT), limits, make(roster.lane())))
    }

    /// The same; `transform` makes what stands before each connection.
    pub fn behind<S: StreamService>(
        world: &World,
        plan: &RigPlan,
        limits: Limits,
        make: impl Fn(usize) -> S,
        transform: impl FnMut(Side, &corelane_svc::Peer) -> Option<Box<dyn Transform>> + Clone + 'static,
    ) -> Self {
        Self::new(world, plan, |roster| roster.serve_behind(plan.family.at(PORT), limits, make(roster.lane()), transform.clone()))
    }

    /// Lets a lane of the world have its turn, if it is one of these and has not ended; its number among these. For several programs in one world.
    pub fn turn(&mut self, lane: usize) -> Option<usize> {
        let number = lane.checked_sub(self.first)?;
        let running = self.lanes.get_mut(number)?;
        if running.as_mut()?.turn() == LaneTurn::Ended {
            *running = None;
        }
        Some(number)
    }

    /// Tells the lanes to drain.
    pub fn begin_drain(&self) {
        self.control.give(Order::Drain);
    }

    /// Tells the lanes that another process serves at their addresses, as a take-over does: nobody new comes here, and who is here is served on.
    pub fn hand_over(&self) {
        for lane in 0..self.lanes.len() {
            // A lane that has ended hears nothing.
            let _ = self.tell.tell(lane, Steer { command: Command::HandOver, reply: Box::new(drop) });
        }
    }

    /// Whether nothing of the lanes' memory is held any more, as it must be when they have ended.
    pub fn holds_nothing(&self) -> bool {
        self.arenas.iter().all(|arena| arena.used() == 0)
    }

    /// A lane breaks: it is dropped where it stands.
    pub fn break_lane(&mut self, lane: usize) {
        self.lanes[lane] = None;
    }

    /// The first lane that has a connection, if any has.
    pub fn lane_of_first_connection(&self) -> Option<usize> {
        let connections = |lane: &Option<Lane<SimDriver>>| Some(lane.as_ref()?.work::<Services>()?.connections());
        self.lanes.iter().position(|lane| connections(lane).is_some_and(|connections| connections > 0))
    }

    /// Whether all lanes have ended.
    pub fn has_ended(&self) -> bool {
        self.lanes.iter().all(Option::is_none)
    }

    /// The connections of all lanes.
    pub fn connections(&self) -> usize {
        self.lanes.iter().flatten().map(|lane| lane.work::<Services>().map_or(0, Services::connections)).sum()
    }

    /// How often the services of all lanes looked a connection or a datagram socket up. Only in builds with debug assertions.
    #[cfg(debug_assertions)]
    pub fn look_ups(&self) -> u64 {
        self.lanes.iter().flatten().map(|lane| lane.work::<Services>().map_or(0, Services::look_ups)).sum()
    }

    /// The figures of the page now.
    pub fn snapshot(&self) -> Snapshot {
        sure("the page", Reader::of(&self.page)).snapshot(0)
    }

    /// A counter of the first service, over all lanes.
    pub fn count(&self, counter: ServiceCounter) -> u64 {
        self.count_of(0, counter)
    }

    /// A counter of this service, over all lanes.
    pub fn count_of(&self, service: usize, counter: ServiceCounter) -> u64 {
        self.snapshot().services[service].values.get(counter)
    }

    /// A counter of the first service by its name, be it one that all have or one of its own, over all lanes.
    pub fn named(&self, name: &str) -> u64 {
        self.named_of(0, name)
    }

    /// [`Rig::named`] of this service.
    pub fn named_of(&self, service: usize, name: &str) -> u64 {
        let snapshot = self.snapshot();
        let found = snapshot.services[service].values.all().find(|value| value.name == name);
        found.unwrap_or_else(|| panic!("no counter of service {service} is called {name:?}")).value
    }

    /// A counter of the lanes, in sum.
    pub fn lane_count(&self, counter: LaneCounter) -> u64 {
        self.snapshot().total.get(counter)
    }

    /// A new connection to the service at [`address`](crate::address) from client `number`.
    pub fn connect(&self, number: usize) -> Peer {
        self.connect_to(number, PORT)
    }

    /// A new connection to the service at this port from client `number`.
    pub fn connect_to(&self, number: usize, port: u16) -> Peer {
        let (from, to) = (self.family.client(&self.world, number), self.family.way(&self.world, port));
        sure("connecting", self.world.connect(from, to))
    }

    fn step(&mut self, cast: &mut impl Play) -> Step {
        let turn = self.world.step();
        if !matches!(turn, Some(Turn::Lane(_))) {
            self.alone.0 = 0;
        }
        match turn {
            None => return Step::Rest,
            Some(Turn::Lane(lane)) => {
                self.turn(lane);
                if self.goes_round() {
                    return Step::Circles;
                }
            }
            Some(Turn::Alarm(SPAN_IS_OVER)) => return Step::SpanIsOver,
            Some(turn) => cast.news(&self.world, turn),
        }
        Step::News
    }

    /// Notes a turn of a lane; whether lanes have gone on alone for too many.
    fn goes_round(&mut self) -> bool {
        let (turns, since) = &mut self.alone;
        if *turns == 0 {
            *since = self.world.now();
        }
        *turns += 1;
        let is_looked_at = turns.is_multiple_of(TURNS_ALONE_MAX);
        is_looked_at && self.world.now() - *since < TURN_ALONE * u32::try_from(*turns).unwrap_or(u32::MAX)
    }

    /// Lets everybody run until something is so.
    pub(crate) fn run<P: Play>(&mut self, cast: &mut P, is_over: impl Fn(&Self, &P) -> bool) -> Stop {
        for _ in 0..STEPS_MAX {
            if is_over(self, cast) {
                return Stop::Over;
            }
            match self.step(cast) {
                Step::Rest => return Stop::Rest,
                Step::Circles => return Stop::Endless,
                Step::SpanIsOver | Step::News => {}
            }
        }
        Stop::Endless
    }

    /// Lets everybody run until the cast is done; false if the world came to rest before.
    ///
    /// # Panics
    /// If the run goes round in circles.
    pub fn play(&mut self, cast: &mut impl Play) -> bool {
        let stop = self.run(cast, |_, cast| cast.is_over());
        assert_ne!(stop, Stop::Endless, "{}", self.circles());
        stop == Stop::Over
    }

    /// Why the world does not come to rest, as far as that shows.
    pub(crate) fn circles(&self) -> String {
        if self.alone.0 < TURNS_ALONE_MAX {
            return format!("the world has taken {STEPS_MAX} steps, and does not come to rest");
        }
        let services: Vec<_> = self.snapshot().services.into_iter().map(|service| service.name.name).collect();
        format!(
            "a lane has made {} turns though nobody said anything: one of its services ({}) has itself called again in each call (Cx::resume, a nudge, an alarm at once); \
             wait for something instead, or for a time",
            self.alone.0,
            services.join(", "),
        )
    }

    /// Lets a span of time pass.
    ///
    /// # Panics
    /// If a service goes on by itself, without an end.
    pub fn pass(&mut self, time: Duration, cast: &mut impl Play) {
        self.world.alarm(self.world.now() + time, SPAN_IS_OVER);
        loop {
            match self.step(cast) {
                Step::SpanIsOver => return,
                Step::Circles => panic!("{}", self.circles()),
                Step::Rest | Step::News => {}
            }
        }
    }

    /// [`Rig::pass`] with nobody else in the world.
    pub fn wait(&mut self, time: Duration) {
        self.pass(time, &mut Nobody);
    }

    /// The service's answer to `text` within some milliseconds.
    pub fn ask(&mut self, peer: &Peer, text: &str) -> String {
        assert_eq!(peer.send(text.as_bytes()), text.len(), "room to ask {text:?}");
        self.hear(peer)
    }

    /// The text that has come for `peer` some milliseconds from now.
    pub fn hear(&mut self, peer: &Peer) -> String {
        self.wait(5 * MS);
        String::from_utf8_lossy(&peer.read(usize::MAX)).into_owned()
    }

    /// Tells the lanes to drain, and lets everybody run until they have ended.
    pub fn drain(&mut self, cast: &mut impl Play) {
        self.begin_drain();
        self.until_ended(cast);
        assert!(self.has_ended(), "lanes did not end: {} connections left", self.connections());
        assert!(self.holds_nothing(), "memory of an ended lane is in use");
    }

    /// Lets everybody run until all lanes have ended, or nothing moves any more.
    pub fn until_ended(&mut self, cast: &mut impl Play) {
        let stop = self.run(cast, |rig, _| rig.has_ended());
        assert_ne!(stop, Stop::Endless, "the lanes do not end: {}", self.circles());
    }

    /// Drains, and has the world judge.
    pub fn close(&mut self, cast: &mut impl Play) {
        self.drain(cast);
        sure("the contract", self.world.check());
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
