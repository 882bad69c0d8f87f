//! The only list of services: a new one is its folder, its name in [`ALL`], and a line among this crate's dependencies.
#![forbid(unsafe_code)]

use corelane::service::entry::Entry;

/// All services, in the order in which they are shown and served.
pub static ALL: &[&Entry] = &[
    &corelane_echo::ENTRY,
    &corelane_rpc::ENTRY,
    &corelane_http::ENTRY,
    &corelane_push::ENTRY,
    &corelane_proxy::ENTRY,
    &corelane_gateway::ENTRY,
];
