//! `corelane doctor`: each feature is refused for real, and its line says so.

use crate::common::*;
use crate::confined::{AS_ORDINARY_USER, Group, below, without};
use nix::libc;
use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};
use serde_json::Value;
use std::path::Path;

/// What `corelane doctor` says when `program` is run by `wrapper`, and its exit code.
fn doctor_of(wrapper: &[&str], program: &str) -> (Value, i32) {
    let run = Scratch::new();
    let output = output(wrapped(wrapper, program).args(["doctor", "--json"]).env("CORELANE_RUN_DIR", run.path()));
    let words = String::from_utf8(output.stdout).unwrap();
    let told = serde_json::from_str(&words).unwrap_or_else(|error| panic!("{error}: {words:?} {:?}", output.stderr));
    (told, output.status.code().unwrap())
}

fn doctor(wrapper: &[&str]) -> Value {
    doctor_of(wrapper, PROGRAM).0
}

/// The line of a code.
fn line<'v>(told: &'v Value, code: &str) -> &'v Value {
    let lines = told.as_array().unwrap();
    lines.iter().find(|line| line["code"] == code).unwrap_or_else(|| panic!("no {code} in {told}"))
}

/// The line is in this state, has these words, and all that one needs to mend it.
fn says(told: &Value, code: &str, state: &str, words: &str) {
    let line = line(told, code);
    assert_eq!(line["state"], state, "{line}");
    assert!(line["words"].as_str().unwrap().contains(words), "{words:?}: {line}");
    let has_remedy = ["cost", "remedy", "command"].iter().all(|key| line[key].as_str().is_some_and(|text| !text.is_empty()));
    assert!(has_remedy, "{line}");
}

/// Places of a call's arguments, and what stands there.
type Arguments = &'static [(u8, u64)];

/// The arguments of a call that must be as said, by their places.
fn where_arguments_are(arguments: &[(u8, u64)]) -> Vec<SeccompRule> {
    let is =
        |(place, value): &(u8, u64)| SeccompCondition::new(*place, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, *value).unwrap();
    vec![SeccompRule::new(arguments.iter().map(is).collect()).unwrap()]
}

/// What it says where one call is forbidden, with such arguments or with any.
fn where_forbidden(call: i64, arguments: &[(u8, u64)]) -> Value {
    let rules = if arguments.is_empty() { Vec::new() } else { where_arguments_are(arguments) };
    let told = below(&without(&[(call, rules)]), || doctor(&[]));
    says(&told, "CL-1018", "degraded", "a filter of calls is in force");
    told
}

#[test]
fn a_call_that_is_forbidden_is_found_by_the_feature_that_needs_it() {
    let (socket, option) = (libc::SYS_socket, libc::SYS_setsockopt);
    let cases: &[(i64, Arguments, &str, &str, &str)] = &[
        (libc::SYS_epoll_create1, &[], "CL-1002", "missing", "epoll_create1"),
        (libc::SYS_epoll_pwait2, &[], "CL-1003", "degraded", "milliseconds"),
        (libc::SYS_io_uring_setup, &[], "CL-1004", "missing", "io_uring_setup is forbidden"),
        (libc::SYS_io_uring_setup, &[], "CL-1005", "missing", "io_uring_setup is forbidden"),
        (libc::SYS_io_uring_enter, &[], "CL-1007", "degraded", "IORING_ENTER_NO_IOWAIT"),
        (option, &[(1, libc::SOL_UDP as u64), (2, libc::UDP_GRO as u64)], "CL-1008", "degraded", "UDP_GRO"),
        (libc::SYS_bpf, &[], "CL-1011", "degraded", "forbidden"),
        (option, &[(2, libc::SO_ATTACH_REUSEPORT_CBPF as u64)], "CL-1012", "missing", "SO_ATTACH_REUSEPORT_CBPF"),
        (socket, &[(0, libc::AF_NETLINK as u64), (2, 4)], "CL-1014", "degraded", "NETLINK_SOCK_DIAG"),
        (socket, &[(0, libc::AF_NETLINK as u64), (2, libc::NETLINK_GENERIC as u64)], "CL-1040", "degraded", "NAPI_GET"),
        (socket, &[(0, libc::AF_XDP as u64)], "CL-1015", "missing", "AF_XDP"),
        (socket, &[(0, libc::AF_PACKET as u64)], "CL-1016", "missing", "AF_PACKET"),
        (libc::SYS_ioctl, &[(1, libc::TUNSETIFF)], "CL-1017", "missing", "TUNSETIFF"),
        (libc::SYS_sched_setaffinity, &[], "CL-1022", "missing", "sched_setaffinity"),
        (libc::SYS_unshare, &[], "CL-1022", "missing", "unshare"),
        (libc::SYS_landlock_create_ruleset, &[], "CL-1031", "degraded", "landlock_create_ruleset"),
    ];
    for (call, arguments, code, state, words) in cases {
        says(&where_forbidden(*call, arguments), code, state, words);
    }
}

