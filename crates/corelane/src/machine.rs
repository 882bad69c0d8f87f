//! Facts that only the operating system has, for programs that measure themselves, others, or the machine.

pub use corelane_sys::ethtool::{Channels, Ethtool, Fields, FlowKind, HashFunction, Rings, Rss};
pub use corelane_sys::interfaces::{Interface, Link, cpu_list, list as interfaces};
pub use corelane_sys::interrupts::{Interrupt, Queue};
pub use corelane_sys::machine::{Machine, StolenTime, stolen_time};
pub use corelane_sys::network::{NetworkCounters, UdpErrors, local_ports, network_counters, ports_to_choose};
pub use corelane_sys::processes::{Footprint, Process, ProcessTree, ThreadTimes, TreeTimes, thread_times};
pub use corelane_sys::runner::thread_id;
pub use corelane_sys::topology::Cpu;
pub use corelane_sys::{connect_from, sleep_until, wall_clock};
