//! Rows N-01 to N-11: registration, limits, placement, policies, counters.

use corelane_isr::dispatch::{
    Dispatch, Facts, Isr, LIMIT_DEFAULT, LIMIT_MAX, Number, Placement, Refused, Registration, Step, StreamCounts,
};

/// What a step is, without its packet.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Run(u32),
    Queued,
    Parked,
    Elsewhere(usize),
    Dropped,
    Unregistered,
    Drained(u8),
}

/// Carries a step out; a handler that runs ends at once.
fn told(isr: &mut Isr<u32>, step: Step<u32>) -> Told {
    match step {
        Step::Run(run) => {
            isr.finished(run.mark);
            Told::Run(run.packet)
        }
        Step::Queued => Told::Queued,
        Step::Parked => Told::Parked,
        Step::Elsewhere { lane, .. } => Told::Elsewhere(lane),
        Step::Dropped(_) => Told::Dropped,
        Step::Unregistered(_) => Told::Unregistered,
        Step::Drained(number) => Told::Drained(number.number()),
    }
}

fn arrive(isr: &mut Isr<u32>, number: Number, packet: u32, facts: Facts) -> Told {
    let step = isr.arrive(number, packet, facts);
    told(isr, step)
}

/// All that waits, as it runs.
fn drained(isr: &mut Isr<u32>) -> Vec<Told> {
    std::iter::from_fn(|| isr.next_step().map(|step| told(isr, step))).collect()
}

fn flow(flow: u32) -> Facts {
    Facts { flow: Some(flow), source: 0 }
}

fn isr(lanes: usize, dispatch: Dispatch, placement: Placement) -> Isr<u32> {
    let mut isr = Isr::new(0, lanes, dispatch);
    isr.register(Registration { placement, ..Registration::new("ip", Number::IP) }).unwrap();
    isr
}

#[test]
fn n_01_sixteen_protocols_come_and_go_while_lanes_run() {
    assert_eq!((Number::new(0), Number::new(17)), (Err(Refused::Number { got: 0 }), Err(Refused::Number { got: 17 })));
    for lanes in [1, 2, 8] {
        let mut isr = Isr::new(lanes - 1, lanes, Dispatch::Deferred);
        let here = Facts { flow: None, source: lanes - 1 };
        for number in 1..=16 {
            let number = Number::new(number).unwrap();
            assert_eq!(arrive(&mut isr, number, 0, here), Told::Unregistered);
            isr.register(Registration::new("one", number)).unwrap();
            let again = isr.register(Registration::new("two", number));
            assert_eq!(again, Err(Refused::Taken(number)));
            (0..3).for_each(|packet| assert_eq!(arrive(&mut isr, number, packet, here), Told::Queued));
        }
        for number in (1..=16).map(|number| Number::new(number).unwrap()) {
            let dropped: Vec<_> = isr.unregister(number).unwrap().collect();
            assert_eq!(dropped, (0..3).map(|packet| (packet, lanes - 1)).collect::<Vec<_>>(), "taking it out drains it");
            assert_eq!(isr.counts(number), None);
            assert_eq!(isr.unregister(number).map(Iterator::count), Err(Refused::Unknown(number)));
        }
        assert!(drained(&mut isr).is_empty());
    }
}

#[test]
fn n_01_a_protocol_may_go_while_its_queue_runs() {
    let mut isr = isr(1, Dispatch::Deferred, Placement::Source);
    (0..5).for_each(|packet| assert_eq!(arrive(&mut isr, Number::IP, packet, flow(0)), Told::Queued));
    let Some(Step::Run(run)) = isr.next_step() else { panic!() };
    assert_eq!(isr.unregister(Number::IP).unwrap().count(), 4);
    // Again, while the handler of the first registration still runs.
    isr.register(Registration::new("ip", Number::IP)).unwrap();
    assert_eq!(arrive(&mut isr, Number::IP, 9, flow(0)), Told::Parked, "what was placed before is not handled");
    isr.finished(run.mark);
    assert_eq!(drained(&mut isr), [Told::Queued, Told::Run(9), Told::Drained(1)]);
    assert!(isr.counts(Number::IP).unwrap().add_up());
}

#[test]
fn n_03_queues_have_limits_and_limits_have_one() {
    let mut isr = Isr::new(0, 1, Dispatch::Deferred);
    assert_eq!(isr.register(Registration::new("ip", Number::IP)), Ok(LIMIT_DEFAULT));
    let large = Registration { limit: LIMIT_MAX + 1, ..Registration::new("ip6", Number::IP6) };
    assert_eq!(isr.register(large), Ok(LIMIT_MAX), "what asks for more gets the most");
    assert_eq!(isr.set_limit(Number::IP, LIMIT_MAX + 1), Err(Refused::Limit { got: LIMIT_MAX + 1 }));
    for packet in 0..256 {
        assert_eq!(arrive(&mut isr, Number::IP, packet, flow(0)), Told::Queued);
    }
    assert_eq!(arrive(&mut isr, Number::IP, 256, flow(0)), Told::Dropped);
    isr.set_limit(Number::IP, 10).unwrap();
    assert_eq!(isr.counts(Number::IP).unwrap().length, 256, "lowering it drains nothing");
    assert_eq!(arrive(&mut isr, Number::IP, 257, flow(0)), Told::Dropped);
    assert_eq!(drained(&mut isr).len(), 257);
    let wanted = StreamCounts::default();
    let counts = isr.counts(Number::IP).unwrap();
    assert_eq!((counts.watermark, counts.drops, counts.queued, counts.handled), (256, 2, 256, 256));
    assert_eq!((counts.length, counts.dispatched, counts.hybrid), (0, wanted.dispatched, wanted.hybrid));
}

