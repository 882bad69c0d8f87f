//! The upstreams of one process, as they were when its lanes were asked last.

use crate::upstreams::Beside;
use corelane::admin::watch::{ProcessId, Snapshot};
use std::time::{Duration, Instant};

/// The time from one question to the next, and to the next of a process that did not answer at once: keys wait meanwhile.
const PAUSE: Duration = Duration::from_millis(900);
const PAUSE_OF_SILENT: Duration = Duration::from_secs(5);

/// What is known of them.
#[derive(Default)]
pub struct Behind {
    process: Option<ProcessId>,
    pub beside: Beside,
    /// The time between the last two looks, in seconds.
    pub seconds: Option<f64>,
    looked: Option<Instant>,
}

impl Behind {
    /// Asks for those of the process of a snapshot, if it is time.
    pub fn look(&mut self, snapshot: &Snapshot) {
        if self.process != Some(snapshot.process) {
            *self = Self { process: Some(snapshot.process), ..Self::default() };
        }
        let pause = if self.beside == Beside::Silent { PAUSE_OF_SILENT } else { PAUSE };
        if self.looked.is_some_and(|looked| looked.elapsed() < pause) {
            return;
        }
        let now = Instant::now();
        let before = self.looked.replace(now);
        self.beside = Beside::of(snapshot, &self.beside);
        self.seconds = before.filter(|_| self.beside.is_since()).map(|before| (now - before).as_secs_f64());
    }

    /// Whether they are those of this process.
    pub fn is_of(&self, process: ProcessId) -> bool {
        self.process == Some(process)
    }
}
