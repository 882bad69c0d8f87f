//! The programs that tests run, and where they come from: Debian, and for Python libraries what stands in `python`.

use std::path::Path;
use std::process::Command;

use nix::unistd::geteuid;

use super::lacking::{installed, missing};
use super::share::Share;
use super::{process, python};
use crate::workspace::cargo;
use xtask::rig;

/// Most seconds that installing may take, all of it. DPDK comes in some 200 packages, and the build takes the CPUs meanwhile.
pub const SECONDS: u64 = 500;

/// Program and the Debian package that holds it.
const PROGRAMS: &[(&str, &str)] = &[
    ("ab", "apache2-utils"),
    ("chromium", "chromium"),
    ("curl", "curl"),
    ("dhclient", "isc-dhcp-client"),
    ("dnsmasq", "dnsmasq-base"),
    ("dpkg-source", "dpkg-dev"),
    ("dpkg-shlibdeps", "dpkg-dev"),
    ("ethtool", "ethtool"),
    ("git", "git"),
    ("h2load", "nghttp2-client"),
    ("haproxy", "haproxy"),
    ("httperf", "httperf"),
    ("ip", "iproute2"),
    ("lighttpd", "lighttpd"),
    ("nc", "netcat-openbsd"),
    ("ncat", "ncat"),
    ("nft", "nftables"),
    ("nginx", "nginx"),
    ("openssl", "openssl"),
    ("pkg-config", "pkg-config"),
    ("python3", "python3"),
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("rclone", "rclone"),
    ("rpcbind", "rpcbind"),
    ("siege", "siege"),
    ("socat", "socat"),
    ("strace", "strace"),
    ("strip", "binutils"),
    ("tcpdump", "tcpdump"),
    ("udhcpc", "udhcpc"),
    ("udhcpd", "udhcpd"),
    ("wrk", "wrk"),
    ("xsubpp", "perl"),
];

/// Module of Python's own library and the Debian package that holds it.
const MODULES: &[(&str, &str)] = &[("ensurepip", "python3-venv")];

/// File that no program stands for, and the Debian package that holds it.
const FILES: &[(&str, &str)] =
    &[("/usr/include/dpdk/rte_thash.h", "libdpdk-dev"), ("/usr/include/tirpc/rpc/rpc.h", "libtirpc-dev")];

/// Parts of the Rust toolchain, by the cargo command that each brings.
const COMPONENTS: &[(&str, &str)] = &[("fmt", "rustfmt"), ("clippy", "clippy")];

/// Says what is missing and how to get it; installs the packages if asked to, or as root where `CI=true`.
///
/// Returns what was to be installed and is not there afterwards. Where nothing was to be installed, what is missing is no
/// failure: the tests that need it skip themselves by name.
pub fn prepare(install: bool, target: &Path) -> anyhow::Result<Vec<&'static str>> {
    let (install, share) = (install || in_ci(), Share::new(SECONDS));
    let components: Vec<_> = COMPONENTS.iter().filter(|(command, _)| !answers(command)).collect();
    for (_, component) in components {
        println!("missing: {component}; get it with: rustup component add {component}");
    }
    if !install {
        let packages = absent();
        if !packages.is_empty() {
            advise(&packages);
        }
        return python::prepare(false, target, &share);
    }
    let mut lacking = installed(absent, |packages| self::install(packages, &share))?;
    lacking.extend(python::prepare(true, target, &share)?);
    // Which kernels there are changes with Debian: where this one is not to be had any more, tests of guests say so.
    if let Err(why) = rig::prepare_guest() {
        println!("no kernel for guests, their tests are skipped: {why:#}");
    }
    Ok(lacking)
}

/// The packages of what tests run and is not there.
fn absent() -> Vec<&'static str> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(&paths).collect();
    let mut packages = missing(PROGRAMS, |program| folders.iter().any(|f| is_file(f, program)));
    packages.extend(missing(FILES, |file| Path::new(file).is_file()));
    packages.extend(missing(MODULES, |module| python::imports(Path::new("python3"), module)));
    packages
}

fn answers(command: &str) -> bool {
    let output = cargo().args([command, "--version"]).output();
    output.is_ok_and(|output| output.status.success())
}

fn is_file(folder: &Path, program: &str) -> bool {
    folder.join(program).is_file()
}

/// Whether this is a machine of nobody's, made for one run.
pub fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|ci| ci == "true") && geteuid().is_root()
}

fn advise(packages: &[&str]) {
    println!("missing programs, their tests are skipped; get them with --install or:");
    println!("  apt-get update && apt-get install -y {}", packages.join(" "));
}

fn install(packages: &[&str], share: &Share) -> anyhow::Result<()> {
    let script = "apt-get update && apt-get install -y --no-install-recommends \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "install"]).args(packages);
    command.env("DEBIAN_FRONTEND", "noninteractive");
    let outcome = process::run(command, share)?;
    if outcome.success {
        println!("installed: {}", packages.join(" "));
    } else {
        print!("{}", outcome.output);
        advise(packages);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_missing_programs_are_named() {
        assert_eq!(missing(PROGRAMS, |program| program != "nc"), ["netcat-openbsd"]);
        assert!(missing(PROGRAMS, |_| true).is_empty());
    }

    #[test]
    fn what_an_installation_leaves_missing_is_named() {
        let there = std::cell::Cell::new(false);
        let absent = || if there.get() { Vec::new() } else { vec!["ncat"] };
        assert_eq!(installed(absent, |_| Ok(())).unwrap(), ["ncat"]);
        let put = |packages: &[&str]| {
            there.set(packages == ["ncat"]);
            Ok(())
        };
        assert!(installed(absent, put).unwrap().is_empty() && there.get());
        let again = |_: &[&str]| panic!("nothing is missing");
        assert!(installed(absent, again).unwrap().is_empty());
    }

    #[test]
    fn what_the_tests_of_the_hash_compare_with_is_on_the_list() {
        assert_eq!(missing(FILES, |file| !file.contains("dpdk")), ["libdpdk-dev"]);
    }

    #[test]
    fn programs_are_files() {
        assert!(is_file(Path::new("/bin"), "sh"));
        assert!(!is_file(Path::new("/"), "bin"));
    }

    #[test]
    fn this_toolchain_answers() {
        assert!(answers("fmt"));
        assert!(!answers("no-such-command"));
    }
}
