//! The controller and the model see the same events: all variables are equal after each, bit for bit.

use super::model::{self, BURST_MAX, EACH_BURST, END, IDLE, IDLE_POLL, Model, POLL, REG_FRAC, REGISTER, REMOVE, TICK, USER_FRAC};
use corelane_isr::polling::{HANDLERS_MAX, HandlerError, Knob, Knobs, Original, Variables};
use corelane_seam::Random;

/// Ticks of the run beside the model. `CORELANE_POLLING_TICKS` sets another number.
const TICKS: u64 = 10_000_000;

/// The model's variables.
fn variables(m: &Model) -> Variables {
    let [burst, residual_burst, reg_frac_count] = [m.burst, m.residual, m.reg_frac_count].map(|wide| wide as u32);
    let [short_ticks, lost_polls, pending_polls] = [m.short_ticks, m.lost_polls, m.pending].map(|wide| wide as u32);
    let [stalled, suspect, phase, handlers] = [m.stalled, m.suspect, m.phase, m.handlers].map(|wide| wide as u32);
    Variables { burst, residual_burst, reg_frac_count, short_ticks, lost_polls, pending_polls, stalled, suspect, phase, handlers }
}

fn both(hz: u32) -> (Original, Model) {
    let mut original = Original::new(hz, Knobs::DEFAULT).unwrap();
    original.register(7).unwrap();
    (original, Model { hz: hz.into(), handlers: 1, ..model::DEFAULT })
}

/// Tells the controller an event, and says its answer in the model's words.
fn tell(original: &mut Original, event: u8, argument: i64, now: u64) -> i64 {
    let knob = match event {
        TICK => return original.tick(now).into(),
        END => return original.end(now).into(),
        POLL => {
            let chunk = original.poll(now);
            return i64::from(chunk.frames) * if chunk.checks_status { -1 } else { 1 };
        }
        REGISTER | REMOVE => {
            // The model counts them alone, so the last one goes.
            let handlers = original.handlers();
            let changed = match (event, handlers.last().copied()) {
                (REMOVE, Some(last)) => original.remove(last),
                (_, last) => original.register(last.map_or(0, |last| last + 1)),
            };
            changed.unwrap();
            return 0;
        }
        IDLE => return original.idle_poll().map_or(0, |chunk| chunk.frames.into()),
        USER_FRAC => Knob::UserFrac,
        BURST_MAX => Knob::BurstMax,
        EACH_BURST => Knob::EachBurst,
        IDLE_POLL => Knob::IdlePoll,
        _ => Knob::RegFrac,
    };
    original.set(knob, argument).is_ok().into()
}

/// How events follow each other for a while.
struct Mood {
    /// Of eight events, so many are ticks; of the others, half are polls and half are ends, or as they must follow each other.
    ticks: u64,
    in_order: bool,
    /// Microseconds that pass before an event, at most.
    step_us: u64,
    jumps: bool,
}

impl Mood {
    fn drawn(random: &mut Random, hz: u32) -> Self {
        let [ticks, in_order] = [random.below(8), random.below(4)];
        Self { ticks, in_order: in_order > 0, step_us: 1 + random.below(4_000_000 / u64::from(hz)), jumps: random.below(8) == 0 }
    }

    fn event(&self, random: &mut Random, last: u8) -> u8 {
        if random.below(8) < self.ticks {
            return TICK;
        }
        match last {
            POLL if self.in_order => END,
            END if self.in_order => POLL,
            _ => [POLL, END][random.index(2)],
        }
    }

    fn time(&self, random: &mut Random, now: u64) -> u64 {
        if self.jumps && random.below(32) == 0 {
            return [now.wrapping_sub(random.below(1 << 33)), now.wrapping_add(random.below(1 << 33)), random.bits()]
                [random.index(3)];
        }
        now.wrapping_add(random.below(self.step_us))
    }
}

fn knob(random: &mut Random) -> (u8, i64) {
    let event = [USER_FRAC, BURST_MAX, EACH_BURST, REG_FRAC, IDLE_POLL][random.index(5)];
    let most = [5, 12, 120, 400, 25_000][random.index(5)];
    (event, random.below(most) as i64 - 2)
}

/// An event beside the clock and the network: an idle CPU, a knob, a handler that comes or goes.
fn rare(random: &mut Random, handlers: u32) -> (u8, i64) {
    match random.below(4) {
        0 => (IDLE, 0),
        1 if handlers == 0 => (REGISTER, 0),
        1 if handlers == 4 => (REMOVE, 0),
        1 => ([REGISTER, REMOVE][random.index(2)], 0),
        _ => knob(random),
    }
}

