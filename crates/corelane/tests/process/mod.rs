//! Lanes in the test's own process, with a run directory of its own. Only a parent can set that: so the test starts
//! itself once more.

use std::process::Command;

/// What tells the child from the parent, and where its pages go.
const RUN_DIRECTORY: &str = "CORELANE_RUN_DIR";
const CHILD: &str = "CORELANE_TEST_CHILD";

/// Whether this is the parent; the child has then run the test of this path to its end.
///
/// # Panics
/// If the child has failed.
pub fn is_parent(test: &str) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return false;
    }
    let name = test.rsplit("::").next().unwrap();
    let folder = std::env::temp_dir().join(format!("corelane-process-{}-{name}", std::process::id()));
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output =
        command.args(["--exact", test, "--include-ignored"]).env(CHILD, "1").env(RUN_DIRECTORY, &folder).output().unwrap();
    let _ = std::fs::remove_dir_all(&folder);
    let words = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    // A name that matches no test passes, too.
    assert!(output.status.success() && words.contains("1 passed"), "in a process of its own {test} says: {words}");
    true
}
