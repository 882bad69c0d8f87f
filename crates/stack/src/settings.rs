//! What a stack is told.

use crate::trunk::Tags;
use crate::tunnels::Tunnel;
use corelane_isr::dispatch::Dispatch;
use corelane_isr::polling;
use corelane_rss::{FlowHasher, Table};
use corelane_rules::RuleSet;
use corelane_wire::packet::ethernet;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

/// Bytes of the longest packet that each link of IPv6 carries (RFC 8200, section 5).
pub(crate) const V6_BYTES_LEAST: usize = 1280;
/// Bytes of the longest frame of the least link that there is: an MTU of 68 (RFC 791).
pub(crate) const FRAME_BYTES_LEAST: usize = 68 + ethernet::Header::BYTES;
/// Interfaces of a stack, at most.
pub const INTERFACES_MAX: usize = 4096;
/// Own addresses and routes together, at most.
pub const ROUTES_MAX: usize = 2_000_000;
/// Routes of one prefix, at most.
pub const WAYS_MAX: usize = 16;
/// Servers that an interface relays requests of DHCP to, at most.
pub const RELAY_SERVERS_MAX: usize = 8;
/// Networks whose tunnels are opened, at most.
pub(crate) const PEERS_MAX: usize = 64;

/// An address that is the stack's own, and the network that it reaches without a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// The address: of one host, and unspecified nowhere.
    pub address: IpAddr,
    /// Bits of the network's prefix: up to 32 for IPv4, up to 128 for IPv6.
    pub bits: u8,
}

impl Network {
    /// Whether an address is within.
    pub(crate) fn holds(&self, address: IpAddr) -> bool {
        match (address, self.address) {
            (IpAddr::V4(address), IpAddr::V4(network)) => {
                self.bits == 0 || (address.to_bits() ^ network.to_bits()) >> (32 - u32::from(self.bits)) == 0
            }
            (IpAddr::V6(address), IpAddr::V6(network)) => {
                self.bits == 0 || (address.to_bits() ^ network.to_bits()) >> (128 - u32::from(self.bits)) == 0
            }
            _ => false,
        }
    }

    /// Whether the family has so many bits.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Self { address, bits } = *self;
        let most = if address.is_ipv4() { 32 } else { 128 };
        if bits > most { Err(Error::Prefix { address, bits }) } else { Ok(()) }
    }
}

/// A way through a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Any address of the network that is reached so.
    pub destination: IpAddr,
    /// Bits of its prefix; 0 for all that no other way leads to.
    pub bits: u8,
    /// The router, in a network of the stack's own or, of IPv6, with an address of the link, and of the destination's family.
    pub router: IpAddr,
    /// The number of the interface that it is reached by; none: that whose network it is in, else the first with addresses of its family.
    pub interface: Option<usize>,
}

/// One change of what routers lead to ([`Policy::Routes`](crate::Policy::Routes)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteChange {
    /// One more way leads to a network ([`Stack::add_route`](crate::Stack::add_route)).
    Add(Route),
    /// No way by that router leads to exactly that network any more.
    Delete {
        /// Any address of the network.
        destination: IpAddr,
        /// Bits of its prefix.
        bits: u8,
        /// The router.
        router: IpAddr,
    },
}

/// Translation of addresses and ports of IPv4, for packets that are forwarded from or to some interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatSettings {
    /// The numbers of the outside interfaces: what leaves by one has its source translated, what comes by one its destination. Inside interfaces are all others.
    pub interfaces: Vec<usize>,
    /// The same for each lane: which lane it is, the stack knows.
    pub settings: corelane_nat::Settings,
}

