//! Groups of stations that a card is to let through: who asks for an IPv6 address asks one that follows from its last three bytes (RFC 4291, 2.7.1;
//! RFC 2464, 7), and the kernel, which has told the card of those of its own addresses, does not know ours.
//!
//! They are joined by a packet socket that hears nothing else, and left when that is closed, however the process ends.

use crate::errors::Error;
use crate::link::Interface;
use crate::ours::Ours;
use corelane_os::errno::checked;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Which groups: one, or whatever comes.
const ONE: u16 = libc::PACKET_MR_MULTICAST as u16;
const EVERY: u16 = libc::PACKET_MR_ALLMULTI as u16;
/// All stations that speak IPv6.
const ALL: [u8; 6] = [0x33, 0x33, 0, 0, 0, 1];

/// The groups of one interface, as long as this lives.
#[derive(Debug)]
pub struct Groups {
    _member: OwnedFd,
}

impl Groups {
    /// Joins the groups of the IPv6 addresses that are ours; none without any. Where all packets are ours, so are those of every group: who has the port knows which it needs,
    /// as that of relays of DHCP.
    ///
    /// # Errors
    /// [`Error::Forbidden`] without CAP_NET_RAW, and what else [`Error::of`] has.
    pub fn join(interface: &Interface, ours: &Ours) -> Result<Option<Self>, Error> {
        let of_addresses = |addresses: &[IpAddr]| {
            let solicited: Vec<_> = addresses.iter().filter_map(solicited).collect();
            let all = (!solicited.is_empty()).then_some(ALL);
            solicited.into_iter().chain(all).map(|group| (ONE, group)).collect()
        };
        let groups: Vec<_> = match ours {
            Ours::All => vec![(EVERY, [0; 6])],
            Ours::Addresses(addresses) => of_addresses(addresses),
            Ours::Ports(_) => Vec::new(),
        };
        if groups.is_empty() {
            return Ok(None);
        }
        let refused = |call| move |number| Error::of(call, number, &interface.name);
        let member = create().map_err(refused("socket AF_PACKET"))?;
        for (which, group) in groups {
            join(&member, interface.link.interface, which, group).map_err(refused("PACKET_ADD_MEMBERSHIP"))?;
        }
        Ok(Some(Self { _member: member }))
    }
}

fn solicited(address: &IpAddr) -> Option<[u8; 6]> {
    match address {
        IpAddr::V6(address) => Some(group_of(*address)),
        IpAddr::V4(_) => None,
    }
}

fn group_of(address: Ipv6Addr) -> [u8; 6] {
    let [.., a, b, c] = address.octets();
    [0x33, 0x33, 0xff, a, b, c]
}

/// A packet socket that hears nothing.
fn create() -> Result<OwnedFd, i32> {
    // SAFETY: the call takes no memory.
    let number = checked(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) } as isize)?;
    // SAFETY: the call has just made this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(number as i32) })
}

fn join(member: &OwnedFd, interface: u32, which: u16, group: [u8; 6]) -> Result<(), i32> {
    let mut address = [0; 8];
    address[..group.len()].copy_from_slice(&group);
    let request =
        libc::packet_mreq { mr_ifindex: interface as i32, mr_type: which, mr_alen: group.len() as u16, mr_address: address };
    let (number, length) = (member.as_raw_fd(), size_of::<libc::packet_mreq>() as u32);
    let option = libc::PACKET_ADD_MEMBERSHIP;
    // SAFETY: the value is readable, and of that length.
    checked(unsafe { libc::setsockopt(number, libc::SOL_PACKET, option, (&raw const request).cast(), length) } as isize).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 4291, section 2.7.1: 4037::01:800:200E:8C6C is asked for at FF02::1:FF0E:8C6C.
    #[test]
    fn a_group_follows_from_the_last_three_bytes() {
        let address: IpAddr = "4037::01:800:200E:8C6C".parse().unwrap();
        assert_eq!(solicited(&address), Some([0x33, 0x33, 0xff, 0x0e, 0x8c, 0x6c]));
        assert_eq!(solicited(&"10.0.0.1".parse().unwrap()), None);
    }
}
