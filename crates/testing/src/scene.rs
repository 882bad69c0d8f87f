//! One run: services on lanes, clients that follow scripts, and what must be so while they play and when all is over.

use crate::asker::{Asker, Questions};
use crate::family::{Family, client};
use crate::rig::{Play, Rig, Stop, patient};
use crate::roster::{RigPlan, Roster, sure};
use crate::script::{Excuse, Script, Speaker};
use corelane_lane::LaneSettings;
use corelane_seam::Tuning;
use corelane_sim::{FaultKind, Faults, Random, Turn, World};
use corelane_svc::{DatagramService, Limits, Peer, Side, StreamService, Transform};
use corelane_watch::ServiceCounter;
use std::time::Duration;

/// The token of the alarm at which the lanes are told to drain.
const DRAIN: u64 = u64::MAX - 1;

/// Puts a service on a lane's roster, at an address of the family.
type PutsService = Box<dyn Fn(&mut Roster, Family)>;
/// Looks at the lanes when all is over.
type Check = Box<dyn FnOnce(&Rig) -> Result<(), String>>;

/// One run as it is to be: which services the lanes serve, and what clients do. It is set up anew for each seed.
///
/// Unless something else is said there are two lanes with 4 MiB each, and services have no limits in time.
pub struct Scene {
    seed: u64,
    random: Random,
    world: World,
    plan: RigPlan,
    limits: Limits,
    seats: Vec<PutsService>,
    scripts: Vec<(u16, Script)>,
    questions: Vec<(u16, Questions)>,
    drain_after: Option<Duration>,
    checks: Vec<Check>,
}

impl Scene {
    pub(crate) fn new(seed: u64, faults: Faults) -> Self {
        let (world, random) = (World::new(seed, faults), Random::new(!seed));
        let (seats, scripts, questions, checks) = Default::default();
        let (plan, limits) = (RigPlan::lanes(2).memory(4 << 20), patient());
        Self { seed, random, world, plan, limits, seats, scripts, questions, drain_after: None, checks }
    }

    /// The run's seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Chance that belongs to the seed: for sizes, numbers, whatever is to differ from run to run.
    pub fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// The world: its model file system ([`World::write_file`]), its machines, its clock.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// So many lanes.
    pub fn lanes(&mut self, lanes: usize) {
        self.plan.lanes = lanes;
    }

    /// So many bytes of memory for each lane.
    pub fn memory(&mut self, bytes: usize) {
        self.settings(|settings| settings.memory_bytes(bytes));
    }

    /// Sets the lanes, beginning with what they are set to until now.
    pub fn settings(&mut self, set: impl FnOnce(LaneSettings) -> LaneSettings) {
        self.plan.settings = set(self.plan.settings);
    }

    /// Sets the lanes' drivers, beginning with what they are set to until now.
    pub fn tuning(&mut self, set: impl FnOnce(Tuning) -> Tuning) {
        self.plan.tuning = set(self.plan.tuning);
    }

    /// Plays all of it at addresses of this family: a port's number is part of the Unix name then ([`Family::at`]).
    pub fn family(&mut self, family: Family) {
        self.plan.family = family;
    }

    /// The limits of the services that are added after this.
    pub fn limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Serves connections at this port; `build` makes the service of each lane.
    pub fn serve<S: StreamService>(&mut self, port: u16, build: impl Fn(usize) -> S + 'static) {
        let limits = self.limits;
        self.seats.push(Box::new(move |roster, family| roster.serve(family.at(port), limits, build(roster.lane()))));
    }

    /// [`Scene::serve`]; the transforms that `behind` makes stand before the connections of each lane.
    pub fn serve_behind<S: StreamService, T>(
        &mut self,
        port: u16,
        behind: impl Fn(usize) -> T + 'static,
        build: impl Fn(usize) -> S + 'static,
    ) where
        T: FnMut(Side, &Peer) -> Option<Box<dyn Transform>> + 'static,
    {
        let limits = self.limits;
        let seat = move |roster: &mut Roster, family: Family| {
            let lane = roster.lane();
            roster.serve_behind(family.at(port), limits, build(lane), behind(lane));
        };
        self.seats.push(Box::new(seat));
    }

    /// Serves datagrams at this port.
    pub fn serve_datagrams<S: DatagramService>(&mut self, port: u16, build: impl Fn(usize) -> S + 'static) {
        let limits = self.limits;
        self.seats.push(Box::new(move |roster, family| roster.serve_datagrams(family.at(port), limits, build(roster.lane()))));
    }

