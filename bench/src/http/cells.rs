//! The cells of HTTP and their bars.

use crate::bars::{Bar, Divisor, PARITY, cpu};
use crate::cells::Cell;
use crate::entrants::{Entrant, Peer};
use crate::load::{Asks, Carrier, Load, Page, REPLY_BYTES};

const NGINX: Entrant = Entrant::Peer(Peer::Nginx);

/// What many write an application on.
pub const HYPER: Entrant = Entrant::Peer(Peer::Hyper);

const SMALL: usize = 4 << 10;
const LARGE: usize = 100 << 10;
/// So much that all of it is sent from the page cache, and nothing else weighs.
pub const HUGE: usize = 100 << 20;

/// The lengths of all files that are asked for.
pub const FILES: [usize; 3] = [SMALL, LARGE, HUGE];

/// All cells.
pub const CELLS: &[Cell] = &[
    Cell { bars: &[best(0.75)], ..cell("http-4096-d1", get(SMALL, 64, 1)) },
    Cell { bars: &[best(0.35)], ..cell("http-4096-d8", get(SMALL, 64, 8)) },
    Cell { bars: &[best(0.9)], ..cell("http-4096-new", Load { asks: Asks::Get(Page::FileAnew), ..get(SMALL, 64, 1) }) },
    Cell { bars: &[best(0.9)], ..cell("http-102400", get(LARGE, 64, 1)) },
    Cell { bars: &[cpu(Divisor::One(NGINX), PARITY)], ..cell("http-104857600", get(HUGE, 8, 1)) },
    Cell {
        bars: &[cpu(Divisor::One(Entrant::Echo), 1.3)],
        entrants: &[Entrant::Corelane, Entrant::Echo, NGINX, HYPER],
        ..cell("http-reply-8-d16", Load { asks: Asks::Get(Page::Reply), ..get(REPLY_BYTES, 64, 16) })
    },
];

const ALL: &[Entrant] = &[Entrant::Corelane, NGINX, Entrant::Peer(Peer::H2o), Entrant::Peer(Peer::Lighttpd)];

/// Against the best of the web servers.
const fn best(at_most: f64) -> Bar {
    cpu(Divisor::BestWebServer, at_most)
}

const fn cell(name: &'static str, load: Load) -> Cell {
    Cell { name, load, entrants: ALL, bars: &[], stand_in: Entrant::Corelane, idle_cpu: false, part: None }
}

/// Files of so many bytes.
const fn get(bytes: usize, connections: usize, depth: usize) -> Load {
    Load { asks: Asks::Get(Page::File), transport: Carrier::Tcp, bytes, connections, depth, spin: false }
}
