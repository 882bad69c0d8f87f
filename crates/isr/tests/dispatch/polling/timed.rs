//! A lane under a flood, in virtual time: who has how much of it.

use corelane_isr::polling::{Controller, Knobs, PERIOD, Timed};
use corelane_seam::Random;

/// What one call into the kernel costs beside its frames, in nanoseconds.
const CALL: u64 = 1_500;
const SECOND: u64 = 1_000_000_000;

/// Times at which the lane does not have its CPU though it wants it.
#[derive(Clone, Copy)]
struct Away {
    /// Nanoseconds from one to the next, at random up to twice that, and how long each lasts.
    each: u64,
    lasts: u64,
    /// Another program has them. Else nobody: the hypervisor took the CPU, or the control group of all of them has used up its part.
    is_others: bool,
}

impl Away {
    const NEVER: Self = Self { each: u64::MAX, lasts: 0, is_others: false };
}

/// A lane whose packets never end.
struct Flooded {
    timed: Timed,
    other_programs: bool,
    /// Nanoseconds of a frame, and of one turn of the tasks.
    frame: u64,
    slice: u64,
    /// Nanoseconds that a service of the lane takes for each frame.
    service: u64,
    now: u64,
    left_at: u64,
    asleep: u64,
    network: u64,
    user: u64,
    /// Nanoseconds by which it wakes too late, at the most.
    late: u64,
    /// Nanoseconds of its own that a rest takes.
    falling_asleep: u64,
    away: Away,
    away_at: u64,
    /// Nanoseconds that nobody had.
    nobody: u64,
    /// Nanoseconds that others had without being left them.
    taken: u64,
    random: Random,
}

impl Flooded {
    fn new(user_frac: u32, other_programs: bool, frame: u64, slice: u64) -> Self {
        let knobs = Knobs { user_frac, ..Controller::Timed.knobs() };
        Self {
            timed: Timed::new(knobs, other_programs),
            other_programs,
            frame,
            slice,
            service: 0,
            now: 0,
            left_at: 0,
            asleep: 0,
            network: 0,
            user: 0,
            late: 0,
            falling_asleep: 0,
            away: Away::NEVER,
            away_at: u64::MAX,
            nobody: 0,
            taken: 0,
            random: Random::new(u64::from(user_frac)),
        }
    }

    /// Tells what has passed since the network had the lane.
    fn tell(&mut self, waits: bool) {
        let passed = self.now - self.left_at;
        if waits {
            self.timed.packets_waited(passed);
        }
        self.timed.services_took(passed);
        self.left_at = self.now;
    }

    /// From now on it does not have its CPU at times.
    fn away(mut self, away: Away) -> Self {
        (self.away, self.away_at) = (away, self.now + self.random.below(away.each));
        self
    }

    /// The lane works for so long.
    fn works(&mut self, nanoseconds: u64) {
        self.now += nanoseconds;
        while self.away_at <= self.now {
            self.passes_away();
        }
    }

    /// It does not have its CPU for once.
    fn passes_away(&mut self) {
        let Away { each, lasts, is_others } = self.away;
        self.now += lasts;
        *(if is_others { &mut self.taken } else { &mut self.nobody }) += lasts;
        self.away_at = self.now + self.random.below(each.saturating_mul(2)).max(1);
    }

    /// A rest of so long, or longer: the lane wakes late, also because somebody or nobody has its CPU then.
    fn rests(&mut self, held: u64) {
        let (began, before) = (self.now, self.taken + self.nobody);
        let until = began + held + self.random.below(self.late + 1);
        while self.away_at < until.max(self.now) {
            self.now = self.away_at;
            self.passes_away();
        }
        self.now = self.now.max(until);
        // What it takes to fall asleep and to wake up is the lane's.
        let slept = (self.now - began).saturating_sub(self.falling_asleep);
        self.asleep += slept.saturating_sub(self.taken + self.nobody - before);
        self.timed.services_took(self.now - began - slept);
        self.timed.slept(slept);
        self.left_at = self.now;
    }

    /// Runs for so many seconds that somebody has, under a flood. Per cent of them that others have, and of the second in which they have the least.
    fn floods(&mut self, seconds: usize) -> [f64; 2] {
        let shares: Vec<f64> = (0..seconds).map(|_| self.floods_for_a_second()).collect();
        [shares.iter().sum::<f64>() / seconds as f64, shares.into_iter().fold(100.0, f64::min)]
    }

