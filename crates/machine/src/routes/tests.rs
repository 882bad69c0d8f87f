use super::message::Prefix;
use super::message::tests::attribute;
use super::table::{Place, Table, WAYS_MAX, Way};
use super::*;
use corelane_os::testing::network::{ip, on_thread, unshared};
use corelane_os::testing::skip;
use corelane_seam::Random;
use std::collections::BTreeSet;
use std::process::Command;

/// Whoever is told of changes: the ways of each prefix.
#[derive(Debug, Default, PartialEq, Eq)]
struct Listener(BTreeMap<(IpAddr, u8), BTreeSet<(IpAddr, String)>>);

impl Listener {
    /// Carries out changes; each has to be one, and no prefix may have more ways than a gateway takes.
    fn hear(&mut self, events: &[RouteEvent]) {
        for event in events {
            match event {
                RouteEvent::Add(Route { destination, bits, router, interface }) => {
                    let ways = self.0.entry((*destination, *bits)).or_default();
                    assert!(ways.insert((*router, interface.to_string())), "told twice: {event:?}");
                    assert!(ways.len() <= WAYS_MAX, "{event:?}");
                }
                RouteEvent::Delete { destination, bits, router } => {
                    let ways = self.0.get_mut(&(*destination, *bits)).unwrap_or_else(|| panic!("never told: {event:?}"));
                    let before = ways.len();
                    ways.retain(|(of, _)| of != router);
                    assert!(ways.len() < before, "never told: {event:?}");
                    if ways.is_empty() {
                        self.0.remove(&(*destination, *bits));
                    }
                }
            }
        }
    }

    fn ways(&self, prefix: &str) -> Vec<(String, String)> {
        let (address, bits) = prefix.split_once('/').unwrap();
        let ways = self.0.get(&(address.parse().unwrap(), bits.parse().unwrap()));
        ways.into_iter().flatten().map(|(router, interface)| (router.to_string(), interface.clone())).collect()
    }
}

fn prefix(number: u8, v6: bool) -> Prefix {
    let address =
        if v6 { IpAddr::from([0xfd00 + u16::from(number), 0, 0, 0, 0, 0, 0, 0]) } else { IpAddr::from([10, number, 0, 0]) };
    Prefix { address, bits: if v6 { 64 } else { 24 } }
}

fn way(number: u8, interface: &str, v6: bool) -> Way {
    let router = if v6 { IpAddr::from([0xfe80, 0, 0, 0, 0, 0, 0, u16::from(number)]) } else { IpAddr::from([192, 0, 2, number]) };
    Way { router, interface: interface.into() }
}

/// The kernel's routes of one table, of each prefix in its order.
type Kernel = BTreeMap<Prefix, Vec<(u32, Vec<Way>)>>;

fn expected(kernel: &Kernel) -> Listener {
    let used = kernel.iter().filter_map(|(prefix, routes)| {
        let (_, ways) = routes.first()?;
        let ways: BTreeSet<_> = ways.iter().map(|way| (way.router, way.interface.to_string())).collect();
        (!ways.is_empty()).then_some(((prefix.address, prefix.bits), ways))
    });
    Listener(used.collect())
}

/// Some ways, sorted as the table has them.
fn some_ways(random: &mut Random, v6: bool) -> Vec<Way> {
    let most = [1, 1, 2, 4, 17][random.below(5) as usize];
    let one = |random: &mut Random| way(random.below(20) as u8, ["eth0", "eth1"][random.below(2) as usize], v6);
    let mut ways: Vec<_> = (0..random.below(most + 1)).map(|_| one(random)).collect();
    ways.sort();
    ways.dedup();
    ways.truncate(WAYS_MAX);
    ways
}

