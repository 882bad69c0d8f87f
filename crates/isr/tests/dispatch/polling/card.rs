//! The simulated gateway takes the published way: the same order, and figures near the published ones.

use corelane_isr::polling::card::{Card, Machine, PUBLISHED, Published, RULES_TREE, Second, Traffic};
use corelane_isr::polling::{Knobs, Variables};

const SEEDS: u64 = 3;

/// The mean of some seconds after some others, over a few seeds: megabytes, errors, the network's share; the greatest burst.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    pub mbytes: f64,
    pub errors: f64,
    pub network_share: f64,
    pub lost_polls: f64,
    pub burst_most: u32,
    pub longest_us: u64,
}

pub fn run(machine: Machine, hz: u32, knobs: Knobs) -> Figures {
    let mut figures = Figures::default();
    for seed in 0..SEEDS {
        let mut card = Card::new(machine, hz, knobs, seed).unwrap();
        let before = (0..3).map(|_| card.second()).last().unwrap().variables.lost_polls;
        let seconds: Vec<Second> = (0..5).map(|_| card.second()).collect();
        let parts = 5.0 * SEEDS as f64;
        for second in &seconds {
            figures.mbytes += second.forwarded as f64 / 1000.0 / parts;
            figures.errors += second.errors as f64 / parts;
            figures.network_share += second.network_us as f64 / 10_000.0 / parts;
            figures.burst_most = figures.burst_most.max(second.burst_most);
            figures.longest_us = figures.longest_us.max(second.longest_us);
        }
        figures.lost_polls += f64::from(seconds[4].variables.lost_polls - before) / parts;
    }
    figures
}

fn published(one: &Published) -> Figures {
    run(Machine { rules: one.rules, ..Machine::GATEWAY }, one.hz, one.knobs)
}

/// Whether a figure is within some per cent of another.
fn is_near(found: f64, published: Option<u32>, per_cent: f64) -> bool {
    published.is_none_or(|published| (found / f64::from(published) - 1.0).abs() <= per_cent / 100.0)
}

#[test]
fn x_17_the_published_steps_come_in_their_order_and_near_their_figures() {
    let found = PUBLISHED.map(|one| published(&one));
    for (one, found) in PUBLISHED.iter().zip(&found) {
        println!("{}: {found:?}", one.change);
        assert!(is_near(found.mbytes, one.mbytes, 15.0), "{one:?} {found:?}");
        assert!(is_near(found.errors, one.errors, 15.0), "{one:?} {found:?}");
        assert!(is_near(found.network_share, one.network_share, 15.0), "{one:?} {found:?}");
    }
    let [first, ticks_1500, ticks_2500, user_30, burst_300, skipto, tree] = found.map(|figures| figures.mbytes);
    let gains = [ticks_1500 - first, ticks_2500 - ticks_1500, user_30 - ticks_2500, skipto - user_30, tree - skipto];
    assert!(gains.iter().all(|gain| *gain > 0.5), "{gains:?}");
    assert!(gains[2] > 3.0 * gains[0].max(gains[1]), "the share of programs is the large one: {gains:?}");
    assert!(gains[4] > gains[3], "{gains:?}");
    assert!((burst_300 / user_30 - 1.0).abs() < 0.01, "a larger burst_max gains nothing");
}

/// At the settings of the published try the controller's burst stays far below `burst_max`, so that each frame's way is the same.
#[test]
fn x_17_burst_max_cannot_matter_where_the_share_is_the_limit() {
    let [user_30, burst_300] = [3, 4].map(|index: usize| PUBLISHED[index]);
    let mut at_150 = Card::new(Machine::GATEWAY, user_30.hz, user_30.knobs, 1).unwrap();
    for _ in 0..3 {
        at_150.second();
    }
    let mut at_300 = at_150.clone();
    at_300.set(burst_300.hz, burst_300.knobs).unwrap();
    for _ in 0..20 {
        let second = at_150.second();
        assert_eq!(at_300.second(), second);
        assert!(second.burst_most < 60 && second.errors > 100, "{second:?}");
    }
}

/// Where the CPU is not the limit the burst climbs to `burst_max`, and each tick polls that often for nothing: the same frames cost more of the CPU, and when they come
/// together more polls are lost.
#[test]
fn x_17_a_larger_burst_max_is_worse_where_little_comes() {
    let traffic = Traffic { most: 10_000, rest_us: 200_000, period_us: 400_000, ..Machine::GATEWAY.traffic };
    let with = |burst_max| run(Machine { traffic, ..Machine::GATEWAY }, 2500, Knobs { burst_max, ..PUBLISHED[3].knobs });
    let [at_150, at_300, at_1000] = [150, 300, 1000].map(with);
    println!("{at_150:?}\n{at_300:?}\n{at_1000:?}");
    assert_eq!([at_150.burst_most, at_300.burst_most, at_1000.burst_most], [150, 300, 1000]);
    assert!((at_300.mbytes / at_150.mbytes - 1.0).abs() < 0.01 && (at_1000.mbytes / at_150.mbytes - 1.0).abs() < 0.01);
    assert!(at_300.network_share > at_150.network_share * 1.08, "{at_150:?} {at_300:?}");
    assert!(at_1000.network_share > at_150.network_share * 1.4, "{at_150:?} {at_1000:?}");
    assert!(at_300.lost_polls > at_150.lost_polls && at_1000.lost_polls > at_300.lost_polls);
}

