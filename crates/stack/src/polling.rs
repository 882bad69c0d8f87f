//! How much of the lane's time packets may take: asked before they are received and handled, and told how long that took.
//!
//! ```text
//! collect begins -> what passed since the last one ended was others' -> may packets come, and how many? -> receive, handle
//! collect ends   -> from its begin, or from when packets woke the lane, it was the network's
//! ```
//!
//! Beside other programs sleep is told apart from what services took: the lane's share is that of both, and only what it sleeps is other programs'. A lane that has used up its share
//! rests: it looks neither for packets nor for what comes to sockets of the kernel.
//!
//! FreeBSD's controller has its ticks here: the driver waits for the next one at most, and goes round within a collect as long as the controller says so.

use corelane_isr::polling::{
    Controller as Kind, HANDLERS_MAX, Knob, Knobs, Original, PERIOD, Settings, Timed, TimedCounts, Variables,
};
use corelane_seam::Wait;

/// Ticks that are made up for, at most: with more than a hundred pending the controller has stalled, and forgets them.
const TICKS_LATE: u64 = 128;
/// Nanoseconds for which tasks wait for packets at the most: services may use the time that packets leave, and packets come all the same.
const TASKS_WAIT: u64 = 10 * PERIOD;
/// Nanoseconds that a turn takes at the most beside its collect where nobody was handed anything: what is beyond that was another program's.
const TURN: u64 = 10_000;
/// Nanoseconds that a wait lasts at the least if the lane slept in it. A shorter one was a call of the system, and nobody else had the time.
const SLEEP: u64 = 5_000;
/// Nanoseconds from one time that the variables are shown to the next.
const SHOWN_AGAIN: u64 = 100_000_000;

/// The controller of a lane, and when it was asked last.
#[derive(Debug)]
pub(crate) struct Polling {
    settings: Option<Settings>,
    /// Ports that the lane has: each is a handler of the original's controller.
    ports: usize,
    controller: Controller,
    /// When the last collect ended, and when this one began, or the lane woke in it.
    left_at: Option<u64>,
    began: u64,
    /// The last collect brought packets, so there may be more.
    has_demand: bool,
    /// The last collect handled packets, handed nobody anything, and no task ran after it: what is left of that turn is the packets'.
    ends_turn: bool,
    /// Packets come before tasks, and since when that has been so.
    is_first: bool,
    first_since: Option<u64>,
    /// The lane sleeps, and has not been told how long: asked only where sleep is told apart.
    is_asleep: bool,
    /// For how long services and tasks had the lane after packets had come, if it is not known whether more waited meanwhile: if the lane would sleep, that shows when some are found.
    before: Option<u64>,
    /// The same, if packets waited, it was longer than the share of services at once, and nobody was told.
    overrun: Option<u64>,
    /// Nanoseconds that packets took.
    network: u64,
}

#[derive(Debug)]
enum Controller {
    /// Packets have the time that they take.
    None,
    Timed(Timed),
    Original(Box<Ticking>),
}

/// FreeBSD's controller and its clock.
#[derive(Debug)]
struct Ticking {
    original: Original,
    /// When the next tick is due, in nanoseconds, and how far apart they are.
    due: u64,
    each: u64,
    /// A poll is scheduled, or has been made and not ended; and frames that each port may bring in it.
    is_scheduled: bool,
    is_polling: bool,
    frames: usize,
    /// What ports tell of themselves is looked at in this collect.
    checks_status: bool,
    /// The lane has nothing to do, and polls.
    is_idle: bool,
    /// When its variables were shown last.
    shown_at: u64,
}

/// What is seen of polling from outside.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PollingNow {
    /// What is set; none where nothing is.
    pub settings: Option<Settings>,
    /// The controller's variables; by the clock only its burst.
    pub variables: Variables,
    /// Nanoseconds that packets took.
    pub network: u64,
    pub timed: TimedCounts,
}

