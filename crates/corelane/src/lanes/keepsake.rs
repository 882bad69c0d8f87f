//! What services keep over a restart.

use std::sync::Arc;

/// Bytes of one: small secrets, not caches.
pub(crate) const BYTES_MAX: usize = 4 << 10;

/// Gives what is kept, for the next process.
type Give = dyn Fn() -> Vec<u8> + Send + Sync;
/// Takes what the process before gave.
type Take = dyn Fn(&[u8]) + Send + Sync;

/// Something that is handed over by name.
#[derive(Clone)]
pub(crate) struct Keepsake {
    pub(crate) name: String,
    pub(crate) give: Arc<Give>,
    pub(crate) take: Arc<Take>,
}

/// Gives each its own; of those of one name, the first to the first.
pub(crate) fn hand_out(keepsakes: &[Keepsake], mut given: Vec<(String, Vec<u8>)>) {
    for keepsake in keepsakes {
        if let Some(place) = given.iter().position(|(name, _)| *name == keepsake.name) {
            (keepsake.take)(&given.remove(place).1);
        }
    }
}
