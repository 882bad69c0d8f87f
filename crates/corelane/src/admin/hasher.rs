//! How flows are hashed, in the words of a counter page and of a control socket.

use corelane_rss::FlowHasher;

/// Key and hash types.
pub(crate) fn hasher_words(hasher: &FlowHasher) -> String {
    format!("{} {}", hasher.toeplitz().key(), hasher.types())
}
