//! The equipment of lanes, made before any of them starts: what all have in common, and what each has of its own.

use crate::admin::messages::Degraded;
use crate::error::Error;
use crate::lanes::bridges;
use crate::lanes::builder::Lanes;
use crate::lanes::frames::{self, LaneFrames, Placing};
use crate::lanes::live_gateway::{self, Ruling};
use crate::lanes::page::{LaneRows, make_page, rows_of, tell_of_table};
use crate::lanes::place::Place;
use crate::lanes::prepared::Prepared;
use crate::lanes::take_over::Taken;
use crate::lanes::{handed, needs};
use corelane_drivers::{Crossing, EventBell};
use corelane_lane::{Control, Ear, Tell};
use corelane_steer::{Server, Steered};
use corelane_svc::{Steer, TransportAddress};
use corelane_watch::Page;
use std::sync::Arc;

/// All that the lanes of a program have in common.
pub(super) struct Equipped {
    pub(super) control: Arc<Control>,
    /// Tells the lanes something.
    pub(super) tell: Tell<Steer>,
    pub(super) steered: Arc<Steered>,
    /// The gateway's rules and routes, if lanes are one.
    pub(super) ruling: Option<Arc<Ruling>>,
    /// Where packets come, if lanes have ports.
    pub(super) packets: Option<Arc<Placing>>,
    pub(super) page: Page,
    /// The lanes' doorbells.
    pub(super) bells: Vec<Arc<EventBell>>,
    pub(super) crossing: Arc<Crossing>,
}

/// What one lane has of its own.
pub(super) struct Own {
    pub(super) ear: Ear<Steer>,
    pub(super) rows: LaneRows,
    /// Its port: all lanes have one, or none has.
    pub(super) frames: Option<LaneFrames>,
}

impl Equipped {
    /// Makes the equipment of lanes that are prepared, and what each has of its own, lane by lane. Notes what they do without.
    ///
    /// # Errors
    /// What cannot be had.
    pub(super) fn of(lanes: &Lanes, prepared: &mut Prepared, taken: &mut Option<Taken>) -> Result<(Self, Vec<Own>), Error> {
        let count = prepared.cpus.len();
        let control = Control::new(count);
        let (tell, ears) = control.words();
        let steered = steer(lanes, &server(lanes, &prepared.places, count), taken, tell.clone())?;
        prepared.notes.extend(bridges::note(lanes));
        prepared.notes.extend(steered.note().map(|note| Degraded::Steering.note(note)));
        prepared.notes.extend(handed::note(&prepared.places, count).into_iter().chain(needs::note_of_loopback(&prepared.places)));
        let ruling = live_gateway::ruling(&lanes.wires)?;
        let (ports, packets) = open_ports(lanes, prepared, &control, ruling.as_ref())?;
        let driver = (prepared.driver.kind, &*steered);
        let page = make_page(lanes, &prepared.cpus, driver, &prepared.places, &mut prepared.notes)?;
        tell_of_table(&page, &steered);
        let rows: Vec<LaneRows> = (0..count).map(|lane| rows_of(&page, lane, lanes.services.len())).collect::<Result<_, _>>()?;
        let bells = make_bells(count)?;
        let crossing = Crossing::shared().map_err(|error| Error::Driver(error.to_string()))?;
        Ok((Self { control, tell, steered, ruling, packets, page, bells, crossing }, own_of(ears, rows, ports)))
    }
}

/// Opens the ports of lanes, if they have some; what they are, and where packets come.
fn open_ports(
    lanes: &Lanes,
    prepared: &mut Prepared,
    control: &Arc<Control>,
    ruling: Option<&Arc<Ruling>>,
) -> Result<(Vec<LaneFrames>, Option<Arc<Placing>>), Error> {
    if lanes.wires.is_empty() {
        return Ok((Vec::new(), None));
    }
    let ruled = (&lanes.wires, ruling.map(|ruling| ruling.set()));
    let driver_and_part = (prepared.driver.kind, lanes.receiving.user_fraction());
    let messages = prepared.settings.channel_messages;
    let (ports, placing, told) = frames::open(ruled, control, &lanes.steering, messages, driver_and_part)?;
    prepared.notes.extend(told);
    Ok((ports, Some(Arc::new(placing))))
}

/// What each lane has of its own, lane by lane.
fn own_of(ears: Vec<Ear<Steer>>, rows: Vec<LaneRows>, ports: Vec<LaneFrames>) -> Vec<Own> {
    assert!(ears.len() == rows.len(), "each lane has an ear and its rows");
    assert!(ports.is_empty() || ports.len() == ears.len(), "a lane without a port among others would serve nobody");
    let ports = ports.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
    ears.into_iter().zip(rows).zip(ports).map(|((ear, rows), frames)| Own { ear, rows, frames }).collect()
}

/// Steers as another process does, or anew.
fn steer(lanes: &Lanes, server: &Server, taken: &mut Option<Taken>, tell: Tell<Steer>) -> Result<Arc<Steered>, Error> {
    match taken.as_mut().and_then(|taken| taken.take_steering()) {
        Some(handed) => Ok(Steered::inherit(handed, server, tell)?),
        None => Ok(Steered::new(&lanes.steering, server, tell)?),
    }
}

/// The lanes' doorbells, before any lane takes a descriptor table of its own: the others ring them by number.
fn make_bells(lanes: usize) -> Result<Vec<Arc<EventBell>>, Error> {
    (0..lanes).map(|_| EventBell::shared().map_err(|error| Error::Driver(error.to_string()))).collect()
}

/// The sockets that are to be steered.
fn server(lanes: &Lanes, places: &[Place], count: usize) -> Server {
    // A flow that comes as frames finds its lane by the card, and by the lanes themselves.
    let is_steered = |place: &&Place| {
        let is_ours = |ip| lanes.wires.device_of(ip).is_some();
        !place.address.ip().is_some_and(is_ours)
    };
    let flows_to = |place: &Place| Some(TransportAddress { transport: place.transport, address: place.address.inet()? });
    // One socket of all lanes has no lane.
    let places = places.iter().filter(|place| place.named.is_none()).filter(is_steered).filter_map(flows_to);
    let over_frames = !lanes.wires.is_empty();
    Server { places: places.collect(), lanes: count, over_frames, joins: lanes.join }
}
