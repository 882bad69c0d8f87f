//! The unit that the package installs, under a systemd of its own: the first process of namespaces in which nothing else runs.

use crate::common::*;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const SYSTEMD: &str = "/lib/systemd/systemd";

/// Makes a root of its own upon the machine's, which stays as it is, and becomes systemd there. `$1` is the test's folder, `$2` the program.
const BEGIN: &str = r#"
set -e
root=$1/root
mount --make-rprivate /
mount -t tmpfs tmpfs "$root"
mkdir "$root/upper" "$root/work" "$root/all"
mount -t overlay overlay -o "lowerdir=/,upperdir=$root/upper,workdir=$root/work" "$root/all"
root=$root/all
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
umount -l "$root/sys/fs/cgroup" || true
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
mount --rbind /dev "$root/dev"
mkdir -p "$root/told" "$root/etc/corelane" "$root/etc/systemd/system"
mount --bind "$1/told" "$root/told"
touch "$root/usr/bin/corelane"
mount --bind "$2" "$root/usr/bin/corelane"
rm -rf "$root"/etc/systemd/system/*
cp -r "$1"/units/* "$root/etc/systemd/system/"
cp "$1/corelane.toml" "$root/etc/corelane/"
ip link set lo up
touch "$1/told/begun"
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" "$3" --system --unit=asked.target --log-target=null --show-status=no
"#;

/// What is asked of systemd and of the program, and what came of it, a line each.
const ASK: &str = r#"
say() { echo "$@" >> /told/log; }
of() { systemctl show corelane -p "$1" --value; }
connect() { exec 3<>/dev/tcp/127.0.0.1/7007; }
echoed() { echo "$1" >&3 && read -t 60 -u 3 answer && test "$answer" = "$1"; }
ask() { connect && echoed "$1"; }
say started $(systemctl is-active corelane): $(of StatusText)
ask one && say answered
sed -i s/10m/11m/ /etc/corelane/corelane.toml
systemctl reload corelane
until grep -q "the limits of time are changed" /told/err; do sleep 0.1; done
until test $(systemctl is-active corelane) = active; do sleep 0.1; done
ask two && say reloaded
first=$(of MainPID)
kill -STOP $first
until test $(of MainPID) != $first && test $(systemctl is-active corelane) = active; do sleep 0.5; done
ask three && say started again $(of NRestarts)
systemctl stop corelane
say ended: $(of Result) $(of ExecMainStatus)
corelane doctor > /told/doctor
systemctl start corelane.socket
ask four && say activated
systemctl restart corelane &
# None is refused. Whose connection was accepted when the drain began, and whose question was not readable yet, asks again.
for number in 1 2 3 4 5 6 7 8 9 10; do
  connect || say refused
  echoed $number || ask $number || say lost
done
wait
say restarted $(systemctl is-active corelane)
systemctl exit 0
"#;

const UNITS: [(&str, &str); 3] = [
    ("asked.target", "[Unit]\nDefaultDependencies=no\nWants=corelane.service asks.service\n"),
    (
        "asks.service",
        "[Unit]\nDefaultDependencies=no\nAfter=corelane.service\n[Service]\nType=oneshot\nExecStart=/bin/bash /told/ask\n",
    ),
    ("corelane.socket", "[Unit]\nDefaultDependencies=no\n[Socket]\nListenStream=127.0.0.1:7007\n"),
];
/// The unit as it is, but without what else would start, with a watchdog that bites soon, and lines where the test reads them.
const SOONER: &str = "[Unit]\nDefaultDependencies=no\n[Service]\nWatchdogSec=10s\nTimeoutAbortSec=1s\n\
     StandardError=append:/told/err\nStandardOutput=append:/told/out\n";

fn prepare(folder: &Path) {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/corelane.service");
    let units = folder.join("units");
    for made in ["root", "told", "units/corelane.service.d"] {
        fs::create_dir_all(folder.join(made)).unwrap();
    }
    fs::copy(unit, units.join("corelane.service")).unwrap();
    fs::write(units.join("corelane.service.d/sooner.conf"), SOONER).unwrap();
    UNITS.iter().for_each(|(name, words)| fs::write(units.join(name), words).unwrap());
    // Another user than the unit's: it is that one's process which the unit tells to reload.
    let settings = "services = [\"echo=tcp://127.0.0.1:7007\"]\nlanes = 1\nuser = \"65534\"\n[limit]\nidle_limit = \"10m\"\n";
    fs::write(folder.join("corelane.toml"), settings).unwrap();
    fs::write(folder.join("told/ask"), ASK).unwrap();
}

#[test]
fn the_unit_starts_reloads_is_watched_and_activated() {
    let test = "systemd::the_unit_starts_reloads_is_watched_and_activated";
    if !is_root(test) || !have(test, &["unshare", "timeout", "systemctl", "chroot", "ip"]) {
        return;
    }
    if !Path::new(SYSTEMD).exists() {
        return skip(test, "systemd is not installed");
    }
    let folder = Scratch::new();
    prepare(folder.path());
    let mut command = Command::new("timeout");
    command.args(["--kill-after=1", "300", "unshare", "--pid", "--fork", "--kill-child", "--mount", "--uts", "--ipc", "--net"]);
    command.args(["--cgroup", "bash", "-c", BEGIN, "bash"]).arg(folder.path()).args([PROGRAM, SYSTEMD]);
    // It takes longer than other commands do, and has an end of its own.
    let done = command.stdin(Stdio::null()).output().unwrap();
    if !folder.path().join("told/begun").exists() {
        return skip(test, &format!("no root of its own can be made here: {}", String::from_utf8_lossy(&done.stderr)));
    }
    let read = |name: &str| fs::read_to_string(folder.path().join("told").join(name)).unwrap_or_default();
    let told = read("log");
    let lines: Vec<&str> = told.lines().collect();
    let [started, rest @ ..] = &lines[..] else { panic!("nothing was told: {done:?} {}", read("err")) };
    assert!(started.starts_with("started active: serving: lanes 1, driver "), "{told}{}", read("err"));
    let expected = ["answered", "reloaded", "started again 1", "ended: success 0", "activated", "restarted active"];
    assert_eq!(rest, expected, "{}", read("err"));
    // The unit's filter of calls lets the program confine itself as it would without one.
    let notes = read("out");
    assert!(notes.contains("ready") && !notes.contains("CL-0017"), "{notes}");
    assert!(!notes.contains("CL-0016") || !read("doctor").contains("CL-1031 ok"), "{notes}");
}
