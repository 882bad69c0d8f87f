//! Socket addresses as the kernel writes them (ip(7), ipv6(7), unix(7)).

use corelane_os::sockets::unmapped;
use corelane_seam::{Address, Unix};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// An address in the kernel's form, large enough for all families.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) union RawAddress {
    any: libc::sockaddr,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
    unix: RawUnix,
}

/// `struct sockaddr_un`, its path as bytes.
#[derive(Clone, Copy)]
#[repr(C)]
struct RawUnix {
    family: libc::sa_family_t,
    path: [u8; UNIX_PATH_BYTES],
}

const UNIX_PATH_BYTES: usize = 108;
const FAMILY_BYTES: usize = size_of::<libc::sa_family_t>();
const BYTES_V4: usize = size_of::<libc::sockaddr_in>();
const BYTES_V6: usize = size_of::<libc::sockaddr_in6>();
const _: () = assert!(BYTES_V4 <= size_of::<RawAddress>() && BYTES_V6 <= size_of::<RawAddress>());
const _: () = assert!(size_of::<RawUnix>() == size_of::<libc::sockaddr_un>());
const _: () = assert!(corelane_seam::UNIX_NAME_BYTES_MAX < UNIX_PATH_BYTES, "a path ends with a zero byte");

impl RawAddress {
    /// Bytes of the whole place.
    pub(crate) const BYTES: libc::socklen_t = size_of::<Self>() as libc::socklen_t;

    /// A place for the kernel to write to.
    pub(crate) fn empty() -> Self {
        // SAFETY: all members are plain integers, for which zeroes are values.
        unsafe { std::mem::zeroed() }
    }

    /// Writes the kernel's form of `address`, and no more than that; returns how many bytes of it count. None for a family that sockets have not.
    pub(crate) fn write(&mut self, address: &Address) -> Option<libc::socklen_t> {
        let bytes = match address {
            Address::Ip(SocketAddr::V4(address)) => {
                self.v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: address.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                    sin_zero: [0; 8],
                };
                BYTES_V4
            }
            Address::Ip(SocketAddr::V6(address)) => {
                self.v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: address.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                    sin6_scope_id: address.scope_id(),
                };
                BYTES_V6
            }
            Address::Unix(address) => self.write_unix(address.name()),
            Address::Link(_) => return None,
        };
        Some(bytes as libc::socklen_t)
    }

    fn write_unix(&mut self, name: &[u8]) -> usize {
        let mut path = [0; UNIX_PATH_BYTES];
        path[..name.len()].copy_from_slice(name);
        self.unix = RawUnix { family: libc::AF_UNIX as libc::sa_family_t, path };
        // A path counts with the zero byte behind it; an abstract name has none.
        FAMILY_BYTES + name.len() + usize::from(name.first().is_some_and(|first| *first != 0))
    }

    /// The address that the kernel wrote, `bytes` long, as [`unmapped`] shows it; none for another family.
    pub(crate) fn decode(&self, bytes: libc::socklen_t, names: &mut Names) -> Option<Address> {
        let bytes = bytes as usize;
        if bytes < FAMILY_BYTES {
            // So a socket without a name shows itself in some calls.
            return (bytes == 0).then_some(Unix::UNNAMED.into());
        }
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
                Some(Address::Ip(unmapped(SocketAddrV6::new(address, port, raw.sin6_flowinfo, raw.sin6_scope_id).into())))
            }
            libc::AF_UNIX => {
                // SAFETY: every bit pattern is a value of this member.
                let path = unsafe { &self.unix.path };
                Some(names.of(&path[..(bytes - FAMILY_BYTES).min(UNIX_PATH_BYTES)]).into())
            }
            _ => None,
        }
    }

    /// For calls that write an address of up to [`RawAddress::BYTES`].
    pub(crate) fn as_mut_ptr(&mut self) -> *mut libc::sockaddr {
        std::ptr::from_mut(self).cast()
    }
}

