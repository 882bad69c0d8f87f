//! The packet path between ports and protocols. It does no input or output and asks no clock: time is handed in.
//!
//! ```text
//! port (Frame) --wire::packet::Packet--> whole? ----------------------------------------> rss: hash --> lane of its bucket
//!                                        fragment? --> Reassembly --> chain of frames --> rss: hash again --> reinjected there
//!                                        tunnel? --> Packet::inner, hashed again, on the lane that received it
//! ```
//!
//! [`reassembly`] puts fragments together: its result is the frames they came in, in order, with one header, so nothing is copied.
//!
//! What comes beside it, on the same frames: workstreams and their dispatch, which reinject a reassembled datagram on its bucket's lane; the
//! lane's wheel, which calls [`Reassembly::expire`](reassembly::Reassembly::expire) at [`Reassembly::due`](reassembly::Reassembly::due).
#![forbid(unsafe_code)]

pub mod reassembly;
