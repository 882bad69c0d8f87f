//! Refusals of the service layer, and who is at fault.

use corelane_seam::{Address, Fault};
use std::fmt;
use std::net::SocketAddr;

/// A thing that the service layer could not do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The system does not let us listen there.
    Listen {
        /// Where.
        address: Address,
        /// Why.
        fault: Fault,
    },
    /// An address's socket could not be registered with the program that selects sockets for flows.
    Steering {
        /// The address.
        address: SocketAddr,
        /// Why, and the remedy.
        why: Box<str>,
        /// Whether that is because sockets of somebody else share the port.
        is_shared: bool,
    },
    /// The lane was given a table, and tells no flows apart.
    NoFlows,
    /// The service opened a connection with a session that is not of its own type.
    SessionType {
        /// The type of the session that was given.
        got: &'static str,
    },
    /// The service is at its bound of connections.
    Full {
        /// The bound.
        connections: u32,
    },
    /// The service is at its bound of datagram sockets.
    SocketsFull {
        /// The bound.
        sockets: u32,
    },
    /// A service over connections asked for a datagram socket.
    NotOverDatagrams,
    /// The lane drains or is leaving: it is too late for a new datagram socket, or for a change of lanes.
    Draining,
    /// Connections cannot go to a lane that is not there, or that they are on.
    NoSuchLane {
        /// Its number.
        lane: usize,
    },
    /// The connection is at its bound of timers.
    TimersFull {
        /// The bound.
        timers: u32,
    },
    /// The service is at its bound of alarms.
    AlarmsFull {
        /// The bound.
        alarms: u32,
    },
    /// The lane is at its bound of tasks.
    TasksFull,
}

/// Why a lane does not lend memory, or hold a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// Not now: too little is free, or the payer holds its share already. Later it may work.
    Memory,
    /// Not now: the connection holds as many requests as it may (`requests_in_flight_max`). Once one is answered, it may work.
    Tickets,
    /// Never: it is more than a lane of this size lends at once.
    TooLarge {
        /// The most bytes that it lends at once.
        most: usize,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("the lane has no memory to lend now: try again in the next call"),
            Self::Tickets => f.write_str(
                "the connection holds as many requests as it may (requests_in_flight_max): try again in the next call",
            ),
            Self::TooLarge { most } => {
                write!(f, "a lane with this memory lends at most {most} bytes at once: ask for less, or give it more memory")
            }
        }
    }
}

impl std::error::Error for Refused {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen { address, fault } => write!(f, "cannot listen on {address}: {fault}"),
            Self::Steering { address, why, .. } => write!(f, "flows to {address} cannot be steered: {why}"),
            Self::NoFlows => f.write_str(
                "the lane tells no flows apart, so a table says nothing to it: give it a hash first (Services::set_flows)",
            ),
            Self::SessionType { got } => write!(
                f,
                "the service opened a connection with a session of type {got}, which is not its own: pass its own Session type"
            ),
            Self::Full { connections } => {
                write!(f, "the service has {connections} connections open, its bound (connections_max): close some, or raise it")
            }
            Self::SocketsFull { sockets } => {
                write!(
                    f,
                    "the service has {sockets} datagram sockets open, its bound (datagram_sockets_max): close some, or raise it"
                )
            }
            Self::NotOverDatagrams => {
                f.write_str("a service over connections has no datagram sockets: add a service over datagrams beside it")
            }
            Self::Draining => f.write_str(
                "the lane drains or is leaving and opens no more sockets: stop as well, or ask again when it has left",
            ),
            Self::NoSuchLane { lane } => {
                write!(
                    f,
                    "no connection can go to lane {lane}, which is not there, or is the one that it is on: name another lane"
                )
            }
            Self::TimersFull { timers } => {
                write!(f, "the connection has {timers} timers, its bound (timers_per_connection_max): stop some first")
            }
            Self::AlarmsFull { alarms } => {
                write!(
                    f,
                    "the service has {alarms} alarms, its bound (alarms_max): stop some first, or use a connection's timers"
                )
            }
            Self::TasksFull => {
                f.write_str("the lane has as many tasks as its bound (tasks_max) allows: wait until some have ended, or raise it")
            }
        }
    }
}

impl std::error::Error for Error {}
