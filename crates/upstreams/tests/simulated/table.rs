//! The table as a whole, under long rows of random events, beside what a reader of its words would expect.

use corelane::service::Random;
use corelane::testing::for_seeds;
use corelane::{Address, Instant};
use corelane_upstreams::{
    Asked, Balance, Caller, Check, Due, Failure, Gathering, Page, Row, Settings, Shown, State, TRIES_MAX, Targets, Tried,
    Upstream, Upstreams, since,
};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

pub const SECOND: Duration = Duration::from_secs(1);

pub fn at(millis: u64) -> Instant {
    Instant::from_nanoseconds(millis * 1_000_000)
}

pub fn table(targets: &str, settings: Settings) -> Upstreams {
    let mut table = Upstreams::new(&targets.parse::<Targets>().unwrap(), settings, 0);
    table.start(at(0));
    table
}

pub fn addresses(texts: &[&str]) -> Vec<Address> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// What is held of one upstream, as the test knows it.
#[derive(Default)]
struct Held {
    uses: u32,
    connections: u32,
}

struct Play {
    random: Random,
    table: Upstreams,
    now: Instant,
    held: BTreeMap<Upstream, Held>,
    checks: Vec<Upstream>,
    is_resolving: bool,
}

/// A table's rows that may be taken, and among them those in rotation.
fn serving(rows: &[Row]) -> (usize, usize) {
    let count = |states: &[State]| rows.iter().filter(|row| states.contains(&row.state)).count();
    let in_rotation = count(&[State::Up, State::Rising]);
    (in_rotation + count(&[State::Ejected]), in_rotation)
}

impl Play {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let balance = [Balance::RoundRobin, Balance::Least, Balance::Hash][random.index(3)];
        let settings = Settings {
            balance,
            failures_max: random.below(4) as u32,
            slow_start: SECOND * random.below(3) as u32,
            check: (random.below(2) == 0).then(|| Check::every(SECOND)),
            ..Settings::new()
        };
        let targets = ["10.0.0.1:80*3,10.0.0.2:80,unix:/x", "a.test:80,10.0.0.9:80", "10.0.0.1:80"][random.index(3)];
        let table = table(targets, settings);
        Self { random, table, now: at(0), held: BTreeMap::new(), checks: Vec::new(), is_resolving: false }
    }

    fn row(&self, upstream: Upstream) -> Row {
        let (name, address) = (self.table.name(upstream).unwrap(), self.table.address(upstream).unwrap());
        let rows = self.table.rows(self.now);
        rows.into_iter().find(|row| row.name == name && row.address.as_ref() == Some(address)).unwrap()
    }

    /// The state of one, if it may be taken by a use that has tried these.
    fn untried(&self, tried: &[Row]) -> (usize, usize) {
        let mut rows = self.table.rows(self.now);
        rows.retain(|row| !tried.iter().any(|tried| tried.name == row.name && tried.address == row.address));
        serving(&rows)
    }

    fn begin(&mut self) {
        let (mut tried, mut rows) = (Tried::default(), Vec::new());
        loop {
            let (serving, in_rotation) = self.untried(&rows);
            let taken = self.table.begin(self.now, Caller { key: self.random.bits(), client: 0 }, &tried);
            assert_eq!(taken.is_some(), serving > 0, "one is taken if one is left");
            let Some(taken) = taken else { return };
            assert!(!tried.has(taken) && self.table.serves(taken), "none is taken twice");
            let row = self.row(taken);
            assert_eq!(row.state == State::Ejected, in_rotation == 0, "ejected ones come behind those in rotation");
            self.held.entry(taken).or_default().uses += 1;
            tried.add(taken);
            rows.push(row);
            if tried.is_full() || self.random.below(2) == 0 {
                assert!(tried.count() == rows.len() && rows.len() <= TRIES_MAX);
                return;
            }
            self.fail(taken);
            self.table.retried(taken);
        }
    }

    fn fail(&mut self, upstream: Upstream) {
        let failures = [Failure::Connect, Failure::Timeout, Failure::Reset, Failure::Answer];
        let was_in = [State::Up, State::Rising].contains(&self.row(upstream).state);
        let before = self.table.in_rotation(self.now).0;
        let ejected = self.table.failed(upstream, self.now, failures[self.random.index(4)], None);
        let after = self.table.in_rotation(self.now).0;
        assert_eq!(before - after, usize::from(was_in && ejected.is_some()));
        assert!(ejected.is_none() || after > 0, "the last one is not ejected");
    }

    fn any_held(&mut self) -> Option<Upstream> {
        let at = self.random.index(self.held.len());
        self.held.keys().nth(at).copied()
    }

    fn step(&mut self) {
        self.now += Duration::from_millis(self.random.below(1 << self.random.clone().below(13)));
        let held = self.any_held();
        match (self.random.below(10), held) {
            (0..3, _) => self.begin(),
            (3, Some(one)) => self.fail(one),
            (4, Some(one)) => self.table.answered(one, self.now, SECOND),
            (5..8, Some(one)) => self.change(one),
            (8, _) => self.operate(),
            _ => self.tend(),
        }
    }

    fn change(&mut self, one: Upstream) {
        let held = self.held.get_mut(&one).unwrap();
        match self.random.below(4) {
            0 => (self.table.connected(one), held.connections += 1).1,
            1 if held.connections > 0 => (self.table.disconnected(one), held.connections -= 1).1,
            _ if held.uses > 0 => (self.table.end(one, 0), held.uses -= 1).1,
            _ => {}
        }
        if held.uses + held.connections == 0 {
            self.held.remove(&one);
        }
    }

    fn operate(&mut self) {
        let name = ["10.0.0.1:80", "a.test:80", "unix:/x", "10.1.0.3:80"][self.random.index(4)];
        match self.random.below(3) {
            0 => self.table.drain(name),
            _ => self.table.enable(name, self.now),
        };
    }

    fn tend(&mut self) {
        while let Some(due) = self.table.due(self.now) {
            match due {
                Due::List { .. } => unreachable!("no source is named"),
                Due::Resolve { .. } => assert!(!std::mem::replace(&mut self.is_resolving, true), "one at a time"),
                Due::Check { upstream, .. } => self.checks.push(upstream),
            }
        }
        assert!(self.checks.len() <= 16, "what is under way is bounded");
        assert!(self.table.next_due() > self.now, "all that was due was taken");
        if !self.checks.is_empty() && self.random.below(2) == 0 {
            let checked = self.checks.swap_remove(self.random.index(self.checks.len()));
            let well = [None, Some(true), Some(false)][self.random.index(3)];
            self.table.checked(checked, self.now, well);
        }
        if self.is_resolving && self.random.below(2) == 0 {
            self.is_resolving = false;
            let all = addresses(&["10.1.0.1:80", "10.1.0.2:80", "10.1.0.3:80", "10.1.0.4:80"]);
            let some = all.into_iter().filter(|_| self.random.below(2) == 0).collect();
            let found = if self.random.below(4) == 0 { Err("no".to_owned()) } else { Ok(some) };
            self.table.resolved(0, self.now, found);
        }
    }

    /// What is held is there, and what has left and is not held is gone.
    fn judge(&self) {
        let rows = self.table.rows(self.now);
        let sum = |of: fn(&Row) -> u32| rows.iter().map(of).sum::<u32>();
        assert_eq!(sum(|row| row.uses), self.held.values().map(|held| held.uses).sum::<u32>());
        assert_eq!(sum(|row| row.connections), self.held.values().map(|held| held.connections).sum::<u32>());
        for upstream in self.held.keys().chain(&self.checks) {
            assert!(self.table.address(*upstream).is_some(), "what is held is there");
        }
        for row in rows.iter().filter(|row| row.state == State::Leaving) {
            let is_checked = self.checks.iter().any(|checked| self.table.address(*checked) == row.address.as_ref());
            assert!(row.uses + row.connections > 0 || is_checked, "nobody holds what is leaving: {row:?}");
        }
    }
}

