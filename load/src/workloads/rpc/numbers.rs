//! Which calls a connection or socket has made.

use corelane_wire::rpc::Xids;

/// Connections or sockets whose payloads start so far apart that bytes of another one are wrong bytes.
const PLACE_STRIDE: u64 = 1_013;

/// Connections, or sockets, whose numbers of calls start so far apart.
const XID_STRIDE: u64 = 0x9e37_79b1;

/// Calls of one connection or socket: their numbers, and how many were made.
pub struct Numbers {
    /// Where its payloads stand in the pattern.
    pub(super) base: u64,
    pub(super) xids: Xids,
    pub(super) made: u64,
}

impl Numbers {
    pub(super) fn new(number: u64, salt: u64) -> Self {
        Self { base: number.wrapping_mul(PLACE_STRIDE).wrapping_add(salt), xids: xids(number, salt), made: 0 }
    }
}

fn xids(number: u64, salt: u64) -> Xids {
    Xids::new(number.wrapping_mul(XID_STRIDE).wrapping_add(salt) as u32)
}
