//! What selection costs, and that what is established does not pay.

use crate::group::{FLOWS, Lanes, TRANSPORTS, even, hasher};
use crate::network::{SERVER_V4, SERVER_V6, on_network};
use crate::sockets::{begin, client, send, set, with_address};
use corelane_os::testing::skip;
use corelane_rss::HashTypes;
use corelane_rss::Transport;
use corelane_select::bpf::assembly::{Alu, Assembler, Register};
use corelane_select::bpf::{Program, ProgramKind, RunStatistics};
use corelane_select::{Means, Selector, detach};
use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

const LANES: usize = 2;

/// A connection is selected once; a datagram each time, unless its socket has a peer.
#[test]
fn what_is_established_is_not_selected_again() {
    let test = "what_is_established_is_not_selected_again";
    on_network(test, |network| {
        let _counting = match RunStatistics::enable() {
            Ok(counting) => counting,
            Err(fault) => return skip(test, &fault.to_string()),
        };
        for transport in TRANSPORTS {
            let selector = Selector::new(Means::Program, &hasher(HashTypes::ALL), &even(LANES), LANES).unwrap();
            let lanes = Lanes::open(&selector, transport, SocketAddr::new(SERVER_V4.parse().unwrap(), 0), LANES);
            let clients = network.clients(transport, lanes.address(), FLOWS);
            let to = lanes.address();
            let mut servers: Vec<_> = clients.iter().map(|client| begun(&lanes, client, to)).collect();
            let before = lanes.group.runs().unwrap().unwrap();
            assert_eq!(before.count, FLOWS as u64);
            for _ in 0..10 {
                clients.iter().zip(&mut servers).for_each(|(client, server)| exchange(client, server));
            }
            assert_eq!(lanes.group.runs().unwrap(), Some(before), "{transport:?}");
        }
    });
}

/// The server's end of a new flow: of a datagram flow a socket of its own, with the client as its peer.
fn begun(lanes: &Lanes, client: &OwnedFd, to: SocketAddr) -> OwnedFd {
    begin(client, to, &[7]);
    let (_, arrived) = lanes.next();
    match arrived.stream {
        Some(stream) => stream.into(),
        None => {
            let socket = crate::sockets::socket(Transport::Udp, to);
            set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEPORT, &1_i32.to_ne_bytes());
            with_address(socket.as_fd(), to, libc::bind);
            with_address(socket.as_fd(), arrived.peer, libc::connect);
            socket
        }
    }
}

fn exchange(client: &OwnedFd, server: &OwnedFd) {
    for (from, to) in [(client, server), (server, client)] {
        send(from, &[8]);
        let mut byte = [0; 4];
        // SAFETY: so many writable bytes are given.
        assert_ne!(unsafe { libc::recv(to.as_raw_fd(), byte.as_mut_ptr().cast(), byte.len(), 0) }, -1);
    }
}

/// How datagrams find one of two sockets.
enum By {
    TheKernel,
    AnEmptyProgram(Program),
    Us(Means),
}

/// Datagrams of one measurement, and measurements of each kind, of which the median counts.
const DATAGRAMS: usize = 12_800;
/// Datagrams that are sent before they are received, each from a client of its own.
const BURST: usize = 64;
const ROUNDS: usize = 15;

/// Prints what a selection costs: the time that the kernel counts for a run, and the CPU that a datagram takes, sent and received; and
/// the medians of what each is above an empty program of the same round. First with runs being counted, then without.
#[test]
#[ignore = "a measurement: takes half a minute of one CPU, and wants it alone"]
fn what_a_selection_costs() {
    let test = "what_a_selection_costs";
    on_network(test, |_| {
        let counting = RunStatistics::enable();
        for address in [SERVER_V4, SERVER_V6] {
            measure(SocketAddr::new(address.parse().unwrap(), 0));
        }
        drop(counting);
        for address in [SERVER_V4, SERVER_V6] {
            measure(SocketAddr::new(address.parse().unwrap(), 0));
        }
    });
}

fn measure(address: SocketAddr) {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let kinds = [By::AnEmptyProgram(empty()), By::TheKernel, By::Us(Means::Program), By::Us(Means::Classic)];
        rounds.push(kinds.map(|by| sample(address, by)));
    }
    let mut out = std::io::stdout();
    for (kind, name) in ["empty program", "kernel's hash", "program", "classic program"].into_iter().enumerate() {
        let of = |figure: fn(&[(f64, f64); 4], usize) -> f64| median(rounds.iter().map(|round| figure(round, kind)).collect());
        let (datagram, run) = (of(|round, kind| round[kind].0), of(|round, kind| round[kind].1));
        let (more, longer) = (of(|round, kind| round[kind].0 - round[0].0), of(|round, kind| round[kind].1 - round[0].1));
        let place = format!("{} {name}", address.ip());
        writeln!(out, "{place:26} {datagram:6.0} ns a datagram ({more:+6.0}), {run:6.1} ns a run ({longer:+6.1})").unwrap();
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn empty() -> Program {
    let mut assembler = Assembler::new();
    assembler.alu(Alu::Move, Register::R0, 1);
    assembler.exit();
    Program::load(ProgramKind::SelectSocket, &assembler.finish(), "corelane_empty").unwrap()
}

/// Nanoseconds of a datagram, and of a run; that is no number where nobody counts, or for a classic program.
fn sample(address: SocketAddr, by: By) -> (f64, f64) {
    let means = if let By::Us(means) = by { means } else { Means::Classic };
    let selector = Selector::new(means, &hasher(HashTypes::ALL), &even(LANES), LANES).unwrap();
    let lanes = Lanes::open(&selector, Transport::Udp, address, LANES);
    match &by {
        By::TheKernel => assert!(detach(lanes.any()).unwrap()),
        By::AnEmptyProgram(program) => {
            let number = program.as_fd().as_raw_fd().to_ne_bytes();
            set(lanes.any(), libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_EBPF, &number);
        }
        By::Us(_) => {}
    }
    let clients: Vec<OwnedFd> = (0..BURST).map(|_| client(Transport::Udp, address)).collect();
    clients.iter().for_each(|client| with_address(client.as_fd(), lanes.address(), libc::connect));
    let before = thread_nanoseconds();
    for _ in 0..DATAGRAMS / BURST {
        clients.iter().for_each(|client| send(client, &[7]));
        let mut left = BURST;
        while left > 0 {
            left -= lanes.sockets.values().filter(|socket| socket.next().is_some()).count();
        }
    }
    let datagram = (thread_nanoseconds() - before) as f64 / DATAGRAMS as f64;
    let runs = match &by {
        By::AnEmptyProgram(program) => program.runs().unwrap(),
        _ => lanes.group.runs().unwrap().unwrap_or_default(),
    };
    (datagram, runs.nanoseconds as f64 / runs.count as f64)
}

/// CPU that this thread has used; what is sent over the loopback interface is received by whom sends it.
fn thread_nanoseconds() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
