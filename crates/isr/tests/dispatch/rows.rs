//! Rows N-01 to N-11, X-06 and X-12: registration, limits, placement, policies, counters.

use corelane_isr::dispatch::{
    BUCKETS_MAX, Dispatch, Facts, Isr, LIMIT_DEFAULT, LIMIT_MAX, Number, PacketStep, Placed, Placement, Refused, Registration,
    StreamCounts,
};

/// What lanes 0 and 1 have placed in their first generations.
const BY_THE_FIRST: Placed = Placed { lane: 0, generation: 0 };
const BY_THE_SECOND: Placed = Placed { lane: 1, generation: 0 };

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
fn told(isr: &mut Isr<u32>, step: PacketStep<u32>) -> Told {
    match step {
        PacketStep::Run(run) => {
            isr.finished(run.mark);
            Told::Run(run.packet)
        }
        PacketStep::Queued => Told::Queued,
        PacketStep::Parked => Told::Parked,
        PacketStep::Elsewhere { lane, .. } => Told::Elsewhere(lane),
        PacketStep::Dropped(_) => Told::Dropped,
        PacketStep::Unregistered(_) => Told::Unregistered,
        PacketStep::Drained(number) => Told::Drained(number.number()),
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
            let own = Placed { lane: lanes - 1, generation: 0 };
            assert_eq!(dropped, (0..3).map(|packet| (packet, own)).collect::<Vec<_>>(), "taking it out drains it");
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
    let Some(PacketStep::Run(run)) = isr.next_step() else { panic!() };
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
    let PacketStep::Run(run) = hybrid.arrive(Number::IP, 3, flow(0)) else { panic!() };
    assert_eq!(arrive(&mut hybrid, Number::IP, 4, flow(0)), Told::Queued, "a handler runs");
    hybrid.finished(run.mark);
    assert_eq!(arrive(&mut hybrid, Number::IP, 5, flow(0)), Told::Queued, "one is queued");
    let Some(PacketStep::Run(run)) = hybrid.next_step() else { panic!() };
    assert_eq!(arrive(&mut hybrid, Number::IP, 6, flow(0)), Told::Queued, "the queue is being run");
    hybrid.finished(run.mark);
    assert_eq!(drained(&mut hybrid), [Told::Run(5), Told::Drained(1), Told::Run(6), Told::Drained(1)]);
    assert_eq!(arrive(&mut hybrid, Number::IP, 7, flow(0)), Told::Run(7));
}

/// What a handler passes on comes before whatever arrives next, so a datagram that was put together is not overtaken by one that came behind it.
#[test]
fn n_05_what_a_handler_passes_on_under_hybrid_runs_as_it_ends() {
    let mut isr = isr(1, Dispatch::Hybrid, Placement::Flow);
    isr.register(Registration::new("ip_direct", Number::IP_DIRECT)).unwrap();
    let PacketStep::Run(outer) = isr.arrive(Number::IP, 1, flow(0)) else { panic!() };
    assert_eq!(arrive(&mut isr, Number::IP_DIRECT, 2, flow(0)), Told::Queued);
    assert!(isr.next_passed_on().is_none(), "the handler runs still");
    isr.finished(outer.mark);
    let passed_on: Vec<_> = std::iter::from_fn(|| isr.next_passed_on().map(|step| told(&mut isr, step))).collect();
    assert_eq!(passed_on, [Told::Run(2), Told::Drained(9)]);
    assert_eq!(arrive(&mut isr, Number::IP, 3, flow(0)), Told::Run(3), "nothing waits");
    // What is deferred waits for its turn.
    isr.set_dispatch_of(Number::IP_DIRECT, Some(Dispatch::Deferred)).unwrap();
    let PacketStep::Run(outer) = isr.arrive(Number::IP, 4, flow(0)) else { panic!() };
    assert_eq!(arrive(&mut isr, Number::IP_DIRECT, 5, flow(0)), Told::Queued);
    isr.finished(outer.mark);
    assert!(isr.next_passed_on().is_none());
    assert_eq!(drained(&mut isr), [Told::Run(5), Told::Drained(9)]);
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
    let Some(PacketStep::Run(run)) = isr.next_step() else { panic!() };
    assert_eq!(run.packet, 10);
    isr.finished(run.mark);
    // What comes while the queue runs is of the next round, behind the protocols that wait.
    assert_eq!(arrive(&mut isr, Number::IP, 12, flow(0)), Told::Queued);
    let wanted =
        [Told::Run(11), Told::Drained(1), Told::Run(12), Told::Drained(1), Told::Run(60), Told::Run(61), Told::Drained(6)];
    assert_eq!(drained(&mut isr), wanted);
}

#[test]
fn n_06_x_12_who_dispatches_at_once_helps_with_a_bounded_share() {
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
    isr.settled(Number::IP, BY_THE_FIRST, 1);
    let again = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| isr.settled(Number::IP, BY_THE_FIRST, 1)));
    assert!(again.is_err());
}

