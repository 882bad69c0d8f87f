//! Socket addresses as the kernel writes them (ip(7), ipv6(7)).

use corelane_os::sockets::unmapped;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// An address in the kernel's form, large enough for both families.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) union RawAddress {
    any: libc::sockaddr,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

const _: () = assert!(BYTES_V4 <= size_of::<RawAddress>() && BYTES_V6 <= size_of::<RawAddress>());
const BYTES_V4: usize = size_of::<libc::sockaddr_in>();
const BYTES_V6: usize = size_of::<libc::sockaddr_in6>();

impl RawAddress {
    /// Bytes of the whole place.
    pub(crate) const BYTES: libc::socklen_t = size_of::<Self>() as libc::socklen_t;

    /// A place for the kernel to write to.
    pub(crate) fn empty() -> Self {
        // SAFETY: all three members are plain integers, for which zeroes are values.
        unsafe { std::mem::zeroed() }
    }

    /// The kernel's form of `address`, and how many bytes of it count.
    pub(crate) fn of(address: SocketAddr) -> (Self, libc::socklen_t) {
        let mut raw = Self::empty();
        match address {
            SocketAddr::V4(address) => {
                raw.v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: address.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                    sin_zero: [0; 8],
                };
                (raw, BYTES_V4 as libc::socklen_t)
            }
            SocketAddr::V6(address) => {
                raw.v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: address.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                    sin6_scope_id: address.scope_id(),
                };
                (raw, BYTES_V6 as libc::socklen_t)
            }
        }
    }

    /// The address that the kernel wrote, `bytes` long, as [`unmapped`] shows it; none for another family.
    pub(crate) fn decode(&self, bytes: libc::socklen_t) -> Option<SocketAddr> {
        let bytes = bytes as usize;
        // SAFETY: the union is always fully initialised, and the family lies at the same place in all members.
        let family = unsafe { self.any.sa_family };
        match i32::from(family) {
            libc::AF_INET if bytes >= BYTES_V4 => {
                // SAFETY: every bit pattern is a value of this member.
                let raw = unsafe { self.v4 };
                let address = Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddrV4::new(address, u16::from_be(raw.sin_port)).into())
            }
            libc::AF_INET6 if bytes >= BYTES_V6 => {
                // SAFETY: every bit pattern is a value of this member.
                let raw = unsafe { self.v6 };
                let address = Ipv6Addr::from(raw.sin6_addr.s6_addr);
                let port = u16::from_be(raw.sin6_port);
                Some(unmapped(SocketAddrV6::new(address, port, raw.sin6_flowinfo, raw.sin6_scope_id).into()))
            }
            _ => None,
        }
    }

    /// For calls that write an address of up to [`RawAddress::BYTES`].
    pub(crate) fn as_mut_ptr(&mut self) -> *mut libc::sockaddr {
        std::ptr::from_mut(self).cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_kernels_form() {
        for text in ["127.0.0.2:80", "[2001:db8::1]:65535", "0.0.0.0:0"] {
            let address: SocketAddr = text.parse().unwrap();
            let (raw, bytes) = RawAddress::of(address);
            assert_eq!(raw.decode(bytes), Some(address));
        }
        let scoped = SocketAddr::from(SocketAddrV6::new(Ipv6Addr::LOCALHOST, 7, 0, 3));
        let (raw, bytes) = RawAddress::of(scoped);
        assert_eq!(raw.decode(bytes), Some(scoped));
    }

    #[test]
    fn a_mapped_address_is_shown_as_what_it_is() {
        let (raw, bytes) = RawAddress::of("[::ffff:10.1.2.3]:9".parse().unwrap());
        assert_eq!(raw.decode(bytes), Some("10.1.2.3:9".parse().unwrap()));
    }

    #[test]
    fn a_short_or_foreign_address_is_none() {
        assert_eq!(RawAddress::empty().decode(RawAddress::BYTES), None);
        let (raw, bytes) = RawAddress::of("[::1]:9".parse().unwrap());
        assert_eq!(raw.decode(bytes - 1), None);
    }
}
