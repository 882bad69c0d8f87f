//! Faults of a program of lanes, as far as its page tells: the one answer of `corelane stat`, `corelane top` and the dashboard.
//!
//! The first lines say, in plain words, who is not served: the process is dead or stopped, or drains, or a lane is stalled. Then comes what was lost,
//! refused or limited, by the names of its counters, and last what the program has to do without.

use corelane_seam::PortState;
use corelane_svc::Limits;
use corelane_svc::bounds::{BOUNDS, Owner};
use corelane_watch::figures::{amount, time};
use corelane_watch::{
    Counter, Kind, LaneCounter, LaneState, Liveness, PacketCounter, ServiceCounter, Snapshot, Values, is_wrong,
};

/// How much a line matters, the gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// Somebody is not served at present.
    Grave,
    /// Something was lost, refused or limited, or was answered with an error.
    Counted,
    /// A thing that the program has to do without, or that is to be known of these figures.
    Note,
}

/// A line of what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How much it matters.
    pub grade: Grade,
    /// Its words: one line.
    pub text: String,
}

/// Counters that tell of a fault with packets, each in words with the remedy. Those of packets that others may send as they like are not among them, but for checksums: a sender
/// on this machine may leave them out where that is not known of the interface, and nothing is ever answered.
/// Each begins with what is counted.
const PACKETS: [(PacketCounter, &str); 10] = [
    (
        PacketCounter::FramesChecksum,
        "packets with wrong checksums: if they come from this machine itself, have it compute them (ethtool -K PEER tx off)",
    ),
    (PacketCounter::PortNoFrame, "packets lost at ports for want of a free frame: lanes did not take them in time"),
    (PacketCounter::PortRingFull, "packets lost at ports whose ring was full: lanes did not take them in time"),
    (PacketCounter::PortTooLong, "packets lost at ports, longer than their frames: start anew after the MTU was raised"),
    (
        PacketCounter::PortSendLost,
        "packets not sent: the interface sends fewer than it is given (ip link set, txqueuelen), the other end of its wire takes only shorter ones (its MTU), or it had no carrier",
    ),
    (
        PacketCounter::CrossingLost,
        "packets lost on their way to another lane: lanes may have too few frames for datagrams of that length (,frames=N), or took too long",
    ),
    (PacketCounter::AddressConflicts, "words of other stations that claim an address of lanes: give one of the two another"),
    (PacketCounter::UdpSocketFull, "datagrams lost at sockets that were full: services did not take them in time"),
    (
        PacketCounter::FragmentsTooMany,
        "datagrams in more fragments than the longest needs: a link on their way takes only very short packets, or they are an attack",
    ),
    (PacketCounter::FragmentsNoRoom, "datagrams in fragments given up for others: a flood of fragments"),
];

/// All that is wrong, the gravest first.
pub fn findings(snapshot: &Snapshot) -> Vec<Finding> {
    let mut all = Vec::new();
    let mut add = |grade, text| all.push(Finding { grade, text });
    life(snapshot).into_iter().for_each(|(grade, text)| add(grade, text));
    for (lane, age, for_whom) in snapshot.stalls() {
        add(Grade::Grave, format!("lane {lane} is stalled: in one turn for {}, {for_whom}", time(age)));
    }
    ports_not_up(snapshot).for_each(|(number, words)| add(Grade::Grave, format!("lane {number}: {words}")));
    of_interface(snapshot).into_iter().for_each(|text| add(Grade::Grave, text));
    of_packets(snapshot).into_iter().for_each(|text| add(Grade::Counted, text));
    of_counters(snapshot).into_iter().for_each(|text| add(Grade::Counted, text));
    for (number, _) in snapshot.lanes.iter().enumerate().filter(|(_, lane)| !lane.is_whole) {
        add(Grade::Note, format!("lane {number} was writing as it was read: its figures may be of two moments"));
    }
    snapshot.notes.iter().for_each(|note| add(Grade::Note, format!("note: {note}")));
    if snapshot.notes_refused > 0 {
        add(Grade::Note, format!("note: {} more, for which there was no room", snapshot.notes_refused));
    }
    all.sort_by_key(|one: &Finding| one.grade);
    all
}

