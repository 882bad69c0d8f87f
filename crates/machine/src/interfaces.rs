//! The network interfaces of this namespace (rtnetlink(7)), and what the kernel tells of one: driver, memory node, queues and who
//! else spreads its packets (the kernel's sysfs-class-net and its scaling guide).

use crate::ethtool::{Channels, Ethtool, Rings, Rss, driver};
use crate::interrupts::{self, Interrupt};
use corelane_os::kernel_files::{numbered, text};
use corelane_os::netlink::{Attributes, Request, word};
use std::io;
use std::net::IpAddr;

/// `struct ifinfomsg` and `struct ifaddrmsg`.
const LINK_BYTES: usize = 16;
const ADDRESS_BYTES: usize = 8;
const CLASS: &str = "/sys/class/net";

/// An interface, as the list of them has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Its number.
    pub index: u32,
    /// Whether it is switched on.
    pub up: bool,
    /// Whether it is the machine's way to itself.
    pub loopback: bool,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Its address on the wire; empty if it has none.
    pub wire_address: Vec<u8>,
    /// The receive queues for which it was made; fewer may be in use.
    pub rx_queues_max: usize,
    /// The transmit queues.
    pub tx_queues_max: usize,
}

/// All interfaces, in the kernel's order.
///
/// # Errors
/// What the kernel says.
pub fn list() -> io::Result<Vec<Link>> {
    let ask = |kind, bytes| Request::list(kind, &[0; LINK_BYTES][..bytes]).ask(libc::NETLINK_ROUTE);
    let mut links = Vec::new();
    for body in ask(libc::RTM_GETLINK, LINK_BYTES)? {
        links.extend(link(&body)?);
    }
    for body in ask(libc::RTM_GETADDR, ADDRESS_BYTES)? {
        let Some((index, address)) = address(&body)? else { continue };
        links.iter_mut().filter(|link| link.index == index).for_each(|link| link.addresses.push(address));
    }
    Ok(links)
}

fn link(body: &[u8]) -> io::Result<Option<Link>> {
    let attributes = Attributes::behind(body, LINK_BYTES)?;
    let (Some(name), Some(index), Some(flags)) = (attributes.text(libc::IFLA_IFNAME), word(body, 4), word(body, 8)) else {
        return Ok(None);
    };
    let queues = |kind| attributes.number(kind).unwrap_or(0) as usize;
    let has = |flag: i32| flags & flag as u32 != 0;
    Ok(Some(Link {
        name,
        index,
        up: has(libc::IFF_UP),
        loopback: has(libc::IFF_LOOPBACK),
        addresses: Vec::new(),
        wire_address: attributes.get(libc::IFLA_ADDRESS).unwrap_or_default().to_vec(),
        rx_queues_max: queues(libc::IFLA_NUM_RX_QUEUES),
        tx_queues_max: queues(libc::IFLA_NUM_TX_QUEUES),
    }))
}

fn address(body: &[u8]) -> io::Result<Option<(u32, IpAddr)>> {
    let attributes = Attributes::behind(body, ADDRESS_BYTES)?;
    // Of a link between two, the one is the peer's.
    let bytes = attributes.get(libc::IFA_LOCAL).or_else(|| attributes.get(libc::IFA_ADDRESS));
    let ip = bytes.and_then(|bytes| match bytes.len() {
        4 => bytes.first_chunk::<4>().map(|bytes| IpAddr::from(*bytes)),
        16 => bytes.first_chunk::<16>().map(|bytes| IpAddr::from(*bytes)),
        _ => None,
    });
    Ok(word(body, 4).zip(ip))
}