#[test]
fn n_02_each_lane_has_a_workstream_and_no_packet_goes_beyond_the_last() {
    for lanes in [1, 2, 3, 8, 64] {
        for lane in 0..lanes {
            let mut isr: Isr<u32> = Isr::new(lane, lanes, Dispatch::Deferred);
            isr.register(Registration { placement: Placement::Flow, ..Registration::new("ip", Number::IP) }).unwrap();
            let mut seen = vec![false; lanes];
            for packet in 0..2 * lanes as u32 {
                match arrive(&mut isr, Number::IP, packet, flow(packet)) {
                    Told::Queued => seen[lane] = true,
                    Told::Elsewhere(other) => {
                        assert!(other != lane, "what stays does not travel");
                        seen[other] = true;
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert!(seen.iter().all(|seen| *seen), "lane {lane} of {lanes} places on each");
        }
        let beyond = std::panic::catch_unwind(|| Isr::<u32>::new(lanes, lanes, Dispatch::Deferred));
        assert!(beyond.is_err(), "there is no lane {lanes} of {lanes}");
    }
    assert!(std::panic::catch_unwind(|| Isr::<u32>::new(0, 0, Dispatch::Deferred)).is_err());
}

#[test]
fn n_07_what_is_below_the_limit_is_queued_and_the_rest_is_given_back() {
    let mut isr = isr(1, Dispatch::Deferred, Placement::Source);
    isr.set_limit(Number::IP, 3).unwrap();
    for packet in 1..=3_u32 {
        assert_eq!(arrive(&mut isr, Number::IP, packet, flow(0)), Told::Queued);
        let StreamCounts { length, watermark, queued, drops, handled, .. } = isr.counts(Number::IP).unwrap();
        let packets = packet as usize;
        assert_eq!((length, watermark, queued, drops, handled), (packets, packets, u64::from(packet), 0, 0));
    }
    let before = isr.counts(Number::IP).unwrap();
    let PacketStep::Dropped(packet) = isr.arrive(Number::IP, 4, flow(0)) else { panic!("the queue is full") };
    assert_eq!(packet, 4, "it is given back");
    let mut after = isr.counts(Number::IP).unwrap();
    assert_eq!(std::mem::take(&mut after.drops), 1);
    assert_eq!(after, before, "nothing else is counted");
    // Of what another lane has placed here as well.
    let mut two = self::isr(2, Dispatch::Deferred, Placement::Source);
    two.set_limit(Number::IP, 1).unwrap();
    assert!(matches!(two.admit(Number::IP, 1, BY_THE_SECOND), PacketStep::Queued));
    assert!(matches!(two.admit(Number::IP, 2, BY_THE_SECOND), PacketStep::Dropped(2)));
    // The watermark stays when the queue has been run.
    assert_eq!(drained(&mut isr).len(), 4);
    let counts = isr.counts(Number::IP).unwrap();
    assert_eq!((counts.length, counts.watermark, counts.handled), (0, 3, 3));
    assert_eq!(arrive(&mut isr, Number::IP, 5, flow(0)), Told::Queued);
    assert_eq!(isr.counts(Number::IP).unwrap().watermark, 3, "a shorter queue does not lower it");
}

/// An Isr whose packets are their own flow ids; the lower seven bits are the bucket.
fn by_bucket(lanes: usize, limit: usize) -> Isr<u32> {
    let mut isr = Isr::new(0, lanes, Dispatch::Deferred);
    let bucket = Some(Box::new(|packet: &u32| Some(*packet as usize)) as _);
    isr.register(Registration { bucket, limit, ..Registration::new("ip", Number::IP) }).unwrap();
    isr
}

#[test]
fn n_01_x_06_buckets_may_have_queues_of_their_own() {
    let mut isr = by_bucket(2, 2);
    let here = Facts::default();
    // A flood of bucket 5 leaves the others their room.
    let told: Vec<_> = [5, 133, 261, 389, 127, 0].map(|packet| arrive(&mut isr, Number::IP, packet, here)).into();
    assert_eq!(told, [Told::Queued, Told::Queued, Told::Dropped, Told::Dropped, Told::Queued, Told::Queued]);
    assert!(matches!(isr.admit(Number::IP, 645, BY_THE_SECOND), PacketStep::Dropped(645)), "whoever placed it");
    let of = |isr: &Isr<u32>, bucket| *isr.bucket_counts(Number::IP).nth(bucket).unwrap();
    assert_eq!(isr.bucket_counts(Number::IP).count(), BUCKETS_MAX);
    assert_eq!((of(&isr, 5).length, of(&isr, 5).drops, of(&isr, 127).length, of(&isr, 1).queued), (2, 3, 1, 0));
    let all = isr.counts(Number::IP).unwrap();
    assert_eq!((all.length, all.watermark, all.queued, all.drops), (4, 2, 4, 3));
    let names: Vec<_> = isr.rows(0).into_iter().map(|row| row.name).collect();
    assert_eq!(names, ["ip.0", "ip.5", "ip.127"]);
    let ran = drained(&mut isr);
    let (run, drained) = (Told::Run, || Told::Drained(1));
    assert_eq!(ran, [run(0), drained(), run(5), run(133), drained(), run(127), drained()]);
    assert!(isr.bucket_counts(Number::IP).all(StreamCounts::add_up) && isr.counts(Number::IP).unwrap().add_up());
    assert_eq!((isr.clear_drops(Number::IP), isr.counts(Number::IP).unwrap().drops), (Ok(3), 0));
}

#[test]
fn x_06_buckets_take_turns() {
    let mut isr = by_bucket(1, 256);
    for packet in [127, 3, 4] {
        assert_eq!(arrive(&mut isr, Number::IP, packet, Facts::default()), Told::Queued);
    }
    // Bucket 3 is filled again and again: the others are reached all the same.
    let mut ran = Vec::new();
    for round in 1..=3 {
        let Told::Run(packet) = isr.next_step().map(|step| told(&mut isr, step)).unwrap() else { panic!() };
        ran.push(packet);
        assert_eq!(arrive(&mut isr, Number::IP, 3 + 128 * round, Facts::default()), Told::Queued);
        assert_eq!(isr.next_step().map(|step| told(&mut isr, step)), Some(Told::Drained(1)));
    }
    assert_eq!(ran, [3, 4, 127]);
}

#[test]
fn n_01_a_protocol_with_buckets_may_go_while_one_of_them_runs() {
    let mut isr = by_bucket(1, 256);
    (0..300).for_each(|packet| assert_eq!(arrive(&mut isr, Number::IP, packet, Facts::default()), Told::Queued));
    let Some(PacketStep::Run(run)) = isr.next_step() else { panic!() };
    assert_eq!(isr.unregister(Number::IP).unwrap().count(), 299, "all buckets are drained");
    assert!(isr.next_step().is_none(), "no run of it is left");
    isr.register(Registration::new("ip", Number::IP)).unwrap();
    assert_eq!(arrive(&mut isr, Number::IP, 77, Facts::default()), Told::Parked);
    isr.finished(run.mark);
    assert_eq!(drained(&mut isr), [Told::Queued, Told::Run(77), Told::Drained(1)]);
}

#[test]
fn n_05_policies_limits_and_registrations_change_in_the_middle_of_a_run() {
    let mut isr = isr(1, Dispatch::Deferred, Placement::Source);
    (0..4).for_each(|packet| assert_eq!(arrive(&mut isr, Number::IP, packet, flow(0)), Told::Queued));
    let Some(PacketStep::Run(first)) = isr.next_step() else { panic!() };
    // A change, another, and back again, while a handler runs and three packets wait.
    isr.set_dispatch(Dispatch::Direct);
    assert_eq!(arrive(&mut isr, Number::IP, 4, flow(0)), Told::Parked);
    isr.set_dispatch(Dispatch::Hybrid);
    isr.set_dispatch(Dispatch::Deferred);
    isr.begin_generation();
    assert_eq!(arrive(&mut isr, Number::IP, 5, flow(0)), Told::Parked, "still behind the first change");
    isr.set_limit(Number::IP, 2).unwrap();
    assert_eq!(arrive(&mut isr, Number::IP, 6, flow(0)), Told::Dropped, "what is parked is bounded by the limit as well");
    // A protocol below comes while the run goes on: the run ends first.
    isr.register(Registration::new("igmp", Number::IGMP)).unwrap();
    assert_eq!(arrive(&mut isr, Number::IGMP, 60, flow(0)), Told::Queued);
    isr.finished(first.mark);
    let ran = drained(&mut isr);
    let last = [Told::Run(3), Told::Queued, Told::Queued, Told::Drained(1), Told::Run(4), Told::Run(5), Told::Drained(1)];
    assert_eq!(ran[..2], [Told::Run(1), Told::Run(2)]);
    assert_eq!(ran[2..9], last);
    assert_eq!(ran[9..], [Told::Run(60), Told::Drained(2)]);
    let counts = isr.counts(Number::IP).unwrap();
    assert_eq!((counts.handled, counts.drops, counts.add_up()), (6, 1, true));
}

/// Flow 7 gets another lane while packets of flows 6 and 7 are on theirs: those of 6 go on as they come, and those of 7 wait for all that was
/// placed before, and not for what was placed since.
#[test]
fn x_12_only_what_moves_waits_for_a_change() {
    let mut isr = isr(2, Dispatch::Deferred, Placement::Flow);
    assert_eq!(arrive(&mut isr, Number::IP, 1, flow(7)), Told::Elsewhere(1));
    assert_eq!(arrive(&mut isr, Number::IP, 2, flow(6)), Told::Queued);
    isr.begin_generation_of(|packet| packet % 2 == 1);
    assert_eq!(arrive(&mut isr, Number::IP, 3, flow(7)), Told::Parked);
    assert_eq!(arrive(&mut isr, Number::IP, 4, flow(6)), Told::Queued);
    let since = isr.arrive(Number::IP, 6, flow(7));
    let PacketStep::Elsewhere { lane: 1, placed: Placed { lane: 0, generation: 1 }, .. } = since else { panic!("{since:?}") };
    assert_eq!(drained(&mut isr), [Told::Run(2), Told::Run(4), Told::Drained(1)], "3 waits for 1, which is on the other lane");
    isr.settled(Number::IP, BY_THE_FIRST, 1);
    assert_eq!(arrive(&mut isr, Number::IP, 5, flow(7)), Told::Parked, "behind 3");
    assert_eq!(drained(&mut isr), [Told::Elsewhere(1), Told::Elsewhere(1)]);
    assert_eq!(arrive(&mut isr, Number::IP, 7, flow(7)), Told::Elsewhere(1));
    assert!(isr.counts(Number::IP).unwrap().add_up());
}

/// Who changes something before the last change is done with has all parked, until all is handled.
#[test]
fn x_12_a_change_within_a_change_parks_all() {
    let mut isr = isr(2, Dispatch::Deferred, Placement::Flow);
    assert_eq!(arrive(&mut isr, Number::IP, 1, flow(1)), Told::Elsewhere(1));
    isr.begin_generation_of(|packet| packet % 2 == 1);
    assert_eq!(arrive(&mut isr, Number::IP, 2, flow(1)), Told::Elsewhere(1));
    isr.begin_generation_of(|packet| packet % 2 == 0);
    assert_eq!(arrive(&mut isr, Number::IP, 3, flow(1)), Told::Parked);
    assert_eq!(arrive(&mut isr, Number::IP, 4, flow(0)), Told::Parked);
    isr.settled(Number::IP, BY_THE_FIRST, 1);
    assert_eq!(drained(&mut isr), [], "2 was placed since, and is not handled either");
    isr.settled(Number::IP, Placed { lane: 0, generation: 1 }, 1);
    assert_eq!(drained(&mut isr), [Told::Elsewhere(1), Told::Queued, Told::Run(4), Told::Drained(1)]);
}

#[test]
fn n_06_a_share_that_was_not_used_is_not_saved_up() {
    let mut isr = isr(1, Dispatch::Deferred, Placement::Source);
    isr.register(Registration { dispatch: Some(Dispatch::Direct), ..Registration::new("ether", Number::ETHER) }).unwrap();
    (0..5).for_each(|packet| assert_eq!(arrive(&mut isr, Number::IP, packet, flow(0)), Told::Queued));
    isr.set_share(1);
    (0..3).for_each(|packet| assert_eq!(arrive(&mut isr, Number::ETHER, packet, flow(0)), Told::Run(packet)));
    assert_eq!(std::iter::from_fn(|| isr.help().map(|step| told(&mut isr, step))).count(), 1);
}

#[test]
fn n_06_nothing_runs_at_once_before_the_hook_of_what_was_queued() {
    let mut isr = isr(1, Dispatch::Hybrid, Placement::Source);
    let PacketStep::Run(first) = isr.arrive(Number::IP, 1, flow(0)) else { panic!() };
    assert_eq!(arrive(&mut isr, Number::IP, 2, flow(0)), Told::Queued);
    isr.finished(first.mark);
    assert_eq!(isr.next_step().map(|step| told(&mut isr, step)), Some(Told::Run(2)));
    assert_eq!(arrive(&mut isr, Number::IP, 3, flow(0)), Told::Queued, "the hook is due first");
    assert_eq!(drained(&mut isr), [Told::Drained(1), Told::Run(3), Told::Drained(1)]);
}
