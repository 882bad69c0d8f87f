//! Runs a program within limits of time and memory, keeps what it says, and notes what CPU time and memory it took.

use std::io::{PipeReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use rustix::param::clock_ticks_per_second;

use super::share::Share;

/// Most bytes of output kept; of a longer one the earlier half goes.
const OUTPUT_BYTES: usize = 32 << 20;
/// Most bytes of memory that a program may have at a time: several run at once. Programs that it starts are not counted with it.
const MEMORY_BYTES: u64 = 2 << 30;
/// How often a program's memory is looked at: what comes and goes between two looks is in the second, which asks for the most there ever was.
const LOOK: Duration = Duration::from_millis(100);
/// How long to wait for output that a process outside the group may still hold open.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// How a program ended.
#[derive(Debug)]
pub struct Finished {
    /// Whether it ended by itself with exit code 0.
    pub success: bool,
    /// What it wrote to standard output and standard error, in that order of time.
    pub output: String,
}

/// Why a program was not let come to its end.
#[derive(Debug)]
enum Excess {
    Seconds(u64),
    Bytes(u64),
}

/// Runs `command` in a process group of its own and kills what is left of the group at the end, when its share is over, or when it has taken 2 GiB of memory.
///
/// Fails if the program cannot be started. A program that was killed fails and says so in its output.
pub fn run(command: Command, share: &Share) -> anyhow::Result<Finished> {
    run_within(MEMORY_BYTES, command, share)
}

fn run_within(memory: u64, mut command: Command, share: &Share) -> anyhow::Result<Finished> {
    let (reader, writer) = std::io::pipe()?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).process_group(0);
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().with_context(|| format!("cannot start {program}"))?;
    drop(command); // its ends of the pipe would keep the reader waiting
    let output = Output::collect(reader);
    let group = Pid::from_raw(i32::try_from(child.id())?);
    let excess = wait(group, memory, share);
    // The child is not reaped yet, so the number still names its group. That nobody is left in it is no error.
    let _ = killpg(group, Signal::SIGKILL);
    if excess.is_none() {
        share.spend(cpu_time(group));
    }
    let status = child.wait()?;
    let mut output = output.finish();
    match &excess {
        Some(Excess::Seconds(limit)) => output.push_str(&format!("\n{program} killed: over its limit of {limit} s\n")),
        Some(Excess::Bytes(taken)) => {
            output.push_str(&format!(
                "\n{program} killed: it took {} MiB of memory, its limit is {}\n",
                taken >> 20,
                memory >> 20
            ));
        }
        None => {}
    }
    Ok(Finished { success: excess.is_none() && status.success(), output })
}

/// Waits until `child` has ended or is over a limit, and tells the share what memory it has.
fn wait(child: Pid, memory: u64, share: &Share) -> Option<Excess> {
    let (ended, limit) = (ended(child), share.left());
    loop {
        let left = share.left();
        if ended.recv_timeout(left.min(LOOK)) != Err(RecvTimeoutError::Timeout) {
            return None;
        }
        let taken = most_memory(child);
        share.take(taken);
        if taken > memory {
            return Some(Excess::Bytes(taken));
        }
        if left <= LOOK {
            return Some(Excess::Seconds(limit.as_secs()));
        }
    }
}

/// The most bytes that have been in memory of a process at a time, since it began to run its program (proc_pid_status(5), VmHWM).
fn most_memory(child: Pid) -> u64 {
    // Of one that has just ended there is nothing to read.
    let status = std::fs::read_to_string(format!("/proc/{child}/status")).unwrap_or_default();
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.strip_suffix("kB")?.trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0) << 10
}

/// Tells when `child` has ended, without reaping it.
fn ended(child: Pid) -> Receiver<()> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        while waitid(Id::Pid(child), flags) == Err(Errno::EINTR) {}
        // Nobody listens any more if the time was up first.
        let _ = sender.send(());
    });
    receiver
}

/// CPU time of a child that has ended and is not reaped, and of the children that it has reaped (proc_pid_stat(5)).
fn cpu_time(child: Pid) -> Duration {
    // What cannot be read is not counted: nothing depends on it.
    let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
    let ticks = |field: &str| field.parse::<u64>().unwrap_or(0);
    // The name, in brackets, may hold anything; behind it come the fields from the third on, of which 14 to 17 are times.
    let (_, fields) = stat.rsplit_once(')').unwrap_or_default();
    let ticks: u64 = fields.split_whitespace().skip(11).take(4).map(ticks).sum();
    Duration::from_millis(ticks * 1000 / clock_ticks_per_second())
}

