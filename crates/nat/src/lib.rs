//! Translation of addresses and ports of IPv4 for lanes: source NAT ("masquerade") and port forwarding (RFC 4787, RFC 5382, RFC 5508).
//!
//! ```text
//! inside host -> Nat::outgoing -> session or forward: another source    -> outside
//! outside     -> Nat::incoming -> session or forward: another destination -> inside host
//! ```
//!
//! The crate is pure: no input or output, no clock, no `unsafe`. It rewrites packets in place, and checksums by what has changed.
//!
//! ```
//! use corelane_nat::{Nat, Settings, Verdict};
//! use corelane_rss::{Buckets, FlowHasher, HashTypes, Key, Table};
//! use std::sync::Arc;
//! # use corelane_wire::{packet::{IpProtocol, ipv4, udp}, xdr::Writer};
//! # let ip = ipv4::Header {
//! #     traffic: Default::default(), identification: 1, fragment: Default::default(), hops: 64, protocol: IpProtocol::UDP,
//! #     source: [10, 0, 0, 5].into(), destination: [198, 51, 100, 1].into(), options: Default::default(),
//! # };
//! # let mut memory = [0; 28];
//! # let mut writer = Writer::new(&mut memory);
//! # ip.emit(8, &mut writer)?;
//! # udp::Header { source: 4000, destination: 53 }.emit(&ip.addresses(), &[], &mut writer)?;
//!
//! let hasher = Arc::new(FlowHasher::new(&Key::MICROSOFT, HashTypes::ALL));
//! let table = Table::even(Buckets::DEFAULT, 4)?;
//! let settings = Settings::new([192, 0, 2, 1].into()).for_lane(2, 4);
//! let mut secret = 0_u64; // of real randomness
//! let mut nat = Nat::new(&settings, hasher, || { secret = secret.wrapping_add(0x9e37_79b9_7f4a_7c15); secret })?;
//! // `memory` holds a packet from 10.0.0.5, port 4000.
//! let verdict = nat.outgoing(0, &mut memory, |flow| table.lane_of(flow) == 2);
//! assert_eq!((verdict, &memory[12..16]), (Verdict::Translated, &[192, 0, 2, 1][..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![doc = include_str!("../DESIGN.md")]
#![forbid(unsafe_code)]

mod forwards;
mod index;
mod packet;
mod pool;
mod rewrite;
mod secret;
mod session;
mod sessions;
mod settings;
mod translate;
mod wheel;

pub use settings::{EXTERNALS_MAX, Error, FORWARDS_MAX, Forward, Mapping, SESSIONS_MAX, Settings, TIMEOUT_MAX, Timeouts};
pub use translate::{Cause, Counts, Nat, Verdict};
