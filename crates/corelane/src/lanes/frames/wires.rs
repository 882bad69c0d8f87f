//! All that lanes have of frames: the ports of a gateway, and those of `--packet`, which are one list from here on.

use super::gateway::{Gateway, Port, numbered};
use super::text::PacketPort;
use crate::error::Error;
use corelane_isr::polling;
use corelane_rss::{FlowHasher, Table};
use corelane_stack::{Route, Settings};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

/// The ports of a program of lanes, with what its stacks are told. Those of the gateway stand first, so its interfaces have their numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wires {
    gateways: Vec<Gateway>,
    packets: Vec<PacketPort>,
}

impl Wires {
    /// With one more port.
    pub fn add(&mut self, port: PacketPort) {
        self.packets.push(port);
    }

    /// With a gateway; a second one is refused when all is looked at.
    pub fn add_gateway(&mut self, gateway: Gateway) {
        self.gateways.push(gateway);
    }

    /// The setting by which there are ports.
    pub fn asked_by(&self) -> &'static str {
        if self.gateways.is_empty() { "packet" } else { "gateway" }
    }

    /// Whether lanes have no frames.
    pub fn is_empty(&self) -> bool {
        self.ports().next().is_none()
    }

    /// The ports, in the order of their numbers.
    pub fn ports(&self) -> impl Iterator<Item = &Port> {
        self.gateways.iter().flat_map(|gateway| &gateway.ports).chain(self.packets.iter().map(PacketPort::port))
    }

    /// The names of the kernel's interfaces.
    pub fn devices(&self) -> impl Iterator<Item = &str> {
        self.ports().map(|port| &*port.device)
    }

    /// Those that lanes poll.
    pub fn polled(&self) -> impl Iterator<Item = &str> {
        self.ports().filter(|port| port.polls).map(|port| &*port.device)
    }

    /// The interface at which an address is the lanes'.
    pub fn device_of(&self, address: IpAddr) -> Option<&str> {
        self.ports().find(|port| port.addresses().any(|own| own == address)).map(|port| &*port.device)
    }

    /// The lanes' addresses.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.ports().flat_map(Port::addresses)
    }

    /// Where other processes may take packets.
    pub fn channels(&self) -> Option<&Path> {
        self.packets.iter().find_map(PacketPort::channels)
    }

    /// Whether all of it can be together, as far as that is no question of the machine.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub fn check(&self) -> Result<(), Error> {
        if self.gateways.len() > 1 {
            return Err(refused("gateway", "there are two: put all ports into one"));
        }
        for gateway in &self.gateways {
            gateway.check().map_err(|why| refused("gateway", why))?;
        }
        let devices: Vec<&str> = self.devices().collect();
        if let Some((_, twice)) = devices.iter().enumerate().find(|(place, name)| devices[..*place].contains(name)) {
            return Err(refused("packet", format_args!("{twice} is named twice: put its addresses behind one name")));
        }
        if self.packets.iter().filter_map(PacketPort::channels).count() > 1 {
            return Err(refused("packet", "channels= stands there twice: packets of all ports are offered at one"));
        }
        if self.packets.iter().filter_map(PacketPort::fragments).count() > 1 {
            return Err(refused("packet", "fragments= stands there twice: fragments of all ports wait within one bound"));
        }
        self.polling(0).map(drop)
    }

    /// The part of a lane's time that packets may have, where nobody has set another user fraction than this; none if no port polls.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub fn polling(&self, user_fraction: u8) -> Result<Option<polling::Settings>, Error> {
        let mut settings = polling::Settings::DEFAULT;
        settings.knobs.user_frac = user_fraction.into();
        let knobs =
            self.gateways.iter().flat_map(|gateway| &gateway.polling).chain(self.packets.iter().flat_map(PacketPort::knobs));
        for knob in knobs {
            settings.change(*knob).map_err(|why| refused("packet", why))?;
        }
        Ok(self.polled().next().map(|_| settings))
    }

    /// The gateway, if there is one.
    pub fn gateway(&self) -> Option<&Gateway> {
        self.gateways.first()
    }

    /// The file for what is counted of the gateway over time.
    pub fn graphs(&self) -> Option<&Path> {
        self.gateway()?.graphs.as_deref()
    }

    /// Each port of the gateway in words, for whoever starts it.
    pub fn described(&self) -> Vec<String> {
        self.gateways.iter().flat_map(|gateway| gateway.ports.iter().map(Port::described)).collect()
    }

    /// The names of the interfaces, in the order of their numbers.
    pub fn interfaces(&self) -> Vec<String> {
        self.ports().flat_map(|port| &port.interfaces).map(|one| one.name.to_string()).collect()
    }

    /// The settings of a lane's stack, but for the rules.
    pub fn settings(&self, hasher: &Arc<FlowHasher>, table: &Table, lane: (usize, usize), secret: u128) -> Settings {
        let mut settings = Settings::new(hasher.clone(), table.clone(), lane, secret);
        settings.interfaces = numbered(self.ports());
        settings.routes = self.routes();
        settings.fragments_each = self.packets.iter().find_map(PacketPort::fragments);
        settings.nat = self.gateways.first().and_then(|gateway| gateway.nat.clone());
        self.packets
            .iter()
            .flat_map(PacketPort::tunnels)
            .fold(settings, |own, (tunnel, peer, bits)| own.with_tunnel(*tunnel, *peer, *bits))
    }

    fn routes(&self) -> Vec<Route> {
        let written = self.packets.iter().flat_map(PacketPort::routes);
        self.gateways.iter().flat_map(|gateway| gateway.routes.iter().copied()).chain(written).collect()
    }
}

pub(crate) fn refused(name: &'static str, why: impl ToString) -> Error {
    Error::Setting { name, why: why.to_string() }
}
