//! Push: sends the same memory to each client, over and over, as long as the client takes it (as the chargen service of RFC 864 does); and drops the datagrams that it
//! gets (RFC 863).
//!
//! ```text
//! lane: one region, made once ----slice---> connection's output ---one send---> peer
//!                                    ^                              |
//!                                    +--drained: all has left <-----+         so each connection has one piece under way, and no memory of its own
//! ```
//!
//! * **A byte's place in its connection's stream tells what it is** ([`corelane_wire::pattern`]). So every client can check what it gets, whatever `size` is.
//! * **The region is never written again.** Whatever way a piece is sent, and whenever its memory is released, no peer sees another byte than it should.
//! * **What a peer says is dropped.** A peer that has finished gets what was on its way, and then the end.
//! * **A peer that takes nothing** ends at `send_limit`, as with every service: a piece is one request.
//! * **A drain** sends no further piece.
#![forbid(unsafe_code)]

mod discard;
mod entry;
mod push;
mod source;

pub use discard::Discard;
pub use entry::{DEFAULT_PORT, ENTRY};
pub use push::{Push, SIZE_DEFAULT, SIZE_MAX, Session};
pub use source::Begin;
