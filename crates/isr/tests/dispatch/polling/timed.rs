//! A lane under a flood, in virtual time: who has how much of it.

use corelane_isr::polling::{Controller, Knobs, PERIOD, Timed};
use corelane_seam::Random;

/// What one call into the kernel costs beside its frames, in nanoseconds.
const CALL: u64 = 1_500;

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
    is_asleep: bool,
    asleep: u64,
    network: u64,
    user: u64,
    /// Nanoseconds by which it wakes too late, at the most.
    late: u64,
    /// Nanoseconds for which others have its CPU at once while it would run, now and then; and all that they had so.
    interrupted: u64,
    taken: u64,
    /// Nanoseconds of its CPU that it has used, if its account is settled by that; and both clocks as it was.
    used: Option<u64>,
    settled: [u64; 2],
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
            is_asleep: false,
            asleep: 0,
            network: 0,
            user: 0,
            late: 0,
            interrupted: 0,
            taken: 0,
            used: None,
            settled: [0, 0],
            random: Random::new(u64::from(user_frac)),
        }
    }

    /// Tells what has passed since the network had the lane.
    fn tell(&mut self, waits: bool) {
        let passed = self.now - self.left_at;
        match std::mem::take(&mut self.is_asleep) {
            true => self.timed.slept(passed),
            false => {
                if waits {
                    self.timed.packets_waited(passed);
                }
                self.timed.services_took(passed);
            }
        }
        self.left_at = self.now;
    }

    /// The lane works for so long.
    fn works(&mut self, nanoseconds: u64) {
        self.now += nanoseconds;
        self.used = self.used.map(|used| used + nanoseconds);
    }

    /// A lane that rests wakes late, and its account is settled where it knows what of its CPU it has used.
    fn rest(&mut self, asked: u64) {
        let slept = asked + self.random.below(self.late + 1);
        self.now += slept;
        self.asleep += slept;
        let Some(used) = self.used else {
            self.is_asleep = true;
            return;
        };
        self.timed.rested(asked, slept);
        self.left_at = self.now;
        let [passed, used_since] = [self.now - self.settled[0], used - self.settled[1]];
        self.timed.settle(Some([passed, used_since]));
        self.settled = [self.now, used];
    }

    /// Per cent of the time that other programs had.
    fn others_share(&self) -> f64 {
        (self.asleep + self.taken) as f64 * 100.0 / self.now as f64
    }

    /// A turn; the tasks want the lane, or it would sleep.
    fn turn(&mut self, tasks_want: bool) {
        if self.interrupted > 0 && self.random.below(100) == 0 {
            self.now += self.interrupted;
            self.taken += self.interrupted;
        }
        self.tell(tasks_want);
        if !tasks_want {
            self.timed.nobody_wants();
        }
        let frames = self.timed.frames() as u64;
        if frames > 0 {
            let took = CALL + frames * self.frame;
            self.works(took);
            self.network += took;
            assert_eq!(self.timed.network_took(took, frames), took, "nobody interrupts here");
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
            self.rest(held);
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

/// Rests that last for several of the scheduler's ticks are made up for as well, and each time the lane went on in place of a rest the next one comes.
#[test]
fn a_lane_that_wakes_very_late_has_its_part_behind_that() {
    for user_frac in [10, 30, 50, 90] {
        let mut lane = Flooded { late: 12_000_000, used: Some(0), ..Flooded::new(user_frac, true, 2_000, 20_000) };
        while lane.now < 40_000 * PERIOD {
            lane.turn(false);
        }
        assert!((lane.others_share() - f64::from(user_frac)).abs() < 3.0, "{} for {user_frac}", lane.others_share());
    }
}

/// Others had the CPU while the lane was charged for the time: by the time of the CPU that it has used, that is theirs.
#[test]
fn a_lane_that_is_interrupted_is_charged_what_it_used() {
    for (user_frac, interrupted) in [10, 30, 50, 90].into_iter().flat_map(|share| [300_000, 3_000_000].map(|long| (share, long)))
    {
        let lane = Flooded { interrupted, ..Flooded::new(user_frac, true, 1_000, 0) };
        let share = |used: Option<u64>| {
            let mut lane = Flooded { used, timed: lane.timed.clone(), random: Random::new(5), ..lane };
            while lane.now < 20_000 * PERIOD {
                lane.turn(false);
            }
            lane.others_share()
        };
        let (settled, unsettled) = (share(Some(0)), share(None));
        // What comes without being asked for may be more than their part.
        let least = f64::from(user_frac);
        assert!(
            settled > least - 2.0 && settled < unsettled + 0.5,
            "{settled}, and {unsettled} by the clock alone, for {user_frac}"
        );
        let is_met = settled < least + 3.0;
        assert!(is_met || interrupted > PERIOD, "{settled} for {user_frac}, {interrupted} ns each");
    }
}

/// What was not charged is paid for.
#[test]
fn a_lane_that_used_more_than_it_was_charged_pays_for_it() {
    let held = |used: Option<[u64; 2]>| {
        let mut timed = Timed::new(Knobs { user_frac: 50, ..Controller::Timed.knobs() }, true);
        timed.settle(None);
        timed.charge(400_000);
        timed.settle(used);
        timed.charge(400_000);
        timed.held_for()
    };
    let exact = held(Some([400_000, 400_000])).unwrap();
    assert_eq!(held(None), Some(exact));
    // 200 us more of its CPU, of which the half was its own anyway.
    assert_eq!(held(Some([600_000, 600_000])), Some(exact + 200_000));
}

/// What nobody wanted is not kept for the lane, nor what others had while it was stopped, beyond some late rests.
#[test]
fn what_others_had_is_made_up_for_as_far_as_the_lane_wanted_it() {
    // How long the lane goes on without a rest of some length.
    let goes_on = |before: fn(&mut Timed)| {
        let mut timed = Timed::new(Knobs { user_frac: 50, ..Controller::Timed.knobs() }, true);
        before(&mut timed);
        let (mut rested, mut turns) = (0, 0_u64);
        while rested < 10_000_000 {
            timed.charge(10_000);
            turns += 1;
            if let Some(held) = timed.held_for() {
                rested += held;
                timed.rested(held, held);
            }
        }
        turns * 10_000
    };
    let plain = goes_on(|_| {});
    let late = goes_on(|timed| timed.rested(250_000, 20_250_000));
    let stopped = goes_on(|timed| timed.rested(250_000, 5_000_000_000));
    let idle = goes_on(|timed| {
        timed.rested(250_000, 20_250_000);
        timed.waited(PERIOD);
    });
    assert!(late >= plain + 19_000_000 && late <= plain + 21_000_000, "{late} and {plain}");
    assert!(stopped <= plain + 55_000_000, "{stopped} and {plain}");
    assert!(idle <= plain + 5_000_000, "{idle} and {plain}");
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
        assert!((8 * PERIOD..=9 * PERIOD + 100).contains(&held), "{user_frac} %: {held} ns");
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
