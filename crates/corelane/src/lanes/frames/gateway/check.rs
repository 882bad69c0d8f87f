//! Whether a gateway can be as it is described, found before anything is opened; what is wrong is told with the part that is at fault, so that whoever read it from a file
//! can say where it stands.

use super::{Gateway, Port};
use crate::lanes::frames::memory::{FRAMES_LEAST, FRAMES_MOST};
use corelane_isr::polling;
use corelane_nat::{Forward, Nat};
use corelane_rss::{Buckets, FlowHasher, HashTypes, Key, Table};
use corelane_stack::{Error, InterfaceSettings, NatSettings, Route, Settings, Tags, check_addresses, check_own, check_relay};
use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// A part of a gateway, by its places in the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum At {
    /// All of it.
    Gateway,
    /// A port.
    Port(usize),
    /// An interface of a port.
    Interface(usize, usize),
    /// An address of an interface of a port.
    Address(usize, usize, usize),
    /// A network for which an interface of a port answers.
    Proxy(usize, usize, usize),
    /// A route.
    Route(usize),
    /// The table that is followed.
    Follow,
    /// A setting of polling.
    Polling(usize),
    /// The translation of addresses.
    Nat,
    /// An outside interface of the translation.
    Outside(usize),
    /// An external address of the translation.
    External(usize),
    /// A forward of the translation.
    Forward(usize),
}

/// Why there can be no such gateway. Its description is at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoGateway {
    /// The part at fault.
    pub at: At,
    /// Its fault, and the remedy.
    pub why: String,
}

impl fmt::Display for NoGateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for NoGateway {}

/// Bytes of the shortest longest packet that a link may have (RFC 791), and of the longest packet.
const MTU_LEAST: usize = 68;
const MTU_MOST: usize = 65_535;
/// Bytes that each link of IPv6 carries (RFC 8200, section 5).
const V6_MTU_LEAST: usize = 1280;

impl Gateway {
    /// Whether a gateway can be like this. Nothing of the machine is looked at.
    ///
    /// # Errors
    /// What is wrong, and which part.
    pub fn check(&self) -> Result<(), NoGateway> {
        check_ports(&self.ports)?;
        check_interfaces(&self.ports)?;
        let all = self.ports.iter().flat_map(Port::networks).count();
        if all == 0 {
            return Err(wrong(At::Gateway, "no port has an address: give at least one network addresses".to_owned()));
        }
        if self.follow == Some(0) {
            return Err(wrong(
                At::Follow,
                "there is no table 0: give the number of one, such as 100, or 254 for main".to_owned(),
            ));
        }
        self.check_polling()?;
        self.nat.iter().try_for_each(|nat| self.check_nat(nat))?;
        let settings = self.settings();
        let checked = check_addresses(&settings).and_then(|()| check_relay(&settings));
        checked.map_err(|why| wrong(self.at_fault(&why), why.to_string()))
    }

    fn check_polling(&self) -> Result<(), NoGateway> {
        let mut settings = polling::Settings::DEFAULT;
        let mut each = self.polling.iter().enumerate();
        each.try_for_each(|(place, change)| settings.change(*change).map_err(|why| wrong(At::Polling(place), why.to_string())))
    }

    fn check_nat(&self, nat: &NatSettings) -> Result<(), NoGateway> {
        if nat.interfaces.is_empty() {
            return Err(wrong(At::Nat, "no interface is outside: name one or more by which packets leave translated".to_owned()));
        }
        let count = self.interfaces().count();
        if let Some(place) = nat.interfaces.iter().position(|interface| *interface >= count) {
            let why = Error::NoInterface { interface: nat.interfaces[place] };
            return Err(wrong(At::Outside(place), why.to_string()));
        }
        let own = &nat.settings;
        Nat::new(own, hasher(), || 0).map(drop).map_err(|why| {
            let forward = |meant: &Forward| own.forwards.iter().rposition(|one| one == meant).map(At::Forward);
            let at = match &why {
                corelane_nat::Error::Twice { external } => {
                    own.externals.iter().rposition(|one| one == external).map(At::External)
                }
                corelane_nat::Error::Forward { forward: meant } | corelane_nat::Error::Overlap { other: meant, .. } => {
                    forward(meant)
                }
                _ => None,
            };
            wrong(at.unwrap_or(At::Nat), why.to_string())
        })
    }

    /// The addresses and routes that a stack would be told.
    fn settings(&self) -> Settings {
        // reason: one lane has as many buckets as there are.
        let table = Table::even(Buckets::DEFAULT, 1).expect("one lane has all buckets");
        let mut settings = Settings::new(hasher(), table, (0, 1), 0);
        settings.interfaces = numbered(&self.ports);
        settings.routes.clone_from(&self.routes);
        settings
    }

    /// The part that a stack's word is of.
    fn at_fault(&self, why: &Error) -> At {
        let route = |is_meant: &dyn Fn(&Route) -> bool| self.routes.iter().rposition(is_meant).map(At::Route);
        let interface = |name: &str| self.places().find(|(_, one)| &*one.name == name).map(|(at, _)| at);
        let found = match why {
            Error::Twice { address } => self.last_of(*address),
            Error::Router { router } | Error::Address { address: router } => route(&|one| one.router == *router),
            Error::Prefix { address, bits } => route(&|one| (one.destination, one.bits) == (*address, *bits)),
            Error::Ways { destination, bits } => route(&|one| (one.destination, one.bits) == (*destination, *bits)),
            Error::Vlan { interface: name, .. } | Error::Advertises { interface: name } | Error::Relay { interface: name } => {
                interface(name)
            }
            _ => None,
        };
        found.unwrap_or(At::Gateway)
    }