/// Output while it comes in.
struct Output {
    bytes: Arc<Mutex<Vec<u8>>>,
    done: Receiver<()>,
}

impl Output {
    fn collect(mut reader: PipeReader) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let (sender, done) = channel();
        let kept = Arc::clone(&bytes);
        thread::spawn(move || {
            let mut block = [0; 16 << 10];
            while let Ok(count @ 1..) = reader.read(&mut block) {
                keep(&mut kept.lock().unwrap_or_else(PoisonError::into_inner), &block[..count]);
            }
            // Nobody listens any more if the last words took too long.
            let _ = sender.send(());
        });
        Self { bytes, done }
    }

    fn finish(self) -> String {
        // A process that left the group may hold the pipe open; what came until now has to do.
        let _ = self.done.recv_timeout(LAST_WORDS);
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

fn keep(kept: &mut Vec<u8>, more: &[u8]) {
    if kept.len() + more.len() > OUTPUT_BYTES {
        kept.drain(..OUTPUT_BYTES / 2);
    }
    kept.extend_from_slice(more);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Finished {
        shell_within(&Share::new(60), script)
    }

    fn shell_within(share: &Share, script: &str) -> Finished {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(command, share).unwrap()
    }

    /// Waits until the process is gone or a zombie that its new parent has yet to reap.
    fn assert_ends(pid: &str) {
        let start = Instant::now();
        loop {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            if stat.is_empty() || stat.contains(") Z ") {
                return;
            }
            assert!(start.elapsed() < LONG, "process {pid} still runs");
            thread::yield_now();
        }
    }

    #[test]
    fn output_and_exit_code_are_kept() {
        let good = shell("echo out; echo err >&2");
        assert!(good.success);
        assert_eq!(good.output, "out\nerr\n");
        let bad = shell("echo why; exit 3");
        assert!(!bad.success);
        assert_eq!(bad.output, "why\n");
    }

    #[test]
    fn a_missing_program_is_an_error() {
        let error = run(Command::new("no-such-program-here"), &Share::new(60)).unwrap_err();
        assert!(error.to_string().contains("no-such-program-here"));
    }

    #[test]
    fn over_its_limit_the_whole_group_is_killed() {
        let outcome = shell_within(&Share::new(1), "sleep 600 & echo $!; wait");
        assert!(!outcome.success);
        assert!(outcome.output.contains("over its limit"));
        assert_ends(outcome.output.lines().next().unwrap());
    }

    #[test]
    fn over_its_limit_of_memory_a_program_is_killed_and_named() {
        let (share, mut command) = (Share::new(60), Command::new("sh"));
        // The memory is written to, for only then it is there.
        command.args(["-c", r#"exec python3 -c 'import time; all = bytearray(b"x") * (64 << 20); time.sleep(600)'"#]);
        let outcome = run_within(32 << 20, command, &share).unwrap();
        assert!(!outcome.success && outcome.output.contains("sh killed: it took "), "{}", outcome.output);
        assert!(outcome.output.contains("MiB of memory, its limit is 32"), "{}", outcome.output);
        assert!(share.taken() > 32 << 20, "{}", share.taken());
    }

    #[test]
    fn what_a_program_leaves_behind_is_killed() {
        let outcome = shell("sleep 600 & echo $!");
        assert!(outcome.success);
        assert_ends(outcome.output.trim());
    }

    #[test]
    fn its_cpu_time_is_counted_and_that_of_its_children() {
        let (share, idle) = (Share::new(60), Share::new(60));
        let works = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done";
        assert!(shell_within(&share, &format!("sh -c '{works}'; {works}")).success);
        shell_within(&idle, "sleep 0.2");
        assert!(idle.spent() < share.spent(), "{:?}", idle.spent());
    }

    #[test]
    fn the_output_kept_is_bounded() {
        let mut kept = vec![0; OUTPUT_BYTES];
        keep(&mut kept, b"end");
        assert_eq!(kept.len(), OUTPUT_BYTES / 2 + 3);
        assert!(kept.ends_with(b"end"));
    }
}