impl Polling {
    /// One for so many ports that has told nobody anything; none: packets have the time that they take.
    pub fn new(settings: Option<Settings>, ports: usize) -> Self {
        let controller = settings.map_or(Controller::None, |settings| Controller::of(&settings, ports));
        Self {
            settings,
            ports,
            controller,
            left_at: None,
            began: 0,
            has_demand: false,
            ends_turn: false,
            is_first: false,
            first_since: None,
            is_asleep: false,
            before: None,
            overrun: None,
            network: 0,
        }
    }

    /// Whether packets are held to a part of the time, whatever that is.
    pub fn is_set(&self) -> bool {
        self.settings.is_some()
    }

    /// For how long services and tasks had the lane before this collect, if that was too long; once.
    pub fn take_overrun(&mut self) -> Option<u64> {
        self.overrun.take()
    }

    /// From now on this is set; returns whether it was not already. What a controller has found out stays as long as there is the same one.
    pub fn follow(&mut self, settings: Option<Settings>) -> bool {
        if self.settings == settings {
            return false;
        }
        match (&mut self.controller, settings) {
            (Controller::Timed(timed), Some(Settings { controller: Kind::Timed, knobs, other_programs, .. })) => {
                timed.set(knobs, other_programs);
            }
            (Controller::Original(ticking), Some(Settings { controller: Kind::Original, hz, knobs, .. }))
                if hz == ticking.original.hz() =>
            {
                ticking.set(knobs);
            }
            _ => self.controller = settings.map_or(Controller::None, |settings| Controller::of(&settings, self.ports)),
        }
        (self.settings, self.left_at) = (settings, None);
        true
    }

    /// What is seen of it.
    pub fn now(&self) -> PollingNow {
        let (variables, timed) = match &self.controller {
            Controller::None => Default::default(),
            Controller::Timed(timed) => (Variables { burst: timed.burst(), ..Variables::default() }, timed.counts()),
            Controller::Original(ticking) => (ticking.original.variables(), TimedCounts::default()),
        };
        PollingNow { settings: self.settings, variables, network: self.network, timed }
    }

    /// A collect begins that may wait so. Returns whether ports have a chunk anew: what they brought before is no part of it.
    pub fn begin(&mut self, now: u64, wait: Wait) -> bool {
        self.began = now;
        let was_asleep = std::mem::take(&mut self.is_asleep);
        match &mut self.controller {
            Controller::None => true,
            Controller::Timed(timed) => {
                if let Some(left_at) = self.left_at.replace(now) {
                    let passed = now.saturating_sub(left_at);
                    let own = if self.ends_turn { passed.min(TURN) } else { 0 };
                    if own > 0 {
                        timed.charge(own);
                        self.network += own;
                    }
                    match was_asleep {
                        // By a driver that does not hold up its thread.
                        true => timed.slept(passed - own),
                        // Of a lane that sleeps nobody wants the time.
                        false => {
                            timed.services_took(passed - own);
                            self.before = self.has_demand.then_some(passed - own);
                        }
                    }
                }
                match wait {
                    Wait::No => self.packets_waited(),
                    _ => timed.nobody_wants(),
                }
                true
            }
            Controller::Original(ticking) => ticking.begin(now, wait),
        }
    }

    /// Until when the lane is to leave its CPU to other programs, whatever comes; none if it need not.
    pub fn rests_until(&self) -> Option<u64> {
        match &self.controller {
            Controller::Timed(timed) if timed.tells_sleep() => timed.held_for().map(|held| self.began + held),
            _ => None,
        }
    }

    /// The lane was to leave its CPU to others until now, and did so for that long. Before, it carried out what its services had submitted.
    pub fn rested(&mut self, now: u64, slept: u64) {
        if let Controller::Timed(timed) = &mut self.controller {
            timed.services_took(now.saturating_sub(self.began).saturating_sub(slept));
            timed.slept(slept);
        }
        (self.began, self.left_at) = (now, Some(now));
    }

