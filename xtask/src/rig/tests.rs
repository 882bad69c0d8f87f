use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use corelane_os::testing::skip;

use super::*;

/// Run by the tests as a process of its own, with the rig's arguments; alone it has nothing to do.
const ARGUMENTS: &str = "CORELANE_RIG";

/// How long to wait for what is to happen.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    arguments: Arguments,
}

#[test]
fn a_process_with_a_rig() {
    let Ok(words) = std::env::var(ARGUMENTS) else { return };
    let line = <Line as clap::Parser>::parse_from(["rig"].into_iter().chain(words.split('\t')));
    // A thread's end is a process's to the system here: the rig is this thread's.
    run(&line.arguments).expect("a rig");
}

/// The rig's process with its command, whose output comes by a pipe; none if this machine cannot.
fn rig(test: &str, words: &[&str]) -> Option<std::process::Child> {
    let lacks = ["ip", "setpriv", "unshare"].into_iter().find(|program| Command::new(program).arg("-V").output().is_err());
    if !nix::unistd::geteuid().is_root() || lacks.is_some() {
        skip(test, "it needs root, iproute2 and util-linux");
        return None;
    }
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "rig::tests::a_process_with_a_rig", "--nocapture"]).env(ARGUMENTS, words.join("\t"));
    command.env("CORELANE_CARD_WORD", "it's told");
    Some(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it starts"))
}

fn lines_of(child: &mut std::process::Child) -> impl Iterator<Item = String> + use<> {
    BufReader::new(child.stdout.take().expect("a pipe")).lines().map(|line| line.expect("text"))
}

fn said(test: &str, words: &[&str], expected: &[&str]) {
    let Some(mut child) = rig(test, words) else { return };
    let lines: Vec<_> = lines_of(&mut child).collect();
    assert!(child.wait().expect("it ends").success());
    for words in expected {
        assert!(lines.iter().any(|line| line.contains(words)), "{words}: {lines:#?}");
    }
}

/// A shell's words that say whether somebody is at an address: nobody listens there, and the kernel there says so.
macro_rules! reach {
    ($address:literal) => {
        concat!("timeout 5 bash -c 'echo > /dev/tcp/", $address, "/7' 2>&1 | grep -o refused | sed 's/^/", $address, " /';")
    };
}

#[test]
fn both_ends_of_a_wire_reach_each_other() {
    let script = concat!(reach!("10.9.0.2"), "ip -br addr; nsenter --net=$FAR ip -br addr");
    let words = ["wire", "--queues", "2", "--", "sh", "-c", script];
    said("rig::both_ends_of_a_wire_reach_each_other", &words, &["10.9.0.2 refused", "near@", "far@"]);
}

#[test]
fn a_vlan_is_on_the_wire() {
    const NAME: &str = "rig::a_vlan_is_on_the_wire";
    let words = ["wire", "--vlan", "7", "--", "sh", "-c", concat!(reach!("10.9.1.2"), "ip -br addr")];
    let words_of_a_try = "--net ip link add link lo name v type vlan id 1";
    match Command::new("unshare").args(words_of_a_try.split(' ')).output() {
        Ok(output) if String::from_utf8_lossy(&output.stderr).contains("Unknown device type") => {
            skip(NAME, "this kernel has no VLAN interfaces (CONFIG_VLAN_8021Q)");
        }
        _ => said(NAME, &words, &["10.9.1.2 refused", "near.7@near"]),
    }
}

#[test]
fn all_ends_of_a_bridge_reach_each_other() {
    let script = concat!(reach!("10.9.0.2"), reach!("10.9.0.3"), "nsenter --net=$HUB ip -br link");
    let words = ["bridge", "--ends", "3", "--", "sh", "-c", script];
    said("rig::all_ends_of_a_bridge_reach_each_other", &words, &["10.9.0.2 refused", "10.9.0.3 refused", "end3@"]);
}

#[test]
fn a_tap_waits_for_who_opens_it() {
    let words = ["tap", "--queues", "4", "--", "ip", "-d", "link", "show", "near"];
    said("rig::a_tap_waits_for_who_opens_it", &words, &["tun type tap", "multi_queue"]);
}

/// A program of this machine runs under the other kernel, beside a card with queues, and has what is told of the card.
#[test]
fn a_guest_runs_a_program_under_its_own_kernel() {
    const NAME: &str = "rig::a_guest_runs_a_program_under_its_own_kernel";
    if !kept::Kept::is_there(KERNEL) || Command::new("qemu-system-x86_64").arg("--version").output().is_err() {
        return skip(NAME, "it needs qemu-system-x86, and `cargo xtask rig guest -- true` once, which fetches a kernel");
    }
    let script = "uname -r; ethtool -l eth0; ethtool -x eth0; echo $CORELANE_CARD $CORELANE_CARD_WORD";
    let words = ["guest", "--queues", "2", "--", "sh", "-c", script];
    let expected = [KERNEL, "Combined:\t2", "with 2 RX ring(s)", "toeplitz: on", "eth0 it's told"];
    said(NAME, &words, &expected);
}

/// Whether some process is in this network namespace.
fn is_in_use(space: u64) -> bool {
    let processes = std::fs::read_dir("/proc").expect("/proc").map(|entry| entry.expect("an entry").path());
    processes.filter_map(|path| Path::new(&path).join("ns/net").metadata().ok()).any(|found| found.ino() == space)
}

/// A rig that is killed takes its command and all that this has started with it: then nobody is in its namespaces, and they are gone.
#[test]
fn nothing_is_left_of_a_rig_that_was_killed() {
    let script = "sleep 1000 & stat -L -c %i /proc/self/ns/net; sleep 1000";
    let Some(mut child) = rig("rig::nothing_is_left_of_a_rig_that_was_killed", &["wire", "--", "sh", "-c", script]) else {
        return;
    };
    let mut lines = lines_of(&mut child);
    let space = lines.find_map(|line| line.trim().parse::<u64>().ok()).expect("the number of the namespace");
    assert!(is_in_use(space));
    child.kill().expect("it is there");
    child.wait().expect("it ends");
    // The pipe ends with the last of them, which leaves its namespace a moment later; and the number may name another test's at once.
    lines.for_each(drop);
    let give_up = Instant::now() + PATIENCE;
    while is_in_use(space) {
        assert!(Instant::now() < give_up, "somebody is still in namespace {space}");
        std::thread::yield_now();
    }
}
