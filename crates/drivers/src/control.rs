//! Control messages beside datagrams (cmsg(3)): train sizes (udp(7)) and addresses (`IP_PKTINFO` of ip(7),
//! `IPV6_PKTINFO` of RFC 3542 section 6.1), and the users of Unix sockets (unix(7)).

use std::net::{IpAddr, Ipv6Addr};

const HEADER_BYTES: usize = size_of::<libc::cmsghdr>();
const ALIGNMENT: usize = size_of::<usize>();
/// Room for a train size and one address of each family, as the kernel may send them together.
const BYTES: usize = 128;

/// The control messages of one datagram or train.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct Control {
    bytes: [u8; BYTES],
}

impl Control {
    /// What a peer's credentials take: process, user and group (SCM_CREDENTIALS, unix(7)).
    pub(crate) const CREDENTIALS_BYTES: usize = HEADER_BYTES + (3 * size_of::<u32>()).next_multiple_of(ALIGNMENT);

    pub(crate) const fn new() -> Self {
        Self { bytes: [0; BYTES] }
    }

    /// For the kernel: where the messages lie, and how much room there is.
    pub(crate) fn place(&mut self) -> (*mut libc::c_void, usize) {
        (self.bytes.as_mut_ptr().cast(), BYTES)
    }

    /// Writes what a train needs; returns how many bytes that takes. `size` is that of each datagram, 0 for a single one.
    pub(crate) fn write(&mut self, size: u16, source: Option<IpAddr>, interface: u32, peer_is_v4: bool) -> usize {
        let mut used = 0;
        if size > 0 {
            used = self.append(used, libc::SOL_UDP, libc::UDP_SEGMENT, &size.to_ne_bytes());
        }
        if source.is_some() || interface > 0 {
            used = match peer_is_v4 {
                true => self.append(used, libc::IPPROTO_IP, libc::IP_PKTINFO, &source_v4(source, interface)),
                false => self.append(used, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &source_v6(source, interface)),
            };
        }
        used
    }

    /// What the kernel wrote into the first `used` bytes.
    pub(crate) fn read(&self, used: usize) -> Arrived {
        let mut arrived = Arrived { size: None, asked: None, user: None };
        let mut rest = &self.bytes[..used.min(BYTES)];
        while let Some((level, kind, payload)) = first_message(&mut rest) {
            match (level, kind) {
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    arrived.size = payload.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes) as usize);
                }
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => arrived.asked = asked_v4(payload),
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => arrived.asked = asked_v6(payload),
                (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) => arrived.user = user(payload),
                _ => {}
            }
        }
        arrived
    }

    fn append(&mut self, used: usize, level: i32, kind: i32, payload: &[u8]) -> usize {
        let message = &mut self.bytes[used..];
        let length = HEADER_BYTES + payload.len();
        assert!(used + length <= BYTES, "there is room for all that is ever written");
        message[..ALIGNMENT].copy_from_slice(&length.to_ne_bytes());
        message[HEADER_BYTES - 8..HEADER_BYTES - 4].copy_from_slice(&level.to_ne_bytes());
        message[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&kind.to_ne_bytes());
        message[HEADER_BYTES..length].copy_from_slice(payload);
        used + length.next_multiple_of(ALIGNMENT)
    }
}

/// What came beside a datagram or train.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    /// Bytes of each datagram, if it is a train.
    pub(crate) size: Option<usize>,
    /// The address of this machine that it was sent to, and the interface that it came in by.
    pub(crate) asked: Option<(IpAddr, u32)>,
    /// The user who sent it, over a Unix socket.
    pub(crate) user: Option<u32>,
}

/// Takes the first message off `rest`: level, type, payload.
fn first_message<'a>(rest: &mut &'a [u8]) -> Option<(i32, i32, &'a [u8])> {
    let length = usize::from_ne_bytes(*rest.first_chunk()?);
    let message = rest.get(..length)?;
    let payload = message.get(HEADER_BYTES..)?;
    let word = |at: usize| message[at..].first_chunk().map(|bytes| i32::from_ne_bytes(*bytes));
    let found = (word(HEADER_BYTES - 8)?, word(HEADER_BYTES - 4)?, payload);
    *rest = rest.get(length.next_multiple_of(ALIGNMENT)..).unwrap_or(&[]);
    Some(found)
}

