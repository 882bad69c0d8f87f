//! Which settings a driver can work with.

use crate::datagrams::PIECE_BYTES;
use crate::errors::Error;
use corelane_seam::{LEASE_BYTES_MAX, Tuning};

/// Threads that one lane may have for what would have to wait.
const THREADS_MOST: usize = 256;
/// Offloaded calls that may wait or run at once: each has its place in a queue.
const CALLS_MOST: usize = 1 << 20;
/// Directories that may be watched at once: no system allows a user more unless it is told to (`fs.inotify.max_user_watches`).
const WATCHES_MOST: usize = 1 << 20;

/// Pipes that may hold bytes at once: each takes two descriptors, of which a process has fewer by far.
const PIPES_MOST: usize = 1 << 16;
/// Pairs between which the system passes bytes at once: each takes memory of its own from the start on.
const PAIRS_MOST: usize = 1 << 16;

/// Refuses settings that would leave a driver without memory to receive into, without progress, or without bounds.
///
/// # Errors
/// [`Error::Tuning`].
pub fn check(tuning: &Tuning) -> Result<(), Error> {
    let fields = [
        ("receive_bytes", tuning.receive_bytes, 1, LEASE_BYTES_MAX),
        ("receive_cycle_bytes", tuning.receive_cycle_bytes, 1, usize::MAX),
        ("datagram_bytes", tuning.datagram_bytes, PIECE_BYTES, LEASE_BYTES_MAX),
        ("accept_batch", tuning.accept_batch, 1, usize::MAX),
        ("offload_max", tuning.offload_max, 1, CALLS_MOST),
        // One is kept for files, so that calls which last long never stop them.
        ("offload_threads", tuning.offload_threads, 2, THREADS_MOST),
        ("watches_max", tuning.watches_max, 0, WATCHES_MOST),
        ("pipes_max", tuning.pipes_max, 0, PIPES_MOST),
        ("bridged_pairs_max", tuning.bridged_pairs_max, 0, PAIRS_MOST),
        ("zero_copy_bytes", tuning.zero_copy_bytes, 1, usize::MAX),
    ];
    match fields.into_iter().find(|&(_, got, least, most)| got < least || got > most) {
        Some((field, got, least, most)) => Err(Error::Tuning { field, got, least, most }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_out_of_range_is_named() {
        assert_eq!(check(&Tuning::default()), Ok(()));
        let default = Tuning::new;
        let wrong = [
            (default().receive_bytes(0), "receive_bytes must be 1 to 4194304, not 0"),
            (default().receive_bytes(usize::MAX), "receive_bytes must be 1 to 4194304, not"),
            (default().receive_cycle_bytes(0), "receive_cycle_bytes must be 1 to"),
            (default().datagram_bytes(65_535), "datagram_bytes must be 65536 to 4194304, not 65535"),
            (default().accept_batch(0), "accept_batch must be 1 to"),
            (default().offload_max((1 << 20) + 1), "offload_max must be 1 to 1048576, not 1048577"),
            (default().offload_threads(1), "offload_threads must be 2 to 256, not 1"),
            (default().offload_threads(257), "offload_threads must be 2 to 256, not 257"),
            (default().zero_copy_bytes(0), "zero_copy_bytes must be 1 to"),
            (default().pipes_max((1 << 16) + 1), "pipes_max must be 0 to 65536, not 65537"),
            (default().bridged_pairs_max((1 << 16) + 1), "bridged_pairs_max must be 0 to 65536, not 65537"),
            (default().watches_max((1 << 20) + 1), "watches_max must be 0 to 1048576, not 1048577"),
        ];
        for (tuning, words) in wrong {
            let error = check(&tuning).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