/// What a stack is told of one interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InterfaceSettings {
    /// Its name, as the operator is told it.
    pub name: Box<str>,
    /// The name of its port, as the operator is told of that; empty: that of the port's interface without tags.
    pub device: Box<str>,
    /// The number of its port, from 0.
    pub port: usize,
    /// The VLAN tags of its frames. One interface of each port has none, and is the first; it may be without addresses.
    pub tags: Tags,
    /// Bytes of the longest packet of IP that is sent, where that is less than its port's; at least 68. Tags are beside it. With two tags, packets are 4 bytes shorter than
    /// the port's longest, for interfaces take one tag more than their MTU says.
    pub mtu: Option<usize>,
    /// The addresses that are the stack's there.
    pub networks: Vec<Network>,
    /// What comes by it and is for somebody else goes on to him.
    pub forwards: bool,
    /// From whom what is forwarded may come by it.
    pub reverse_path: ReversePath,
    /// The longest segments that connections may ask for whose packets come or leave by it.
    pub mss: MssClamp,
    /// Networks of others for which it answers who asks for their addresses (RFC 1027, RFC 4389), where a route leads to them by another interface.
    pub proxies: Vec<Network>,
    /// It says to its link that it is a router (RFC 4861, section 6.2), and which networks of its addresses of IPv6 are there; it needs an address of the link (fe80::/10) for
    /// that.
    pub advertises: Option<Advertised>,
    /// Neighbours that are known at most, and askers that are remembered; none: [`KNOWN_MAX`](crate::KNOWN_MAX) and [`MET_MAX`](crate::MET_MAX). Each takes some 300 bytes on each
    /// lane while he is there.
    pub neighbours_max: Option<usize>,
    /// Servers of DHCP of either family that what its clients ask is relayed to (RFC 1542; RFC 8415, section 19), at most [`RELAY_SERVERS_MAX`]; none: it is not. Requests leave from
    /// its first address of the family, of IPv6 the first that is not of the link alone, with its name as the circuit (RFC 3046), or as the interface (RFC 8415, section 21.18).
    pub relay: Vec<IpAddr>,
}

impl InterfaceSettings {
    /// The name of its port, as far as it says that.
    pub(crate) fn device(&self) -> &str {
        if self.device.is_empty() { &self.name } else { &self.device }
    }
}

/// What an interface says of itself as a router of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertised {
    /// Seconds for which it may be used as the way to everywhere; 0 if it is none (AdvDefaultLifetime). Default: 1800.
    pub lifetime: u16,
    /// Seconds for which the networks are on the link, and for which addresses that hosts make of those with 64 bits are to be preferred (AdvValidLifetime,
    /// AdvPreferredLifetime). Default: 2,592,000 (30 days) and 604,800 (7 days).
    pub valid: u32,
    /// See there.
    pub preferred: u32,
    /// Seconds between two advertisements that nobody has asked for, at most (MaxRtrAdvInterval): 4 to 1800. Default: 600.
    pub interval: u16,
}

impl Default for Advertised {
    fn default() -> Self {
        Self { lifetime: 1800, valid: 2_592_000, preferred: 604_800, interval: 600 }
    }
}

/// From whom a packet may come by an interface, to be forwarded (RFC 3704, section 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReversePath {
    /// From anybody.
    #[default]
    Off,
    /// From those to whom a route leads, the default route among them (section 2.4).
    Loose,
    /// From those to whom one of the ways leads by this interface (sections 2.2 and 2.3).
    Strict,
}

/// The longest segments that connections of TCP may ask for through an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MssClamp {
    /// Whatever they ask for.
    #[default]
    Off,
    /// What fits into its longest packet.
    ToMtu,
    /// So many bytes.
    To(u16),
}

/// What a stack is told. Each lane of a program has the same, but for its number.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// Its interfaces, in the order of their ports: one for each port, and its VLANs behind it; at least one, at most [`INTERFACES_MAX`].
    pub interfaces: Vec<InterfaceSettings>,
    /// Ways to other networks.
    pub routes: Vec<Route>,
    /// How flows are hashed.
    pub hasher: Arc<FlowHasher>,
    /// Which lane has which bucket.
    pub table: Table,
    /// The number of the lane, and how many there are.
    pub lane: (usize, usize),
    /// Whether the card hashes with the key of `hasher`. If not, what it says of a packet's flow is not looked at: whole datagrams and those that
    /// were put together would go to different lanes.
    pub is_card_of_key: bool,
    /// When handlers run. Default: hybrid, as the original has it for IP.
    pub dispatch: Dispatch,
    /// Fragments of one datagram that may wait: with one more than these it must be complete. None: as many as the longest datagram needs.
    pub fragments_each: Option<usize>,
    /// Tunnels that are opened, each for those whose outer address is in that network. What comes in one is believed to be from whom it says.
    pub tunnels: Vec<(Tunnel, Network)>,
    /// Whether this lane speaks for the interfaces: it introduces the addresses to the link, and tells the operator what becomes of them. One lane of a program does.
    pub introduces: bool,
    /// What of the lane's time packets may take while others want it; none: whatever they need.
    pub polling: Option<polling::Settings>,
    /// The rules that packets meet; none: all go on. Interface n of the stack is [`Interface(n + 1)`](corelane_rules::Interface) there.
    pub rules: Option<Arc<RuleSet>>,
    /// Whose addresses are translated; none: nobody's.
    pub nat: Option<NatSettings>,
    /// Random, and nobody else's: the names of fragments and the places of tables come of it.
    pub secret: u128,
}

