//! Obstacles to a program of lanes on this machine, found before it is started.

use super::Found;
use crate::error::Error;
use crate::lanes::Lanes;
use crate::lanes::builder::Served;
use crate::lanes::claims::claim_places;
use crate::lanes::driver::choose;
use crate::lanes::frames::{Port, refuse_lanes_without_queue, refuse_shared_addresses};
use crate::lanes::needs;
use crate::lanes::plan::fit_memory;
use crate::lanes::receiving;
use corelane_machine::interfaces::list;
use corelane_os::{memory, rights};
use corelane_select::Means;
use corelane_steer::{LanePlan, Steering};

pub(super) fn settings(lanes: &Lanes) -> Found {
    match lanes.check().and_then(|_| lanes.plan()) {
        Ok(_) if !lanes.notes.is_empty() => {
            Found::degraded(lanes.notes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        }
        Ok((_, plan)) => Found::fine(format!("{} services on {} lanes", lanes.services.len(), plan.lanes.len())),
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
    let alone = |service: &Served| claim_places(&Lanes { services: vec![service.clone()], ..lanes.clone() }, &mut None).err();
    let mut wrong: Vec<Error> = lanes.services.iter().filter_map(alone).collect();
    if wrong.is_empty() {
        wrong.extend(claim_places(lanes, &mut None).err());
    }
    match wrong.is_empty() {
        true => Found::fine("all can be served at"),
        false => Found::missing(wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
    }
}

pub(super) fn interface(lanes: &Lanes) -> Found {
    if lanes.wires.is_empty() {
        return Found::fine("no frames are asked for");
    }
    let links = match list() {
        Ok(links) => links,
        Err(error) => return Found::missing(error.to_string()),
    };
    let in_the_way = lanes.wires.ports().filter_map(|port| match links.iter().find(|link| link.name == port.device) {
        None if port.is_tap => None,
        None => Some(format!("there is no interface {} in this namespace", port.device)),
        Some(link) if !link.up => Some(format!("{0} is down: ip link set {0} up", port.device)),
        Some(_) => None,
    });
    let in_the_way: Vec<String> = in_the_way.collect();
    if !in_the_way.is_empty() {
        return Found::missing(in_the_way.join("; "));
    }
    let new = |port: &Port| port.is_tap && !links.iter().any(|link| link.name == port.device);
    if lanes.wires.ports().all(new) {
        return Found::fine("a tap is made when the program starts");
    }
    let count = lanes.plan().map_or(1, |(_, plan)| plan.lanes.len());
    let tried = refuse_shared_addresses(&lanes.wires).and_then(|()| refuse_lanes_without_queue(&lanes.wires, count));
    Found::tried("each is there with a queue for each lane, and the kernel has none of the addresses", tried)
}

pub(super) fn receive_threads(lanes: &Lanes) -> Found {
    match lanes.receiving.is_nothing() {
        true => Found::fine("none is asked for"),
        false => Found::tried("the kernel can receive there in threads", receiving::check_interfaces(&lanes.receiving)),
    }
}

pub(super) fn descriptors(lanes: &Lanes) -> Found {
    let Ok((_, plan)) = lanes.plan() else { return Found::fine("there is no plan yet") };
    needs::descriptors(lanes, plan.lanes.len()).map_or_else(Found::degraded, Found::fine)
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

pub(super) fn pages(lanes: &Lanes) -> Found {
    let Ok((_, plan)) = lanes.plan() else { return Found::fine("there is no plan yet") };
    match needs::pages(lanes, plan.lanes.len()) {
        Ok(lacks) if lacks.is_empty() => Found::fine("the pages that are asked for can be had"),
        Ok(lacks) => Found::degraded(lacks.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
        Err(error) => Found::missing(error.to_string()),
    }
}

pub(super) fn plan(lanes: &Lanes) -> Found {
    let warnings = |plan: &LanePlan| plan.warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    match lanes.plan().map(|(_, plan)| warnings(&plan)) {
        Ok(words) if words.is_empty() => Found::fine("nothing stands in its way"),
        Ok(words) => Found::degraded(words),
        Err(error) => Found::missing(error.to_string()),
    }
}