/// Whatever is set and whatever comes, frames are carried or counted, and shares of a second are no more than it.
#[test]
fn a_card_stands_any_settings_and_any_machine() {
    let none = Traffic { most: 0, flows: 0, round_trip_us: 0, train: 0, rest_us: u64::MAX, period_us: 1 };
    let flood = Traffic { most: u32::MAX, flows: 1, round_trip_us: 1_000_000, train: 1000, rest_us: 0, period_us: 0 };
    let zero = Machine { ring: 0, held_bytes: 0, frame_bytes: 0, wire_mbits: 0, bus_mbytes: 0, frame_ns: 0, ..Machine::GATEWAY };
    for (hz, user_frac, idle_poll) in [(20, 0, true), (1000, 99, false), (50_000, 50, true)] {
        for traffic in [none, flood] {
            for machine in [Machine { traffic, ..Machine::GATEWAY }, Machine { traffic, user_wants: 0, ..zero }] {
                let knobs = Knobs { user_frac, idle_poll, ..Knobs::DEFAULT };
                let mut card = Card::new(machine, hz, knobs, 1).unwrap();
                let second = card.second();
                assert!(second.network_share() <= 101 && second.user_share() <= 101, "{second:?}");
                assert!(traffic != none || second.forwarded + second.errors <= 1);
                card.set(1000, knobs).unwrap();
                card.second();
                assert!(card.set(0, knobs).is_err());
            }
        }
    }
}

/// A frame crosses the bus twice: where neither ring nor CPU is the limit, half of what it carries is.
#[test]
fn the_bus_carries_each_frame_twice() {
    let with = |bus_mbytes| {
        let machine = Machine { bus_mbytes, ring: 256, rules: 0, ..Machine::GATEWAY };
        run(machine, 2500, Knobs { user_frac: 0, ..Knobs::DEFAULT }).mbytes
    };
    let [narrow, wide] = [80, 2000].map(with);
    assert!((35.0..=40.0).contains(&narrow) && wide > 1.5 * narrow, "{narrow} {wide}");
}

/// Each `reg_frac`th tick looks at the card's status, a read across the bus: that is what the knob is worth, a thousandth of a tick, so no published step has to do with it.
#[test]
fn d_04_a_look_at_the_status_costs_what_it_takes_and_no_more() {
    let reading = Machine { status_ns: 1_000, ..Machine::GATEWAY };
    let none = Traffic { most: 0, flows: 0, round_trip_us: 0, train: 0, rest_us: u64::MAX, period_us: 1 };
    let network_us = |reg_frac| {
        let machine = Machine { traffic: none, ..reading };
        let mut card = Card::new(machine, 1000, Knobs { reg_frac, ..Knobs::DEFAULT }, 1).unwrap();
        card.second();
        card.second().network_us
    };
    let [each, at_20, at_1000] = [1, 20, 1000].map(network_us);
    assert!((each - at_20).abs_diff(950) <= 2 && (at_20 - at_1000).abs_diff(49) <= 2, "{each} {at_20} {at_1000}");
    let carried = |reg_frac| run(reading, 2500, Knobs { reg_frac, ..PUBLISHED[3].knobs }).mbytes;
    let [each, at_2500] = [1, 2500].map(carried);
    assert!((each / at_2500 - 1.0).abs() < 0.02, "{each} {at_2500}");
}

/// What programs leave is polled in, and no more.
#[test]
fn d_06_an_idle_cpu_carries_what_the_ticks_do_not() {
    let with = |idle_poll, user_wants| {
        run(Machine { user_wants, ..Machine::GATEWAY }, 1000, Knobs { idle_poll, ..Knobs::DEFAULT }).mbytes
    };
    assert!(with(true, 0) > 1.8 * with(false, 0));
    assert!(with(true, 100) < 1.05 * with(false, 100), "programs want all of it");
}

#[test]
fn the_same_seed_gives_the_same_seconds() {
    let seconds = |seed| {
        let mut card = Card::new(Machine::GATEWAY, 1000, Knobs::DEFAULT, seed).unwrap();
        card.set_rules(RULES_TREE);
        [card.second(), card.second()]
    };
    assert_eq!(seconds(1), seconds(1));
    assert_ne!(seconds(1)[1], seconds(2)[1]);
    assert_ne!(seconds(1)[1].variables, Variables::default());
}
