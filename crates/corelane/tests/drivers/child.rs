//! Cases that need a process of their own, with limits or a network that the others must not have.

use std::process::{Command, Output, Stdio};

use corelane_os::testing::network::alone;

use crate::skips::skip;

/// Names the case that a process started by the suite itself is to run.
const CHILD: &str = "CORELANE_DRIVERS_CHILD";

/// Runs a command.
pub fn output(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let begun = {
        let _alone = alone();
        command.spawn().unwrap()
    };
    begun.wait_with_output().unwrap()
}

/// Runs the case `path` in a process prepared by a shell command, which ends with `exec "$@"`. True in that process,
/// where the case goes on. Where the command `needs` fails, the case is skipped, and says so.
pub fn is_prepared(path: &str, prepare: &str, needs: &str) -> bool {
    if std::env::var(CHILD).is_ok_and(|case| case == path) {
        return true;
    }
    if !output(&mut shell(needs)).status.success() {
        skip(path, &format!("this does not work here: {needs}"));
        return false;
    }
    let test = std::env::current_exe().unwrap();
    let arguments = ["--exact", path, "--nocapture", "--test-threads=1"];
    let output = output(shell(prepare).arg(test).args(arguments).env(CHILD, path));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "{text}");
    false
}

fn shell(command: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", command, "sh"]);
    shell
}
