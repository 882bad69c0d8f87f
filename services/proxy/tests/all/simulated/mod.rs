//! The proxy on simulated lanes: each run is made from one seed.

mod bulk;
mod cast;
mod checks;
mod datagrams;
mod everyday;
mod failures;
mod shares;
mod storm;

use corelane::Address;
use corelane::lanes::DriverSettings;
use corelane::service::Limits;
use corelane::testing::{Rig, RigPlan, World};
use corelane_proxy::Proxy;
use corelane_upstreams::entry::Behind;
use corelane_upstreams::{Settings, address_key};
use std::net::SocketAddr;

/// The upstream of this number.
pub fn upstream(number: u8) -> SocketAddr {
    SocketAddr::from(([198, 51, 100, number], 80))
}

/// The first so many of them, as a list.
pub fn list(count: u8) -> String {
    (1..=count).map(|number| upstream(number).to_string()).collect::<Vec<_>>().join(",")
}

/// Has everybody of them listen.
pub fn listen(world: &World, count: u8) {
    (1..=count).for_each(|number| world.listen(upstream(number)).unwrap());
}

pub fn behind(to: &str, settings: Settings) -> Behind {
    Behind { targets: to.parse().unwrap(), settings, key: address_key }
}

/// Lanes with a proxy for these.
pub fn proxied(world: &World, plan: &RigPlan, limits: Limits, to: &str, settings: Settings) -> Rig {
    let behind = behind(to, settings);
    Rig::serving(world, plan, limits, |lane| Proxy::new(&behind, lane).resolving(named))
}

/// The same, where the kernel passes on by itself what is said little at a time.
pub fn proxied_in_kernel(world: &World, limits: Limits, to: &str, settings: Settings) -> Rig {
    let behind = behind(to, settings);
    let plan = RigPlan::lanes(2).tuning(DriverSettings::new().bridged_pairs_max(8));
    Rig::serving(world, &plan, limits, |lane| Proxy::new(&behind, lane).resolving(named).in_kernel(true))
}

/// Names in tests are their addresses: `1-2.test` is upstreams 1 and 2.
pub fn named(host: &str, port: u16) -> Result<Vec<Address>, String> {
    let numbers = host.strip_suffix(".test").ok_or_else(|| format!("{host} is not known"))?.split('-');
    numbers.map(|number| Ok(SocketAddr::new(upstream(number.parse().unwrap()).ip(), port).into())).collect()
}
