//! Sockets that were handed over: each is used, and what that costs is said.
//!
//! ```text
//! the manager's socket --lent to each lane--> lanes accept in turn; lane 0 takes datagrams      (`seam::Driver::lend`)
//! ```
//!
//! A hand-over from one process of ours to the next gives each lane its own listener back, and so needs none of this.

use crate::admin::messages::Degraded;
use crate::error::Error;
use crate::lanes::builder::Lanes;
use crate::lanes::others::is_for_program;
use crate::lanes::place::Place;
use corelane_os::handed::Handed;
use corelane_rss::Transport;
use corelane_seam::Record;

/// Refuses what no service is served with: who connects there would wait for ever.
pub(crate) fn check_used(lanes: &Lanes, places: &[Place]) -> Result<(), Error> {
    let is_used =
        |socket: &Handed| is_for_program(lanes, socket) || places.iter().any(|place| place.named == Some(socket.number()));
    let Some(socket) = lanes.handed.iter().find(|socket| !is_used(socket)) else { return Ok(()) };
    let kind = if socket.transport == Transport::Tcp { "connections" } else { "datagrams" };
    let at: Vec<String> = places.iter().map(|place| place.url.to_string()).collect();
    let why = format!(
        "the socket {:?} for {kind} at {} was handed over, and no service is to be served there, but at {}: name that address as a service's",
        socket.name,
        socket.address,
        at.join(", ")
    );
    Err(Error::Setting { name: "services", why })
}

/// A remark on what lanes that share one socket have to do without.
pub(crate) fn note(places: &[Place], lanes: usize) -> Option<Record> {
    let urls: Vec<String> =
        places.iter().filter(|place| place.outlives && place.address.ip().is_some()).map(|place| place.url.to_string()).collect();
    (lanes > 1 && !urls.is_empty()).then(|| {
        Degraded::HandedOver.note(format_args!(
            "handed over: {}: lanes accept in turn, and lane 0 has the datagrams, whatever the table says; remedy: without socket activation each lane listens itself",
            urls.join(", ")
        ))
    })
}