/// Lanes at whose interface no packets come and go, by their numbers: what it is, and the remedy.
pub fn ports_not_up(snapshot: &Snapshot) -> impl Iterator<Item = (usize, String)> {
    let states = snapshot.packets_choices(PacketCounter::PortState, &PortState::ALL);
    let (interface, down) = (interface_of(snapshot), states.filter(|(_, state)| *state != PortState::Up));
    down.map(move |(lane, state)| {
        let remedy = state.remedy().replace("INTERFACE", interface);
        (lane, format!("its interface {interface} is {}: {remedy}", state.word()))
    })
}

/// The name of the interface of the lanes; empty if they have none.
fn interface_of(snapshot: &Snapshot) -> &str {
    snapshot.lanes.iter().find_map(|lane| lane.packets.as_ref()).map_or("", |packets| &*packets.interface)
}

/// Faults of the lanes' interface and of their addresses there, as long as they last.
fn of_interface(snapshot: &Snapshot) -> Vec<String> {
    let (taken, beside) =
        (snapshot.packets_sum(PacketCounter::AddressesTaken), snapshot.packets_sum(PacketCounter::AddressesBeside));
    let of = |count| if count == 1 { "1 address of lanes is".to_owned() } else { format!("{count} addresses of lanes are") };
    let taken = (taken > 0).then(|| {
        let words = "another station's, which hears what is for them: give one of the two another, or end the other";
        format!("{} {words}", of(taken))
    });
    let beside = (beside > 0).then(|| {
        let words = "the kernel's as well, and both answer: CL-0027 in the log says what takes it away (ip addr del)";
        format!("{} {words}", of(beside))
    });
    let interface = interface_of(snapshot);
    let family = match snapshot.packets_sum(PacketCounter::KernelForwards) {
        0 => None,
        1 => Some("ipv4"),
        _ => Some("ipv6"),
    };
    let forwards = family.map(|family| {
        let words = "and tells senders that the lanes' addresses cannot be reached, or are elsewhere: turn that off";
        format!("the kernel forwards what comes in by {interface}, {words} (sysctl net.{family}.conf.{interface}.forwarding=0)")
    });
    let mtu = Some(snapshot.packets_sum(PacketCounter::MtuShort)).filter(|mtu| *mtu > 0);
    let short = mtu.map(|mtu| {
        format!("interface {interface} has an MTU of {mtu}, and IPv6 asks for 1280, so packets of IPv6 are lost: raise it (ip link set {interface} mtu 1500)")
    });
    [taken, beside, forwards, short].into_iter().flatten().collect()
}

/// Whether the process serves, in words where it does not.
fn life(snapshot: &Snapshot) -> Option<(Grade, String)> {
    let pid = snapshot.process.pid;
    match snapshot.liveness {
        Liveness::Dead => Some((Grade::Grave, death(snapshot))),
        Liveness::Stopped => {
            let words = format!("the process is stopped, and serves nobody until it goes on: kill -CONT {pid}");
            Some((Grade::Grave, words))
        }
        Liveness::Alive => drain(snapshot).map(|words| (Grade::Grave, words)),
        Liveness::Unknown => drain(snapshot).map(|words| (Grade::Grave, words)).or_else(|| {
            let words = "whether the process runs is not to be known here: it is in another container".to_owned();
            Some((Grade::Note, words))
        }),
    }
}

/// How a process has ended: its lanes say so themselves where they could.
fn death(snapshot: &Snapshot) -> String {
    let is = |state| snapshot.lanes.iter().filter(|lane| lane.state() == Some(state)).count();
    match (is(LaneState::Ended) == snapshot.lanes.len(), is(LaneState::Draining) > 0) {
        (true, _) => "the process has ended in order; this is what it left".to_owned(),
        (false, true) => "the process is dead: it was killed, or crashed, while it drained; this is what it left".to_owned(),
        (false, false) => "the process is dead: it was killed, or crashed, and serves nobody; this is what it left".to_owned(),
    }
}

/// Since when it drains, and what is left of that.
fn drain(snapshot: &Snapshot) -> Option<String> {
    let draining = || snapshot.lanes.iter().filter(|lane| lane.state() == Some(LaneState::Draining));
    let began = draining().map(|lane| lane.values.get(LaneCounter::DrainBeganNanoseconds)).filter(|&began| began > 0).min();
    if draining().count() == 0 {
        return None;
    }
    let since = began.map(|began| format!(", for {}", time(snapshot.at_nanoseconds.saturating_sub(began))));
    let open: u64 = draining().map(|lane| lane.all(ServiceCounter::ConnectionsOpen)).fold(0, u64::saturating_add);
    let open = match open {
        0 => "no connection is open".to_owned(),
        1 => "1 connection is open still".to_owned(),
        open => format!("{} connections are open still", amount(open as f64)),
    };
    Some(format!("the process drains{}: nothing new is taken; {open}", since.unwrap_or_default()))
}

