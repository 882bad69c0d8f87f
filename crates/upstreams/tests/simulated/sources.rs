//! Sources of upstreams: what they name comes and goes with them, and takes the place of others once it has an address.

use crate::table::{SECOND, addresses, at, table};
use corelane::Address;
use corelane_upstreams::{Caller, Due, Found, Listing, Settings, State, Targets, Tried, Upstreams};

/// What a source says.
fn says(table: &mut Upstreams, seconds: u64, targets: Result<Option<&str>, &str>, stamp: u64) -> Option<String> {
    let due = table.due(at(seconds * 1_000)).expect("the source is asked");
    assert!(matches!(due, Due::List { .. }), "{due:?}");
    let targets = targets.map(|texts| texts.map(|texts| texts.parse::<Targets>().unwrap().all().to_vec()));
    let listing = Listing { targets: targets.map_err(str::to_owned), stamp: Some(stamp), again: Some(SECOND) };
    table.resolved(0, at(seconds * 1_000), Found::Listing(listing))
}

#[test]
fn a_source_names_upstreams_and_a_broken_one_leaves_those_that_are_known() {
    let mut table = table("file:/list,10.0.0.9:1", Settings::new());
    let names = |table: &Upstreams| table.rows(at(0)).into_iter().map(|row| (row.name, row.state)).collect::<Vec<_>>();
    assert_eq!(names(&table)[0], ("file:/list".to_owned(), State::Unresolved));
    assert!(table.awaits_names(0));
    assert_eq!(says(&mut table, 0, Ok(Some("10.0.0.1:1,10.0.0.2:1*3")), 1), None);
    let up = |name: &str| (name.to_owned(), State::Up);
    assert_eq!(names(&table), ["10.0.0.9:1", "10.0.0.1:1", "10.0.0.2:1"].map(up));
    assert_eq!((table.in_rotation(at(0)), table.awaits_names(0)), ((3, 3), false));
    let used = (0..10).map(|_| table.begin(at(0), Caller::default(), &Tried::default()).unwrap()).collect::<Vec<_>>();
    assert_eq!(table.due(at(500)), None, "it is looked at each second");

    let broken = says(&mut table, 1, Err("/list:2:1: it is broken"), 2);
    assert_eq!(broken.as_deref(), Some("/list:2:1: it is broken"));
    assert_eq!(table.in_rotation(at(1_000)), (3, 3), "those that are known stay");
    let row = table.rows(at(0)).into_iter().find(|row| row.name == "file:/list").unwrap();
    assert_eq!(row.fault.as_deref(), Some("/list:2:1: it is broken"));
    assert_eq!(says(&mut table, 2, Ok(None), 2), None, "it is told once");

    assert_eq!(says(&mut table, 3, Ok(Some("10.0.0.2:1,10.0.0.3:1")), 3), None);
    let states = names(&table);
    assert!(states.contains(&("10.0.0.1:1".to_owned(), State::Leaving)) && states.contains(&up("10.0.0.3:1")), "{states:?}");
    used.into_iter().for_each(|used| table.end(used, 0));
    assert_eq!(names(&table).len(), 3);
    // The settings name another source: those of this one go with it, once the other has been read.
    assert!(table.retarget(&"10.0.0.9:1,srv:_a._tcp.b".parse().unwrap(), at(4_000)));
    assert_eq!((names(&table).len(), table.in_rotation(at(4_000))), (4, (3, 4)));
    assert_eq!(says(&mut table, 4, Ok(Some("10.0.0.7:1")), 1), None);
    assert_eq!(names(&table), ["10.0.0.9:1", "10.0.0.7:1"].map(up));
}

/// The names of those that are up.
fn serving(table: &Upstreams) -> Vec<String> {
    let rows = table.rows(at(0)).into_iter().filter(|row| row.state == State::Up);
    rows.map(|row| row.name).collect()
}

fn retarget(table: &mut Upstreams, targets: &str) {
    assert!(table.retarget(&targets.parse().unwrap(), at(0)));
}

#[test]
fn those_that_serve_stay_until_those_in_their_place_are_known() {
    let mut table = table("10.0.0.1:1", Settings::new());
    retarget(&mut table, "file:/list");
    assert!(says(&mut table, 0, Err("/list: it is gone"), 1).is_some());
    assert_eq!(serving(&table), ["10.0.0.1:1"]);
    // One that comes back is the same, and what nobody has read goes at once.
    let used = table.begin(at(0), Caller::default(), &Tried::default()).unwrap();
    retarget(&mut table, "10.0.0.1:1");
    assert_eq!((serving(&table), table.rows(at(0)).len(), table.serves(used)), (vec!["10.0.0.1:1".to_owned()], 1, true));
    retarget(&mut table, "file:/list,10.0.0.3:1");
    assert_eq!(serving(&table), ["10.0.0.1:1", "10.0.0.3:1"]);
    says(&mut table, 1, Ok(Some("10.0.0.2:1")), 2);
    assert!(serving(&table).iter().all(|name| ["10.0.0.2:1", "10.0.0.3:1"].contains(&name.as_str())) && !table.serves(used));
    table.end(used, 0);
    // A name is waited for where there is nothing else.
    retarget(&mut table, "a.test:1,b.test:1");
    assert_eq!(serving(&table).len(), 2);
    let resolve = |table: &mut Upstreams, found: Result<Vec<Address>, String>| {
        assert!(matches!(table.due(at(1_000)), Some(Due::Resolve { .. })));
        table.resolved(0, at(1_000), found);
    };
    resolve(&mut table, Err("nobody knows it".to_owned()));
    assert_eq!(serving(&table).len(), 2);
    resolve(&mut table, Ok(addresses(&["10.0.0.4:1"])));
    assert_eq!(serving(&table).len(), 1);
    assert!(table.rows(at(0)).iter().all(|row| row.name.ends_with(".test:1")), "what nobody holds has gone");
}

