//! evserver, the web server of one source, on each system of events: a page on a connection of its own for each request.

use crate::bars::{Bar, Divisor, Limit, PARITY, cpu};
use crate::cells::Cell;
use crate::entrants::{Entrant, Peer, ServerSystem};
use crate::load::{Asks, Carrier, Load, Page};

/// Bytes of the page.
const PAGE: usize = 3_931;

const KQUEUE: Entrant = Entrant::Peer(Peer::Evserver(ServerSystem::Kqueue));
const EPOLL: Entrant = Entrant::Peer(Peer::Evserver(ServerSystem::Epoll));

/// All of them under one load.
pub const CELL: Cell = Cell {
    name: "evserver-new",
    load: Load { asks: Asks::Get(Page::FileAnew), transport: Carrier::Tcp, bytes: PAGE, connections: 64, depth: 1, spin: false },
    entrants: &[
        KQUEUE,
        EPOLL,
        Entrant::Peer(Peer::Evserver(ServerSystem::Poll)),
        Entrant::Peer(Peer::Evserver(ServerSystem::Uring)),
    ],
    bars: &[Bar { of: KQUEUE, limit: Limit::AtMost(PARITY), ..cpu(Divisor::One(EPOLL), PARITY) }],
    stand_in: KQUEUE,
    idle_cpu: false,
    part: None,
};
