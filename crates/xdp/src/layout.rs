//! Where things stand in a frame, and numbers that stand there, for the program of an interface and the filter beside it: both decide who hears a packet, and so
//! read the same bytes (RFC 826, RFC 791, RFC 8200, RFC 4861, RFC 768).

/// Places in a frame, in bytes.
pub mod at {
    pub const ETHER_TYPE: i16 = 12;
    pub const NETWORK: i16 = 14;
    pub const ARP_SENDER: i16 = 28;
    pub const ARP_TARGET: i16 = 38;
    pub const V4_FRAGMENT: i16 = 20;
    pub const V4_PROTOCOL: i16 = 23;
    pub const V4_DESTINATION: i16 = 30;
    pub const V4_END: i16 = 34;
    pub const V6_NEXT: i16 = 20;
    pub const V6_DESTINATION: i16 = 38;
    pub const V6_END: i16 = 54;
    /// Behind a header for all routers on the way, of eight bytes.
    pub const V6_OPTIONS_END: i16 = 62;
    /// The address that a message of neighbour discovery is about.
    pub const TARGET: i16 = 62;
    pub const TARGET_END: i16 = 78;
    /// From a UDP header on.
    pub const UDP_DESTINATION: i16 = 2;
    pub const UDP_BYTES: i16 = 8;
}

pub const IPV4: u16 = 0x0800;
pub const ARP: u16 = 0x0806;
pub const IPV6: u16 = 0x86dd;
/// A tag of IEEE 802.1Q.
pub const VLAN: u16 = 0x8100;
/// The bits of a tag that name its VLAN; 0 names none.
pub const VLAN_NUMBER: u16 = 0xfff;
pub const UDP: u8 = 17;
pub const ICMPV6: u8 = 58;
pub const HOP_BY_HOP: u8 = 0;
pub const LISTENER_QUERY: u8 = 130;
pub const NEIGHBOUR_SOLICITATION: u8 = 135;
pub const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
