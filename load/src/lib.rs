//! The load generator: one engine on Corelane's own lanes, and one small file a protocol.
#![forbid(unsafe_code)]

pub mod arrivals;
pub mod course;
pub mod engine;
mod error;
mod flights;
pub mod interval;
pub mod kinds;
mod pacer;
mod pattern;
pub mod plan;
mod random;
pub mod report;
pub mod workload;
pub mod workloads {
    //! One file a protocol.
    pub mod echo;
}

pub use error::Error;
