//! Bursts of datagrams that nobody answers, as fast as the system takes them: the sender for the datagrams that `push` drops.

use super::WorkloadEntry;
use super::flood::{self, Flood};
use super::sink::DEFAULT_PORT;
use crate::datagram_engine::DatagramEngine;
use crate::particulars::Particulars;
use crate::place::Scheme;
use crate::plan::Mode;
use corelane::service::TRAIN_DATAGRAMS_MAX;
use corelane::service::entry::choice::{Choice, Number};

const BURST: Number = Number::new(
    "burst",
    "datagrams",
    "datagrams of a burst, one train unless --singles is given; --depth lets more of them wait",
)
.between(1, TRAIN_DATAGRAMS_MAX as u64, 32);

/// Bursts over UDP.
pub const ENTRY: WorkloadEntry = WorkloadEntry {
    default_port: DEFAULT_PORT,
    default_size: 1_400,
    options: &[Choice::Number(BURST)],
    mode: Some(|| Mode::Flood),
    particulars: |chosen, _| Ok(Particulars::of(Burst(chosen.number(&BURST) as usize))),
    ..WorkloadEntry::plain(
        ("burst", "datagrams in bursts, as fast as the system takes them, which nobody answers"),
        &[Scheme::UDP],
        flood::check,
        |lanes, ends| {
            lanes.client_datagrams(move |lane| {
                let Burst(train) = ends.plan().particulars.get();
                DatagramEngine::new(ends.course(lane), Flood { size: ends.plan().size, train })
            })
        },
    )
};

/// Datagrams of a burst.
#[derive(Clone, Copy, Debug)]
pub struct Burst(pub usize);

impl Default for Burst {
    fn default() -> Self {
        Self(BURST.default as usize)
    }
}
