//! Corelane: network services with one lane per core.
//!
//! A lane is everything that one core needs to serve its share of the traffic: listener, connections, memory, timers,
//! tasks, counters. Implement [`StreamService`] or [`DatagramService`], and hand it to [`Lanes`].
#![doc = include_str!("../DESIGN.md")]
#![forbid(unsafe_code)]

pub mod control;
mod control_client;
mod control_socket;
mod drained;
mod driver;
mod driver_settings;
mod ending;
pub mod entry;
mod error;
mod lanes;
pub mod machine;
mod plan;
mod run;
mod url;

pub use corelane_lane::LaneSettings;
pub use corelane_lane::{Silence, Unheard};
pub use corelane_os::claim::Transport;
pub use corelane_os::clock::now as monotonic_nanoseconds;
pub use corelane_os::cpus::parse_list as parse_cpus;
pub use corelane_os::report::set_panic_hook as report_panics;
pub use corelane_os::report::{PATIENCE as REPORT_PATIENCE, flush as flush_reports, line as report, say, start as start_reports};
pub use corelane_os::signals::Signals;
pub use corelane_seam::{
    ARENA_BYTES_MAX, Arena, Arrival, Chain, DATAGRAM_BYTES_MAX, DATAGRAM_V6_BYTES_MAX, Datagrams, Error as ArenaError, Fault,
    File, FilePart, Interest, LEASE_BYTES_MAX, Lease, OpenOptions, Outcome, Reason, Segment, Shared, StreamOptions,
    TRAIN_DATAGRAMS_MAX,
};
pub use corelane_steer::verify;
pub use corelane_steer::{
    Error as SteeringError, InForce, Plan, PlannedLane, Settings as SteeringSettings, Steered, Steering, Topology, Warning,
};
pub use corelane_svc::{
    Asking, Asks, Call, ConnectionId, Cx, DatagramService, Ending, Error as ServiceError, Flow, Input, LANE_CONNECTIONS_MAX,
    Limits, Lost, Next, Notes, Order, Origin, Output, Peer, Refused, Remote, RemoteReply, Replies, SECOND, Says, Silent,
    SocketId, StreamService, Taken, Talk, Ticket, Timer, Transform, TransformError,
};
pub use corelane_watch as watch;
pub use corelane_watch::counters;
pub use drained::Drained;
pub use driver::{DriverChoice, DriverKind};
pub use driver_settings::DriverSettings;
pub use error::Error;
pub use lanes::Lanes;
pub use plan::lanes_for_this_machine;
pub use run::{Place, Running, can_listen};
pub use url::Url;

/// What Corelane's calls return.
pub type Result<T> = std::result::Result<T, Error>;