/// `struct in_pktinfo`: interface, address to send from, and one that only receiving uses.
fn source_v4(source: Option<IpAddr>, interface: u32) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&interface.to_ne_bytes());
    if let Some(IpAddr::V4(source)) = source {
        bytes[4..8].copy_from_slice(&source.octets());
    }
    bytes
}

/// `struct in6_pktinfo`: address to send from, interface.
fn source_v6(source: Option<IpAddr>, interface: u32) -> [u8; 20] {
    let mut bytes = [0; 20];
    if let Some(IpAddr::V6(source)) = source {
        bytes[..16].copy_from_slice(&source.octets());
    }
    bytes[16..].copy_from_slice(&interface.to_ne_bytes());
    bytes
}

/// The second address of `struct in_pktinfo` is the header's destination, which may be a broadcast address; the first is
/// the one to answer from.
fn asked_v4(payload: &[u8]) -> Option<(IpAddr, u32)> {
    let (interface, rest) = payload.split_first_chunk::<4>()?;
    let address: &[u8; 4] = rest.first_chunk()?;
    Some((IpAddr::from(*address), u32::from_ne_bytes(*interface)))
}

/// The second number of `struct ucred`: process, user, group.
fn user(payload: &[u8]) -> Option<u32> {
    payload.get(4..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

fn asked_v6(payload: &[u8]) -> Option<(IpAddr, u32)> {
    let (address, rest) = payload.split_first_chunk::<16>()?;
    let interface = u32::from_ne_bytes(*rest.first_chunk()?);
    Some((Ipv6Addr::from(*address).to_canonical(), interface))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_the_kernels_macros_find() {
        let mut control = Control::new();
        let used = control.write(1400, Some(IpAddr::from([127, 0, 0, 2])), 7, true);
        let (place, _) = control.place();
        // SAFETY: a zeroed header is valid; the macros read within the `used` bytes that it names.
        let (first, second, none) = unsafe {
            let mut header: libc::msghdr = std::mem::zeroed();
            header.msg_control = place;
            header.msg_controllen = used;
            let first = libc::CMSG_FIRSTHDR(&header);
            let second = libc::CMSG_NXTHDR(&header, first);
            let none = libc::CMSG_NXTHDR(&header, second).is_null();
            let size = libc::CMSG_DATA(first).cast::<u16>().read_unaligned();
            let info = libc::CMSG_DATA(second).cast::<libc::in_pktinfo>().read_unaligned();
            (((*first).cmsg_level, (*first).cmsg_type, size), (info.ipi_ifindex, info.ipi_spec_dst.s_addr.to_ne_bytes()), none)
        };
        assert_eq!(first, (libc::SOL_UDP, libc::UDP_SEGMENT, 1400));
        assert_eq!((second, none), ((7, [127, 0, 0, 2]), true));
    }

    #[test]
    fn addresses_are_read_back() {
        let mut control = Control::new();
        for (address, interface) in [("127.0.0.2", 1), ("2001:db8::7", 3)] {
            let address: IpAddr = address.parse().unwrap();
            let used = control.write(0, Some(address), interface, address.is_ipv4());
            assert_eq!(control.read(used), Arrived { size: None, asked: Some((address, interface)), user: None });
        }
        assert_eq!(control.write(0, None, 0, true), 0);
    }

    #[test]
    fn broken_messages_are_left_alone() {
        let mut control = Control::new();
        control.bytes[..8].copy_from_slice(&usize::MAX.to_ne_bytes());
        let nothing = Arrived { size: None, asked: None, user: None };
        assert_eq!(control.read(BYTES), nothing);
        control.bytes[..8].copy_from_slice(&3usize.to_ne_bytes());
        assert_eq!(control.read(BYTES), nothing);
        assert_eq!(control.read(5), nothing);
    }
}
