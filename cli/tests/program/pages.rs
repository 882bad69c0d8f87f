//! The pages of the lanes' memory: those that were asked for, what is in their place where the system has none, and who is refused for that.

use crate::common::*;
use crate::confined::{below, without};
use nix::libc;
use seccompiler::{BpfProgram, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};
use std::fs;
use std::sync::{Mutex, PoisonError};

/// Bytes of each lane's memory here.
const MEMORY: u64 = 8 << 20;

const ARGUMENTS: [&str; 5] = ["--lanes", "1", "--memory", "8MiB", TCP];

/// A system that gives no huge pages and locks nothing, whoever asks.
fn without_both() -> BpfProgram {
    let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB | libc::MAP_HUGE_2MB;
    let huge = SeccompCondition::new(3, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, how as u64).unwrap();
    without(&[
        (libc::SYS_mmap, vec![SeccompRule::new(vec![huge]).unwrap()]),
        (libc::SYS_mlock, Vec::new()),
        (libc::SYS_mlock2, Vec::new()),
    ])
}

fn start(more: &[&str]) -> Server {
    Server::start(&[more, &ARGUMENTS].concat())
}

/// The bytes in huge pages, and those that are locked, as the counter page says.
fn shown(server: &Server) -> (u64, u64) {
    (server.lane_count("memory_huge"), server.lane_count("memory_locked"))
}

#[test]
fn memory_is_ordinary_unless_it_is_asked_for() {
    let server = start(&[]);
    assert_eq!((shown(&server), server.status("VmLck")), ((0, 0), 0));
}

#[test]
fn what_is_not_to_be_had_is_told_and_the_program_serves() {
    let server = below(&without_both(), || start(&["--huge-pages", "auto", "--locked-memory", "auto"]));
    for remedy in ["raise vm.nr_hugepages by 4", "raise the limit of locked memory"] {
        until("what lacks is told", || server.words().contains(remedy));
    }
    assert_eq!(shown(&server), (0, 0));
    echo(&mut server.connect(), b"in ordinary pages");
}

#[test]
fn what_is_required_and_not_to_be_had_is_refused_with_the_remedy_and_checked_before() {
    let cases = [
        ("--huge-pages", "huge-pages: required", "raise vm.nr_hugepages by 4"),
        ("--locked-memory", "locked-memory: required", "by 8192 KiB"),
    ];
    for (flag, what, remedy) in cases {
        for check in [&[][..], &["--check"]] {
            let run = Scratch::new();
            let mut command = wrapped(&[], PROGRAM);
            command.arg("serve").args(check).args([flag, "required"]).args(ARGUMENTS).env("CORELANE_RUN_DIR", run.path());
            let output = below(&without_both(), || output(&mut command));
            let words = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{words}");
            assert!(words.contains(what) && words.contains(remedy), "{words}");
        }
    }
}

/// Held by whoever may have huge pages: another test's server would take those that are set aside.
static HUGE: Mutex<()> = Mutex::new(());

/// Huge pages that are set aside for a test, and given back.
struct SetAside(u64);

impl SetAside {
    const FILE: &str = "/proc/sys/vm/nr_hugepages";

    fn count() -> Option<u64> {
        fs::read_to_string(Self::FILE).ok()?.trim().parse().ok()
    }

    /// So many more; none where this user may not, or the machine has none in one piece.
    fn more(pages: u64) -> Option<Self> {
        let before = Self::count()?;
        fs::write(Self::FILE, (before + pages).to_string()).ok()?;
        let set = Self(before);
        (Self::count()? >= before + pages).then_some(set)
    }
}

impl Drop for SetAside {
    fn drop(&mut self) {
        // What cannot be given back now is told by the next look at the machine.
        let _ = fs::write(Self::FILE, self.0.to_string());
    }
}

#[test]
fn a_lane_serves_in_huge_pages_that_were_set_aside() {
    let _alone = HUGE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(_set) = SetAside::more(MEMORY >> 21) else {
        return skip(
            "pages::a_lane_serves_in_huge_pages_that_were_set_aside",
            "nobody may set huge pages aside here, or there are none",
        );
    };
    let server = start(&["--huge-pages", "required"]);
    assert_eq!(shown(&server), (MEMORY, 0));
    echo(&mut server.connect(), &pattern(100_000, 7));
}

/// As far as this machine lets its user have them.
#[test]
fn what_is_to_be_had_is_shown() {
    let _alone = HUGE.lock().unwrap_or_else(PoisonError::into_inner);
    let server = start(&["--huge-pages", "auto", "--locked-memory", "auto"]);
    echo(&mut server.connect(), b"in whatever pages there are");
    let (huge, locked) = shown(&server);
    assert!([0, MEMORY].contains(&huge) && [0, MEMORY].contains(&locked), "{huge} {locked}");
    // Pages of such a kind are always there, and the system does not count them as locked.
    let is_counted = server.status("VmLck") >= MEMORY >> 10;
    assert!(is_counted || locked == 0 || huge > 0, "{locked} bytes are said to be locked");
}