/// One change, as the kernel makes and tells it.
fn change(random: &mut Random, kernel: &mut Kernel, table: &mut Table) {
    let v6 = random.below(2) == 1;
    let (prefix, metric) = (prefix(random.below(6) as u8, v6), random.below(3) as u32);
    let routes = kernel.entry(prefix).or_default();
    let of: Vec<_> = (0..routes.len()).filter(|place| routes[*place].0 == metric).collect();
    if random.below(3) == 0 {
        let Some(place) = of.get(random.below(3) as usize).copied() else { return };
        let (_, all) = routes[place].clone();
        let gone =
            if v6 && all.len() > 1 { all[..1 + random.below(all.len() as u64 - 1) as usize].to_vec() } else { all.clone() };
        match gone.len() == all.len() {
            true => drop(routes.remove(place)),
            false => routes[place].1.retain(|way| !gone.contains(way)),
        }
        assert!(table.delete(prefix, metric, gone), "it is known which");
        return;
    }
    let ways = some_ways(random, v6);
    let place = match (v6, random.below(3)) {
        (true, _) => Place::InsteadOfAll,
        (false, 0) => Place::First,
        (false, 1) => Place::Last,
        (false, _) => Place::InsteadOfFirst,
    };
    // The kernel refuses what it has, and of IPv6 the model has only ways by routers.
    if routes.iter().any(|(of, known)| *of == metric && *known == ways) || (v6 && ways.is_empty()) {
        return;
    }
    let end = routes.partition_point(|(of, _)| *of <= metric);
    let start = routes.partition_point(|(of, _)| *of < metric);
    match place {
        Place::InsteadOfAll => drop(routes.splice(start..end, [(metric, ways.clone())])),
        Place::InsteadOfFirst => drop(routes.splice(start..end.min(start + 1), [(metric, ways.clone())])),
        Place::First => routes.insert(start, (metric, ways.clone())),
        Place::Last => routes.insert(end, (metric, ways.clone())),
    }
    table.add(prefix, metric, ways, place);
}

#[test]
fn whatever_changes_the_listener_has_what_the_kernel_uses() {
    for seed in 1..60 {
        let (mut random, mut kernel) = (Random::new(seed), Kernel::new());
        let (mut table, mut listener) = (Table::new(100), Listener::default());
        for _ in 0..400 {
            change(&mut random, &mut kernel, &mut table);
            match random.below(8) {
                // A part of it, or all.
                0 => listener.hear(&table.take(1 + random.below(3) as usize)),
                1 => {
                    while let events = table.take(2)
                        && !events.is_empty()
                    {
                        listener.hear(&events);
                    }
                    assert_eq!(listener, expected(&kernel), "seed {seed}");
                }
                // All is listed anew.
                2 => {
                    table.begin();
                    let all = kernel.iter().flat_map(|(prefix, routes)| routes.iter().map(move |one| (*prefix, one.clone())));
                    all.for_each(|(prefix, (metric, ways))| {
                        let place = if prefix.address.is_ipv6() { Place::InsteadOfAll } else { Place::Last };
                        table.add(prefix, metric, ways, place);
                    });
                }
                _ => {}
            }
        }
        listener.hear(&table.take(usize::MAX));
        assert_eq!(listener, expected(&kernel), "seed {seed}");
        let known = kernel.values().filter(|routes| !routes.is_empty()).count();
        assert_eq!(table.len(), known, "what has gone is forgotten");
        assert_eq!(table.take(usize::MAX), [], "each change is told once");
    }
}

#[test]
fn new_ways_come_before_old_ones_go_where_there_is_room() {
    let mut table = Table::new(10);
    let one = prefix(1, false);
    let (destination, bits) = (one.address, one.bits);
    let add = |way: Way| RouteEvent::Add(Route { destination, bits, router: way.router, interface: way.interface });
    let delete = |way: Way| RouteEvent::Delete { destination, bits, router: way.router };
    let of = |number| way(number, "eth0", false);
    table.add(one, 0, vec![of(1), of(2)], Place::First);
    assert_eq!(table.take(9), [add(of(1)), add(of(2))]);
    table.add(one, 0, vec![of(2), of(3)], Place::InsteadOfFirst);
    assert_eq!(table.take(9), [add(of(3)), delete(of(1))]);
    // By another interface: it has to go first, for all by the router go.
    table.add(one, 0, vec![of(2), way(3, "eth1", false)], Place::InsteadOfFirst);
    assert_eq!(table.take(9), [delete(of(3)), add(way(3, "eth1", false))]);
    table.add(one, 0, (10..26).map(of).collect(), Place::InsteadOfFirst);
    let events = table.take(99);
    assert_eq!(events.len(), 18);
    assert!(events[..2].iter().all(|event| matches!(event, RouteEvent::Delete { .. })), "there is room for 16");
    table.add(one, 0, (10..18).map(of).collect(), Place::InsteadOfFirst);
    assert_eq!(table.take(99).len(), 8);
    table.add(one, 0, (20..28).map(of).collect(), Place::InsteadOfFirst);
    let events = table.take(99);
    assert!(events[..8].iter().all(|event| matches!(event, RouteEvent::Add(_))), "both sets have room: {events:?}");
}