    /// Adds a service that listens nowhere: it opens connections itself.
    pub fn client<S: StreamService>(&mut self, build: impl Fn(usize) -> S + 'static) {
        let limits = self.limits;
        self.seats.push(Box::new(move |roster, _| roster.client(limits, build(roster.lane()))));
    }

    /// [`Scene::client`]; the transforms that `behind` makes stand before the connections that it opens.
    pub fn client_behind<S: StreamService, T>(
        &mut self,
        behind: impl Fn(usize) -> T + 'static,
        build: impl Fn(usize) -> S + 'static,
    ) where
        T: FnMut(Side, &Peer) -> Option<Box<dyn Transform>> + 'static,
    {
        let limits = self.limits;
        let seat = move |roster: &mut Roster, _: Family| {
            let lane = roster.lane();
            roster.client_behind(limits, build(lane), behind(lane));
        };
        self.seats.push(Box::new(seat));
    }

    /// Adds a service that is bound nowhere: it opens datagram sockets itself.
    pub fn client_datagrams<S: DatagramService>(&mut self, build: impl Fn(usize) -> S + 'static) {
        let limits = self.limits;
        self.seats.push(Box::new(move |roster, _| roster.client_datagrams(limits, build(roster.lane()))));
    }

    /// One more client, with a connection to this port.
    pub fn connect(&mut self, port: u16) -> &mut Script {
        &mut self.scripts.push_mut((port, Script::default())).1
    }

    /// One more client over datagrams, of this port.
    pub fn datagrams(&mut self, port: u16) -> &mut Questions {
        &mut self.questions.push_mut((port, Questions::default())).1
    }

    /// Has the lanes drain after some time, whatever clients are at: connections may end before their scripts do.
    pub fn drain_after(&mut self, time: Duration) {
        self.drain_after = Some(time);
    }

    /// Looks at the lanes when they have ended: their counters, what their operator was told, the files of the world.
    pub fn check(&mut self, check: impl FnOnce(&Rig) -> Result<(), String> + 'static) {
        self.checks.push(Box::new(check));
    }

    /// Plays it; with `only`, one client alone, by its number.
    pub(crate) fn play(self, only: Option<usize>) -> Played {
        let Self { seed, random: _, world, plan, limits: _, seats, scripts, questions, drain_after, checks } = self;
        let mut rig = Rig::new(&world, &plan, |roster| seats.iter().for_each(|seat| seat(roster, plan.family)));
        let family = plan.family;
        let mut cast = Cast::new(&world, drain_after);
        let is_asked = |number: usize| only.is_none_or(|only| only == number);
        let streams = scripts.len();
        for (number, (port, script)) in scripts.into_iter().enumerate().filter(|(number, _)| is_asked(*number)) {
            let peer = sure("connecting", world.connect(family.client(&world, number), family.way(&world, port)));
            cast.speakers.push((number, Speaker::new(peer, script, seed)));
        }
        let numbered = questions.into_iter().enumerate().map(|(index, asked)| (streams + index, asked));
        for (number, (port, questions)) in numbered.filter(|(number, _)| is_asked(*number)) {
            // Over Unix sockets who asks has a name, to be answered at.
            let from = if family.is_unix() { family.asker(&world, number) } else { client(number) };
            let peer = sure("binding", world.bind(from));
            cast.askers.push((number, Asker::new(&world, peer, family.way(&world, port), questions)));
        }
        let wrong = cast.run(&mut rig).and_then(|()| end(&mut rig, &mut cast, checks)).err();
        Played { rig, wrong, client: cast.blamed }
    }
}

/// A run that was played.
pub(crate) struct Played {
    pub(crate) rig: Rig,
    /// The fault, if there was one.
    pub(crate) wrong: Option<String>,
    /// The client that saw it.
    pub(crate) client: Option<usize>,
}

/// All that have a part in a run, and what they found wrong.
struct Cast {
    speakers: Vec<(usize, Speaker)>,
    askers: Vec<(usize, Asker)>,
    is_draining: bool,
    drains: bool,
    wrong: Option<String>,
    blamed: Option<usize>,
}

impl Cast {
    fn new(world: &World, drain_after: Option<Duration>) -> Self {
        if let Some(time) = drain_after {
            world.alarm(world.now() + time, DRAIN);
        }
        let drains = drain_after.is_some();
        Self { speakers: Vec::new(), askers: Vec::new(), is_draining: false, drains, wrong: None, blamed: None }
    }

