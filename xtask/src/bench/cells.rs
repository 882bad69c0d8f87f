//! What is measured, and the bars that the ratios are held against: this file is the whole list.

use std::fmt;

use super::load::{Load, Transport};

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
    /// One of `bench/peers`.
    Peer(Peer),
}

/// The servers of `bench/peers`.
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
}

/// A ratio and the most it may be.
#[derive(Clone, Copy, Debug)]
pub struct Bar {
    /// The figure that the ratio is of.
    pub figure: Figure,
    /// Whose figure is divided.
    pub of: Entrant,
    /// By whose.
    pub by: Divisor,
    /// The most that the median ratio may be.
    pub at_most: f64,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Server CPU microseconds per request.
    Cpu,
    /// Median latency.
    MedianLatency,
}

/// What a figure is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Divisor {
    /// The runtime with the lowest median CPU per request in this cell.
    BestFramework,
    /// One entrant.
    One(Entrant),
}

/// The peers among which the best framework is looked for.
pub const FRAMEWORKS: [Peer; 3] = [Peer::Tokio, Peer::Compio, Peer::Monoio];

/// Connections of the idle cell, and its bars.
pub const IDLE: Idle = Idle { name: "idle-10000", connections: 10_000, rss_bytes_at_most: 600.0, cpu_ms_per_s_under: 1.0 };

/// A cell of connections that have echoed once and then rest; exact, not paired.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    /// What `--only` and the tables call it.
    pub name: &'static str,
    /// Connections.
    pub connections: usize,
    /// The most that the server's resident memory may grow per connection.
    pub rss_bytes_at_most: f64,
    /// What the resting server's CPU time must stay under.
    pub cpu_ms_per_s_under: f64,
}

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
    Bar { figure: Figure::Cpu, of: Entrant::OtherDriver, by: Divisor::One(Entrant::Corelane), at_most: 1.5 };

/// All cells but the idle one.
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
            at_most: 0.5,
        }],
        stand_in: Entrant::Peer(Peer::Epoll),
        idle_cpu: true,
    },
];

const fn tcp(bytes: usize, connections: usize, depth: usize) -> Load {
    Load { transport: Transport::Tcp, bytes, connections, depth, spin: false }
}

const fn udp(transport: Transport) -> Load {
    Load { transport, bytes: 510, connections: 8, depth: 32, spin: false }
}

const fn cpu(by: Divisor, at_most: f64) -> Bar {
    Bar { figure: Figure::Cpu, of: Entrant::Corelane, by, at_most }
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
        }
    }

    /// What it asks the operating system through.
    pub fn driver(self) -> &'static str {
        match self {
            Peer::Epoll | Peer::Tokio => "epoll",
            Peer::Udp | Peer::UdpGro => "blocking",
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
            Entrant::Peer(peer) => f.write_str(peer.program().trim_start_matches("peer-")),
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Figure::Cpu => "CPU per request",
            Figure::MedianLatency => "p50 latency",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bar_is_about_entrants_of_its_cell() {
        for cell in CELLS {
            for bar in cell.bars {
                assert!(cell.entrants.contains(&bar.of), "{}", cell.name);
                match bar.by {
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
    fn names_are_unique() {
        let mut names: Vec<_> = CELLS.iter().map(|cell| cell.name).chain([IDLE.name]).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