#[test]
fn a_route_is_known_once_wherever_it_stands() {
    let (mut table, mut listener) = (Table::new(9), Listener::default());
    let (one, of) = (prefix(1, false), |number| vec![way(number, "eth0", false)]);
    let router = |number: u8| vec![(format!("192.0.2.{number}"), "eth0".to_owned())];
    let mut told = |table: &mut Table| {
        listener.hear(&table.take(99));
        listener.ways("10.1.0.0/24")
    };
    table.add(one, 0, of(1), Place::First);
    table.add(one, 0, of(2), Place::First);
    assert_eq!(told(&mut table), router(2));
    // Two of the kernel's that differ in their weights alone.
    table.add(one, 0, of(1), Place::InsteadOfFirst);
    assert_eq!(told(&mut table), router(1), "it stands behind the one that it replaces");
    assert!(table.delete(one, 0, of(1)));
    assert_eq!((told(&mut table), table.len()), (vec![], 0));
    table.add(one, 0, [of(3), of(3)].concat(), Place::First);
    assert_eq!(told(&mut table), router(3), "a way that stands twice in a route is one");
}

#[test]
fn a_route_of_ipv6_that_leads_nowhere_hides_those_behind_it() {
    let (mut table, mut listener) = (Table::new(9), Listener::default());
    table.add(prefix(1, true), 10, vec![way(1, "eth0", true)], Place::InsteadOfAll);
    table.add(prefix(1, true), 5, Vec::new(), Place::InsteadOfAll);
    assert_eq!((table.take(9), table.len()), (Vec::new(), 1));
    assert!(table.delete(prefix(1, true), 5, Vec::new()));
    listener.hear(&table.take(9));
    assert_eq!(listener.0.len(), 1);
}

#[test]
fn what_was_never_told_leaves_its_room_to_a_new_list() {
    let (mut table, mut listener) = (Table::new(2), Listener::default());
    let add = |table: &mut Table, number| table.add(prefix(number, false), 0, vec![way(1, "eth0", false)], Place::Last);
    add(&mut table, 1);
    add(&mut table, 2);
    table.begin();
    add(&mut table, 3);
    add(&mut table, 4);
    listener.hear(&table.take(9));
    assert_eq!((table.refused, listener.0.len(), table.len()), (0, 2, 2));
}

#[test]
fn a_table_is_bounded() {
    let mut table = Table::new(2);
    for number in 1..5 {
        table.add(prefix(number, false), 0, vec![way(1, "eth0", false)], Place::First);
    }
    assert_eq!((table.len(), table.refused, table.take(9).len()), (2, 2, 2));
    table.add(prefix(1, false), 0, vec![way(2, "eth0", false)], Place::InsteadOfFirst);
    assert_eq!((table.refused, table.take(9).len()), (2, 2), "what is known has room");
}

#[test]
fn ways_that_nobody_uses_are_forgotten_now_and_then_and_others_never() {
    let (mut table, mut listener) = (Table::new(5000), Listener::default());
    let of = |number: u32| {
        let [_, a, b, c] = number.to_be_bytes();
        vec![Way { router: [10, a, b, c].into(), interface: "eth0".into() }]
    };
    let (changes, stays) = (prefix(1, false), prefix(2, false));
    table.add(changes, 0, of(1), Place::First);
    table.add(stays, 7, of(2), Place::First);
    // It is used once this one goes, and not before.
    table.add(stays, 9, of(3), Place::First);
    listener.hear(&table.take(9));
    for number in 10..100_000 {
        table.add(changes, 0, of(number), Place::InsteadOfFirst);
        assert!(table.sets() <= 2050, "{number}");
    }
    assert!(table.delete(stays, 7, of(2)));
    listener.hear(&table.take(9));
    let router = |number: u32| vec![(of(number)[0].router.to_string(), "eth0".to_owned())];
    assert_eq!((listener.ways("10.1.0.0/24"), listener.ways("10.2.0.0/24")), (router(99_999), router(3)));
    // Where many are in use, they are not gone through for each new one.
    for number in 0..3000_u16 {
        let address = IpAddr::from([0xfd00, number, 0, 0, 0, 0, 0, 0]);
        table.add(Prefix { address, bits: 48 }, 0, of(200_000 + u32::from(number)), Place::InsteadOfAll);
    }
    (0..2000).for_each(|number| table.add(changes, 0, of(300_000 + number), Place::InsteadOfFirst));
    assert!(table.sets() > 4000, "{}", table.sets());
}

