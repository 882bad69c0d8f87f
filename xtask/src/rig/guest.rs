//! A guest: one of Debian's kernels in QEMU, whose card is virtio with several queues and RSS, and in which one program of this machine runs.
//!
//! ```text
//! target/guest: kernel, modules, busybox   taken out of Debian's packages, which are not installed
//! this process: those, the program and its libraries -> archive in memory -> QEMU: -initrd /proc/PID/fd/N
//! guest: /init -> modules, eth0 (10.9.0.2) -> the program; what it says and its status come by the first serial line
//! ```
//!
//! The card's other end is the tap `near` (10.9.0.1) of the rig's namespace. Nothing is written but `target/guest`; the guest ends with this process.
//!
//! The card is told to go by the guest's DMA interface (`iommu_platform`), without which no kernel maps memory of a process for it: so AF_XDP is zero-copy
//! there with kernels that have it (6.11 and later). Whatever the card sends it reads from where it lies, as long as nobody in the guest listens to all
//! interfaces. The program finds the card's name in `CORELANE_CARD`, and variables of this process whose names begin with `CORELANE_CARD_`.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::archive::Archive;
use super::kept::{Kept, said};
use super::namespaces::Rig;

/// Modules of the guest, by their names in the kernel's folder. They are loaded in several passes, for which needs which differs from one kernel to the
/// next. What this kernel has built in is left out.
const MODULES: [&str; 17] = [
    "virtio",
    "virtio_ring",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "failover",
    "net_failover",
    "virtio_net",
    "tun",
    "veth",
    "llc",
    "stp",
    "mrp",
    "garp",
    "8021q",
    "udp_tunnel",
    "ip6_udp_tunnel",
];
/// Programs that the guest has beside busybox, if this machine has them: those that tests of interfaces call.
const PROGRAMS: [&str; 4] = ["ip", "ethtool", "setpriv", "unshare"];
/// What stands in front of the program's status on the line.
const STATUS: &str = "the guest's program ended with ";
/// Where the program lies in the guest.
const PROGRAM: &str = "/program";
const MEMORY_MIB: u32 = 2048;
/// How variables begin that the program has there as this process has them here.
const TOLD: &str = "CORELANE_CARD_";

/// Runs a program of this machine in a guest whose card has so many queues; its status is this program's.
///
/// # Errors
/// What is missing, with the remedy; a guest that ends before its program does.
pub fn run(kept: &Kept, rig: &Rig, queues: u16, words: &[String]) -> Result<ExitCode> {
    let (program, arguments) = words.split_first().context("a guest runs a program: name it behind --")?;
    let image = image(kept, program, arguments, queues)?;
    let mut command = rig.command(&line(kept, &image, queues));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("setpriv (package util-linux)")?;
    // reason: it was asked for.
    let output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut status = None;
    for line in output.split(b'\n') {
        let line = line.context("the guest's serial line")?;
        let text = String::from_utf8_lossy(&line);
        match text.trim_end_matches('\r').split_once(STATUS) {
            Some((_, number)) => status = number.trim().parse::<u8>().ok(),
            None => writeln!(std::io::stdout(), "{}", text.trim_end_matches('\r'))?,
        }
    }
    child.wait().context("qemu-system-x86_64")?;
    status.map(ExitCode::from).context("the guest ended before its program: what it said last is above")
}

