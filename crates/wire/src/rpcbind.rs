//! Where programs are found: the port mapper (RFC 1833 section 3) and rpcbind (section 2).
//!
//! Both are one program at one port. Version 2 speaks of ports and protocols, versions 3 and 4 of network identifiers
//! and universal addresses, which [`address`] reads and writes. Requests go both ways: a server gets them from a
//! [`Call`](crate::rpc::Call), a client writes them behind a [`CallHead`](crate::rpc::CallHead).
//!
//! Offered are the null procedure, set, unset, get and dump. The others are answered with `PROC_UNAVAIL`: the indirect call
//! because it lets strangers reach programs from this machine and makes large answers of small questions, the rest because
//! nothing in use asks for them.
//!
//! Results are plain values: a `bool` for set and unset, a port as `u32` (0: not registered) or a [`UniversalAddress`] (empty:
//! not registered) for get, [`Mappings`] or [`Services`] for dump.

pub mod address;
mod portmap;
mod request;

pub use portmap::{Mapping, Mappings, PROTOCOL_TCP, PROTOCOL_UDP, PortRequest};
pub use request::{NetId, Owner, Service, ServiceRequest, Services, UniversalAddress};

/// Number of the program (RFC 1833 section 2.1).
pub const PROGRAM: u32 = 100_000;
/// Its port, over TCP and UDP (RFC 1833 section 2.1).
pub const PORT: u16 = 111;
/// Most entries in a dump that is read. RFC 1833 names no bound; busy machines have some hundreds.
pub const ENTRIES_MAX: u32 = 4096;

/// Procedures, in all versions (RFC 1833 sections 2.1 and 3.1).
const SET: u32 = 1;
const UNSET: u32 = 2;
const GET: u32 = 3;
const DUMP: u32 = 4;
