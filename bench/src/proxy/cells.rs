//! The cells of proxies and their bars.

use crate::bars::{Bar, Divisor, Figure, Limit, cpu};
use crate::behind::Way;
use crate::cells::{Cell, Idle};
use crate::entrants::{Entrant, Peer};
use crate::load::{Asks, Carrier, Load, Page};

/// The lengths of all files behind.
pub const FILES: [usize; 4] = [SMALLEST, SMALL, LARGE, HUGE];

const SMALLEST: usize = 64;
const SMALL: usize = 4 << 10;
const LARGE: usize = 100 << 10;
/// So much that its bytes alone weigh. An echo passes them twice: 512 of these are a GiB.
const HUGE: usize = 1 << 20;

/// All cells but the idle one, and how what is asked is passed on.
pub const CELLS: &[(Way, Cell)] = &[
    (Way::Bytes, Cell { bars: &[best(0.75)], entrants: AND_ENVOY, ..cell("bytes-64-d1", echo(SMALLEST, 64, 1)) }),
    (Way::Bytes, Cell { bars: &[best(0.85)], ..cell("bytes-64-d16", echo(SMALLEST, 64, 16)) }),
    // Nothing of that is the proxy's time: the whole machine is compared, the two ends included.
    (Way::Kernel, Cell { bars: &[whole(0.75)], ..cell("kernel-64-d1", echo(SMALLEST, 64, 1)) }),
    (Way::Kernel, Cell { bars: &[whole(0.85)], ..cell("kernel-64-d16", echo(SMALLEST, 64, 16)) }),
    (Way::Bytes, cell("bytes-4096-d1", echo(SMALL, 64, 1))),
    (Way::Bytes, Cell { bars: &[best(1.0)], ..cell("bytes-1048576", echo(HUGE, 8, 1)) }),
    (Way::Bytes, Cell { bars: &[best(0.8)], ..cell("bytes-new", get(Page::FileAnew, SMALLEST)) }),
    (Way::Http, Cell { bars: &[best(0.75)], entrants: AND_ENVOY, ..cell("pass-4096-d1", get(Page::File, SMALL)) }),
    (Way::Http, cell("pass-64-d1", get(Page::File, SMALLEST))),
    (Way::Http, cell("pass-4096-new", get(Page::FileAnew, SMALL))),
    (Way::Http, cell("pass-102400", get(Page::File, LARGE))),
    (Way::Http, cell("pass-1048576", get(Page::File, HUGE))),
    (Way::Bytes, Cell { bars: BY_EACH, ..third("bytes-64-third", echo(SMALLEST, 64, 1)) }),
    (Way::Http, Cell { bars: BY_EACH, entrants: AND_ENVOY, ..third("pass-4096-third", get(Page::File, SMALL)) }),
];

/// Pairs that have passed bytes and then rest: nearly as many as a process may have that is allowed 20,000 descriptors.
pub const IDLE: Idle =
    Idle { name: "idle-pairs", connections: 9_800, rss_bytes: Limit::AtMost(1024.0), cpu_ms_per_s: Limit::Under(1.0) };

/// What `--only` may name.
pub fn names() -> impl Iterator<Item = &'static str> {
    CELLS.iter().map(|(_, cell)| cell.name).chain([IDLE.name])
}

const ALL: &[Entrant] = &[Entrant::Corelane, Entrant::Peer(Peer::Haproxy), Entrant::Peer(Peer::Nginx)];
/// Envoy is shown where a single message or request is what counts, and judged nowhere.
const AND_ENVOY: &[Entrant] =
    &[Entrant::Corelane, Entrant::Peer(Peer::Haproxy), Entrant::Peer(Peer::Nginx), Entrant::Peer(Peer::Envoy)];

/// No later than either proxy.
const BY_EACH: &[Bar] = &[no_later(Peer::Haproxy), no_later(Peer::Nginx)];

const fn no_later(than: Peer) -> Bar {
    Bar { figure: Figure::TailLatency, ..cpu(Divisor::One(Entrant::Peer(than)), 1.0) }
}

/// Against the best of the proxies.
const fn best(at_most: f64) -> Bar {
    cpu(Divisor::BestProxy, at_most)
}

/// The same by what the whole machine used.
const fn whole(at_most: f64) -> Bar {
    Bar { figure: Figure::Machine, ..best(at_most) }
}

const fn cell(name: &'static str, load: Load) -> Cell {
    Cell { name, load, entrants: ALL, bars: &[], stand_in: Entrant::Corelane, idle_cpu: false, part: None }
}

/// An open loop at a third of each one's own rate: how long the slowest of a hundred requests takes where no proxy is busy.
const fn third(name: &'static str, load: Load) -> Cell {
    Cell { part: Some(1.0 / 3.0), ..cell(name, load) }
}

const fn echo(bytes: usize, connections: usize, depth: usize) -> Load {
    Load { asks: Asks::Echo, transport: Carrier::Tcp, bytes, connections, depth, spin: false }
}

const fn get(page: Page, bytes: usize) -> Load {
    Load { asks: Asks::Get(page), ..echo(bytes, 64, 1) }
}
