//! Lanes that run several works, in the simulator: toys of different kinds, which assert from inside what a lane guarantees them.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

mod administration;
mod alone;
mod events;
mod exchange;
mod guard;
mod measured;
mod news;
mod packets;
mod parcels;
mod rig;
mod script;
mod streams;
mod together;
mod waiting;