    /// Lets everybody do all that they are to do, or until something is wrong.
    fn run(&mut self, rig: &mut Rig) -> Result<(), String> {
        let stop = rig.run(self, |_, cast| cast.is_over());
        if let Some(wrong) = self.wrong.take() {
            return Err(wrong);
        }
        match stop {
            Stop::Over => Ok(()),
            Stop::Rest if self.is_draining => Ok(()),
            Stop::Rest => Err(format!("{}, and nobody will ever do anything again", self.waiting())),
            Stop::Endless => Err(format!("{}, and it goes on like this for ever: {}", self.waiting(), rig.circles())),
        }
    }

    fn waiting(&mut self) -> String {
        let speakers = self.speakers.iter().filter(|(_, speaker)| !speaker.is_over()).map(|(n, speaker)| (*n, speaker.wait()));
        let askers = self.askers.iter().filter(|(_, asker)| !asker.is_over()).map(|(n, asker)| (*n, asker.wait()));
        let mut waiting = speakers.chain(askers);
        let (number, what) = waiting.next().unwrap_or_default();
        let others = waiting.count();
        self.blamed = Some(number);
        let others = if others == 0 { String::new() } else { format!(" (and {others} others wait)") };
        format!("client {number} {what}{others}")
    }

    fn excuse(&self, world: &World) -> Excuse {
        const CUT: [FaultKind; 3] = [FaultKind::Reset, FaultKind::AbortedAccept, FaultKind::LostAccept];
        let faults = world.report().faults;
        match CUT.iter().any(|&kind| faults.of(kind) > 0) {
            _ if self.is_draining => Excuse::Drain,
            true => Excuse::Network,
            false => Excuse::None,
        }
    }

    fn note(&mut self, number: usize, result: Result<(), String>) {
        if let (Err(wrong), None) = (result, &self.wrong) {
            self.wrong = Some(format!("client {number} {wrong}"));
            self.blamed = Some(number);
        }
    }
}

impl Play for Cast {
    fn news(&mut self, world: &World, turn: Turn) {
        let (token, is_alarm) = match turn {
            Turn::Peer(peer) => (peer.id() as u64, false),
            Turn::Datagrams(peer) => (peer.id() as u64, false),
            Turn::Alarm(token) => (token, true),
            Turn::Lane(_) | Turn::Incoming(_) => return,
        };
        let excuse = self.excuse(world);
        if let Some((number, speaker)) = self.speakers.iter_mut().find(|(_, speaker)| speaker.token() == token) {
            let (number, result) = (*number, speaker.work(world, excuse));
            self.note(number, result);
        } else if let Some((number, asker)) = self.askers.iter_mut().find(|(_, asker)| asker.token() == token) {
            let (number, result) = (*number, if is_alarm { asker.remind(world) } else { asker.hear() });
            self.note(number, result);
        } else if token == DRAIN {
            self.is_draining = true;
        }
    }

    fn is_over(&self) -> bool {
        let speakers = self.speakers.iter().all(|(_, speaker)| speaker.is_over());
        let all = speakers && self.askers.iter().all(|(_, asker)| asker.is_over());
        self.wrong.is_some() || if self.drains { self.is_draining } else { all }
    }
}

/// Ends the lanes in order, and looks whether all is as it must be then.
fn end(rig: &mut Rig, cast: &mut Cast, checks: Vec<Check>) -> Result<(), String> {
    rig.begin_drain();
    cast.is_draining = true;
    let stop = rig.run(cast, |rig, cast| rig.has_ended() || cast.wrong.is_some());
    if let Some(wrong) = cast.wrong.take() {
        return Err(wrong);
    }
    if stop != Stop::Over {
        return Err(format!("the lanes do not end: {} connections are left, or something is owed", rig.connections()));
    }
    if let Some(lane) = rig.arenas.iter().position(|arena| arena.used() > 0) {
        return Err(format!("lane {lane} has ended, and somebody holds {} bytes of its memory", rig.arenas[lane].used()));
    }
    rig.world.check().map_err(|violation| violation.to_string())?;
    counters(rig)?;
    checks.into_iter().try_for_each(|check| check(rig))
}

/// Fails for counts that no service may have.
fn counters(rig: &Rig) -> Result<(), String> {
    use ServiceCounter as C;
    for (number, service) in rig.snapshot().services.iter().enumerate() {
        for (counter, what) in [
            (C::Panics, "panicked"),
            (C::TicketsDropped, "dropped a ticket without an answer"),
            (C::ConnectionsOpen, "has connections open after its end"),
        ] {
            match service.values.get(counter) {
                0 => {}
                times => return Err(format!("service {number} {what}: {times}")),
            }
        }
    }
    Ok(())
}