#[test]
fn a_delete_of_what_is_not_known_asks_for_a_list() {
    let mut table = Table::new(9);
    let of = |number| vec![way(number, "eth0", true)];
    assert!(table.delete(prefix(1, true), 0, of(1)), "it has gone already");
    table.add(prefix(1, true), 0, of(1), Place::InsteadOfAll);
    assert!(table.delete(prefix(1, true), 7, of(1)), "likewise");
    assert!(!table.delete(prefix(1, true), 0, of(2)));
    assert!(!table.delete(prefix(1, true), 0, Vec::new()));
    assert!(!table.delete(prefix(1, true), 0, [of(1), of(2)].concat()), "one more than there is");
    // IPv6 may have a way to a link beside one by a router; it does not hide that.
    table.add(prefix(1, true), 0, Vec::new(), Place::InsteadOfAll);
    assert_eq!(table.take(9).len(), 1);
    table.add(prefix(2, false), 0, vec![way(1, "eth0", false)], Place::First);
    table.add(prefix(2, false), 0, vec![way(2, "eth0", false)], Place::First);
    assert!(!table.delete(prefix(2, false), 0, vec![way(3, "eth0", false)]), "one of two");
    assert!(table.delete(prefix(2, false), 0, vec![way(2, "eth0", false)]));
    assert!(table.delete(prefix(2, false), 0, vec![way(3, "eth0", false)]), "the only one there is");
}

/// What the kernel tells of an interface, in this family's words.
fn link(family: i32, index: u32, flags: i32, name: &str) -> Vec<u8> {
    let head = [&[family as u8, 0, 0, 0][..], &index.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 4]].concat();
    let name = attribute(libc::IFLA_IFNAME, &[name.as_bytes(), &[0]].concat());
    [head, name].concat()
}

#[test]
fn all_is_listed_anew_where_routes_may_have_gone_or_have_another_interface() {
    let (mut table, mut links) = (Table::new(9), Links::new());
    let mut heard = |kind, body: &[u8]| {
        let is_enough = understand((100, &mut table, &mut links), kind, 0, body);
        (is_enough, links.values().map(|(name, _)| name.to_string()).collect::<Vec<_>>().join(" "))
    };
    let mut is = |kind, body: &[u8], is_enough: bool, names: &str| assert_eq!(heard(kind, body), (is_enough, names.to_owned()));
    let (new, delete, no_family, up) = (libc::RTM_NEWLINK, libc::RTM_DELLINK, libc::AF_UNSPEC, libc::IFF_UP);
    is(new, &link(no_family, 7, up, "eth0"), true, "eth0");
    is(new, &link(no_family, 7, up | libc::IFF_PROMISC, "eth0"), true, "eth0");
    is(new, &link(no_family, 8, 0, "eth1"), true, "eth0 eth1");
    is(new, &link(no_family, 7, up, "wan"), false, "wan eth1");
    is(new, &link(no_family, 7, 0, "wan"), false, "wan eth1");
    // A bridge has lost its port, which is there still.
    is(delete, &link(libc::AF_BRIDGE, 7, 0, "wan"), true, "wan eth1");
    is(delete, &link(no_family, 7, 0, "wan"), false, "eth1");
    is(delete, &link(no_family, 7, 0, "wan"), true, "eth1");
    is(new, &link(no_family, 9, 0, "eth2")[..12], false, "eth1");
    is(libc::RTM_DELADDR, &[], false, "eth1");
    is(NEW_NEXT_HOP, &[], false, "eth1");
    is(DELETE_NEXT_HOP, &[], false, "eth1");
    is(libc::RTM_NEWROUTE, &[2, 24], false, "eth1");
    is(libc::RTM_NEWRULE, &[], true, "eth1");
}

