//! Facts that only the operating system has, for programs that measure themselves, others, or the machine. The use of CPU and memory by processes and threads, this program's own too, needs the feature `machine`, and so do lists of connections.

#[cfg(feature = "machine")]
pub use corelane_machine::connections::{Connection, connections, shares_network};
pub use corelane_machine::ethtool::{Channels, Ethtool, Fields, FlowKind, HashFunction, Rings, Rss};
pub use corelane_machine::interfaces::{Interface, Link, cpu_list, list as interfaces};
pub use corelane_machine::interrupts::{Interrupt, Queue};
pub use corelane_machine::network::{NetworkCounters, UdpErrors, local_ports, network_counters, ports_to_choose};
pub use corelane_machine::topology::Cpu;
pub use corelane_machine::{Machine, StolenTime, stolen_time};
pub use corelane_os::caller::connect_from;
pub use corelane_os::clock::{now as monotonic_nanoseconds, sleep_until, wall_clock};
#[cfg(feature = "machine")]
pub use corelane_os::processes::{Footprint, Process, ProcessTree, ThreadTimes, TreeTimes, thread_times};
pub use corelane_os::runner::thread_id;
