//! The most that a driver may take at once, and what runs beside its lane.

/// The most that a driver may take at once, and what runs beside its lane. The defaults are what measured best; change one where a measurement of
/// your own says so. A value out of range is refused when a driver is made.
///
/// ```
/// # mod corelane { pub mod lanes { pub use corelane_seam::Tuning as DriverSettings; } }
/// let settings = corelane::lanes::DriverSettings::new().offload_threads(8).offload_max(256);
/// assert_eq!((settings.offload_threads, settings.offload_max), (8, 256));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tuning {
    /// See the function of this name.
    pub receive_bytes: usize,
    /// See the function of this name.
    pub receive_cycle_bytes: usize,
    /// See the function of this name.
    pub datagram_bytes: usize,
    /// See the function of this name.
    pub accept_batch: usize,
    /// See the function of this name.
    pub offload_max: usize,
    /// See the function of this name.
    pub offload_threads: usize,
    /// See the function of this name.
    pub watches_max: usize,
    /// See the function of this name.
    pub pipes_max: usize,
    /// See the function of this name.
    pub bridged_pairs_max: usize,
    /// See the function of this name.
    pub zero_copy_bytes: usize,
    /// See the function of this name.
    pub zero_copy_always: bool,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            receive_bytes: 60 << 10,
            receive_cycle_bytes: 256 << 10,
            datagram_bytes: 1 << 20,
            accept_batch: 64,
            offload_max: 64,
            offload_threads: 4,
            watches_max: 1024,
            pipes_max: 64,
            bridged_pairs_max: 0,
            zero_copy_bytes: usize::MAX,
            zero_copy_always: false,
        }
    }
}

impl Tuning {
    /// [`Tuning::bridged_pairs_max`] of lanes with a service that asks for a bridge, unless it was set.
    pub const BRIDGED_PAIRS: usize = 4096;

    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes that one receive of a connection brings at the most, 1 to 4 MiB. By default 60 KiB: what is passed on as it came then leaves
    /// in one segment of the loopback interface.
    #[must_use]
    pub fn receive_bytes(mut self, bytes: usize) -> Self {
        self.receive_bytes = bytes;
        self
    }

    /// Bytes that a lane receives before it works on them, at least 1, where each receive counts for at least a 16th. They are the memory
    /// that is used again and again, and should fit into the CPU's second-level cache. By default 256 KiB.
    #[must_use]
    pub fn receive_cycle_bytes(mut self, bytes: usize) -> Self {
        self.receive_cycle_bytes = bytes;
        self
    }

    /// Bytes of the block that one receive of datagrams fills at the most, 64 KiB to 4 MiB. By default 1 MiB.
    #[must_use]
    pub fn datagram_bytes(mut self, bytes: usize) -> Self {
        self.datagram_bytes = bytes;
        self
    }

    /// Connections that a lane accepts from one listener before it works on what it has, at least 1. By default 64.
    #[must_use]
    pub fn accept_batch(mut self, connections: usize) -> Self {
        self.accept_batch = connections;
        self
    }

    /// Offloaded calls of one lane that wait or run at once, 1 to 1,048,576; the next ones have to
    /// wait in their connections. By default 64.
    #[must_use]
    pub fn offload_max(mut self, calls: usize) -> Self {
        self.offload_max = calls;
        self
    }

    /// Threads beside each lane for what would have to wait, 2 to 256: one is kept for files, the others carry out offloaded calls as well. They
    /// start when they are needed. Half as many come on top for what may wait for others than this machine's disks: files of a program (FUSE) or of another machine (NFS). With `uring` the
    /// kernel's own threads for files are bounded by the same number. By default 4.
    #[must_use]
    pub fn offload_threads(mut self, threads: usize) -> Self {
        self.offload_threads = threads;
        self
    }

    /// Directories that one lane watches at once, 0 to 1,048,576; what lies in others is looked at again and again. Each costs about a kibibyte of the system's memory. By default 1024.
    #[must_use]
    pub fn watches_max(mut self, directories: usize) -> Self {
        self.watches_max = directories;
        self
    }

    /// Pipes that one lane has bytes in at once, 0 to 65,536: bulk that a proxy passes on unseen goes through them, and through the lane's memory where there is none left. Each takes two
    /// descriptors, and holds up to 256 KiB of the system's memory. All processes of a user share what `/proc/sys/fs/pipe-user-pages-soft` allows, unless they have CAP_SYS_RESOURCE. By default 64.
    #[must_use]
    pub fn pipes_max(mut self, pipes: usize) -> Self {
        self.pipes_max = pipes;
        self
    }

    /// Pairs of connections on one lane between which the system itself may pass bytes at once, 0 to 65,536; 0 makes no bridge, the default. It takes CAP_BPF and CAP_NET_ADMIN, and about 300 bytes of the system's
    /// memory for each, from the start on.
    #[must_use]
    pub fn bridged_pairs_max(mut self, pairs: usize) -> Self {
        self.bridged_pairs_max = pairs;
        self
    }

    /// Sends of at least so many bytes leave the lane's memory without being copied by the kernel, where it can (MSG_ZEROCOPY on TCP); at least 1. Their memory stays charged to
    /// their connection until the peer has taken it, or the card has read it. Where the kernel copies in the end, on loopback and between virtual interfaces, the first such send shows it, and
    /// sends to that network are copied for ten minutes. `sends_uncopied`, `sends_copied_anyway` and their fellows count which way sends went, and why. By default no send goes so. Try it with
    /// cards that gather and sum (SG, CSUM) and sends of 64 KiB and more.
    #[must_use]
    pub fn zero_copy_bytes(mut self, bytes: usize) -> Self {
        self.zero_copy_bytes = bytes;
        self
    }

    /// Whether large sends are never copied by choice, whatever was seen before: for measurements. By default they are.
    #[must_use]
    pub fn zero_copy_always(mut self, always: bool) -> Self {
        self.zero_copy_always = always;
        self
    }
}
