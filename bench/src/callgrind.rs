//! Instructions of a program, counted exactly by callgrind: what it does itself, without the kernel.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::server::is_installed;

/// Why nothing can be counted, if nothing can.
pub fn missing() -> Option<String> {
    (!is_installed("valgrind")).then(|| "valgrind is not installed: apt-get install -y valgrind".to_owned())
}

/// A command that runs `program` under callgrind.
pub fn command(program: &Path) -> Command {
    profiling(program, Path::new("/dev/null"))
}

/// The same, which leaves its profile in a file.
pub fn profiling(program: &Path, profile: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", profile.display())).arg(program);
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    command
}

/// What callgrind has counted of the process itself, when it has ended: a line `==PID== Collected : N`.
///
/// # Errors
/// When it has failed, or says nothing of a count.
pub fn collected(child: &mut Child) -> Result<u64> {
    let mut words = String::new();
    child.stderr.take().context("its words are not piped")?.read_to_string(&mut words).context("its words")?;
    let status = child.wait().context("waiting for it")?;
    ensure!(status.success(), "{status}: {words}");
    count_of(&words, child.id()).with_context(|| format!("no count in: {words}"))
}

fn count_of(words: &str, pid: u32) -> Option<u64> {
    let head = format!("=={pid}== Collected");
    let line = words.lines().find(|line| line.starts_with(&head))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_the_processs_own() {
        let words = "==8== Collected : 7\n==12== Events    : Ir\n==12== Collected : 345\n==12== \n";
        assert_eq!((count_of(words, 12), count_of(words, 8), count_of(words, 1)), (Some(345), Some(7), None));
    }
}
