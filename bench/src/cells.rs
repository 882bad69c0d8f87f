//! What is measured, and the bars that the ratios are held against: this file is the whole list.

use super::bars::{BESIDE, Bar, Divisor, Figure, Limit, PARITY, cpu};
use super::entrants::{Entrant, Peer};
use super::load::{Asks, Carrier, Load};

/// A load that several servers are put under, and what is asked of the outcome.
#[derive(Debug)]
pub struct Cell {
    /// What `--only` and the tables call it.
    pub name: &'static str,
    /// The load.
    pub load: Load,
    /// Who takes part.
    pub entrants: &'static [Entrant],
    /// What is judged.
    pub bars: &'static [Bar],
    /// Who is judged in Corelane's place when only peers run.
    pub stand_in: Entrant,
    /// Also measure what an idle server costs.
    pub idle_cpu: bool,
    /// An open loop: each server is offered this part of the rate at which it has answered as fast as it could.
    pub part: Option<f64>,
}

/// What `--only` may name.
pub fn names(cells: &'static [Cell]) -> impl Iterator<Item = &'static str> {
    cells.iter().map(|cell| cell.name)
}

/// Whether this cell is to be measured: all are where none was named.
pub fn wants(only: &[String], name: &str) -> bool {
    only.is_empty() || only.iter().any(|only| only == name)
}

/// Connections of the idle cell, and its bars.
pub const IDLE: Idle =
    Idle { name: "idle-10000", connections: 10_000, rss_bytes: Limit::AtMost(350.0), cpu_ms_per_s: Limit::Under(1.0) };

/// A cell of connections that have echoed and then rest; exact, not paired.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    /// What `--only` and the tables call it.
    pub name: &'static str,
    /// Connections.
    pub connections: usize,
    /// What the server's resident memory may grow by per connection.
    pub rss_bytes: Limit,
    /// What CPU time the resting server may use.
    pub cpu_ms_per_s: Limit,
}

/// Bytes of a message of [`Entrant::Echo`].
const ECHO_BYTES: usize = 64;

/// How long a Corelane that spins does so before it sleeps, in microseconds.
const SPIN_US: u32 = 50;

const TCP_ENTRANTS: &[Entrant] = &[
    Entrant::Corelane,
    Entrant::OtherDriver,
    Entrant::Async,
    Entrant::Peer(Peer::Epoll),
    Entrant::Peer(Peer::Tokio),
    Entrant::WithOurBlock(Peer::Tokio),
    Entrant::Peer(Peer::Compio),
    Entrant::WithOurBlock(Peer::Compio),
    Entrant::Peer(Peer::Glommio),
    Entrant::WithOurBlock(Peer::Glommio),
    Entrant::Peer(Peer::Monoio),
    Entrant::WithOurBlock(Peer::Monoio),
];

const UDP_ENTRANTS: &[Entrant] = &[
    Entrant::Corelane,
    Entrant::OtherDriver,
    Entrant::Peer(Peer::Udp),
    Entrant::Peer(Peer::UdpEpoll),
    Entrant::Peer(Peer::UdpBatch),
    Entrant::Peer(Peer::UdpGro),
    Entrant::Peer(Peer::Tokio),
];

const TO_FRAMEWORK: Bar = cpu(Divisor::BestFramework, PARITY);

const OTHER_DRIVER: Bar =
    Bar { figure: Figure::Cpu, of: Entrant::OtherDriver, by: Divisor::One(Entrant::Corelane), limit: Limit::AtMost(1.5) };

/// An echo by an async fn, against that by calls.
const fn to_calls(at_most: f64) -> Bar {
    Bar { of: Entrant::Async, ..cpu(Divisor::One(Entrant::Corelane), at_most) }
}

