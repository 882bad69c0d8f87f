//! A page says to its readers what was written into it, and to nobody else.

use crate::common::{Scratch, description};
use corelane_watch::{
    BUCKETS_OF_TABLE_MAX, Counted, Counter, CounterName, Description, Error, Kind, LaneCounter, LaneHistogram, LaneName,
    NOTE_BYTES_MAX, NOTES_MAX, OWN_COUNTERS_MAX, OwnCounter, PacketCounter, Page, Reader, ServiceCounter, Snapshot,
    SteeringSnapshot, StreamCounter, Values,
};

fn file_and_heap(scratch: &Scratch, description: &Description) -> [Page; 2] {
    [Page::create(scratch, description).unwrap(), Page::heap(description).unwrap()]
}

fn reader(page: &Page) -> Reader {
    page.path().map_or_else(|| Reader::of(page), Reader::open).unwrap()
}

#[test]
fn a_description_survives() {
    let scratch = Scratch::new("description");
    let mut written = description(3, 2);
    written.lanes.push(LaneName::default());
    for page in file_and_heap(&scratch, &written) {
        assert_eq!(*reader(&page).description(), written);
    }
}

#[test]
fn texts_that_are_too_long_are_cut_with_a_mark() {
    let mut written = description(1, 1);
    written.services[0].url = "ä".repeat(200);
    let page = Page::heap(&written).unwrap();
    let reader = Reader::of(&page).unwrap();
    let url = &reader.description().services[0].url;
    assert_eq!(*url, format!("{}…", "ä".repeat(126)));
}

#[test]
fn what_steers_is_read_as_it_was_written_last() {
    let scratch = Scratch::new("steering");
    for page in file_and_heap(&scratch, &description(3, 2)) {
        let reader = reader(&page);
        assert_eq!(reader.snapshot(0).steering, SteeringSnapshot::default());
        let mut row = page.steering();
        let lanes: Vec<u16> = (0..BUCKETS_OF_TABLE_MAX as u16).rev().collect();
        for lanes in [&lanes[..], &lanes[..7], &[]] {
            row.set("6d:5a udp4", lanes);
            assert_eq!(reader.steering(), SteeringSnapshot { hasher: "6d:5a udp4".to_owned(), lanes: lanes.to_vec() });
        }
    }
}

/// Every value of a snapshot that is not zero.
fn non_zero(snapshot: &Snapshot) -> Vec<(usize, Option<usize>, &'static str, u64)> {
    fn of<C: Counter>(values: &Values<C>) -> impl Iterator<Item = (&'static str, u64)> {
        values.iter().map(|(counter, value)| (counter.declaration().name, value)).filter(|(_, value)| *value > 0)
    }
    let mut found = Vec::new();
    for (index, lane) in snapshot.lanes.iter().enumerate() {
        found.extend(of(&lane.values).map(|(name, value)| (index, None, name, value)));
        for (service, values) in lane.services.iter().enumerate() {
            found.extend(of(values).map(|(name, value)| (index, Some(service), name, value)));
        }
    }
    found
}

#[test]
fn each_counter_has_a_word_of_its_own() {
    let scratch = Scratch::new("words");
    for page in file_and_heap(&scratch, &description(3, 2)) {
        let reader = reader(&page);
        for lane in 0..3 {
            let row = page.lane(lane).unwrap();
            for &counter in LaneCounter::ALL {
                row.set(counter, 9);
                assert_eq!(non_zero(&reader.snapshot(0)), [(lane, None, counter.declaration().name, 9)]);
                row.set(counter, 0);
            }
            for service in 0..2 {
                let row = page.service(lane, service).unwrap();
                for &counter in ServiceCounter::ALL {
                    row.set(counter, 9);
                    assert_eq!(non_zero(&reader.snapshot(0)), [(lane, Some(service), counter.declaration().name, 9)]);
                    row.set(counter, 0);
                }
            }
        }
    }
}

