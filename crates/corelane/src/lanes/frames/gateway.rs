//! A gateway as plain data: its ports with their networks, routes, rules and translation. A file that is read becomes one, and any program may make one.

mod check;

pub(crate) use check::numbered;

pub use check::{At, NoGateway};

use corelane_isr::polling;
use corelane_rules::language::Keep;
use corelane_rules::{Execution, Limits, Rules};
use corelane_stack::{InterfaceSettings, NatSettings, Network, ReversePath, Route, Tags};
use corelane_xdp::Ours;
use std::net::IpAddr;
use std::path::PathBuf;

/// A gateway as it is to be: lanes have all frames of its ports, and send on what is for others.
///
/// ```
/// use corelane::lanes::gateway::{Gateway, Port, Tags};
///
/// let inside = Port::of("eth1").with_vlan(Tags::One(10)).with_address([10, 0, 10, 1].into(), 24);
/// let outside = Port::of("eth2").with_address([192, 0, 2, 2].into(), 24);
/// let mut gateway = Gateway::of(vec![inside, outside]);
/// gateway.add_route([0; 4].into(), 0, [192, 0, 2, 1].into());
/// gateway.check()?;
/// let lanes = corelane::Lanes::per_core().gateway(gateway);
/// # drop(lanes); Ok::<(), corelane::lanes::gateway::NoGateway>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Gateway {
    /// Its ports, each of another interface of the kernel's.
    pub ports: Vec<Port>,
    /// Ways to networks that are not at its ports.
    pub routes: Vec<Route>,
    /// The number of a table of the kernel's whose routes it has beside them, as they change (254 is `main`); of the network namespace in which lanes are started.
    pub follow: Option<u32>,
    /// Its rules; without any all packets go on.
    pub rules: Rules,
    /// How rules are carried out.
    pub execution: Execution,
    /// The ports' programs forward by themselves what needs no lane, where they can carry out the rules. Default: true.
    pub offloads: bool,
    /// Whose addresses are translated, by the numbers of the outside interfaces; none: nobody's. Its own sockets must not use the ports that are given to inside hosts.
    pub nat: Option<NatSettings>,
    /// The settings of polling where ports poll, in this order; each lane has one controller for all of its ports.
    pub polling: Vec<polling::Change>,
    /// A file for what is counted over time. Lanes write nothing: whoever runs them may ([`LiveGateway::graphs`](crate::lanes::LiveGateway::graphs)).
    pub graphs: Option<PathBuf>,
}

/// A port: an interface of the kernel's, or a tap, of whose frames lanes have all.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Port {
    /// The name of the kernel's interface, or of the tap.
    pub device: String,
    /// It is a tap, at whose other end lanes are.
    pub is_tap: bool,
    /// Lanes take its packets in by themselves (AF_XDP, Linux 6.13).
    pub polls: bool,
    /// Frames of 2 KiB for each lane, 256 to 65,536; none: 4,096, or as many as may be locked.
    pub frames: Option<usize>,
    /// That without tags, which is the first, and the VLANs behind it. [`InterfaceSettings::port`] and [`InterfaceSettings::device`] are not looked at: they follow from the port's place.
    pub interfaces: Vec<InterfaceSettings>,
}

/// Networks of a port that are shown.
const SHOWN: usize = 8;

impl Gateway {
    /// A gateway with these ports, without routes, and with rules that let all go on.
    pub fn of(ports: Vec<Port>) -> Self {
        let rules = Rules::new(true, Limits::default());
        Self {
            ports,
            routes: Vec::new(),
            follow: None,
            rules,
            execution: Execution::default(),
            offloads: true,
            nat: None,
            polling: Vec::new(),
            graphs: None,
        }
    }

    /// Adds a route: the network of an address and so many bits is reached by a router beside one of the gateway's own addresses.
    pub fn add_route(&mut self, destination: IpAddr, bits: u8, router: IpAddr) {
        self.routes.push(Route { destination, bits, router, interface: None });
    }

    /// Its interfaces, in the order of their numbers, from 0: port by port, in each that without tags and then its VLANs.
    pub fn interfaces(&self) -> impl Iterator<Item = &InterfaceSettings> {
        self.ports.iter().flat_map(|port| &port.interfaces)
    }