    /// Where an address stands last.
    fn last_of(&self, address: IpAddr) -> Option<At> {
        let each = self.places().flat_map(|(at, one)| {
            let At::Interface(port, interface) = at else { unreachable!("places are interfaces'") };
            one.networks.iter().enumerate().map(move |(place, own)| (At::Address(port, interface, place), own.address))
        });
        each.filter(|(_, own)| *own == address).last().map(|(at, _)| at)
    }

    /// Each interface with its place.
    fn places(&self) -> impl Iterator<Item = (At, &InterfaceSettings)> {
        places(&self.ports)
    }
}

/// Any will do: nothing is hashed.
fn hasher() -> Arc<FlowHasher> {
    Arc::new(FlowHasher::new(&Key::MICROSOFT, HashTypes::DEFAULT))
}

fn wrong(at: At, why: String) -> NoGateway {
    NoGateway { at, why }
}

fn places(ports: &[Port]) -> impl Iterator<Item = (At, &InterfaceSettings)> {
    let of_port = |(port, own): (usize, &Port)| (0..own.interfaces.len()).map(move |place| (port, place)).collect::<Vec<_>>();
    let each = ports.iter().enumerate().flat_map(of_port);
    each.map(|(port, place)| (At::Interface(port, place), &ports[port].interfaces[place]))
}

/// The interfaces as a stack is told them: each with the number of its port.
pub(crate) fn numbered<'p>(ports: impl IntoIterator<Item = &'p Port>) -> Vec<InterfaceSettings> {
    let mut all = Vec::new();
    for (number, port) in ports.into_iter().enumerate() {
        let mut own = port.interfaces.clone();
        own.iter_mut().for_each(|one| (one.port, one.device) = (number, (&*port.device).into()));
        all.extend(own);
    }
    all
}

fn check_ports(ports: &[Port]) -> Result<(), NoGateway> {
    let mut devices = BTreeSet::new();
    for (place, port) in ports.iter().enumerate() {
        let why = if !devices.insert(&*port.device) {
            format!("{} is a port already: put its networks there", port.device)
        } else if port.device.is_empty() {
            "a port has the name of an interface: see `ip link`".to_owned()
        } else if port.is_tap && port.polls {
            format!("the tap {} is not polled: leave that out", port.device)
        } else if let Some(frames) = port.frames.filter(|frames| !(FRAMES_LEAST..=FRAMES_MOST).contains(frames)) {
            format!("{frames} frames cannot be: give each lane {FRAMES_LEAST} to {FRAMES_MOST}")
        } else {
            continue;
        };
        return Err(wrong(At::Port(place), why));
    }
    Ok(())
}

fn check_interfaces(ports: &[Port]) -> Result<(), NoGateway> {
    let mut names = BTreeSet::new();
    for (at, one) in places(ports) {
        let At::Interface(port, interface) = at else { unreachable!("places are interfaces'") };
        let mut before = ports[port].interfaces[..interface].iter();
        if !names.insert(&*one.name) {
            return Err(wrong(at, format!("there are two interfaces named {}: give one another name", one.name)));
        }
        if let Some(other) = before.find(|other| other.tags == one.tags) {
            return Err(wrong(at, format!("{} has these VLAN tags already: give one of the two others", other.name)));
        }
        if (interface == 0) != (one.tags == Tags::None) || !one.tags.are_valid() {
            let why = Error::Vlan { interface: one.name.clone(), tags: one.tags };
            return Err(wrong(at, why.to_string()));
        }
        if one.tags != Tags::None && one.networks.is_empty() {
            return Err(wrong(at, format!("{} has no address: give it one, such as 10.0.10.1/24", one.name)));
        }
        check_mtu(one).map_err(|why| wrong(at, why))?;
        check_networks((port, interface), one)?;
    }
    Ok(())
}

fn check_mtu(one: &InterfaceSettings) -> Result<(), String> {
    let has_v6 = one.networks.iter().any(|network| network.address.is_ipv6());
    match one.mtu {
        Some(mtu) if !(MTU_LEAST..=MTU_MOST).contains(&mtu) => {
            Err(format!("an MTU of {mtu} cannot be: give {MTU_LEAST} to {MTU_MOST} bytes"))
        }
        Some(mtu) if has_v6 && mtu < V6_MTU_LEAST => {
            Err(format!("an MTU of {mtu} is too short for IPv6: give {V6_MTU_LEAST}, or leave out the addresses of IPv6"))
        }
        _ => Ok(()),
    }
}

fn check_networks((port, interface): (usize, usize), one: &InterfaceSettings) -> Result<(), NoGateway> {
    for (place, network) in one.networks.iter().enumerate() {
        let at = At::Address(port, interface, place);
        check_own(network).map_err(|why| wrong(at, why.to_string()))?;
        if one.networks[..place].iter().any(|before| before.address == network.address) {
            return Err(wrong(at, format!("{} stands there twice: leave one out", network.address)));
        }
    }
    for (place, proxy) in one.proxies.iter().enumerate() {
        let most = if proxy.address.is_ipv4() { 32 } else { 128 };
        if proxy.bits > most {
            let why = Error::Prefix { address: proxy.address, bits: proxy.bits };
            return Err(wrong(At::Proxy(port, interface, place), why.to_string()));
        }
    }
    let is_of_link = |address: IpAddr| matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
    match &one.advertises {
        Some(_) if !one.networks.iter().any(|network| is_of_link(network.address)) => {
            let why = Error::Advertises { interface: one.name.clone() };
            Err(wrong(At::Interface(port, interface), why.to_string()))
        }
        _ => Ok(()),
    }
}
