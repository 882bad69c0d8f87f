//! Which process answers for an address at an interface, and which governs how its packets are received. Packet sockets keep nobody away: two processes at one interface would both answer, with one link-layer
//! address, and neither would hear the other. So each claims its addresses by a name of the network namespace, which is gone with it. One that has every packet of an interface claims that, and
//! looks whether somebody has an address there; one that claims an address looks whether somebody has every packet. Each claims before it looks, so of two that begin together
//! one sees the other.

use crate::errors::Error;
use crate::link::Interface;
use crate::ours::Ours;
use corelane_os::errno;
use std::fmt::Display;
use std::fs;
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
    /// [`Error::AddressServed`] and [`Error::InterfaceServed`] if another process has one, or all, and what else [`Error::of`] has.
    pub fn take(interface: &Interface, ours: &Ours) -> Result<Self, Error> {
        let name = interface.name.clone();
        let (names, other) = match ours {
            Ours::Addresses(addresses) => {
                let names = addresses.iter().map(|address| claim(interface, *address)).collect::<Result<_, _>>()?;
                let is_taken = claimed(&name)?.contains(&of_all(interface));
                (names, is_taken.then_some(Error::InterfaceServed { name }))
            }
            Ours::All => {
                let (names, prefix) = (vec![claim_all(interface)?], of_address(interface, ""));
                let address = claimed(&name)?.iter().find_map(|claimed| claimed.strip_prefix(&prefix)?.parse().ok());
                (names, address.map(|address| Error::AddressServed { address, name }))
            }
            Ours::Ports(_) => (Vec::new(), None),
        };
        other.map_or(Ok(Self { _names: names }), Err)
    }
}

/// The name by which an address is claimed.
fn of_address(interface: &Interface, address: impl Display) -> String {
    format!("corelane/packet/{}/{address}", interface.link.interface)
}

/// The name by which every packet is claimed.
fn of_all(interface: &Interface) -> String {
    format!("corelane/packets/{}", interface.link.interface)
}

fn claim(interface: &Interface, address: IpAddr) -> Result<UnixDatagram, Error> {
    let taken = || Error::AddressServed { address, name: interface.name.clone() };
    bind(of_address(interface, address), &interface.name, taken)
}

fn claim_all(interface: &Interface) -> Result<UnixDatagram, Error> {
    bind(of_all(interface), &interface.name, || Error::InterfaceServed { name: interface.name.clone() })
}

/// All names of this thread's network namespace that are in no file system: such a one stands in the eighth column, behind an `@` (proc(5), /proc/net/unix).
fn claimed(interface: &str) -> Result<Vec<String>, Error> {
    let table = fs::read("/proc/thread-self/net/unix");
    let table = table.map_err(|error| Error::of("read /proc/net/unix", errno::of(&error), interface))?;
    let name = |line: &str| Some(line.split_whitespace().nth(7)?.strip_prefix('@')?.to_owned());
    Ok(String::from_utf8_lossy(&table).lines().filter_map(name).collect())
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
    use std::time::{Duration, Instant};

    /// Takes it as soon as it is let go: a process that another test starts holds what this one has, until it runs its program.
    fn taken(interface: &Interface, ours: &Ours) -> Claims {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            match Claims::take(interface, ours) {
                Ok(claims) => return claims,
                Err(why) => assert!(Instant::now() < end, "{why}"),
            }
            // reason: nothing tells when the other process runs its program.
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn an_address_is_claimed_once_at_an_interface_until_its_process_lets_go() {
        let mut interface = Interface::find("lo").unwrap();
        interface.link.interface = u32::MAX;
        let ours = |last: &[u8]| Ours::Addresses(last.iter().map(|last| IpAddr::from([192, 0, 2, *last])).collect());
        let first = taken(&interface, &ours(&[1, 2]));
        let refused = Claims::take(&interface, &ours(&[3, 2])).unwrap_err();
        assert_eq!(refused, Error::AddressServed { address: [192, 0, 2, 2].into(), name: "lo".into() });
        let elsewhere =
            Interface { link: corelane_seam::Link { interface: u32::MAX - 1, ..interface.link }, ..interface.clone() };
        taken(&elsewhere, &ours(&[1, 2]));
        drop(first);
        taken(&interface, &ours(&[3, 2]));
        let all = taken(&interface, &Ours::All);
        assert_eq!(Claims::take(&interface, &Ours::All).unwrap_err(), Error::InterfaceServed { name: "lo".into() });
        drop(all);
        taken(&interface, &Ours::All);
    }

    #[test]
    fn who_has_every_packet_and_who_has_an_address_see_each_other() {
        let found = Interface::find("lo").unwrap();
        let at = |interface| Interface { link: corelane_seam::Link { interface, ..found.link }, ..found.clone() };
        let own = [IpAddr::from([192, 0, 2, 1]), "2001:db8::1".parse().unwrap()];
        // Each at interfaces of its own: a process that another test starts may still hold the claims of the one before.
        for (address, number) in own.into_iter().zip([u32::MAX - 2, u32::MAX - 4]) {
            let [interface, other] = [number, number - 1].map(at);
            let ours = Ours::Addresses(vec![address]);
            let one = taken(&interface, &ours);
            let refused = Claims::take(&interface, &Ours::All).unwrap_err();
            assert_eq!(refused, Error::AddressServed { address, name: "lo".into() });
            taken(&other, &Ours::All);
            drop(one);
            let all = taken(&interface, &Ours::All);
            assert_eq!(Claims::take(&interface, &ours).unwrap_err(), Error::InterfaceServed { name: "lo".into() });
            taken(&other, &ours);
            drop(all);
            taken(&interface, &ours);
        }
    }
}
