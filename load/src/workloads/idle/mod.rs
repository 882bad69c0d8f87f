//! Many connections, each used once in a while: echo whose rate is one request a connection in so many seconds.

use super::{Entry, echo};

/// Idle connections over TCP.
pub const ENTRY: Entry = Entry { name: "idle", about: "many connections, each of which echoes once in --every", ..echo::ENTRY };
