//! The needs of settings, beside places: files that can be read, and descriptors. One rule for a start, for those who only want to know, and for
//! who has the settings read again.

use crate::admin::messages::Degraded;
use crate::error::Error;
use crate::lanes::bridges;
use crate::lanes::builder::{Lanes, Served};
use crate::lanes::choice::Use;
use crate::lanes::claims::refuse_written_twice;
use crate::lanes::driver::{self, choose};
use crate::lanes::frames::refuse_lanes_without_queue;
use crate::lanes::place::Place;
use crate::lanes::plan;
use crate::lanes::receiving;
use corelane_machine::interfaces;
use corelane_os::memory;
use corelane_os::rights::{self, Unreadable};
use corelane_rss::Transport;
use corelane_seam::Record;
use corelane_select::Means;
use corelane_steer::Steering;
use corelane_svc::Limits;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

impl Lanes {
    /// Whether all that was set is right, and this user may read what is to be served: what [`Lanes::start`] asks first. Nothing is started or taken, no name is
    /// looked up. Returns what the operator should know.
    ///
    /// # Errors
    /// What [`Lanes::start`] would refuse them for; whether an address is free shows only there.
    pub fn check(&self) -> Result<Vec<Record>, Error> {
        refuse(self)?;
        // A confined program may not look at the machine any more.
        let lanes = plan::of(self, &[]).map_or(1, |(_, plan)| plan.lanes.len());
        Ok(notes(self, lanes))
    }

    /// Whether the driver and the steering that were asked for by name can be had here, each of which is tried, and the pages of lanes' memory; and whether the interface of frames has the queues, and those of receiving threads can be had. Returns what lanes do without.
    ///
    /// # Errors
    /// [`Error::Driver`], [`Error::Setting`].
    pub fn check_means(&self) -> Result<Vec<Record>, Error> {
        let (_, plan) = plan::of(self, &[])?;
        let has_flows = |service: &Served| service.url.as_ref().is_some_and(|url| !url.is_unix());
        let means = match self.steering.steering {
            // One lane has all flows.
            _ if plan.lanes.len() == 1 || !self.services.iter().any(has_flows) => None,
            Steering::Program => Some(Means::Program),
            Steering::Classic => Some(Means::Classic),
            _ => None,
        };
        let refused = |why: corelane_select::Error| Error::Setting { name: "steering", why: why.to_string() };
        means.map_or(Ok(()), |means| corelane_select::probe(means).map_err(refused))?;
        refuse_lanes_without_queue(&self.wires, plan.lanes.len())?;
        receiving::check_interfaces(&self.receiving)?;
        let pages = pages(self, plan.lanes.len())?;
        Ok(choose(self.driver)?.note.into_iter().chain(pages).chain(bridges::note(self)).collect())
    }

    /// Has this told at the start, and by [`Lanes::check`]: what was found while the settings were read.
    pub fn note(mut self, note: Record) -> Self {
        self.notes.push(note);
        self
    }
}

/// Refuses what no lanes can be made of.
pub(crate) fn refuse(lanes: &Lanes) -> Result<(), Error> {
    plan::check(lanes)?;
    driver::check(&lanes.driver_settings)?;
    lanes.wires.check()?;
    if lanes.take_over.is_some() && !lanes.wires.is_empty() {
        let why = "ports (--packet, gateway) cannot be taken over, for an interface has one program at a time: end the other process, and start this one \
                   without it; packets that come between are lost";
        return Err(Error::Setting { name: "take-over", why: why.to_owned() });
    }
    receiving::check(&lanes.receiving, &lanes.wires)?;
    refuse_written_twice(&lanes.services)?;
    for served in &lanes.services {
        served.declared.iter().flat_map(|declared| declared.chosen.uses()).try_for_each(|path| readable(&served.name, path))?;
    }
    Ok(())
}

