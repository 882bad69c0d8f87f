//! What is kept of a process beside its page: what it uses of the machine, and what it did in the seconds before.

use corelane::admin::machine::Process;
use corelane::admin::watch::{Count, Liveness, ProcessFigures, Snapshot};
use std::collections::VecDeque;

/// The most looks that are kept: ten minutes, wider than a terminal.
const MOMENTS_MAX: usize = 600;

/// What a process did between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moment {
    /// Requests a second.
    pub requests: f64,
    /// The time that 99 of 100 of them did not exceed, from receive to send.
    pub request_p99_nanoseconds: Option<u64>,
    /// Answers a second that were errors.
    pub errors: f64,
    /// CPUs that it used; none where that is not for this user to know.
    pub cpus: Option<f64>,
}

/// What is kept of a process.
#[derive(Debug, Default)]
pub struct Record {
    /// The process, once it was found.
    pub process: Option<Process>,
    /// When its CPU time was read last, and what it was, both in nanoseconds.
    pub before: Option<(u64, u64)>,
    /// CPUs that it used between the last two looks.
    pub cpus: Option<f64>,
    /// Its resident memory.
    pub resident_bytes: Option<u64>,
    /// The looks before, oldest first.
    pub past: VecDeque<Moment>,
}

impl Record {
    /// Takes one look more, by which the page has `shown` this.
    pub fn look(&mut self, shown: &Snapshot) {
        self.look_at_process(shown);
        if shown.span_nanoseconds.is_none() {
            return;
        }
        if self.past.len() == MOMENTS_MAX {
            self.past.pop_front();
        }
        self.past.push_back(moment(shown, self.cpus));
    }

    fn look_at_process(&mut self, shown: &Snapshot) {
        (self.cpus, self.resident_bytes) = (None, None);
        if !matches!(shown.liveness, Liveness::Alive | Liveness::Stopped) || shown.process.pid == 0 {
            return;
        }
        let Some(process) = self.process.or_else(|| Process::find(shown.process.pid).ok()) else { return };
        self.process = Some(process);
        self.resident_bytes = process.resident_bytes().ok();
        let now = process.cpu_nanoseconds().ok().map(|used| (shown.at_nanoseconds, used));
        self.cpus = self.before.zip(now).and_then(|((before, earlier), (at, used))| {
            let span = at.saturating_sub(before);
            (span > 0).then(|| used.saturating_sub(earlier) as f64 / span as f64)
        });
        self.before = now;
    }
}

fn moment(shown: &Snapshot, cpus: Option<f64>) -> Moment {
    let ProcessFigures { requests, errors, request_nanoseconds, .. } = ProcessFigures::of(shown);
    let rate = |count: Count| count.per_second.unwrap_or(0.0);
    Moment { requests: rate(requests), request_p99_nanoseconds: request_nanoseconds.p99, errors: rate(errors), cpus }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane::admin::watch::{Description, LaneName, Page, ProcessId, Reader, ServiceCounter, ServiceName};

    #[test]
    fn the_past_is_bounded_and_a_process_is_measured() {
        let process = ProcessId { pid: std::process::id(), ..ProcessId::default() };
        let page = Page::heap(&Description {
            process,
            lanes: vec![LaneName::default()],
            services: vec![ServiceName::default()],
            ..Description::default()
        });
        let page = page.unwrap();
        let (reader, mut record) = (Reader::of(&page).unwrap(), Record::default());
        let mut before = reader.snapshot(0);
        record.look(&before);
        assert!(record.past.is_empty() && record.resident_bytes.unwrap() > 1 << 20);
        for second in 1..=MOMENTS_MAX as u64 + 5 {
            page.service(0, 0).unwrap().add(ServiceCounter::Requests, second);
            let now = reader.snapshot(second * 1_000_000_000);
            record.look(&now.since(&before).unwrap());
            before = now;
        }
        let last = record.past.back().unwrap();
        assert_eq!((record.past.len(), last.requests, last.errors), (MOMENTS_MAX, 605.0, 0.0));
        assert!(last.cpus.is_some());
        before.liveness = Liveness::Dead;
        record.look(&before);
        assert_eq!((record.cpus, record.resident_bytes), (None, None));
    }
}
