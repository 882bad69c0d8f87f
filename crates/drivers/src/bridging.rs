//! Whether this process may have the kernel pass on bytes of pairs.

use corelane_bridge::{Bridge, Error};

/// Makes a bridge for one pair, and drops it.
///
/// # Errors
/// In words, why the system makes none.
pub fn probe_bridge() -> Result<(), String> {
    // The remedy is not that of steering, of which the error speaks.
    let words = |error| if let Error::BpfForbidden { call } = error { format!("{call} is forbidden") } else { error.to_string() };
    Bridge::new(1).map(drop).map_err(words)
}
