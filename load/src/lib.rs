//! The load generator: one engine on Corelane's own lanes, and one small file a protocol.
#![doc = include_str!("../DESIGN.md")]
#![forbid(unsafe_code)]

pub mod aim;
mod aiming;
pub mod amounts;
pub mod arrivals;
pub mod buckets;
pub mod collector;
pub mod course;
pub mod curve;
pub mod datagram_engine;
mod ends;
pub mod engine;
mod error;
mod facts;
mod flights;
pub mod hdr;
pub mod html;
pub mod interval;
pub mod kinds;
mod pace;
mod pacer;
mod particulars;
mod pattern;
pub mod place;
pub mod plan;
pub mod repeated;
pub mod report;
mod run;
pub mod secure;
pub mod self_test;
mod settle;
pub mod stats;
pub mod text;
mod verdict;
pub mod workload;
pub mod workloads;

pub use ends::Ends;
pub use error::Error;
pub use facts::{Watched, find_server, page_serving, services_at};
pub use run::{Beside, limits, measure, report_of, run};
pub use verdict::{Verdict, judge};