/// The faults in the packets of all lanes.
fn of_packets(snapshot: &Snapshot) -> Vec<String> {
    let rows: Vec<_> = snapshot.lanes.iter().filter_map(|lane| lane.packets.as_ref()).map(|packets| &packets.values).collect();
    let sum = Values::<PacketCounter>::sum(rows);
    let lost = PACKETS.iter().map(|(counter, words)| (sum.get(*counter), words)).filter(|(count, _)| *count > 0);
    lost.map(|(count, words)| format!("{}{} {}", amount(count as f64), rate(snapshot, count), of_number(count, words))).collect()
}

/// Words that begin with what is counted, in the plural, for that number of it.
fn of_number(count: u64, words: &str) -> String {
    let (what, rest) = words.split_once(' ').unwrap_or((words, ""));
    let what = if count == 1 { what.strip_suffix('s').unwrap_or(what) } else { what };
    format!("{what} {rest}")
}

/// The faults that services and lanes count: failures of the server first, and those of clients last.
fn of_counters(snapshot: &Snapshot) -> Vec<String> {
    let mut lines = Vec::new();
    for service in &snapshot.services {
        counted(&mut lines, snapshot, &format!("service {}", service.name.name), &service.values);
    }
    counted(&mut lines, snapshot, "lanes", &snapshot.total);
    lines.sort_by_key(|(rank, _)| *rank);
    lines.into_iter().map(|(_, text)| text).collect()
}

fn counted<C: Counter>(lines: &mut Vec<(u8, String)>, snapshot: &Snapshot, whose: &str, values: &Values<C>) {
    for value in values.all().filter(|value| value.value > 0 && value.kind == Kind::Counter && is_wrong(value.name)) {
        let rank = match value.name {
            name if name.ends_with("_5xx") => 0,
            name if name.ends_with("_4xx") => 2,
            _ => 1,
        };
        let (name, count) = (value.name, amount(value.value as f64));
        let words = meaning(name).map(|words| format!(": {words}")).unwrap_or_default();
        lines.push((rank, format!("{whose}: {name} {count}{}{words}", rate(snapshot, value.value))));
    }
}

/// The culprit where this is counted, or the bound that was met, and what to do; none where the name says it.
fn meaning(name: &str) -> Option<String> {
    let bound = BOUNDS.iter().find(|bound| bound.counter == name);
    let limit = name.strip_suffix("_hits").filter(|limit| Limits::is_named(limit));
    let has_shares = bound.is_some_and(|bound| bound.owner == Owner::Peer);
    Some(match (name, limit, bound) {
        _ if name.ends_with("_5xx") => "the server is at fault, or at a bound".to_owned(),
        _ if name.ends_with("_4xx") => "the clients are at fault".to_owned(),
        ("memory_hits" | "memory_endings" | "memory_limit_hits", ..) => {
            "a lane's memory is short: more of it (--memory), or lower limits output_high and record_max".to_owned()
        }
        ("share_endings", ..) => {
            "ended to make room, of those who had their share of a bound: the log says whose they were".to_owned()
        }
        ("connections_cap_hits", ..) => {
            "a lane has as many connections of all services as it may: a higher bound (--limit connections_max)".to_owned()
        }
        ("accepts_no_descriptor", ..) => "a lane has no descriptor left: more of them (LimitNOFILE=, ulimit -Hn)".to_owned(),
        ("answer_limit_hits", ..) => "the service itself did not answer in time (--limit answer_limit)".to_owned(),
        (_, Some(limit), _) if limit.ends_with("_limit") || limit.ends_with("_rate_min") => {
            format!("peers were slower than is allowed (--limit {limit})")
        }
        (_, Some(limit), _) if has_shares => format!("a peer has its share, or all are taken (--limit {limit})"),
        (_, Some(limit), _) => format!("the bound was met (--limit {limit})"),
        (_, None, Some(bound)) if bound.service.is_some() => format!("a peer has its share of {}, or all are taken", bound.name),
        (_, None, Some(bound)) if Limits::is_named(bound.name) => format!("the bound was met (--limit {})", bound.name),
        (_, None, Some(bound)) => format!("the bound was met (--{})", bound.name.replace('_', "-")),
        (_, None, None) => return None,
    })
}