#[test]
fn rows_count_set_and_raise() {
    let page = Page::heap(&description(1, 0)).unwrap();
    let row = page.lane(0).unwrap();
    row.add(LaneCounter::Sleeps, 2);
    row.clone().add(LaneCounter::Sleeps, 3);
    assert_eq!(row.get(LaneCounter::Sleeps), 5);
    for (value, expected) in [(7, 7), (3, 7), (8, 8)] {
        row.raise(LaneCounter::MemoryPeak, value);
        assert_eq!(row.get(LaneCounter::MemoryPeak), expected);
    }
    row.set(LaneCounter::Sleeps, u64::MAX);
    row.add(LaneCounter::Sleeps, 2);
    assert_eq!(row.get(LaneCounter::Sleeps), 1, "a counter wraps and never ends the lane");
}

#[test]
fn rows_that_are_not_there_are_refused() {
    let page = Page::heap(&description(2, 1)).unwrap();
    assert!(matches!(page.lane(2), Err(Error::Row { what: "lane", count: 2, got: 2 })));
    assert!(matches!(page.service(2, 0), Err(Error::Row { what: "lane", .. })));
    assert!(matches!(page.service(1, 1), Err(Error::Row { what: "service", count: 1, got: 1 })));
    assert!(matches!(Page::heap(&Description::default()), Err(Error::Shape { what: "lanes", got: 0, .. })));
}

#[test]
fn totals_are_sums_and_marks_have_none() {
    let page = Page::heap(&description(2, 1)).unwrap();
    for lane in 0..2 {
        let (row, service) = (page.lane(lane).unwrap(), page.service(lane, 0).unwrap());
        LaneCounter::ALL.iter().for_each(|&counter| row.set(counter, 10 + lane as u64));
        ServiceCounter::ALL.iter().for_each(|&counter| service.set(counter, 20 + lane as u64));
    }
    let snapshot = Reader::of(&page).unwrap().snapshot(0);
    for (counter, value) in snapshot.total.iter() {
        assert_eq!(value, if counter.declaration().kind == Kind::Mark { 0 } else { 21 }, "{}", counter.declaration().name);
    }
    assert!(snapshot.services[0].values.iter().all(|(_, value)| value == 41));
}

#[test]
fn a_difference_counts_what_came_between() {
    let page = Page::heap(&description(2, 1)).unwrap();
    let reader = Reader::of(&page).unwrap();
    let (row, service) = (page.lane(1).unwrap(), page.service(1, 0).unwrap());
    row.add(LaneCounter::TurnsProductive, 5);
    service.add(ServiceCounter::Requests, 100);
    service.set(ServiceCounter::ConnectionsOpen, 9);
    let before = reader.snapshot(1_000);
    row.add(LaneCounter::TurnsProductive, 3);
    row.add(LaneCounter::TurnsEmpty, 1);
    service.add(ServiceCounter::Requests, 50);
    service.add(ServiceCounter::Sends, 20);
    service.add(ServiceCounter::DatagramSends, 5);
    service.set(ServiceCounter::ConnectionsOpen, 4);
    let since = reader.snapshot(500_001_000).since(&before).unwrap();
    assert_eq!(since.span_nanoseconds, Some(500_000_000));
    assert_eq!(since.total.get(LaneCounter::TurnsProductive), 3);
    assert_eq!(since.lanes[1].values.get(LaneCounter::TurnsProductive), 3);
    for values in [&since.services[0].values, &since.lanes[1].services[0]] {
        assert_eq!(values.get(ServiceCounter::Requests), 50);
        assert_eq!(values.get(ServiceCounter::ConnectionsOpen), 4, "a gauge is what it is");
        assert_eq!(ratio(values, "requests_per_send"), Some(2.0));
        assert_eq!(ratio(values, "requests_per_receive"), None);
    }
    assert_eq!(ratio(&since.total, "productive_share"), Some(0.75));
    assert_eq!(since.per_second(50), Some(100.0));
    assert_eq!(before.per_second(50), None);
    let other = Reader::of(&Page::heap(&description(1, 1)).unwrap()).unwrap().snapshot(0);
    assert!(matches!(since.since(&other), Err(Error::OtherPage { .. })));
}

fn ratio<C: Counter>(values: &Values<C>, name: &str) -> Option<f64> {
    values.ratio(C::RATIOS.iter().find(|ratio| ratio.name == name).unwrap())
}

