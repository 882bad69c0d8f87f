//! `--packet`, as it is written.

use super::gateway::Port;
use super::memory::{FRAMES_LEAST, FRAMES_MOST};
use crate::error::Error;
use corelane_isr::polling;
use corelane_stack::{InterfaceSettings, Network, NoTags, ReversePath, Route, Tags, Tunnel, check_own};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// How many fragments of one datagram may wait: more than a quarter of all that may ([`corelane_isr::reassembly::Limits::for_lane`]) is nobody's.
const FRAGMENTS: RangeInclusive<usize> = 2..=512;

/// An interface whose frames lanes have, and the addresses that are theirs and no longer the kernel's.
///
/// Written as `eth1,ip=10.0.0.2/24`: the interface, then one or more addresses with the bits of their networks, then a router for all other
/// networks of a family, if there is one: `eth1,ip=10.0.0.2/24,ip=fd00::2/64,via=10.0.0.1`. `tunnel=gre@192.0.2.1` (`ipip`,
/// `6in4`, `vxlan`), each as often as needed, has tunnels from that peer, or that network of peers, to these addresses opened. `channels=PATH` has other
/// processes take packets at that Unix socket. `poll` has each lane take its packets in by itself (AF_XDP, Linux 6.13), so
/// that under a flood nothing takes its CPU from it; where packets come in numbers, one that comes just after a lane has found none waits up to 0.5
/// milliseconds.
/// `fragments=N` has so many fragments of one datagram wait at the most, 2 to 512; else as many as the longest needs.
/// `frames=N` gives each lane so many frames of 2 KiB, 256 to 65,536; else it has 4,096, or with AF_XDP as many as may be locked.
///
/// `vlan=10` (802.1Q), or `vlan=100.10` (802.1ad outside), makes addresses behind it those of that VLAN of the interface, up to the next `vlan=`. `forward` has packets
/// that are for somebody else go on to him, among all networks of the interface, from whom a way leads back by where they came in. With either the lanes have all
/// frames of the interface, and the kernel has none.
///
/// `tap:tap0` instead of an interface is a tap of that name: lanes are at the other end of a wire whose near end is the kernel's. One that is not there
/// is made, is down until somebody gives it an address and sets it up, and is gone with the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketPort {
    port: Port,
    /// Packets for others go on.
    forwards: bool,
    routers: Vec<IpAddr>,
    /// Kinds of tunnels, and the networks of those who may send in one.
    tunnels: Vec<(Tunnel, IpAddr, u8)>,
    channels: Option<PathBuf>,
    /// Fragments of one datagram that may wait.
    fragments: Option<usize>,
    /// The settings of polling, in their order.
    knobs: Vec<polling::Change>,
}

impl PacketPort {
    /// The interface.
    pub fn interface(&self) -> &str {
        &self.port.device
    }

    /// Whether it is a tap, at whose other end lanes are.
    pub fn is_tap(&self) -> bool {
        self.port.is_tap
    }

    /// Whether an address is theirs.
    pub fn has(&self, address: IpAddr) -> bool {
        self.port.addresses().any(|own| own == address)
    }

    /// Whether an address is reached by its frames: in a network of its own, or by a router.
    pub fn reaches(&self, address: IpAddr) -> bool {
        let is_near = |own: &Network| match (own.address, address) {
            (IpAddr::V4(near), IpAddr::V4(to)) => (near.to_bits() ^ to.to_bits()).leading_zeros() >= own.bits.into(),
            (IpAddr::V6(near), IpAddr::V6(to)) => (near.to_bits() ^ to.to_bits()).leading_zeros() >= own.bits.into(),
            _ => false,
        };
        self.port.networks().any(is_near) || self.routers.iter().any(|router| router.is_ipv4() == address.is_ipv4())
    }

    /// The port itself.
    pub(crate) fn port(&self) -> &Port {
        &self.port
    }

    /// Where other processes may take packets.
    pub(crate) fn channels(&self) -> Option<&Path> {
        self.channels.as_deref()
    }

    /// Fragments of one datagram that may wait, if that is said.
    pub(crate) fn fragments(&self) -> Option<usize> {
        self.fragments
    }

    /// The settings of polling.
    pub(crate) fn knobs(&self) -> &[polling::Change] {
        &self.knobs
    }

    /// The tunnels that are opened, and for whom.
    pub(crate) fn tunnels(&self) -> &[(Tunnel, IpAddr, u8)] {
        &self.tunnels
    }