    fn floods_for_a_second(&mut self) -> f64 {
        let from = self.now;
        (self.asleep, self.taken, self.nobody) = (0, 0, 0);
        while self.now - from - self.nobody < SECOND {
            self.turn(false);
        }
        (self.asleep + self.taken) as f64 * 100.0 / (self.now - from - self.nobody) as f64
    }

    /// A turn; the tasks want the lane, or it would sleep.
    fn turn(&mut self, tasks_want: bool) {
        self.tell(tasks_want);
        if !tasks_want {
            self.timed.nobody_wants();
        }
        let frames = self.timed.frames() as u64;
        if frames > 0 {
            let began = self.now;
            self.works(CALL + frames * self.frame);
            let took = self.now - began;
            self.network += took;
            let own = self.timed.network_took(took, frames);
            assert!(own == took || self.away.lasts > 0, "nobody interrupts here");
        }
        self.left_at = self.now;
        self.works(frames * self.service);
        self.user += frames * self.service;
        if self.service > 0 {
            self.tell(true);
        }
        let is_first = frames > 0 && self.timed.is_network_first() && !self.other_programs;
        if let Some(held) = self.timed.held_for().filter(|_| self.other_programs) {
            assert!(held > 0, "who is held is held for some time");
            self.rests(held);
        } else if tasks_want && !is_first {
            self.works(self.slice);
            self.user += self.slice;
        } else {
            self.works(100);
        }
    }

    fn user_share(&self) -> f64 {
        self.user as f64 * 100.0 / (self.user + self.network) as f64
    }
}

/// Whatever a packet costs, tasks that always want the lane have what was set, and no more than what is handed out at once.
#[test]
fn tasks_have_their_fraction_and_packets_theirs() {
    let mut random = Random::new(17);
    for _ in 0..2_000 {
        let user_frac = 1 + random.below(99) as u32;
        let (frame, slice) = (200 + random.below(20_000), 500 + random.below(40_000));
        let mut lane = Flooded::new(user_frac, false, frame, slice);
        while lane.now < 400 * PERIOD {
            lane.turn(true);
        }
        let (share, set) = (lane.user_share(), f64::from(user_frac));
        // The account holds the packets' part of a period: of one slice no more comes in.
        let part = PERIOD as f64 * (100.0 - set) / 100.0;
        let more = (slice as f64 / (PERIOD as f64)).max((CALL + frame) as f64 / part) * 100.0;
        assert!(share > set - 3.0 && share < set + 3.0 + more, "{share} for {user_frac}, {frame} and {slice} ns");
    }
}

#[test]
fn a_usual_packet_leaves_tasks_what_was_set_within_a_point() {
    for user_frac in 1..=99 {
        let mut lane = Flooded::new(user_frac, false, 2_000, 20_000);
        while lane.now < 4_000 * PERIOD {
            lane.turn(true);
        }
        assert!((lane.user_share() - f64::from(user_frac)).abs() < 2.0, "{} for {user_frac}", lane.user_share());
    }
}

#[test]
fn packets_have_all_the_time_that_nobody_wants() {
    let mut lane = Flooded::new(90, false, 2_000, 20_000);
    while lane.now < 1_000 * PERIOD {
        lane.turn(false);
    }
    assert!(lane.network as f64 > 0.95 * lane.now as f64, "{} of {}", lane.network, lane.now);
    assert!(lane.timed.counts().held > 0 && lane.timed.counts().overruns == 0);
}

#[test]
fn time_for_other_programs_is_kept_for_them() {
    for user_frac in [10, 30, 50, 90, 99] {
        let mut lane = Flooded::new(user_frac, true, 2_000, 20_000);
        while lane.now < 1_000 * PERIOD {
            lane.turn(false);
        }
        let share = 100.0 - lane.network as f64 * 100.0 / lane.now as f64;
        assert!((share - f64::from(user_frac)).abs() < 2.0, "{share} for {user_frac}");
    }
}

/// What a service does for each packet is the lane's time, not other programs': it answers until the lane's part is used up, and then all sleep.
#[test]
fn other_programs_have_theirs_whatever_services_take() {
    let mut random = Random::new(23);
    for user_frac in [10, 30, 50, 90] {
        for service in [500, 2_000, 2_000 + random.below(8_000)] {
            let mut lane = Flooded { service, late: random.below(2_000_000), ..Flooded::new(user_frac, true, 1_000, 0) };
            while lane.now < 10_000 * PERIOD {
                lane.turn(false);
            }
            let (share, answered) = (lane.asleep as f64 * 100.0 / lane.now as f64, lane.user);
            assert!((share - f64::from(user_frac)).abs() < 3.0, "{share} for {user_frac}, {service} ns each");
            assert!(answered > 0 && lane.network > 0);
        }
    }
}

