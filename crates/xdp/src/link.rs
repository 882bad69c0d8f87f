//! Interfaces as ports need them: what one is, and the news of it.

use crate::errors::Error;
use corelane_os::errno;
use corelane_os::netlink::{Attributes, Notices, Request, word};
use corelane_seam::{Fault, Link, Reason};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// `struct ifinfomsg`.
const HEAD_BYTES: usize = 16;
/// Bytes of an Ethernet header.
pub const ETHERNET_BYTES: usize = 14;
/// Bytes of a VLAN tag.
pub const TAG_BYTES: usize = 4;

/// The interface is down.
pub const DOWN: Fault = Fault { reason: Reason::Down, number: libc::ENETDOWN };
/// The interface is gone.
pub const GONE: Fault = Fault { reason: Reason::NoInterface, number: libc::ENODEV };

/// An interface of the thread's network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: Box<str>,
    /// Its index and address.
    pub link: Link,
    /// Bytes of its longest packet, without the link-layer header.
    pub mtu: usize,
    /// Receive queues that it has.
    pub queues: u32,
    /// Queues to send by that it has.
    pub send_queues: u32,
    /// Whether it is up.
    pub is_up: bool,
    /// Whether it is a tap or a tun: one whose other end is a process.
    pub is_tun: bool,
    /// Whether it is one end of a wire within the machine, and no card.
    pub is_veth: bool,
    /// The number of the program that it runs on each packet that comes (XDP); none without one.
    pub program: Option<u32>,
}

/// Within `IFLA_XDP`: the program's number.
const IFLA_XDP_PROG_ID: u16 = 4;

impl Interface {
    /// Looks one up by its name.
    ///
    /// # Errors
    /// [`Error::NameInvalid`], [`Error::NoInterface`], [`Error::Refused`].
    pub fn find(name: &str) -> Result<Self, Error> {
        check(name)?;
        let request = Request::one(libc::RTM_GETLINK, &[0; HEAD_BYTES]);
        let name_and_end = [name.as_bytes(), &[0]].concat();
        let answer = request.attribute(libc::IFLA_IFNAME, &name_and_end).ask(libc::NETLINK_ROUTE);
        let bodies = answer.map_err(|error| Error::of("netlink RTM_GETLINK", errno::of(&error), name))?;
        let body = bodies.first().ok_or_else(|| Error::NoInterface { name: name.into() })?;
        Self::read(name, body).map_err(|error| Error::of("netlink RTM_GETLINK", errno::of(&error), name))
    }

    fn read(name: &str, body: &[u8]) -> io::Result<Self> {
        let attributes = Attributes::behind(body, HEAD_BYTES)?;
        let mac = attributes.get(libc::IFLA_ADDRESS).and_then(|bytes| bytes.first_chunk().copied()).unwrap_or_default();
        let number = |at| word(body, at).unwrap_or_default();
        let programs = Attributes::of(attributes.get(libc::IFLA_XDP).unwrap_or_default())?;
        let details = Attributes::of(attributes.get(libc::IFLA_LINKINFO).unwrap_or_default())?;
        let kind = details.text(libc::IFLA_INFO_KIND);
        Ok(Self {
            name: name.into(),
            link: Link { interface: number(4), mac },
            mtu: attributes.number(libc::IFLA_MTU).unwrap_or_default() as usize,
            queues: attributes.number(libc::IFLA_NUM_RX_QUEUES).unwrap_or(1).max(1),
            send_queues: attributes.number(libc::IFLA_NUM_TX_QUEUES).unwrap_or(1).max(1),
            is_up: number(8) & libc::IFF_UP as u32 != 0,
            is_tun: kind.as_deref() == Some("tun"),
            is_veth: kind.as_deref() == Some("veth"),
            program: programs.number(IFLA_XDP_PROG_ID).filter(|number| *number > 0),
        })
    }

    /// Bytes of its longest packet with the link-layer header.
    pub fn frame_bytes_max(&self) -> usize {
        self.mtu + ETHERNET_BYTES
    }
}

/// `struct ifaddrmsg`.
const ADDRESS_HEAD_BYTES: usize = 8;

/// The addresses that the kernel itself has in this network namespace.
///
/// # Errors
/// What the system says.
pub fn addresses_of_kernel() -> io::Result<Vec<IpAddr>> {
    let bodies = Request::list(libc::RTM_GETADDR, &[0; ADDRESS_HEAD_BYTES]).ask(libc::NETLINK_ROUTE)?;
    let mut addresses = Vec::with_capacity(bodies.len());
    for body in &bodies {
        addresses.extend(own_address(body)?);
    }
    Ok(addresses)
}

/// The kernel's own address in a message of its addresses.
pub fn address_in(body: &[u8]) -> Option<IpAddr> {
    own_address(body).ok().flatten()
}