#[test]
fn whatever_happens_one_is_taken_if_one_serves_and_the_last_is_not_ejected() {
    for_seeds(2_000, |seed| {
        let mut play = Play::new(seed);
        for _ in 0..200 {
            play.step();
            play.judge();
        }
    });
}

#[test]
fn lanes_begin_with_different_ones() {
    let targets: Targets = "10.0.0.1:1,10.0.0.1:2,10.0.0.1:3".parse().unwrap();
    let first = |lane| {
        let mut table = Upstreams::new(&targets, Settings::new(), lane);
        let taken = table.begin(at(0), Caller::default(), &Tried::default()).unwrap();
        table.address(taken).unwrap().port()
    };
    assert_eq!([0, 1, 2, 3].map(first), [1, 2, 3, 1]);
}

fn taken(table: &mut Upstreams, now: Instant, times: usize) -> BTreeMap<u16, usize> {
    let mut counts = BTreeMap::new();
    for _ in 0..times {
        let taken = table.begin(now, Caller::default(), &Tried::default()).unwrap();
        *counts.entry(table.address(taken).unwrap().port()).or_default() += 1;
        table.end(taken, 0);
    }
    counts
}

#[test]
fn a_drained_one_gets_nothing_new_and_comes_back_slowly() {
    let mut table = table("10.0.0.1:1,10.0.0.1:2", Settings { slow_start: 10 * SECOND, ..Settings::new() });
    assert_eq!((table.drain("10.0.0.1:9"), table.drain("10.0.0.1:1")), (0, 1));
    assert_eq!(taken(&mut table, at(0), 100), [(2, 100)].into());
    assert_eq!(table.enable("10.0.0.1:1", at(0)), 1);
    let rising = taken(&mut table, at(1_000), 110);
    assert_eq!(rising, [(1, 10), (2, 100)].into());
    assert_eq!(taken(&mut table, at(10_000), 100), [(1, 50), (2, 50)].into());
}

