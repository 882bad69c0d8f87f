//! Routes.

use crate::keys::{Keys, Wrong, parsed, text, wrong};
use crate::ports::network_of;
use crate::spots::Spots;
use corelane::lanes::gateway::{Gateway, Network, Route};
use corelane::service::did_you_mean;
use std::net::IpAddr;

/// All routes; interfaces are named as the gateway has them.
pub fn read(keys: &mut Keys<'_>, gateway: &Gateway, spots: &mut Spots) -> Result<Vec<Route>, Wrong> {
    let mut routes = Vec::new();
    for mut own in keys.tables("route", "a route")? {
        spots.routes.push(own.at());
        let via = own.must("via", "\"192.0.2.1\"")?;
        let router: IpAddr = parsed(via, "the address of a router, such as \"192.0.2.1\"", |text| text.parse().ok())?;
        let to = own.must("to", "\"default\"")?;
        let all = if router.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
        let read = |text: &str| if text == "default" { Some(Network { address: all, bits: 0 }) } else { network_of(text) };
        let Network { address: destination, bits } = parsed(to, "a network, such as \"10.20.0.0/16\", or \"default\"", read)?;
        if destination.is_ipv4() != router.is_ipv4() {
            return Err(wrong(via, format!("{router} is of another family than the network: name a router of the same")));
        }
        let interface = own.take("interface").map(|name| interface_of(gateway, name)).transpose()?;
        own.end()?;
        routes.push(Route { destination, bits, router, interface });
    }
    Ok(routes)
}

/// The number of an interface that is named.
pub fn interface_of(gateway: &Gateway, value: &crate::keys::Value<'_>) -> Result<usize, Wrong> {
    let name = text(value, "the name of a network or an interface, such as \"eth1.10\"")?;
    gateway.interface(name).ok_or_else(|| {
        let names: Vec<&str> = gateway.interfaces().map(|one| &*one.name).collect();
        let nearest = did_you_mean(name, names.iter().copied());
        wrong(value, format!("there is no network {name:?}{nearest}: there are {}", names.join(", ")))
    })
}