/// The Unix names from which datagrams have come, so that the next from there allocates nothing.
#[derive(Default)]
pub(crate) struct Names {
    seen: BTreeMap<Box<[u8]>, Unix>,
}

impl Names {
    /// Names that are remembered. When there are more, all are forgotten here; whoever holds one keeps it.
    const MAX: usize = 256;

    /// The address of the name that the kernel wrote: a path is perhaps followed by zero bytes. One that no address of ours can have, which a
    /// path of 108 bytes is, counts as none.
    fn of(&mut self, name: &[u8]) -> Unix {
        if let Some(known) = self.seen.get(name) {
            return known.clone();
        }
        let unix = match name {
            [] => return Unix::UNNAMED,
            [0, hidden @ ..] => Unix::hidden(hidden),
            path => Unix::path(path.split(|byte| *byte == 0).next().unwrap_or_default()),
        };
        let unix = unix.unwrap_or(Unix::UNNAMED);
        if self.seen.len() >= Self::MAX {
            self.seen.clear();
        }
        self.seen.insert(name.into(), unix.clone());
        unix
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(address: &Address) -> (RawAddress, libc::socklen_t) {
        let mut raw = RawAddress::empty();
        let bytes = raw.write(address).unwrap();
        (raw, bytes)
    }

    #[test]
    fn addresses_survive_the_kernels_form() {
        let long = format!("unix:/{}", "x".repeat(106));
        let hidden = format!("unix:@{}", "x".repeat(107));
        for text in
            ["127.0.0.2:80", "[2001:db8::1]:65535", "0.0.0.0:0", "unix:/run/x.sock", "unix:@x%00y", "unix:@", &long, &hidden]
        {
            let address: Address = text.parse().unwrap();
            let (raw, bytes) = raw(&address);
            assert_eq!(raw.decode(bytes, &mut Names::default()), Some(address), "{text}");
        }
        let scoped = SocketAddr::from(SocketAddrV6::new(Ipv6Addr::LOCALHOST, 7, 0, 3)).into();
        let (scoped_raw, bytes) = raw(&scoped);
        assert_eq!(scoped_raw.decode(bytes, &mut Names::default()), Some(scoped));
        let (unnamed, bytes) = raw(&Unix::UNNAMED.into());
        assert_eq!((unnamed.decode(bytes, &mut Names::default()), bytes), (Some(Unix::UNNAMED.into()), 2));
        assert_eq!(unnamed.decode(0, &mut Names::default()), Some(Unix::UNNAMED.into()));
    }

    #[test]
    fn a_mapped_address_is_shown_as_what_it_is() {
        let (raw, bytes) = raw(&"[::ffff:10.1.2.3]:9".parse().unwrap());
        assert_eq!(raw.decode(bytes, &mut Names::default()), Some("10.1.2.3:9".parse().unwrap()));
    }

    #[test]
    fn a_short_or_foreign_address_is_none() {
        let mut names = Names::default();
        assert_eq!(RawAddress::empty().decode(RawAddress::BYTES, &mut names), None);
        let (short, bytes) = raw(&"[::1]:9".parse().unwrap());
        assert_eq!(short.decode(bytes - 1, &mut names), None);
        assert_eq!(RawAddress::empty().write(&"link:1/02:00:00:00:00:01".parse().unwrap()), None);
    }

    #[test]
    fn names_are_kept_and_bounded() {
        let mut names = Names::default();
        let first = names.of(b"/first\0");
        assert_eq!((first.name(), names.of(b"/first\0").name().as_ptr()), (&b"/first"[..], first.name().as_ptr()));
        for number in 0..Names::MAX {
            names.of(format!("/{number}").as_bytes());
            assert!(names.seen.len() <= Names::MAX);
        }
        assert_eq!(names.of(b"/first\0"), first, "forgotten, and the same again");
        assert_eq!(names.of(&[b'x'; 108]), Unix::UNNAMED);
    }
}