/// A follower of table 100 in a namespace with two interfaces, and who is told.
struct Scene {
    follower: RouteFollower,
    listener: Listener,
}

impl Scene {
    fn run(test: &str, body: fn(&mut Self)) {
        on_thread(test, || match unshared().and_then(|_| Self::interfaces()) {
            Ok(()) => {
                let follower = RouteFollower::new(100, 1_000_000).unwrap();
                body(&mut Self { follower, listener: Listener::default() });
            }
            Err(why) => skip(test, &why),
        });
    }

    fn interfaces() -> Result<(), String> {
        let of = |number: u8| {
            [
                format!("link add here{number} type veth peer name there{number}"),
                format!("address add 192.0.{number}.1/24 dev here{number}"),
                format!("address add fd00:{number}::1/64 dev here{number} nodad"),
                format!("link set here{number} up"),
                format!("link set there{number} up"),
            ]
        };
        ip(&[of(1), of(2)].concat())
    }

    /// Has ip(8) change routes, and hears of it.
    fn ip(&mut self, lines: &[&str]) {
        let lines: Vec<_> = lines.iter().map(ToString::to_string).collect();
        ip(&lines).unwrap();
        self.hear();
    }

    fn hear(&mut self) {
        while let events = self.follower.take(1000).unwrap()
            && !events.is_empty()
        {
            self.listener.hear(&events);
        }
    }

    #[track_caller]
    fn has(&self, prefix: &str, ways: &[(&str, &str)]) {
        let ways: Vec<_> = ways.iter().map(|(router, interface)| (router.to_string(), interface.to_string())).collect();
        assert_eq!(self.listener.ways(prefix), ways, "{prefix}");
    }
}

#[test]
fn routes_come_change_and_go_with_the_kernels() {
    Scene::run("routes_come_change_and_go_with_the_kernels", |scene| {
        scene.ip(&[
            "route add 10.1.0.0/16 via 192.0.1.9 table 100",
            "route add 10.9.0.0/16 via 192.0.1.9 table 101",
            "route add 10.6.0.0/16 via 192.0.1.9 table 100",
            "route append 10.6.0.0/16 via 192.0.1.8 table 100",
        ]);
        assert_eq!(scene.listener.0.len(), 2, "what was there before, of the table");
        scene.has("10.6.0.0/16", &[("192.0.1.9", "here1")]);
        scene.ip(&["route delete 10.6.0.0/16 table 100", "route delete 10.6.0.0/16 table 100"]);
        scene.has("10.1.0.0/16", &[("192.0.1.9", "here1")]);
        scene.ip(&["route add default via 192.0.2.9 table 100", "route add fd09::/32 via fd00:1::9 table 100"]);
        scene.ip(&["route add 10.8.0.0/16 via 192.0.1.9 table 101"]);
        scene.has("0.0.0.0/0", &[("192.0.2.9", "here2")]);
        scene.has("fd09::/32", &[("fd00:1::9", "here1")]);
        scene.ip(&["route replace 10.1.0.0/16 via 192.0.2.7 table 100", "route replace fd09::/32 via fd00:2::7 table 100"]);
        scene.has("10.1.0.0/16", &[("192.0.2.7", "here2")]);
        scene.has("fd09::/32", &[("fd00:2::7", "here2")]);
        // The least metric is used, and what is behind it when it goes.
        scene.ip(&["route add 10.1.0.0/16 via 192.0.1.5 metric 10 table 100"]);
        scene.has("10.1.0.0/16", &[("192.0.2.7", "here2")]);
        scene.ip(&["route delete 10.1.0.0/16 via 192.0.2.7 table 100"]);
        scene.has("10.1.0.0/16", &[("192.0.1.5", "here1")]);
        // Of one metric the first.
        scene.ip(&["route append 10.1.0.0/16 via 192.0.1.6 metric 10 table 100"]);
        scene.has("10.1.0.0/16", &[("192.0.1.5", "here1")]);
        scene.ip(&["route prepend 10.1.0.0/16 via 192.0.1.7 metric 10 table 100"]);
        scene.has("10.1.0.0/16", &[("192.0.1.7", "here1")]);
        scene.ip(&["route delete 10.1.0.0/16 via 192.0.1.7 table 100", "route delete 10.1.0.0/16 via 192.0.1.5 table 100"]);
        scene.has("10.1.0.0/16", &[("192.0.1.6", "here1")]);
        assert_eq!(scene.follower.counts().lists, 1, "all by notices: {:?}", scene.follower.counts());
        // What cannot be followed leads nowhere, and hides what is behind it as in the kernel.
        scene.ip(&["route add blackhole 10.1.0.0/16 metric 5 table 100", "route add 10.2.0.0/16 dev here1 table 100"]);
        scene.ip(&["route add 10.3.0.0/16 via 192.0.1.5 tos 8 table 100", "route add 10.4.0.0/16 via inet6 fd00:1::9 table 100"]);
        assert_eq!(scene.listener.0.keys().filter(|(address, _)| address.is_ipv4()).count(), 1, "{:?}", scene.listener);
        scene.ip(&["route delete blackhole 10.1.0.0/16 metric 5 table 100"]);
        scene.has("10.1.0.0/16", &[("192.0.1.6", "here1")]);
        scene.ip(&["route flush table 100"]);
        assert!(Command::new("ip").args(["-6", "route", "flush", "table", "100"]).status().unwrap().success());
        scene.hear();
        assert_eq!(scene.listener, Listener::default());
        assert_eq!((scene.follower.counts().prefixes, scene.follower.take(9).unwrap()), (0, Vec::new()));
    });
}

