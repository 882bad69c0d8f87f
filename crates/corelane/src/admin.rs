//! For those who look after a program of lanes: what it counts, how its flows are steered, the machine below, and what is said.

pub mod control;
pub(crate) mod control_client;
pub(crate) mod control_socket;
pub mod dispatch;
pub mod machine;
pub mod messages;
pub mod profile;
pub mod wrong;

#[doc(inline)]
pub use corelane_rss as rss;
pub use corelane_steer::verify;
pub use corelane_steer::{
    Error as SteeringError, InForce, LanePlan, PlannedLane, SelectionError, Settings as SteeringSettings, Steered, Steering,
    Topology, Warning,
};
#[doc(inline)]
pub use corelane_watch as watch;

/// What the packet paths of a process's lanes count, as its page tells it; and packets taken from them by another process (`channels=` in `--packet`).
pub mod packets {
    pub use corelane_channel::{Broken, Consumer, PACKET_BYTES_MAX, Taken, take};
    pub use corelane_isr::dispatch::{
        Dispatch, NoDispatch, Number, Placement, ProtocolRow, Refused, Report, StreamCounts, StreamRow,
    };
    pub use corelane_seam::{PortKind, PortState};
    pub use corelane_stack::{port_faults_of, port_states_of, ports_of, report_of, sum_of};
}

/// Serving as another user than root, who starts the program.
pub mod user {
    pub use corelane_os::user::{Beginning, User};
}

/// Confining the program to what serving takes: its files, and its calls.
pub mod confine {
    pub use corelane_os::confine::{calls, paths};
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
