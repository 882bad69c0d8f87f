//! Options that can change while it serves.

use corelane::service::entry::choice::{Choice, Chosen};
use corelane_upstreams::{Targets, entry};

/// What can change while it serves.
pub(crate) const LIVE: &[Choice] = &[entry::TARGETS];

/// The upstreams of that.
pub(crate) fn live(options: &str) -> Option<Targets> {
    entry::targets(&Chosen::read(LIVE, options).ok()?)
}
