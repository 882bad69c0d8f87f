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

    /// A turn; the tasks want the lane, or it would sleep.
    fn turn(&mut self, tasks_want: bool) {
        self.tell(tasks_want);
        if !tasks_want {
            self.timed.nobody_wants();
        }
        let frames = self.timed.frames() as u64;
        if frames > 0 {
            let took = CALL + frames * self.frame;
            self.now += took;
            self.network += took;
            assert_eq!(self.timed.network_took(took, frames), took, "nobody interrupts here");
        }
        self.left_at = self.now;
        self.now += frames * self.service;
        self.user += frames * self.service;
        if self.service > 0 {
            self.tell(true);
        }
        let is_first = frames > 0 && self.timed.is_network_first() && !self.other_programs;
        if let Some(held) = self.timed.held_for().filter(|_| self.other_programs) {
            assert!(held > 0, "who is held is held for some time");
            let slept = held + self.random.below(self.late + 1);
            self.now += slept;
            self.asleep += slept;
            self.is_asleep = true;
        } else if tasks_want && !is_first {
            self.now += self.slice;
            self.user += self.slice;
        } else {
            self.now += 100;
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
