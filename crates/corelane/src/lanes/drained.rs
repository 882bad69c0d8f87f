//! The fate of the connections when the lanes were told to end.

use corelane_watch::{ServiceCounter, Snapshot};
use std::fmt;

/// How connections ended from the moment on at which the lanes were told to end, from the counters of their page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// Ended in order: what was asked was answered, and the answer left.
    pub in_order: u64,
    /// Cut by us: at a limit of the drain, or because a second signal came.
    pub cut: u64,
    /// Broken off by their peer or the network.
    pub broken_off: u64,
}

impl Drained {
    pub(crate) fn between(before: &Snapshot, after: &Snapshot) -> Self {
        let sum = |snapshot: &Snapshot, counters: &[ServiceCounter]| -> u64 {
            let of = |service: &corelane_watch::ServiceSnapshot| {
                counters.iter().map(|counter| service.values.get(*counter)).sum::<u64>()
            };
            snapshot.services.iter().map(of).sum()
        };
        let since = |counters: &[ServiceCounter]| sum(after, counters).saturating_sub(sum(before, counters));
        use ServiceCounter as C;
        Self {
            in_order: since(&[C::EndingsCompleted, C::EndingsEndOfStream, C::EndingsClosing]),
            // A lane that is stopped leaves its connections as they are.
            cut: since(&[C::EndingsAborted]) + sum(after, &[C::ConnectionsOpen]),
            broken_off: since(&[C::EndingsError]),
        }
    }
}

impl fmt::Display for Drained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { in_order, cut, broken_off } = self;
        write!(f, "connections that ended in order {in_order}, cut {cut}, broken off by peers {broken_off}")
    }
}
