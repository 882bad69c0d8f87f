//! `--receive-threads`: the kernel receives beside lanes by threads, as long as the program is there.

use crate::common::*;
use crate::packet::ends;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::process::{Command, Output};

const AT: &str = "echo=tcp://10.9.1.2:0";

/// A wire in a network namespace that outlives its program. The near end has a name that no other test's has: so its threads are told apart.
struct Wire {
    near: &'static str,
    server: Server,
    network: File,
}

impl Wire {
    /// Starts the program at the wire, once the lines of shell before it have been run; none where the test cannot run.
    fn start(test: &str, near: &'static str, before: &str, command: &str, more: &[&str]) -> Option<Self> {
        if !can_run(test) {
            return None;
        }
        let script = format!("{} && {before} && exec {command} \"$0\" \"$@\"", lines(near));
        let arguments = [&["--lanes", "1", "--receive-threads", near, AT][..], more].concat();
        let server = Server::start_under(&["unshare", "--net", "sh", "-c", &script], &arguments);
        let network = File::open(format!("/proc/{}/ns/net", server.pid())).unwrap();
        Some(Self { near, server, network })
    }

    /// Runs a line of shell in the network namespace, with a /sys that shows it.
    fn run(&self, line: &str) -> Output {
        let network = format!("--net=/proc/{}/fd/{}", std::process::id(), self.network.as_raw_fd());
        let script = format!("mount -t sysfs sysfs /sys && {line}");
        output(Command::new("nsenter").args([&network, "unshare", "--mount", "sh", "-c", &script]))
    }

