//! What programs and those who make them agree on.

use std::os::fd::BorrowedFd;

/// Ports of a gateway at the most.
pub const FAST_PORTS_MAX: usize = 64;
/// Instructions at the most: jumps have 16 bits.
pub const INSTRUCTIONS_MAX: usize = 32_000;
/// Own addresses at the most: they are compared one by one.
pub const OWN_MAX: usize = 64;
/// Where the keys of a source and of a destination stand on a program's stack.
pub const KEYS: [i16; 2] = [-48, -24];

/// Functions of the kernel (bpf-helpers(7)).
pub mod call {
    pub const MAP_LOOKUP: i32 = 1;
    pub const ADJUST_HEAD: i32 = 44;
    pub const REDIRECT_MAP: i32 = 51;
    pub const COARSE_TIME: i32 = 160;
}

/// What programs look up, and count in.
#[derive(Clone, Copy, Debug)]
pub struct Maps<'a> {
    pub counters: BorrowedFd<'a>,
    /// Of sources and of destinations, each of IPv4 and of IPv6.
    pub ways: [[BorrowedFd<'a>; 2]; 2],
    pub generation: BorrowedFd<'a>,
    pub devices: BorrowedFd<'a>,
    pub traffic: BorrowedFd<'a>,
}
