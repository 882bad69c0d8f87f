//! The load generator: one engine on Corelane's own lanes, and one small file a protocol.
#![forbid(unsafe_code)]

pub mod interval;
pub mod kinds;
pub mod report;
pub mod text;
