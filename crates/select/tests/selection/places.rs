//! Who may enter a group, what is counted, and what stays behind.

use crate::group::{FLOWS, Lanes, TRANSPORTS, even, hasher, other};
use crate::network::{SERVER_V4, alone, on_network};
use crate::sockets::{PATIENCE, Shared, begin, client, send, set, socket, with_address};
use corelane_os::claim::claim;
use corelane_os::testing::skip;
use corelane_os::{cpus, runner};
use corelane_rss::{Buckets, HashTypes, Table, Transport};
use corelane_select::Error;
use corelane_select::{Means, Selector, detach, probe};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

const MEANS: [Means; 2] = [Means::Program, Means::Classic];

fn server() -> SocketAddr {
    SocketAddr::new(SERVER_V4.parse().unwrap(), 0)
}

fn selector(means: Means, lanes: usize) -> Selector {
    Selector::new(means, &hasher(HashTypes::ALL), &even(lanes), lanes).unwrap()
}

#[test]
fn a_group_of_others_is_left_alone() {
    on_network("a_group_of_others_is_left_alone", |network| {
        for (means, transport) in MEANS.into_iter().flat_map(|means| TRANSPORTS.map(|transport| (means, transport))) {
            let theirs = Lanes::open(&selector(Means::Program, 3), transport, server(), 3);
            let ours = selector(means, 2);
            let group = ours.group(transport).unwrap();
            let mut entry = group.entry(0).unwrap();
            let socket = Shared::new(transport, theirs.address());
            let refused = entry.register(socket.as_fd()).unwrap_err();
            assert_eq!(refused, Error::GroupShared { address: theirs.address(), user: 0 });
            drop(entry);
            assert_eq!(group.strangers(socket.as_fd()).unwrap().len(), 4, "theirs, and ours that was refused");
            drop(socket);
            assert!(theirs.group.strangers(theirs.any()).unwrap().is_empty());
            theirs.check_new(network, theirs.address(), &hasher(HashTypes::ALL), &even(3));
        }
    });
}

#[test]
fn sockets_that_cannot_be_selected_are_refused() {
    on_network("sockets_that_cannot_be_selected_are_refused", |_| {
        for (means, transport) in MEANS.into_iter().flat_map(|means| TRANSPORTS.map(|transport| (means, transport))) {
            let selector = selector(means, 2);
            let group = selector.group(transport).unwrap();
            let unbound = socket(transport, server());
            set(unbound.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEPORT, &1_i32.to_ne_bytes());
            let alone = socket(transport, server());
            with_address(alone.as_fd(), server(), libc::bind);
            for socket in [unbound, alone] {
                let refused = group.entry(0).unwrap().register(socket.as_fd()).unwrap_err();
                assert!(matches!(refused, Error::SocketUnfit { .. }), "{means:?} {transport:?} {refused:?}");
            }
            let first = Shared::new(transport, server());
            group.entry(0).unwrap().register(first.as_fd()).unwrap();
            assert_eq!(group.entry(0).unwrap_err(), Error::LaneJoined { lane: 0 });
            assert_eq!(group.entry(2).unwrap_err(), Error::LaneRange { got: 2, most: 1 });
        }
    });
}

#[test]
fn a_table_must_fit() {
    on_network("a_table_must_fit", |_| {
        for means in MEANS {
            let selector = selector(means, 2);
            assert_eq!(selector.rewrite(&even(3)), Err(Error::LaneRange { got: 2, most: 1 }));
            let small = Table::even(Buckets::new(2).unwrap(), 2).unwrap();
            assert_eq!(selector.rewrite(&small), Err(Error::BucketCount { got: 2, expected: 128 }));
            assert_eq!(selector.table(), even(2));
            let many = Selector::new(means, &hasher(HashTypes::ALL), &even(2), 257).unwrap_err();
            assert_eq!(many, Error::LaneRange { got: 256, most: 255 });
        }
    });
}

/// What is sent from this CPU over the loopback interface is received on it.
#[test]
fn selections_are_counted_by_cpu_and_what_is_left_is_told() {
    on_network("selections_are_counted_by_cpu_and_what_is_left_is_told", |_| {
        let own = *cpus::allowed().unwrap().last().unwrap();
        cpus::pin(own).unwrap();
        let selector = selector(Means::Program, 3);
        let mut lanes = Lanes::open(&selector, Transport::Udp, SocketAddr::from(([127, 0, 0, 1], 0)), 3);
        let to = lanes.address();
        let clients = (0..FLOWS).map(|_| client(Transport::Udp, SocketAddr::from(([127, 0, 0, 1], 0)))).collect();
        let clients = lanes.check(clients, to, &hasher(HashTypes::ALL), &even(3));
        let counts = selector.counts().unwrap().unwrap();
        assert_eq!(counts.lanes.iter().map(|lane| lane.selected()).sum::<u64>(), FLOWS as u64);
        assert!(counts.lanes.iter().all(|lane| lane.selected_off(own) == 0 && lane.selected_off(own + 1) == lane.selected()));
        assert_eq!(counts.left.selected(), 0);
        // Its buckets stay with a lane that has no socket.
        drop(lanes.sockets.remove(&1));
        for client in clients {
            send(&client, &[8]);
            lanes.next();
        }
        let after = selector.counts().unwrap().unwrap();
        assert_eq!(after.lanes[1], counts.lanes[1]);
        assert_eq!(after.left.selected(), counts.lanes[1].selected());
        assert!(detach(lanes.any()).unwrap());
        assert!(!detach(lanes.any()).unwrap());
        let late = client(Transport::Udp, SocketAddr::from(([127, 0, 0, 1], 0)));
        begin(&late, to, &[9]);
        lanes.next();
        assert_eq!(selector.counts().unwrap().unwrap(), after);
    });
}

