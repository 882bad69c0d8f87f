//! Counter pages: what every lane counts, written where other processes can read it while the lane runs, hangs, or is
//! no more.
//!
//! A process has one page: a header, the names of its services and lanes, notes on what it had to do without, and
//! rows of 64-bit words, one for each lane and one for each service on each lane. A row has one writer, its lane, which
//! loads and stores without any read-modify-write; rows share no cache line. The [catalogue] declares each counter
//! of lanes and of all services once, and a service what only it counts ([`counters!`]); the layout, what is shown of it and [`documentation`] follow
//! from both. The names of a service's own counters stand in the page: a reader of another build reads them as well.
//!
//! Pages are looked at with the feature `reader`.
//!
//! ```
//! use corelane_watch::{Description, LaneCounter, LaneName, Page, ProcessId, Reader};
//!
//! let page = Page::heap(&Description {
//!     program: "example 1.0".into(),
//!     process: ProcessId::default(),
//!     started_unix_nanoseconds: 0,
//!     services: vec![],
//!     lanes: vec![LaneName { cpu: None, driver: "sim".into(), steering: "none".into() }],
//!     connections: 0,
//! })?;
//! page.lane(0)?.add(LaneCounter::TurnsProductive, 3);
//! let snapshot = Reader::of(&page)?.snapshot(0);
//! assert_eq!(snapshot.total.get(LaneCounter::TurnsProductive), 3);
//! # Ok::<(), corelane_watch::Error>(())
//! ```
#![doc = include_str!("../DESIGN.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(feature = "reader"), allow(dead_code))] // only readers call the other half of what lays a page out

pub mod catalogue;
mod connections;
mod counted;
#[cfg(feature = "reader")]
mod derived;
mod error;
#[cfg(feature = "reader")]
pub mod figures;
mod files;
mod histogram;
mod layout;
mod memory;
#[cfg(feature = "reader")]
mod model;
mod own;
mod packets;
mod page;
mod process;
mod process_id;
#[cfg(feature = "reader")]
mod reader;
mod sequence;
#[cfg(feature = "reader")]
mod snapshot;
mod steering;

pub use catalogue::{
    Counter, Declaration, Kind, LaneCounter, LaneState, PacketCounter, Ratio, Scope, ServiceCounter, StreamCounter, documentation,
};
pub use connections::{ConnectionRow, ConnectionRows, ConnectionState};
pub use corelane_os::page::{PageError, RunDirectory};
pub use counted::Counted;
#[cfg(feature = "reader")]
pub use derived::{LongTurns, STALL_NANOSECONDS, Serving, Shares, choice_of, is_wrong};
pub use error::Error;
pub use files::{PageFile, list, remove_stale};
pub use histogram::{BUCKETS, Histogram, HistogramDeclaration, LaneHistogram};
pub use layout::{
    BUCKETS_OF_TABLE_MAX, CONNECTION_ROWS_MAX, COUNTER_NAME_BYTES_MAX, COUNTER_UNIT_BYTES_MAX, LANES_MAX, NOTE_BYTES_MAX,
    NOTES_MAX, OWN_COUNTERS_MAX, PROTOCOLS_MAX, SERVICES_MAX,
};
#[cfg(feature = "reader")]
pub use model::{Count, LaneFigures, ProcessFigures, Quantiles, ServiceFigures};
#[doc(hidden)]
pub use own::check_declared;
pub use own::{Joined, OwnCounter};
pub use packets::{PacketsRow, PacketsWriter};
pub use page::{CounterName, Description, LaneName, LaneRow, LaneRowWriter, Page, Row, RowWriter, ServiceName, ServiceRow};
pub use process::Liveness;
pub use process_id::ProcessId;
#[cfg(feature = "reader")]
pub use reader::Reader;
#[cfg(feature = "reader")]
pub use snapshot::{LaneSnapshot, PacketsSnapshot, ServiceSnapshot, Snapshot, StreamSnapshot, Value, Values};
pub use steering::{SteeringRow, SteeringSnapshot};
