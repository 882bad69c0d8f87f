//! A run of the load engine in a simulated world: the generator's lanes, those of a server or peers played by hand, and the clock.

use crate::simulated::witness::{Desk, DeskRef, Spy, Watched};
use corelane::Address;
use corelane::lanes::Transport;
use corelane::testing::parts::seam::nanoseconds;
use corelane::testing::{Family, FaultCounts, FaultKind, Faults, Host, Play, Rig as Lanes, RigPlan, Roster, Tuning, Turn, World};
use corelane_load::course::Course;
use corelane_load::datagram_engine::DatagramEngine;
use corelane_load::engine::Engine;
use corelane_load::plan::{Extent, Plan};
use corelane_load::report::Report;
use corelane_load::workloads::echo::Echo;
use corelane_load::workloads::http::Http;
use corelane_load::workloads::rpc::{RpcDatagrams, RpcStream};
use corelane_load::workloads::sink::Sink;
use corelane_load::workloads::udp::Udp;
use corelane_load::{judge, limits, report_of};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

pub use corelane::testing::patient;

/// A millisecond, in nanoseconds, as the engine counts time.
pub const MS: u64 = 1_000_000;
/// A second.
pub const S: u64 = 1_000 * MS;

/// Steps after which a run is said never to end.
const STEPS_MAX: usize = 20_000_000;

/// Where the target is: on a host of lanes, or among the peers that a test plays.
pub fn target(is_played: bool) -> SocketAddr {
    if is_played { SocketAddr::from(([192, 0, 2, 9], 7)) } else { SocketAddr::from(([10, 0, 0, 2], 7)) }
}

/// Where the target of a seed's run over connections is: there, or for every fourth seed or so at a Unix name. Over datagrams it is always there: at a Unix
/// name a send can be refused for want of room, and the engine takes such a fault for one of an earlier datagram.
pub fn place(seed: u64, is_played: bool) -> Address {
    let family = Family::of(seed);
    if family.is_unix() { family.at(7) } else { target(is_played).into() }
}

/// The same for the world's peers.
pub fn way(world: &World, target: &Address) -> SocketAddr {
    target.unix().map_or_else(|| target.inet().unwrap(), |unix| world.named(unix))
}

/// What a run has come to.
pub struct Outcome {
    pub report: Report,
    pub desk: DeskRef,
    pub plan: Arc<Plan>,
    /// What the world did to it.
    pub faults: FaultCounts,
}

pub struct Rig {
    pub world: World,
    pub plan: Arc<Plan>,
    pub desk: DeskRef,
    /// Ends the run early.
    pub stop: Arc<AtomicBool>,
    server: Option<Lanes>,
    generator: Option<Lanes>,
    events: std::sync::mpsc::Sender<corelane_load::course::Event>,
    server_host: Host,
}

impl Rig {
    /// A world with the generator's plan, and nobody in it yet.
    pub fn new(seed: u64, faults: Faults, plan: Plan) -> Self {
        let world = World::new(seed, faults);
        let server_host = world.host(&[IpAddr::from([10, 0, 0, 2])]);
        let plan = Arc::new(plan.settled().unwrap());
        let (events, told) = channel();
        let desk = Desk::new(&world, &plan, told);
        let stop = Arc::new(AtomicBool::new(false));
        Self { world, plan, desk, stop, server: None, generator: None, events, server_host }
    }

    fn lanes(&self, host: Option<Host>, count: usize, memory_bytes: usize, equip: impl FnMut(&mut Roster)) -> Lanes {
        let tuning = Tuning::default().datagram_bytes((memory_bytes / 16).min(1 << 20));
        let plan = RigPlan::lanes(count).memory(memory_bytes).tuning(tuning).connections_max(u32::MAX);
        let plan = host.map_or(plan.clone(), |host| plan.host(host));
        Lanes::new(&self.world, &plan, equip)
    }

    /// Adds a server's lanes.
    pub fn serve(mut self, lanes: usize, equip: impl FnMut(&mut Roster)) -> Self {
        // Unix names are of one machine.
        let host = self.plan.target.inet().map(|_| self.server_host);
        self.server = Some(self.lanes(host, lanes, 16 << 20, equip));
        self
    }

    /// Adds the generator's lanes, with a spy that refuses so many of 1,000 requests.
    pub fn generate(self, refusals: u64) -> Self {
        self.generate_in(refusals, 16 << 20)
    }

