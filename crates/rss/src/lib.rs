//! Receive side scaling: from the header of a packet to the lane that serves it.
//!
//! ```text
//! Tuple or packet --HashTypes--> which fields --Toeplitz--> FlowId --Buckets--> Bucket --Table--> lane
//! ```
//!
//! The crate is pure: no input or output, no dependencies, no `unsafe`. Everything that has to agree about where a flow
//! goes (socket selection, packet programs, the simulator, tests, the load generator) asks it.
//!
//! Sources: Microsoft, "RSS Hashing Types" and "Verifying the RSS Hash Calculation" (Network Driver Design Guide);
//! FreeBSD, `sys/netinet/in_rss.c`, `sys/net/rss_config.c`; the RFCs that each item names.
//!
//! ```
//! use corelane_rss::{Buckets, FlowHasher, HashTypes, Key, Protocol, Table, Tuple};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let hasher = FlowHasher::new(&Key::MICROSOFT, HashTypes::DEFAULT);
//! let table = Table::even(Buckets::DEFAULT, 4)?;
//! let tuple = Tuple::new("66.9.149.187:2794".parse()?, "161.142.100.80:1766".parse()?, Protocol::TCP)?;
//! let hashed = hasher.tuple(&tuple).ok_or("this type is not hashed")?;
//! assert_eq!(hashed.flow.to_string(), "0x51ccc178");
//! assert_eq!(table.lane_of(hashed.flow), 0x51ccc178 % 128 % 4);
//! # Ok(())
//! # }
//! ```
#![doc = include_str!("../DESIGN.md")]
#![forbid(unsafe_code)]

mod batch;
mod bucket;
mod cause;
mod error;
mod hash_type;
mod hash_type_read;
mod hasher;
mod key;
mod lanes;
mod packet;
mod plan;
mod ports;
mod protocol;
mod rewrite;
mod shares;
mod spread;
mod table;
mod table_text;
mod toeplitz;
mod tuple;

pub use bucket::{Bucket, Buckets};
pub use cause::Cause;
pub use error::Error;
pub use hash_type::{HashType, HashTypes};
pub use hasher::{FlowHasher, Hashed, Verdict};
pub use key::Key;
pub use lanes::MOST_LANES;
pub use plan::FlowPlan;
pub use ports::{Outgoing, SourcePorts, Way};
pub use protocol::{Protocol, Transport};
pub use rewrite::Move;
pub use shares::Shares;
pub use spread::Spread;
pub use table::Table;
pub use toeplitz::{FlowId, ROWS, Toeplitz, bitwise};
pub use tuple::Tuple;
