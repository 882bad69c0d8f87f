//! What stands in the way of a program of lanes on this machine, found before it is started.

use super::Found;
use crate::error::Error;
use crate::lanes::{Lanes, choose, claim_places, fit_memory, refuse_shared_addresses};
use corelane_machine::interfaces::list;
use corelane_os::{memory, owners, rights};
use corelane_rss::Transport;
use corelane_seam::Reason;
use corelane_select::{Means, holders};
use corelane_steer::{LanePlan, Steering};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub(super) fn settings(lanes: &Lanes) -> Found {
    let plan = lanes.plan().and_then(|(_, plan)| crate::lanes::check_limits(lanes, lanes.settings.memory_bytes).map(|()| plan));
    match plan {
        Ok(plan) => Found::fine(format!("{} services on {} lanes", lanes.services.len(), plan.lanes.len())),
        Err(error) => Found::missing(error.to_string()),
    }
}

pub(super) fn driver(lanes: &Lanes) -> Found {
    match choose(lanes.driver) {
        Ok(chosen) => match chosen.note {
            None => Found::fine(chosen.kind.to_string()),
            Some(note) => Found::degraded(note.to_string()),
        },
        Err(error) => Found::missing(error.to_string()),
    }
}

pub(super) fn steering(lanes: &Lanes) -> Found {
    let tried = |means| Found::tried("it works", corelane_select::probe(means));
    match lanes.steering.steering {
        Steering::Program => tried(Means::Program),
        Steering::Classic => tried(Means::Classic),
        _ => Found::fine("whatever works is used"),
    }
}

/// Each service alone, so that all that is wrong is told; then all together.
pub(super) fn addresses(lanes: &Lanes) -> Found {
    let alone = |service: &crate::lanes::Served| {
        claim_places(&Lanes { services: vec![service.clone()], ..lanes.clone() }, &mut None).err()
    };
    let mut wrong: Vec<Error> = lanes.services.iter().filter_map(alone).collect();
    if wrong.is_empty() {
        wrong.extend(claim_places(lanes, &mut None).err());
    }
    match wrong.is_empty() {
        true => Found::fine("all can be served at"),
        false => Found::missing(wrong.iter().map(|error| error.to_string() + &whose(error)).collect::<Vec<_>>().join("; ")),
    }
}

/// Who has the port that cannot be had.
fn whose(error: &Error) -> String {
    let Error::Listen { url, fault } = error else { return String::new() };
    let url: Option<crate::lanes::Url> = url.parse().ok().filter(|_| fault.reason == Reason::AddressInUse);
    let owner = url.and_then(|url| {
        let address = url.resolve().ok()?.first()?.inet()?;
        owner(url.transport(), address)
    });
    owner.map_or_else(String::new, |owner| format!(" (it is held by {owner})"))
}

/// Who serves there, or at all addresses of this port.
fn owner(transport: Transport, address: SocketAddr) -> Option<owners::Owner> {
    let port = address.port();
    let places = [address.ip(), IpAddr::from(Ipv4Addr::UNSPECIFIED), IpAddr::from(Ipv6Addr::UNSPECIFIED)];
    let found = places.into_iter().filter_map(|ip| holders::holders(transport, SocketAddr::new(ip, port)).ok());
    found.flatten().find_map(|holder| owners::of_socket(holder.inode))
}

pub(super) fn interface(lanes: &Lanes) -> Found {
    let Some(port) = &lanes.packet else { return Found::fine("no frames are asked for") };
    let name = port.interface();
    match list() {
        Ok(links) => match links.iter().find(|link| link.name == name) {
            None if port.is_tap() => Found::fine(format!("{name} is a tap, which is made when the program starts")),
            None => Found::missing(format!("there is no interface {name} in this namespace")),
            Some(link) if !link.up => Found::missing(format!("{name} is down: ip link set {name} up")),
            Some(_) => Found::tried("it is there, and the kernel has none of the addresses", refuse_shared_addresses(port)),
        },
        Err(error) => Found::missing(error.to_string()),
    }
}

/// Descriptors that a lane has for other things than connections.
const DESCRIPTORS_BESIDE: u64 = 64;

pub(super) fn descriptors(lanes: &Lanes) -> Found {
    let Ok((_, plan)) = lanes.plan() else { return Found::fine("there is no plan yet") };
    let served = lanes.services.iter().filter(|service| service.over_connections);
    let asked: u64 = served.map(|service| u64::from(service.limits.connections_max)).sum();
    let each_lane = asked.min(u64::from(lanes.connections_max)) + DESCRIPTORS_BESIDE;
    let (wanted, whose) =
        if lanes.own_descriptors { (each_lane, "a lane") } else { (each_lane * plan.lanes.len() as u64, "the process") };
    let most = rights::descriptors_max();
    let words = format!("{whose} may have {most} descriptors, and its limits of connections ask for {wanted}");
    if most >= wanted { Found::fine(words) } else { Found::degraded(words) }
}

pub(super) fn memory(lanes: &Lanes) -> Found {
    let Ok((_, plan)) = lanes.plan() else { return Found::fine("there is no plan yet") };
    let mut bytes = lanes.settings.memory_bytes;
    if let Some(note) = fit_memory(lanes.memory_is_asked, plan.lanes.len(), &mut bytes, memory::group_limit()) {
        return Found::degraded(note);
    }
    let (wanted, available) = (bytes as u64 * plan.lanes.len() as u64, rights::available_memory().unwrap_or(u64::MAX));
    let words = format!("{} lanes take {} MiB of the {} MiB that are available", plan.lanes.len(), wanted >> 20, available >> 20);
    if wanted <= available { Found::fine(words) } else { Found::missing(words) }
}

pub(super) fn plan(lanes: &Lanes) -> Found {
    let warnings = |plan: &LanePlan| plan.warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    match lanes.plan().map(|(_, plan)| warnings(&plan)) {
        Ok(words) if words.is_empty() => Found::fine("nothing stands in its way"),
        Ok(words) => Found::degraded(words),
        Err(error) => Found::missing(error.to_string()),
    }
}