    /// [`Rig::generate`] with so much memory for each lane.
    pub fn generate_in(mut self, refusals: u64, memory_bytes: usize) -> Self {
        let (plan, desk, events, stop) = (self.plan.clone(), self.desk.clone(), self.events.clone(), self.stop.clone());
        let generator = self.lanes(None, plan.lanes, memory_bytes, |roster| {
            let lane = roster.lane();
            let course = Course::new(plan.clone(), lane, events.clone(), stop.clone());
            macro_rules! add {
                ($add:ident, $engine:ident, $workload:expr) => {{
                    let spy = Spy::new($workload, &desk, lane, refusals);
                    roster.$add(limits(&plan), Watched::new($engine::new(course, spy), &desk, lane));
                }};
            }
            match (&*plan.workload, plan.transport) {
                ("sink", _) => add!(client, Engine, Sink::new(&plan)),
                ("http", _) => add!(client, Engine, Http::new(&plan, lane)),
                ("rpc", Transport::Udp) => add!(client_datagrams, DatagramEngine, RpcDatagrams::new(&plan)),
                ("rpc", Transport::Tcp) => add!(client, Engine, RpcStream::new(&plan)),
                (_, Transport::Udp) => add!(client_datagrams, DatagramEngine, Udp::new(plan.size)),
                (_, Transport::Tcp) => add!(client, Engine, Echo::new(plan.size)),
            }
        });
        self.generator = Some(generator);
        self
    }

    fn turn(&mut self, lane: usize) {
        if let Some(number) = self.generator.as_mut().and_then(|generator| generator.turn(lane)) {
            self.desk.borrow_mut().turns.push((number, self.world.now().nanoseconds()));
        } else if let Some(server) = &mut self.server {
            server.turn(lane);
        }
    }

    /// False if nobody will ever do anything again.
    pub fn step(&mut self, cast: &mut impl Play) -> bool {
        match self.world.step() {
            None => return false,
            Some(Turn::Lane(lane)) => self.turn(lane),
            Some(turn) => cast.news(&self.world, turn),
        }
        true
    }

    /// Whether the generator is done, or has found out that nothing can be had of the target.
    pub fn is_over(&self) -> bool {
        let desk = self.desk.borrow();
        desk.collector.is_over() || desk.collector.unreachable().is_some()
    }

    /// Lets everybody run until the generator is done by itself, within [`bound`].
    pub fn run(mut self, cast: &mut impl Play) -> Outcome {
        let (begin, bound) = (self.world.now(), bound(&self.plan));
        for _ in 0..STEPS_MAX {
            if self.is_over() {
                return self.finish(cast);
            }
            assert!(self.step(cast), "the generator waits for ever");
            let took = nanoseconds(self.world.now() - begin);
            // What the world has done is asked for only where it matters: it is counted each step.
            let jumps = || self.world.report().faults.of(FaultKind::ClockJump) * 2 * S;
            assert!(took <= bound || took <= bound + jumps(), "the run goes on after {took} ns");
        }
        panic!("the run does not end");
    }

    /// Ends all lanes, has the world judge, and writes the report.
    fn finish(mut self, cast: &mut impl Play) -> Outcome {
        // A run whose target cannot be had goes on until somebody ends it.
        self.stop();
        while !self.desk.borrow().collector.is_over() {
            assert!(self.step(cast), "the generator waits for ever");
        }
        for end in [Self::of_generator, Self::of_server] {
            end(&mut self).iter().for_each(|lanes| lanes.begin_drain());
            while end(&mut self).is_some_and(|lanes| !lanes.has_ended()) {
                assert!(self.step(cast), "a lane does not end");
            }
            assert!(end(&mut self).is_none_or(|lanes| lanes.holds_nothing()), "memory of an ended lane is in use");
        }
        self.world.check().unwrap();
        let report = {
            let desk = self.desk.borrow();
            let mut report = report_of(&self.plan, &desk.collector, "sim");
            judge(&self.plan, &desk.collector, false, &mut report);
            report
        };
        Outcome { report, desk: self.desk, plan: self.plan, faults: self.world.report().faults }
    }

    fn of_generator(&mut self) -> Option<&Lanes> {
        self.generator.as_ref()
    }

    fn of_server(&mut self) -> Option<&Lanes> {
        self.server.as_ref()
    }

    /// Tells the generator to end early.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Within this time every run is over by itself, clock jumps not counted: connections are waited for twice as long as one may take; then
/// the warm-up and the window, or, for a number of requests, the time of the arrivals, and for each request of a place (those of the
/// warm-up come before) its timeout, a pause for a new connection, and the granularity of looking; then the last answers, or their timeout.
pub fn bound(plan: &Plan) -> u64 {
    let patience = 2 * nanoseconds(plan.timeout) + S;
    let load = match plan.extent {
        Extent::For(length) => nanoseconds(length),
        Extent::Requests(requests) => {
            let rate = plan.rate().unwrap_or(f64::INFINITY);
            let all = requests + if rate.is_finite() { (rate * plan.warm_up.as_secs_f64()) as u64 } else { 0 };
            let places = u64::from(plan.connections) / plan.lanes as u64 * plan.lanes as u64;
            (requests as f64 / rate * 10e9) as u64 + (all / places + 1) * patience
        }
    };
    3 * patience + nanoseconds(plan.warm_up) + load + S
}
