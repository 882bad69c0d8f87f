//! Packets for another process, which does the protocol work itself: one ring for each lane, in memory of its own.
//!
//! ```text
//! lane --Producer::put, publish--> sealed memory file --Consumer::take, wait--> another process, in its own context
//!                                  ^ handed over a Unix socket: `Offers`, `take`; closed when either process ends
//! ```
//!
//! A file holds one ring and nothing else, so a consumer sees no other's data and none of a lane's own memory. It cannot be cut off (it is sealed), and
//! neither side believes what the other has written: an index that makes no sense counts as a full ring here, and as [`Broken`] there.
//!
//! | what | bound |
//! | --- | --- |
//! | packets in a ring; bytes of each | a power of two from [`PACKETS`]; [`PACKET_BYTES_MAX`] |
//! | rings in one offer | [`DESCRIPTORS_MAX`](corelane_os::passing::DESCRIPTORS_MAX); processes with channels [`CLIENTS_MAX`] |
//!
//! A full ring drops the packet and counts it. `include/corelane/channel.h` is the same consumer for C.
#![forbid(unsafe_code)]

mod memory;
#[cfg(not(loom))]
mod offers;
mod ring;

pub use memory::HandedMemory;
#[cfg(not(loom))]
pub use offers::{CLIENTS_MAX, Offers, Opens, Taken, take};
pub use ring::{Broken, Consumer, PACKET_BYTES_MAX, PACKETS, Producer, ring};
