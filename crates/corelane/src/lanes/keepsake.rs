//! State that services keep over a restart.

use std::sync::Arc;

/// Bytes of one: small secrets, not caches.
pub(crate) const BYTES_MAX: usize = 4 << 10;

/// Gives what is kept, by its name, for the next process.
type Give = dyn Fn() -> (String, Vec<u8>) + Send + Sync;
/// Hears the name and bytes of what the process before gave; returns whether that was its own.
type Take = dyn Fn(&str, &[u8]) -> bool + Send + Sync;

/// Something that is handed over by name.
#[derive(Clone)]
pub(crate) struct Keepsake {
    pub(crate) give: Arc<Give>,
    pub(crate) take: Arc<Take>,
}

/// Gives each its own; of those of one name, the first to the first.
pub(crate) fn hand_out(keepsakes: &[Keepsake], mut given: Vec<(String, Vec<u8>)>) {
    for keepsake in keepsakes {
        if let Some(place) = given.iter().position(|(name, bytes)| (keepsake.take)(name, bytes)) {
            given.remove(place);
        }
    }
}