/// What a run has passed through.
#[derive(Debug, Default)]
struct Passed {
    ticks: u64,
    counts: [u64; 4],
    status: u64,
    idle: u64,
    highest: u32,
    lowest_again: u64,
    most_handlers: u32,
}

impl Passed {
    fn event(&mut self, event: u8, answer: i64, v: &Variables) {
        self.ticks += u64::from(event == TICK && v.handlers > 0);
        self.status += u64::from(event == POLL && answer < 0);
        self.idle += u64::from(event == IDLE && answer > 0);
        self.highest = self.highest.max(v.burst);
        self.lowest_again += u64::from(event == END && v.burst == 1);
        self.most_handlers = self.most_handlers.max(v.handlers);
    }

    fn end(&mut self, v: &Variables) {
        let counts = [v.short_ticks, v.lost_polls, v.stalled, v.suspect];
        self.counts.iter_mut().zip(counts).for_each(|(sum, count)| *sum += u64::from(count));
    }
}

/// Ten thousand events of one controller and its model.
fn play(random: &mut Random, passed: &mut Passed) {
    let hz = [20, 100, 1000, 2500, 1_000_000][random.index(5)];
    let (mut original, mut m) = both(hz);
    let (mut now, mut last) = (random.below(1 << 40), END);
    for _ in 0..20 {
        let mood = Mood::drawn(random, hz);
        for _ in 0..500 {
            let handlers = original.variables().handlers;
            let (event, argument) = if random.below(50) == 0 { rare(random, handlers) } else { (mood.event(random, last), 0) };
            if event == POLL || event == END {
                last = event;
            }
            now = mood.time(random, now);
            let answer = tell(&mut original, event, argument, now);
            assert_eq!(answer, model::step(&mut m, event, argument, now), "event {event} at {now}: {original:?} {m:?}");
            let v = original.variables();
            assert_eq!(v, variables(&m), "after event {event} at {now}, argument {argument}");
            assert!((1..=original.knobs().burst_max).contains(&v.burst));
            passed.event(event, answer, &v);
        }
    }
    passed.end(&original.variables());
}

#[test]
fn d_02_d_03_d_04_d_05_the_controller_is_the_model_bit_for_bit() {
    let ticks = std::env::var("CORELANE_POLLING_TICKS").map_or(TICKS, |text| text.parse().unwrap());
    let (mut random, mut passed) = (Random::new(5), Passed::default());
    while passed.ticks < ticks {
        play(&mut random, &mut passed);
    }
    // All that there is has been passed through.
    let [short_ticks, lost_polls, stalled, suspect] = passed.counts;
    assert!(short_ticks > 1000 && lost_polls > 1000 && stalled > 100 && suspect > 1000, "{passed:?}");
    assert!(passed.highest > 150 && passed.lowest_again > 1000 && passed.status > 1000, "{passed:?}");
    assert!(passed.idle > 1000 && passed.most_handlers == 4, "{passed:?}");
}

/// The recorded ticks: each line is an event, its argument, its time in microseconds and the variables after it.
const TRACE: &str = include_str!("../../data/polling-trace.tsv");

#[test]
fn d_03_d_04_d_05_the_recorded_ticks_give_the_recorded_variables() {
    let (mut original, mut m) = both(1000);
    let mut lines = 0;
    for line in TRACE.lines().filter(|line| !line.starts_with('#')) {
        let fields = line.split('\t').map(|field| field.parse().unwrap()).collect::<Vec<i64>>();
        let [event, argument, now, answer, rest @ ..] = &fields[..] else { panic!("{line}") };
        let (event, now) = (*event as u8, *now as u64);
        assert_eq!(tell(&mut original, event, *argument, now), *answer, "{line}");
        assert_eq!(model::step(&mut m, event, *argument, now), *answer, "{line}");
        assert_eq!(columns(&original.variables()), rest, "{line}");
        assert_eq!(columns(&variables(&m)), rest, "{line}");
        lines += 1;
    }
    assert!(lines > 600, "{lines}");
    let v = original.variables();
    assert!(v.short_ticks > 0 && v.lost_polls > 0 && v.suspect > 0 && v.stalled > 0, "{v:?}");
}