/// What the kernel tells of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Itself.
    pub link: Link,
    /// The driver's name; none if it does not tell.
    pub driver: Option<String>,
    /// Whether a device is behind it: a card, real or virtual.
    pub device: bool,
    /// The memory node of the device; none where the kernel does not tell.
    pub node: Option<usize>,
    /// The CPUs to which packets of each receive queue are sent on (RPS), empty for a queue whose packets stay. As many
    /// as there are receive queues.
    pub rps_cpus: Vec<Vec<usize>>,
    /// The CPUs that send through each transmit queue (XPS), empty for a queue without such a choice. As many as there are transmit queues.
    pub xps_cpus: Vec<Vec<usize>>,
    /// How many queues; none if the driver has no such setting.
    pub channels: Option<Channels>,
    /// How long they are; none if the driver has no such setting.
    pub rings: Option<Rings>,
    /// Receive side scaling; none if the interface has none.
    pub rss: Option<Rss>,
    /// Its interrupts; none if it has no device, or they bear other names.
    pub interrupts: Vec<Interrupt>,
}

impl Interface {
    /// Asks for all of it. What the kernel does not tell is left out.
    ///
    /// # Errors
    /// `NotFound` if it has gone.
    pub fn read(link: &Link, ethtool: &Ethtool) -> io::Result<Self> {
        let name = &link.name;
        let mut found = Self {
            link: link.clone(),
            driver: told(driver(name))?,
            channels: told(ethtool.channels(name))?,
            rings: told(ethtool.rings(name))?,
            rss: told(ethtool.rss(name))?,
            rps_cpus: vec![Vec::new(); link.rx_queues_max],
            xps_cpus: vec![Vec::new(); link.tx_queues_max],
            ..Self::default()
        };
        if is_in_files(link) {
            assert!(!link.name.contains('/'), "the name of an interface is that of one folder");
            found.read_files();
        }
        Ok(found)
    }

    fn read_files(&mut self) {
        let name = &self.link.name;
        let number = |path: &str| text(path).ok()?.trim().parse::<usize>().ok(); // -1 is for none
        self.device = std::fs::symlink_metadata(format!("{CLASS}/{name}/device")).is_ok();
        let nodes = ["device/numa_node", "device/../numa_node"];
        self.node = nodes.into_iter().find_map(|file| number(&format!("{CLASS}/{name}/{file}")));
        self.rps_cpus = masks(name, "rx-", "rps_cpus");
        self.xps_cpus = masks(name, "tx-", "xps_cpus");
        self.interrupts = if self.device { interrupts::of_interface(name).unwrap_or_default() } else { Vec::new() };
    }

    /// How many receive queues are in use.
    pub fn rx_queues(&self) -> usize {
        self.rps_cpus.len()
    }
}

/// Drivers refuse in many ways, some while the interface is off: only one that is not there is an error.
fn told<T>(answer: io::Result<Option<T>>) -> io::Result<Option<T>> {
    match answer {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(error),
        other => Ok(other.unwrap_or_default()),
    }
}

/// Whether the files are those of the interface: /sys shows the namespace of whoever mounted it, where another one may bear the name.
fn is_in_files(link: &Link) -> bool {
    let file = |file| text(&format!("{CLASS}/{}/{file}", link.name)).unwrap_or_default();
    let wire: Vec<String> = link.wire_address.iter().map(|byte| format!("{byte:02x}")).collect();
    file("ifindex").trim() == link.index.to_string() && file("address").trim() == wire.join(":")
}

/// The sets of CPUs in a file of each queue; an empty one where it is not readable.
fn masks(interface: &str, prefix: &str, file: &str) -> Vec<Vec<usize>> {
    let folder = format!("{CLASS}/{interface}/queues");
    let queues = numbered(&folder, prefix);
    queues
        .into_iter()
        .map(|queue| text(&format!("{folder}/{prefix}{queue}/{file}")).map_or(Vec::new(), |text| mask(&text)))
        .collect()
}

/// The CPUs of a mask such as `3,00000010`: words of 32 bits in hexadecimal, the last is for CPUs 0 to 31. What is no mask is empty.
fn mask(text: &str) -> Vec<usize> {
    let words: Result<Vec<u32>, _> = text.trim().split(',').map(|word| u32::from_str_radix(word, 16)).collect();
    let words = words.unwrap_or_default();
    let of = |(place, word): (usize, u32)| (0..32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| place * 32 + bit);
    let cpus: Vec<usize> = words.into_iter().rev().enumerate().flat_map(of).collect();
    assert!(cpus.is_sorted_by(|one, next| one < next), "each CPU once, lowest first");
    cpus
}

