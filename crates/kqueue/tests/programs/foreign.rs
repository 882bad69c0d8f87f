//! Whole suites that nobody here wrote, unmodified, on libraries that have back ends for kqueue: libev's and libevent's, built by scripts where Debian's sources can be had.

use std::path::{Path, PathBuf};
use std::process::Command;

use corelane_os::testing::skip;

use super::shared;

/// Where the source of a package lies, and is built; none, and the test is skipped by name, where it cannot be had.
pub fn fetched(test: &str, package: &str) -> Option<PathBuf> {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = kept.join(package);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("fetch.sh");
    let mut fetch = Command::new("sh");
    let fetched = fetch.arg(script).arg(package).arg(&folder).env("CORELANE_APT", kept.join("apt")).output().unwrap();
    if fetched.status.success() {
        return Some(folder);
    }
    let said = String::from_utf8_lossy(&fetched.stderr);
    skip(test, &format!("{package}'s source cannot be had: {}", said.lines().last().unwrap_or_default()));
    None
}

/// Runs a script that builds a suite and runs it; what it says.
fn run(script: &str, folder: &Path, variables: &[(&str, &str)]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
    let mut command = Command::new("sh");
    let output = command.arg(script).arg(shared::archive()).arg(folder).envs(variables.iter().copied()).output().unwrap();
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success(), "{}: {said}", output.status);
    said
}

#[test]
fn libevs_suite_passes_on_kqueue() {
    const NAME: &str = "libevs_suite_passes_on_kqueue";
    if Command::new("xsubpp").arg("-v").output().is_err() {
        return skip(NAME, "xsubpp is not installed");
    }
    let Some(folder) = fetched(NAME, "libev-perl") else { return };
    let said = run("libev.sh", &folder, &[]);
    assert!(said.contains("Result: PASS"), "{said}");
}

#[test]
fn libevents_suite_passes_on_kqueue_as_on_epoll() {
    const NAME: &str = "libevents_suite_passes_on_kqueue_as_on_epoll";
    // What works without a system of events says nothing of ours.
    const GROUPS: &str = "main/.. et/.. signal/.. thread/.. listener/.. finalize/..";
    let Some(folder) = fetched(NAME, "libevent") else { return };
    run("libevent.sh", &folder, &[("ONLY", GROUPS)]);
}