/// Why a stack cannot be made so. Who set it up is at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A prefix that the family does not have.
    Prefix {
        /// The address.
        address: IpAddr,
        /// Its bits.
        bits: u8,
    },
    /// An address that no host can have.
    Address {
        /// Which.
        address: IpAddr,
    },
    /// Two interfaces have the same address: nobody could say by which it is reached.
    Twice {
        /// Which.
        address: IpAddr,
    },
    /// The router is in no network of the stack's own.
    Router {
        /// Which.
        router: IpAddr,
    },
    /// More networks of tunnels' peers than there may be.
    Peers {
        /// How many.
        got: usize,
    },
    /// More routes of one prefix than there may be.
    Ways {
        /// The prefix.
        destination: IpAddr,
        /// Its bits.
        bits: u8,
    },
    /// More addresses and routes than there may be.
    Routes {
        /// How many.
        got: usize,
    },
    /// The system gives no memory for what waits.
    Memory {
        /// What it says.
        why: String,
    },
    /// An interface has tags that there are not, its port has others with the same, or it stands before that without tags.
    Vlan {
        /// Which.
        interface: Box<str>,
        /// Its tags.
        tags: Tags,
    },
    /// An interface cannot say that it is a router: it has no address of the link to say it from, or the seconds between two such words are too few or too many.
    Advertises {
        /// Which.
        interface: Box<str>,
    },
    /// An interface cannot relay DHCP: it has no address of a server's family, or of IPv6 one of the link alone; it has no name or too long a one; or its servers are too many, no
    /// hosts, known on one link alone, or the stack itself.
    Relay {
        /// Which.
        interface: Box<str>,
    },
    /// More interfaces than there may be.
    Interfaces {
        /// How many.
        got: usize,
    },
    /// There are not as many ports as interfaces without tags.
    Ports {
        /// How many ports.
        got: usize,
        /// How many interfaces.
        interfaces: usize,
    },
    /// Addresses cannot be translated so.
    Nat {
        /// What is wrong.
        why: corelane_nat::Error,
    },
    /// An interface is named that there is not.
    NoInterface {
        /// Its number.
        interface: usize,
    },
    /// The port's packets are too short for the addresses.
    Frames {
        /// The interface.
        interface: Box<str>,
        /// Bytes of its longest, with the link-layer header.
        got: usize,
        /// Bytes that the longest must have.
        least: usize,
    },
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Prefix { address, bits } => {
                write!(f, "{address}/{bits} is no network: IPv4 has up to 32 bits, IPv6 up to 128")
            }
            Self::Address { address } => write!(
                f,
                "{address} is no address of one host: give one that packets can be sent to, and that is neither the first nor the last of its network"
            ),
            Self::Twice { address } => {
                write!(
                    f,
                    "{address} is given to two interfaces: an address belongs to one interface, so take it away from the others"
                )
            }
            Self::Router { router } => {
                write!(f, "the router {router} is in no network of the stack's addresses: give an address beside it first")
            }
            Self::Routes { got } => write!(f, "{got} addresses and routes: there may be {ROUTES_MAX}"),
            Self::Ways { destination, bits } => {
                write!(f, "more than {WAYS_MAX} routes to {destination}/{bits}: take some away")
            }
            Self::Peers { got } => {
                write!(f, "{got} peers of tunnels: there may be {PEERS_MAX}; give networks instead of addresses")
            }
            Self::Vlan { interface, tags } => write!(
                f,
                "{interface} cannot be VLAN {tags}: give numbers from 1 to 4094 that no other interface of the port has, behind the port's interface without a VLAN"
            ),
            Self::Advertises { interface } => write!(
                f,
                "{interface} cannot say that it is a router: give it an address of its link (such as fe80::1/64), and an interval of 4 to 1800 seconds"
            ),
            Self::Relay { interface } => write!(
                f,
                "{interface} cannot relay DHCP: give it an address of IPv4 for servers of IPv4, one of IPv6 (not fe80::) for servers of IPv6, a name of 1 to 64 bytes, and at most {RELAY_SERVERS_MAX} servers, which are hosts (not fe80::) and not these lanes"
            ),
            Self::Interfaces { got } => write!(f, "{got} interfaces: there may be {INTERFACES_MAX}"),
            Self::Ports { got, interfaces } => {
                write!(f, "{got} ports for {interfaces} interfaces: open one for each, in their order")
            }
            Self::Nat { why } => write!(f, "addresses cannot be translated: {why}"),
            Self::NoInterface { interface } => {
                write!(f, "there is no interface {interface}: they are counted from 0, in the order of the settings")
            }
            Self::Memory { why } => write!(f, "no memory for fragments that wait: {why}"),
            Self::Frames { interface, got, least } => {
                let (mtu, needed) = (got.saturating_sub(ethernet::Header::BYTES), least - ethernet::Header::BYTES);
                let or = if *least > FRAME_BYTES_LEAST { ", or give no IPv6 address" } else { "" };
                write!(
                    f,
                    "{interface} has an MTU of {mtu}, and these addresses ask for {needed}: raise it (ip link set {interface} mtu {needed}){or}"
                )
            }
        }
    }
}

