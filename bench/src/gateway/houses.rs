//! The post's houses: 40 networks behind one port, each with 32 users and the gateway as their router.

use std::net::Ipv4Addr;

/// Houses, numbered from 1; a house's number is that of its VLAN as well.
pub const HOUSES: u8 = 40;
/// Users of each, some 1,300 in all as in the post: a power of two.
pub const USERS: u8 = 32;
/// The last byte of the first user's address: a multiple of [`USERS`], so that a user's number is its low bits.
pub const FIRST_USER: u8 = 32;
/// All houses together.
pub const CAMPUS: &str = "10.0.0.0/8";
/// Bytes of a frame without a tag, and of a tag.
pub const FRAME_BYTES: usize = 510;
pub const TAG_BYTES: usize = 4;

/// All houses.
pub fn all() -> impl Iterator<Item = u8> + Clone {
    1..=HOUSES
}

/// A house's network.
pub fn network(house: u8) -> String {
    format!("10.0.{house}.0/24")
}

/// The gateway's address there.
pub fn router(house: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, house, 1)
}

/// The addresses of a house's users.
pub fn users(house: u8) -> impl Iterator<Item = Ipv4Addr> {
    (FIRST_USER..FIRST_USER + USERS).map(move |user| Ipv4Addr::new(10, 0, house, user))
}
