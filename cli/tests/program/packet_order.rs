//! Flows over frames keep their order while the operator changes how packets are handled.

use crate::common::*;
use crate::packet::{V4, WIRE, can_run, ends, exec_in, of_lanes};
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

on_each_driver!(answers_keep_their_order_while_dispatch_changes);

/// So many that hardly ever all of them come in at their own lane's queue.
const FLOWS: u16 = 16;
/// Datagrams of each flow, and how many of them are on their way at the most: no queue drops any.
const EACH: u32 = 1250;
const AHEAD: u32 = 8;

/// Changes when packets are handled, over and over, until it is done; says how often.
fn change_until(is_done: &AtomicBool, run: &Path) -> usize {
    let policies = ["direct", "deferred", "hybrid", "ip=deferred", "ip=direct", "ip=default"];
    let change = |policy: &&str| {
        let mut command = Command::new(PROGRAM);
        let changed = output(command.args(["dispatch", "--set", policy]).env("CORELANE_RUN_DIR", run));
        assert!(changed.status.success(), "{changed:?}");
    };
    policies.iter().cycle().take_while(|_| !is_done.load(Ordering::Relaxed)).map(change).count()
}

/// Asks by all flows at once. What comes back has the numbers that were sent, in their order.
fn ask_in_order(sockets: &[UdpSocket]) {
    let named = |flow: usize, number: u32| [&(flow as u32).to_be_bytes()[..], &number.to_be_bytes(), &[7; 56]].concat();
    let mut back = [0; 65];
    // While the kernel asks for the link-layer address datagrams wait, and the first one behind the answer may overtake them.
    sockets[0].send(&named(0, 0)).unwrap();
    sockets[0].recv(&mut back).expect("none is lost");
    for number in 0..EACH + AHEAD {
        for (flow, socket) in sockets.iter().enumerate() {
            if number < EACH {
                assert_eq!(socket.send(&named(flow, number)).unwrap(), 64);
            }
            if let Some(expected) = number.checked_sub(AHEAD) {
                let length = socket.recv(&mut back).expect("none is lost");
                let came = u32::from_be_bytes(*back[4..].first_chunk().unwrap());
                assert!(back[..length] == named(flow, expected), "flow {flow}: {came} came where {expected} was to come");
            }
        }
    }
}

/// Two lanes, between which packets cross: the wire's ends spread flows over queues by keys of their own.
fn answers_keep_their_order_while_dispatch_changes(driver: Driver) {
    let test = "packet_order::answers_keep_their_order_while_dispatch_changes";
    if !can_run(&driver.case(test)) {
        return;
    }
    let two = "numrxqueues 2 numtxqueues 2";
    let wire = WIRE.replace("va type veth peer name vb", &format!("va {two} type veth peer name vb {two}"));
    let script = exec_in(&wire, "");
    let arguments = ["--lanes", "2", "--packet", "va,ip=10.9.0.2/24", V4];
    let Some(server) = driver.start_under(test, &["unshare", "--net", "sh", "-c", &script], &arguments) else { return };
    let socket = |flow: u16| {
        let socket = UdpSocket::bind(("10.9.0.1", 5000 + flow)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.connect("10.9.0.2:60007").unwrap();
        socket
    };
    let sockets: Vec<_> = in_network_of(server.pid(), || (0..FLOWS).map(socket).collect());
    let (is_done, run) = (AtomicBool::new(false), server.run.path().to_owned());
    let changes = std::thread::scope(|scope| {
        let changing = scope.spawn(|| change_until(&is_done, &run));
        let asked = std::panic::catch_unwind(|| ask_in_order(&sockets));
        is_done.store(true, Ordering::Relaxed);
        let changes = changing.join().unwrap();
        asked.map(|()| changes).unwrap_or_else(|why| std::panic::resume_unwind(why))
    });
    let [served, crossed] = ["udp_delivered", "packets_crossed"].map(|counter| of_lanes(&server, counter));
    assert!(changes > 5 && served.iter().all(|count| *count > 0), "{changes} changes: {served:?}");
    assert!(crossed.iter().sum::<u64>() > 100, "{crossed:?}");
    ends(server);
}
