//! A sink: takes what a server sends by itself, as `push` does, and checks it on a sample.
//!
//! A byte's place in its connection's stream tells what it is ([`corelane_wire::pattern`]), so nothing has to be known of the server's pieces. Of some connections
//! every byte is checked, of the others where each piece begins that the system hands out: bytes that are lost, doubled or shifted are seen on all of them.

use super::WorkloadEntry;
use crate::engine::Engine;
use crate::error::Error;
use crate::kinds::Kind;
use crate::particulars::Particulars;
use crate::place::Scheme;
use crate::plan::{Mode, Plan};
use crate::workload::{Answers, Workload};
use corelane::service::entry::choice::{Choice, Chosen, Number};
use corelane::{Input, Output};
use corelane_wire::pattern;
use std::time::Duration;

/// Where push is served unless said otherwise.
pub const DEFAULT_PORT: u16 = 1_667;

/// Bytes at the front of what the system hands out that are checked on every connection.
const FRONT: usize = 8;

const CHECK: Number = Number::new(
    "check",
    "connections",
    "check every byte on one of so many, and on the others where pieces begin; 0 checks nothing",
)
.between(0, 1_000_000, 16);

/// The sink.
pub const ENTRY: WorkloadEntry = WorkloadEntry {
    default_port: DEFAULT_PORT,
    default_size: 16 << 10,
    default_duration: Duration::from_secs(10),
    options: &[Choice::Number(CHECK)],
    counts: &["bytes_checked"],
    mode: Some(|| Mode::Sink),
    particulars: |chosen, _| Ok(Particulars::of(Sample(chosen.number(&CHECK)))),
    ..WorkloadEntry::plain(
        ("sink", "takes what a server pushes, and checks it; --size is what counts as one"),
        &[Scheme::TCP],
        check,
        |lanes, ends| lanes.client(move |lane| Engine::new(ends.course(lane), Sink::new(ends.plan()))),
    )
};

/// The place of what is counted.
const BYTES_CHECKED: usize = 0;

/// Every byte is checked on one of so many connections; 0 for no check at all.
#[derive(Clone, Copy, Debug)]
pub struct Sample(pub u64);

impl Default for Sample {
    fn default() -> Self {
        Self(Chosen::default().number(&CHECK))
    }
}

fn check(plan: &Plan) -> Result<(), Error> {
    if plan.size == 0 {
        return Err(Error::Setting { name: "size", why: "a piece has a byte at least".to_owned() });
    }
    if plan.mode != Mode::Sink || plan.depth != 1 {
        return Err(Error::Setting { name: "depth", why: "nothing is asked here: leave it out".to_owned() });
    }
    Ok(())
}

/// Takes streams, and counts them in pieces of `size` bytes.
pub struct Sink {
    size: u64,
    sample: u64,
}

/// One stream.
pub struct Stream {
    received: u64,
    /// Bytes to check at the front of what is handed out.
    front: usize,
}

impl Sink {
    /// The sink of a plan.
    pub fn new(plan: &Plan) -> Self {
        assert!(plan.size > 0, "a piece has a byte at least");
        Self { size: plan.size as u64, sample: plan.particulars.get::<Sample>().0 }
    }
}

impl Workload for Sink {
    type Connection = Stream;

    fn connection(&mut self, number: u64) -> Stream {
        let front = match self.sample {
            0 => 0,
            sample if number.is_multiple_of(sample) => usize::MAX,
            _ => FRONT,
        };
        Stream { received: 0, front }
    }

    fn request(&mut self, _stream: &mut Stream, _first: u64, _count: usize, _output: &mut Output) -> usize {
        unreachable!("a sink asks for nothing")
    }

    fn receive(&mut self, stream: &mut Stream, input: &mut Input, answers: &mut Answers<'_>) -> Result<(), Kind> {
        let (before, mut checked) = (stream.received / self.size, 0);
        while !input.is_empty() {
            let bytes = input.first();
            let (length, front) = (bytes.len(), bytes.len().min(stream.front));
            if !pattern::matches(stream.received, &bytes[..front]) {
                return Err(Kind::Mismatch);
            }
            (stream.received, checked) = (stream.received + length as u64, checked + front as u64);
            input.skip(length);
        }
        answers.arrived(stream.received / self.size - before, &[(BYTES_CHECKED, checked)]);
        Ok(())
    }
}
