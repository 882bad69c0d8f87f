//! Interfaces as ports need them: what one is, and the news of it.

use crate::errors::Error;
use corelane_os::errno;
use corelane_os::netlink::{Attributes, Notices, Request, word};
use corelane_seam::{Fault, Link, PortState, Reason};
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
    /// Whether somebody is at the other end of its wire; of one that is down, nobody is.
    pub has_carrier: bool,
    /// Whether it is a tap or a tun: one whose other end is a process.
    pub is_tun: bool,
    /// Whether it is one end of a wire within the machine, and no card.
    pub is_veth: bool,
    /// The other end of its wire, if that is in this network namespace as well.
    pub other: Option<u32>,
    /// The number of the program that it runs on each packet that comes (XDP); none without one.
    pub program: Option<u32>,
    /// How it runs it, as `ip link` names it: `xdpdrv`, `xdpgeneric` or `xdpoffload`.
    pub program_mode: Option<&'static str>,
}

/// Within `IFLA_XDP`: how the program is run, and its number.
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_XDP_PROG_ID: u16 = 4;
/// The other end is in the network namespace of that number; libc has no name for it.
const IFLA_LINK_NETNSID: u16 = 37;
/// The kernel says so of a wire whose other end is there; libc has no name for it.
const LOWER_UP: u32 = 1 << 16;

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
            has_carrier: number(8) & LOWER_UP != 0,
            is_tun: kind.as_deref() == Some("tun"),
            is_veth: kind.as_deref() == Some("veth"),
            other: attributes.number(libc::IFLA_LINK).filter(|_| attributes.get(IFLA_LINK_NETNSID).is_none()),
            program: programs.number(IFLA_XDP_PROG_ID).filter(|number| *number > 0),
            program_mode: programs.get(IFLA_XDP_ATTACHED).and_then(|bytes| match bytes.first()? {
                1 => Some("xdpdrv"),
                2 => Some("xdpgeneric"),
                3 => Some("xdpoffload"),
                _ => None,
            }),
        })
    }

    /// Takes in what a notice says of it: what changes while it is used.
    fn follow(&mut self, body: &[u8]) {
        let Ok(told) = Self::read(&self.name, body) else { return };
        self.has_carrier = told.has_carrier;
        // A notice may leave these out.
        if told.mtu > 0 {
            self.mtu = told.mtu;
        }
        if told.link.mac != [0; 6] {
            self.link.mac = told.link.mac;
        }
    }

    /// What begins a message about it.
    pub(crate) fn head(&self) -> [u8; HEAD_BYTES] {
        head_of(self.link.interface)
    }

    /// The name of the other end of a wire within the machine; none if that is another network namespace's.
    pub(crate) fn other_end(&self) -> Option<String> {
        name_of(self.other.filter(|_| self.is_veth)?)
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

/// What takes an address away from the kernel, as ip(8) has it: `ip addr del 10.0.0.2/24 dev eth1`; where it is not there any more, what shows where it is.
pub fn taking_away(address: IpAddr) -> String {
    match place_of(address) {
        Some(place) => format!("ip addr del {place}"),
        None => format!("`ip addr` shows where {address} is, and `ip addr del` takes it away"),
    }
}

fn place_of(address: IpAddr) -> Option<String> {
    let bodies = Request::list(libc::RTM_GETADDR, &[0; ADDRESS_HEAD_BYTES]).ask(libc::NETLINK_ROUTE).ok()?;
    let body = bodies.iter().find(|body| address_in(body) == Some(address))?;
    let (bits, name) = (body.get(1)?, name_of(word(body, 4)?)?);
    Some(format!("{address}/{bits} dev {name}"))
}

fn head_of(index: u32) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[4..8].copy_from_slice(&index.to_ne_bytes());
    head
}

/// The name of an interface, by its number.
pub fn name_of(index: u32) -> Option<String> {
    let found = Request::one(libc::RTM_GETLINK, &head_of(index)).ask(libc::NETLINK_ROUTE).ok()?;
    Attributes::behind(found.first()?, HEAD_BYTES).ok()?.text(libc::IFLA_IFNAME)
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

/// Whether an interface is up, and what it is by now, as the kernel tells it.
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

    /// What it is, as far as it was taken in: its address, its longest packet and its carrier may change. Its queues are those it had.
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

    /// What it is, as far as it was taken in.
    pub fn state(&self) -> PortState {
        match self.fault {
            Some(GONE) => PortState::Gone,
            Some(_) => PortState::Down,
            None if !self.interface.has_carrier => PortState::NoCarrier,
            None => PortState::Up,
        }
    }

    /// Takes in what has been told.
    pub fn take(&mut self) {
        let Self { notices, interface, fault, has_come_up } = self;
        let index = interface.link.interface;
        let taken = notices.take(|kind, body| {
            // A bridge speaks of its ports in the same group, in a family of its own: one that leaves it is not gone.
            let is_meant = body.first() == Some(&(libc::AF_UNSPEC as u8)) && word(body, 4) == Some(index);
            if is_meant && *fault != Some(GONE) {
                let before = std::mem::replace(fault, told(kind, word(body, 8).unwrap_or_default()));
                *has_come_up |= before == Some(DOWN) && fault.is_none();
                interface.follow(body);
            }
        });
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
                self.interface = found;
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
