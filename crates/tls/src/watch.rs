//! Files whose change is noticed: looked at once a second, by name, because a file is often replaced, and a name moved to another one.

use corelane::admin::messages::Degraded;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often files are looked at.
const EVERY: Duration = Duration::from_secs(1);

/// Looks after files until it is dropped.
#[derive(Debug)]
pub struct Watch {
    end: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The marks that tell one state of a file from another: device, number, length and time of the last change; none while there is none.
type Seen = Option<(u64, u64, u64, i64, i64)>;

impl Watch {
    /// Calls `changed` when a file has changed since the last call, and was the same a second ago: who writes is left time to
    /// end. If there is no thread to be had, nobody looks, and that is said.
    pub(crate) fn begin(paths: Vec<PathBuf>, mut changed: impl FnMut() + Send + 'static) -> Self {
        let (end, ended) = sync_channel(0);
        let mut taken = seen(&paths);
        let mut last = taken.clone();
        let look = move || {
            while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                let now = seen(&paths);
                if now != taken && now == last {
                    taken.clone_from(&now);
                    changed();
                }
                last = now;
            }
        };
        let thread = thread::Builder::new().name("corelane-files".into()).spawn(look);
        let thread = thread
            .inspect_err(|error| Degraded::CertificatesKept.say(format_args!("TLS: nobody looks after the files: {error}")));
        Self { end: Some(end), thread: thread.ok() }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.end.take());
        // Its work takes no longer than to read some files; that it panicked was said.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn seen(paths: &[PathBuf]) -> Vec<Seen> {
    let facts = |path| fs::metadata(path).ok();
    let of = |facts: fs::Metadata| (facts.dev(), facts.ino(), facts.size(), facts.mtime(), facts.mtime_nsec());
    paths.iter().map(|path| facts(path).map(of)).collect()
}