#[test]
fn names_without_an_address_take_nobodys_place_and_settings_in_between_go() {
    let mut table = table("10.0.0.1:1", Settings::new());
    retarget(&mut table, "file:/list");
    says(&mut table, 0, Ok(Some("a.test:1")), 1);
    assert_eq!(serving(&table), ["10.0.0.1:1"], "a source that was read is none of those that it names");
    assert!(matches!(table.due(at(0)), Some(Due::Resolve { .. })));
    table.resolved(0, at(0), Err("nobody knows it".to_owned()));
    assert_eq!(serving(&table), ["10.0.0.1:1"]);
    retarget(&mut table, "file:/other,10.0.0.3:1");
    assert_eq!(serving(&table), ["10.0.0.1:1", "10.0.0.3:1"]);
    retarget(&mut table, "file:/third");
    assert_eq!(serving(&table), ["10.0.0.1:1"], "those in between were to take its place");
    says(&mut table, 0, Ok(Some("10.0.0.5:1")), 1);
    assert_eq!(serving(&table), ["10.0.0.5:1"]);
}

#[test]
fn an_address_that_comes_back_is_as_its_name() {
    let mut table = table("a.test:1", Settings::new());
    let mut now = 0;
    let mut resolve = |table: &mut Upstreams, found: &[&str]| {
        assert!(matches!(table.due(at(now)), Some(Due::Resolve { .. })));
        table.resolved(0, at(now), Ok(addresses(found)));
        now += 60_000;
    };
    let drained = |table: &Upstreams| table.rows(at(0)).iter().filter(|row| row.state == State::Drained).count();
    resolve(&mut table, &["10.0.0.1:1"]);
    let used = table.begin(at(0), Caller::default(), &Tried::default()).unwrap();
    assert_eq!(table.drain("a.test:1"), 1);
    resolve(&mut table, &["10.0.0.2:1"]);
    assert_eq!(table.enable("a.test:1", at(0)), 1, "the one that leaves does not count");
    resolve(&mut table, &["10.0.0.1:1", "10.0.0.2:1"]);
    assert_eq!((drained(&table), table.serves(used)), (0, true));
    resolve(&mut table, &["10.0.0.2:1"]);
    table.drain("a.test:1");
    resolve(&mut table, &["10.0.0.1:1", "10.0.0.2:1"]);
    assert_eq!((drained(&table), table.serves(used)), (2, false));
    table.end(used, 0);
}

#[test]
fn a_source_is_taken_out_with_all_that_it_names_now_and_later() {
    let mut table = table("file:/list,10.0.0.9:1", Settings { slow_start: 10 * SECOND, ..Settings::new() });
    assert_eq!(table.drain("file:/list"), 1, "before it has named any");
    says(&mut table, 0, Ok(Some("10.0.0.1:1,a.test:1")), 1);
    assert!(matches!(table.due(at(0)), Some(Due::Resolve { .. })));
    table.resolved(0, at(0), Ok(addresses(&["10.0.0.2:1", "10.0.0.3:1"])));
    let drained = |table: &Upstreams| {
        let rows = table.rows(at(3_000)).into_iter();
        rows.filter(|row| row.state == State::Drained).map(|row| row.address.unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(drained(&table), ["10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"]);
    let names = (0..9).map(|_| {
        let used = table.begin(at(0), Caller::default(), &Tried::default()).unwrap();
        table.name(used).unwrap().to_owned()
    });
    assert!(names.into_iter().all(|name| name == "10.0.0.9:1"));
    assert_eq!(table.enable("file:/list", at(0)), 3, "the source, and both that it names");
    assert_eq!((drained(&table).len(), table.in_rotation(at(0))), (0, (4, 4)));
    assert_eq!(table.drain("10.0.0.1:1"), 1, "and each by itself");
    assert_eq!((table.drain("file:/list"), table.drain("file:/other"), drained(&table).len()), (3, 0, 3));
    says(&mut table, 1, Ok(Some("10.0.0.1:1,10.0.0.4:1")), 2);
    assert_eq!(drained(&table), ["10.0.0.1:1", "10.0.0.4:1"]);
    table.enable("file:/list", at(1_000));
    says(&mut table, 2, Ok(Some("10.0.0.4:1,10.0.0.5:1")), 3);
    assert_eq!((drained(&table).len(), table.in_rotation(at(2_000))), (0, (3, 3)));
}

#[test]
fn names_of_a_source_are_resolved_and_come_and_go_with_it() {
    let mut table = table("file:/list", Settings::new());
    says(&mut table, 0, Ok(Some("a.test:1")), 1);
    assert!(table.awaits_names(0), "its name has no address yet");
    assert!(matches!(table.due(at(0)), Some(Due::Resolve { .. })));
    table.resolved(0, at(0), Ok(addresses(&["10.0.0.1:1", "10.0.0.2:1"])));
    assert_eq!(table.in_rotation(at(0)), (2, 2));
    says(&mut table, 1, Ok(Some("10.0.0.3:1")), 2);
    assert_eq!(table.in_rotation(at(1_000)), (1, 1));
}
