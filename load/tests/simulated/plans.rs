//! Plans drawn from a seed: every mode, extent and shape, small enough for thousands of runs.

use corelane::Address;
use corelane::testing::{FaultKind, Faults, Random};
use corelane_load::arrivals::Arrivals;
use corelane_load::plan::{Extent, Mode, Plan};
use std::time::Duration;

/// A closed loop over connections to `target` for 50 ms.
pub fn streams(target: impl Into<Address>) -> Plan {
    let target = target.into();
    let mut plan = Plan::new("echo", &format!("tcp://{target}"), target);
    plan.extent = Extent::For(Duration::from_millis(50));
    plan.timeout = Duration::from_millis(400);
    plan.quantiles = vec![1.0, 10.0, 50.0, 90.0, 99.0, 99.9, 100.0];
    plan
}

/// The same over datagrams.
pub fn datagrams(target: impl Into<Address>) -> Plan {
    let plan = streams(target);
    Plan { workload: "udp".into(), url: format!("udp://{}", plan.target), transport: corelane::lanes::Transport::Udp, ..plan }
}

/// Times of a recording: bursts and pauses.
fn recording(random: &mut Random, span: u64) -> Arrivals {
    let mut times: Vec<u64> = (0..random.one_to(400)).map(|_| random.below(span) / 1_000 * 1_000).collect();
    times.sort_unstable();
    let first = times[0];
    Arrivals::Recorded(times.iter().map(|at| at - first).collect())
}

fn drawn_arrivals(random: &mut Random, span: u64) -> Arrivals {
    match random.below(3) {
        0 => Arrivals::Fixed,
        1 => Arrivals::Poisson,
        _ => recording(random, span),
    }
}

/// Any plan over `base`'s transport. The arrivals of a recording go on for longer than the window does.
pub fn drawn(seed: u64, base: Plan) -> Plan {
    let mut random = Random::new(seed ^ 0x706c_616e);
    let (is_long, by_count) = (random.below(3) == 0, random.below(2) == 0);
    let length = if is_long { 900 + random.below(1_700) } else { 20 + random.below(100) };
    let most = if random.below(4) == 0 { 6 } else { 500 };
    let requests = 1 + random.below(most);
    let mode = match random.below(3) {
        0 => Mode::Closed,
        1 => Mode::Open { rate: rate(&mut random, is_long), arrivals: drawn_arrivals(&mut random, 4_000_000_000) },
        _ if base.transport == corelane::lanes::Transport::Udp => Mode::Closed,
        _ => Mode::Connections {
            rate: rate(&mut random, is_long),
            arrivals: drawn_arrivals(&mut random, 4_000_000_000),
            requests: random.one_to(4) as u32,
        },
    };
    // A closed loop without a pause would fill a long run with more requests than there is time to play them.
    let is_busy = mode == Mode::Closed && is_long && !by_count;
    Plan {
        connections: if is_busy { 1 } else { random.one_to(10) as u32 },
        lanes: random.one_to(4),
        depth: if is_busy { 1 } else { random.one_to(6) as u32 },
        size: if random.below(3) == 0 { 8 + random.one_to(9_000) } else { 8 + random.one_to(100) },
        extent: if by_count { Extent::Requests(requests) } else { Extent::For(Duration::from_millis(length)) },
        warm_up: Duration::from_micros([0, 0, random.below(30_000), random.below(1_500_000)][random.below(4) as usize]),
        seed,
        mode: if is_busy { Mode::Closed } else { mode },
        trains: random.below(4) > 0,
        ..base
    }
}

fn rate(random: &mut Random, is_long: bool) -> f64 {
    let most = if is_long { 600 } else { 8_000 };
    (20 + random.below(most)) as f64 / [1.0, 3.0][random.below(2) as usize]
}

/// Every fault that the accounts follow: what a system refuses to itself, when it accepts, opens or moves datagrams, cannot be told from outside from what the
/// network does. Shared pages are left out, too: with them, an end beside a jump of the clock was once seen on one side only.
pub fn followed(seed: u64) -> Faults {
    let all = Faults { aborted_accept: 0, lost_accept: 0, accept_without_memory: 0, ..Faults::all(seed) };
    let all = Faults { shared_pages: 0, never_release: 0, ..all };
    Faults { datagram_error: 0, datagram_refused: 0, filled_table: 0, ..all }
}

/// Those of them that the account of datagrams follows: a datagram is written when there is memory for it, so nobody sees from outside since when one waits.
pub fn with_memory(faults: Faults) -> Faults {
    Faults { fragmented_arena: 0, refused_memory: 0, ..faults }
}

/// Those of them that the clock does not take part in: then times can be told exactly.
pub fn steady(seed: u64) -> Faults {
    Faults { clock_jump: 0, ..followed(seed) }
}

/// Whether the clock never jumps.
pub fn is_steady(faults: Faults) -> bool {
    faults.chance(FaultKind::ClockJump) == 0
}
