//! Cases that this machine or this kind of driver cannot run: each is noted by its path, which no two drivers share, for whoever
//! counts them (`CORELANE_SKIPS`), and printed.

use std::fs;
use std::process::Command;

use crate::child;
use crate::linux::directory;
use crate::rig::Rig;
use crate::sim::SimRig;

/// Notes that the case `path` is not run, and why.
pub fn skip(path: &str, reason: &str) {
    corelane_testkit::skip(path, reason);
}

/// What two kinds of simulated driver cannot run are two cases, and both are in the list.
#[test]
fn a_case_that_cannot_be_run_is_noted_for_each_driver() {
    let (case, reason) = SimRig::<false>::CANNOT[0];
    let folder = directory();
    let (list, paths) = (folder.join("list"), ["on_sim", "on_sim_when_late"].map(|module| format!("{module}::{case}")));
    let output =
        child::output(Command::new(std::env::current_exe().unwrap()).arg("--exact").args(&paths).env("CORELANE_SKIPS", &list));
    let mut noted: Vec<_> = fs::read_to_string(&list).unwrap_or_default().lines().map(str::to_owned).collect();
    fs::remove_dir_all(folder).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    noted.sort_unstable();
    assert_eq!(noted, paths.map(|path| format!("{path}\t{reason}")));
}
