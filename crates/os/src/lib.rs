//! Safe system calls and what stands on them alone, one file a subject of the system. What is made of them for a lane stands in the crates
//! `drivers`, `select` and `machine`.
//!
//! | subject | modules |
//! | --- | --- |
//! | sockets: made, shared, handed over by a service manager or to another process | `sockets`, `options`, `named`, `claim`, `caller`, `local`, `handed`, `passing`, `owners`, `progress`, `uncopied` |
//! | threads: for lanes, where one is, what it may do, and those beside lanes | `runner`, `aside`, `cpus`, `scheduling`, `halt`, `limits`, `rights` |
//! | memory: of the process, shared with children, behind a counter page, for another process, of a lane | `memory`, `shared`, `page`, `handed_memory`, `lane_memory`, `memory_file`, `sealed_file` |
//! | time, chance, signals | `clock`, `random`, `signals` |
//! | what the kernel tells: in files, over netlink, about processes and directories | `kernel_files`, `netlink`, `processes`, `watches`, `events` |
//! | lines: for the operator, and in log files | `report`, `journal` |
//!
//! `events`, `halt`, `journal` and `processes` are there with the features of these names: a plain lane does without them.
//!
//! Errors of the system are `errno` numbers, which `errno` translates for lanes; everything else says in words what was tried and why it failed. A call that
//! only some kernels have is tried, not guessed from a version. `unsafe` stands here where `rustix` has no such call, each with its reason.
//!
//! Five crates make the system calls of lanes: this one, above it `drivers`, `select` and `machine`, and `xdp`, whose
//! programs `select` assembles. `bridge` stands on `select`, and `drivers` on `bridge`, and make no calls of their own for it. `confine` and `unwind` make those of programs that give up rights, and of who looks at a thread: by libraries of which a plain lane
//! links nothing. `watch` uses `os` for its pages, `steer` uses `select` and `machine`, and only the facade knows drivers: a lane in a
//! simulation links no BPF and no ring. Code that uses the standard library's threads, files or sockets stands beside the lanes, as `metrics` does with
//! its one thread. `unsafe` is left for what only we need: batches of datagrams, the ring, bpf(2), filters, signalfd(2), clocks of other threads, mapped
//! memory.
#![allow(unsafe_code)]

pub mod aside;
pub mod caller;
pub mod claim;
pub mod clock;
pub mod cpus;
pub mod errno;
#[cfg(feature = "events")]
pub mod events;
#[cfg(feature = "halt")]
pub mod halt;
pub mod handed;
pub mod handed_memory;
#[cfg(feature = "journal")]
pub mod journal;
pub mod kernel_files;
pub mod lane_memory;
mod limits;
pub mod local;
pub mod memory;
pub mod memory_file;
pub mod named;
pub mod netlink;
pub mod options;
mod overlay;
pub mod owners;
pub mod page;
pub mod passing;
#[cfg(feature = "processes")]
pub mod processes;
pub mod progress;
pub mod random;
pub mod report;
pub mod rights;
pub mod runner;
pub mod scheduling;
pub mod sealed_file;
pub mod shared;
pub mod signals;
pub mod sockets;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod uncopied;
pub mod watches;
