//! The engines on simulated lanes: real engines, real lanes, a simulated network with its clock and faults, against the echo service
//! and against peers that misbehave. An account that is kept beside the engines says what their report must say.
//!
//! Each run is made from one seed, so a failure names the seed that shows it again (`CORELANE_SEED=n`).

mod account;
mod datagram_account;
mod datagram_peers;
mod datagrams;
mod ends;
mod figures;
mod http;
mod http_server;
mod memory;
mod misbehaving;
mod pacing;
mod peers;
mod plans;
mod renewal;
mod repeats;
mod rig;
mod rpc;
mod rpc_server;
mod sink;
mod streams;
mod verdicts;
mod witness;

use corelane::testing::for_seeds;
