//! Metrics, health and a dashboard of a program of lanes, over HTTP.
//!
//! ```text
//! page --Reader--> snapshot --[names]--> OpenMetrics text   /metrics
//!                           --[health]-> 200 or 503         /livez, /readyz
//!                           --[history]-> JSON and events   / (the dashboard), /history, /events
//! lanes --[upstreams]--> rows of upstreams, in /metrics and on the dashboard, where a service has some
//! file --[graphs]--> JSON                                   /gateway (a page), /gateway/day, /gateway/week, /gateway/year
//! ```
//!
//! One thread serves all of it, and never a lane: it reads the counter page, as another process would, so it answers while a lane is stuck, and
//! says so. Of upstreams alone lanes are asked, and waited for for a tenth of a second at the most. What clients can cost is bounded: [`CLIENTS_MAX`] at a time, of which the one that has been there longest makes room for the next,
//! and [`PATIENCE`] for each that asks; the dashboard's streams have a bound of their own. Where there is no room, the address that has most gives way, with
//! its oldest. Answers are made once for all who ask in the same tenth of a second.
//!
//! ```no_run
//! use corelane_metrics::{Listen, Metrics};
//! # fn run(running: &mut corelane::lanes::Running) -> Result<(), Box<dyn std::error::Error>> {
//! let listen = Listen { metrics: Some("127.0.0.1:9100".parse()?), ..Listen::default() };
//! let metrics = Metrics::beside(running, &listen)?;
//! # Ok(()) }
//! ```
#![forbid(unsafe_code)]

mod dashboard;
mod documentation;
mod error;
mod families;
pub mod graphs;
mod health;
mod names;
mod server;
mod text;
mod upstreams;

pub use dashboard::look;
pub use documentation::documentation;
pub use error::Error;
pub use families::More;
pub use names::{Family, Labels};
pub use server::{CLIENTS_MAX, Listen, Metrics, PATIENCE};
pub use upstreams::has_upstreams;