/// The words that start QEMU, which emulates the processor: so it works wherever programs run, and alike.
fn line(kept: &Kept, image: &File, queues: u16) -> Vec<String> {
    let initrd = format!("/proc/{}/fd/{}", std::process::id(), image.as_raw_fd());
    let netdev = format!("tap,id=near,ifname=near,script=no,downscript=no,vhost=off,queues={queues}");
    let device = format!(
        "virtio-net-pci,netdev=near,mq=on,rss=on,hash=on,vectors={},mac=02:00:00:00:09:02,iommu_platform=on,disable-legacy=on",
        2 * queues + 2
    );
    let [memory, processors] = [MEMORY_MIB.to_string(), queues.to_string()];
    let kernel = kept.kernel.display().to_string();
    [
        "qemu-system-x86_64",
        "-accel",
        "tcg",
        "-cpu",
        "max,arch-capabilities=off",
        "-m",
        &memory,
        "-smp",
        &processors,
        "-nodefaults",
        "-display",
        "none",
        "-no-reboot",
        "-serial",
        "stdio",
        "-netdev",
        &netdev,
        "-device",
        &device,
        "-kernel",
        &kernel,
        "-initrd",
        &initrd,
        "-append",
        "console=ttyS0 loglevel=3 panic=-1 rdinit=/init",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// The guest's first files, in memory.
fn image(kept: &Kept, program: &str, arguments: &[String], queues: u16) -> Result<File> {
    let mut archive = Archive::default();
    for folder in ["dev", "proc", "sys", "tmp", "run", "etc", "modules"] {
        archive.folder(folder);
    }
    archive.file("bin/busybox", &fs::read(&kept.busybox)?, true);
    let modules = said("find", Command::new("find").arg(&kept.modules).args(["-name", "*.ko", "-o", "-name", "*.ko.xz"]))?;
    for (number, name) in MODULES.iter().enumerate() {
        let [plain, packed] = [format!("/{name}.ko"), format!("/{name}.ko.xz")];
        if let Some(path) = modules.lines().find(|path| path.ends_with(&plain) || path.ends_with(&packed)) {
            archive.file(&format!("modules/{number:02}.ko"), &unpacked(path)?, false);
        }
    }
    let program = found(program).with_context(|| format!("{program} is no program of this machine"))?;
    archive.file(PROGRAM, &fs::read(&program)?, true);
    let beside: Vec<PathBuf> = PROGRAMS.into_iter().filter_map(found).collect();
    for path in beside.iter().chain(&libraries(std::iter::once(&program).chain(&beside))?) {
        archive.file(&path.display().to_string(), &fs::read(path)?, true);
    }
    archive.file("init", init(arguments, queues).as_bytes(), true);
    let image = File::from(memfd_create(c"guest", MFdFlags::MFD_CLOEXEC).context("memfd_create(2)")?);
    (&image).write_all(&archive.finish()).context("the guest's files")?;
    Ok(image)
}

/// What is in a file, which may be packed.
fn unpacked(path: &str) -> Result<Vec<u8>> {
    if !path.ends_with(".xz") {
        return Ok(fs::read(path)?);
    }
    let output = Command::new("xz").args(["--decompress", "--stdout", path]).output().context("xz (package xz-utils)")?;
    ensure!(output.status.success(), "xz: {path}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(output.stdout)
}

/// The file of a program, by its path or its name.
fn found(program: &str) -> Option<PathBuf> {
    let places = std::env::var("PATH").unwrap_or_default();
    let places = places.split(':').chain(["/usr/sbin", "/sbin"]).map(|place| Path::new(place).join(program));
    std::iter::once(PathBuf::from(program)).filter(|path| path.components().count() > 1).chain(places).find(|path| path.is_file())
}

/// The libraries that programs are linked with, and who links them.
fn libraries<'a>(programs: impl Iterator<Item = &'a PathBuf>) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for program in programs {
        // A program that is linked with none has ldd fail.
        let output = Command::new("ldd").arg(program).output().context("ldd (package libc-bin)")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        found.extend(text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from));
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// What the guest's first process does, as a shell's words.
fn init(arguments: &[String], queues: u16) -> String {
    let quoted = |word: &str| format!("'{}'", word.replace('\'', r"'\''"));
    let arguments = arguments.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    let told = std::env::vars().filter(|(name, _)| name.starts_with(TOLD));
    let told: String = told.map(|(name, value)| format!(" {name}={}", quoted(&value))).collect();
    format!(
        "#!/bin/busybox sh
export PATH=/usr/sbin:/sbin:/usr/bin:/bin HOME=/tmp RUST_BACKTRACE=1 CORELANE_CARD=eth0{told}
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp; mount -t tmpfs run /run
mkdir -p /dev/shm /dev/pts; mount -t tmpfs shm /dev/shm; mount -t devpts pts /dev/pts; ln -s /proc/self/fd /dev/fd
stty -F /dev/ttyS0 raw -echo
for pass in 1 2 3; do for module in /modules/*.ko; do insmod $module 2> /dev/null; done; done
ip link set lo up; ip addr add 10.9.0.2/24 dev eth0; ip link set eth0 up; ethtool -L eth0 combined {queues}
cd /tmp
{PROGRAM} {arguments} < /dev/null > /dev/ttyS0 2>&1
echo \"{STATUS}$?\" > /dev/ttyS0
poweroff -f
"
    )
}