#[test]
fn several_ways_are_followed_one_by_one() {
    Scene::run("several_ways_are_followed_one_by_one", |scene| {
        let v4: Vec<_> = (0..16).map(|number| format!("nexthop via 192.0.{}.{}", 1 + number % 2, 100 + number)).collect();
        let two = "nexthop via 192.0.1.100 weight 3 nexthop via 192.0.2.101";
        scene.ip(&[&format!("route add 10.1.0.0/16 table 100 {}", v4.join(" "))]);
        assert_eq!(scene.listener.ways("10.1.0.0/16").len(), 16);
        scene.ip(&[&format!("route replace 10.1.0.0/16 table 100 {two}")]);
        scene.has("10.1.0.0/16", &[("192.0.1.100", "here1"), ("192.0.2.101", "here2")]);
        let three = "nexthop via fd00:1::9 nexthop via fd00:2::9 nexthop via fd00:2::8";
        scene.ip(&[&format!("route add fd09::/32 table 100 {three}")]);
        scene.has("fd09::/32", &[("fd00:1::9", "here1"), ("fd00:2::8", "here2"), ("fd00:2::9", "here2")]);
        scene.ip(&["route append fd09::/32 via fd00:1::7 table 100"]);
        assert_eq!(scene.listener.ways("fd09::/32").len(), 4);
        scene.ip(&["route delete fd09::/32 via fd00:2::9 table 100"]);
        scene.has("fd09::/32", &[("fd00:1::7", "here1"), ("fd00:1::9", "here1"), ("fd00:2::8", "here2")]);
        assert_eq!(scene.follower.counts().lists, 1, "all by notices");
        scene.ip(&["route delete fd09::/32 table 100", "route delete 10.1.0.0/16 table 100"]);
        scene.hear();
        assert_eq!(scene.listener, Listener::default());
    });
}

