//! Datagram sockets: their table, what leaves by them, and what the system dropped there.

pub(crate) mod drops;
pub(crate) mod replies;
pub(crate) mod sockets;
