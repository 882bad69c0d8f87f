//! What is measured, and the bars that the ratios are held against: this file is the whole list.

use std::fmt;

use corelane_load::stats::Estimate;
use serde::Serialize;

use super::load::{Asks, Load, Transport};

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
}

/// Who takes part in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entrant {
    /// Corelane with the driver that was asked for.
    Corelane,
    /// Corelane with the driver that `auto` does not choose.
    OtherDriver,
    /// Corelane that spins for so many microseconds before it sleeps.
    Spinning(u32),
    /// Corelane's echo service with messages of [`ECHO_BYTES`], whatever the cell asks for.
    Echo,
    /// One of `bench/peers`.
    Peer(Peer),
}

/// The servers of `bench/peers`, and those that come as packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The plain epoll loop.
    Epoll,
    /// recvfrom/sendto.
    Udp,
    /// UDP_GRO and UDP_SEGMENT.
    UdpGro,
    /// tokio, current_thread.
    Tokio,
    /// compio.
    Compio,
    /// monoio.
    Monoio,
    /// libtirpc's server loop.
    Libtirpc,
    /// nfs-ganesha.
    Ganesha,
}

/// A figure or a ratio, and what it may be.
#[derive(Clone, Copy, Debug)]
pub struct Bar {
    /// The figure.
    pub figure: Figure,
    /// Whose it is.
    pub of: Entrant,
    /// What it is divided by.
    pub by: Divisor,
    /// What the median of the rounds may be.
    pub limit: Limit,
}

/// What a figure may be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// This or less.
    AtMost(f64),
    /// Less than this.
    Under(f64),
    /// This or more.
    AtLeast(f64),
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Server CPU microseconds per request.
    Cpu,
    /// Median latency.
    MedianLatency,
    /// Share of one CPU that the server uses.
    ServerLoad,
    /// CPU time per request of the generator, divided by the server's.
    GeneratorCost,
    /// Calls that send, by request that the server counts; exact.
    SendsPerRequest,
    /// Answered requests per second.
    Rate,
}

/// What a figure is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Divisor {
    /// Nothing: it stands for itself.
    Nothing,
    /// The runtime with the lowest median CPU per request in this cell.
    BestFramework,
    /// One entrant.
    One(Entrant),
}

/// The peers among which the best framework is looked for.
pub const FRAMEWORKS: [Peer; 3] = [Peer::Tokio, Peer::Compio, Peer::Monoio];

/// Connections of the idle cell, and its bars.
pub const IDLE: Idle =
    Idle { name: "idle-10000", connections: 10_000, rss_bytes: Limit::AtMost(600.0), cpu_ms_per_s: Limit::Under(1.0) };

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
    Entrant::Peer(Peer::Epoll),
    Entrant::Peer(Peer::Tokio),
    Entrant::Peer(Peer::Compio),
    Entrant::Peer(Peer::Monoio),
];

const UDP_ENTRANTS: &[Entrant] =
    &[Entrant::Corelane, Entrant::OtherDriver, Entrant::Peer(Peer::Udp), Entrant::Peer(Peer::UdpGro), Entrant::Peer(Peer::Tokio)];

const TO_FRAMEWORK: Bar = cpu(Divisor::BestFramework, 1.0);

const OTHER_DRIVER: Bar =
    Bar { figure: Figure::Cpu, of: Entrant::OtherDriver, by: Divisor::One(Entrant::Corelane), limit: Limit::AtMost(1.5) };