/// Services and tasks that want the lane without end rest with it, and do not shut packets out.
#[test]
fn services_without_end_leave_other_programs_theirs_and_packets_some() {
    for user_frac in [10, 30, 50, 90] {
        for slice in [20_000, 200_000] {
            let mut lane = Flooded::new(user_frac, true, 2_000, slice);
            let (mut waited, mut longest) = (0, 0);
            while lane.now < 10_000 * PERIOD {
                let before = (lane.now, lane.network);
                lane.turn(true);
                waited = if lane.network > before.1 { 0 } else { waited + lane.now - before.0 };
                longest = longest.max(waited);
            }
            let share = lane.asleep as f64 * 100.0 / lane.now as f64;
            assert!((share - f64::from(user_frac)).abs() < 3.0, "{share} for {user_frac}");
            assert!(longest <= 10 * PERIOD && lane.user > 0, "packets waited for {longest} ns");
        }
    }
}

/// The scheduler lets a lane that slept for other programs run at its next tick, or later: packets have that time afterwards.
#[test]
fn a_lane_that_wakes_late_makes_up_for_it() {
    for user_frac in [10, 30, 50, 90] {
        let mut lane = Flooded { late: 4_000_000, ..Flooded::new(user_frac, true, 2_000, 20_000) };
        while lane.now < 10_000 * PERIOD {
            lane.turn(false);
        }
        let share = 100.0 - lane.network as f64 * 100.0 / lane.now as f64;
        assert!((share - f64::from(user_frac)).abs() < 2.0, "{share} for {user_frac}");
    }
}

/// A lane whose rests take it 20 us of its own.
fn resting(user_frac: u32) -> Flooded {
    Flooded { falling_asleep: 20_000, ..Flooded::new(user_frac, true, 5_000, 0) }
}

#[test]
fn what_a_rest_takes_is_the_lanes() {
    for user_frac in [10, 30, 50, 90] {
        let mut lane = resting(user_frac);
        let [share, least] = lane.floods(2);
        assert!((share - f64::from(user_frac)).abs() < 1.0 && share - least < 1.0, "{share} and {least} for {user_frac}");
        assert!(lane.network > SECOND / 20, "packets have theirs: {} ns of 2 s for {user_frac}", lane.network);
    }
}

/// What nobody had counts as others' in a rest and as the lane's in a turn, so both lose alike.
#[test]
fn a_cpu_that_is_stolen_or_throttled_leaves_others_their_fraction_of_the_rest_of_it() {
    for user_frac in [10, 30, 50, 90] {
        let set = f64::from(user_frac);
        let played = |each, lasts| resting(user_frac).away(Away { each, lasts, is_others: false }).floods(2);
        for lasts in [100_000, 1_000_000, 10_000_000] {
            let [share, least] = played(4 * lasts, lasts);
            assert!((share - set).abs() < 3.0 && least > set * 0.85, "{share} and {least} for {user_frac}, a fifth is stolen");
            let [_, least] = played(lasts, lasts);
            assert!(least > set * 2.0 / 3.0, "{least} for {user_frac}, a half is stolen");
        }
        // Parts of 100 ms that a control group has used up, and a machine that is stopped for an hour.
        for (each, lasts) in [(60_000_000, 40_000_000), (20_000_000, 80_000_000), (2 * SECOND, 3_600 * SECOND)] {
            let [share, least] = played(each, lasts);
            assert!(
                (share - set).abs() < 4.0 && least > set * 2.0 / 3.0,
                "{share} and {least} for {user_frac}, {lasts} of {each}"
            );
        }
    }
}

/// Another program that has the CPU when it likes, by a control group of more weight, or for it is of a real-time policy: others have their fraction of what it leaves.
#[test]
fn what_another_program_takes_comes_on_top_of_the_fraction() {
    for user_frac in [10, 30, 50, 90] {
        for (each, lasts) in [(400_000, 100_000), (4_000_000, 1_000_000), (40_000_000, 40_000_000)] {
            let (set, taken) = (f64::from(user_frac), lasts as f64 / (each + lasts) as f64);
            let [share, least] = resting(user_frac).away(Away { each, lasts, is_others: true }).floods(2);
            assert!(share < set + (100.0 - set) * taken + 5.0 && least > set, "{share} and {least} for {user_frac}, {taken}");
        }
    }
}