/// Lanes copy the table of descriptors when it is theirs; what they open then means nothing to others.
#[test]
fn lanes_with_descriptor_tables_of_their_own_enter() {
    on_network("lanes_with_descriptor_tables_of_their_own_enter", |network| {
        for means in MEANS {
            let selector = selector(means, LANES);
            let group = selector.group(Transport::Udp).unwrap();
            let address = claim(Transport::Udp, &server().into(), false, false).unwrap().address.inet().unwrap();
            let clients = network.clients(Transport::Udp, address, FLOWS);
            let (step, arrived) = (Barrier::new(LANES + 1), AtomicUsize::new(0));
            let lane = |lane| {
                runner::own_descriptors().unwrap();
                let mut entry = group.entry(lane).unwrap();
                let socket = Shared::new(Transport::Udp, address);
                entry.register(socket.as_fd()).unwrap();
                drop(entry);
                step.wait();
                step.wait();
                group.refresh(socket.as_fd()).unwrap();
                step.wait();
                serve(lane, &socket, address, &arrived);
            };
            std::thread::scope(|scope| {
                (0..LANES).for_each(|number| drop(scope.spawn(move || lane(number))));
                step.wait();
                selector.rewrite(&other(LANES)).unwrap();
                step.wait();
                step.wait();
                clients.iter().for_each(|client| begin(client, address, &[7]));
            });
            assert_eq!(arrived.into_inner(), FLOWS);
        }
    });
}

const LANES: usize = 3;

/// Takes what comes until all lanes together have all flows.
fn serve(lane: usize, socket: &Shared, address: SocketAddr, arrived: &AtomicUsize) {
    let give_up = Instant::now() + PATIENCE;
    while arrived.load(Ordering::Relaxed) < FLOWS && Instant::now() < give_up {
        match socket.next() {
            Some(flow) => {
                assert_eq!(flow.lane(&hasher(HashTypes::ALL), &other(LANES), address), Some(lane));
                arrived.fetch_add(1, Ordering::Relaxed);
            }
            None => std::thread::yield_now(),
        }
    }
}

/// Names the test that a process started by a test itself is to run.
const CHILD: &str = "CORELANE_SELECTION_CHILD";

/// A process with a group is killed: its port is free, and its program is gone.
#[test]
fn nothing_stays_of_a_process_that_was_killed() {
    let test = "places::nothing_stays_of_a_process_that_was_killed";
    if std::env::var(CHILD).is_ok_and(|child| child == test) {
        return hold_a_group();
    }
    if let Err(error) = probe(Means::Program) {
        return skip("nothing_stays_of_a_process_that_was_killed", &error.to_string());
    }
    let _alone = alone();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(CHILD, test);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let address = lines.find_map(|line| line.strip_prefix("holding ").map(str::to_owned)).unwrap();
    let programs = programs_of(child.id());
    assert!(!programs.is_empty() && programs.iter().all(|id| exists(*id)), "{programs:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    // The kernel frees programs a moment after the last who used them is gone.
    let give_up = Instant::now() + PATIENCE;
    while programs.iter().any(|id| exists(*id)) {
        assert!(Instant::now() < give_up, "a program stays: {programs:?}");
        std::thread::yield_now();
    }
    TcpListener::bind(address).unwrap();
}

fn hold_a_group() {
    let selector = selector(Means::Program, LANES);
    // An address that no other test uses, so that nobody else takes the port.
    let lanes = Lanes::open(&selector, Transport::Tcp, SocketAddr::from(([127, 0, 78, 1], 0)), LANES);
    println!("\nholding {}", lanes.address());
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// The numbers of the programs that a process has open (proc_pid_fdinfo(5)).
fn programs_of(process: u32) -> Vec<u32> {
    let infos = std::fs::read_dir(format!("/proc/{process}/fdinfo")).unwrap();
    let texts = infos.filter_map(|info| std::fs::read_to_string(info.unwrap().path()).ok());
    texts.filter_map(|text| text.lines().find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok())).collect()
}

/// Whether the kernel has a program of that number (`BPF_PROG_GET_FD_BY_ID` of bpf(2)).
fn exists(program: u32) -> bool {
    const GET: i32 = 13;
    let attribute = [program, 0, 0];
    // SAFETY: the attribute is that of the command; the descriptor that the call makes is nobody else's.
    unsafe {
        let number = libc::syscall(libc::SYS_bpf, GET, attribute.as_ptr(), size_of_val(&attribute)) as i32;
        number >= 0 && libc::close(number) == 0
    }
}