/// All cells of echo but the idle one.
pub const CELLS: &[Cell] = &[
    Cell {
        name: "tcp-64-c64-d16",
        load: tcp(64, 64, 16),
        entrants: TCP_ENTRANTS,
        bars: &[TO_FRAMEWORK, OTHER_DRIVER],
        stand_in: Entrant::Peer(Peer::Epoll),
        idle_cpu: false,
    },
    Cell {
        name: "tcp-64-c64-d1",
        load: tcp(64, 64, 1),
        entrants: TCP_ENTRANTS,
        bars: &[TO_FRAMEWORK, OTHER_DRIVER],
        stand_in: Entrant::Peer(Peer::Epoll),
        idle_cpu: false,
    },
    Cell {
        name: "tcp-4096-c64-d16",
        load: tcp(4_096, 64, 16),
        entrants: TCP_ENTRANTS,
        bars: &[cpu(Divisor::BestFramework, 0.7), cpu(Divisor::One(Entrant::Peer(Peer::Epoll)), 1.15), OTHER_DRIVER],
        stand_in: Entrant::Peer(Peer::Epoll),
        idle_cpu: false,
    },
    Cell {
        name: "udp-510-trains",
        load: udp(Transport::UdpTrains),
        entrants: UDP_ENTRANTS,
        bars: &[cpu(Divisor::One(Entrant::Peer(Peer::Tokio)), 0.07), OTHER_DRIVER],
        stand_in: Entrant::Peer(Peer::UdpGro),
        idle_cpu: false,
    },
    Cell {
        name: "udp-510-singles",
        load: udp(Transport::UdpSingles),
        entrants: UDP_ENTRANTS,
        bars: &[cpu(Divisor::One(Entrant::Peer(Peer::Udp)), 0.85), OTHER_DRIVER],
        stand_in: Entrant::Peer(Peer::UdpGro),
        idle_cpu: false,
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
    },
    Cell {
        name: "load-udp-510-trains",
        load: udp(Transport::UdpTrains),
        entrants: &[PLAIN_TRAINS],
        bars: &[saturates(PLAIN_TRAINS), as_cheap(PLAIN_TRAINS)],
        stand_in: PLAIN_TRAINS,
        idle_cpu: false,
    },
    // Trains as long as a datagram may be: what a train costs beside its bytes weighs less.
    Cell {
        name: "load-udp-510-long-trains",
        load: Load { connections: 4, depth: 128, ..udp(Transport::UdpTrains) },
        entrants: &[PLAIN_TRAINS],
        bars: &[saturates(PLAIN_TRAINS), as_cheap(PLAIN_TRAINS)],
        stand_in: PLAIN_TRAINS,
        idle_cpu: false,
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
    Load { asks: Asks::Echo, transport: Transport::Tcp, bytes, connections, depth, spin: false }
}

const fn udp(transport: Transport) -> Load {
    Load { asks: Asks::Echo, transport, bytes: 510, connections: 8, depth: 32, spin: false }
}

/// Corelane's server CPU per request, and what it may be of another's.
pub const fn cpu(by: Divisor, at_most: f64) -> Bar {
    Bar { figure: Figure::Cpu, of: Entrant::Corelane, by, limit: Limit::AtMost(at_most) }
}

impl Limit {
    /// Whether `value` keeps it.
    pub fn is_met(self, value: f64) -> bool {
        match self {
            Limit::AtMost(bar) => value <= bar,
            Limit::Under(bar) => value < bar,
            Limit::AtLeast(bar) => value >= bar,
        }
    }

    /// Whether one end of the interval keeps it and the other does not.
    pub fn is_open(self, estimate: &Estimate) -> bool {
        self.is_met(estimate.low) != self.is_met(estimate.high)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::AtMost(bar) => write!(f, "{bar}"),
            Limit::Under(bar) => write!(f, "under {bar}"),
            Limit::AtLeast(bar) => write!(f, "at least {bar}"),
        }
    }
}

impl Cell {
    /// What `entrant` is loaded with.
    pub fn load_of(&self, entrant: Entrant) -> Load {
        match entrant {
            Entrant::Echo => Load { asks: Asks::Echo, bytes: ECHO_BYTES, ..self.load },
            _ => self.load,
        }
    }
}

impl Entrant {
    /// Whether it is the project's own server.
    pub fn is_corelane(self) -> bool {
        !matches!(self, Entrant::Peer(_))
    }
}

