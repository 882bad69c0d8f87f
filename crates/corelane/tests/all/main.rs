//! The tests of the library from outside, in one program: each more would compile and link the same lanes once more. Apart are only
//! what counts all allocations of its process, what takes its one place for reports, and the suite of drivers.
#![allow(missing_docs, clippy::unwrap_used)]

mod aio;
#[path = "../aio_parts/mod.rs"]
mod aio_parts;
#[path = "../asynchronous/mod.rs"]
mod asynchronous;
mod broken;
mod datagram_clients;
mod entries;
mod examples;
mod following;
mod item_cache;
mod lanes;
mod lending;
mod moving;
#[path = "../orders/mod.rs"]
mod orders;
mod outgoing;
mod outside;
#[path = "../process/mod.rs"]
mod process;
mod promises;
mod queues;
mod stalls;
mod steering;
mod testing;
mod unix;
