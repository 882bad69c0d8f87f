//! What a plan of lanes has to reckon with: the CPUs that the process may use, and the interface that serves its addresses.

use corelane_machine::ethtool::Ethtool;
use corelane_machine::interfaces::{Interface, Link, list};
use corelane_machine::topology::{self, Cpu};
use corelane_os::cpus;
use std::io;
use std::net::IpAddr;

/// A machine, as one process may use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// The CPUs that affinity allows, lowest number first.
    pub cpus: Vec<Cpu>,
    /// How many CPUs' worth of time the control group pays for; none if it does not limit it.
    pub paid_cpus: Option<usize>,
    /// The interface through which most of the packets come; none if that is loopback, or not known.
    pub interface: Option<Interface>,
}

impl Topology {
    /// Reads it, for a process that serves these addresses; for one that serves none, no interface is looked for. One whose frames the process has itself is named: it is
    /// that, whatever else is served.
    ///
    /// Of several interfaces that serve them the one with the most receive queues is taken. What the kernel does not tell (in
    /// a container, say) is left out.
    ///
    /// # Errors
    /// What the system says of the affinity.
    pub fn read(addresses: &[IpAddr], named: Option<&str>) -> io::Result<Self> {
        let online = topology::online().unwrap_or_default();
        let place = |number| online.iter().find(|cpu| cpu.number == number).copied();
        let alone = |number| Cpu { number, node: 0, first_sibling: number };
        let cpus = cpus::allowed()?.into_iter().map(|number| place(number).unwrap_or(alone(number))).collect();
        let cpus: Vec<Cpu> = cpus;
        assert!(cpus.is_sorted_by_key(|cpu| cpu.number) && !cpus.is_empty(), "a process runs somewhere");
        let interface = match named {
            Some(name) => find(|link| link.name == name),
            None if addresses.iter().all(IpAddr::is_loopback) => None,
            None => find(|link| addresses.iter().any(|address| serves(link, *address))),
        };
        Ok(Self { cpus, paid_cpus: cpus::group_limit(), interface })
    }

    /// How many lanes there are unless another number is wished for: one for each CPU, no more than are paid for.
    pub fn lanes_by_default(&self) -> usize {
        self.cpus.len().min(self.paid_cpus.unwrap_or(usize::MAX))
    }
}

/// The one with the most receive queues of those that are meant.
fn find(is_meant: impl Fn(&Link) -> bool) -> Option<Interface> {
    let links = list().ok()?;
    let ethtool = Ethtool::find();
    let meant = links.iter().filter(|link| is_meant(link));
    let interfaces = meant.filter_map(|link| Interface::read(link, &ethtool).ok());
    // The first of the best: `max_by_key` would give the last.
    interfaces.reduce(|best, next| if rank(&next) > rank(&best) { next } else { best })
}

fn rank(interface: &Interface) -> (bool, usize) {
    (interface.device, interface.rx_queues())
}

/// Whether packets to an address come through the interface: it has the address, or is one of all that have some.
fn serves(link: &Link, address: IpAddr) -> bool {
    let address = address.to_canonical();
    let is_meant = if address.is_unspecified() { !link.addresses.is_empty() } else { link.addresses.contains(&address) };
    is_meant && link.up && !link.loopback
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(up: bool, loopback: bool, addresses: &[&str]) -> Link {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        Link { up, loopback, addresses, ..Link::default() }
    }

    #[test]
    fn an_interface_serves_its_addresses_and_every_wildcard() {
        let wire = link(true, false, &["10.0.0.1", "fd00::1"]);
        for address in ["10.0.0.1", "fd00::1", "::ffff:10.0.0.1", "0.0.0.0", "::"] {
            assert!(serves(&wire, address.parse().unwrap()), "{address}");
        }
        for address in ["10.0.0.2", "::1", "127.0.0.1"] {
            assert!(!serves(&wire, address.parse().unwrap()), "{address}");
        }
        for other in [link(false, false, &["10.0.0.1"]), link(true, true, &["10.0.0.1"]), link(true, false, &[])] {
            assert!(!serves(&other, "0.0.0.0".parse().unwrap()), "{other:?}");
        }
    }

    #[test]
    fn this_machine_can_be_read() {
        let here = Topology::read(&["127.0.0.1".parse().unwrap()], None).unwrap();
        let numbers: Vec<usize> = here.cpus.iter().map(|cpu| cpu.number).collect();
        assert_eq!(numbers, cpus::allowed().unwrap());
        assert_eq!(here.interface, None);
        assert!((1..=numbers.len()).contains(&here.lanes_by_default()));
        assert_eq!(Topology::read(&[], None).unwrap(), here);
        let named = Topology::read(&[], Some("lo")).unwrap();
        assert_eq!(named.interface.map(|interface| interface.link.name), Some("lo".into()));
        let all = Topology::read(&["0.0.0.0".parse().unwrap()], None).unwrap();
        assert!(all.interface.is_none_or(|interface| !interface.link.loopback));
    }
}
