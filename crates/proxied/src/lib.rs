//! The PROXY header before any stream service of Corelane: a proxy says in plain, before all else, whose connection it carries
//! ([`corelane_wire::proxy`] has the format).
//!
//! ```text
//! socket --> Proxied: the header --> TLS, if the service has it --> service      Peer.address: who has connected to the proxy
//! ```
//!
//! * **Who may say so** is an address that the operator has named ([`Network`]), and it must: whoever could leave the header away, or anybody else send one, could
//!   be whom he likes. **All others are refused**: what stands behind a proxy relies on it, and who reaches the service past it may not know that. A program that is to
//!   serve both does so at two places.
//! * The service, its log and what TLS hands on see the peer that the header names, and the address that it had asked. **Who pays is still the proxy**: connections and memory
//!   are counted for the address of the socket, which nobody can choose; so raise `connections_per_peer_max` where few proxies bring all connections.
//! * A header that has not come within `handshake_limit` ends its connection.
//!
//! ```no_run
//! # use corelane::{Cx, Input, Lanes, Next, Output, Peer, Silent, StreamService};
//! # struct Echo;
//! # impl StreamService for Echo {
//! #     type Talk = Silent;
//! #     type Session = ();
//! #     fn open(&mut self, _: &mut Cx, _: &Peer) {}
//! #     fn receive(&mut self, _: &mut Cx, _: &mut (), _: &mut Input, _: &mut Output) -> Next { Next::Continue }
//! # }
//! let lanes = Lanes::per_core().serve("tcp://[::]:60007", |_lane| Echo)?;
//! corelane_proxied::before(lanes, vec!["192.0.2.0/24".parse()?])?.run()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod entry;
mod network;
mod transform;

pub use network::{Network, NetworkError};

use corelane::service::{MakeTransform, Peer, Side, Transform};
use corelane::{Error, Lanes};
use transform::{Proxied, Stranger};

/// Has the service that was added last take PROXY headers, which these send, before what it has of transforms by now.
///
/// # Errors
/// As [`Lanes::wrap_transforms`].
pub fn before(lanes: Lanes, from: Vec<Network>) -> Result<Lanes, Error> {
    lanes.wrap_transforms(move |_lane, inner| around(from.clone(), inner))
}

/// The function that makes the transforms of one lane: of those that `inner` makes, with the header before them.
pub fn around(from: Vec<Network>, mut inner: MakeTransform) -> impl FnMut(Side, &Peer) -> Option<Box<dyn Transform>> {
    move |side, peer| match side {
        Side::Client => inner(side, peer),
        Side::Server if from.iter().any(|network| network.has(&peer.address)) => Some(Box::new(Proxied::new(inner(side, peer)))),
        Side::Server => Some(Box::new(Stranger)),
    }
}