    /// The ways by its routers, to everywhere.
    pub(crate) fn routes(&self) -> impl Iterator<Item = Route> {
        self.routers.iter().map(|router| {
            let destination: IpAddr = if router.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
            Route { destination, bits: 0, router: *router, interface: None }
        })
    }

    /// Takes one part of what is written behind the interface.
    fn take(&mut self, part: &str, wrong: &dyn Fn(&str) -> Error) -> Result<(), Error> {
        match part.split_once('=') {
            Some(("ip", network)) => {
                let network = network_of(network).ok_or(wrong("no address with its bits"))?;
                self.port.interfaces.last_mut().into_iter().for_each(|last| last.networks.push(network));
            }
            Some(("vlan", numbers)) => {
                let tags = numbers.parse().map_err(|why: NoTags| wrong(&why.to_string()))?;
                if self.port.interfaces.iter().any(|one| one.tags == tags) {
                    return Err(wrong(&format!("vlan={numbers} stands there twice")));
                }
                let name = format!("{}.{tags}", self.port.device);
                self.port.interfaces.push(own_interface(&name, tags));
            }
            None if part == "forward" => self.forwards = true,
            Some(("via", router)) => self.routers.push(router.parse().map_err(|_| wrong("no address of a router"))?),
            Some(("tunnel", name)) => self.tunnels.push(tunnel_of(name).map_err(wrong)?),
            Some(("channels", path)) if !path.is_empty() => self.channels = Some(path.into()),
            Some(("frames", number)) => {
                self.port.frames = Some(frames_of(number).ok_or(wrong("no number of frames from 256 to 65536"))?)
            }
            Some(("fragments", number)) => {
                self.fragments = Some(fragments_of(number).ok_or(wrong("no number of fragments from 2 to 512"))?)
            }
            None if part == "poll" && !self.port.is_tap => self.port.polls = true,
            None if part == "poll" => return Err(wrong("a tap is not polled")),
            Some(_) if self.port.polls => {
                let knob = part.parse().map_err(|why: polling::ChangeError| wrong(&format!("{part:?}: {why}")))?;
                self.knobs.push(knob);
                let mut settings = polling::Settings::DEFAULT;
                let mut knobs = self.knobs.iter();
                knobs.try_for_each(|knob| settings.change(*knob)).map_err(|why| wrong(&format!("{part:?}: {why}")))?;
            }
            _ => {
                return Err(wrong(&format!(
                    "{part:?} is neither ip= nor vlan= nor forward nor via= nor tunnel= nor channels= nor fragments= nor frames= nor poll"
                )));
            }
        }
        Ok(())
    }
}

impl FromStr for PacketPort {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |what: &str| Error::Setting {
            name: "packet",
            why: format!(
                "{text:?}: {what}: write eth1,ip=10.0.0.2/24, or tap:NAME for a tap, and behind it ,ip=.. for each further address, ,vlan=N (or N.N) in front of those of a VLAN, ,forward, ,via=ROUTER, ,tunnel=gre|ipip|6in4|vxlan@PEER (an address or a network), ,channels=PATH, ,fragments=N, ,frames=N, and ,poll"
            ),
        };
        let mut parts = text.split(',');
        let interface = parts.next().filter(|name| !name.is_empty() && !name.contains('=')).ok_or(wrong("no interface"))?;
        let (interface, is_tap) = interface.strip_prefix("tap:").map_or((interface, false), |name| (name, true));
        let mut port = Self {
            port: Port { is_tap, interfaces: vec![own_interface(interface, Tags::None)], ..Port::of(interface) },
            forwards: false,
            routers: Vec::new(),
            tunnels: Vec::new(),
            channels: None,
            fragments: None,
            knobs: Vec::new(),
        };
        parts.try_for_each(|part| port.take(part, &wrong))?;
        if port.forwards {
            let all = port.port.interfaces.iter_mut();
            all.for_each(|one| (one.forwards, one.reverse_path) = (true, ReversePath::Strict));
        }
        let own = &port.port;
        for (place, network) in own.networks().enumerate() {
            check_own(network).map_err(|why| wrong(&why.to_string()))?;
            if own.addresses().take(place).any(|before| before == network.address) {
                return Err(wrong(&format!("ip={} stands there twice", network.address)));
            }
        }
        if let Some(empty) = own.interfaces.iter().find(|one| one.tags != Tags::None && one.networks.is_empty()) {
            return Err(wrong(&format!("no address in vlan={}", empty.tags)));
        }
        if own.networks().next().is_none() { Err(wrong("no address")) } else { Ok(port) }
    }
}

