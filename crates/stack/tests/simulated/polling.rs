//! Polling on a stack, in virtual time: how many packets a tick handles, and that nothing is handled between ticks.

use crate::alone::Alone;
use crate::frames::{STACK, TEST, arp, udp_in};
use crate::gateway::{Gateway, settings};
use crate::lanes::plan;
use crate::program::{Card, Heard, PORT, Plan, Program};
use corelane_isr::polling::{Change, Controller, Knob, Settings};
use corelane_seam::{Driver, Wait};
use corelane_sim::CardSetup;
use corelane_watch::ServiceCounter;
use corelane_wire::packet::arp::Operation;
use corelane_wire::packet::ethernet::Mac;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Ticks a second, and how many microseconds one takes.
const HZ: i64 = 100;
const TICK_US: u64 = 10_000;

fn original(changes: &[Change]) -> Settings {
    let mut settings = Settings::DEFAULT;
    for change in [&[Change::Controller(Controller::Original), Change::Hz(HZ)], changes].concat() {
        settings.change(change).unwrap();
    }
    settings
}

/// Frames that the stack handles in each of so many ticks, if so many come in each.
fn handled(alone: &mut Alone, ticks: usize, come: usize) -> Vec<u64> {
    let (mac, to) = (alone.mac(), SocketAddr::new(STACK.into(), 9));
    let from = SocketAddr::new(TEST.into(), 4000);
    let count = |alone: &Alone| alone.stack.counts().frames_in;
    (0..ticks)
        .map(|_| {
            let before = count(alone);
            for number in 0..come {
                alone.test.send(&udp_in(mac, from, to, &[7; 64], 1472, number as u16)[0]);
            }
            for _ in 0..20 {
                alone.world.pass(Duration::from_micros(TICK_US / 20));
                alone.stack.collect(Wait::No, 64, &mut alone.completions);
            }
            count(alone) - before
        })
        .collect()
}

#[test]
fn d_04_d_07_a_tick_handles_its_burst_and_no_more() {
    let mut alone = Alone::with(|settings| settings.with_polling(Some(original(&[Change::Knob(Knob::BurstMax, 12)]))));
    // The first look may be at two ticks.
    handled(&mut alone, 1, 0);
    let each = handled(&mut alone, 40, 40);
    // In virtual time nothing takes any: the burst grows by one a tick, from 5 to its bound.
    assert!(each[..10].windows(2).all(|two| two[1] >= two[0]), "{each:?}");
    assert!(each.iter().all(|handled| *handled <= 12), "hz * burst_max at the most: {each:?}");
    assert!(each[20..].iter().all(|handled| *handled == 12), "{each:?}");
}

/// Each port of a lane is a handler, and each handler is called with the whole chunk.
#[test]
fn d_04_each_port_of_a_lane_brings_its_whole_burst() {
    let set = original(&[Change::Knob(Knob::BurstMax, 12)]);
    let settings = settings().with_interface("left").with_network(STACK.into(), 24).and_interface("right");
    let settings = settings.with_network("10.1.0.1".parse().unwrap(), 24).with_polling(Some(set));
    let mut gateway = Gateway::new(&settings, &[CardSetup::default(), CardSetup::default()], 1024);
    let [left, right] = [0, 1].map(|port| gateway.mac(port));
    let ends = [(left, [10, 0, 0, 9], STACK), (right, [10, 1, 0, 9], [10, 1, 0, 1].into())];
    let mut each = Vec::new();
    for _ in 0..40 {
        let before = gateway.stack.counts().frames_in;
        for (port, (mac, from, to)) in ends.iter().enumerate() {
            for number in 0..40 {
                let (from, to) = (SocketAddr::new((*from).into(), 4000), SocketAddr::new((*to).into(), 9));
                gateway.tests[port].send(&udp_in(*mac, from, to, &[7; 64], 1472, number)[0]);
            }
        }
        for _ in 0..20 {
            gateway.world.pass(Duration::from_micros(TICK_US / 20));
            gateway.stack.collect(Wait::No, 64, &mut gateway.completions);
        }
        each.push(gateway.stack.counts().frames_in - before);
    }
    assert!(each[20..].iter().all(|handled| *handled == 2 * 12), "hz * burst_max of each port: {each:?}");
}

/// What a port tells of itself is looked at each `reg_frac` ticks, and no more often.
#[test]
fn d_05_a_card_is_asked_for_its_status_each_reg_frac_ticks() {
    let ticks = [1, 8].map(|reg_frac| {
        let set = original(&[Change::Knob(Knob::RegFrac, reg_frac)]);
        let mut alone = Alone::with(|settings| settings.with_polling(Some(set)));
        handled(&mut alone, 20, 0);
        let other = Mac([2, 0, 0, 0, 0, 77]);
        alone.card.set_link_address(other.0);
        let found = (1..30).find(|_| {
            alone.test.take();
            alone.test.send(&arp(Operation::Request, Mac::BROADCAST, TEST, STACK));
            handled(&mut alone, 1, 0);
            alone.test.take().iter().any(|frame| frame[6..12] == other.0)
        });
        found.expect("it answers with its new address at last")
    });
    assert!(ticks[0] <= 2 && (3..=9).contains(&ticks[1]), "{ticks:?}");
}

