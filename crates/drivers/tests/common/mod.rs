//! Tests that need a process of their own.

use corelane_os::testing::network;
use std::process::{Command, Stdio};

/// Names the test that a process started by a test itself is to run.
const CHILD: &str = "CORELANE_DRIVERS_CHILD";

/// Runs this test in a process of its own; true in that process.
pub fn is_child(test: &str) -> bool {
    if std::env::var(CHILD).is_ok_and(|child| child == test) {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(CHILD, test);
    let starts = network::alone();
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(starts);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "{text}");
    false
}
