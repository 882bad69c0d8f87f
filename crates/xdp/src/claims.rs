//! Which process answers for an address at an interface, and which governs how its packets are received. Packet sockets keep nobody away: two processes at one interface would both answer, with one link-layer
//! address, and neither would hear the other. So each claims its addresses by a name of the network namespace, which is gone with it.

use crate::errors::Error;
use crate::link::Interface;
use crate::ours::Ours;
use corelane_os::errno;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The claims of one process, as long as this lives.
#[derive(Debug, Default)]
pub struct Claims {
    _names: Vec<UnixDatagram>,
}

impl Claims {
    /// Claims the addresses that are ours; of those who have every packet, the interface; of those who leave addresses to the kernel, nothing.
    ///
    /// # Errors
    /// [`Error::AddressServed`] and [`Error::InterfaceServed`] if another process has one, and what else [`Error::of`] has.
    pub fn take(interface: &Interface, ours: &Ours) -> Result<Self, Error> {
        let names = match ours {
            Ours::Addresses(addresses) => addresses.iter().map(|address| claim(interface, *address)).collect::<Result<_, _>>()?,
            Ours::All => vec![claim_all(interface)?],
            Ours::Ports(_) => Vec::new(),
        };
        Ok(Self { _names: names })
    }
}

fn claim(interface: &Interface, address: IpAddr) -> Result<UnixDatagram, Error> {
    let name = format!("corelane/packet/{}/{address}", interface.link.interface);
    bind(name, &interface.name, || Error::AddressServed { address, name: interface.name.clone() })
}

fn claim_all(interface: &Interface) -> Result<UnixDatagram, Error> {
    let name = format!("corelane/packets/{}", interface.link.interface);
    bind(name, &interface.name, || Error::InterfaceServed { name: interface.name.clone() })
}

/// Claims the receiving of the interface of this number and name, as long as this lives.
///
/// # Errors
/// [`Error::Governed`] if another process has it, and what else [`Error::of`] has.
pub fn receiving(interface: u32, name: &str) -> Result<UnixDatagram, Error> {
    bind(format!("corelane/receive/{interface}"), name, || Error::Governed { name: name.into() })
}

fn bind(claimed: String, interface: &str, taken: impl FnOnce() -> Error) -> Result<UnixDatagram, Error> {
    let bound = SocketAddr::from_abstract_name(claimed).and_then(|name| UnixDatagram::bind_addr(&name));
    bound.map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => taken(),
        _ => Error::of("bind AF_UNIX", errno::of(&error), interface),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_claimed_once_at_an_interface_until_its_process_lets_go() {
        let mut interface = Interface::find("lo").unwrap();
        interface.link.interface = u32::MAX;
        let ours = |last: &[u8]| Ours::Addresses(last.iter().map(|last| IpAddr::from([192, 0, 2, *last])).collect());
        let first = Claims::take(&interface, &ours(&[1, 2])).unwrap();
        let refused = Claims::take(&interface, &ours(&[3, 2])).unwrap_err();
        assert_eq!(refused, Error::AddressServed { address: [192, 0, 2, 2].into(), name: "lo".into() });
        let elsewhere =
            Interface { link: corelane_seam::Link { interface: u32::MAX - 1, ..interface.link }, ..interface.clone() };
        Claims::take(&elsewhere, &ours(&[1, 2])).unwrap();
        drop(first);
        Claims::take(&interface, &ours(&[3, 2])).unwrap();
        let all = Claims::take(&interface, &Ours::All).unwrap();
        assert_eq!(Claims::take(&interface, &Ours::All).unwrap_err(), Error::InterfaceServed { name: "lo".into() });
        drop(all);
        Claims::take(&interface, &Ours::All).unwrap();
    }
}