/// Whether the memory of so many lanes can have the pages that were asked for: what is told of those that lack.
///
/// # Errors
/// [`Error::Setting`] where pages that are required lack.
pub(crate) fn pages(lanes: &Lanes, count: usize) -> Result<Vec<Record>, Error> {
    let mut bytes = lanes.settings.memory_bytes;
    plan::fit_memory(lanes.memory_is_asked, count, &mut bytes, memory::group_limit());
    lanes.pages.check(bytes, count)
}

/// A file that cannot be read now would be refused to every client later, without a word here.
fn readable(service: &str, path: &Use) -> Result<(), Error> {
    let Use::Read(path) = path else { return Ok(()) };
    let remedy = |path: &Path, what: &str| {
        format!(
            "{}: this user may not {what}: let it (chmod, chown), also where it lies, or serve as another user (--user)",
            path.display()
        )
    };
    let why = match rights::may_read(path) {
        Ok(()) => return Ok(()),
        Err(Unreadable::Directory) => remedy(path, "list this directory and go into it"),
        Err(Unreadable::File) => remedy(path, "read it"),
        Err(Unreadable::Gone(error)) => format!("{}: {error}", path.display()),
    };
    Err(Error::Unreadable { service: service.to_owned(), why })
}

/// Remarks on lanes that are right, so many.
pub(crate) fn notes(lanes: &Lanes, count: usize) -> Vec<Record> {
    let descriptors = descriptors(lanes, count).err().map(|words| Degraded::FewerDescriptors.note(words));
    lanes.notes.iter().cloned().chain(descriptors).chain(not_over_frames(lanes)).collect()
}

/// A service at all addresses of a family is the kernel's: at the lanes' own, which it must not have, nobody serves it. A line for each such place.
fn not_over_frames(lanes: &Lanes) -> impl Iterator<Item = Record> {
    let urls = || lanes.services.iter().filter_map(|served| served.url.as_ref()).filter(|url| url.transport() == Transport::Udp);
    let all = urls().filter_map(|url| Some((url, url.literal().filter(IpAddr::is_unspecified)?)));
    all.filter_map(move |(url, all)| {
        let is_meant = |own: &IpAddr| own.is_ipv4() == all.is_ipv4() || (all.is_ipv6() && !lanes.v6_only);
        let is_served = |own: IpAddr| urls().any(|other| other.port() == url.port() && other.literal() == Some(own));
        let missing: Vec<String> = lanes
            .wires
            .addresses()
            .filter(|own| is_meant(own) && !is_served(*own))
            .map(|own| url.at(&SocketAddr::new(own, url.port().unwrap_or_default()).into()).to_string())
            .collect();
        (!missing.is_empty()).then(|| {
            Degraded::NotOverFrames.note(format_args!(
                "{url} is served at the kernel's addresses alone, and not over the frames of {}: name these as well: {}",
                lanes.wires.devices().collect::<Vec<_>>().join(", "),
                missing.join(", ")
            ))
        })
    })
}

/// The remark on these places: at loopback that is down nobody is reached.
pub(crate) fn note_of_loopback(places: &[Place]) -> Option<Record> {
    let place = places.iter().find(|place| place.address.ip().is_some_and(|ip| ip.to_canonical().is_loopback()))?;
    let is_down = interfaces::list().is_ok_and(|links| links.iter().any(|link| link.loopback && !link.up));
    is_down.then(|| {
        Degraded::LoopbackDown.note(format_args!("loopback is down, so nobody reaches {}: remedy: ip link set lo up", place.url))
    })
}

/// Descriptors that a lane has for other things than connections and datagram sockets of services' own.
const DESCRIPTORS_BESIDE: u64 = 64;

/// Connections that a service should be able to have where nobody has said how many: a limit that nobody has set asks for no more.
const CONNECTIONS_DUE: u64 = 1024;