    /// A remark on `limit` where there are so many lanes; none where each flow that counts comes to one lane.
    pub(crate) fn limits_of_each_lane(&self, lanes: usize) -> Option<String> {
        let mut limits = self.rules.all().filter_map(|(_, number, rule)| match rule.keep {
            Some(Keep::Limit(_, most)) => Some((number, most)),
            _ => None,
        });
        let (number, most) = limits.next().filter(|_| lanes > 1)?;
        let more = limits.next().map_or("", |_| "; other rules likewise");
        Some(format!(
            "gateway: rule {number} lets up to {lanes} x {most} flows pass, because each of {lanes} lanes counts by itself{more}"
        ))
    }

    /// The number of the interface of this name.
    pub fn interface(&self, name: &str) -> Option<usize> {
        self.interfaces().position(|one| &*one.name == name)
    }
}

impl Port {
    /// All frames of an interface, which forwards what is for others from whom a way leads back (RFC 3704). It has no address so far.
    pub fn of(device: &str) -> Self {
        let mut port = Self { device: device.to_owned(), is_tap: false, polls: false, frames: None, interfaces: Vec::new() };
        port.interfaces.push(forwarding(device, Tags::None));
        port
    }

    /// The same of a tap, which is made if it is not there.
    pub fn of_tap(name: &str) -> Self {
        Self { is_tap: true, ..Self::of(name) }
    }

    /// With one more VLAN, which forwards as well; it is called after the port and its tags, such as `eth1.10`.
    pub fn with_vlan(mut self, tags: Tags) -> Self {
        self.interfaces.push(forwarding(&format!("{}.{tags}", self.device), tags));
        self
    }

    /// With one more address of the last interface, and the bits of its network.
    pub fn with_address(mut self, address: IpAddr, bits: u8) -> Self {
        self.interfaces.iter_mut().last().into_iter().for_each(|last| last.networks.push(Network { address, bits }));
        self
    }

    /// The lanes' addresses at it.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.networks().map(|network| network.address)
    }

    pub(crate) fn networks(&self) -> impl Iterator<Item = &Network> {
        self.interfaces.iter().flat_map(|one| &one.networks)
    }

    /// The port with its networks, a few of them by name and address.
    pub(crate) fn described(&self) -> String {
        let own = |one: &InterfaceSettings| {
            let addresses: Vec<String> = one.networks.iter().map(|own| format!("{}/{}", own.address, own.bits)).collect();
            format!("{} {}", one.name, addresses.join(" "))
        };
        let with_addresses = || self.interfaces.iter().filter(|one| !one.networks.is_empty());
        let (shown, all) = (with_addresses().take(SHOWN).map(own).collect::<Vec<_>>().join(", "), with_addresses().count());
        let more = if all > SHOWN { format!(", and {} more", all - SHOWN) } else { String::new() };
        format!("port {}: {shown}{more}", self.device)
    }

    /// The interface's packets that lanes have.
    pub(crate) fn ours(&self) -> Ours {
        let needs_all = |one: &InterfaceSettings| {
            one.tags != Tags::None || one.forwards || !one.proxies.is_empty() || one.advertises.is_some() || !one.relay.is_empty()
        };
        if self.interfaces.iter().any(needs_all) { Ours::All } else { Ours::Addresses(self.addresses().collect()) }
    }
}

/// An interface that forwards as gateways do: from those to whom a way leads back.
fn forwarding(name: &str, tags: Tags) -> InterfaceSettings {
    let mut made = InterfaceSettings::default();
    (made.name, made.tags) = (name.into(), tags);
    (made.forwards, made.reverse_path) = (true, ReversePath::Strict);
    made
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_rules::language::command;

    #[test]
    fn limits_are_told_where_there_are_several_lanes() {
        let add = |gateway: &mut Gateway, text: &str| gateway.rules.apply_all([command(text, 1).unwrap()]).map(drop).unwrap();
        let mut gateway = Gateway::of(Vec::new());
        add(&mut gateway, "add 100 allow tcp from any to any keep-state");
        let told = |gateway: &Gateway, lanes| gateway.limits_of_each_lane(lanes);
        assert_eq!(told(&gateway, 2), None);
        add(&mut gateway, "add 200 allow tcp from any to me limit src-addr 4");
        assert_eq!(told(&gateway, 1), None);
        assert!(
            told(&gateway, 3)
                .unwrap()
                .ends_with("rule 200 lets up to 3 x 4 flows pass, because each of 3 lanes counts by itself")
        );
        add(&mut gateway, "add 300 allow udp from any to me limit dst-port 9");
        assert!(
            told(&gateway, 3).unwrap().ends_with(
                "rule 200 lets up to 3 x 4 flows pass, because each of 3 lanes counts by itself; other rules likewise"
            )
        );
    }
}
