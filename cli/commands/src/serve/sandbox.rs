//! `--sandbox`: what `serve` has its threads confined to.
//!
//! ```text
//! options, URLs, --config --> files --landlock, before the first thread--> start --> seccomp, on all threads --> ready
//! ```

use anyhow::{Result, anyhow, bail};
use corelane::Lanes;
use corelane::admin::confine::calls::{self, Beside};
use corelane::admin::confine::paths::{self, Paths};
use corelane::admin::messages::Degraded;
use corelane::admin::reports::Record;
use corelane::admin::watch::RunDirectory;
use corelane::service::entry::choice::Use;
use std::path::{Path, PathBuf};

/// When the program is confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Sandbox {
    /// As far as the kernel can.
    Auto,
    /// Never.
    Off,
    /// Always, or it does not serve.
    Required,
}

impl Sandbox {
    /// What is told of a part that cannot be had.
    fn without(self, what: Degraded, why: &str) -> Result<Option<Record>> {
        let words = match what {
            Degraded::FilesNotConfined => "every file that this user may open can be opened",
            _ => "every system call can be made",
        };
        match self {
            Self::Required => bail!("--sandbox required: {words}: {why}"),
            _ => Ok(Some(what.note(format_args!("{words}: {why}")))),
        }
    }
}

/// Confines the calling thread, and all that it starts later, to the files that the services, the run directory and the configuration take. Returns
/// what it has to do without.
///
/// # Errors
/// It cannot be done, and is required.
pub fn confine_files(sandbox: Sandbox, lanes: &Lanes, config: Option<&Path>) -> Result<Option<Record>> {
    if sandbox == Sandbox::Off {
        return Ok(None);
    }
    let what = Degraded::FilesNotConfined;
    if let Some(path) = lanes.uses().into_iter().find_map(at_root) {
        let why = format!(
            "{} is to be made in the root directory, with which all would be allowed: name a directory below",
            path.display()
        );
        return sandbox.without(what, &why);
    }
    match paths::restrict(&files(lanes, config)) {
        Ok(true) => Ok(None),
        Ok(false) => {
            sandbox.without(what, "the kernel has no landlock, or it is switched off (add it to lsm= at the kernel's start), or a filter of system calls around the process forbids it")
        }
        Err(why) => sandbox.without(what, &why),
    }
}

/// What is written in the root directory itself.
fn at_root(path: Use) -> Option<PathBuf> {
    match path {
        Use::Written(path) => Some(path).filter(|path| Paths::is_at_root(path)),
        _ => None,
    }
}

/// The files that this program names.
fn files(lanes: &Lanes, config: Option<&Path>) -> Paths {
    let mut files = Paths::of_system();
    // Where it cannot be made, the start says so.
    if let Ok(directory) = RunDirectory::choose(&mut Vec::new()) {
        files.write(directory.path());
    }
    // A manager may listen at a name of the abstract kind (sd_notify(3)).
    let manager = std::env::var_os("NOTIFY_SOCKET").is_some_and(|name| name.as_encoded_bytes().starts_with(b"@"));
    if manager || lanes.answers_unix_datagrams() {
        files.reach_names();
    }
    lanes.receive_settings().into_iter().for_each(|path| files.write(path));
    config.into_iter().flat_map(Paths::around).for_each(|path| files.read(path));
    for used in lanes.uses() {
        match used {
            Use::Written(path) => Paths::around(&path).for_each(|path| files.write(path)),
            // What else there is, is read.
            Use::Read(path) => Paths::around(&path).for_each(|path| files.read(path)),
            Use::Connected(port) => files.connect_to(port),
            Use::ConnectedToAny => files.connect_anywhere(),
            _ => {}
        }
    }
    files
}

/// Confines all threads to the calls that serving takes, and what it does beside. Returns what it has to do without.
///
/// # Errors
/// As of [`confine_files`].
pub fn confine_calls(sandbox: Sandbox, beside: Beside) -> Result<Option<Record>> {
    if sandbox == Sandbox::Off {
        return Ok(None);
    }
    let why = calls::restrict(beside).map_err(|why| anyhow!(why));
    why.map_or_else(|why| sandbox.without(Degraded::CallsNotConfined, &why.to_string()), |()| Ok(None))
}
