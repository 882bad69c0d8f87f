//! What a table of upstreams wants done, done on a lane: names are resolved by a helper thread, upstreams are checked by connections.

use crate::due::{Due, Found};
use crate::listing::Listing;
use crate::probe::{Checks, Probe};
use crate::source::Source;
use crate::table::Upstreams;
use corelane::admin::reports::Level;
use corelane::lanes::Url;
use corelane::service::{Outcome, Random, Talk};
use corelane::{Address, Cx};
use std::net::IpAddr;

/// How a service has its upstreams tended.
#[derive(Clone, Copy, Debug)]
pub struct Tending {
    /// The token of its alarm for that: in [`alarm`](corelane::StreamService::alarm) call [`Tended::tend`](crate::Tended::tend).
    pub alarm: u64,
    /// The first of two tokens, one behind the other, of its calls on helper threads: in [`completed`](corelane::StreamService::completed) call [`Tended::completed`](crate::Tended::completed).
    pub completed: u64,
    /// Asks for the addresses of a name; [`Tending::system`] unless a test has its own.
    pub resolve: fn(&str, u16) -> Result<Vec<Address>, String>,
    /// Asks a source; [`Listing::of`] unless a test has its own.
    pub list: fn(&Source, Option<u64>, bool) -> Listing,
}

impl Tending {
    /// With the system's resolver (getaddrinfo(3)).
    pub const fn new(alarm: u64, completed: u64) -> Self {
        Self { alarm, completed, resolve: Self::system, list: Listing::of }
    }

    /// The addresses of a name by the system. Waits as long as the system does: for helper threads.
    ///
    /// # Errors
    /// Why there are none.
    pub fn system(host: &str, port: u16) -> Result<Vec<Address>, String> {
        let url = Url::parse(&format!("tcp://{host}"), port).map_err(|error| error.to_string())?;
        url.resolve().map_err(|error| error.to_string())
    }
}

/// What a helper thread has found, of the outcome of its call, for [`Upstreams::resolved`]; or why it has not.
pub(crate) fn found(outcome: Outcome) -> Found {
    Found::Addresses(Err(match outcome {
        Outcome::Offloaded(result) => match result.0.downcast::<Found>() {
            Ok(found) => return *found,
            Err(_) => "a helper thread has answered something else".to_owned(),
        },
        Outcome::Failed(fault) => format!("no helper thread has asked: {fault}"),
        _ => "something else has ended".to_owned(),
    }))
}

/// Does what is due. `session` makes the session of a connection that checks an upstream.
pub(crate) fn tend<T: Talk, S: 'static>(
    cx: &mut Cx<'_, T>,
    upstreams: &mut Upstreams,
    checks: &mut Checks,
    tending: Tending,
    mut session: impl FnMut(Probe) -> S,
) {
    checks.end_late(cx);
    while let Some(due) = upstreams.due(cx.now()) {
        match due {
            // Many tables may begin at once: that is no fault of a name.
            Due::Resolve { asking, .. } | Due::List { asking, .. } if !cx.ask_offload() => upstreams.put_off(asking, cx.now()),
            Due::List { asking, source, stamp, is_tls } => {
                let list = tending.list;
                cx.offload(move || Found::Listing(list(&source, stamp, is_tls)), tending.completed + asking as u64);
            }
            Due::Resolve { asking, host, port } => {
                let resolve = tending.resolve;
                cx.offload(move || Found::Addresses(resolve(&host, port)), tending.completed + asking as u64);
            }
            Due::Check { upstream, .. } => {
                // reason: one that is checked is there.
                let reach = upstreams.reach_checking(upstream).expect("an upstream that is checked is there");
                // reason: as above, and it is checked because the settings say so.
                let probe = Probe::of(upstreams, upstream, cx.now()).expect("what is checked has a check");
                let until = probe.until();
                match reach.dial(cx, session(probe)) {
                    Ok(check) => checks.begin(check, until),
                    Err(_) => {
                        // The bound of connections is ours, and says nothing of the upstream.
                        upstreams.checked(upstream, cx.now(), None);
                    }
                }
            }
        }
    }
    if let Some(words) = upstreams.take_unplaced() {
        cx.report_kind("no place", Level::Warn, words);
    }
}

/// The key by which all connections of a client find the same upstream: its IP address. All clients over Unix sockets have one.
pub fn address_key(peer: &Address) -> u64 {
    let bits = match peer.ip().map(|ip| ip.to_canonical()) {
        Some(IpAddr::V4(ip)) => u128::from(ip.to_bits()),
        Some(IpAddr::V6(ip)) => ip.to_bits(),
        None => 0,
    };
    Random::new(bits as u64 ^ Random::new((bits >> 64) as u64).bits()).bits()
}

/// A client as it is blamed for what its bytes may have done: its IPv4 address, or its network of IPv6 (/64), which one host is given.
pub fn client_key(peer: &Address) -> u64 {
    match peer.ip().map(|ip| ip.to_canonical()) {
        Some(IpAddr::V6(ip)) => Random::new((ip.to_bits() >> 64) as u64 ^ 1 << 63).bits(),
        _ => address_key(peer),
    }
}

/// The key by which each flow has an upstream of its own: the client's IP address and port. At one address and port that is served, these tell all flows apart. It is not the hash by which flows are steered to lanes, so each lane, and each process of a host, finds the same upstream.
pub fn flow_key(peer: &Address) -> u64 {
    Random::new(address_key(peer) ^ u64::from(peer.port())).bits()
}
