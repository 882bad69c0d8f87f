//! `--receive-threads`: the kernel receives beside lanes, as long as the program is there.

use crate::common::*;
use crate::packet::ends;
use crate::packet_ports::{run, text_of};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::process::Command;

/// A wire whose near end, `va`, has the program's address.
const WIRE: &str = "ip link set lo up && ip link add va type veth peer name vb && ip addr add 10.9.1.2/24 dev va && ip link set va up && ip link set vb up";
const AT: &str = "echo=tcp://10.9.1.2:0";
/// As a card: it receives without a program.
const AS_A_CARD: &str = "ethtool -K va gro on";
/// What drops all packets at `va`, in whose place a veth needs no program of ours, would need clang; a card is had so.
const NONE: &str = "true";

fn can_run(test: &str) -> bool {
    let sees_threads = fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n");
    if !sees_threads {
        corelane_testkit::skip(test, "this PID namespace shows no threads of the kernel");
    }
    sees_threads && is_root(test) && have(test, &["unshare", "ip", "ethtool", "setpriv"])
}

fn start(before: &str, command: &str, more: &[&str]) -> Server {
    let script = format!("{WIRE} && {before} && exec {command} \"$0\" \"$@\"");
    let arguments = [&["--lanes", "1", "--receive-threads", "va", AT][..], more].concat();
    Server::start_under(&["unshare", "--net", "sh", "-c", &script], &arguments)
}

/// The kernel's threads that receive at an interface of this name, as ps(1) shows them: number and nice value, and the CPUs. Other tests have none of that name.
fn threads(server: &Server) -> Vec<(u32, String)> {
    let index = run(server, "cat /proc/net/dev_mcast >/dev/null; ip -o link show va").split(':').next().unwrap().to_owned();
    let _ = index;
    let all = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let is_ours = |id: &u32| fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name.starts_with("napi/va-"));
    all.filter(is_ours).map(|id| (id, fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default())).collect()
}