#[test]
fn without_any_program_the_kernel_steers() {
    let classic = where_arguments_are(&[(2, libc::SO_ATTACH_REUSEPORT_CBPF as u64)]);
    let told = below(&without(&[(libc::SYS_bpf, Vec::new()), (libc::SYS_setsockopt, classic)]), || doctor(&[]));
    says(&told, "CL-1010", "missing", "--steering auto is kernel");
}

#[test]
fn trains_that_the_kernel_does_not_take_are_told() {
    let told = below(&without(&[(libc::SYS_sendmsg, Vec::new()), (libc::SYS_sendmmsg, Vec::new())]), || doctor(&[]));
    says(&told, "CL-1009", "degraded", "UDP_SEGMENT");
}

#[test]
fn an_ordinary_user_is_told_what_it_may_not() {
    const TEST: &str = "doctor::an_ordinary_user_is_told_what_it_may_not";
    if !is_root(TEST) || !have(TEST, &["setpriv", "prlimit"]) {
        return;
    }
    let copy = Scratch::new();
    let wrapper = [&["prlimit", "--memlock=65536"], &AS_ORDINARY_USER[..]].concat();
    let (told, code) = doctor_of(&wrapper, &copy_for_all(&copy));
    assert_eq!(code, 3, "{told}");
    says(&told, "CL-1011", "degraded", "BPF");
    says(&told, "CL-1013", "degraded", "without CAP_BPF");
    says(&told, "CL-1016", "missing", "AF_PACKET");
    says(&told, "CL-1017", "missing", "CAP_NET_ADMIN");
    says(&told, "CL-1019", "degraded", "CAP_NET_BIND_SERVICE, CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF");
    says(&told, "CL-1020", "degraded", "64 KiB may be locked");
}

#[test]
fn limits_of_the_process_are_told() {
    const TEST: &str = "doctor::limits_of_the_process_are_told";
    if !have(TEST, &["prlimit", "taskset"]) {
        return;
    }
    says(&doctor(&["prlimit", "--nofile=320"]), "CL-1021", "degraded", "320 descriptors");
    if nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0))
        .is_ok_and(|set| set.is_set(0).unwrap() && set.is_set(1).unwrap())
    {
        says(&doctor(&["taskset", "-c", "0"]), "CL-1023", "degraded", "1 of ");
    } else {
        skip(TEST, "there are not two CPUs that it may use");
    }
}

#[test]
fn limits_of_the_control_group_are_told() {
    const TEST: &str = "doctor::limits_of_the_control_group_are_told";
    for (file, limit, code, words) in [
        ("memory.max", "104857600", "CL-1025", "half of the 100 MiB"),
        ("cpu.max", "100000 100000", "CL-1024", "pays for 1 of the "),
    ] {
        let Some(group) = Group::with(file, limit) else {
            return skip(TEST, &format!("it needs a control group with {file}"));
        };
        let enter = group.enter();
        says(&doctor(&["sh", "-c", &enter]), code, "degraded", words);
    }
}