#[test]
fn n_04_lanes_are_chosen_by_source_flow_or_the_protocol() {
    let asks = |placement, knows: bool| {
        let mut isr = Isr::new(0, 4, Dispatch::Deferred);
        let flow = move |packet: &u32| knows.then_some(*packet);
        let choose = move |packet: &u32| knows.then_some(*packet as usize);
        let (flow, choose) = (Some(Box::new(flow) as _), Some(Box::new(choose) as _));
        isr.register(Registration { placement, flow, choose, ..Registration::new("ip", Number::IP) }).unwrap();
        isr
    };
    let with = |flow| Facts { flow, source: 7 };
    // Placement, whether the protocol knows, dispatch, the flow id that is there, and the lane for packet 6.
    let table = [
        (Placement::Source, true, Dispatch::Deferred, Some(1), 3),
        (Placement::Flow, true, Dispatch::Deferred, Some(1), 1),
        (Placement::Flow, true, Dispatch::Deferred, None, 2),
        (Placement::Flow, false, Dispatch::Deferred, None, 3),
        (Placement::Lane, true, Dispatch::Deferred, Some(1), 2),
        (Placement::Lane, false, Dispatch::Deferred, Some(1), 3),
        (Placement::Lane, true, Dispatch::Hybrid, Some(1), 2),
    ];
    for (placement, knows, dispatch, id, lane) in table {
        let mut isr = asks(placement, knows);
        isr.set_dispatch(dispatch);
        assert_eq!(arrive(&mut isr, Number::IP, 6, with(id)), Told::Elsewhere(lane), "{placement} {knows} {dispatch} {id:?}");
    }
    let mut hybrid = asks(Placement::Lane, false);
    hybrid.set_dispatch(Dispatch::Hybrid);
    assert_eq!(arrive(&mut hybrid, Number::IP, 6, with(None)), Told::Run(6), "no opinion: this lane");
    let mut alone = isr(1, Dispatch::Hybrid, Placement::Flow);
    assert_eq!(arrive(&mut alone, Number::IP, 6, with(Some(77))), Told::Run(6), "one lane is every lane");
}

#[test]
fn n_05_a_handler_runs_later_at_once_or_at_once_if_nothing_waits() {
    let mut deferred = isr(1, Dispatch::Deferred, Placement::Flow);
    assert_eq!(arrive(&mut deferred, Number::IP, 1, flow(0)), Told::Queued);
    let mut direct = isr(2, Dispatch::Direct, Placement::Flow);
    assert_eq!(arrive(&mut direct, Number::IP, 1, flow(1)), Told::Run(1), "on this lane, though another would be chosen");
    let mut hybrid = isr(2, Dispatch::Hybrid, Placement::Flow);
    assert_eq!(arrive(&mut hybrid, Number::IP, 1, flow(0)), Told::Run(1));
    assert_eq!(arrive(&mut hybrid, Number::IP, 2, flow(1)), Told::Elsewhere(1));
    let Step::Run(run) = hybrid.arrive(Number::IP, 3, flow(0)) else { panic!() };
    assert_eq!(arrive(&mut hybrid, Number::IP, 4, flow(0)), Told::Queued, "a handler runs");
    hybrid.finished(run.mark);
    assert_eq!(arrive(&mut hybrid, Number::IP, 5, flow(0)), Told::Queued, "one is queued");
    let Some(Step::Run(run)) = hybrid.next_step() else { panic!() };
    assert_eq!(arrive(&mut hybrid, Number::IP, 6, flow(0)), Told::Queued, "the queue is being run");
    hybrid.finished(run.mark);
    assert_eq!(drained(&mut hybrid), [Told::Run(5), Told::Drained(1), Told::Run(6), Told::Drained(1)]);
    assert_eq!(arrive(&mut hybrid, Number::IP, 7, flow(0)), Told::Run(7));
}