    /// Packets are there that waited while services and tasks had the lane.
    fn packets_waited(&mut self) {
        if let (Controller::Timed(timed), Some(took)) = (&mut self.controller, self.before.take()) {
            self.overrun = timed.packets_waited(took).then_some(took).or(self.overrun);
        }
    }

    /// The driver may wait so now.
    pub fn sleeps(&mut self, wait: Wait) {
        self.is_asleep = wait != Wait::No && matches!(&self.controller, Controller::Timed(timed) if timed.tells_sleep());
    }

    /// Packets woke the lane, at this time, or something else did: until then it slept. Returns for how long.
    pub fn woke(&mut self, now: u64) -> u64 {
        let slept = now.saturating_sub(self.began);
        if slept < SLEEP {
            return 0;
        }
        self.before = None;
        self.began += slept;
        if let Controller::Timed(timed) = &mut self.controller {
            timed.slept(slept);
        }
        slept
    }

    /// So many packets were handled before the driver below was asked for more; the time if it was asked for. What comes from now on is not theirs.
    pub fn handled(&mut self, now: Option<u64>, packets: usize) {
        self.has_demand |= packets > 0;
        if packets > 0 {
            self.packets_waited();
        }
        let Some(now) = now else { return };
        self.took(now, packets);
        self.left_at = Some(now);
    }

    /// Work took so long, in calls of the ports, before packets woke the lane or without any: receiving what became no frame, and sending what was handled before.
    pub fn worked(&mut self, nanoseconds: u64) {
        if let Controller::Timed(timed) = &mut self.controller {
            timed.charge(nanoseconds);
            self.network += nanoseconds;
            // That much of what goes by until packets wake the lane, or until the next collect, is not others'.
            self.began += nanoseconds;
            self.left_at = self.left_at.map(|left_at| left_at + nanoseconds);
        }
    }

    fn took(&mut self, now: u64, packets: usize) {
        let took = now.saturating_sub(self.began);
        self.began = now;
        self.network += match &mut self.controller {
            Controller::None => 0,
            Controller::Timed(timed) => timed.network_took(took, packets as u64),
            Controller::Original(_) => took,
        };
    }

    /// How long the driver may wait, if it may wait for so long without this.
    pub fn wait(&self, wait: Wait) -> Wait {
        let until = match &self.controller {
            Controller::None => None,
            Controller::Timed(timed) => timed.held_for().map(|held| self.began + held),
            Controller::Original(ticking) if ticking.is_polling || ticking.is_idle => return Wait::No,
            Controller::Original(ticking) => Some(ticking.due),
        };
        match (wait, until) {
            (Wait::Until(time), Some(until)) => Wait::Until(time.min(until)),
            (Wait::Forever, Some(until)) => Wait::Until(until),
            (wait, _) => wait,
        }
    }

    /// Frames that a port may bring now that has brought so many of its chunk: the original's is one, whenever they came.
    pub fn frames_beside(&self, brought: usize) -> usize {
        match &self.controller {
            Controller::Original(ticking) => ticking.frames.saturating_sub(brought),
            _ => self.frames(),
        }
    }

    /// Whether what ports tell of themselves is to be looked at: with the original's controller every `reg_frac` ticks.
    pub fn checks_status(&self) -> bool {
        match &self.controller {
            Controller::Original(ticking) => ticking.checks_status,
            _ => true,
        }
    }

    /// Frames that a port may bring now.
    pub fn frames(&self) -> usize {
        match &self.controller {
            Controller::None => usize::MAX,
            Controller::Timed(timed) => timed.frames(),
            Controller::Original(ticking) => ticking.frames,
        }
    }

    /// Whether packets are held, for it is others' time.
    pub fn is_held(&self) -> bool {
        self.frames() == 0
    }