/// What it says where a file of the kernel holds something else.
fn where_file_says(path: &str, text: &str) -> Value {
    let scratch = Scratch::new();
    let file = scratch.path().join("text");
    std::fs::write(&file, text).unwrap();
    let script = format!("mount --bind {} {path} && exec \"$0\" \"$@\"", file.display());
    doctor(&["unshare", "--mount", "sh", "-c", &script])
}

#[test]
fn what_the_kernel_says_of_itself_is_told() {
    const TEST: &str = "doctor::what_the_kernel_says_of_itself_is_told";
    if !is_root(TEST) || !have(TEST, &["unshare", "mount"]) {
        return;
    }
    let clock = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let cases = [
        ("/proc/sys/kernel/osrelease", "5.15.0-generic\n", "CL-1001", "missing", "older than 6.1"),
        ("/proc/sys/kernel/io_uring_disabled", "2\n", "CL-1006", "degraded", "kernel.io_uring_disabled is 2"),
        ("/proc/sys/net/core/rmem_max", "212992\n", "CL-1027", "degraded", "rmem_max is 212992"),
        ("/proc/cpuinfo", "flags\t\t: fpu hypervisor\n", "CL-1028", "degraded", "virtual machine"),
        (clock, "hpet\n", "CL-1029", "degraded", "hpet"),
    ];
    for (path, text, code, state, words) in cases {
        if !Path::new(path).exists() {
            skip(TEST, &format!("there is no {path}"));
            continue;
        }
        says(&where_file_says(path, text), code, state, words);
    }
}

#[test]
fn a_namespace_of_the_network_is_looked_at() {
    const TEST: &str = "doctor::a_namespace_of_the_network_is_looked_at";
    if !is_root(TEST) || !have(TEST, &["unshare", "ip"]) {
        return;
    }
    let script = "ip link set lo up && echo 16 > /proc/sys/net/core/somaxconn && exec \"$0\" \"$@\"";
    let told = doctor(&["unshare", "--net", "sh", "-c", script]);
    says(&told, "CL-1026", "degraded", "somaxconn is 16");
    assert_eq!((&line(&told, "CL-1030")["state"], &line(&told, "CL-1030")["words"]), (&"ok".into(), &"loopback only".into()));
    let script = "ip link set lo up && ip link add one type veth peer name two && ip address add 10.9.9.1/24 dev one && \
                  ip link set one up && ip link set two up && exec \"$0\" \"$@\"";
    let told = doctor(&["unshare", "--net", "sh", "-c", script]);
    let lanes = std::thread::available_parallelism().unwrap().get();
    if lanes > 1 {
        says(&told, "CL-1030", "degraded", "one has ");
    }
}

#[test]
fn a_folder_that_cannot_be_is_told() {
    let mut command = wrapped(&[], PROGRAM);
    let output = output(command.args(["doctor", "--json"]).env("CORELANE_RUN_DIR", "/proc/nowhere"));
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    says(&serde_json::from_slice(&output.stdout).unwrap(), "CL-1032", "missing", "/proc/nowhere");
}

#[test]
fn what_is_fine_needs_no_remedy_and_the_text_says_the_same() {
    let run = Scratch::new();
    let told = doctor(&[]);
    for line in told.as_array().unwrap().iter().filter(|line| line["state"] == "ok") {
        assert_eq!(line.as_object().unwrap().len(), 4, "{line}");
    }
    let output = output(wrapped(&[], PROGRAM).arg("doctor").env("CORELANE_RUN_DIR", run.path()));
    let text = String::from_utf8(output.stdout).unwrap();
    for line in told.as_array().unwrap() {
        let begins = format!(
            "{} {:<8} {}: ",
            line["code"].as_str().unwrap(),
            line["state"].as_str().unwrap(),
            line["name"].as_str().unwrap()
        );
        assert!(text.contains(&begins), "{begins:?}: {text}");
    }
    assert!(text.lines().all(|line| line.len() <= 120) && text.ends_with(" missing\n"), "{text}");
}

