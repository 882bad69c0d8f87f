//! What a program keeps of its packet, in front of the CPU's counters, and in registers.
//!
//! Notes lie there and not on the stack, because the kernel's check of a program takes each number that it loads from a map for any number. So it walks a tree of
//! rules once, and not once for each kind of packet.

use corelane_select::bpf::assembly::Register;

/// The packet as the kernel has it.
pub const CONTEXT: Register = Register::R6;
/// The notes, and the counters behind them.
pub const COUNTERS: Register = Register::R7;
/// Nanoseconds of the monotonic clock, some milliseconds behind.
pub const NOW: Register = Register::R8;
/// Bytes of the packet, from the IP header on.
pub const LENGTH: Register = Register::R9;

/// 0 for IPv4, 1 for IPv6.
pub const FAMILY: i16 = 0;
pub const PROTOCOL: i16 = 8;
pub const SOURCE: i16 = 16;
pub const DESTINATION: i16 = 32;
/// Behind an address: its low half.
pub const LOW: i16 = 8;
pub const SOURCE_PORT: i16 = 48;
pub const DESTINATION_PORT: i16 = 56;
pub const FLAGS: i16 = 64;
pub const ICMP: i16 = 72;
pub const ICMP6: i16 = 80;
pub const SOURCE_IS_OURS: i16 = 88;
pub const DESTINATION_IS_OURS: i16 = 96;
pub const RECEIVE: i16 = 104;
pub const TRANSMIT: i16 = 112;
/// Bytes of tags that came, and that leave.
pub const TAGS_IN: i16 = 120;
pub const TAGS_OUT: i16 = 128;
/// The end of a way's value, from the header of the link on.
pub const WAY: i16 = 136;
/// The sum of both addresses' words.
pub const ADDRESSES: i16 = 160;

const _: () = assert!(ADDRESSES as usize + 8 <= super::counters::NOTES_BYTES);