/// All cells of echo but the idle one.
pub const CELLS: &[Cell] = &[
    Cell {
        name: "tcp-64-c64-d16",
        load: tcp(64, 64, 16),
        entrants: TCP_ENTRANTS,
        bars: &[TO_FRAMEWORK, OTHER_DRIVER, to_calls(1.15)],
        stand_in: Entrant::Peer(Peer::Epoll),
        idle_cpu: false,
        part: None,
    },
    Cell {
        name: "tcp-64-c64-d1",
        load: tcp(64, 64, 1),
        entrants: TCP_ENTRANTS,
        bars: &[TO_FRAMEWORK, OTHER_DRIVER],
        stand_in: Entrant::Peer(Peer::Epoll),
        idle_cpu: false,
        part: None,
    },
    Cell {
        name: "tcp-4096-c64-d16",
        load: tcp(4_096, 64, 16),
        entrants: TCP_ENTRANTS,
        bars: &[
            cpu(Divisor::BestFramework, 0.7),
            cpu(Divisor::One(Entrant::Peer(Peer::Epoll)), 1.15),
            OTHER_DRIVER,
            to_calls(1.1),
        ],
        stand_in: Entrant::Peer(Peer::Epoll),
        idle_cpu: false,
        part: None,
    },
    Cell {
        name: "tcp-4096-c1-d128",
        load: tcp(4_096, 1, 128),
        entrants: TCP_ENTRANTS,
        bars: &[cpu(Divisor::BestFramework, 0.85), OTHER_DRIVER],
        stand_in: Entrant::Peer(Peer::Epoll),
        idle_cpu: false,
        part: None,
    },
    // Shown and not judged: with the cells above, the sizes and connections by which blocks are chosen.
    Cell {
        name: "tcp-16384-c8-d8",
        load: tcp(16 << 10, 8, 8),
        entrants: TCP_ENTRANTS,
        bars: &[],
        stand_in: Entrant::Peer(Peer::Epoll),
        idle_cpu: false,
        part: None,
    },
    Cell {
        name: "tcp-65536-c64-d4",
        load: tcp(64 << 10, 64, 4),
        entrants: TCP_ENTRANTS,
        bars: &[],
        stand_in: Entrant::Peer(Peer::Epoll),
        idle_cpu: false,
        part: None,
    },
    Cell {
        name: "udp-510-trains",
        load: udp(Carrier::UdpTrains),
        entrants: UDP_ENTRANTS,
        bars: &[
            cpu(Divisor::One(Entrant::Peer(Peer::Tokio)), 0.07),
            cpu(Divisor::One(Entrant::Peer(Peer::UdpGro)), PARITY),
            OTHER_DRIVER,
        ],
        stand_in: Entrant::Peer(Peer::UdpGro),
        idle_cpu: false,
        part: None,
    },
    Cell {
        name: "udp-510-singles",
        load: udp(Carrier::UdpSingles),
        entrants: UDP_ENTRANTS,
        bars: &[cpu(Divisor::One(Entrant::Peer(Peer::Udp)), 0.85), OTHER_DRIVER],
        stand_in: Entrant::Peer(Peer::UdpGro),
        idle_cpu: false,
        part: None,
    },
    Cell {
        name: "udp-1-socket-d1",
        load: Load { connections: 1, depth: 1, ..udp(Carrier::UdpSingles) },
        entrants: UDP_ENTRANTS,
        bars: &[cpu(Divisor::One(Entrant::Peer(Peer::UdpEpoll)), PARITY), cpu(Divisor::BestLoop, 1.15), OTHER_DRIVER],
        stand_in: Entrant::Peer(Peer::UdpEpoll),
        idle_cpu: false,
        part: None,
    },
    Cell {
        name: "tcp-64-c1-d1-spin",
        load: Load { spin: true, ..tcp(64, 1, 1) },
        entrants: &[Entrant::Spinning(SPIN_US), Entrant::Spinning(0), Entrant::Peer(Peer::Epoll)],
        bars: &[Bar {
            figure: Figure::MedianLatency,
            of: Entrant::Spinning(SPIN_US),
            by: Divisor::One(Entrant::Spinning(0)),
            limit: Limit::AtMost(0.5),
        }],
        stand_in: Entrant::Peer(Peer::Epoll),
        idle_cpu: true,
        part: None,
    },
];

/// The server that the generator must saturate with connections, and the fastest one with datagrams.
const PLAIN_LOOP: Entrant = Entrant::Peer(Peer::Epoll);
const PLAIN_TRAINS: Entrant = Entrant::Peer(Peer::UdpGro);

/// The cells of the generator itself but the open loop.
pub const GENERATOR_CELLS: &[Cell] = &[
    Cell {
        name: "load-tcp-64-c64-d16",
        load: tcp(64, 64, 16),
        entrants: &[PLAIN_LOOP],
        bars: &[saturates(PLAIN_LOOP), as_cheap(PLAIN_LOOP)],
        stand_in: PLAIN_LOOP,
        idle_cpu: false,
        part: None,
    },
    Cell {
        name: "load-udp-510-trains",
        load: udp(Carrier::UdpTrains),
        entrants: &[PLAIN_TRAINS],
        bars: &[saturates(PLAIN_TRAINS), as_cheap(PLAIN_TRAINS)],
        stand_in: PLAIN_TRAINS,
        idle_cpu: false,
        part: None,
    },
    // Trains as long as a datagram may be: what a train costs beside its bytes weighs less.
    Cell {
        name: "load-udp-510-long-trains",
        load: Load { connections: 4, depth: 128, ..udp(Carrier::UdpTrains) },
        entrants: &[PLAIN_TRAINS],
        bars: &[saturates(PLAIN_TRAINS), as_cheap(PLAIN_TRAINS)],
        stand_in: PLAIN_TRAINS,
        idle_cpu: false,
        part: None,
    },
];

/// Half the rate that the server of the first of [`GENERATOR_CELLS`] took, each request at its own time.
pub const OPEN_LOOP: OpenLoop = OpenLoop {
    name: "load-open-half",
    server: PLAIN_LOOP,
    load: Load { spin: true, ..tcp(64, 64, 16) },
    part: 0.5,
    deviation: Limit::AtMost(0.001),
    lag_us: Limit::Under(50.0),
};

