//! Unix sockets inside: the addresses, which no host has, by which they are known, and what is kept of a name.

use corelane_seam::Unix;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The first words of the addresses by which names, and sockets without one, are known inside.
const NAMES: u16 = 0xfd55;
const NAMELESS: u16 = 0xfd56;
/// The port of all of them.
const PORT: u16 = 1;

/// A name that somebody has, had or asked for.
pub(crate) struct Name {
    pub(super) host: usize,
    pub(super) unix: Unix,
    /// Whose it is, or was last.
    pub(super) user: u32,
    /// It was bound: if it is a path, it lies in the file system.
    pub(super) was_bound: bool,
}

/// Whether it is a Unix socket's, with a name or without.
pub(crate) fn is_unix(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if [NAMES, NAMELESS].contains(&ip.segments()[0]))
}

/// Whether it is that of a Unix socket without a name.
pub(crate) fn is_nameless(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.segments()[0] == NAMELESS)
}

/// The number of a name, if the address is that of one.
pub(super) fn number(ip: IpAddr) -> Option<usize> {
    (is_unix(ip) && !is_nameless(ip)).then(|| low_word(ip) as usize)
}

fn low_word(ip: IpAddr) -> u32 {
    match ip {
        IpAddr::V6(ip) => ip.to_bits() as u32,
        IpAddr::V4(ip) => unreachable!("{ip} is no Unix socket's"),
    }
}

/// The user of a socket without a name, who is told by its address.
pub(super) fn user_of(nameless: IpAddr) -> u32 {
    match nameless {
        IpAddr::V6(ip) => (ip.to_bits() >> 32) as u32,
        IpAddr::V4(ip) => unreachable!("{ip} is no Unix socket's"),
    }
}

/// The address of the name with this number.
pub(super) fn numbered_address(number: usize) -> SocketAddr {
    inside(NAMES, 0, number as u64)
}

/// The address of a socket without a name, of a process of `user`; the number is its own.
pub(super) fn nameless_address(user: u32, number: u64) -> SocketAddr {
    inside(NAMELESS, user, number)
}

fn inside(first: u16, user: u32, number: u64) -> SocketAddr {
    assert!(number <= u32::MAX.into(), "a world ends before its numbers do");
    let bits = u128::from(first) << 112 | u128::from(user) << 32 | u128::from(number);
    SocketAddr::new(Ipv6Addr::from_bits(bits).into(), PORT)
}
