//! What a stack is told.

use crate::tunnels::Tunnel;
use corelane_isr::dispatch::Dispatch;
use corelane_isr::polling;
use corelane_isr::reassembly::Limits;
use corelane_rss::{FlowHasher, Table};
use corelane_wire::packet::ethernet;
use std::net::IpAddr;
use std::sync::Arc;

/// Bytes of the longest packet that each link of IPv6 carries (RFC 8200, section 5).
pub(crate) const V6_BYTES_LEAST: usize = 1280;
/// Bytes of the longest frame of the least link that there is: an MTU of 68 (RFC 791).
pub(crate) const FRAME_BYTES_LEAST: usize = 68 + ethernet::Header::BYTES;
/// Own addresses at most, and networks of tunnels' peers: they are looked through in order.
pub const NETWORKS_MAX: usize = 256;
/// Routes of each family at most: they are found by their prefixes.
pub const ROUTES_MAX: usize = 2_000_000;

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

/// What a stack is told of one interface.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct InterfaceSettings {
    /// Its name, as the operator is told it.
    pub name: Box<str>,
    /// The addresses that are the stack's there.
    pub networks: Vec<Network>,
}

/// What a stack is told. Each lane of a program has the same, but for its number.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// Its interfaces, one for each port, in their order; at least one.
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
    /// What waits for fragments; none: [`Limits::for_lane`].
    pub fragments: Option<Limits>,
    /// Tunnels that are opened, each for those whose outer address is in that network. What comes in one is believed to be from whom it says.
    pub tunnels: Vec<(Tunnel, Network)>,
    /// Whether this lane speaks for the interfaces: it introduces the addresses to the link, and tells the operator what becomes of them. One lane of a program does.
    pub introduces: bool,
    /// What of the lane's time packets may take while others want it; none: whatever they need.
    pub polling: Option<polling::Settings>,
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
    /// More own addresses than there may be.
    Networks {
        /// How many.
        got: usize,
    },
    /// More routes than there may be.
    Routes {
        /// How many.
        got: usize,
    },
    /// The system gives no memory for what waits.
    Memory {
        /// What it says.
        why: String,
    },
    /// There are not as many ports as interfaces.
    Ports {
        /// How many ports.
        got: usize,
        /// How many interfaces.
        interfaces: usize,
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
            Self::Networks { got } => write!(f, "{got} addresses: there may be {NETWORKS_MAX}"),
            Self::Routes { got } => write!(f, "{got} routes of one family: there may be {ROUTES_MAX}"),
            Self::Peers { got } => {
                write!(f, "{got} peers of tunnels: there may be {NETWORKS_MAX}; give networks instead of addresses")
            }
            Self::Ports { got, interfaces } => {
                write!(f, "{got} ports for {interfaces} interfaces: open one for each, in their order")
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
        let (is_card_of_key, dispatch, fragments, introduces, polling) = (false, Dispatch::Hybrid, None, false, None);
        Self {
            interfaces,
            routes,
            hasher,
            table,
            lane,
            is_card_of_key,
            dispatch,
            fragments,
            tunnels,
            introduces,
            polling,
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
        self.interfaces.push(InterfaceSettings { name: name.into(), networks: Vec::new() });
        self
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

    /// With other limits for fragments.
    #[must_use]
    pub fn with_fragments(self, limits: Limits) -> Self {
        Self { fragments: Some(limits), ..self }
    }
}
