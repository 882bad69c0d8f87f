//! Metrics, health and a dashboard of a program of lanes, over HTTP.
//!
//! ```text
//! page --Reader--> snapshot --[names]--> OpenMetrics text   /metrics
//!                           --[health]-> 200 or 503         /livez, /readyz
//!                           --[history]-> JSON and events   / (the dashboard), /history, /events
//! ```
//!
//! One thread serves all of it, and never a lane: it reads the counter page, as another process would, so it answers while a lane is stuck, and
//! says so. What clients can cost is bounded: [`CLIENTS_MAX`] at a time, of which the one that has been there longest makes room for the next,
//! and [`PATIENCE`] for each that asks; the dashboard's streams have a bound of their own. Answers are made once for all who ask in the same tenth of a second.
//!
//! ```no_run
//! use corelane::admin::watch::Reader;
//! use corelane_metrics::{Listen, Server};
//! # fn run(running: &corelane::lanes::Running) -> Result<(), Box<dyn std::error::Error>> {
//! let reader = Reader::of(running.counters())?;
//! let metrics = Server::start(reader, &Listen { metrics: Some("127.0.0.1:9100".parse()?), dashboard: None })?;
//! # Ok(()) }
//! ```
#![forbid(unsafe_code)]

mod dashboard;
mod error;
mod families;
mod health;
mod names;
mod server;
mod text;

pub use error::Error;
pub use names::{Family, documentation};
pub use server::{CLIENTS_MAX, Listen, PATIENCE, Server};
