//! A program of lanes before anything of it runs: what is claimed for it, and what is planned.

use crate::error::Error;
use crate::lanes::builder::Lanes;
use crate::lanes::claims::claim_places;
use crate::lanes::driver::{ChosenDriver, choose};
use crate::lanes::place::Place;
use crate::lanes::take_over::Taken;
use crate::lanes::{frames, needs, others, plan};
use corelane_lane::LaneSettings;
use corelane_os::named::NamedSocket;
use corelane_os::runner::raise_descriptor_limit;
use corelane_seam::Record;
use corelane_steer::{LanePlan, Topology};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// What is claimed for lanes, and planned of them.
pub(super) struct Prepared {
    pub(super) places: Vec<Place>,
    /// The Unix sockets that are among them.
    pub(super) names: Vec<NamedSocket>,
    /// Listeners that were handed over and are no service's.
    pub(super) listeners: Vec<(SocketAddr, OwnedFd)>,
    pub(super) planned: (Topology, LanePlan),
    /// The CPU of each lane.
    pub(super) cpus: Vec<Option<usize>>,
    pub(super) driver: ChosenDriver,
    pub(super) settings: LaneSettings,
    /// Descriptors that the process may have open.
    pub(super) descriptors: u64,
    /// What the program has to do without, so far.
    pub(super) notes: Vec<Record>,
}

impl Prepared {
    /// Claims and plans what these lanes need; of what is taken over, its sockets are used.
    ///
    /// # Errors
    /// What is refused, or cannot be had.
    pub(super) fn of(lanes: &Lanes, taken: &mut Option<Taken>) -> Result<Self, Error> {
        if lanes.services.is_empty() && lanes.wires.is_empty() {
            return Err(Error::Setting { name: "services", why: "there is none to run: add one".to_string() });
        }
        let descriptors = raise_descriptor_limit();
        needs::refuse(lanes)?;
        let mut driver = choose(lanes.driver)?;
        let mut listeners =
            others::of_manager(lanes).map_err(|error| Error::System { what: "taking what was handed over", error })?;
        listeners.extend(taken.as_mut().map(Taken::take_listeners).unwrap_or_default());
        frames::refuse_shared_addresses(&lanes.wires)?;
        let (places, names) = claim_places(lanes, taken)?;
        let planned = planned(lanes, &places)?;
        let cpus: Vec<Option<usize>> = planned.1.lanes.iter().map(|lane| Some(lane.cpu.number)).collect();
        let mut settings = lanes.settings;
        let mut notes: Vec<Record> =
            driver.note.take().into_iter().chain(plan::notes_of(&planned.1, lanes.memory_is_asked, &mut settings)).collect();
        plan::check_limits(lanes, settings.memory_bytes)?;
        notes.extend(needs::notes(lanes, cpus.len()));
        Ok(Self { places, names, listeners, planned, cpus, driver, settings, descriptors, notes })
    }
}

fn planned(lanes: &Lanes, places: &[Place]) -> Result<(Topology, LanePlan), Error> {
    let served_at: Vec<_> = places.iter().map(|place| (place.transport, place.address.clone())).collect();
    plan::of(lanes, &served_at)
}
