//! The kernel's receiving in threads beside lanes: what is set is seen by netlink, and gone at the end.

use crate::wire::{on_network, run, wire};
use corelane_os::netlink::generic::{Family, ask, attributes};
use corelane_os::runner::thread_id;
use corelane_os::scheduling::{Scheduling, bind, cpus_of, group_weight};
use corelane_os::testing::skip;
use corelane_os::{cpus, kernel_files};
use corelane_select::bpf::assembly::{Alu, Assembler, Register};
use corelane_select::bpf::{Program, ProgramKind, XdpLink, XdpMode};
use corelane_xdp::{Error, LaneThread, ReceiveThreads, Told, left_behind};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long something may take that comes as soon as the kernel has it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whether threads of the kernel are to be seen here, and it tells of them; else the test is skipped with the reason.
fn can_run(test: &str) -> bool {
    let sees_threads = kernel_files::text("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n");
    let why = match left_behind() {
        Err(why) => why.to_string(),
        Ok(_) if !sees_threads => "this PID namespace shows no threads of the kernel".to_owned(),
        Ok(_) => return true,
    };
    skip(test, &why);
    false
}

fn on_wire(test: &str, queues: usize, body: impl FnOnce() + Send) {
    if can_run(test) {
        on_network(test, || {
            wire(queues);
            body();
        });
    }
}

/// One lane's thread on each of so many CPUs: this one, whose nice value is 0.
fn lanes(count: usize) -> Vec<LaneThread> {
    let allowed = cpus::allowed().unwrap();
    (0..count).map(|lane| LaneThread { cpu: allowed[lane % allowed.len()], thread: thread_id() }).collect()
}

fn start(count: usize, user_fraction: u8, waits: bool) -> Result<(ReceiveThreads, Vec<Told>, Receiver<Told>), Error> {
    let (tell, told) = channel();
    let started = ReceiveThreads::start(
        &["near".into()],
        lanes(count),
        user_fraction,
        waits,
        move |words| drop(tell.send(words)),
        |_, _| {},
    );
    started.map(|(threads, found)| (threads, found, told))
}

/// Receivers of `near`, by the kernel's own numbers (`linux/netdev.h`): number, thread, whether threaded.
fn napis() -> Vec<(u32, Option<u32>, u32)> {
    let index = rustix::net::netdevice::name_to_index(
        rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None).unwrap(),
        "near",
    )
    .unwrap();
    let bodies = ask(Family::find(c"netdev").unwrap().list(11).attribute(1, &index.to_ne_bytes())).unwrap();
    let mut found: Vec<_> = bodies
        .iter()
        .map(|body| {
            let told = attributes(body).unwrap();
            (told.number(2).unwrap(), told.number(4), told.number(8).unwrap_or_default())
        })
        .collect();
    found.sort_unstable();
    found
}

/// How the threads are scheduled, and where.
fn threads() -> Vec<(Scheduling, Vec<usize>)> {
    let all = napis().into_iter().filter_map(|(_, thread, threaded)| thread.filter(|_| threaded == 1));
    all.map(|thread| (Scheduling::of(thread).unwrap(), cpus_of(thread).unwrap())).collect()
}

/// Waits until the kernel's news has led to this.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: {:?}", napis());
        std::thread::yield_now();
    }
}