/// One that forwards nothing so far.
fn own_interface(name: &str, tags: Tags) -> InterfaceSettings {
    let mut made = InterfaceSettings::default();
    (made.name, made.tags) = (name.into(), tags);
    made
}

fn network_of(text: &str) -> Option<Network> {
    let (address, bits) = text.split_once('/')?;
    Some(Network { address: address.parse().ok()?, bits: bits.parse().ok()? })
}

/// A kind of tunnel and its peers.
fn tunnel_of(text: &str) -> Result<(Tunnel, IpAddr, u8), &'static str> {
    let (kind, peers) = text.split_once('@').unwrap_or((text, ""));
    let tunnel = Tunnel::named(kind).ok_or("no kind of tunnel")?;
    let one = || peers.parse().ok().map(|peer: IpAddr| (peer, if peer.is_ipv4() { 32 } else { 128 }));
    let network = network_of(peers).map(|network| (network.address, network.bits));
    let (peer, bits) =
        network.or_else(one).ok_or("a tunnel is opened for the peers that it names, as in tunnel=gre@192.0.2.1")?;
    Ok((tunnel, peer, bits))
}

fn frames_of(text: &str) -> Option<usize> {
    text.parse().ok().filter(|frames| (FRAMES_LEAST..=FRAMES_MOST).contains(frames))
}

