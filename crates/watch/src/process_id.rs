//! Which process wrote a page.

/// Which process wrote a page. A process id alone comes back; with its start it does not, until the next boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProcessId {
    /// The process id within its namespace.
    pub pid: u32,
    /// When the process started, in clock ticks since boot: field 22 of /proc/PID/stat.
    pub start_ticks: u64,
    /// The inode of its pid namespace: a pid of another container means nothing here.
    pub pid_namespace: u64,
}