#[test]
fn notes_are_bounded_and_not_repeated() {
    let scratch = Scratch::new("notes");
    for mut page in file_and_heap(&scratch, &description(1, 0)) {
        let reader = reader(&page);
        page.note("first");
        page.note("first");
        assert_eq!(reader.notes(), ["first"]);
        let long = "x".repeat(NOTE_BYTES_MAX + 1);
        page.note(&long);
        page.note(&long);
        assert_eq!(reader.notes()[1], format!("{}…", "x".repeat(NOTE_BYTES_MAX - 3)));
        (2..NOTES_MAX + 3).for_each(|i| page.note(&format!("note {i}")));
        let snapshot = reader.snapshot(0);
        assert_eq!(snapshot.notes.len(), NOTES_MAX);
        assert_eq!(snapshot.notes.last().unwrap(), &format!("note {}", NOTES_MAX - 1));
        assert_eq!(snapshot.notes_refused, 3);
    }
}

#[test]
fn what_a_terminal_would_act_on_is_taken_out() {
    let mut page = Page::heap(&description(1, 0)).unwrap();
    page.note("a\u{1b}[2Jb\n");
    assert_eq!(Reader::of(&page).unwrap().notes(), ["a\u{fffd}[2Jb\u{fffd}"]);
}

corelane_watch::counters! {
    /// What a service of these tests counts.
    enum Own {
        Apples "apples" Counter "apples" "Apples.";
        Baskets "baskets" Gauge "baskets" "Baskets.";
    }
}

/// A page of services of which every second one counts apples and baskets.
fn with_own(lanes: u32, services: usize) -> Description {
    let mut description = description(lanes, services);
    description.services.iter_mut().step_by(2).for_each(|service| service.counters = CounterName::all(Own::DECLARED));
    description
}

#[test]
fn a_services_own_counters_are_named_in_the_page_and_counted_beside_the_others() {
    let scratch = Scratch::new("own");
    let written = with_own(2, 3);
    for page in file_and_heap(&scratch, &written) {
        let reader = reader(&page);
        assert_eq!(*reader.description(), written, "who does not know the service reads its counters from the page");
        let rows = [0, 1].map(|lane| [0, 1, 2].map(|service| page.service(lane, service).unwrap()));
        for (lane, service) in [(0, 0), (0, 2), (1, 0), (1, 2)] {
            let row = &rows[lane][service];
            ServiceCounter::ALL.iter().for_each(|&counter| row.set(counter, u64::MAX));
            Own::Apples.add(row, 3 + service as u64);
            Own::Apples.add(row, 1);
            Own::Baskets.set(row, 7);
        }
        let before = reader.snapshot(0);
        let of = |values: &Values<ServiceCounter>| [values.own("apples"), values.own("baskets"), values.own("requests")];
        for lane in &before.lanes {
            assert_eq!(
                [0, 1, 2].map(|service| of(&lane.services[service])),
                [[Some(4), Some(7), None], [None; 3], [Some(6), Some(7), None]]
            );
        }
        assert_eq!(of(&before.services[2].values), [Some(12), Some(14), None]);
        assert_eq!(non_zero(&before).len(), 4 * ServiceCounter::ALL.len(), "they are no words of the others");
        Own::Apples.add(&rows[1][2], 5);
        Own::Baskets.set(&rows[1][2], 2);
        let since = reader.snapshot(1_000_000_000).since(&before).unwrap();
        assert_eq!(
            [of(&since.lanes[1].services[2]), of(&since.services[2].values)],
            [[Some(5), Some(2), None], [Some(5), Some(9), None]]
        );
        let apples = |service: usize| since.services[service].values.all().find(|value| value.name == "apples");
        assert_eq!((apples(2).map(|value| value.value), apples(1)), (Some(5), None));
    }
}

#[test]
#[should_panic(expected = "counts \"apples\" and does not declare it; remedy: const COUNTERS")]
fn a_counter_that_was_not_declared_is_no_other_services_word() {
    let page = Page::heap(&with_own(1, 3)).unwrap();
    Own::Apples.add(&page.service(0, 1).unwrap(), 1);
}

#[test]
fn too_many_counters_are_refused() {
    let mut description = description(1, 1);
    let counter = CounterName { name: "one".into(), kind: Kind::Counter, unit: "hits".into() };
    description.services[0].counters = vec![counter.clone(); OWN_COUNTERS_MAX];
    assert!(Page::heap(&description).is_ok());
    description.services[0].counters.push(counter);
    assert!(matches!(Page::heap(&description), Err(Error::Shape { what: "counters of a service's own", .. })));
}

