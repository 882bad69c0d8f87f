//! The counter page of a program of lanes: what it says from the start on, and the rows that lanes write.

use crate::admin::control;
use crate::admin::messages::Degraded;
use crate::error::Error;
use crate::lanes::builder::Lanes;
use crate::lanes::driver::DriverKind;
use crate::lanes::place::Place;
use corelane_seam::Record;
use corelane_steer::{InForce, Steered};
use corelane_watch::{
    CONNECTION_ROWS_MAX, ConnectionRows, CounterName, Description, LaneName, LaneRow, PacketsRow, Page, ProcessId, RunDirectory,
    ServiceName, ServiceRow,
};

/// Pages of ended processes that are kept to be looked at.
const STALE_PAGES: usize = 8;

/// Makes the page, for others to read if that can be had.
pub(crate) fn make_page(
    lanes: &Lanes,
    cpus: &[Option<usize>],
    (driver, steered): (DriverKind, &Steered),
    places: &[Place],
    notes: &mut Vec<Record>,
) -> Result<Page, Error> {
    let urls = |service: usize| {
        places.iter().filter(|place| place.served == service).map(|place| place.url.to_string()).collect::<Vec<_>>()
    };
    let lane = |cpu: &Option<usize>| LaneName {
        cpu: cpu.map(|cpu| cpu as u32),
        driver: driver.to_string(),
        steering: steered.in_force().to_string(),
    };
    let description = Description {
        program: format!("corelane {}", env!("CARGO_PKG_VERSION")),
        process: ProcessId::this()?,
        started_unix_nanoseconds: corelane_os::clock::wall_clock(),
        services: lanes
            .services
            .iter()
            .enumerate()
            .map(|(index, served)| ServiceName {
                name: served.name.clone(),
                url: urls(index).join(" "),
                counters: CounterName::all(served.counters),
            })
            .collect(),
        lanes: cpus.iter().map(lane).collect(),
        connections: (lanes.lane_connections_max() as usize).min(CONNECTION_ROWS_MAX / cpus.len()),
    };
    if lanes.is_unlisted {
        return Ok(Page::heap(&description)?);
    }
    let mut passed_over = Vec::new();
    let directory = RunDirectory::choose(&mut passed_over);
    notes.extend(passed_over.into_iter().map(|note| Degraded::RunDirectory.note(note)));
    let page = directory.map_err(corelane_watch::Error::from).and_then(|directory| {
        let _ = corelane_watch::remove_stale(&directory, STALE_PAGES);
        Page::create(&directory, &description)
    });
    let mut page = page.or_else(|error| {
        notes.push(Degraded::NoPage.note(format_args!("no counter page that others can read: {error}")));
        Page::heap(&description)
    })?;
    notes.iter().for_each(|note| page.note(&note.to_string()));
    Ok(page)
}

/// A lane's rows of the page: its own, its services', its packet path's, its connections'.
pub(crate) type LaneRows = (LaneRow, Vec<ServiceRow>, PacketsRow, ConnectionRows);

/// A lane's rows, of so many services.
pub(crate) fn rows_of(page: &Page, lane: usize, services: usize) -> Result<LaneRows, Error> {
    let rows = (0..services).map(|service| page.service(lane, service)).collect::<Result<_, _>>()?;
    Ok((page.lane(lane)?, rows, page.packets(lane)?, page.connections(lane)?))
}

/// Has the page say which lane serves each bucket, from now on.
pub(crate) fn tell_of_table(page: &Page, steered: &Steered) {
    let mut row = page.steering();
    let hasher = control::hasher_words(steered.hasher());
    // Where the kernel chooses by a hash of its own, nothing follows the table: it is not told, but flows are still told apart. Nor do the
    // connections that a process makes which serves nothing that is steered: of one lane all are, of several they are where they were made.
    let is_followed = match steered.in_force() {
        InForce::Kernel => false,
        InForce::Nothing => steered.present().len() == 1,
        InForce::Program | InForce::Classic | InForce::Frames => true,
    };
    steered.on_table(move |table| {
        let lanes = table.buckets().all().filter(|_| is_followed).map(|bucket| table.lane(bucket) as u16);
        row.set(&hasher, &lanes.collect::<Vec<_>>());
    });
}