fn own_address(body: &[u8]) -> io::Result<Option<IpAddr>> {
    let attributes = Attributes::behind(body, ADDRESS_HEAD_BYTES)?;
    // On a link between two ends the first is the other end's.
    let own = attributes.get(libc::IFA_LOCAL).or_else(|| attributes.get(libc::IFA_ADDRESS));
    Ok(own.and_then(address))
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    v4().or_else(|| <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from))
}

fn check(name: &str) -> Result<(), Error> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_@".contains(&byte);
    let is_name = (1..libc::IFNAMSIZ).contains(&name.len()) && name.bytes().all(is_plain) && ![".", ".."].contains(&name);
    if is_name { Ok(()) } else { Err(Error::NameInvalid { name: name.into() }) }
}

/// Whether an interface is up, as the kernel tells it.
#[derive(Debug)]
pub struct Watch {
    notices: Notices,
    interface: Interface,
    fault: Option<Fault>,
    has_come_up: bool,
}

impl Watch {
    /// Watches an interface of the thread's network namespace.
    ///
    /// # Errors
    /// As [`Interface::find`].
    pub fn of(name: &str) -> Result<Self, Error> {
        let notices = Notices::hear(libc::RTMGRP_LINK).map_err(|error| Error::of("netlink", errno::of(&error), name))?;
        // What changes from now on is noticed.
        let interface = Interface::find(name)?;
        let fault = (!interface.is_up).then_some(DOWN);
        Ok(Self { notices, interface, fault, has_come_up: false })
    }

    /// What it was when it was found.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Why nothing arrives or leaves, as far as it was taken in; none while it is up.
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// The same, to be told: that it is down may be over.
    pub fn fault_now(&mut self) -> Option<Fault> {
        if self.fault == Some(DOWN) {
            self.take();
        }
        self.fault
    }

    /// Whether it was down and came up since this was asked last: it may be received by something else now.
    pub fn take_has_come_up(&mut self) -> bool {
        std::mem::take(&mut self.has_come_up)
    }

    /// Notes that a call has shown that it is gone.
    pub fn note_gone(&mut self) {
        self.fault = Some(GONE);
    }

    /// Takes in what has been told.
    pub fn take(&mut self) {
        let (mut fault, mut has_come_up, index) = (self.fault, self.has_come_up, self.interface.link.interface);
        let taken = self.notices.take(|kind, body| {
            if word(body, 4) == Some(index) && fault != Some(GONE) {
                let before = std::mem::replace(&mut fault, told(kind, word(body, 8).unwrap_or_default()));
                has_come_up |= before == Some(DOWN) && fault.is_none();
            }
        });
        (self.fault, self.has_come_up) = (fault, has_come_up);
        if taken.is_err() {
            self.ask();
        }
    }

    /// Looks after notices were lost. A socket of this namespace asks only where the thread is still in it, so that what is not
    /// found is not taken to be gone where the index says otherwise.
    fn ask(&mut self) {
        match Interface::find(&self.interface.name) {
            Ok(found) if found.link.interface == self.interface.link.interface => {
                self.fault = (!found.is_up).then_some(DOWN);
                // What was lost may have told of it.
                self.has_come_up |= found.is_up;
            }
            Ok(_) | Err(Error::NoInterface { .. }) => self.fault = Some(GONE),
            Err(_) => {}
        }
    }
}

fn told(kind: u16, flags: u32) -> Option<Fault> {
    match kind {
        libc::RTM_DELLINK => Some(GONE),
        _ => (flags & libc::IFF_UP as u32 == 0).then_some(DOWN),
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.notices.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_found() {
        let found = Interface::find("lo").unwrap();
        assert_eq!((found.link.interface, found.link.mac), (1, [0; 6]));
        assert!(found.mtu > 0 && found.queues > 0);
    }

    #[test]
    fn the_kernel_has_the_loopback_address() {
        let own = addresses_of_kernel().unwrap();
        assert!(own.contains(&IpAddr::from([127, 0, 0, 1])), "{own:?}");
    }

    #[test]
    fn what_is_no_name_or_nobodys_is_said() {
        for name in ["", "a b", "sixteen-letters-", "..", "x/y"] {
            assert_eq!(Interface::find(name), Err(Error::NameInvalid { name: name.into() }));
        }
        assert_eq!(Interface::find("nobody0"), Err(Error::NoInterface { name: "nobody0".into() }));
    }

    #[test]
    fn an_interface_that_is_removed_is_gone_for_good() {
        let mut watch = Watch::of("lo").unwrap();
        assert_eq!(told(libc::RTM_NEWLINK, libc::IFF_UP as u32), None);
        assert_eq!((told(libc::RTM_NEWLINK, 0), told(libc::RTM_DELLINK, 1)), (Some(DOWN), Some(GONE)));
        watch.note_gone();
        watch.take();
        assert_eq!(watch.fault(), Some(GONE));
    }
}
