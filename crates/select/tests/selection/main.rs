//! Flows find the socket of their lane: over real networks, made for each test in namespaces of its own, and by each means with
//! the privileges that it is promised to work with.
#![allow(clippy::unwrap_used, unsafe_code)] // all of this is tests; namespaces, privileges and shared ports take raw calls

mod cost;
mod drivers;
mod flows;
mod group;
mod moves;
mod network;
mod places;
mod sockets;
