//! Push: sends the same memory to each client, over and over, as long as the client takes it (as the chargen service of RFC 864 does); and drops the datagrams that it
//! gets (RFC 863).
//!
//! ```text
//! lane: one region, made once ----slice---> connection's output ---one send---> peer
//!                                    ^                              |
//!                                    +--drained: all has left <-----+         so each connection has one piece under way, and no memory of its own
//! ```
//!
//! DESIGN.md has what always holds: a byte's place tells what it is, the region is never written again, one piece is under way on each connection.
#![forbid(unsafe_code)]

mod begin;
mod discard;
mod entry;
mod push;
mod source;
mod windows;

pub use begin::Begin;
pub use discard::Discard;
pub use entry::{DEFAULT_PORT, ENTRY};
pub use push::{Push, SIZE_DEFAULT, SIZE_MAX, Session};
