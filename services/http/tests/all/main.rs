//! The tests of HTTP from outside, in one program: each more would compile and link the same service once more. Apart is only what
//! counts all allocations of its process.
#![allow(missing_docs, clippy::unwrap_used)]

mod behind_tls;
mod clients;
mod counted;
#[path = "../files/mod.rs"]
mod files;
#[path = "../foreign/mod.rs"]
mod foreign;
mod forwarded;
mod kept;
mod moved;
mod neighbours;
mod offloaded;
mod peers;
mod rules_page;
#[path = "../simulated/mod.rs"]
mod simulated;
mod sited;
mod smuggled;
mod sources;
mod table;
mod typed;
