//! The processes that are looked at: of each what it counted in the last second.

use super::record::Record;
use crate::connections::{KernelConnection, all};
use crate::stat;
use anyhow::{Result, ensure};
use corelane::admin::machine::shares_network;
use corelane::admin::watch::{Liveness, ProcessId, Reader, Snapshot};
use std::time::{Duration, Instant};

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
    record: Record,
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
                self.processes.push(Process { reader, before: None, shown: None, record: Record::default() });
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

    /// What is kept of a process beside its page.
    pub fn record(&self, process: ProcessId) -> Option<&Record> {
        self.processes.iter().find(|known| known.id() == process).map(|known| &known.record)
    }

    /// What is shown of each: those that have not been looked at twice count from their start.
    pub fn shown(&self) -> Vec<&Snapshot> {
        self.processes.iter().filter_map(|process| process.shown.as_ref()).collect()
    }
}

/// The connections of one process, as they were when they were looked at last.
#[derive(Default)]
pub struct Crowd {
    pub process: Option<ProcessId>,
    /// In the order in which they need to be looked at: strays, then those with the most in their queues, then the oldest.
    pub told: Vec<KernelConnection>,
    /// Why there are none to be shown.
    pub why_not: Option<String>,
    /// When that was, by the monotonic clock in nanoseconds.
    pub at_nanoseconds: u64,
    /// Not before this is there another look.
    pub due: Option<Instant>,
}

/// The next look at connections comes when the last one has cost no more than this part of the time.
const LOOK_PART: u32 = 100;

impl Crowd {
    /// Whether the connections are those of this process.
    pub fn is_of(&self, process: ProcessId) -> bool {
        self.process == Some(process)
    }

    /// Looks at the connections of a process, if it is time: the kernel is asked for each, which costs the more the more there are.
    pub fn look(&mut self, looks: &Looks, process: ProcessId, at_nanoseconds: u64) {
        let began = Instant::now();
        if self.is_of(process) && self.due.is_some_and(|due| began < due) {
            return;
        }
        let Some(reader) = looks.processes.iter().map(|one| &one.reader).find(|reader| reader.description().process == process)
        else {
            return;
        };
        let (told, why_not) = match connections(reader) {
            Ok(told) => (told, None),
            Err(why) => (Vec::new(), Some(why.to_string())),
        };
        let due = Some(began + LOOK_PART * began.elapsed().max(Duration::from_millis(1)));
        *self = Self { process: Some(process), told, why_not, at_nanoseconds, due };
    }
}

fn connections(reader: &Reader) -> Result<Vec<KernelConnection>> {
    let pid = reader.description().process.pid;
    ensure!(reader.liveness() != Liveness::Dead, "process {pid} has ended, and the kernel has closed its connections");
    ensure!(shares_network(pid)?, "process {pid} has another network namespace: run top there, by nsenter --net --target {pid}");
    let (mut told, _) = all(reader)?;
    told.sort_by_key(|one| {
        let queues = u64::from(one.connection.receive_queue) + u64::from(one.connection.send_queue);
        (!one.alignment.is_stray(), std::cmp::Reverse(queues), one.row.map(|row| row.opened_second))
    });
    Ok(told)
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
        let shown = since.unwrap_or_else(|| now.clone());
        self.record.look(&shown);
        self.shown = Some(shown);
        self.before = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane::admin::watch::{Description, LaneName, Page};

    #[test]
    fn so_many_processes_are_looked_at_and_each_once() {
        let page = |pid| {
            let process = ProcessId { pid, ..ProcessId::default() };
            Page::heap(&Description { process, lanes: vec![LaneName::default()], ..Description::default() }).unwrap()
        };
        let pages: Vec<Page> = (0..2 * PROCESSES_MAX as u32).map(page).collect();
        let readers = |pages: &[Page]| pages.iter().map(|page| Reader::of(page).unwrap()).collect::<Vec<_>>();
        let mut looks = Looks::new(Some(0), readers(&pages[..3]));
        looks.admit(readers(&pages[1..4]));
        looks.look(1);
        let shown = |looks: &Looks| looks.shown().iter().map(|shown| shown.process.pid).collect::<Vec<_>>();
        assert_eq!(shown(&looks), [0, 1, 2, 3]);
        looks.admit(readers(&pages));
        looks.look(2);
        assert_eq!(shown(&looks), Vec::from_iter(0..PROCESSES_MAX as u32));
    }
}