/// Routes go with their interface, their address and their next hop; the kernel says nothing of those of IPv4.
#[test]
fn what_takes_routes_away_in_silence_is_found() {
    Scene::run("what_takes_routes_away_in_silence_is_found", |scene| {
        let routes = [
            "route add 10.1.0.0/16 via 192.0.1.9 table 100",
            "route add 10.2.0.0/16 table 100 nexthop via 192.0.1.9 nexthop via 192.0.2.9",
            "route add fd09::/32 via fd00:1::9 table 100",
        ];
        scene.ip(&routes);
        assert_eq!(scene.listener.0.len(), 3);
        scene.ip(&["link set here1 down"]);
        scene.has("10.1.0.0/16", &[]);
        scene.has("10.2.0.0/16", &[("192.0.2.9", "here2")]);
        scene.has("fd09::/32", &[]);
        scene.ip(&["link set here1 up", "route replace 10.2.0.0/16 via 192.0.1.9 table 100"]);
        scene.has("10.2.0.0/16", &[("192.0.1.9", "here1")]);
        scene.ip(&[
            "link set here1 down",
            "link set here1 name other1",
            "link set other1 up",
            "route add 10.3.0.0/16 via 192.0.1.9 table 100",
        ]);
        scene.has("10.3.0.0/16", &[("192.0.1.9", "other1")]);
        scene.ip(&["route add 10.4.0.0/16 via 192.0.2.9 src 192.0.2.1 table 100"]);
        scene.has("10.4.0.0/16", &[("192.0.2.9", "here2")]);
        scene.ip(&["address delete 192.0.2.1/24 dev here2"]);
        scene.has("10.4.0.0/16", &[]);
        scene.ip(&["link delete other1"]);
        assert_eq!(scene.listener, Listener::default());
    });
}

#[test]
fn next_hops_that_have_numbers_are_followed() {
    Scene::run("next_hops_that_have_numbers_are_followed", |scene| {
        let made =
            ip(&["nexthop add id 7 via 192.0.1.9 dev here1".to_owned(), "nexthop add id 8 via 192.0.2.9 dev here2".to_owned()]);
        if let Err(why) = made {
            return skip("next_hops_that_have_numbers_are_followed", &why);
        }
        scene.ip(&["nexthop add id 9 group 7/8", "route add 10.1.0.0/16 nhid 9 table 100"]);
        scene.has("10.1.0.0/16", &[("192.0.1.9", "here1"), ("192.0.2.9", "here2")]);
        scene.ip(&["nexthop replace id 7 via 192.0.1.5 dev here1"]);
        scene.has("10.1.0.0/16", &[("192.0.1.5", "here1"), ("192.0.2.9", "here2")]);
        // One that stands behind another changes nothing.
        scene.ip(&["route add 10.2.0.0/16 via 192.0.2.7 table 100", "route append 10.2.0.0/16 nhid 7 table 100"]);
        scene.ip(&["nexthop replace id 7 via 192.0.1.6 dev here1"]);
        scene.has("10.2.0.0/16", &[("192.0.2.7", "here2")]);
        scene.ip(&["route delete 10.2.0.0/16 via 192.0.2.7 table 100"]);
        scene.has("10.2.0.0/16", &[("192.0.1.6", "here1")]);
        scene.ip(&["nexthop delete id 7"]);
        scene.has("10.1.0.0/16", &[("192.0.2.9", "here2")]);
        scene.has("10.2.0.0/16", &[]);
        scene.ip(&["nexthop delete id 8"]);
        assert_eq!(scene.listener, Listener::default());
    });
}

/// More notices than a socket holds are lost: then all is listed.
#[test]
fn ten_thousand_routes_are_followed_though_notices_are_lost() {
    Scene::run("ten_thousand_routes_are_followed_though_notices_are_lost", |scene| {
        scene.hear();
        let all = |verb: &str, via: &str| -> Vec<String> {
            let of = |number: u32| format!("route {verb} 10.{}.{}.0/24 via {via} table 100", number >> 8, number & 255);
            (0..10_000).map(of).collect()
        };
        ip(&["link add other type veth peer name beyond".to_owned()]).unwrap();
        scene.hear();
        let known = scene.follower.links.len();
        ip(&all("add", "192.0.1.9")).unwrap();
        ip(&["link delete other".to_owned()]).unwrap();
        scene.hear();
        assert_eq!(scene.follower.links.len(), known - 2, "the notices were lost as well");
        assert_eq!(scene.listener.0.len(), 10_000);
        assert!(scene.follower.counts().lists >= 2, "{:?}", scene.follower.counts());
        ip(&all("replace", "192.0.2.9")).unwrap();
        scene.hear();
        assert!(scene.listener.0.values().all(|ways| ways.iter().all(|(_, interface)| interface == "here2")));
        ip(&all("delete", "192.0.2.9")[..5000]).unwrap();
        scene.hear();
        assert_eq!(scene.listener.0.len(), 5000);
        scene.ip(&["route flush table 100"]);
        assert_eq!((scene.listener.0.len(), scene.follower.counts().prefixes), (0, 0));
    });
}