    /// Whether the time is to be told at the end of a collect that has handled so many packets.
    pub fn asks_for_time(&self, packets: usize) -> bool {
        match &self.controller {
            Controller::None => false,
            Controller::Timed(timed) => packets > 0 && !timed.is_idle() || self.is_asleep,
            Controller::Original(ticking) => ticking.is_polling || packets > 0,
        }
    }

    /// A collect ends that has handled so many packets, handed others something or not, and has packets left or not; the time if it was asked for. Returns whether it is to go
    /// round again.
    pub fn end(&mut self, now: Option<u64>, packets: usize, others_have: bool, has_rest: impl Fn() -> bool) -> bool {
        self.has_demand = packets > 0;
        if packets > 0 {
            self.packets_waited();
        }
        if let Some(now) = now {
            if std::mem::take(&mut self.is_asleep) && packets == 0 {
                self.woke(now);
            }
            self.took(now, packets);
            self.left_at = Some(now);
        }
        self.rank(now);
        self.ends_turn = self.is_first && !others_have;
        match (&mut self.controller, now) {
            (Controller::Original(ticking), Some(now)) => ticking.end(now, has_rest),
            _ => false,
        }
    }

    /// Says whether packets come before tasks: while they come and their part is not used up; but no task waits for long.
    fn rank(&mut self, now: Option<u64>) {
        let is_first = self.has_demand && matches!(&self.controller, Controller::Timed(timed) if timed.is_network_first());
        let since = now.filter(|_| is_first).map(|now| (now, *self.first_since.get_or_insert(now)));
        self.is_first = since.is_some_and(|(now, since)| now.saturating_sub(since) < TASKS_WAIT);
        if !self.is_first {
            self.first_since = None;
        }
    }

    /// Whether what is seen of it is to be shown though no packet came.
    pub fn is_to_show(&mut self) -> bool {
        match &mut self.controller {
            Controller::Original(ticking) => ticking.is_to_show(self.began),
            _ => false,
        }
    }

    /// Whether packets that may have come are to be looked for before tasks run. Beside other programs the lane's part is everybody's on it: tasks run in each turn.
    pub fn is_network_first(&self) -> bool {
        self.is_first && !matches!(&self.controller, Controller::Timed(timed) if timed.tells_sleep())
    }
}

impl Controller {
    fn of(settings: &Settings, ports: usize) -> Self {
        let Settings { controller, hz, knobs, other_programs } = *settings;
        match controller {
            Kind::Timed => Self::Timed(Timed::new(knobs, other_programs)),
            Kind::Original => {
                // reason: settings are changed only to what is in range.
                let mut original = Original::new(hz, knobs).expect("settings in their ranges");
                // One that finds no room is asked with the others, and not counted.
                (0..).take(ports.min(HANDLERS_MAX)).for_each(|port| {
                    let registered = original.register(port);
                    assert!(registered.is_ok(), "each is registered once: {registered:?}");
                });
                let each = 1_000_000_000 / u64::from(hz);
                Self::Original(Box::new(Ticking {
                    original,
                    due: 0,
                    each,
                    is_scheduled: false,
                    is_polling: false,
                    frames: 0,
                    checks_status: false,
                    is_idle: false,
                    shown_at: 0,
                }))
            }
        }
    }
}

impl Ticking {
    /// Sets the knobs; the bound comes before what it bounds.
    fn set(&mut self, knobs: Knobs) {
        for knob in Knob::ALL {
            let set = self.original.set(knob, knobs.get(knob).into());
            assert!(set.is_ok(), "settings are changed only to what is in range: {set:?}");
        }
    }

    /// Whether its variables are to be shown again, which they are ten times a second.
    fn is_to_show(&mut self, now: u64) -> bool {
        // A clock that went back is not waited for.
        self.shown_at = self.shown_at.min(now);
        let is_due = now - self.shown_at >= SHOWN_AGAIN;
        if is_due {
            self.shown_at = now;
        }
        is_due
    }

