//! How each lane's driver uses the lane's memory and its helper threads.

use crate::error::Error;
use corelane_seam::Tuning;

/// What a driver may take at once, and what runs beside its lane. The defaults are what measured best; change one where a measurement of
/// your own says so. Given to [`Lanes::driver_settings`](crate::Lanes::driver_settings), which refuses what is out of range at the start.
///
/// ```
/// let settings = corelane::lanes::DriverSettings::new().offload_threads(8).offload_max(256);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DriverSettings {
    tuning: Tuning,
}

impl DriverSettings {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes that one receive of a connection brings at the most, 1 to 4 MiB. By default 60 KiB: what is passed on as it came then leaves
    /// in one segment of the loopback interface.
    #[must_use]
    pub fn receive_bytes(mut self, bytes: usize) -> Self {
        self.tuning.receive_bytes = bytes;
        self
    }

    /// Bytes that a lane receives before it works on them, at least 1, where each receive counts for at least a 16th. They are the memory
    /// that is used again and again, and should fit into the CPU's second-level cache. By default 256 KiB.
    #[must_use]
    pub fn receive_cycle_bytes(mut self, bytes: usize) -> Self {
        self.tuning.receive_cycle_bytes = bytes;
        self
    }

    /// Bytes of the block that one receive of datagrams fills at the most, 64 KiB to 4 MiB. By default 1 MiB.
    #[must_use]
    pub fn datagram_bytes(mut self, bytes: usize) -> Self {
        self.tuning.datagram_bytes = bytes;
        self
    }

    /// Connections that a lane accepts from one listener before it works on what it has, at least 1. By default 64.
    #[must_use]
    pub fn accept_batch(mut self, connections: usize) -> Self {
        self.tuning.accept_batch = connections;
        self
    }

    /// Offloaded calls ([`Cx::offload`](crate::Cx::offload)) of one lane that wait or run at once, 1 to 1,048,576; the next ones have to
    /// wait in their connections. By default 64.
    #[must_use]
    pub fn offload_max(mut self, calls: usize) -> Self {
        self.tuning.offload_max = calls;
        self
    }

    /// Threads beside each lane for what would have to wait, 2 to 256: one is kept for files, the others carry out offloaded calls as well. They
    /// start when they are needed. With `uring` the kernel's own threads for files are bounded by the same number. By default 4.
    #[must_use]
    pub fn offload_threads(mut self, threads: usize) -> Self {
        self.tuning.offload_threads = threads;
        self
    }

    /// Directories that one lane watches at once, 0 to 1,048,576; what lies in others is looked at again and again. Each costs about a kibibyte of the system's memory. By default 1024.
    #[must_use]
    pub fn watches_max(mut self, directories: usize) -> Self {
        self.tuning.watches_max = directories;
        self
    }

    /// What the drivers take.
    ///
    /// # Errors
    /// [`Error::Setting`] for what is out of range.
    pub(crate) fn tuning(self) -> Result<Tuning, Error> {
        match corelane_drivers::check(&self.tuning) {
            Ok(()) => Ok(self.tuning),
            Err(why) => Err(Error::Setting { name: "driver", why: why.to_string() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_range_is_refused_with_its_name_and_the_range() {
        let settings = DriverSettings::default;
        let wrong = [
            (settings().receive_bytes(0), "receive_bytes must be 1 to 4194304, not 0"),
            (settings().receive_bytes(usize::MAX), "receive_bytes must be 1 to 4194304, not"),
            (settings().receive_cycle_bytes(0), "receive_cycle_bytes must be 1 to"),
            (settings().datagram_bytes(65_535), "datagram_bytes must be 65536 to 4194304, not 65535"),
            (settings().accept_batch(0), "accept_batch must be 1 to"),
            (settings().offload_max((1 << 20) + 1), "offload_max must be 1 to 1048576, not 1048577"),
            (settings().offload_threads(1), "offload_threads must be 2 to 256, not 1"),
            (settings().offload_threads(257), "offload_threads must be 2 to 256, not 257"),
            (settings().watches_max((1 << 20) + 1), "watches_max must be 0 to 1048576, not 1048577"),
        ];
        for (settings, words) in wrong {
            let error = settings.tuning().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn what_is_in_range_is_what_drivers_get() {
        let settings = DriverSettings::default().receive_bytes(1).receive_cycle_bytes(2).datagram_bytes(65_536);
        let settings = settings.accept_batch(3).offload_max(4).offload_threads(2).watches_max(5);
        let expected = Tuning {
            receive_bytes: 1,
            receive_cycle_bytes: 2,
            datagram_bytes: 65_536,
            accept_batch: 3,
            offload_max: 4,
            offload_threads: 2,
            watches_max: 5,
        };
        assert_eq!(settings.tuning().unwrap(), expected);
        assert_eq!(DriverSettings::default().tuning().unwrap(), Tuning::default());
    }
}