/// SIGSTOP, and a clock that jumps ahead: no second behind it is without a part for others, or for packets.
#[test]
fn a_lane_that_was_stopped_goes_on_as_before() {
    for user_frac in [10, 30, 50, 90] {
        let mut lane = resting(user_frac);
        for stopped_in_a_rest in [false, true] {
            match stopped_in_a_rest {
                false => lane.works(10 * SECOND),
                true => lane.rests(10 * SECOND),
            }
            let [share, least] = lane.floods(1);
            let set = f64::from(user_frac);
            assert!((share - set).abs() < 1.0 && least == share, "{share} for {user_frac}");
        }
    }
}

#[test]
fn at_half_load_nobody_is_held() {
    let mut timed = Timed::new(Controller::Timed.knobs(), false);
    for _ in 0..10_000 {
        timed.slept(16_000);
        assert!(timed.frames() > 0);
        timed.network_took(16_000, 8);
    }
    assert_eq!(timed.counts().held, 0);
}

#[test]
fn a_lane_that_was_stopped_owes_nobody_and_is_owed_nothing() {
    let mut lane = Flooded::new(50, false, 2_000, 20_000);
    while lane.now < 100 * PERIOD {
        lane.turn(true);
    }
    // Within a chunk: the time was somebody else's.
    let own = lane.timed.network_took(1_000_000_000, 64);
    assert!(own < 3_000_000, "{own} of a second for 64 frames of 2 us");
    // Between turns: it was others', and packets have no more than their part of a period for it.
    let held = lane.timed.counts().held;
    assert!(lane.timed.packets_waited(1_000_000_000) && !lane.timed.packets_waited(PERIOD));
    lane.timed.services_took(1_000_000_000);
    assert_eq!(lane.timed.counts().overruns, 1);
    let mut frames = 0;
    while lane.timed.counts().held == held {
        let each = lane.timed.frames() as u64;
        lane.timed.network_took(CALL + each * 2_000, each);
        frames += each;
    }
    assert!(frames * 2_000 < 2 * PERIOD, "{frames} frames at once");
}

#[test]
fn a_clock_that_jumps_ends_nothing() {
    let mut timed = Timed::new(Controller::Timed.knobs(), true);
    for nanoseconds in [0, 1, u64::MAX, u64::MAX / 2, 0] {
        timed.services_took(nanoseconds);
        timed.slept(nanoseconds);
        timed.network_took(nanoseconds, 1);
        timed.network_took(nanoseconds, u64::MAX);
        assert!(timed.held_for().is_none_or(|held| held > 0) && timed.burst() >= 1);
    }
}

#[test]
fn beside_other_programs_a_rest_has_its_bound_at_each_fraction() {
    for user_frac in [1, 10, 50, 90, 97, 99] {
        let mut timed = Timed::new(Knobs { user_frac, ..Controller::Timed.knobs() }, true);
        // However much was taken.
        (0..1_000).for_each(|_| timed.charge(8 * PERIOD));
        let held = timed.held_for().unwrap();
        let rest = (50 * PERIOD / (100 - u64::from(user_frac))).clamp(2 * PERIOD, 6 * PERIOD);
        assert!((7 * PERIOD + rest..=8 * PERIOD + rest + 100).contains(&held), "{user_frac} %: {held} ns");
    }
}

#[test]
fn nothing_is_kept_at_a_fraction_of_0() {
    let mut lane = Flooded::new(0, false, 2_000, 20_000);
    assert!(lane.timed.is_idle() && !lane.timed.is_network_first());
    while lane.now < 10 * PERIOD {
        lane.turn(true);
    }
    assert_eq!((lane.timed.counts().held, lane.timed.held_for()), (0, None));
}

#[test]
fn burst_max_bounds_what_comes_before_others() {
    let knobs = Knobs { user_frac: 10, burst_max: 20, each_burst: 10, ..Controller::Timed.knobs() };
    let mut timed = Timed::new(knobs, false);
    assert_eq!((timed.burst(), timed.frames()), (20, 10));
    timed.network_took(10_000, 10);
    timed.services_took(PERIOD);
    assert_eq!((timed.cost(), timed.burst()), (1_000, 20));
    let mut frames = 0;
    while timed.frames() > 0 {
        frames += timed.frames() as u64;
        timed.network_took(timed.frames() as u64 * 1_000, timed.frames() as u64);
    }
    assert!((20..=240).contains(&frames), "{frames} frames");
}