/// A cell of an open loop; one run, not paired.
#[derive(Clone, Copy, Debug)]
pub struct OpenLoop {
    /// What the tables call it.
    pub name: &'static str,
    /// Who is loaded.
    pub server: Entrant,
    /// With what; its depth is the most that a connection may have in flight.
    pub load: Load,
    /// The part of the saturation rate that is offered.
    pub part: f64,
    /// What the achieved rate may deviate from the offered one by, as a share of it.
    pub deviation: Limit,
    /// How late the generator may send, in the median.
    pub lag_us: Limit,
}

const fn saturates(server: Entrant) -> Bar {
    Bar { figure: Figure::ServerLoad, of: server, by: Divisor::Nothing, limit: Limit::AtLeast(0.95) }
}

const fn as_cheap(server: Entrant) -> Bar {
    Bar { figure: Figure::GeneratorCost, of: server, by: Divisor::Nothing, limit: Limit::AtMost(1.2) }
}

const fn tcp(bytes: usize, connections: usize, depth: usize) -> Load {
    Load { asks: Asks::Echo, transport: Carrier::Tcp, bytes, connections, depth, spin: false }
}

const fn udp(transport: Carrier) -> Load {
    Load { asks: Asks::Echo, transport, bytes: 510, connections: 8, depth: 32, spin: false }
}

impl Cell {
    /// What `entrant` is loaded with.
    pub fn load_of(&self, entrant: Entrant) -> Load {
        match entrant {
            Entrant::Echo => Load { asks: Asks::Echo, bytes: ECHO_BYTES, ..self.load },
            _ => self.load,
        }
    }

    /// What is judged: its own bars, and that a build beside is not cheaper.
    pub fn all_bars(&self) -> impl Iterator<Item = Bar> {
        self.bars.iter().copied().chain([BESIDE])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entrants::{FRAMEWORKS, LOOPS, PROXIES, WEB_SERVERS};
    use crate::event::SERVER_CELL;
    use crate::http::CELLS as HTTP_CELLS;
    use crate::proxy::CELLS as PROXY_CELLS;
    use crate::rpc::CELLS as RPC_CELLS;
    use crate::tls::CELLS as TLS_CELLS;

    #[test]
    fn every_bar_is_about_entrants_of_its_cell() {
        let of_servers = CELLS.iter().chain(GENERATOR_CELLS).chain(RPC_CELLS).chain(HTTP_CELLS).chain(TLS_CELLS);
        for cell in of_servers.chain(PROXY_CELLS.iter().map(|(_, cell)| cell)).chain([&SERVER_CELL]) {
            for bar in cell.bars {
                assert!(cell.entrants.contains(&bar.of), "{}", cell.name);
                match bar.by {
                    Divisor::Nothing => {}
                    Divisor::One(entrant) => {
                        assert!(cell.entrants.contains(&entrant), "{}", cell.name)
                    }
                    Divisor::BestFramework => {
                        let mut all = FRAMEWORKS.iter().flat_map(|&peer| [Entrant::Peer(peer), Entrant::WithOurBlock(peer)]);
                        assert!(all.all(|entrant| cell.entrants.contains(&entrant)), "{}", cell.name);
                    }
                    Divisor::BestWebServer => {
                        let mut all = WEB_SERVERS.map(Entrant::Peer).into_iter();
                        assert!(all.all(|entrant| cell.entrants.contains(&entrant)), "{}", cell.name);
                    }
                    Divisor::BestProxy => {
                        let mut all = PROXIES.map(Entrant::Peer).into_iter();
                        assert!(all.all(|entrant| cell.entrants.contains(&entrant)), "{}", cell.name);
                    }
                    Divisor::BestLoop => {
                        let mut all = LOOPS.map(Entrant::Peer).into_iter();
                        assert!(all.all(|entrant| cell.entrants.contains(&entrant)), "{}", cell.name);
                    }
                }
            }
            assert!(cell.entrants.contains(&cell.stand_in), "{}", cell.name);
        }
    }

    #[test]
    fn every_cell_judges_another_build_beside() {
        assert!(CELLS.iter().all(|cell| cell.all_bars().any(|bar| bar.by == Divisor::One(Entrant::Beside))));
    }

    #[test]
    fn bars_of_parity_leave_room_for_what_two_equal_servers_measure() {
        let is_parity = |bar: &Bar| matches!(bar.limit, Limit::AtMost(limit) if (0.99..1.06).contains(&limit));
        let bars: Vec<_> = CELLS
            .iter()
            .chain(RPC_CELLS)
            .chain(HTTP_CELLS)
            .chain(TLS_CELLS)
            .chain([&SERVER_CELL])
            .flat_map(|cell| cell.bars)
            .filter(|bar| is_parity(bar))
            .collect();
        assert!(bars.len() >= 4 && bars.iter().all(|bar| bar.limit == Limit::AtMost(1.05)), "{bars:?}");
    }

    #[test]
    fn names_are_unique() {
        let cells = CELLS
            .iter()
            .chain(GENERATOR_CELLS)
            .chain(RPC_CELLS)
            .chain(HTTP_CELLS)
            .chain(TLS_CELLS)
            .chain([&SERVER_CELL])
            .map(|cell| cell.name);
        let mut names: Vec<_> = cells.chain([IDLE.name, OPEN_LOOP.name]).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