/// How many a second, if that is known.
fn rate(snapshot: &Snapshot, count: u64) -> String {
    snapshot.per_second(count).map(|rate| format!(" ({rate:.1}/s)")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_watch::{Counted, CounterName, Description, LaneName, OwnCounter, Page, Reader, ServiceName};

    const SECOND: u64 = 1_000_000_000;

    corelane_watch::counters! {
        /// The counters of a service of HTTP for its answers.
        enum Web {
            Good "answers_2xx" Counter "answers" "Answers.";
            Missing "answers_4xx" Counter "answers" "Refusals.";
            Failed "answers_5xx" Counter "answers" "Failures.";
        }
    }

    /// A page with two lanes that serve.
    fn page() -> Page {
        let own =
            |one: &corelane_watch::Declaration| CounterName { name: one.name.into(), kind: one.kind, unit: one.unit.into() };
        let counters = Web::DECLARED.iter().map(own).collect();
        let page = Page::heap(&Description {
            lanes: vec![LaneName::default(); 2],
            services: vec![ServiceName { name: "web".into(), counters, ..ServiceName::default() }],
            ..Description::default()
        });
        let page = page.unwrap();
        all_are(&page, LaneState::Sleeping);
        page
    }

    fn all_are(page: &Page, state: LaneState) {
        (0..2).for_each(|lane| page.lane(lane).unwrap().set(LaneCounter::LaneState, state as u64));
    }

    fn told(snapshot: &Snapshot) -> String {
        findings(snapshot).into_iter().map(|one| one.text + "\n").collect()
    }

    fn wrong_with(marks: &[(PacketCounter, u64)]) -> String {
        let page = page();
        page.packets(0).unwrap().together(|row| {
            row.set_protocols(1);
            row.set_interface("eth1");
            marks.iter().for_each(|(counter, value)| row.set(*counter, *value));
        });
        told(&Reader::of(&page).unwrap().snapshot(0))
    }

    #[test]
    fn an_interface_that_is_down_or_gone_is_told_with_what_to_do() {
        assert_eq!(wrong_with(&[(PacketCounter::PortState, 1)]), "");
        assert!(wrong_with(&[(PacketCounter::PortState, 2)]).starts_with("lane 0: its interface eth1 is down: "));
        assert!(wrong_with(&[(PacketCounter::PortState, 2)]).contains("(ip link set eth1 up)"));
        assert!(wrong_with(&[(PacketCounter::PortState, 3)]).contains("is gone: no packet comes or goes any more"));
        assert!(wrong_with(&[(PacketCounter::PortState, 4)]).starts_with("lane 0: its interface eth1 is without a carrier: "));
        assert!(wrong_with(&[(PacketCounter::PortState, 5)]).contains("is without its program: no packet comes any more"));
        assert!(wrong_with(&[(PacketCounter::AddressesTaken, 1)]).starts_with("1 address of lanes is another station's"));
        assert!(wrong_with(&[(PacketCounter::AddressesTaken, 2)]).starts_with("2 addresses of lanes are another station's"));
        assert!(wrong_with(&[(PacketCounter::AddressesBeside, 1)]).starts_with("1 address of lanes is the kernel's as well"));
        let short = wrong_with(&[(PacketCounter::MtuShort, 68)]);
        assert!(short.starts_with("interface eth1 has an MTU of 68, and IPv6 asks"), "{short}");
        assert!(short.contains("(ip link set eth1 mtu 1500)"), "{short}");
        for (family, setting) in [(1, "net.ipv4.conf.eth1.forwarding=0"), (2, "net.ipv6.conf.eth1.forwarding=0")] {
            let told = wrong_with(&[(PacketCounter::KernelForwards, family)]);
            assert!(told.starts_with("the kernel forwards what comes in by eth1, ") && told.contains(setting), "{told}");
        }
    }

    #[test]
    fn what_is_lost_with_packets_is_told() {
        assert!(wrong_with(&[(PacketCounter::FramesChecksum, 3)]).contains("3 packets with wrong checksums: "));
        assert!(wrong_with(&[(PacketCounter::FramesChecksum, 1)]).contains("1 packet with wrong checksums: "));
        assert!(wrong_with(&[(PacketCounter::CrossingLost, 2)]).contains("2 packets lost on their way to another lane: "));
        assert!(PACKETS.iter().all(|(_, words)| words.split(' ').next().is_some_and(|what| what.ends_with('s'))));
        assert!(wrong_with(&[(PacketCounter::PortRingFull, 9)]).contains("9 packets lost at ports whose ring was full"));
        assert_eq!(wrong_with(&[(PacketCounter::FramesNotOurs, 9)]), "");
    }

    #[test]
    fn a_healthy_server_has_nothing_wrong_and_errors_are_told_the_servers_own_first() {
        let page = page();
        let (reader, row) = (Reader::of(&page).unwrap(), page.service(0, 0).unwrap());
        for counter in [ServiceCounter::Requests, ServiceCounter::OutputHighHits, ServiceCounter::IdleLimitHits] {
            row.add(counter, 40);
        }
        Web::Good.add(&row, 40);
        let before = reader.snapshot(SECOND);
        assert_eq!(findings(&before), []);
        Web::Missing.add(&row, 4);
        Web::Failed.add(&row, 1);
        row.add(ServiceCounter::AcceptsRefused, 2);
        let since = reader.snapshot(3 * SECOND).since(&before).unwrap();
        assert_eq!(
            told(&since),
            "service web: answers_5xx 1 (0.5/s): the server is at fault, or at a bound\n\
             service web: accepts_refused 2 (1.0/s)\n\
             service web: answers_4xx 4 (2.0/s): the clients are at fault\n"
        );
    }

    /// Nothing that is refused at a bound is passed over in silence, and each says which bound, or who is at fault.
    #[test]
    fn every_bound_that_can_be_met_is_told_with_what_to_do() {
        // A client that meets these is served as it should be.
        let well = ["output_high_hits", "requests_in_flight_max_hits"];
        // Counts of the dashboard's own thread stand on no page.
        for bound in BOUNDS.iter().filter(|bound| bound.service != Some("dashboard")) {
            assert!(is_wrong(bound.counter) != well.contains(&bound.counter), "{}", bound.counter);
            assert!(meaning(bound.counter).is_some_and(|words| !words.is_empty()), "{}", bound.counter);
        }
        let says = |name: &str| meaning(name).unwrap();
        assert_eq!(says("connections_max_hits"), "a peer has its share, or all are taken (--limit connections_max)");
        assert_eq!(says("send_limit_hits"), "peers were slower than is allowed (--limit send_limit)");
        assert_eq!(says("tasks_max_hits"), "the bound was met (--tasks-max)");
        assert_eq!(says("answers_kept_max_hits"), "a peer has its share of answers that wait for memory, or all are taken");
        assert!(says("memory_endings").contains("--memory") && is_wrong("share_endings"));
        assert!(says("connections_cap_hits").contains("--limit connections_max"), "more descriptors are of no use at this bound");
        assert!(says("accepts_no_descriptor").contains("LimitNOFILE=") && is_wrong("accepts_no_descriptor"));
        assert_eq!(meaning("panics"), None);
    }

    #[test]
    fn a_process_that_does_not_serve_says_why_at_the_top() {
        let page = page();
        let reader = Reader::of(&page).unwrap();
        page.service(0, 0).unwrap().set(ServiceCounter::ConnectionsOpen, 3);
        page.service(0, 0).unwrap().add(ServiceCounter::Strays, 3);
        let first = |liveness| {
            let mut shown = reader.snapshot(5 * SECOND);
            shown.liveness = liveness;
            let first = findings(&shown).remove(0);
            assert_eq!(first.grade, Grade::Grave, "{first:?}");
            first.text
        };
        assert!(first(Liveness::Dead).starts_with("the process is dead: it was killed, or crashed, and serves nobody"));
        assert!(first(Liveness::Stopped).starts_with("the process is stopped, and serves nobody until it goes on: kill -CONT "));
        (0..2).for_each(|lane| page.lane(lane).unwrap().set(LaneCounter::DrainBeganNanoseconds, 3 * SECOND));
        let drains = "the process drains, for 2.00s: nothing new is taken; 3 connections are open still";
        assert_eq!(first(Liveness::Alive), drains);
        assert_eq!(first(Liveness::Unknown), drains);
        assert!(first(Liveness::Dead).contains("while it drained"));
        all_are(&page, LaneState::Ended);
        assert_eq!(first(Liveness::Dead), "the process has ended in order; this is what it left");
    }
}