impl Peer {
    /// The name of its program.
    pub fn program(self) -> &'static str {
        match self {
            Peer::Epoll => "peer-epoll",
            Peer::Udp => "peer-udp",
            Peer::UdpGro => "peer-udp-gro",
            Peer::Tokio => "peer-tokio",
            Peer::Compio => "peer-compio",
            Peer::Monoio => "peer-monoio",
            Peer::Libtirpc => "peer-libtirpc",
            Peer::Ganesha => "ganesha.nfsd",
        }
    }

    /// What it asks the operating system through.
    pub fn driver(self) -> &'static str {
        match self {
            Peer::Epoll | Peer::Tokio | Peer::Ganesha => "epoll",
            Peer::Udp | Peer::UdpGro => "blocking",
            Peer::Libtirpc => "poll",
            Peer::Compio | Peer::Monoio => "uring",
        }
    }
}

impl fmt::Display for Entrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Entrant::Corelane => f.write_str("corelane"),
            Entrant::OtherDriver => f.write_str("corelane, other driver"),
            Entrant::Spinning(us) => write!(f, "corelane --spin {us}"),
            Entrant::Echo => f.write_str("corelane echo"),
            Entrant::Peer(Peer::Ganesha) => f.write_str("nfs-ganesha"),
            Entrant::Peer(peer) => f.write_str(peer.program().trim_start_matches("peer-")),
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Figure::Cpu => "CPU per request",
            Figure::MedianLatency => "p50 latency",
            Figure::ServerLoad => "share of its CPU used",
            Figure::GeneratorCost => "generator's CPU per request / its own",
            Figure::SendsPerRequest => "sends per request",
            Figure::Rate => "requests per second",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::rpc::CELLS as RPC_CELLS;
    use super::*;

    #[test]
    fn every_bar_is_about_entrants_of_its_cell() {
        for cell in CELLS.iter().chain(GENERATOR_CELLS).chain(RPC_CELLS) {
            for bar in cell.bars {
                assert!(cell.entrants.contains(&bar.of), "{}", cell.name);
                match bar.by {
                    Divisor::Nothing => {}
                    Divisor::One(entrant) => {
                        assert!(cell.entrants.contains(&entrant), "{}", cell.name)
                    }
                    Divisor::BestFramework => {
                        let all = FRAMEWORKS.map(Entrant::Peer);
                        assert!(all.iter().all(|peer| cell.entrants.contains(peer)), "{}", cell.name);
                    }
                }
            }
            assert!(cell.entrants.contains(&cell.stand_in), "{}", cell.name);
        }
    }

    #[test]
    fn a_limit_is_kept_on_its_side_only() {
        let met = |limit: Limit| [0.9, 1.0, 1.1].map(|value| limit.is_met(value));
        assert_eq!(met(Limit::AtMost(1.0)), [true, true, false]);
        assert_eq!(met(Limit::Under(1.0)), [true, false, false]);
        assert_eq!(met(Limit::AtLeast(1.0)), [false, true, true]);
    }

    #[test]
    fn an_interval_on_both_sides_of_its_bar_leaves_that_open() {
        let open = |limit: Limit, low, high| limit.is_open(&Estimate { median: low, low, high });
        for limit in [Limit::AtMost(1.0), Limit::Under(1.0), Limit::AtLeast(1.0)] {
            assert!(open(limit, 0.9, 1.1), "{limit}");
            assert!(!open(limit, 0.8, 0.9) && !open(limit, 1.1, 1.2), "{limit}");
        }
        assert!(!open(Limit::AtMost(1.0), 0.9, 1.0) && open(Limit::AtMost(1.0), 1.0, 1.1));
        assert!(!open(Limit::AtLeast(1.0), 1.0, 1.1) && open(Limit::AtLeast(1.0), 0.9, 1.0));
    }

    #[test]
    fn names_are_unique() {
        let cells = CELLS.iter().chain(GENERATOR_CELLS).chain(RPC_CELLS).map(|cell| cell.name);
        let mut names: Vec<_> = cells.chain([IDLE.name, OPEN_LOOP.name]).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
