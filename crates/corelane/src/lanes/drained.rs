//! The fate of the connections when the lanes were told to end.

use corelane_watch::{Page, ServiceCounter};
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
    /// Counts the endings of a page's connections, in order, cut and broken off, and those that are open.
    pub(crate) fn counts(page: &Page) -> [u64; 4] {
        use ServiceCounter as C;
        [
            page.sum(&[C::EndingsCompleted, C::EndingsEndOfStream, C::EndingsClosing]),
            page.sum(&[C::EndingsAborted]),
            page.sum(&[C::EndingsError]),
            page.sum(&[C::ConnectionsOpen]),
        ]
    }

    pub(crate) fn between(before: [u64; 4], after: [u64; 4]) -> Self {
        let since = |kind: usize| after[kind].saturating_sub(before[kind]);
        // A lane that is stopped leaves its connections as they are.
        Self { in_order: since(0), cut: since(1) + after[3], broken_off: since(2) }
    }
}

impl fmt::Display for Drained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { in_order, cut, broken_off } = self;
        write!(f, "connections that ended in order {in_order}, cut {cut}, broken off by peers {broken_off}")
    }
}