#[test]
fn a_name_has_the_addresses_that_it_has_now() {
    let mut table = table("a.test:80", Settings { slow_start: 10 * SECOND, ..Settings::new() });
    assert_eq!(table.begin(at(0), Caller::default(), &Tried::default()), None, "it has no address yet");
    assert_eq!(table.rows(at(0))[0].state, State::Unresolved);
    let Some(Due::Resolve { asking: 0, host, port: 80 }) = table.due(at(0)) else { panic!("its name is asked for") };
    assert_eq!((host.as_str(), table.due(at(0)), table.next_due()), ("a.test", None, Instant::NEVER));
    table.resolved(0, at(0), Ok(addresses(&["10.0.0.1:80", "10.0.0.1:80"])));
    assert_eq!((table.next_due(), table.rows(at(0)).len()), (at(30_000), 1));
    assert_eq!(table.rows(at(0))[0].state, State::Up, "the first ones start at once");
    let held = table.begin(at(0), Caller::default(), &Tried::default()).unwrap();

    assert!(matches!(table.due(at(30_000)), Some(Due::Resolve { .. })));
    table.resolved(0, at(30_000), Err("the name server is gone".to_owned()));
    let row = table.rows(at(30_000)).remove(0);
    assert_eq!((row.state, row.fault.as_deref()), (State::Up, Some("the name server is gone")), "what is known stays");
    assert_eq!(table.next_due(), at(35_000), "it is asked again soon");

    assert!(table.due(at(35_000)).is_some());
    table.resolved(0, at(35_000), Ok(addresses(&["10.0.0.2:80"])));
    let states = |table: &Upstreams| table.rows(at(35_000)).iter().map(|row| row.state).collect::<Vec<_>>();
    assert_eq!(states(&table), [State::Leaving, State::Rising]);
    assert!(!table.serves(held) && table.address(held).is_some());
    table.end(held, 0);
    assert_eq!((states(&table), table.address(held)), (vec![State::Rising], None));
}

#[test]
fn a_name_that_nobody_could_ask_for_is_no_fault_and_due_again_in_a_moment() {
    let mut table = table("a.test:80,b.test:80", Settings::new());
    let Some(Due::Resolve { host, .. }) = table.due(at(1)) else { panic!("its name is asked for") };
    table.put_off(0, at(1));
    assert_eq!(
        (table.due(at(1)), table.next_due(), table.awaits_names(0)),
        (None, at(101), true),
        "no other one is asked for either"
    );
    assert!(table.rows(at(1)).iter().all(|row| row.fault.is_none()));
    let asked = [(); 2].map(|()| {
        let Some(Due::Resolve { host, .. }) = table.due(at(101)) else { panic!("the names are asked for") };
        assert_eq!(table.resolved(0, at(101), Ok(addresses(&["10.0.0.1:80"]))), None);
        host
    });
    assert!(asked.contains(&host) && asked[0] != asked[1], "{asked:?}");
    assert_eq!(table.due(at(101)), None);
    // One that is taken out meanwhile is asked for no more.
    assert!(table.due(at(30_101)).is_some());
    table.retarget(&"10.0.0.9:1".parse().unwrap(), at(30_101));
    table.put_off(0, at(30_101));
    assert_eq!((table.due(at(60_000)), table.next_due()), (None, Instant::NEVER));
}

#[test]
fn a_name_that_hangs_does_not_hold_up_the_others() {
    let mut table = table("a.test:1,b.test:1,c.test:1", Settings::new());
    let ask = |table: &mut Upstreams| match table.due(at(0)) {
        Some(Due::Resolve { asking, host, .. }) => (asking, host),
        other => panic!("a name is asked for: {other:?}"),
    };
    let (hangs, _) = ask(&mut table);
    let mut others = Vec::new();
    for number in 1..=2 {
        let (asking, host) = ask(&mut table);
        assert_ne!(asking, hangs);
        assert_eq!((table.due(at(0)), table.next_due()), (None, Instant::NEVER), "two at a time");
        table.resolved(asking, at(0), Ok(addresses(&[&format!("10.0.0.{number}:1")])));
        others.push(host);
    }
    assert!(others[0] != others[1] && table.in_rotation(at(0)) == (2, 3) && table.awaits_names(0));
    // Each end is of the one that was asked for.
    table.resolved(hangs, at(60_000), Err("nobody answers".to_owned()));
    let faults = table.rows(at(0)).into_iter().filter_map(|row| row.fault.map(|_| row.name)).collect::<Vec<_>>();
    assert!(faults.len() == 1 && !others.iter().any(|host| faults[0].starts_with(host)), "{faults:?}");
    assert_eq!(table.next_due(), at(30_000));
}

#[test]
fn addresses_of_a_name_are_bounded_and_the_same_of_many() {
    let mut table = table("a.test:80", Settings::new());
    let mut many: Vec<Address> = (0..40).map(|last| format!("10.0.0.{last}:80").parse().unwrap()).collect();
    assert!(matches!(table.due(at(0)), Some(Due::Resolve { .. })));
    table.resolved(0, at(0), Ok(many.clone()));
    let known = |table: &Upstreams| table.rows(at(0)).into_iter().map(|row| row.address).collect::<Vec<_>>();
    let first = known(&table);
    many.rotate_left(17);
    assert!(table.due(at(30_000)).is_some());
    table.resolved(0, at(30_000), Ok(many));
    assert_eq!((first.len(), known(&table) == first), (16, true));
}

