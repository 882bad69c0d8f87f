//! Echo over connections (RFC 862): what comes back is what was sent, checked byte for byte.

use super::entry::WorkloadEntry;
use crate::ends::Ends;
use crate::engine::Engine;
use crate::error::Error;
use crate::kinds::Kind;
use crate::pattern;
use crate::place::Scheme;
use crate::plan::Plan;
use crate::workload::{Answers, Workload};
use corelane::{Input, Lanes, Output};

pub use super::entry::DEFAULT_PORT;

/// Where echo is served behind TLS unless said otherwise.
pub const SECURE_PORT: u16 = 60_443;

/// Connections whose patterns start this far apart, so that bytes of another connection are wrong bytes.
const STRIDE: u64 = 1_013;

/// Requests of `size` bytes each.
pub struct Echo {
    size: u64,
}

/// One connection: two positions in its stream of bytes.
pub struct Stream {
    base: u64,
    sent: u64,
    received: u64,
}

impl Echo {
    /// Echo with requests of `size` bytes, at least 1.
    pub fn new(size: usize) -> Self {
        assert!(size > 0, "a request has at least one byte");
        Self { size: size as u64 }
    }
}

impl Workload for Echo {
    type Connection = Stream;

    fn connection(&mut self, number: u64) -> Stream {
        Stream { base: number * STRIDE, sent: 0, received: 0 }
    }

    fn request(&mut self, stream: &mut Stream, _first: u64, count: usize, output: &mut Output) -> usize {
        let end = stream.sent + count as u64 * self.size;
        while stream.sent < end {
            let piece = pattern::piece(stream.base + stream.sent, (end - stream.sent) as usize);
            output.push(piece);
            stream.sent += piece.len() as u64;
        }
        count
    }

    fn receive(&mut self, stream: &mut Stream, input: &mut Input, answers: &mut Answers<'_>) -> Result<(), Kind> {
        let before = stream.received / self.size;
        while !input.is_empty() {
            let bytes = input.first();
            let length = bytes.len();
            stream.received += length as u64;
            if stream.received > stream.sent || !pattern::matches(stream.base + stream.received - length as u64, bytes) {
                return Err(Kind::Mismatch);
            }
            input.skip(length);
        }
        answers.next((stream.received / self.size - before) as usize)
    }
}

/// Echo over TCP.
pub const ENTRY: WorkloadEntry = WorkloadEntry::plain(
    ("echo", "bytes over TCP that come back as they went"),
    &[Scheme::TCP, Scheme::tls(SECURE_PORT)],
    check,
    client,
);

/// The longest request.
const SIZE_MAX: usize = 64 << 20;

/// Sizes from 1 byte up.
pub fn check(plan: &Plan) -> Result<(), Error> {
    let whole = plan.size.saturating_mul(plan.depth as usize);
    if plan.size == 0 || whole > SIZE_MAX {
        let why =
            format!("{} bytes, {} of them in flight, are not between 1 and {SIZE_MAX} bytes a connection", plan.size, plan.depth);
        return Err(Error::Setting { name: "size", why });
    }
    Ok(())
}

/// Adds the client.
pub fn client(lanes: Lanes, ends: Ends) -> Lanes {
    lanes.client(move |lane| Engine::new(ends.course(lane), Echo::new(ends.plan().size)))
}