fn columns(v: &Variables) -> [i64; 9] {
    [v.burst, v.residual_burst, v.reg_frac_count, v.short_ticks, v.lost_polls, v.pending_polls, v.stalled, v.suspect, v.phase]
        .map(i64::from)
}

/// The status is looked at with each `reg_frac`th tick, so not with the first.
#[test]
fn d_04_a_cards_status_is_looked_at_each_reg_frac_ticks() {
    let (mut original, _) = both(1000);
    let looks = |original: &mut Original, ticks: u64| {
        let mut looks = Vec::new();
        for tick in 1..=ticks {
            original.tick(tick * 1000);
            looks.extend(original.poll(tick * 1000).checks_status.then_some(tick));
            while original.end(tick * 1000) {
                original.poll(tick * 1000);
            }
        }
        looks
    };
    assert_eq!(looks(&mut original, 45), [20, 40]);
    original.set(Knob::RegFrac, 5).unwrap();
    assert_eq!(looks(&mut original, 12), [5, 10], "five ticks since the last look are counted anew");
}

#[test]
fn d_03_without_handlers_a_tick_does_nothing() {
    let mut original = Original::new(1000, Knobs::DEFAULT).unwrap();
    let before = original.clone();
    assert!(!original.tick(1_000_000));
    assert_eq!(original, before);
}

#[test]
fn d_02_handlers_come_and_go_by_number() {
    let mut original = Original::new(1000, Knobs::DEFAULT).unwrap();
    for handler in 0..HANDLERS_MAX as u32 {
        original.register(handler).unwrap();
    }
    assert_eq!((HANDLERS_MAX, original.variables().handlers), (128, 128));
    assert_eq!(original.register(3), Err(HandlerError::Registered(3)));
    assert_eq!(original.register(128), Err(HandlerError::Full(128)));
    assert_eq!(original.remove(128), Err(HandlerError::Unknown(128)));
    original.remove(3).unwrap();
    assert_eq!((original.handlers()[3], original.handlers().len()), (127, 127), "the last one takes its place");
    original.remove(126).unwrap();
    assert_eq!(original.remove(3), Err(HandlerError::Unknown(3)));
    let words = [HandlerError::Registered(3), HandlerError::Full(128), HandlerError::Unknown(3)].map(|error| error.to_string());
    assert_eq!(words[0], "handler 3 is registered already (EEXIST)");
    assert_eq!(words[1], "handler 128 is one too many: 128 are registered; remove one first (ENOMEM)");
    assert_eq!(words[2], "handler 3 is not registered (ENOENT)");
}

#[test]
fn d_06_an_idle_cpu_polls_where_it_may() {
    let (mut original, _) = both(1000);
    assert_eq!(original.idle_poll(), None);
    original.set(Knob::IdlePoll, 1).unwrap();
    original.set(Knob::EachBurst, 8).unwrap();
    let before = original.variables();
    assert_eq!(original.idle_poll().map(|chunk| (chunk.frames, chunk.checks_status)), Some((8, false)));
    assert_eq!(original.variables(), before, "no tick's work");
    original.remove(7).unwrap();
    assert_eq!(original.idle_poll(), None);
}

/// A tick takes the burst and no more, so that a port has HZ times `burst_max` frames a second at most.
#[test]
fn d_07_a_second_has_hz_times_burst_max_frames() {
    let (mut original, _) = both(1000);
    let second = |original: &mut Original, from: u64| {
        let mut frames = 0;
        for tick in 0..1000 {
            let now = from + tick * 1000;
            let mut again = original.tick(now);
            while again {
                frames += original.poll(now).frames;
                again = original.end(now + 1);
            }
        }
        frames
    };
    second(&mut original, 1_000_000);
    assert_eq!(second(&mut original, 2_000_000), 150_000);
}

/// At ten times the load that the network's share carries, what a tick takes stays at that share.
#[test]
fn d_07_programs_keep_their_share_under_overload() {
    let (mut original, _) = both(1000);
    for (user_frac, most) in [(50, 520), (30, 720), (90, 120)] {
        original.set(Knob::UserFrac, user_frac).unwrap();
        for tick in 0..2000_u64 {
            let mut now = 1_000_000 + tick * 1000;
            let begun = now;
            let mut again = original.tick(now);
            while again {
                let frames = original.poll(now).frames;
                now += u64::from(frames) * 20;
                again = original.end(now);
            }
            assert!(tick < 200 || now - begun <= most, "{user_frac}: {} us", now - begun);
        }
    }
}
