//! Which process this is, and whether another still runs (proc_pid_stat(5), pid_namespaces(7)).

use crate::error::Error;
use crate::process_id::ProcessId;
use std::os::unix::fs::MetadataExt;
use std::{fs, io};

/// errno(3): the process ended between the opening of its file and the reading.
const ESRCH: i32 = 3;

/// Whether the process that wrote a page still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It runs, or hangs.
    Alive,
    /// It is stopped: by SIGSTOP, by its terminal, or by a debugger.
    Stopped,
    /// It has ended; a zombie counts as ended.
    Dead,
    /// Not to be known from here: it lives in another pid namespace, or /proc cannot be read.
    Unknown,
}

impl Liveness {
    /// Its spelling in text and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Stopped => "stopped",
            Self::Dead => "dead",
            Self::Unknown => "unknown",
        }
    }
}

impl ProcessId {
    /// This process.
    ///
    /// # Errors
    /// [`Error::Process`] where /proc is not mounted.
    pub fn this() -> Result<Self, Error> {
        let failed = |source| Error::Process { source };
        let lacking = || failed(io::Error::new(io::ErrorKind::InvalidData, "/proc/self/stat lacks fields"));
        let stat = fs::read("/proc/self/stat").map_err(failed)?;
        let stat = parse_stat(&stat).ok_or_else(lacking)?;
        let namespace = fs::metadata("/proc/self/ns/pid").map_err(failed)?;
        Ok(Self { pid: std::process::id(), start_ticks: stat.start_ticks, pid_namespace: namespace.ino() })
    }

    /// Whether this process still runs.
    pub fn liveness(&self) -> Liveness {
        match Self::this() {
            Ok(this) if this.pid_namespace == self.pid_namespace => {}
            _ => return Liveness::Unknown,
        }
        match fs::read(format!("/proc/{}/stat", self.pid)) {
            Ok(stat) => match parse_stat(&stat) {
                Some(stat) if stat.start_ticks == self.start_ticks && !stat.ended => stat.liveness(),
                Some(_) => Liveness::Dead,
                None => Liveness::Unknown,
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(ESRCH) => Liveness::Dead,
            Err(_) => Liveness::Unknown,
        }
    }
}

struct Stat {
    ended: bool,
    stopped: bool,
    start_ticks: u64,
}

impl Stat {
    /// Of a process that has not ended.
    fn liveness(&self) -> Liveness {
        if self.stopped { Liveness::Stopped } else { Liveness::Alive }
    }
}

/// The fields of /proc/PID/stat that matter here. The second, the name, may hold blanks and parentheses.
fn parse_stat(stat: &[u8]) -> Option<Stat> {
    let name_end = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(stat.get(name_end + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect(); // fields[0] is field 3
    let threads: u64 = fields.get(17)?.parse().ok()?;
    // A main thread that left by pthread_exit(3) shows as Z while other threads serve on.
    let ended = matches!(*fields.first()?, "Z" | "X") && threads <= 1;
    // A signal stops all threads of a process (signal(7)): its first one tells.
    let stopped = matches!(*fields.first()?, "T" | "t");
    Some(Stat { ended, stopped, start_ticks: fields.get(19)?.parse().ok()? })
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn stat_survives_any_process_name() {
        let tail = "S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 3 0 4242 0 0";
        for name in ["cat", "a b", "a) Z (b", ")"] {
            let stat = parse_stat(format!("17 ({name}) {tail}").as_bytes()).unwrap();
            assert_eq!((stat.start_ticks, stat.ended), (4242, false));
        }
        let zombie = |threads| format!("17 (x) Z 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 {threads} 0 5 0 0");
        assert!(parse_stat(zombie(1).as_bytes()).unwrap().ended);
        assert!(!parse_stat(zombie(2).as_bytes()).unwrap().ended, "its other threads serve on");
        assert!(parse_stat(b"17 (x) S 1 2").is_none());
        assert!(parse_stat(b"").is_none());
    }

    #[test]
    fn processes_are_told_apart() {
        let this = ProcessId::this().unwrap();
        assert_eq!(this.liveness(), Liveness::Alive);
        assert_eq!(ProcessId { start_ticks: this.start_ticks + 1, ..this }.liveness(), Liveness::Dead);
        assert_eq!(ProcessId { pid_namespace: 1, ..this }.liveness(), Liveness::Unknown);
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let stat = parse_stat(&fs::read(format!("/proc/{}/stat", child.id())).unwrap()).unwrap();
        let other = ProcessId { pid: child.id(), start_ticks: stat.start_ticks, ..this };
        assert_eq!(other.liveness(), Liveness::Alive);
        let tell =
            |signal: &str| assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        tell("-STOP");
        while other.liveness() != Liveness::Stopped {
            std::thread::yield_now();
        }
        tell("-CONT");
        while other.liveness() != Liveness::Alive {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(other.liveness(), Liveness::Dead);
    }
}
