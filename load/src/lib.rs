//! The load generator: one engine on Corelane's own lanes, and one small file a protocol.
#![forbid(unsafe_code)]

pub mod curve;
pub mod hdr;
pub mod interval;
pub mod kinds;
pub mod repeated;
pub mod report;
pub mod stats;
