//! Services on simulated lanes: real lane, real service layer, simulated network, clock and faults.
//!
//! Each run is made from one seed, so a failure names the seed that shows it again (`CORELANE_SEED=n`).
#![allow(clippy::unwrap_used)]

mod asking;
mod bounds;
mod bridged;
mod cache;
mod calls;
mod cipher;
mod clients;
mod coverage;
mod datagrams;
mod drain;
mod echo;
mod endings;
mod fetch;
mod flows;
mod handshakes;
mod http;
mod letters;
mod limits;
#[cfg(debug_assertions)]
mod look_ups;
mod memory;
mod mines;
mod moving;
mod neighbours;
mod outgoing;
mod own;
mod paces;
mod planted;
mod program;
mod proxy;
mod puppet;
mod rewritten;
mod rpc;
mod tickets;
mod together;
mod transform;
mod veiled;
mod visitors;
mod watches;
mod window;

use corelane_testing as rig;
use corelane_testing::for_seeds;