    fn done(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The threads that receive at the near end: policy, nice value, and CPUs (proc(5)).
    fn threads(&self) -> Vec<(String, String, String)> {
        let all = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        all.filter_map(|id| self.thread(id)).collect()
    }

    fn thread(&self, id: u32) -> Option<(String, String, String)> {
        let read = |file: &str| fs::read_to_string(format!("/proc/{id}/{file}")).ok();
        read("comm").filter(|name| name.starts_with(&format!("napi/{}-", self.near)))?;
        let (status, stat) = (read("status")?, read("stat")?);
        let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t"))?.to_owned();
        // Behind the name, which may have spaces, the third field is the first.
        let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
        Some((fields.get(38)?.to_string(), fields.get(16)?.to_string(), cpus))
    }

    fn has_program(&self) -> bool {
        self.done(&format!("ip -d link show {}", self.near)).contains("prog/xdp")
    }

    /// What the doctor says of receiving threads there.
    fn doctor(&self) -> Value {
        let told = self.run(&format!("CORELANE_RUN_DIR={} {PROGRAM} doctor --json", self.server.run.path().display()));
        let told: Value = serde_json::from_slice(&told.stdout).unwrap_or_else(|error| panic!("{error}: {told:?}"));
        told.as_array().unwrap().iter().find(|line| line["code"] == "CL-1040").expect("it is looked at").clone()
    }

    fn echoes(&self) {
        let at = self.server.tcp();
        in_network_of(self.server.pid(), || echo(&mut connect(at), &pattern(1000, 1)));
    }

    /// Waits until it has said these words.
    fn says(&self, words: &str) {
        until(words, || self.server.words().contains(words));
    }
}

fn lines(near: &str) -> String {
    format!(
        "ip link set lo up && ip link add {near} type veth peer name far && ip addr add 10.9.1.2/24 dev {near} && ip link set {near} up && ip link set far up"
    )
}

fn can_run(test: &str) -> bool {
    if !is_root(test) || !have(test, &["unshare", "nsenter", "mount", "ip", "ethtool", "setpriv"]) {
        return false;
    }
    let sees_threads = fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n");
    if !sees_threads {
        skip(test, "this PID namespace shows no threads of the kernel");
    }
    sees_threads
}

/// Under the sandbox as well an interface that comes up again is received beside the lane again.
#[test]
fn a_thread_receives_at_the_lanes_cpu_until_the_program_ends() {
    const TEST: &str = "receiving::a_thread_receives_at_the_lanes_cpu_until_the_program_ends";
    let more = ["--user-frac", "90", "--sandbox", "required"];
    let Some(mut wire) = Wire::start(TEST, "clrt0", "true", "", &more) else { return };
    let note = format!("[CL-0040] {} was given an XDP program", wire.near);
    assert!(wire.server.notes.iter().any(|told| told.contains(&note)), "{:?}", wire.server.notes);
    let cpu = wire.server.lane_cpus()[0].1.clone();
    let threads = wire.threads();
    assert!(matches!(&threads[..], [(policy, nice, at)] if policy == "0" && nice == "10" && *at == cpu), "{threads:?} {cpu}");
    wire.echoes();
    wire.done(&format!("ip link set {} down", wire.near));
    until("none receives", || wire.threads().is_empty());
    wire.done(&format!("ip link set {} up", wire.near));
    until("a thread receives as before", || wire.threads() == threads);
    wire.echoes();
    wire.done(&format!("ip link del {}", wire.near));
    wire.says("[CL-0042] the receiving of clrt0 does not keep to the user fraction any more");
    wire.done(&lines(wire.near));
    wire.says("the receiving of clrt0 keeps to the user fraction again");
    assert_eq!(wire.threads(), threads);
    wire.echoes();
    assert_eq!(wire.doctor()["state"], "ok", "it is governed");
    wire.server.signal(Signal::SIGTERM);
    assert_eq!(wire.server.ended().code(), Some(0), "{}", wire.server.words());
    // The kernel ends a thread a moment after it was told to.
    until("its threads are gone", || wire.threads().is_empty());
    assert!(!wire.has_program(), "{}", wire.server.words());
}

#[test]
fn a_killed_program_leaves_nothing_at_a_wire_and_at_a_card_what_the_doctor_names() {
    const TEST: &str = "receiving::a_killed_program_leaves_nothing_at_a_wire_and_at_a_card_what_the_doctor_names";
    let Some(mut wire) = Wire::start(TEST, "clrt1", "true", "", &[]) else { return };
    wire.server.signal(Signal::SIGKILL);
    wire.server.ended();
    until("thread and program are gone", || wire.threads().is_empty() && !wire.has_program());
    // Nothing but its program has this end receive otherwise than a card.
    let Some(mut card) = Wire::start(TEST, "clrt2", "ethtool -K clrt2 gro on", "", &["--user-frac", "90"]) else { return };
    let threads = card.threads();
    card.server.signal(Signal::SIGKILL);
    card.server.ended();
    until("its program is gone", || !card.has_program());
    assert_eq!(card.threads(), threads, "as it was set");
    let told = card.doctor();
    assert_eq!(told["state"], "degraded", "{told}");
    let command = "echo 0 > /sys/class/net/clrt2/threaded";
    assert!(told["words"].as_str().unwrap().contains(command), "{told}");
    card.done(command);
    until("its threads are gone", || card.threads().is_empty());
    assert_eq!(card.doctor()["state"], "ok");
}

#[test]
fn who_gives_up_its_rights_is_told_what_stays() {
    const TEST: &str = "receiving::who_gives_up_its_rights_is_told_what_stays";
    let more = ["--user", "nobody:nogroup", "--user-frac", "1"];
    let chown = "chown 65534 \"$CORELANE_RUN_DIR\" && ethtool -K clrt3 gro on";
    let Some(mut wire) = Wire::start(TEST, "clrt3", chown, "", &more) else { return };
    assert!(wire.server.notes.iter().any(|note| note.contains("[CL-0042] --user")), "{:?}", wire.server.notes);
    assert!(matches!(&wire.threads()[..], [(_, nice, _)] if nice == "-20"), "{:?}", wire.threads());
    wire.echoes();
    wire.done(&format!("ip link set {near} down && ip link set {near} up", near = wire.near));
    wire.says("[CL-0042] the receiving of clrt3 does not keep to the user fraction any more");
    wire.server.signal(Signal::SIGTERM);
    assert_eq!(wire.server.ended().code(), Some(0), "{}", wire.server.words());
}

/// What the program says when it is started so, or only checks: the same.
fn refused(arguments: &[&str], command: &str) -> String {
    let said = [&["--check"][..], &[]].map(|check| {
        let script = format!("{} && exec {command} \"$0\" serve \"$@\"", lines("clrt4"));
        let run = Scratch::new();
        let mut words = wrapped(&["unshare", "--net", "sh", "-c", &script], PROGRAM);
        let done = output(words.args(check).args(arguments).arg(AT).env("CORELANE_RUN_DIR", run.path()));
        assert_eq!(done.status.code(), Some(2), "{done:?}");
        String::from_utf8(done.stderr).unwrap()
    });
    assert_eq!(said[0], said[1]);
    said[1].clone()
}

#[test]
fn what_cannot_be_had_is_refused_with_its_remedy() {
    const TEST: &str = "receiving::what_cannot_be_had_is_refused_with_its_remedy";
    if !can_run(TEST) {
        return;
    }
    let polled = "clrt4,ip=10.9.0.2/24,poll";
    for (arguments, words) in [
        (&["--receive-threads", "lo"][..], "receive-threads: nothing receives at lo that could run in a thread"),
        (&["--receive-threads", "clrt4", "--receive-threads", "eth77"], "receive-threads: there is no interface eth77"),
        (
            &["--receive-threads", "clrt4", "--packet", polled],
            "receive-threads: lanes take the packets of clrt4 in by themselves",
        ),
        (&["--receive-threads", "clrt4", "--user-frac", "100"], "100 is not in 0..=99"),
    ] {
        let said = refused(arguments, "");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
    let script = format!("{} && exec setpriv --bounding-set=-sys_nice \"$0\" \"$@\"", lines("clrt5"));
    let mut lacks = wrapped(&["unshare", "--net", "sh", "-c", &script], PROGRAM);
    let done = output(lacks.args(["serve", "--receive-threads", "clrt5", "--user-frac", "1", AT]));
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.code() == Some(2) && said.contains("give the process CAP_SYS_NICE"), "{said}");
}

/// The one that is taken over from has the interface until it ends, and has it back as it was; then the other has it.
#[test]
fn a_process_that_takes_over_governs_once_the_other_has_ended() {
    const TEST: &str = "receiving::a_process_that_takes_over_governs_once_the_other_has_ended";
    let Some(mut wire) = Wire::start(TEST, "clrt6", "true", "", &["--user-frac", "50"]) else { return };
    let before = wire.threads();
    let follow = format!("--net=/proc/{}/fd/{}", std::process::id(), wire.network.as_raw_fd());
    let (at, run) = (format!("echo=tcp://{}", wire.server.tcp()), wire.server.run.clone());
    let arguments = ["--take-over", "--lanes", "1", "--receive-threads", wire.near, "--user-frac", "90", &at];
    let next = Server::start_as(Launch { wrapper: &["nsenter", &follow], program: PROGRAM, arguments: &arguments, run });
    assert!(next.notes.iter().any(|note| note.contains("the process before still governs")), "{:?}", next.notes);
    assert_eq!(wire.server.ended().code(), Some(0), "{}", wire.server.words());
    until("a lighter thread receives", || matches!(&wire.threads()[..], [(_, nice, _)] if nice == "10"));
    assert!(matches!(&before[..], [(_, nice, _)] if nice == "0"), "{before:?}");
    ends(next);
    until("its threads are gone", || wire.threads().is_empty());
    assert!(!wire.has_program());
}
