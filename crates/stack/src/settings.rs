//! What a stack is told.

use crate::tunnels::Tunnel;
use corelane_isr::dispatch::Dispatch;
use corelane_isr::reassembly::Limits;
use corelane_rss::{FlowHasher, Table};
use corelane_wire::packet::ethernet;
use std::net::IpAddr;
use std::sync::Arc;

/// Bytes of the longest packet that each link of IPv6 carries (RFC 8200, section 5).
pub(crate) const V6_BYTES_LEAST: usize = 1280;
/// Bytes of the longest frame of the least link that there is: an MTU of 68 (RFC 791).
pub(crate) const FRAME_BYTES_LEAST: usize = 68 + ethernet::Header::BYTES;
/// Own addresses and routes together, at most.
pub const ROUTES_MAX: usize = 64;

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
}

/// What a stack is told. Each lane of a program has the same, but for its number.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// Its addresses.
    pub networks: Vec<Network>,
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
    /// The name of the interface, as the operator is told it.
    pub interface: Box<str>,
    /// Whether this lane speaks for the interface: it introduces the addresses to the link, and tells the operator what becomes of them. One lane of a program does.
    pub introduces: bool,
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
            Self::Router { router } => {
                write!(f, "the router {router} is in no network of the stack's addresses: give an address beside it first")
            }
            Self::Routes { got } => write!(f, "{got} addresses and routes: there may be {ROUTES_MAX}"),
            Self::Peers { got } => {
                write!(f, "{got} peers of tunnels: there may be {ROUTES_MAX}; give networks instead of addresses")
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
        let (networks, routes, tunnels) = Default::default();
        let (is_card_of_key, dispatch, fragments, interface, introduces) = (false, Dispatch::Hybrid, None, Box::default(), false);
        Self {
            networks,
            routes,
            hasher,
            table,
            lane,
            is_card_of_key,
            dispatch,
            fragments,
            tunnels,
            interface,
            introduces,
            secret,
        }
    }

    /// With one more address.
    #[must_use]
    pub fn with_network(mut self, address: IpAddr, bits: u8) -> Self {
        self.networks.push(Network { address, bits });
        self
    }

    /// With one more route.
    #[must_use]
    pub fn with_route(mut self, destination: IpAddr, bits: u8, router: IpAddr) -> Self {
        self.routes.push(Route { destination, bits, router });
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

    /// With the interface's name.
    #[must_use]
    pub fn with_interface(self, name: &str) -> Self {
        Self { interface: name.into(), ..self }
    }

    /// As the lane that speaks for the interface.
    #[must_use]
    pub fn with_introduction(self) -> Self {
        Self { introduces: true, ..self }
    }

    /// With other limits for fragments.
    #[must_use]
    pub fn with_fragments(self, limits: Limits) -> Self {
        Self { fragments: Some(limits), ..self }
    }
}