#[test]
fn other_addresses_each_time_fill_no_table_without_bound() {
    let mut table = table("a.test:80", Settings::new());
    for round in 0..400_u32 {
        let now = at(u64::from(round) * 30_000);
        assert!(matches!(table.due(now), Some(Due::Resolve { .. })));
        let found = (0..16).map(|last| format!("10.{}.{}.{last}:80", round / 256, round % 256).parse().unwrap()).collect();
        table.resolved(0, now, Ok(found));
        // Each is held for ever.
        let held = (0..16).filter_map(|_| table.begin(now, Caller::default(), &Tried::default())).count();
        assert_eq!(held, if round < 256 { 16 } else { 0 }, "at the bound no more are taken in");
    }
    assert_eq!(table.rows(at(0)).len(), 4_096);
}

#[test]
fn one_for_which_there_is_no_place_is_told_and_taken_in_once_there_is() {
    let mut table = table("a.test:80", Settings::new());
    let mut held = Vec::new();
    for round in 0..257_u32 {
        let now = at(u64::from(round) * 30_000);
        assert!(table.due(now).is_some());
        let found = (0..16).map(|last| format!("10.{}.{}.{last}:80", round / 256, round % 256).parse().unwrap()).collect();
        table.resolved(0, now, Ok(found));
        held.extend((0..16).filter_map(|_| table.begin(now, Caller::default(), &Tried::default())));
        assert_eq!(table.take_unplaced().is_some(), round == 256);
    }
    let now = |seconds: u64| at(256 * 30_000 + seconds * 1_000);
    let row = |table: &Upstreams, name: &str| table.rows(now(0)).into_iter().rfind(|row| row.name == name).unwrap();
    assert!(row(&table, "a.test:80").fault.unwrap().starts_with("there are 4096 upstreams at the most"));
    assert_eq!(table.next_due(), now(5), "it is asked for again soon");
    table.retarget(&"10.9.9.9:1".parse().unwrap(), now(1));
    assert!(table.take_unplaced().unwrap().starts_with("upstream 10.9.9.9:1: there are 4096"));
    assert_eq!(row(&table, "10.9.9.9:1").state, State::Unresolved);
    assert_eq!((table.in_rotation(now(1)), table.next_due()), ((0, 4_097), now(6)));
    assert_eq!((table.due(now(6)), table.take_unplaced()), (None, None), "it is told once");
    table.end(held.remove(0), 0);
    assert_eq!((table.next_due(), table.due(now(11))), (now(11), None));
    let row = row(&table, "10.9.9.9:1");
    assert_eq!((row.state, row.fault, table.next_due()), (State::Up, None, Instant::NEVER));
}

#[test]
fn rows_of_lanes_are_joined_by_upstream() {
    let mut one = table("10.0.0.1:1,b.test:2", Settings::new());
    let mut other = table("10.0.0.1:1,b.test:2", Settings { failures_max: 1, ..Settings::new() });
    let first = one.begin(at(0), Caller::default(), &Tried::default()).unwrap();
    one.note_bytes(first, 3, 4);
    one.answered(first, at(0), SECOND);
    let second = other.begin(at(0), Caller::default(), &Tried::default()).unwrap();
    other.connected(second);
    other.failed(second, at(0), Failure::Reset, None);
    let before = gathered([&mut one, &mut other]);
    assert_eq!(before.iter().map(|one| (one.service.as_str(), one.number)).collect::<Vec<_>>(), [("proxy", 3); 2]);
    let row = &before[0].row;
    assert_eq!((row.uses, row.connections, row.counts.uses, row.counts.failed_reset), (2, 1, 2, 1));
    assert_eq!((row.counts.bytes_to, row.counts.bytes_from, row.times.count()), (3, 4, 1));
    assert_eq!(row.state, State::Up, "the last one is not ejected");

    one.begin(at(0), Caller::default(), &Tried::default()).unwrap();
    let later = since(&gathered([&mut one, &mut other]), &before);
    let row = &later[0].row;
    assert_eq!((row.counts.uses, row.times.count(), row.uses, row.counts.bytes_to), (1, 0, 3, 0));
}

/// What two lanes tell together.
fn gathered(mut lanes: [&mut Upstreams; 2]) -> Vec<Shown> {
    let mut gathering = Gathering::new();
    while let Some(question) = gathering.question() {
        for table in &mut lanes {
            assert!(question.service.is_none_or(|service| service == 3));
            gathering.heard("proxy", 3, serde_json::from_str(&answer(table, &question.words).unwrap()).unwrap());
        }
    }
    gathering.shown()
}

/// What a table answers to an operator.
fn answer(table: &mut Upstreams, words: &str) -> Option<String> {
    let mut asked = Asked::read(words, at(0))?;
    asked.of(table);
    Some(asked.answer())
}