fn ethtool(words: &[&str]) {
    let output = Command::new("ethtool").args(words).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn shown() -> String {
    String::from_utf8(Command::new("ip").args(["-d", "link", "show", "near"]).output().unwrap().stdout).unwrap()
}

/// A program of somebody else's, which drops all.
fn program() -> XdpLink {
    let mut drops = Assembler::new();
    drops.alu(Alu::Move, Register::R0, 1);
    drops.exit();
    let program = Program::load(ProgramKind::Xdp, &drops.finish(), "others").unwrap();
    let index = shown().split(':').next().unwrap().parse().unwrap();
    XdpLink::attach(&program, index, XdpMode::Native).unwrap()
}

/// The weight of a receiving thread, by the lanes that there are: their group's is divided among them.
fn weight() -> u32 {
    threads()[0].0.weight().unwrap()
}

#[test]
fn each_queue_has_a_thread_at_its_lane_and_none_at_the_end() {
    const TEST: &str = "receiving::each_queue_has_a_thread_at_its_lane_and_none_at_the_end";
    on_wire(TEST, 2, || {
        let (governed, told, _) = start(2, 50, false).unwrap();
        assert!(matches!(&told[..], [Told::Attached { name }] if **name == *"near"), "{told:?}");
        assert!(shown().contains("prog/xdp"), "{}", shown());
        let at = |lane: usize| vec![lanes(2)[lane].cpu];
        assert_eq!(threads().iter().map(|(_, cpus)| cpus.clone()).collect::<Vec<_>>(), [at(0), at(1)]);
        let half = weight();
        assert!(threads().iter().all(|(scheduling, _)| scheduling.weight() == Some(half)));
        assert_eq!(governed.set(95), Ok(Vec::new()));
        assert!(weight() * 10 < half, "a greater user fraction is a lighter thread: {} of {half}", weight());
        assert_eq!(governed.set(10), Ok(Vec::new()));
        assert!(weight() > half * 5, "and a smaller one a heavier");
        assert_eq!(governed.user_fraction(), 10);
        drop(governed);
        assert!(napis().is_empty() && !shown().contains("prog/xdp"), "{:?} {}", napis(), shown());
    });
}

#[test]
fn threads_are_at_all_lanes_where_each_lane_has_none_of_its_own() {
    const TEST: &str = "receiving::threads_are_at_all_lanes_where_each_lane_has_none_of_its_own";
    on_wire(TEST, 1, || {
        let (governed, ..) = start(3, 50, false).unwrap();
        let mut all: Vec<usize> = lanes(3).iter().map(|lane| lane.cpu).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(threads().iter().map(|(_, cpus)| cpus.clone()).collect::<Vec<_>>(), [all]);
        drop(governed);
        // And those of more queues than lanes are lighter, for all may have work at one CPU.
        let (governed, ..) = start(1, 50, false).unwrap();
        let alone = weight();
        drop(governed);
        run(&["link del near"]);
        wire(4);
        let (_governed, ..) = start(1, 50, false).unwrap();
        assert!(threads().len() == 4 && weight() * 3 < alone, "{} of {alone}", weight());
    });
}

#[test]
fn a_share_that_cannot_be_had_is_told() {
    const TEST: &str = "receiving::a_share_that_cannot_be_had_is_told";
    on_wire(TEST, 1, || {
        let shares = |told: Vec<Told>| told.into_iter().filter(|told| !matches!(told, Told::Attached { .. })).collect::<Vec<_>>();
        let (governed, told, _) = start(512, 50, false).unwrap();
        match group_weight() {
            // Each of so many lanes of one group has next to nothing of its weight.
            Some(weight) if weight < 1024 * 512 / 100 => {
                assert!(matches!(shares(told)[..], [Told::Missed { asked: 50, lane: ..470 }]));
                assert!(matches!(governed.set(50).unwrap()[..], [Told::Missed { .. }]), "whenever it is asked for");
                assert!(governed.set(90).unwrap()[0].to_string().contains("90 % of their CPUs that were asked for"));
            }
            _ => assert_eq!(shares(told), []),
        }
        drop(governed);
        let chrt =
            |words: &[&str]| Command::new("chrt").args(words).arg(thread_id().to_string()).status().is_ok_and(|it| it.success());
        if !chrt(&["-f", "-p", "1"]) {
            return skip(TEST, "chrt (util-linux) gives no real-time priority here");
        }
        let started = start(1, 50, false);
        assert!(chrt(&["-o", "-p", "0"]));
        let (_, told, _) = started.unwrap();
        assert_eq!(shares(told), [Told::RealTime]);
    });
}

#[test]
fn the_program_of_somebody_else_stays_and_threads_are_taken_back() {
    const TEST: &str = "receiving::the_program_of_somebody_else_stays_and_threads_are_taken_back";
    on_wire(TEST, 1, || {
        let _program = program();
        let before = napis();
        assert!(matches!(before[..], [(_, None, 0)]), "{before:?}");
        let (governed, told, _) = start(1, 50, false).unwrap();
        assert!(told.is_empty() && threads().len() == 1, "{told:?}");
        assert!(left_behind().unwrap().is_empty(), "somebody governs it");
        drop(governed);
        assert_eq!(napis(), before);
        assert!(shown().contains("prog/xdp"));
    });
}

#[test]
fn threads_that_there_were_are_as_they_were() {
    const TEST: &str = "receiving::threads_that_there_were_are_as_they_were";
    on_wire(TEST, 1, || {
        let _program = program();
        let id = napis()[0].0;
        let family = Family::find(c"netdev").unwrap();
        ask(family.one(14).attribute(2, &id.to_ne_bytes()).attribute(8, &1_u32.to_ne_bytes())).unwrap();
        let thread = napis()[0].1.unwrap();
        assert!(left_behind().unwrap().is_empty(), "as the kernel makes them");
        Scheduling::nice(7).give_to(thread).unwrap();
        bind(thread, &[0]).unwrap();
        let left = left_behind().unwrap();
        assert_eq!(left, [("near".to_owned(), "echo 0 > /sys/class/net/near/threaded".to_owned())]);
        let before = threads();
        let (governed, ..) = start(2, 50, false).unwrap();
        assert_ne!(threads(), before);
        drop(governed);
        assert_eq!((threads(), napis()[0].1), (before, Some(thread)));
    });
}

#[test]
fn an_interface_that_comes_up_again_is_governed_again() {
    const TEST: &str = "receiving::an_interface_that_comes_up_again_is_governed_again";
    on_wire(TEST, 1, || {
        let (governed, _, told) = start(1, 80, false).unwrap();
        let (before, first) = (threads(), napis()[0].0);
        for _ in 0..3 {
            run(&["link set near down"]);
            until("none receives while it is down", || napis().is_empty());
            run(&["link set near up"]);
            until("threads as before", || threads() == before);
        }
        assert_ne!(napis()[0].0, first, "the kernel makes them anew");
        governed.set(50).unwrap();
        assert_ne!(threads(), before);
        run(&["link set near down"]);
        assert_eq!(governed.set(80), Ok(Vec::new()), "there is nothing to be set now");
        run(&["link set near up"]);
        until("threads as they are to be by now", || threads() == before);
        run(&["link del near"]);
        assert!(matches!(told.recv_timeout(PATIENCE), Ok(Told::Lost { error: Error::NoInterface { .. }, .. })));
        wire(1);
        let now: Vec<Told> = (0..2).map(|_| told.recv_timeout(PATIENCE).unwrap()).collect();
        assert!(matches!(&now[..], [Told::Attached { .. }, Told::Again { .. }]), "{now:?}");
        assert_eq!(threads(), before);
        drop(governed);
        assert_eq!((napis(), told.recv()), (Vec::new(), Err(std::sync::mpsc::RecvError)));
    });
}

#[test]
fn one_process_governs_and_the_next_waits_or_is_refused() {
    const TEST: &str = "receiving::one_process_governs_and_the_next_waits_or_is_refused";
    on_wire(TEST, 1, || {
        let (first, ..) = start(1, 50, false).unwrap();
        let half = threads();
        let refused = start(1, 80, false).unwrap_err();
        assert_eq!(refused, Error::Governed { name: "near".into() });
        assert!(refused.to_string().contains("another process"), "{refused}");
        assert_eq!(threads(), half, "the first goes on");
        let (_second, told, later) = start(1, 80, true).unwrap();
        assert_eq!((told, threads()), (vec![Told::Waits { name: "near".into() }], half.clone()));
        drop(first);
        assert!(matches!(later.recv_timeout(PATIENCE), Ok(Told::Attached { .. })));
        until("the second has it", || threads().len() == 1 && threads() != half);
    });
}

#[test]
fn what_cannot_be_governed_is_refused_in_words() {
    const TEST: &str = "receiving::what_cannot_be_governed_is_refused_in_words";
    on_wire(TEST, 1, || {
        run(&["link set lo up", "link add bridge type bridge", "link set bridge up", "link add x0 type veth peer name x1"]);
        let why = |name: &str| {
            ReceiveThreads::start(&["near".into(), name.into()], lanes(1), 50, false, |_| {}, |_, _| {}).unwrap_err().to_string()
        };
        for (name, words) in [
            ("lo", "as at loopback"),
            ("bridge", "name the card"),
            ("x0", "ip link set x0 up"),
            ("nobody0", "`ip link` shows"),
            ("no/name", "1 to 15 letters"),
        ] {
            assert!(why(name).contains(words), "{name}: {}", why(name));
            assert!(napis().is_empty(), "the first one is as it was");
        }
        let others = program();
        let before = napis();
        why("lo");
        assert_eq!(napis(), before, "also where receivers stay");
        drop(others);
        run(&["link set near mtu 9000", "link set far mtu 9000"]);
        assert!(start(1, 50, false).is_ok(), "long packets are passed as well");
        let generic = {
            let mut drops = Assembler::new();
            drops.alu(Alu::Move, Register::R0, 1);
            drops.exit();
            let program = Program::load(ProgramKind::XdpPieces, &drops.finish(), "others").unwrap();
            let index = shown().split(':').next().unwrap().parse().unwrap();
            XdpLink::attach(&program, index, XdpMode::Generic).unwrap()
        };
        let refused = start(1, 50, false).unwrap_err();
        assert!(matches!(&refused, Error::ProgramThere { mode: "xdpgeneric", .. }), "{refused}");
        drop(generic);
        let queues = "numrxqueues 2 numtxqueues 2";
        run(&[&format!("link add y0 {queues} type veth peer name y1 {queues}"), "link set y0 up", "link set y1 up"]);
        ethtool(&["-L", "y0", "rx", "1"]);
        assert!(why("y0").contains("ethtool -L y1 tx 1"), "{}", why("y0"));
    });
}

/// Leaves this thread, and those that it starts, without a capability.
fn without(capability: CapabilitySet) {
    let mut sets = capabilities(None).unwrap();
    sets.effective.remove(capability);
    set_capabilities(None, sets).unwrap();
}

fn with_all() {
    let mut sets = capabilities(None).unwrap();
    sets.effective = sets.permitted;
    set_capabilities(None, sets).unwrap();
}

#[test]
fn a_process_without_a_capability_is_told_which() {
    const TEST: &str = "receiving::a_process_without_a_capability_is_told_which";
    on_wire(TEST, 1, || {
        for (capability, words) in [
            (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
            (CapabilitySet::BPF | CapabilitySet::SYS_ADMIN, "CAP_BPF"),
            (CapabilitySet::SYS_NICE, "CAP_SYS_NICE"),
        ] {
            without(capability);
            let refused = start(1, 1, false).unwrap_err().to_string();
            with_all();
            assert!(refused.contains(words) && napis().is_empty(), "{refused}");
        }
        let _program = program();
        let (governed, _, told) = start(1, 50, false).unwrap();
        let before = threads();
        without(CapabilitySet::SYS_NICE | CapabilitySet::NET_ADMIN);
        let refused = governed.set(1).unwrap_err().to_string();
        assert!(refused.contains("CAP_SYS_NICE") && threads() == before, "{refused}");
        drop(governed);
        let Ok(Told::Kept { error, .. }) = told.recv() else { panic!("what cannot be taken back is told") };
        assert!(error.to_string().contains("CAP_NET_ADMIN"), "{error}");
        assert_eq!(left_behind().unwrap().len(), 1, "and found later");
    });
}