/// A list of CPUs as the kernel writes it, such as `0-3,8`, the other way round.
pub fn cpu_list(cpus: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(cpu) => *last = cpu,
            _ => parts.push((cpu, cpu)),
        }
    }
    let part = |(first, last): (usize, usize)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    parts.into_iter().map(part).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_found_with_its_address_and_nothing_of_a_card() {
        let links = list().unwrap();
        let lo = links.iter().find(|link| link.loopback).unwrap();
        assert!(lo.name == "lo" && (!lo.up || lo.addresses.contains(&IpAddr::from([127, 0, 0, 1]))), "{lo:?}");
        let lo = Interface::read(lo, &Ethtool::find()).unwrap();
        assert_eq!((lo.device, lo.node, &lo.rss, &lo.interrupts[..], lo.rx_queues()), (false, None, &None, &[][..], 1));
    }

    #[test]
    fn an_interface_that_is_not_there_is_not_found() {
        let gone = Link { name: "no-such-one".to_owned(), ..Link::default() };
        assert_eq!(Interface::read(&gone, &Ethtool::find()).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(!is_in_files(&gone));
        let other = Link { name: "lo".to_owned(), index: 77, ..Link::default() };
        assert!(!is_in_files(&other), "one of the same name in another namespace");
    }

    /// An attribute of a message.
    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = [((4 + value.len()) as u16).to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn messages_are_read_and_those_that_are_cut_refused() {
        let mut head = vec![0; LINK_BYTES];
        (head[4], head[8]) = (9_u32.to_le_bytes()[0], 1);
        if cfg!(target_endian = "big") {
            head[4..12].copy_from_slice(&[9_u32.to_ne_bytes(), 1_u32.to_ne_bytes()].concat());
        }
        let name = attribute(libc::IFLA_IFNAME, b"wire\0");
        let body = [head, name, attribute(libc::IFLA_NUM_RX_QUEUES, &4_u32.to_ne_bytes())].concat();
        let found = link(&body).unwrap().unwrap();
        assert_eq!(
            (found.name.as_str(), found.index, found.up, found.loopback, found.rx_queues_max),
            ("wire", 9, true, false, 4)
        );
        let kinds: Vec<bool> = (0..body.len()).map(|end| link(&body[..end]).is_err()).collect();
        assert!(kinds[..LINK_BYTES].iter().all(|refused| *refused) && kinds[LINK_BYTES + 5], "{kinds:?}");
        assert_eq!(link(&[0; LINK_BYTES]).unwrap(), None, "no name");
    }

    #[test]
    fn the_own_address_of_a_link_between_two_is_taken() {
        let head = [[2, 24, 0, 0], 3_u32.to_ne_bytes()].concat();
        let of = |attributes: &[Vec<u8>]| address(&[head.clone(), attributes.concat()].concat()).unwrap();
        let (own, peer) = (attribute(libc::IFA_LOCAL, &[10, 0, 0, 1]), attribute(libc::IFA_ADDRESS, &[10, 0, 0, 2]));
        assert_eq!(of(&[peer.clone(), own]), Some((3, IpAddr::from([10, 0, 0, 1]))));
        assert_eq!(of(&[peer]), Some((3, IpAddr::from([10, 0, 0, 2]))));
        assert_eq!(of(&[attribute(libc::IFA_ADDRESS, &[7; 5])]), None);
        assert!(address(&head[..7]).is_err());
    }

    #[test]
    fn masks_of_any_width_are_read_and_lists_written() {
        assert_eq!(mask("00000000,00000003\n"), [0, 1]);
        assert_eq!(mask("3,00000010"), [4, 32, 33]);
        for none in ["0", "", "x", "1,,2", "100000000"] {
            assert_eq!(mask(none), Vec::<usize>::new(), "{none:?}");
        }
        assert_eq!(cpu_list(&[0, 1, 2, 5, 8, 9]), "0-2,5,8-9");
        assert_eq!(cpu_list(&[]), "");
        assert_eq!(cpu_list(&[3, 1]), "3,1", "the order stays");
    }
}