#[test]
fn an_operator_is_answered_in_json() {
    let mut table = table("10.0.0.1:1,b.test:2", Settings::new());
    assert!(table.due(at(0)).is_some());
    table.resolved(0, at(0), Err("no \"such\" name\n".to_owned()));
    let used = table.begin(at(0), Caller::default(), &Tried::default()).unwrap();
    table.answered(used, at(0), Duration::from_micros(3));
    let counts = r#""uses":1,"connects":0,"failed_connect":0,"failed_timeout":0,"failed_reset":0,"failed_answer":0,"retries":0,"ejections":0,"checks_failed":0,"full":0,"bytes_to":0,"bytes_from":0"#;
    let none = counts.replace(r#""uses":1"#, r#""uses":0"#);
    let expected = format!(
        r#"{{"all":2,"rows":[{{"name":"10.0.0.1:1","address":"10.0.0.1:1","state":"up","weight":1,"uses_open":1,"connections_open":0,"fault":null,{counts},"microseconds":[[4,1]],"microseconds_sum":3}},{{"name":"b.test:2","address":null,"state":"unresolved","weight":1,"uses_open":0,"connections_open":0,"fault":"no \"such\" name\n",{none},"microseconds":[],"microseconds_sum":0}}]}}"#
    );
    assert_eq!(answer(&mut table, "upstreams show 0 4096"), Some(expected));
    assert_eq!(answer(&mut table, "upstreams show 18446744073709551615 1").as_deref(), Some(r#"{"all":2,"rows":[]}"#));
    assert_eq!(answer(&mut table, "upstreams show 0 0").as_deref(), Some(r#"{"all":2,"rows":[]}"#), "how many there are");
    let mut named = |words: &str| answer(&mut table, words);
    assert_eq!(named("upstreams drain 10.0.0.1:1").as_deref(), Some(r#"{"named":1}"#));
    assert_eq!(named("upstreams enable b.test:2").as_deref(), Some(r#"{"named":1}"#), "a name without an address, too");
    assert_eq!(named("upstreams drain 10.0.0.1:2").as_deref(), Some(r#"{"named":0}"#));
    assert_eq!(
        [named("upstreams"), named("upstreams forget x"), named("show 0"), named("upstreams show x")],
        [const { None }; 4]
    );
    assert_eq!(table.rows(at(0))[0].state, State::Drained);
}

#[test]
fn as_many_upstreams_as_there_may_be_on_many_lanes_are_told_within_the_bound_and_each_once() {
    const LANES: usize = 30;
    let names: Vec<String> = (1..=64).map(|number| format!("a-name-of-usual-length-{number}.test:80")).collect();
    let mut lanes: Vec<Upstreams> =
        (0..LANES).map(|lane| Upstreams::new(&names.join(",").parse().unwrap(), Settings::new(), lane)).collect();
    for lane in &mut lanes {
        while let Some(Due::Resolve { host, .. }) = lane.due(at(0)) {
            let name: u8 = host.trim_end_matches(".test").rsplit('-').next().unwrap().parse().unwrap();
            lane.resolved(0, at(0), Ok((1..=16).map(|number| format!("10.0.{name}.{number}:80").parse().unwrap()).collect()));
        }
        let used = lane.begin(at(0), Caller::default(), &Tried::default()).unwrap();
        lane.answered(used, at(0), Duration::from_micros(3));
    }
    let mut gathering = Gathering::new();
    while let Some(question) = gathering.question() {
        let answers: Vec<String> = lanes.iter_mut().map(|lane| answer(lane, &question.words).unwrap()).collect();
        assert!(answers.iter().all(|answer| answer.len() < 40 << 10), "a lane is not held up");
        assert!(answers.iter().map(String::len).sum::<usize>() < 1 << 20, "a control answer has 1 MiB");
        answers.iter().for_each(|answer| gathering.heard("http", 0, serde_json::from_str(answer).unwrap()));
    }
    let shown = gathering.shown();
    assert_eq!(shown.len(), 64 * 16);
    assert_eq!(shown.iter().map(|one| one.row.counts.uses).sum::<u64>(), LANES as u64);
    assert!(shown.iter().all(|one| one.row.state == State::Up));
    // A process that says anything is not asked without end.
    let (mut gathering, mut questions) = (Gathering::new(), 0);
    while gathering.question().is_some() {
        questions += 1;
        gathering.heard("http", 0, Page { all: usize::MAX, rows: vec![shown[0].row.clone()] });
    }
    assert!((100..=1 << 14).contains(&questions), "{questions}");
}

#[test]
fn many_services_on_many_lanes_are_asked_one_by_one_within_the_bound() {
    const LANES: usize = 64;
    let name = "a-name-of-usual-length";
    let table = |lane| {
        let mut table = Upstreams::new(&format!("{name}.test:80,10.0.0.1:80").parse().unwrap(), Settings::new(), lane);
        assert!(table.due(at(0)).is_some());
        table.resolved(0, at(0), Err("it is not known ".repeat(20)));
        table
    };
    let mut services: Vec<Vec<Upstreams>> = (0..25).map(|_| (0..LANES).map(table).collect()).collect();
    let mut gathering = Gathering::new();
    while let Some(question) = gathering.question() {
        let mut bytes = 0;
        for (number, lanes) in
            services.iter_mut().enumerate().filter(|(number, _)| question.service.is_none_or(|one| one == *number))
        {
            for table in lanes {
                let answer = answer(table, &question.words).unwrap();
                bytes += answer.len() + r#"{"service":"a-service","number":00,"lane":00,"answer":},"#.len();
                gathering.heard("proxy", number, serde_json::from_str(&answer).unwrap());
            }
        }
        assert!(bytes < 1 << 20, "a control answer has 1 MiB");
    }
    let shown = gathering.shown();
    let numbers: Vec<usize> = shown.iter().map(|one| one.number).collect();
    assert_eq!(numbers, (0..25).flat_map(|number| [number; 2]).collect::<Vec<_>>());
}

#[test]
fn lanes_that_tell_different_numbers_of_rows_are_added_up_right() {
    let many: Vec<String> = (1..=64).map(|port| format!("10.0.0.1:{port}")).collect();
    let mut lanes = [0, 1].map(|lane| Upstreams::new(&many.join(",").parse().unwrap(), Settings::new(), lane));
    for lane in &mut lanes {
        (0..64).for_each(|_| assert!(lane.begin(at(0), Caller::default(), &Tried::default()).is_some()));
    }
    let mut gathering = Gathering::new();
    while let Some(question) = gathering.question() {
        let question = question.words;
        let fewer =
            question.rsplit_once(' ').map(|(words, bytes)| format!("{words} {}", bytes.parse::<usize>().unwrap() / 7)).unwrap();
        for (lane, question) in lanes.iter_mut().zip([&question, &fewer]) {
            gathering.heard("http", 0, serde_json::from_str(&answer(lane, question).unwrap()).unwrap());
        }
    }
    let shown = gathering.shown();
    let names: Vec<&str> = shown.iter().map(|one| one.row.name.as_str()).collect();
    assert_eq!(names, many.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(shown.iter().all(|one| one.row.counts.uses == 2));
}

#[test]
fn checks_come_in_their_time_and_no_more_than_so_many_at_once() {
    let many: Vec<String> = (1..=40).map(|port| format!("10.0.0.1:{port}")).collect();
    let mut table = table(&many.join(","), Settings { check: Some(Check::every(SECOND)), ..Settings::new() });
    assert!(table.next_due() >= at(0) && table.next_due() < at(1_000), "not all at once");
    let mut under_way = Vec::new();
    while let Some(due) = table.due(at(1_000)) {
        let Due::Check { upstream, .. } = due else { panic!("there is no name") };
        under_way.push(upstream);
    }
    assert_eq!((under_way.len(), table.next_due()), (16, Instant::NEVER));
    assert_eq!(table.checked(under_way[0], at(1_500), Some(true)), None);
    assert!(table.due(at(1_500)).is_some() && table.due(at(1_500)).is_none());
    under_way.drain(1..).for_each(|upstream| assert_eq!(table.checked(upstream, at(1_500), None), None));
    assert_eq!(table.in_rotation(at(1_500)), (40, 40), "a check without a word takes nobody out");
}

#[test]
fn what_an_operator_said_of_a_name_holds_for_its_next_addresses() {
    let mut table = table("a.test:80", Settings { failures_max: 1, ..Settings::new() });
    assert!(table.due(at(0)).is_some());
    table.resolved(0, at(0), Ok(addresses(&["10.0.0.1:80", "10.0.0.3:80"])));
    let used = table.begin(at(0), Caller::default(), &Tried::default()).unwrap();
    assert!(table.failed(used, at(0), Failure::Connect, None).is_some());
    assert_eq!(table.rows(at(0)).iter().map(|row| row.counts.ejections).sum::<u64>(), 1);
    table.end(used, 0);
    assert_eq!(table.drain("a.test:80"), 2);
    assert!(table.due(at(30_000)).is_some());
    table.resolved(0, at(30_000), Ok(addresses(&["10.0.0.2:80", "10.0.0.4:80"])));
    let rows = table.rows(at(30_000));
    assert_eq!(rows.iter().map(|row| row.state).collect::<Vec<_>>(), [State::Drained; 2]);
    assert_eq!((table.address(used), table.serves(used)), (None, false), "another one has its place, and not its name");
}

#[test]
fn a_client_that_makes_an_upstream_fail_takes_it_from_nobody() {
    let mut table = Upstreams::new(&"10.0.0.1:1,10.0.0.2:1".parse().unwrap(), Settings::new(), 0);
    // Alone it harms itself alone.
    let fail = |table: &mut Upstreams, client: u64, second: u64| {
        let used = table.begin(at(second), Caller { key: 0, client }, &Tried::default()).unwrap();
        let ejected = table.failed(used, at(second), Failure::Reset, Some(client)).is_some();
        table.end(used, client);
        ejected
    };
    assert_eq!((0..10).filter(|_| fail(&mut table, 1, 0)).count(), 1, "the last one is never ejected");
    let mut table = Upstreams::new(&"10.0.0.1:1,10.0.0.2:1".parse().unwrap(), Settings::new(), 0);
    for client in [2, 2, 1, 1] {
        let used = table.begin(at(0), Caller { key: 0, client }, &Tried::default()).unwrap();
        table.answered(used, at(0), Duration::ZERO);
        table.end(used, client);
    }
    assert_eq!((0..100).filter(|_| fail(&mut table, 1, 1)).count(), 0, "others use them too");
    assert_eq!((0..10).filter(|_| fail(&mut table, 2, 2)).count(), 1, "and then one of them has met the same");
}

#[test]
fn what_a_client_did_to_a_shared_upstream_is_forgotten_in_ten_minutes() {
    let mut table = Upstreams::new(&"10.0.0.1:1,10.0.0.2:1".parse().unwrap(), Settings::new(), 0);
    let mut use_it = |client: u64, minute: u64, fails: bool| {
        let now = at(minute * 60_000);
        let used = table.begin(now, Caller { key: 0, client }, &Tried::default()).unwrap();
        let ejected = fails && table.failed(used, now, Failure::Reset, Some(client)).is_some();
        table.end(used, client);
        ejected
    };
    [2, 2, 1, 1].into_iter().for_each(|client| assert!(!use_it(client, 0, false)));
    assert!((0..40).all(|_| !use_it(1, 9, true)), "it is shared still");
    assert!((0..10).any(|_| use_it(1, 11, true)), "nobody else has used it for so long");
}

#[test]
fn a_group_serves_nobody_elses_clients() {
    let mut targets: Targets = "10.0.0.1:1".parse().unwrap();
    ["10.0.0.2:1", "10.0.0.3:1"].into_iter().for_each(|target| targets.add(target, 1).unwrap());
    let mut table = Upstreams::new(&targets, Settings { failures_max: 1, ..Settings::new() }, 0);
    let mut fail = |group| {
        let used = table.begin_in(group, at(0), Caller::default(), &Tried::default()).unwrap();
        let ejected = table.failed(used, at(0), Failure::Connect, None).is_some();
        table.end(used, 0);
        ejected
    };
    assert_eq!([0, 0, 1, 1].map(&mut fail), [false, false, true, false], "the last one of a group is never ejected");
    assert_eq!((table.drain("10.0.0.2:1"), table.drain("10.0.0.3:1")), (1, 1));
    assert_eq!(table.begin_in(1, at(0), Caller::default(), &Tried::default()), None);
    assert!(table.begin_in(0, at(0), Caller::default(), &Tried::default()).is_some());
}

#[test]
fn groups_follow_new_targets_each_by_itself() {
    let targets = |of: &[(&str, u32)]| {
        let mut targets = Targets::none();
        of.iter().for_each(|(target, group)| targets.add(target, *group).unwrap());
        targets
    };
    let mut table = Upstreams::new(&targets(&[("10.0.0.1:1", 0), ("10.0.0.2:1", 1), ("10.0.0.3:1", 2)]), Settings::new(), 0);
    let begin = |table: &mut Upstreams, group| table.begin_in(group, at(0), Caller::default(), &Tried::default());
    let at_group = |table: &mut Upstreams, group| {
        let used = begin(table, group)?;
        let name = table.name(used).unwrap().to_owned();
        table.end(used, 0);
        Some(name)
    };
    let held = begin(&mut table, 2).unwrap();
    // Group 1 waits for a name, group 3 is new, and group 2 is there no more: perhaps the first has its clients.
    assert!(table.retarget(&targets(&[("10.0.0.4:1", 0), ("a.test:1", 1), ("10.0.0.2:1", 3)]), at(0)));
    let found = [0, 1, 2, 3].map(|group| at_group(&mut table, group));
    assert_eq!(
        found.each_ref().map(Option::as_deref),
        [Some("10.0.0.4:1"), Some("10.0.0.2:1"), Some("10.0.0.3:1"), Some("10.0.0.2:1")]
    );
    assert!(table.awaits_groups() && table.awaits_names(1) && !table.awaits_names(2) && table.knows(2));
    assert!(matches!(table.due(at(0)), Some(Due::Resolve { .. })));
    table.resolved(0, at(0), Ok(addresses(&["10.0.0.5:1"])));
    assert_eq!([1, 2].map(|group| at_group(&mut table, group)), [Some("a.test:1".to_owned()), None]);
    assert!(!table.serves(held) && table.name(held) == Some("10.0.0.3:1"), "what is under way there goes on");
    assert!(!table.awaits_groups() && !table.knows(2));
    table.end(held, 0);
    let mut names: Vec<String> = table.rows(at(0)).into_iter().map(|row| row.name).collect();
    names.sort();
    assert_eq!(names, ["10.0.0.2:1", "10.0.0.4:1", "a.test:1"]);
    // One group waits already when those of another are named anew.
    table.retarget(&targets(&[("file:/list", 0), ("a.test:1", 1)]), at(1));
    table.retarget(&targets(&[("file:/list", 0), ("b.test:1", 1)]), at(2));
    let found = [0, 1].map(|group| at_group(&mut table, group));
    assert_eq!(found.each_ref().map(Option::as_deref), [Some("10.0.0.4:1"), Some("a.test:1")]);
    // Whatever group has it.
    assert_eq!(table.drain("10.0.0.4:1"), 1);
    table.retarget(&targets(&[("10.0.0.4:1", 4), ("10.0.0.6:1", 5)]), at(3));
    assert_eq!([4, 5].map(|group| at_group(&mut table, group)), [None, Some("10.0.0.6:1".to_owned())]);
}

#[test]
fn a_name_that_has_lost_its_addresses_takes_no_upstream_with_it() {
    let mut table = table("a.test:80", Settings::new());
    assert!(table.due(at(0)).is_some());
    table.resolved(0, at(0), Ok(addresses(&["10.0.0.1:80"])));
    assert!(table.due(at(30_000)).is_some());
    assert!(table.resolved(0, at(30_000), Ok(Vec::new())).is_some(), "it is told once");
    let row = table.rows(at(30_000)).remove(0);
    assert_eq!((row.state, row.fault.as_deref()), (State::Up, Some("it has no address")));
    assert_eq!(table.next_due(), at(35_000), "it is asked again soon");
    assert!(table.due(at(35_000)).is_some() && table.resolved(0, at(35_000), Ok(Vec::new())).is_none(), "nothing is new");
}

#[test]
fn other_targets_take_the_place_of_those_that_go_and_what_is_under_way_goes_on() {
    let mut table = table("10.0.0.1:1,10.0.0.2:1,a.test:80", Settings { failures_max: 1, ..Settings::new() });
    let uses: Vec<Upstream> = (0..2).map(|_| table.begin(at(0), Caller::default(), &Tried::default()).unwrap()).collect();
    assert!(!table.retarget(&"tls://10.0.0.2:1".parse().unwrap(), at(1)), "no client of TLS is there");
    assert!(table.retarget(&"10.0.0.2:1*3,b.test:80,10.0.0.3:1".parse().unwrap(), at(1)));
    let states =
        |table: &Upstreams| table.rows(at(1)).into_iter().map(|row| (row.name, row.state, row.weight)).collect::<Vec<_>>();
    let row = |name: &str, state, weight| (name.to_owned(), state, weight);
    let held = [row("10.0.0.1:1", State::Leaving, 1), row("10.0.0.2:1", State::Up, 3)];
    let new = [row("b.test:80", State::Unresolved, 1), row("10.0.0.3:1", State::Up, 1)];
    let (mut expected, mut got) = ([&held[..], &new[..]].concat(), states(&table));
    expected.sort();
    got.sort();
    assert_eq!(got, expected);
    assert_eq!(table.rows(at(1)).iter().map(|row| row.counts.uses).sum::<u64>(), 2, "counters go on");
    let Some(Due::Resolve { host, .. }) = table.due(at(1)) else { panic!("the new name is asked for") };
    assert_eq!(host, "b.test");
    table.retarget(&"10.0.0.2:1".parse().unwrap(), at(2));
    table.resolved(0, at(2), Ok(addresses(&["10.0.0.9:80"])));
    uses.into_iter().for_each(|used| table.end(used, 0));
    assert_eq!(states(&table), [row("10.0.0.2:1", State::Up, 1)], "what nobody holds has gone");
    for round in 0..300_u32 {
        table.retarget(&format!("10.1.{}.{}:1", round / 250, round % 250).parse().unwrap(), at(3));
        assert_eq!(table.rows(at(3)).len(), 1, "places are used again");
    }
    assert_eq!((table.drain("10.0.0.2:1"), table.drain("10.1.1.49:1")), (0, 1));
}

#[test]
fn one_that_has_as_many_uses_as_it_may_have_is_passed_over() {
    let settings = Settings { uses_max: NonZeroU32::new(64), failures_max: 0, ..Settings::new() };
    let mut table = table("10.0.0.1:1,10.0.0.2:1", settings);
    let mut begin = |client: u64, tried: Tried| table.begin(at(0), Caller { key: 0, client }, &tried);
    // One client never has more than it leaves of each.
    let greedy: Vec<Upstream> = std::iter::from_fn(|| begin(1, Tried::default())).collect();
    assert_eq!(greedy.len(), 64, "half of both");
    let first = greedy[0];
    let of_others = (2..200).filter(|client| begin(*client, Tried::default()).is_some()).count();
    assert_eq!(of_others, 64, "each of many has one");
    assert!(begin(300, Tried::default()).is_none());
    assert!(table.is_full(0, 300) && !table.is_full(1, 300));
    let full: u64 = table.rows(at(0)).iter().map(|row| row.counts.full).sum();
    assert!(full >= 4, "{full}");
    // A use that ends makes room, there alone.
    table.end(first, 1);
    let caller = Caller { key: 0, client: 300 };
    assert_eq!(table.begin(at(0), caller, &Tried::default()), Some(first));
    assert_eq!(table.begin(at(0), caller, &Tried::default()), None);
    // The lane's part counts where the settings say nothing, of several.
    for (targets, taken) in [("10.0.0.1:1,10.0.0.2:1", 4), ("10.0.0.1:1", 9)] {
        let mut table = super::table::table(targets, Settings::new());
        table.bound_uses(2);
        let begins = |client| table.begin(at(0), Caller { key: 0, client }, &Tried::default()).is_some();
        assert_eq!((0..9).map(begins).filter(|begun| *begun).count(), taken, "{targets}");
    }
}