#[test]
fn n_05_a_protocol_may_have_a_policy_of_its_own_and_both_change_live() {
    let mut isr = isr(1, Dispatch::Direct, Placement::Flow);
    let own = Registration { dispatch: Some(Dispatch::Deferred), ..Registration::new("arp", Number::ARP) };
    isr.register(own).unwrap();
    assert_eq!(arrive(&mut isr, Number::ARP, 1, flow(0)), Told::Queued);
    isr.set_dispatch(Dispatch::Hybrid);
    assert_eq!(arrive(&mut isr, Number::ARP, 2, flow(0)), Told::Queued);
    isr.set_dispatch_of(Number::ARP, None).unwrap();
    assert_eq!(arrive(&mut isr, Number::ARP, 3, flow(0)), Told::Parked, "two are before it");
    isr.set_dispatch_of(Number::ARP, Some(Dispatch::Direct)).unwrap();
    let ran = [Told::Run(1), Told::Run(2), Told::Run(3), Told::Drained(4)];
    assert_eq!(drained(&mut isr), ran, "what was parked goes first");
    assert_eq!(arrive(&mut isr, Number::ARP, 4, flow(0)), Told::Run(4));
    let counts = isr.counts(Number::ARP).unwrap();
    assert_eq!((counts.queued, counts.dispatched, counts.handled), (2, 2, 4));
    assert_eq!(isr.set_dispatch_of(Number::IGMP, None), Err(Refused::Unknown(Number::IGMP)));
}

#[test]
fn n_06_the_lowest_protocol_first_and_all_that_it_has() {
    let mut isr = isr(1, Dispatch::Deferred, Placement::Source);
    isr.register(Registration::new("ip6", Number::IP6)).unwrap();
    for (number, packet) in [(Number::IP6, 60), (Number::IP, 10), (Number::IP6, 61), (Number::IP, 11)] {
        assert_eq!(arrive(&mut isr, number, packet, flow(0)), Told::Queued);
    }
    let Some(Step::Run(run)) = isr.next_step() else { panic!() };
    assert_eq!(run.packet, 10);
    isr.finished(run.mark);
    // What comes while the queue runs is of the next round, behind the protocols that wait.
    assert_eq!(arrive(&mut isr, Number::IP, 12, flow(0)), Told::Queued);
    let wanted =
        [Told::Run(11), Told::Drained(1), Told::Run(12), Told::Drained(1), Told::Run(60), Told::Run(61), Told::Drained(6)];
    assert_eq!(drained(&mut isr), wanted);
}

#[test]
fn n_06_who_dispatches_at_once_helps_with_a_bounded_share() {
    let mut isr = isr(1, Dispatch::Deferred, Placement::Source);
    isr.register(Registration { dispatch: Some(Dispatch::Direct), ..Registration::new("ether", Number::ETHER) }).unwrap();
    (0..5).for_each(|packet| assert_eq!(arrive(&mut isr, Number::IP, packet, flow(0)), Told::Queued));
    isr.set_share(2);
    assert!(isr.help().is_none(), "nothing was dispatched at once");
    assert_eq!(arrive(&mut isr, Number::ETHER, 9, flow(0)), Told::Run(9));
    let helped: Vec<_> = std::iter::from_fn(|| isr.help().map(|step| told(&mut isr, step))).collect();
    assert_eq!(helped, [Told::Run(0), Told::Run(1)]);
    assert_eq!(isr.counts(Number::IP).unwrap().length, 3);
}

#[test]
fn n_08_the_published_rows_add_up() {
    let rows = include_str!("../data/netisr-workstreams.tsv").lines().filter(|line| !line.starts_with('#')).skip(1);
    let mut number = 0;
    for row in rows {
        let columns: Vec<&str> = row.split('\t').collect();
        let count = |at: usize| columns[at].parse::<u64>().unwrap();
        let mut counts = StreamCounts::default();
        (counts.length, counts.watermark) = (count(3) as usize, count(4) as usize);
        (counts.dispatched, counts.hybrid, counts.drops) = (count(5), count(6), count(7));
        (counts.queued, counts.handled) = (count(8), count(9));
        assert!(counts.add_up(), "{row}");
        counts.handled += 1;
        assert!(!counts.add_up(), "one more does not");
        number += 1;
    }
    assert_eq!(number, 56);
}

#[test]
fn n_11_drops_are_read_and_cleared() {
    let mut isr = isr(1, Dispatch::Deferred, Placement::Source);
    isr.set_limit(Number::IP, 1).unwrap();
    let told: Vec<_> = (0..4).map(|packet| arrive(&mut isr, Number::IP, packet, flow(0))).collect();
    assert_eq!(told, [Told::Queued, Told::Dropped, Told::Dropped, Told::Dropped]);
    assert_eq!((isr.limit(Number::IP), isr.counts(Number::IP).unwrap().drops), (Ok(1), 3));
    assert_eq!((isr.clear_drops(Number::IP), isr.clear_drops(Number::IP)), (Ok(3), Ok(0)));
    assert_eq!(isr.clear_drops(Number::ARP), Err(Refused::Unknown(Number::ARP)));
    assert!(isr.counts(Number::IP).unwrap().add_up());
}

#[test]
fn what_comes_home_is_no_more_than_what_was_sent() {
    let mut isr = isr(2, Dispatch::Deferred, Placement::Flow);
    assert_eq!(arrive(&mut isr, Number::IP, 1, flow(1)), Told::Elsewhere(1));
    isr.settled(Number::IP, 1);
    let again = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| isr.settled(Number::IP, 1)));
    assert!(again.is_err());
}
