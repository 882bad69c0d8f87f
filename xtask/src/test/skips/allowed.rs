//! Which tests may skip themselves, and what a machine must lack for that.
//!
//! A skip hides a regression where the machine has what the test needs: a probe that is wrong says "not here" for good, and nobody looks. So on a machine on which everything may be
//! done (root, in the first user namespace, without a filter of system calls) each skip must stand in [`RULES`], and what it says must be so. Elsewhere any test may skip.

use std::path::Path;

use nix::unistd::geteuid;

use super::Skip;

/// Tests that may be skipped.
struct Rule {
    /// Their names; `*` stands for anything.
    names: &'static str,
    /// What they say.
    reason: &'static str,
    lack: Lack,
}

/// What a machine must lack.
enum Lack {
    /// The program that the reason names: its first word that is none of [`FILLERS`].
    Program,
    /// The file, or folder.
    File(&'static str),
    /// More than one CPU.
    Cpus,
    /// io_uring(7), where the kernel was told so.
    Uring,
    /// What cannot be looked for from here; the reason is believed.
    Said,
}

const fn rule(names: &'static str, reason: &'static str, lack: Lack) -> Rule {
    Rule { names, reason, lack }
}

/// Words before the name of a program.
const FILLERS: [&str; 6] = ["there", "is", "no", "needs", "the", "program"];

const RULES: &[Rule] = &[
    // Programs and libraries: what `packages.rs` lists is installed in CI, or its lack is a failure of its own.
    rule("*", "* is not installed", Lack::Program),
    rule("*", "there is no *: apt-get install *", Lack::Program),
    rule("*", "there is no *", Lack::Program),
    rule("*", "needs the program *", Lack::Program),
    rule("package::*", "needs dpkg-dev and binutils", Lack::File("/usr/bin/dpkg-shlibdeps")),
    rule("package::*", "the program is not built: *", Lack::Said),
    rule("dpdk_computes_the_same_hashes", "*", Lack::File("/usr/include/dpdk/rte_thash.h")),
    rule("*", "libtirpc-dev is not installed", Lack::File("/usr/include/tirpc/rpc/rpc.h")),
    rule("*", "Python's * is not installed", Lack::Said),
    rule("*scapy*", "there is no Scapy in the Python environment *", Lack::Said),
    rule("manifests::*", "there is no kubernetes-validate in the Python environment *", Lack::Said),
    rule("manifests::*", "nginx has no module for streams", Lack::File("/usr/lib/nginx/modules/ngx_stream_module.so")),
    rule("*", "there is no python3 with xdrlib, *", Lack::Said),
    rule("*", "*'s source cannot be had: *", Lack::Said),
    // Kinds of drivers whose suite lists what they cannot run.
    rule("on_sim*::*", "*", Lack::Said),
    rule("on_*::a_disk_that_fails_ends_a_file", "its disks do not fail when they are told to", Lack::Said),
    // Parts of the kernel, some of which have no name that could be looked for.
    rule("*", "*io_uring*", Lack::Uring),
    rule("*::on_uring::*", "*", Lack::Uring),
    rule("btf::tests::this_kernel_is_read", "*", Lack::File("/sys/kernel/btf/vmlinux")),
    rule("*", "the kernel does not tell this process *", Lack::File("/proc/net/connector")),
    rule("rig::a_vlan_is_on_the_wire", "this kernel has no VLAN interfaces *", Lack::Said),
    rule("*", "this kernel makes no VXLAN devices", Lack::Said),
    rule("afxdp::*", "this kernel or veth tells programs nothing (Linux 6.8)", Lack::Said),
    rule("facts::packets_of_a_vlan_are_the_kernels", "*", Lack::Said),
    rule("facts::a_train_of_datagrams_is_counted_as_too_long", "this kernel sends no trains of datagrams", Lack::Said),
    rule("afxdp::a_port_that_takes_packets_in_by_itself_*", "*", Lack::Said),
    rule("afxdp::*", "ethtool cannot change queues: *", Lack::Said),
    rule("frames_are_emitted_as_often_as_is_said", "this kernel emits no frames: *", Lack::Said),
    rule("slow_device::*", "no file system of one's own can be mounted (/dev/fuse)", Lack::File("/dev/fuse")),
    rule("paths::tests::*", "no landlock", Lack::Said),
    rule("*", "no user namespace can be made here", Lack::File("/proc/self/ns/user")),
    // How the machine is set up.
    rule("*", "*two CPUs*", Lack::Cpus),
    rule("*", "this machine has no CPU 1, or no XPS", Lack::Said),
    rule("*", "*control group*", Lack::Said),
    rule("*", "no root of its own can be made here: *", Lack::Said),
    rule("*", "it needs * descriptors, and the limit is *", Lack::Said),
    rule("*", "this process may lock any amount (ulimit -l)", Lack::Said),
    rule("rig::a_guest_runs_a_program_under_its_own_kernel", "it needs qemu-system-x86, *", Lack::Said),
    rule("card::what_a_card_reads_*", "it needs qemu-system-x86, *", Lack::Said),
    rule("card::*", "no card is named by CORELANE_CARD, *", Lack::Said),
    rule("*", "how a thread is made to call is known for x86-64 alone", Lack::Said),
];

/// Why a skip is a failure; none where it may be.
pub fn fault(skip: &Skip) -> Option<&'static str> {
    if !is_whole() {
        return None;
    }
    judged(skip)
}