/// The work of a service for each datagram.
type Work = Box<dyn Fn()>;

/// A lane whose service takes so long for each datagram, of which some wait all the time: what it counts of its long turns, and what it told.
fn long_turns(takes: Duration) -> ([u64; 2], Vec<String>) {
    let takes_time: Rc<RefCell<Option<Work>>> = Rc::default();
    let does = takes_time.clone();
    let heard: Heard = Rc::new(move |_, _| does.borrow().iter().for_each(|does| does()));
    let change = |settings: corelane_stack::Settings| settings.with_polling(Some(Settings::DEFAULT));
    let plan = Plan { change, heard: Some(heard), card: Card::Plain, ..plan(1, 1) };
    let mut program = Program::new(&plan, &[STACK.into()]);
    program.pass(1_000_000);
    let (mac, from) = (Mac(program.card.link_address()), SocketAddr::new(TEST.into(), 4000));
    let frame = udp_in(mac, from, SocketAddr::new(STACK.into(), PORT), &[7; 64], 1472, 1).remove(0);
    let (world, test, left) = (program.world.clone(), program.test.clone(), Cell::new(20));
    let one_more = frame.clone();
    *takes_time.borrow_mut() = Some(Box::new(move || {
        if left.replace(left.get() - 1) > 1 {
            test.send(&one_more);
        }
        world.pass(takes);
    }));
    program.test.send(&frame);
    program.pass(100_000_000);
    let values = program.reader.snapshot(program.world.now().nanoseconds()).lanes[0].services[0].clone();
    let told = program.seen.lines.take();
    ([ServiceCounter::TurnsLong, ServiceCounter::InLongTurnsNanoseconds].map(|counter| values.get(counter)), told)
}

#[test]
fn a_service_that_has_the_lane_for_too_long_at_once_is_named() {
    let ([turns, nanoseconds], told) = long_turns(Duration::from_millis(3));
    assert!((2..=20).contains(&turns) && nanoseconds >= turns * 3_000_000, "{turns} of {nanoseconds}");
    // Each kind of line once a second.
    assert!(told.len() == 1 && told[0].starts_with("service 0 (echo) took "), "{told:?}");
    assert!(told[0].ends_with(" ms in one turn while packets waited"), "{told:?}");
    assert_eq!(long_turns(Duration::from_micros(20)), ([0, 0], Vec::new()));
}

#[test]
fn what_comes_between_ticks_waits_for_the_next() {
    let mut alone = Alone::with(|settings| settings.with_polling(Some(original(&[]))));
    handled(&mut alone, 3, 0);
    let (mac, to) = (alone.mac(), SocketAddr::new(STACK.into(), 9));
    let before = alone.stack.counts().frames_in;
    alone.test.send(&udp_in(mac, SocketAddr::new(TEST.into(), 4000), to, &[7; 64], 1472, 1)[0]);
    let mut waited = 0;
    while alone.stack.counts().frames_in == before {
        alone.world.pass(Duration::from_micros(100));
        alone.stack.collect(Wait::No, 64, &mut alone.completions);
        waited += 100;
        assert!(waited <= 2 * TICK_US, "the next tick brings it");
    }
    assert!(waited > 1_000, "{waited} us: it came between two ticks");
}

#[test]
fn d_06_a_lane_that_has_nothing_to_do_polls_if_it_is_to() {
    for idle_poll in [0, 1] {
        let set = original(&[Change::Knob(Knob::IdlePoll, idle_poll)]);
        let mut alone = Alone::with(|settings| settings.with_polling(Some(set)));
        handled(&mut alone, 2, 0);
        let (mac, to) = (alone.mac(), SocketAddr::new(STACK.into(), 9));
        let before = alone.stack.counts().frames_in;
        alone.test.send(&udp_in(mac, SocketAddr::new(TEST.into(), 4000), to, &[7; 64], 1472, 1)[0]);
        alone.world.pass(Duration::from_micros(50));
        alone.stack.collect(Wait::Forever, 64, &mut alone.completions);
        assert_eq!(alone.stack.counts().frames_in - before, idle_poll as u64, "long before the next tick");
    }
}

#[test]
fn packets_that_cost_nothing_are_never_held_by_the_clock() {
    let mut alone = Alone::with(|settings| settings.with_polling(Some(Settings::DEFAULT)));
    let each = handled(&mut alone, 10, 40);
    assert_eq!(each.iter().sum::<u64>(), 400, "{each:?}");
    assert!(!alone.stack.outranks_tasks(), "nothing waits, so tasks run");
}