/// What it says of a configuration, and its exit code.
fn checked(wrapper: &[&str], arguments: &[&str]) -> (Value, i32) {
    let run = Scratch::new();
    let output = output(wrapped(wrapper, PROGRAM).args(["doctor", "--json"]).args(arguments).env("CORELANE_RUN_DIR", run.path()));
    let told = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (told, output.status.code().unwrap())
}

#[test]
fn an_interface_that_is_left_to_lanes_that_are_gone_is_named() {
    let test = "doctor::an_interface_that_is_left_to_lanes_that_are_gone_is_named";
    if !is_root(test) || !have(test, &["unshare", "mount", "ip", "ethtool"]) {
        return;
    }
    let left = "ip link add va type veth peer name vb && ip link set va up && ip link set vb up && ethtool -K va gro on \
        && mount -t sysfs sys /sys && cd /sys/class/net/va && echo 1 > napi_defer_hard_irqs && echo 20000000 > gro_flush_timeout \
        && exec \"$@\"";
    let (told, _) = checked(&["unshare", "--net", "--mount", "sh", "-c", left, "sh"], &[]);
    says(&told, "CL-1041", "degraded", "va: echo 0 > /sys/class/net/va/napi_defer_hard_irqs");
}

#[test]
fn every_subject_is_refused_in_a_test() {
    let tests = include_str!("doctor.rs");
    for subject in corelane::doctor::SUBJECTS {
        // Where it is asked for by name: what is fine is looked at by number.
        assert!(tests.contains(&format!("\"{}\", \"", subject.code())), "{} is never refused", subject.code());
    }
}

#[test]
fn calls_on_files_that_are_refused_are_told() {
    for (call, code, state, words) in [
        (libc::SYS_openat2, "CL-1033", "degraded", "component by component"),
        (libc::SYS_sendfile, "CL-1034", "missing", "sendfile"),
    ] {
        let (told, _) = below(&without(&[(call, Vec::new())]), || checked(&[], &[]));
        says(&told, code, state, words);
    }
}

#[test]
fn a_configuration_that_fits_is_fine() {
    let (told, code) = checked(&[], &["--", "--lanes", "1", "--limit", "connections_max=100", "--memory", "8MiB", TCP, UDP]);
    for code in (1101..=1109).chain([1120]) {
        assert_eq!(line(&told, &format!("CL-{code}"))["state"], "ok", "{told}");
    }
    assert_eq!(code, 0);
    // What the machine lacks and the configuration does not take is told, and decides nothing.
    let packets = where_arguments_are(&[(0, libc::AF_PACKET as u64)]);
    let (told, code) = below(&without(&[(libc::SYS_socket, packets)]), || checked(&[], &["--", "--lanes", "1", TCP]));
    says(&told, "CL-1016", "missing", "AF_PACKET");
    assert_eq!(code, 0);
}

#[test]
fn what_stands_in_the_way_of_a_configuration_is_told() {
    let cases: &[(&[&str], &str, &str)] = &[
        (&["echo=tls://127.0.0.1:0?certificate=/nowhere/cert.pem"], "CL-1101", "/nowhere/cert.pem"),
        (&["http=http://127.0.0.1:0?root=/nowhere"], "CL-1101", "/nowhere"),
        (&["--lanes", "0", TCP], "CL-1101", "0 is not a number of lanes"),
        (&["--nonsense", TCP], "CL-1101", "--nonsense"),
        (&["echo=tcp://192.0.2.7:0"], "CL-1104", "not an address of this machine"),
        (&["--receive-threads", "lo", TCP], "CL-1120", "as at loopback"),
        (&["--packet", "nosuch0,ip=10.9.9.9/24", "echo=udp://10.9.9.9:7?reflect"], "CL-1105", "no interface nosuch0"),
    ];
    for (arguments, code, words) in cases {
        let (told, exit) = checked(&[], &[&["--"], *arguments].concat());
        says(&told, code, "missing", words);
        assert_eq!(exit, 3, "{told}");
    }
    let (told, code) = checked(&[], &["--", "--lanes", "3", "--cpus", "0", "--limit", "connections_max=5", TCP]);
    says(&told, "CL-1108", "degraded", "some share one");
    assert_eq!(code, 0, "it would be served all the same: {told}");
}

