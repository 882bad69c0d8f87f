//! Requests that are sent on: servers of every kind behind, and what they, and the clients, get to see.

mod early;
mod hostile;
mod logged;
mod odd;
mod shopping;
mod strange;
mod switched;
mod uploads;

use super::rig::{Rig, RigPlan, address, at};
use corelane::StreamService;
use corelane::service::Limits;
use corelane::testing::World;
use corelane_http::{Forward, Http};
use corelane_upstreams::entry::Behind;
use corelane_upstreams::{Settings, address_key};
use std::time::Duration;

/// Where the server behind listens.
const BEHIND: u16 = 8081;
/// Longer than any run of a test whose clock jumps.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);

/// One upstream, at this port.
fn behind_at(port: u16) -> Behind {
    Behind { targets: at(port).to_string().parse().unwrap(), settings: Settings::new(), key: address_key }
}

/// Lanes that send requests on to a service beside them.
fn forwarding<S: StreamService>(
    world: &World,
    plan: &RigPlan,
    (limits, behind): (Limits, Limits),
    forward: impl Fn(Forward) -> Forward,
    make: impl Fn(usize) -> S,
) -> Rig {
    // An answer that comes early ends no connection for the contents of these tests.
    let passing = corelane_http::Settings::new().unwanted_bytes(1 << 20);
    Rig::new(world, plan, |roster| {
        roster.serve(address(), limits, Http::new(forward(Forward::new(&behind_at(BEHIND), roster.lane()))).settings(passing));
        roster.serve(at(BEHIND), behind, make(roster.lane()));
    })
}