fn judged(skip: &Skip) -> Option<&'static str> {
    let matching = || RULES.iter().filter(|rule| matches(rule.names, &skip.name) && matches(rule.reason, &skip.reason));
    if matching().any(|rule| rule.lack.is_so(&skip.reason)) {
        return None;
    }
    match matching().next() {
        Some(_) => Some("but this machine has what it says is missing"),
        None => Some("but no rule of xtask/src/test/skips/allowed.rs lets it: add what a machine must lack for it"),
    }
}

impl Lack {
    fn is_so(&self, reason: &str) -> bool {
        match self {
            Self::Program => !is_installed(program_of(reason)),
            Self::File(path) => !Path::new(path).exists(),
            Self::Cpus => std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1),
            Self::Uring => read("/proc/sys/kernel/io_uring_disabled").trim() != "0",
            Self::Said => true,
        }
    }
}

/// The program that a reason names, or what stands in its place.
fn program_of(reason: &str) -> &str {
    let words = reason.split([' ', ':', ',']).filter(|word| !word.is_empty());
    words.into_iter().find(|word| !FILLERS.contains(word)).unwrap_or_default()
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Whether everything may be done here.
fn is_whole() -> bool {
    // The first user namespace of a machine has this number (include/uapi/linux/nsfs.h).
    let is_first = std::fs::read_link("/proc/self/ns/user").is_ok_and(|link| link.as_os_str() == "user:[4026531837]");
    let is_unfiltered = read("/proc/self/status").lines().any(|line| line.split_whitespace().eq(["Seccomp:", "0"]));
    geteuid().is_root() && is_first && is_unfiltered
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Whether `text` is what `pattern` says, in which `*` stands for anything.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(head) else { return false };
    rest.is_empty() || text.char_indices().any(|(at, _)| matches(rest, &text[at..])) || matches(rest, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, reason: &str) -> Option<&'static str> {
        judged(&Skip { name: name.to_owned(), reason: reason.to_owned() })
    }

    #[test]
    fn patterns_match_whole_texts() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*c", "acd", false),
            ("*b", "aab", true),
            ("a", "ab", false),
            ("*::on_uring::*", "drain::on_uring::x", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn what_is_missing_may_be_said_and_what_is_there_not() {
        for reason in ["{} is not installed", "there is no {}: apt-get install -y x", "needs the program {}", "there is no {}"] {
            assert_eq!(of("a", &reason.replace("{}", "no-such-program")), None, "{reason}");
            assert!(of("a", &reason.replace("{}", "sh")).is_some_and(|fault| fault.contains("has what")), "{reason}");
        }
        assert_eq!(of("card::reads", "no card is named by CORELANE_CARD, as in a guest"), None);
    }

    #[test]
    fn a_skip_that_stands_nowhere_is_a_failure() {
        assert!(of("a", "it is Monday").is_some_and(|fault| fault.contains("no rule")));
        assert!(of("drain::on_epoll::x", "this kernel is odd").is_some());
    }
}