    /// The ticks that are due, and the poll that comes of them. Returns whether it is a new one.
    fn begin(&mut self, now: u64, wait: Wait) -> bool {
        // The first tick is now; a lane that was stopped makes up for some, and a clock that went back has no tick far ahead.
        let least = if self.due == 0 { now } else { now.saturating_sub(TICKS_LATE * self.each) };
        self.due = self.due.clamp(least, now.saturating_add(self.each));
        while self.due <= now {
            self.is_scheduled |= self.original.tick(self.due / 1_000);
            self.due += self.each;
        }
        self.checks_status = false;
        if self.is_polling {
            return false;
        }
        self.is_idle = false;
        let chunk = match std::mem::take(&mut self.is_scheduled) {
            true => {
                self.is_polling = true;
                Some(self.original.poll(now / 1_000))
            }
            // A lane that would sleep has nothing else to do.
            false => self.original.idle_poll().filter(|_| wait != Wait::No).inspect(|_| self.is_idle = true),
        };
        self.frames = chunk.map_or(0, |chunk| chunk.frames as usize);
        self.checks_status = chunk.is_some_and(|chunk| chunk.checks_status);
        true
    }

    /// What came is handled, but for what is left; returns whether there is a chunk more.
    fn end(&mut self, now: u64, has_rest: impl Fn() -> bool) -> bool {
        if !self.is_polling || has_rest() {
            return false;
        }
        self.is_polling = false;
        self.frames = 0;
        self.is_scheduled |= self.original.end(now / 1_000);
        self.is_scheduled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_isr::polling::Change;

    fn polling(changes: &[&str]) -> Polling {
        let mut settings = Settings::DEFAULT;
        changes.iter().for_each(|change| settings.change(change.parse::<Change>().unwrap()).unwrap());
        Polling::new(Some(settings), 1)
    }

    /// A collect that begins then, wakes then if it slept, and ends then with so many packets.
    fn collect(polling: &mut Polling, [began, woke, ended]: [u64; 3], wait: Wait, packets: usize) {
        polling.begin(began, wait);
        if wait != Wait::No && packets > 0 {
            polling.woke(woke);
        }
        let now = polling.asks_for_time(packets).then_some(ended);
        assert!(!polling.end(now, packets, true, || false), "by the clock nobody goes round");
    }

    #[test]
    fn a_lane_that_sleeps_until_packets_come_is_not_held_for_what_it_slept() {
        let mut polling = polling(&["user_frac=50", "other_programs=1"]);
        let mut now = 0;
        for _ in 0..1_000 {
            collect(&mut polling, [now, now + 70_000, now + 100_000], Wait::Forever, 16);
            now += 100_000;
        }
        assert_eq!((polling.now().timed.held, polling.now().network), (0, 30_000 * 1_000), "30 % of the time");
    }

    #[test]
    fn beside_other_programs_only_sleep_is_theirs() {
        for user_frac in [10, 30, 50, 90] {
            let mut polling = polling(&[&format!("user_frac={user_frac}"), "other_programs=1"]);
            let (mut now, mut asleep) = (0, 0);
            while now < 10_000 * PERIOD {
                polling.begin(now, Wait::Forever);
                let packets = if polling.is_held() { 0 } else { 16 };
                let began = now;
                if packets == 0 {
                    let Wait::Until(until) = polling.wait(Wait::Forever) else { unreachable!("a hold ends") };
                    polling.sleeps(Wait::Until(until));
                    now = until;
                } else {
                    polling.sleeps(Wait::No);
                    now += 20_000;
                }
                asleep += if packets == 0 { now - began } else { 0 };
                assert!(polling.asks_for_time(packets));
                assert!(!polling.end(Some(now), packets, true, || false));
                // What services do, also those that are asked by other ways than packets.
                now += if packets == 0 { 5_000 } else { 40_000 };
            }
            let share = asleep * 100 / now;
            assert!(share.abs_diff(user_frac) <= 2, "{share} for {user_frac}");
        }
    }

    #[test]
    fn a_driver_that_does_not_hold_up_its_thread_sleeps_as_well() {
        let mut polling = polling(&["user_frac=50", "other_programs=1"]);
        let mut now = 0;
        while !polling.is_held() {
            polling.begin(now, Wait::No);
            now += 100_000;
            polling.end(Some(now), 64, true, || false);
        }
        let Wait::Until(until) = polling.wait(Wait::Forever) else { unreachable!("a hold ends") };
        polling.begin(now, Wait::Forever);
        polling.sleeps(Wait::Until(until));
        polling.end(None, 0, false, || false);
        polling.begin(until, Wait::Forever);
        assert!(!polling.is_held(), "it has slept until then");
    }

    #[test]
    fn what_was_handled_before_the_driver_was_asked_is_the_networks_too() {
        let mut polling = polling(&["user_frac=50"]);
        polling.begin(0, Wait::No);
        polling.handled(polling.asks_for_time(100).then_some(40_000), 100);
        // Then the lane slept, and nothing came.
        assert!(!polling.end(None, 0, false, || false));
        assert_eq!(polling.now().network, 40_000);
        polling.begin(1_040_000, Wait::No);
        assert_eq!(polling.now().network, 40_000);
        assert!(!polling.is_held());
    }

    #[test]
    fn a_turn_that_hands_nobody_anything_is_the_packets_to_its_end() {
        let network_of = |others_have: bool, rest: u64| {
            let mut polling = polling(&["user_frac=1"]);
            let mut now = 0;
            for _ in 0..=10 {
                polling.begin(now, Wait::No);
                assert!(!polling.end(Some(now + 10_000), 8, others_have, || false));
                now += 10_000 + rest;
            }
            polling.now().network
        };
        assert_eq!(network_of(false, 2_000), 11 * 10_000 + 10 * 2_000);
        assert_eq!(network_of(true, 2_000), 11 * 10_000);
        assert_eq!(network_of(false, 400_000), 11 * 10_000 + 10 * TURN, "the rest of so long a time was somebody else's");
    }

    #[test]
    fn receiving_for_nobody_counts_and_holds() {
        let mut polling = polling(&["user_frac=90"]);
        let mut now = 0;
        while !polling.is_held() {
            polling.begin(now, Wait::No);
            polling.worked(20_000);
            polling.end(None, 0, false, || false);
            now += 20_000;
            assert!(now < 10_000_000, "a flood that brings no frame is held as well");
        }
        assert_eq!(polling.now().network, now);
    }

    #[test]
    fn a_long_turn_counts_where_packets_are_found_at_once_behind_it() {
        let overruns = |slept: u64, packets: usize| {
            let mut polling = polling(&["user_frac=30"]);
            collect(&mut polling, [0, 0, 10_000], Wait::No, 8);
            // The lane would sleep then.
            let began = 10_000 + 2 * PERIOD;
            collect(&mut polling, [began, began + slept, began + slept + 10_000], Wait::Forever, packets);
            (polling.now().timed.overruns, polling.take_overrun(), polling.take_overrun())
        };
        assert_eq!(overruns(SLEEP - 1, 8), (1, Some(2 * PERIOD), None), "it is told once");
        assert_eq!(overruns(SLEEP, 8), (0, None, None), "they came while it slept");
        assert_eq!(overruns(SLEEP - 1, 0), (0, None, None));
    }

    #[test]
    fn a_call_that_finds_packets_at_once_is_no_sleep() {
        let mut polling = polling(&["user_frac=30"]);
        for turn in 0..100 {
            let now = turn * 20_000;
            collect(&mut polling, [now, now + SLEEP - 1, now + 10_000], Wait::Forever, 8);
        }
        assert_eq!(polling.now().network, 100 * 10_000);
    }

    #[test]
    fn what_ports_send_before_packets_wake_the_lane_is_no_sleep() {
        let mut polling = polling(&["user_frac=90"]);
        let mut now = 0;
        for _ in 0..1_000 {
            polling.begin(now, Wait::Forever);
            polling.worked(20_000);
            polling.woke(now + 25_000);
            assert!(!polling.end(Some(now + 30_000), 8, false, || false));
            now += 30_000;
        }
        assert_eq!(polling.now().network, 1_000 * 25_000);
        assert!(polling.is_held());
    }

    #[test]
    fn a_clock_that_jumps_is_stood_and_no_wait_is_long_for_it() {
        for changes in [&["user_frac=50"][..], &["user_frac=90", "other_programs=1"]] {
            let mut polling = polling(changes);
            for now in [5, 1 << 40, 7, 1 << 62, 0, 1 << 41, (1 << 41) + 10_000] {
                collect(&mut polling, [now, now / 2, now.saturating_add(1_000)], Wait::Forever, 8);
                polling.worked(1_000);
                polling.rested(now, 1_000);
                let waits = [polling.wait(Wait::Forever), polling.rests_until().map_or(Wait::No, Wait::Until)];
                for until in waits.into_iter().filter_map(|wait| if let Wait::Until(until) = wait { Some(until) } else { None }) {
                    assert!(until <= polling.began + 20 * PERIOD, "{changes:?}: {until} at {now}");
                }
            }
        }
    }

    #[test]
    fn tasks_wait_for_packets_for_a_while_and_no_longer() {
        let mut polling = polling(&["user_frac=50"]);
        let (mut now, mut ran, mut waited) = (0, 0, 0);
        while now < 100 * TASKS_WAIT {
            // Services take half of the time, so that the packets' part is never used up.
            collect(&mut polling, [now, now, now + 10_000], Wait::No, 8);
            now += 30_000;
            assert!(!polling.is_held());
            (ran, waited) = if polling.is_network_first() { (ran, waited + 1) } else { (ran + 1, waited) };
        }
        assert!(ran > 90 && waited > ran, "{ran} turns with tasks, {waited} without");
    }

    /// What comes of the ticks that are due at that time, with packets without end.
    fn tick(polling: &mut Polling, now: u64) {
        polling.begin(now, Wait::No);
        while polling.end(Some(now), 5, true, || false) {
            polling.begin(now, Wait::No);
        }
    }

    #[test]
    fn ticks_go_on_behind_a_clock_that_jumps() {
        let mut polling = polling(&["controller=original", "hz=1000"]);
        for now in [5, 1 << 40, 7, 1 << 62, 0, 1 << 41, (1 << 41) + 10_000] {
            tick(&mut polling, now);
            let Wait::Until(due) = polling.wait(Wait::Forever) else { unreachable!("it ticks") };
            assert!(due > now && due <= now + 1_000_000, "{due} at {now}");
        }
    }

    #[test]
    fn variables_are_shown_again_behind_a_clock_that_went_back() {
        let mut polling = polling(&["controller=original", "hz=1000"]);
        let shown = [1 << 40, (1 << 40) + SHOWN_AGAIN - 1, 7, SHOWN_AGAIN + 6, SHOWN_AGAIN + 7].map(|now| {
            tick(&mut polling, now);
            polling.is_to_show()
        });
        assert_eq!(shown, [true, false, false, false, true], "ten times a second from where the clock went back to");
    }

    #[test]
    fn a_lane_that_was_stopped_for_a_second_makes_up_for_some_ticks_and_goes_on() {
        let mut polling = polling(&["controller=original", "hz=1000"]);
        (1..=50).for_each(|number| tick(&mut polling, number * 1_000_000));
        let before = polling.now().variables;
        assert_eq!((before.stalled, before.pending_polls, before.handlers), (0, 0, 1));
        // With more than a hundred pending it has stalled, and forgets them; of the others none is left.
        let stopped = 1_050_000_000;
        tick(&mut polling, stopped);
        let after = polling.now().variables;
        let late = after.lost_polls - before.lost_polls + after.stalled;
        assert_eq!((after.stalled, after.pending_polls), (1, 0), "{after:?}");
        assert!((100..=TICKS_LATE as u32 + 1).contains(&late), "{late} ticks are made up for, and not a thousand");
        (1..=50).for_each(|number| tick(&mut polling, stopped + number * 1_000_000));
        let now = polling.now().variables;
        assert_eq!(
            (now.stalled, now.lost_polls, now.pending_polls, now.phase),
            (1, after.lost_polls, 0, 0),
            "a tick each, as before"
        );
        assert!(now.burst > after.burst, "{now:?}");
    }

    #[test]
    fn each_port_is_a_handler_and_has_a_chunk_of_its_own() {
        let mut settings = Settings::DEFAULT;
        for change in ["controller=original", "each_burst=4", "reg_frac=1"] {
            settings.change(change.parse::<Change>().unwrap()).unwrap();
        }
        let mut polling = Polling::new(Some(settings), 3);
        assert!(polling.begin(1_000_000, Wait::No) && polling.checks_status(), "a chunk, and a look");
        assert_eq!([0, 3, 4, 9].map(|brought| polling.frames_beside(brought)), [4, 1, 0, 0]);
        assert!(!polling.end(Some(1_000_000), 4, true, || true) && !polling.begin(1_000_100, Wait::No), "the chunk goes on");
        assert!(!polling.checks_status() && polling.now().variables.handlers == 3);
        assert_eq!(Polling::new(Some(settings), HANDLERS_MAX + 9).now().variables.handlers as usize, HANDLERS_MAX);
    }

    #[test]
    fn a_fraction_that_is_changed_under_a_flood_holds_from_then_on() {
        let mut polling = polling(&["user_frac=10"]);
        let mut now = 0;
        for user_frac in [10, 70, 0, 40] {
            let mut settings = polling.now().settings.unwrap();
            settings.change(Change::Knob(Knob::UserFrac, user_frac)).unwrap();
            assert!(polling.follow(Some(settings)) || user_frac == 10);
            let (from, mut users, mut network) = (now, 0, 0);
            while now < from + 2_000 * PERIOD {
                polling.begin(now, Wait::No);
                let packets = if polling.is_held() { 0 } else { 16 };
                now += 20_000 * (packets / 16) as u64;
                network += 20_000 * (packets / 16) as u64;
                polling.end(polling.asks_for_time(packets).then_some(now), packets, true, || false);
                // Tasks want the lane, where packets do not come first.
                let user = if polling.is_network_first() { 0 } else { 10_000 };
                (now, users) = (now + user, users + user);
            }
            let share = users * 100 / (users + network);
            // Without a part for others tasks have a turn behind each of the packets'.
            assert!(share.abs_diff(user_frac as u64) <= 3 || user_frac == 0 && share <= 40, "{share} for {user_frac}");
        }
    }

    #[test]
    fn a_knob_that_is_changed_leaves_what_was_found() {
        let mut polling = polling(&["controller=original"]);
        for tick in 1..=50 {
            polling.begin(tick * 1_000_000, Wait::No);
            while polling.end(Some(tick * 1_000_000), 0, false, || false) {
                polling.begin(tick * 1_000_000, Wait::No);
            }
        }
        assert!(polling.now().variables.burst > 40, "{:?}", polling.now());
        let mut settings = polling.now().settings.unwrap();
        settings.change("burst_max=30".parse().unwrap()).unwrap();
        assert!(polling.follow(Some(settings)) && !polling.follow(Some(settings)));
        assert_eq!(polling.now().variables.burst, 30);
        assert_eq!((polling.now().variables.stalled, polling.now().variables.suspect), (0, 0), "it began with the tick that was");
    }
}
