//! Cases that need a process of their own, with limits or a network that the others must not have.

use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::skips::skip;

/// Names the case that a process started by the suite itself is to run.
const CHILD: &str = "CORELANE_DRIVERS_CHILD";

/// Held while a process is started: until it runs its own program it has copies of all sockets, and one that a case has closed is still open.
static BEGINNING: Mutex<()> = Mutex::new(());

/// Waits until each process that is being started runs its own program, and starts none while this is held.
pub fn beginning() -> MutexGuard<'static, ()> {
    BEGINNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a command.
pub fn output(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let begun = {
        let _alone = beginning();
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
