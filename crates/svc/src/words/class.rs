//! The classes of handles that services use.

pub(crate) const CONNECTION: u8 = 0;
pub(crate) const LISTENER: u8 = 1;
pub(crate) const DATAGRAMS: u8 = 2;
pub(crate) const REQUEST: u8 = 3;
pub(crate) const DEADLINE: u8 = 4;
pub(crate) const TIMER: u8 = 5;
pub(crate) const ACCEPT_AGAIN: u8 = 6;
pub(crate) const DRAIN: u8 = 7;
/// Sockets that are closed without ever having been a connection.
pub(crate) const UNADMITTED: u8 = 8;
pub(crate) const LEAVE: u8 = 9;
pub(crate) const COUNTS: u8 = 10;
/// Sockets that are closed without ever having been served at. Nobody waits for that.
pub(crate) const DISCARDED: u8 = 11;
/// Sockets that are opened to see from which address a peer is reached.
pub(crate) const ROUTE: u8 = 12;
/// Files that are closed because nobody holds them any more.
pub(crate) const FILE: u8 = 13;
/// The timer of those who wait for memory.
pub(crate) const MEMORY: u8 = 14;
/// The timer at whose end the drops of datagram sockets are read.
pub(crate) const DROPS: u8 = 15;
