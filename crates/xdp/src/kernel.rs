//! Where the kernel would answer beside us: as a router, and for addresses that it is given later.
//!
//! With AF_XDP it never sees a packet of ours. A packet socket leaves it every packet: what is for an address that it does not have it drops, unless it
//! forwards; then it takes itself for a router on the way there, and sends redirects, or that the host cannot be reached.

use crate::errors::Error;
use crate::link::{address_in, addresses_of_kernel};
use corelane_os::errno;
use corelane_os::netlink::Notices;
use std::net::IpAddr;

/// The groups in which the kernel tells how interfaces are set, by their bits.
const SETTINGS: i32 = 1 << (libc::RTNLGRP_IPV4_NETCONF - 1) | 1 << (libc::RTNLGRP_IPV6_NETCONF - 1);

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

/// What the kernel does from now on that it did not do before, or does no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelChange {
    /// It has an address of ours as well, or has it no longer.
    Address(IpAddr, bool),
    /// It forwards what comes in by the interface, of this family (`ipv4`, `ipv6`); none any more.
    Forwarding(Option<&'static str>),
}

/// Hears which addresses the kernel is given and loses, and where it sees packets of ours too, whether it forwards them. It can go to a lane's thread, and is
/// asked there.
#[derive(Debug)]
pub struct KernelNews {
    notices: Notices,
    ours: Vec<IpAddr>,
    /// Those of ours that the kernel has.
    taken: Vec<IpAddr>,
    forwarding: Option<Forwarding>,
}

/// Of an interface, as it was told last.
#[derive(Debug)]
struct Forwarding {
    interface: Box<str>,
    family: Option<&'static str>,
}

impl KernelNews {
    /// Of the thread's network namespace; before the ports are opened, which look whether the kernel has one already.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub fn hear(ours: Vec<IpAddr>) -> Result<Self, Error> {
        let groups = libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR | SETTINGS;
        let notices = Notices::hear(groups).map_err(|error| Error::of("netlink", errno::of(&error), ""))?;
        Ok(Self { notices, ours, taken: Vec::new(), forwarding: None })
    }

    /// From now on it is told, too, whether the kernel forwards what comes in by the interface, as this is not told already of that family.
    pub fn hear_of_forwarding(&mut self, interface: &str, family: Option<&'static str>) {
        self.forwarding = Some(Forwarding { interface: interface.into(), family });
    }

    /// How many of ours the kernel has, as far as changes were taken.
    pub fn taken(&self) -> usize {
        self.taken.len()
    }

    /// Of which family the kernel forwards packets, as far as that is to be told and changes were taken.
    pub fn forwards(&self) -> Option<&'static str> {
        self.forwarding.as_ref()?.family
    }

    /// What has changed since this was asked last.
    pub fn take(&mut self) -> Vec<KernelChange> {
        let (mut changes, ours, taken) = (Vec::new(), &self.ours, &mut self.taken);
        let mut is_set_anew = false;
        let heard = self.notices.take(|kind, body| {
            let is_setting = kind == libc::RTM_NEWNETCONF;
            is_set_anew |= is_setting;
            let address = if is_setting { None } else { address_in(body).filter(|address| ours.contains(address)) };
            address.into_iter().for_each(|address| note(taken, &mut changes, address, kind == libc::RTM_NEWADDR));
        });
        // Some were lost: what is there now is asked for.
        let is_lost = heard.is_err();
        if let Some(all) = is_lost.then(addresses_of_kernel).and_then(Result::ok) {
            ours.iter().for_each(|address| note(taken, &mut changes, *address, all.contains(address)));
        }
        if let Some(forwarding) = self.forwarding.as_mut().filter(|_| is_set_anew || is_lost) {
            let family = forwards(&forwarding.interface, ours);
            if std::mem::replace(&mut forwarding.family, family) != family {
                changes.push(KernelChange::Forwarding(family));
            }
        }
        changes
    }
}

fn note(taken: &mut Vec<IpAddr>, changes: &mut Vec<KernelChange>, address: IpAddr, has: bool) {
    if taken.contains(&address) == has {
        return;
    }
    match has {
        true => taken.push(address),
        false => taken.retain(|one| *one != address),
    }
    changes.push(KernelChange::Address(address, has));
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
        assert_eq!(changes, [KernelChange::Address(address, true), KernelChange::Address(address, false)]);
    }

    #[test]
    fn without_an_address_of_a_family_its_forwarding_does_not_matter() {
        assert_eq!(forwards("lo", &[]), None);
        assert_eq!(forwards("nobody0", &[IpAddr::from([10, 9, 0, 2])]), None);
    }
}
