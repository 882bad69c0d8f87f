//! The programs in C: `bench/peers/events` on each library, and evserver, linked as a user links them.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::build::build_package;
use crate::entrants::{Entrant, Peer, ServerSystem};
use crate::report::Findings;
use xtask::workspace::Workspace;

/// A system of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// kqueue(2) of this project.
    Kqueue,
    /// The ring of kevent, of this project, with FIONREAD for each event.
    Ring,
    /// kqueue(2) of libkqueue.
    Libkqueue,
    /// epoll(7), with FIONREAD for each event.
    Epoll,
    /// Polls by io_uring(7), with FIONREAD for each event.
    Uring,
}

/// All of them, in the order of the tables.
const ALL: [System; 5] = [System::Kqueue, System::Ring, System::Libkqueue, System::Epoll, System::Uring];

impl System {
    /// The program, and what it is told.
    fn program(self) -> (&'static str, &'static str) {
        match self {
            System::Kqueue => ("peer-events-kqueue", "kqueue"),
            System::Ring => ("peer-events-kqueue", "ring"),
            System::Libkqueue => ("peer-events-libkqueue", "kqueue"),
            System::Epoll => ("peer-events", "epoll"),
            System::Uring => ("peer-events", "uring"),
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            System::Kqueue => "kqueue",
            System::Ring => "ring",
            System::Libkqueue => "libkqueue",
            System::Epoll => "epoll",
            System::Uring => "uring",
        })
    }
}

/// What can run here.
pub struct Programs {
    folder: PathBuf,
    /// The systems that can be asked.
    pub systems: Vec<System>,
}

impl Programs {
    /// Those that were built, and run; the others are left out of the findings.
    pub fn find(peers: &Path, findings: &mut Findings) -> Self {
        let mut found = Self { folder: folder(peers), systems: Vec::new() };
        for system in ALL {
            match found.why_not(system) {
                None => found.systems.push(system),
                Some(why) => findings.leave_out(format!("{system}: {why}")),
            }
        }
        found
    }

    fn why_not(&self, system: System) -> Option<String> {
        let (program, _) = system.program();
        if !self.folder.join(program).is_file() {
            return Some(
                "pkg-config does not know it: install libkqueue with its headers, or name its folder in PKG_CONFIG_PATH"
                    .to_owned(),
            );
        }
        let (path, word) = self.command(system);
        let tried = Command::new(path).args([word, "changes", "1", "1"]).stdin(Stdio::null()).output();
        match tried {
            Ok(output) if output.status.success() => None,
            Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Some(error.to_string()),
        }
    }

    /// The program of a system, and its first word.
    pub fn command(&self, system: System) -> (PathBuf, &'static str) {
        let (program, word) = system.program();
        (self.folder.join(program), word)
    }

    /// evserver.
    pub fn server(&self) -> PathBuf {
        self.folder.join(SERVER)
    }

    /// evserver on the least that kqueue(2) needs.
    pub fn least_server(&self) -> PathBuf {
        self.folder.join(LEAST_SERVER)
    }

    /// Whether evserver can be this entrant.
    pub fn serves(&self, entrant: Entrant) -> bool {
        entrant != Entrant::Peer(Peer::Evserver(ServerSystem::Uring)) || self.systems.contains(&System::Uring)
    }
}

/// Where everything is built.
fn folder(peers: &Path) -> PathBuf {
    peers.join("target/release")
}

const SERVER: &str = "peer-evserver";
const LEAST_SERVER: &str = "peer-evserver-least";

/// Builds the library as it is shipped, and the programs.
///
/// # Errors
/// When a compiler refuses; libkqueue's program is not built where that library is not installed.
pub fn build(peers: &Path) -> Result<()> {
    let workspace = Workspace::load()?;
    build_package(&workspace, "corelane-kqueue")?;
    let (folder, crates) = (folder(peers), workspace.root.join("crates/kqueue"));
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let library = folder.join("libcorelane_kqueue.so.1");
    let mut script = Command::new("sh");
    script.arg(crates.join("shared.sh")).arg(workspace.target.join("release/libcorelane_kqueue.a")).arg(&library);
    run(&mut script)?;
    let include = format!("-I{}", crates.join("include").display());
    let ours = [include, library.display().to_string(), format!("-Wl,-rpath,{}", folder.display())];
    let sources = peers.join("events");
    let plain = ["main.c", "epoll.c", "uring.c"].map(|name| sources.join(name));
    let whole: Vec<_> = plain.iter().cloned().chain(["kqueue.c", "ring.c"].map(|name| sources.join(name))).collect();
    compile(&plain, &[], &folder.join("peer-events"))?;
    compile(&whole, &with_kqueue(&ours), &folder.join("peer-events-kqueue"))?;
    let server = crates.join("programs/evserver.c");
    compile(std::slice::from_ref(&server), &ours, &folder.join(SERVER))?;
    compile(&[server, sources.join("least.c")], &ours, &folder.join(LEAST_SERVER))?;
    match libkqueue() {
        Some(flags) => compile(&whole, &with_kqueue(&flags), &folder.join("peer-events-libkqueue")),
        None => Ok(()),
    }
}

fn with_kqueue(flags: &[String]) -> Vec<String> {
    ["-DWITH_KQUEUE".to_owned()].into_iter().chain(flags.iter().cloned()).collect()
}

/// What the compiler is told of libkqueue; `None` where it is not installed.
fn libkqueue() -> Option<Vec<String>> {
    let asked = |what: &str| {
        let output = Command::new("pkg-config").args([what, "libkqueue"]).stderr(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let (flags, place) = (asked("--cflags")?, asked("--variable=libdir")?);
    let words = format!("{flags} {} -Wl,-rpath,{place}", asked("--libs")?);
    Some(words.split_whitespace().map(str::to_owned).collect())
}

fn compile(sources: &[PathBuf], flags: &[String], program: &Path) -> Result<()> {
    let mut command = Command::new("cc");
    command.args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(program).args(sources).args(flags);
    run(&mut command)
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{command:?}: apt-get install -y gcc libc6-dev"))?;
    ensure!(status.success(), "{command:?} failed: {status}; its own message is above");
    Ok(())
}
