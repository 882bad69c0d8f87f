//! For those who look after a program of lanes: what it counts, how its flows are steered, the machine below, and what is said.

#[cfg(feature = "control")]
pub mod control;
#[cfg(feature = "control")]
pub(crate) mod control_client;
#[cfg(feature = "control")]
pub(crate) mod control_socket;
#[cfg(feature = "packets")]
pub mod dispatch;
#[cfg(feature = "packets")]
pub mod gateway;
pub(crate) mod hasher;
pub mod machine;
pub mod messages;
#[cfg(feature = "profile")]
pub mod profile;
#[cfg(feature = "watch")]
pub mod wrong;

#[doc(inline)]
pub use corelane_rss as rss;
#[cfg(feature = "machine")]
pub use corelane_steer::verify;
pub use corelane_steer::{
    Error as SteeringError, InForce, LanePlan, PlannedLane, SelectionError, Settings as SteeringSettings, Steered, Steering,
    Topology, Warning,
};
#[doc(inline)]
pub use corelane_watch as watch;

/// Counts of the packet paths of a process's lanes, as its page tells them; and packets taken from them by another process (`channels=` in `--packet`). With the feature
/// `packets`.
#[cfg(feature = "packets")]
pub mod packets {
    pub use corelane_channel::{Broken, Consumer, PACKET_BYTES_MAX, Taken, take};
    pub use corelane_isr::dispatch::{
        Dispatch, NoDispatch, Number, Placement, ProtocolRow, Refused, Report, StreamCounts, StreamRow,
    };
    pub use corelane_seam::{PortKind, PortState};
    pub use corelane_stack::{port_states_of, ports_of, report_of};
}

/// How much of their time the lanes of a process give to packets (`,poll` in `--packet`): the controllers, their knobs and variables, and what a page tells of them.
/// A change is a [`dispatch::Change`]. With the feature `packets`.
#[cfg(feature = "packets")]
pub mod polling {
    pub use corelane_isr::polling::{Change, ChangeError, Controller, HZ, Knob, KnobError, Knobs, Settings, Variables, tune};
    pub use corelane_stack::{LanePolling, polling_of};
}

/// Serving as another user than root, who starts the program. With the feature `confine`.
#[cfg(feature = "confine")]
pub mod user {
    pub use corelane_confine::user::{Beginning, User};
}

/// Confining the program to what serving takes: its files, and its calls. With the feature `confine`.
#[cfg(feature = "confine")]
pub mod confine {
    pub use corelane_confine::{calls, paths};
}

/// The lines that an operator reads: written by a thread of their own, so that nobody waits for a reader.
///
/// A program with a log of its own takes each as a [`Record`](reports::Record), before its lanes start:
///
/// ```
/// use corelane::admin::reports::{self, Code, Level, Record};
///
/// let log = |record: &Record| {
///     if record.level <= Level::Warn {
///         println!("{:?} {} {:?} {}", record.level, record.code.map_or("", Code::as_str), record.lane, record.text);
///     }
/// };
/// assert!(reports::start_into(log)?);
/// reports::line(Record::new(Level::Info, "ready").of_program());
/// # Ok::<(), std::io::Error>(())
/// ```
pub mod reports {
    pub use corelane_os::report::{PATIENCE, flush, line, say, set_panic_hook, start, start_into};
    pub use corelane_seam::{Code, Level, Record};
}
