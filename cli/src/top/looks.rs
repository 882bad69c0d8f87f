//! The processes that are looked at: of each what it counted in the last second.

use crate::stat;
use corelane::admin::watch::{Liveness, ProcessId, Reader, Snapshot};

/// The most processes that are looked at. More are passed over.
const PROCESSES_MAX: usize = 64;

/// The processes, each as two looks at its page.
pub struct Looks {
    /// The only one that is wanted.
    pid: Option<u32>,
    processes: Vec<Process>,
}

struct Process {
    reader: Reader,
    before: Option<Snapshot>,
    shown: Option<Snapshot>,
}

impl Looks {
    pub fn new(pid: Option<u32>, readers: Vec<Reader>) -> Self {
        let mut looks = Self { pid, processes: Vec::new() };
        looks.admit(readers);
        looks
    }

    /// Those that are new, up to the bound.
    fn admit(&mut self, readers: Vec<Reader>) {
        for reader in readers {
            let id = reader.description().process;
            if self.processes.len() < PROCESSES_MAX && self.processes.iter().all(|known| known.id() != id) {
                self.processes.push(Process { reader, before: None, shown: None });
            }
        }
    }

    /// Looks at all of them, and for those that have started meanwhile. Processes that have ended stay, as they left off.
    pub fn look(&mut self, at_nanoseconds: u64) {
        if self.pid.is_none() {
            // What cannot be read was said before the screen was taken.
            self.admit(stat::found(None).0);
        }
        self.processes.iter_mut().for_each(|process| process.look(at_nanoseconds));
    }

    /// What is shown of each: those that have not been looked at twice count from their start.
    pub fn shown(&self) -> Vec<&Snapshot> {
        self.processes.iter().filter_map(|process| process.shown.as_ref()).collect()
    }
}

impl Process {
    fn id(&self) -> ProcessId {
        self.reader.description().process
    }

    fn look(&mut self, at_nanoseconds: u64) {
        let was_dead = self.shown.as_ref().is_some_and(|shown| shown.liveness == Liveness::Dead);
        if was_dead {
            return;
        }
        let now = self.reader.snapshot(at_nanoseconds);
        let since = self.before.as_ref().and_then(|before| now.since(before).ok());
        self.shown = Some(since.unwrap_or_else(|| now.clone()));
        self.before = Some(now);
    }
}
