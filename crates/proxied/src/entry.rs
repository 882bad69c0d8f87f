//! PROXY headers as an option of a service's entry; for an entry that has TLS as well, [`before`] is called behind what adds that.

use crate::Network;
use corelane::service::entry::Asked;
use corelane::service::entry::choice::{Choice, Text};
use corelane::{Error, Lanes};

const FROM: Text = Text::new(
    "proxy-from",
    "ADDRESS/PREFIX,..",
    networks_are_known,
    "serve only connections from proxies in these networks (unix: over Unix sockets), each of which begins with a PROXY header; all others are refused",
);

/// The option of a scheme.
pub const OPTION: Choice = Choice::Text(FROM);

/// Has the service that was added last take PROXY headers, if it is asked to.
///
/// # Errors
/// As [`before`](crate::before).
pub fn before(lanes: Lanes, asked: &Asked) -> Result<Lanes, Error> {
    let Some(text) = asked.chosen().text(&FROM) else { return Ok(lanes) };
    let from = networks(text).map_err(|why| asked.refuse(FROM.name, why))?;
    crate::before(lanes, from)
}

fn networks(text: &str) -> Result<Vec<Network>, String> {
    text.split(',').map(|network| network.parse::<Network>().map_err(|error| error.to_string())).collect()
}

fn networks_are_known(text: &str) -> Result<(), String> {
    networks(text).map(drop)
}
