//! Stacks on simulated wires: what they say on the wire, under bad frames, under faults, and on several lanes.
#![allow(clippy::unwrap_used)] // all of this is tests

mod alone;
mod channels;
mod flood;
mod forwarded;
mod forwarding;
mod frames;
mod gateway;
mod gateways;
mod hostile;
mod interfaces;
mod lanes;
mod link;
mod losses;
mod nat;
mod offload;
mod order;
mod own;
mod pieces;
mod polling;
mod presence;
mod program;
mod refusals;
mod relay;
mod rules;
mod sums;
mod tunnels;
mod vlans;
mod ways;