/// Whether there are descriptors for as many connections, and datagram sockets of services' own, as the limits allow: in words, both ways.
pub(crate) fn descriptors(lanes: &Lanes, count: usize) -> Result<String, String> {
    let asked: u64 = lanes.services.iter().filter(|service| service.over_connections).map(connections).sum();
    let sockets: u64 = lanes.services.iter().filter(|service| !service.over_connections).map(sockets).sum();
    let each_lane = asked.min(u64::from(lanes.lane_connections_max())) + sockets + DESCRIPTORS_BESIDE;
    let (wanted, whose) = if lanes.own_descriptors { (each_lane, "a lane") } else { (each_lane * count as u64, "the process") };
    let most = rights::descriptors_max();
    let (of, lower) = match sockets {
        0 => ("connections", "connections_max"),
        _ => ("connections and datagram sockets", "connections_max or datagram_sockets_max"),
    };
    let words = format!("{whose} may have {most} descriptors, and its limits of {of} ask for {wanted}");
    let remedy = format!("remedy: a higher limit of descriptors (LimitNOFILE= of a unit, ulimit -Hn), or a lower {lower}");
    if most >= wanted { Ok(words) } else { Err(format!("{words}: {remedy}")) }
}

fn connections(service: &Served) -> u64 {
    let (set, usual) = (service.limits.connections_max, Limits::default().connections_max);
    if set == usual { CONNECTIONS_DUE } else { u64::from(set) }
}

/// Datagram sockets that a service opens itself. One that does not say that it opens some is taken for one that opens none, unless somebody has said how many it may have.
fn sockets(service: &Served) -> u64 {
    let (set, usual) = (service.limits.datagram_sockets_max, Limits::default().datagram_sockets_max);
    if service.opens_sockets || set != usual { u64::from(set) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cx, DatagramService, Datagrams, Replies, Silent};

    struct Deaf;

    impl DatagramService for Deaf {
        type Talk = Silent;

        fn receive(&mut self, _: &mut Cx<'_>, _: &Datagrams, _: &mut Replies) {}
    }

    #[test]
    fn sockets_that_a_service_may_open_are_asked_for() {
        let of = |limits: Limits| {
            let lanes = Lanes::per_core().lanes(1).limits(limits).serve_datagrams("udp://127.0.0.1:0", |_| Deaf).unwrap();
            descriptors(&lanes, 1)
        };
        let (asked, none) = (of(Limits::new().datagram_sockets_max(u32::MAX)), of(Limits::new()));
        let words =
            format!("its limits of connections and datagram sockets ask for {}: ", DESCRIPTORS_BESIDE + u64::from(u32::MAX));
        assert!(
            asked.as_ref().is_err_and(|said| said.contains(&words) && said.ends_with("or datagram_sockets_max")),
            "{asked:?}"
        );
        assert!(
            none.as_ref().is_ok_and(|said| said.ends_with(&format!("its limits of connections ask for {DESCRIPTORS_BESIDE}"))),
            "{none:?}"
        );
    }

    struct Opens;

    impl DatagramService for Opens {
        type Talk = Silent;

        const OPENS_SOCKETS: bool = true;

        fn receive(&mut self, _: &mut Cx<'_>, _: &Datagrams, _: &mut Replies) {}
    }

    #[test]
    fn a_service_that_opens_sockets_has_them_asked_for_also_at_the_usual_limit() {
        let usual = Limits::default().datagram_sockets_max;
        for limits in [Limits::new(), Limits::new().datagram_sockets_max(usual), Limits::new().datagram_sockets_max(usual + 1)] {
            let lanes = Lanes::per_core().lanes(1).limits(limits).serve_datagrams("udp://127.0.0.1:0", |_| Opens).unwrap();
            let asked = DESCRIPTORS_BESIDE + u64::from(limits.datagram_sockets_max);
            let said = descriptors(&lanes, 1).unwrap_or_else(|short| short);
            assert!(said.contains(&format!("its limits of connections and datagram sockets ask for {asked}")), "{said}");
        }
    }
}
