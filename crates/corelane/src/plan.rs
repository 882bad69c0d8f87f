//! Which lanes a program has, and on which CPUs: what was set, the machine, and a plan of both.

use crate::error::Error;
use crate::lanes::Lanes;
use corelane_steer::{Plan, Topology, Wish, plan};
use corelane_sys::claim::Transport;
use corelane_sys::cpus;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// How many lanes [`Lanes::per_core`] makes: one for each CPU that affinity allows, no more than the control group pays for.
///
/// # Errors
/// What the system says of the affinity.
pub fn lanes_for_this_machine() -> Result<usize, Error> {
    Ok(Topology::read(&[]).map_err(affinity)?.lanes_by_default())
}

fn affinity(error: io::Error) -> Error {
    Error::System { what: "asking for the CPUs of this process", error }
}

/// Refuses what no plan can be made of.
pub(crate) fn check(lanes: &Lanes) -> Result<(), Error> {
    if let Some(asked) = &lanes.cpus {
        check_cpus(asked, &cpus::allowed().map_err(affinity)?)?;
    }
    for served in &lanes.services {
        served.limits.check(lanes.settings.memory_bytes).map_err(|why| Error::Setting { name: "limits", why })?;
    }
    let most = corelane_watch::LANES_MAX;
    match lanes.lanes {
        Some(count) if !(1..=most).contains(&count) => {
            let why = format!("{count} is not a number of lanes: use 1 to {most}");
            Err(Error::Setting { name: "lanes", why })
        }
        _ => Ok(()),
    }
}

fn check_cpus(asked: &[usize], allowed: &[usize]) -> Result<(), Error> {
    let why = match asked.iter().find(|cpu| !allowed.contains(cpu)) {
        None if asked.is_empty() => "the list is empty: name at least one".to_string(),
        None => return Ok(()),
        Some(cpu) => {
            format!("CPU {cpu} is not among those that this process may use ({allowed:?}): name others, or widen its affinity")
        }
    };
    Err(Error::Setting { name: "cpus", why })
}

/// The plan for lanes that [`check`] has passed, which serve these addresses.
pub(crate) fn of(lanes: &Lanes, places: &[(Transport, SocketAddr)]) -> Result<(Topology, Plan), Error> {
    let addresses: Vec<IpAddr> = places.iter().map(|(_, address)| address.ip()).collect();
    let topology = Topology::read(&addresses).map_err(affinity)?;
    let serves = |transport| places.iter().any(|(served, _)| *served == transport);
    let wish = Wish { lanes: lanes.lanes, cpus: lanes.cpus.clone(), tcp: serves(Transport::Tcp), udp: serves(Transport::Udp) };
    let plan = plan(&topology, &wish);
    if !places.is_empty() {
        lanes.steering.table(plan.lanes.len())?;
    }
    Ok((topology, plan))
}

impl Lanes {
    /// What [`Lanes::start`] would do: the machine as it was found, and the lanes on it. Nothing is started or taken.
    ///
    /// # Errors
    /// [`Error::Setting`], [`Error::Host`], or what the system says of the affinity.
    pub fn plan(&self) -> Result<(Topology, Plan), Error> {
        check(self)?;
        let mut places = Vec::new();
        for url in self.services.iter().filter_map(|service| service.url.as_ref()) {
            places.extend(url.resolve()?.into_iter().map(|address| (url.transport(), address)));
        }
        of(self, &places)
    }
}