impl std::error::Error for Error {}

impl Settings {
    /// Settings without an address, for lane `lane` of so many.
    #[must_use]
    pub fn new(hasher: Arc<FlowHasher>, table: Table, lane: (usize, usize), secret: u128) -> Self {
        let (interfaces, routes, tunnels) = (vec![InterfaceSettings::default()], Vec::new(), Vec::new());
        let (is_card_of_key, dispatch, fragments_each, introduces, polling) = (false, Dispatch::Hybrid, None, false, None);
        Self {
            interfaces,
            routes,
            hasher,
            table,
            lane,
            is_card_of_key,
            dispatch,
            fragments_each,
            tunnels,
            introduces,
            polling,
            rules: None,
            nat: None,
            secret,
        }
    }

    /// With one more address at the last interface.
    #[must_use]
    pub fn with_network(mut self, address: IpAddr, bits: u8) -> Self {
        self.last().networks.push(Network { address, bits });
        self
    }

    fn last(&mut self) -> &mut InterfaceSettings {
        // reason: the first is made with the settings, and none is taken away.
        self.interfaces.last_mut().expect("there is an interface")
    }

    /// With one more route.
    #[must_use]
    pub fn with_route(mut self, destination: IpAddr, bits: u8, router: IpAddr) -> Self {
        self.routes.push(Route { destination, bits, router, interface: None });
        self
    }

    /// With one more route, by that interface.
    #[must_use]
    pub fn with_route_by(mut self, destination: IpAddr, bits: u8, router: IpAddr, interface: usize) -> Self {
        self.routes.push(Route { destination, bits, router, interface: Some(interface) });
        self
    }

    /// With a card that hashes with the same key.
    #[must_use]
    pub fn with_card_of_key(self) -> Self {
        Self { is_card_of_key: true, ..self }
    }

    /// With another policy of dispatch.
    #[must_use]
    pub fn with_dispatch(self, dispatch: Dispatch) -> Self {
        Self { dispatch, ..self }
    }

    /// With such tunnels opened for those in the network of that address and so many bits.
    #[must_use]
    pub fn with_tunnel(mut self, tunnel: Tunnel, address: IpAddr, bits: u8) -> Self {
        self.tunnels.push((tunnel, Network { address, bits }));
        self
    }

    /// With the last interface's name.
    #[must_use]
    pub fn with_interface(mut self, name: &str) -> Self {
        self.last().name = name.into();
        self
    }

