//! Fields at fixed places. That each lies within its header is proved when the program is compiled, so reading one cannot fail.

use crate::Error;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The `L` bytes at `AT`.
pub(super) fn field<const AT: usize, const L: usize, const N: usize>(head: &[u8; N]) -> [u8; L] {
    const { assert!(AT + L <= N, "a field lies within its header") };
    std::array::from_fn(|index| head[AT + index])
}

/// The 16 bits at `AT`.
pub(super) fn u16_at<const AT: usize, const N: usize>(head: &[u8; N]) -> u16 {
    u16::from_be_bytes(field::<AT, 2, N>(head))
}

/// The 32 bits at `AT`.
pub(super) fn u32_at<const AT: usize, const N: usize>(head: &[u8; N]) -> u32 {
    u32::from_be_bytes(field::<AT, 4, N>(head))
}

/// The IPv4 address at `AT`.
pub(super) fn v4_at<const AT: usize, const N: usize>(head: &[u8; N]) -> Ipv4Addr {
    field::<AT, 4, N>(head).into()
}

/// The IPv6 address at `AT`.
pub(super) fn v6_at<const AT: usize, const N: usize>(head: &[u8; N]) -> Ipv6Addr {
    field::<AT, 16, N>(head).into()
}

/// Puts a field at `AT`.
pub(super) fn set<const AT: usize, const L: usize, const N: usize>(head: &mut [u8; N], value: [u8; L]) {
    const { assert!(AT + L <= N, "a field lies within its header") };
    head[AT..AT + L].copy_from_slice(&value);
}

/// The header of `N` bytes at the front, and what follows it.
pub(super) fn split<const N: usize>(bytes: &[u8]) -> Result<(&[u8; N], &[u8]), Error> {
    bytes.split_first_chunk().ok_or(Error::Truncated { expected: N, got: bytes.len() })
}

/// The first `length` bytes, and what follows them.
pub(super) fn split_at(bytes: &[u8], length: usize) -> Result<(&[u8], &[u8]), Error> {
    bytes.split_at_checked(length).ok_or(Error::Truncated { expected: length, got: bytes.len() })
}

/// The same, where the last of the first `length` bytes may lie elsewhere, at most `missing`: then all bytes.
pub(super) fn split_front(bytes: &[u8], length: usize, missing: usize) -> Result<(&[u8], &[u8]), Error> {
    let is_front = length > bytes.len() && length - bytes.len() <= missing;
    if is_front { Ok((bytes, &[])) } else { split_at(bytes, length) }
}

/// A length of data as its field of 16 bits has it.
pub(super) fn length_u16(bytes: usize) -> Result<u16, Error> {
    u16::try_from(bytes).map_err(|_| Error::Oversized { limit: u16::MAX.into(), got: bytes })
}