#[test]
fn a_page_that_is_withdrawn_is_found_no_more_and_read_by_who_has_it() {
    let scratch = Scratch::new("withdrawn");
    let page = Page::create(&scratch, &description(1, 1)).unwrap();
    let path = page.path().unwrap().to_owned();
    let reader = Reader::open(&path).unwrap();
    page.withdraw();
    assert!(!path.exists());
    page.lane(0).unwrap().add(LaneCounter::Sleeps, 3);
    assert_eq!(reader.snapshot(0).total.get(LaneCounter::Sleeps), 3);
    page.withdraw();
    Page::heap(&description(1, 1)).unwrap().withdraw();
}

#[test]
fn histograms_are_of_their_lane_and_of_the_span() {
    let page = Page::heap(&description(2, 1)).unwrap();
    let reader = Reader::of(&page).unwrap();
    page.lane(0).unwrap().record(LaneHistogram::TurnNanoseconds, 5_000);
    let before = reader.snapshot(1);
    page.lane(1).unwrap().record(LaneHistogram::TurnNanoseconds, u64::MAX);
    page.lane(1).unwrap().record(LaneHistogram::TurnCompletions, 16);
    let (now, since) = (reader.snapshot(2), reader.snapshot(2).since(&before).unwrap());
    let turns = |snapshot: &Snapshot, lane: usize| snapshot.lanes[lane].histogram(LaneHistogram::TurnNanoseconds).count();
    assert_eq!((turns(&now, 0), turns(&now, 1)), (1, 1));
    assert_eq!((turns(&since, 0), turns(&since, 1)), (0, 1));
    assert_eq!(now.histogram(LaneHistogram::TurnNanoseconds).count(), 2);
    let completions: Vec<_> = since.histogram(LaneHistogram::TurnCompletions).buckets().collect();
    assert_eq!(completions, [(16, 19, 1)]);
    assert_eq!(non_zero(&now), [], "histograms are no counters");
}

/// A lane that is killed while it writes leaves its row so for ever.
#[test]
fn a_lane_that_never_ends_its_writing_is_read_and_said_to_be_torn() {
    let page = Page::heap(&description(2, 1)).unwrap();
    let reader = Reader::of(&page).unwrap();
    page.lane(1).unwrap().together(|row| {
        row.add(LaneCounter::Sleeps, 7);
        let snapshot = reader.snapshot(0);
        assert_eq!([snapshot.lanes[0].is_whole, snapshot.lanes[1].is_whole], [true, false]);
        assert_eq!(snapshot.lanes[1].values.get(LaneCounter::Sleeps), 7);
    });
    assert!(reader.snapshot(0).lanes[1].is_whole);
}

/// A lane without a packet path has nothing to say of one; one that is killed while it writes of it leaves it torn.
#[test]
fn a_packet_path_is_read_whole_or_said_to_be_torn() {
    let page = Page::heap(&description(2, 1)).unwrap();
    let reader = Reader::of(&page).unwrap();
    assert!(reader.snapshot(0).lanes.iter().all(|lane| lane.packets.is_none()));
    let row = page.packets(1).unwrap();
    row.together(|to| {
        to.set_protocols(2);
        to.set_interface("eth1");
        to.set(PacketCounter::UdpReceived, 5);
        to.name(1, "a name of more than sixteen bytes");
        to.set_stream(1, StreamCounter::Handled, 9);
        assert_eq!(reader.snapshot(0).lanes[1].packets.as_ref().map(|packets| packets.is_whole), Some(false));
    });
    let before = reader.snapshot(0);
    let packets = before.lanes[1].packets.as_ref().unwrap();
    assert!(packets.is_whole && packets.interface == "eth1" && before.lanes[0].packets.is_none());
    assert_eq!((packets.streams.len(), packets.streams[1].name.as_str()), (2, "a name of mor…"));
    row.together(|to| to.set_stream(1, StreamCounter::Handled, 12));
    let since = reader.snapshot(1).since(&before).unwrap();
    let packets = since.lanes[1].packets.as_ref().unwrap();
    assert_eq!(packets.interface, "eth1");
    assert_eq!((packets.values.get(PacketCounter::UdpReceived), packets.streams[1].values.get(StreamCounter::Handled)), (0, 3));
}