    /// With one more interface, for one more port ([`Stack::with_ports`](crate::Stack::with_ports)).
    #[must_use]
    pub fn and_interface(mut self, name: &str) -> Self {
        let port = self.port_names().count();
        self.interfaces.push(InterfaceSettings { name: name.into(), port, ..InterfaceSettings::default() });
        self
    }

    /// With one more interface, which is a VLAN of the last port.
    #[must_use]
    pub fn and_vlan(mut self, name: &str, tags: Tags) -> Self {
        let port = self.last().port;
        self.interfaces.push(InterfaceSettings { name: name.into(), port, tags, ..InterfaceSettings::default() });
        self
    }

    /// With the last interface's packets so long at the most ([`InterfaceSettings::mtu`]).
    #[must_use]
    pub fn with_mtu(mut self, mtu: usize) -> Self {
        self.last().mtu = Some(mtu);
        self
    }

    /// With packets forwarded that come by the last interface.
    #[must_use]
    pub fn with_forwarding(mut self, reverse_path: ReversePath) -> Self {
        (self.last().forwards, self.last().reverse_path) = (true, reverse_path);
        self
    }

    /// With connections through the last interface held to such segments.
    #[must_use]
    pub fn with_mss(mut self, mss: MssClamp) -> Self {
        self.last().mss = mss;
        self
    }

    /// With one more network for which the last interface answers ([`InterfaceSettings::proxies`]).
    #[must_use]
    pub fn with_proxy(mut self, address: IpAddr, bits: u8) -> Self {
        self.last().proxies.push(Network { address, bits });
        self
    }

    /// With the last interface as a router that says so ([`InterfaceSettings::advertises`]).
    #[must_use]
    pub fn with_advertisements(mut self, advertised: Advertised) -> Self {
        self.last().advertises = Some(advertised);
        self
    }

    /// With so many neighbours at the last interface, at most.
    #[must_use]
    pub fn with_neighbours_max(mut self, neighbours: usize) -> Self {
        self.last().neighbours_max = Some(neighbours);
        self
    }

    /// With one more server that what clients of the last interface ask is relayed to ([`InterfaceSettings::relay`]).
    #[must_use]
    pub fn with_relay(mut self, server: impl Into<IpAddr>) -> Self {
        self.last().relay.push(server.into());
        self
    }

    /// The names of the ports, in their order.
    pub(crate) fn port_names(&self) -> impl Iterator<Item = &str> {
        self.interfaces.iter().filter(|one| one.tags == Tags::None).map(InterfaceSettings::device)
    }

    /// Whether each interface has a port, and tags of its own.
    pub(crate) fn check_interfaces(&self) -> Result<(), Error> {
        if self.interfaces.len() > INTERFACES_MAX {
            return Err(Error::Interfaces { got: self.interfaces.len() });
        }
        let mut seen = BTreeSet::new();
        let mut ports = 0;
        for one in &self.interfaces {
            ports += usize::from(one.tags == Tags::None);
            if !one.tags.are_valid() || one.port + 1 != ports || !seen.insert((one.port, one.tags)) {
                return Err(Error::Vlan { interface: one.name.clone(), tags: one.tags });
            }
        }
        Ok(())
    }

    /// As the lane that speaks for the interfaces.
    #[must_use]
    pub fn with_introduction(self) -> Self {
        Self { introduces: true, ..self }
    }

    /// With packets held to their part of the lane's time; none: to no part.
    #[must_use]
    pub fn with_polling(self, polling: Option<polling::Settings>) -> Self {
        Self { polling, ..self }
    }

    /// With packets that meet these rules.
    #[must_use]
    pub fn with_rules(self, rules: Arc<RuleSet>) -> Self {
        Self { rules: Some(rules), ..self }
    }

    /// With addresses translated.
    #[must_use]
    pub fn with_nat(self, nat: NatSettings) -> Self {
        Self { nat: Some(nat), ..self }
    }

    /// With so many fragments of one datagram waiting at the most.
    #[must_use]
    pub fn with_fragments_each(self, fragments: usize) -> Self {
        Self { fragments_each: Some(fragments), ..self }
    }
}
