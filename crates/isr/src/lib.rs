//! The packet path between ports and protocols. It does no input or output and asks no clock: time is handed in.
//!
//! ```text
//! port (Frame) --wire::packet::Packet--> whole? ----------------------------------------> rss: hash --> lane of its bucket
//!                                        fragment? --> Reassembly --> chain of frames --> rss: hash again --> reinjected there
//!                                        tunnel? --> opened by crate `stack` on the lane that received it, and hashed again
//! ```
//!
//! [`reassembly`] puts fragments together: its result is the frames they came in, in order, with one header, so nothing is copied.
//!
//! [`dispatch`] says on which lane a packet's handler runs, and when: a reassembled datagram is reinjected as `IP_DIRECT` on its bucket's.
//!
//! [`polling`] says how much of a CPU's time reception may take, and finds the settings for it.
//!
//! Crate `stack` carries the first two out on a lane: it feeds them from its port, calls [`Reassembly::expire`](reassembly::Reassembly::expire) at
//! [`Reassembly::due`](reassembly::Reassembly::due), and has packets change lanes as parcels.
#![forbid(unsafe_code)]

pub mod dispatch;
pub mod polling;
pub mod reassembly;
