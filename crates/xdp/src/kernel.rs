//! Where the kernel would answer beside us: as a router, and for addresses that it is given later.
//!
//! With AF_XDP it never sees a packet of ours. A packet socket leaves it every packet: what is for an address that it does not have it drops, unless it
//! forwards; then it takes itself for a router on the way there, and sends redirects, or that the host cannot be reached.

use crate::errors::Error;
use crate::link::{address_in, addresses_of_kernel};
use corelane_os::errno;
use corelane_os::netlink::Notices;
use std::net::IpAddr;

/// Whether the kernel forwards packets that come in by the interface, of a family that one of the addresses is of; `ipv4` or `ipv6`.
pub(crate) fn forwards(interface: &str, addresses: &[IpAddr]) -> Option<&'static str> {
    let is_set = |family: &str| {
        let setting = std::fs::read_to_string(format!("/proc/sys/net/{family}/conf/{interface}/forwarding"));
        // What cannot be read is not there, or nobody's to know.
        setting.is_ok_and(|setting| setting.trim() != "0")
    };
    let [v4, v6] = [IpAddr::is_ipv4 as fn(&IpAddr) -> bool, IpAddr::is_ipv6].map(|is| addresses.iter().any(is));
    [("ipv4", v4), ("ipv6", v6)].into_iter().find_map(|(family, has)| (has && is_set(family)).then_some(family))
}

/// Hears which addresses the kernel is given and loses. It can go to a lane's thread, and is asked there.
#[derive(Debug)]
pub struct KernelAddresses {
    notices: Notices,
    ours: Vec<IpAddr>,
    /// Those of ours that the kernel has.
    taken: Vec<IpAddr>,
}

impl KernelAddresses {
    /// Of the thread's network namespace; before the ports are opened, which look whether the kernel has one already.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub fn hear(ours: Vec<IpAddr>) -> Result<Self, Error> {
        let groups = libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR;
        let notices = Notices::hear(groups).map_err(|error| Error::of("netlink", errno::of(&error), ""))?;
        Ok(Self { notices, ours, taken: Vec::new() })
    }

    /// How many of ours the kernel has, as far as changes were taken.
    pub fn taken(&self) -> usize {
        self.taken.len()
    }

    /// What has changed since this was asked last: an address of ours, and whether the kernel has it as well now.
    pub fn take(&mut self) -> Vec<(IpAddr, bool)> {
        let (mut changes, ours, taken) = (Vec::new(), &self.ours, &mut self.taken);
        let heard = self.notices.take(|kind, body| {
            let address = address_in(body).filter(|address| ours.contains(address));
            address.into_iter().for_each(|address| note(taken, &mut changes, address, kind == libc::RTM_NEWADDR));
        });
        // Some were lost: what is there now is asked for.
        if let Some(all) = heard.err().and_then(|_| addresses_of_kernel().ok()) {
            ours.iter().for_each(|address| note(taken, &mut changes, *address, all.contains(address)));
        }
        changes
    }
}

fn note(taken: &mut Vec<IpAddr>, changes: &mut Vec<(IpAddr, bool)>, address: IpAddr, has: bool) {
    if taken.contains(&address) == has {
        return;
    }
    match has {
        true => taken.push(address),
        false => taken.retain(|one| *one != address),
    }
    changes.push((address, has));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_told_once() {
        let (mut taken, mut changes, address) = (Vec::new(), Vec::new(), IpAddr::from([10, 9, 0, 2]));
        for has in [false, true, true, false, false] {
            note(&mut taken, &mut changes, address, has);
        }
        assert_eq!(changes, [(address, true), (address, false)]);
    }

    #[test]
    fn without_an_address_of_a_family_its_forwarding_does_not_matter() {
        assert_eq!(forwards("lo", &[]), None);
        assert_eq!(forwards("nobody0", &[IpAddr::from([10, 9, 0, 2])]), None);
    }
}
