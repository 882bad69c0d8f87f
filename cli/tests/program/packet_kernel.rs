//! Corelane's stack beside the kernel's: the same packets are sent to both, and each difference between their answers has its reason here.

use crate::common::*;
use crate::packet::{can_run, ends, exec_in};
use std::process::Command;

on_each_driver!(the_stack_answers_as_the_kernels_does);

/// A wire to the stack, and one to the kernel, which knows the asker there; what it says of errors is not limited.
const WIRES: &str = "ip link set lo up && ip link add va type veth peer name vb && ip link add ka type veth peer name kb \
    && for end in va vb kb; do echo 1 > /proc/sys/net/ipv6/conf/$end/disable_ipv6; done && for end in va vb ka kb; do ip link set $end up; done \
    && ip addr add 10.8.0.2/24 dev ka && ip -6 addr add fd08::2/64 dev ka nodad \
    && asker=$(ip -o link show kb | sed 's/.*ether \\([0-9a-f:]*\\).*/\\1/') \
    && ip neigh replace 10.8.0.1 lladdr $asker dev ka && ip -6 neigh replace fd08::1 lladdr $asker dev ka \
    && echo 0 > /proc/sys/net/ipv4/icmp_ratelimit && echo 0 > /proc/sys/net/ipv6/icmp/ratelimit";
const SERVICES: [&str; 4] = [
    "echo=udp://10.9.0.2:60007?reflect",
    "echo=udp://[fd09::2]:60007?reflect",
    "echo=udp://10.8.0.2:60007?reflect",
    "echo=udp://[fd08::2]:60007?reflect",
];

/// Differences that stay: of which packets (the family, what was done with them, what they carry; of what keeps a link going, its name; `*` is any), what the stack answers, what the kernel does, and why
/// that is so.
const DIFFERENCES: &[(&str, &str, &str, &str, &str, &str)] = &[
    ("*", "*", "echo-code", "nothing", "echo/8", "an echo has code 0 (RFC 792; RFC 4443, section 4.1): another is none"),
    (
        "v4",
        "*",
        "stamp",
        "nothing",
        "icmp/14.0",
        "a host may answer the question for its time (RFC 1122, section 3.2.2.8); this one does not",
    ),
    (
        "v4",
        "from-network-all",
        "*",
        "nothing",
        "*",
        "who sends from the address of all stations is not answered (RFC 1122, section 3.2.1.3)",
    ),
    (
        "*",
        "mac-all",
        "*",
        "nothing",
        "*",
        "what comes to all of the link, for one host, is answered by nobody (RFC 1122, section 3.3.6; RFC 4443, section 2.4)",
    ),
    ("v4", "source-route", "*", "icmp/3.5", "nothing", "a source route that ends elsewhere is told of (RFC 1122, section 3.3.5)"),
    (
        "v6",
        "to-all|to-solicited",
        "echo|echo-code",
        "nothing",
        "echo/8",
        "of what comes to groups AF_XDP gives lanes neighbour discovery; the rest is the kernel's",
    ),
    (
        "v6",
        "hop-options-later",
        "*",
        "nothing",
        "icmp/4.1@40",
        "nobody sends such a packet in earnest: it is dropped, and counted as malformed",
    ),
    (
        "v6",
        "fragment-beyond",
        "icmp-42",
        "nothing",
        "icmp/4.0@42",
        "numbers below 128 are errors, of which no error is sent (RFC 4443, section 2.4)",
    ),
    ("link", "arp-claim", "*", "announces", "nothing", "an address that is claimed is defended (RFC 5227, section 2.4)"),
    ("link", "advertisement-claim", "*", "advertises-to-all", "nothing", "the same for IPv6"),
    ("v6", "fragment-odd", "tcp-cut", "icmp/4.0@4", "icmp/4.3@0", "two things are wrong, and the length is looked at first"),
];

fn is_known(line: &str) -> bool {
    let Some((packet, answers)) = line.split_once(": ") else { return false };
    let Some((ours, kernels)) = answers.split_once(", not ") else { return false };
    let words: Vec<&str> = packet.split(' ').collect();
    DIFFERENCES.iter().any(|(family, shape, protocol, our, kernel, _)| {
        let are_these = [(family, words[0]), (shape, words[1]), (protocol, words[2]), (our, ours), (kernel, kernels)];
        are_these.into_iter().all(|(known, found)| known.split('|').any(|known| known == "*" || known == found))
    })
}

fn the_stack_answers_as_the_kernels_does(driver: Driver) {
    let test = "packet_kernel::the_stack_answers_as_the_kernels_does";
    if !can_run(&driver.case(test)) {
        return;
    }
    let script = exec_in(WIRES, "");
    let wrapper = ["unshare", "--net", "sh", "-c", &script];
    let arguments = [&["--lanes", "1", "--packet", "va,ip=10.9.0.2/24,ip=fd09::2/64"][..], &SERVICES].concat();
    let Some(server) = driver.start_under(test, &wrapper, &arguments) else { return };
    let said = in_network_of(server.pid(), || {
        let mac = |end: &str| {
            let shown = output(Command::new("ip").args(["-o", "link", "show", end]));
            let shown = String::from_utf8(shown.stdout).unwrap();
            shown.split_once("ether ").unwrap().1[..17].to_owned()
        };
        let mut asking = Command::new("python3");
        asking.args(["-c", include_str!("packet_kernel.py")]);
        asking.args(["vb", &mac("va"), "10.9.0.2", "fd09::2", "kb", &mac("ka"), "10.8.0.2", "fd08::2"]);
        output(&mut asking)
    });
    assert!(said.status.success(), "{said:?}");
    let said = String::from_utf8(said.stdout).unwrap();
    // Each has its reason.
    assert!(DIFFERENCES.iter().all(|(.., why)| !why.is_empty()));
    let (count, different) = {
        let mut lines: Vec<&str> = said.lines().collect();
        (lines.pop().unwrap().parse::<usize>().unwrap(), lines)
    };
    let unknown: Vec<_> = different.into_iter().filter(|line| !is_known(line)).collect();
    assert!(unknown.is_empty(), "{} of {count} packets:\n{}", unknown.len(), unknown.join("\n"));
    assert!(count > 1500, "{count}");
    ends(server);
}
