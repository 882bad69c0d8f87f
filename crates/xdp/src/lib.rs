//! Ports of real interfaces: one queue of one interface each, which a driver drives (`corelane_seam::Port`).
//!
//! ```text
//! ports_for(interface, ours, queues) -> Queue, one a lane, and what was lost -> port(memory, ring)     the best of these:
//! taps_for(name, ours, (hasher, table), queues) -> the same of a tap, and its selector
//! ReceiveThreads::start(interfaces, lanes, user fraction)                      no port: the kernel's own receiving, for its sockets
//! choice.poll()                                                                lanes take packets in by themselves
//! afxdp::open(name, ours, queues)    -> XdpQueue -> port(memory, ring)         what is ours comes, the rest is the kernel's
//! packet::open(name, queues)         -> PacketQueue -> port(memory)            everything comes, and the kernel has it as well
//! tap::open(name, queues)            -> TapQueue -> port(memory)               the kernel is at the other end of the wire
//! tap::steer(queue, selector)                                                  which queue a flow of the kernel's gets
//! ```
//!
//! Ports of a gateway share a [`FastPath`]: rules, and ways that lanes have learnt, become part of their programs (`choice.offload(fast)`).
//!
//! What is not ours goes to the kernel's own stack on the CPU that received it, not by a CPU map to the lane's: Corelane serves the kernel's packets at sockets,
//! where selection finds the lane, and a map costs a thread of the kernel for each CPU and the checksums that a local sender left out.
//!
//! A packet that is longer than a frame lies in several, at every port alike: 17 at the most, as many as the kernel takes.
//!
//! A port is made on its lane's thread, in the network namespace of its interface, and given to the driver with `FrameOp::Open`. It never waits.
//! Its descriptor tells of frames, another of the interface: that it went down, came up, or is gone, has another address, another longest packet, or no
//! carrier. Whatever the process attaches ends with the process, however it ends.
#![allow(unsafe_code)]

pub mod afxdp;
mod arrivals;
mod attaching;
mod btf;
mod card;
mod choice;
mod claims;
mod copying;
mod errors;
mod fast;
mod groups;
mod hearing;
mod holder;
mod kernel;
mod layout;
mod link;
mod napi;
mod ours;
mod outgoing;
mod outlook;
pub mod packet;
mod polling;
mod posted;
mod pressure;
mod receiving;
mod ring;
mod share;
mod socket;
pub mod tap;
mod words;

pub use choice::{Choice, Loss, Queue, check_lanes, ports_for, taps_for};
pub use copying::{Calls, CopyingPort, Received};
pub use errors::Error;
pub use fast::{FAST_PORTS_MAX, FastPath, FastTraffic, RULES_MAX, Unfit};
pub use kernel::{KernelChange, KernelNews};
pub use link::{Interface, taking_away};
pub use ours::{OURS_MAX, Ours};
pub use polling::left_deferring;
pub use receiving::{LaneThread, ReceiveThreads, Told, check_receiving, left_behind, receive_setting};
pub use share::{USER_FRACTION, USER_FRACTION_MAX};
