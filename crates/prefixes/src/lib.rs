//! Longest prefix match for routes and sets of addresses: IPv4 and IPv6, changed live, a million prefixes and more.
//!
//! The crate is pure: no input or output, no dependencies, no `unsafe`. A value is 32 bits; what it stands for is the caller's.
//!
//! ```
//! use corelane_prefixes::{Prefix, Prefixes};
//! use std::net::Ipv4Addr;
//!
//! let mut routes = Prefixes::<Ipv4Addr>::new();
//! routes.insert("0.0.0.0/0".parse()?, 1)?;
//! routes.insert(Prefix::new(Ipv4Addr::new(10, 9, 0, 0), 16)?, 2)?;
//! assert_eq!(routes.find(Ipv4Addr::new(10, 9, 1, 1)), Some((16, 2)));
//! assert_eq!(routes.find(Ipv4Addr::new(192, 0, 2, 1)), Some((0, 1)));
//! # Ok::<(), corelane_prefixes::Error>(())
//! ```
#![doc = include_str!("../DESIGN.md")]
#![forbid(unsafe_code)]

mod address;
mod blocks;
mod error;
mod groups;
mod hashed;
mod iter;
mod node;
mod prefix;
mod prefixes;
mod tree;

pub use address::Address;
pub use error::Error;
pub use iter::Iter;
pub use prefix::Prefix;
pub use prefixes::{PREFIXES_MAX, Prefixes};