#[test]
fn a_file_of_settings_is_checked_and_blamed_by_its_line() {
    let scratch = Scratch::new();
    let file = scratch.path().join("corelane.toml");
    std::fs::write(&file, "services = [\"echo=tcp://127.0.0.1:0\"]\nlanes = 0\n").unwrap();
    let (told, code) = checked(&[], &["--config", file.to_str().unwrap()]);
    says(&told, "CL-1101", "missing", "0 is not a number of lanes");
    assert_eq!(code, 3);
    std::fs::write(&file, "services = [\"echo=tcp://127.0.0.1:0\"]\nspinn = 0\n").unwrap();
    says(&checked(&[], &["--config", file.to_str().unwrap()]).0, "CL-1101", "missing", "corelane.toml:2:1");
}

#[test]
fn who_has_a_port_is_told() {
    let server = Server::start(&[TCP]);
    let taken = format!("echo={}", server.urls[0]);
    let free = "echo=tcp://127.0.0.1:0";
    let (told, code) = checked(&[], &["--", free, &taken]);
    says(&told, "CL-1104", "missing", &format!("process {} (corelane) serves this port", server.child.id()));
    assert_eq!(code, 3);
}

#[test]
fn a_driver_that_is_refused_is_told() {
    let forbidden = without(&[(libc::SYS_io_uring_setup, Vec::new()), (libc::SYS_bpf, Vec::new())]);
    let (told, _) = below(&forbidden, || checked(&[], &["--", "--driver", "uring", "--steering", "program", TCP]));
    says(&told, "CL-1102", "missing", "uring was asked for by name");
    says(&told, "CL-1103", "missing", "forbidden");
}

#[test]
fn pages_that_are_not_to_be_had_are_told() {
    let forbidden = without(&[(libc::SYS_mlock2, Vec::new())]);
    let asked = |wish| below(&forbidden, || checked(&[], &["--", "--lanes", "1", "--locked-memory", wish, TCP]));
    let (told, code) = asked("auto");
    says(&told, "CL-1109", "degraded", "raise the limit of locked memory");
    assert_eq!(code, 0, "{told}");
    let (told, code) = asked("required");
    says(&told, "CL-1109", "missing", "raise the limit of locked memory");
    assert_eq!(code, 3, "{told}");
}

#[test]
fn limits_that_the_descriptors_do_not_allow_are_told() {
    const TEST: &str = "doctor::limits_that_the_descriptors_do_not_allow_are_told";
    if !have(TEST, &["prlimit"]) {
        return;
    }
    let arguments = ["--", "--lanes", "1", "--limit", "connections_max=1000", TCP];
    let (told, code) = checked(&["prlimit", "--nofile=320"], &arguments);
    says(&told, "CL-1106", "degraded", "may have 320 descriptors");
    assert_eq!(code, 0);
}

#[test]
fn memory_that_the_control_group_does_not_allow_is_told() {
    const TEST: &str = "doctor::memory_that_the_control_group_does_not_allow_is_told";
    let Some(group) = Group::with("memory.max", "104857600") else {
        return skip(TEST, "it needs a control group with memory.max");
    };
    let enter = group.enter();
    let (told, _) = checked(&["sh", "-c", &enter], &["--", "--lanes", "2", TCP]);
    says(&told, "CL-1107", "degraded", "more than a half of the 100 MiB");
}