fn fragments_of(text: &str) -> Option<usize> {
    text.parse().ok().filter(|fragments| FRAGMENTS.contains(fragments))
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_xdp::Ours;

    fn why(text: &str) -> String {
        text.parse::<PacketPort>().unwrap_err().to_string()
    }

    #[test]
    fn an_interface_and_its_addresses_are_read() {
        let port: PacketPort =
            "eth1,ip=10.0.0.2/24,ip=fd00::2/64,via=10.0.0.1,tunnel=gre@192.0.2.1,tunnel=6in4@fd00::/64".parse().unwrap();
        assert_eq!(port.interface(), "eth1");
        assert!(port.has([10, 0, 0, 2].into()) && port.has("fd00::2".parse().unwrap()) && !port.has([10, 0, 0, 1].into()));
        let peers = [(Tunnel::Gre, [192, 0, 2, 1].into(), 32), (Tunnel::Ipv6InIp, [0xfd00, 0, 0, 0, 0, 0, 0, 0].into(), 64)];
        assert_eq!(port.tunnels, peers);
        assert_eq!(port.routers, ["10.0.0.1".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn vlans_have_addresses_of_their_own() {
        let port: PacketPort =
            "eth1,ip=10.0.0.2/24,vlan=10,ip=10.0.10.1/24,ip=fd0a::1/64,vlan=100.20,ip=10.0.20.1/24,forward,via=10.0.0.1"
                .parse()
                .unwrap();
        let tags: Vec<_> = port.port.interfaces.iter().map(|one| (one.tags, one.networks.len())).collect();
        assert_eq!(tags, [(Tags::None, 1), (Tags::One(10), 2), (Tags::Two(100, 20), 1)]);
        assert!(port.forwards && port.has([10, 0, 20, 1].into()) && port.reaches([10, 0, 10, 99].into()));
        assert_eq!(port.port.ours(), Ours::All);
        let plain: PacketPort = "eth1,ip=10.0.0.2/24".parse().unwrap();
        assert_eq!(plain.port.ours(), Ours::Addresses(vec![[10, 0, 0, 2].into()]), "the rest is the kernel's");
        let trunk: PacketPort = "eth1,vlan=10,ip=10.0.10.1/24".parse().unwrap();
        assert!(trunk.port.interfaces[0].networks.is_empty(), "an interface may be a trunk alone");
    }

    #[test]
    fn what_is_reached_is_in_a_network_of_its_own_or_behind_a_router() {
        let reached = |port: &str, to: &str| port.parse::<PacketPort>().unwrap().reaches(to.parse().unwrap());
        let near = "eth1,ip=10.0.0.2/24,ip=fd00::2/64";
        assert!(reached(near, "10.0.0.255") && reached(near, "fd00::9"));
        assert!(!reached(near, "10.0.1.1") && !reached(near, "fd01::9") && !reached(near, "127.0.0.1"));
        assert!(reached("eth1,ip=10.0.0.2/24,via=10.0.0.1", "192.0.2.1"), "a router for its family");
        assert!(!reached("eth1,ip=10.0.0.2/24,via=10.0.0.1", "fd00::9"));
        assert!(reached("eth1,ip=10.0.0.2/32", "10.0.0.2") && reached("eth1,ip=10.0.0.2/0", "192.0.2.1"));
    }

    #[test]
    fn a_tap_is_named_as_one() {
        let port: PacketPort = "tap:tap0,ip=10.0.0.2/24".parse().unwrap();
        assert_eq!((port.interface(), port.is_tap()), ("tap0", true));
        assert!(!"tap0,ip=10.0.0.2/24".parse::<PacketPort>().unwrap().is_tap(), "an interface may have any name");
    }

    #[test]
    fn frames_are_as_many_as_are_asked_for() {
        let asked = |text: &str| text.parse::<PacketPort>().unwrap().port.frames;
        assert_eq!((asked("eth1,ip=10.0.0.2/24,frames=512"), asked("eth1,ip=10.0.0.2/24")), (Some(512), None));
        let fragments = |text: &str| text.parse::<PacketPort>().unwrap().fragments;
        assert_eq!((fragments("eth1,ip=10.0.0.2/24,fragments=16"), fragments("eth1,ip=10.0.0.2/24")), (Some(16), None));
    }

    #[test]
    fn what_cannot_be_read_is_told_with_an_example() {
        for (text, words) in [
            ("", "no interface"),
            ("ip=10.0.0.2/24", "no interface"),
            ("eth1", "no address"),
            ("eth1,ip=10.0.0.2", "no address with its bits"),
            ("eth1,vlan=10", "no address in vlan=10"),
            ("eth1,vlan=100.10,vlan=7,ip=10.0.0.2/24", "no address in vlan=100.10"),
            ("eth1,vlan=0,ip=10.0.0.2/24", "a number from 1 to 4094"),
            ("eth1,vlan=4095,ip=10.0.0.2/24", "a number from 1 to 4094"),
            ("eth1,vlan=1.2.3,ip=10.0.0.2/24", "a number from 1 to 4094"),
            ("eth1,vlan=7,ip=10.0.0.2/24,vlan=7,ip=10.0.1.2/24", "vlan=7 stands there twice"),
            ("eth1,vlan=7,ip=10.0.0.2/24,vlan=8,ip=10.0.0.2/24", "ip=10.0.0.2 stands there twice"),
            ("eth1,ip=ten/24", "no address with its bits"),
            ("eth1,ip=10.0.0.2/24,via=there", "no address of a router"),
            ("eth1,ip=10.0.0.255/24", "10.0.0.255 is no address of one host"),
            ("eth1,ip=0.0.0.0/24", "0.0.0.0 is no address of one host"),
            ("eth1,ip=127.0.0.2/8", "127.0.0.2 is no address of one host"),
            ("eth1,ip=ff02::1/64", "ff02::1 is no address of one host"),
            ("eth1,ip=10.0.0.2/33", "IPv4 has up to 32 bits"),
            ("eth1,ip=10.0.0.2/24,ip=10.0.0.3/24,ip=10.0.0.2/16", "ip=10.0.0.2 stands there twice"),
            (
                "eth1,mtu=9000",
                "\"mtu=9000\" is neither ip= nor vlan= nor forward nor via= nor tunnel= nor channels= nor fragments= nor frames= nor poll",
            ),
            ("eth1,ip=10.0.0.2/24,frames=255", "no number of frames from 256 to 65536"),
            ("eth1,ip=10.0.0.2/24,frames=65537", "no number of frames from 256 to 65536"),
            ("eth1,ip=10.0.0.2/24,fragments=1", "no number of fragments from 2 to 512"),
            ("eth1,ip=10.0.0.2/24,fragments=513", "no number of fragments from 2 to 512"),
            ("tap:tap0,ip=10.0.0.2/24,poll", "a tap is not polled"),
            ("eth1,ip=10.0.0.2/24,tunnel=ssh@10.0.0.1", "no kind of tunnel"),
            ("eth1,ip=10.0.0.2/24,tunnel=gre", "for the peers that it names"),
        ] {
            let why = why(text);
            assert!(why.contains(words) && why.contains("write eth1,ip=10.0.0.2/24"), "{text}: {why}");
        }
    }
}
