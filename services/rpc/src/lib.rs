//! ONC RPC version 2 (RFC 5531): programs as a trait, served over connections with record marks and over datagrams.
//!
//! A program is one file: a type that implements [`Program`]. [`Rpc`] serves some of them over connections, [`RpcDatagrams`]
//! over datagrams.
//!
//! ```
//! use corelane::{Cx, Lanes};
//! use corelane_rpc::{Answered, Call, Program, Rpc, Unanswered};
//! use corelane_rpc::rpc;
//!
//! struct Adder;
//!
//! impl Program for Adder {
//!     const PROGRAM: rpc::Program = rpc::Program { number: 0x2000_0002, low: 1, high: 1 };
//!
//!     fn call(&mut self, cx: &mut Cx<'_>, call: Call<'_>) -> Result<Answered, Unanswered> {
//!         match call.procedure() {
//!             1 => call.serve(cx, |(a, b): (u32, u32)| a.wrapping_add(b)),
//!             _ => Err(call.procedure_unavailable()),
//!         }
//!     }
//! }
//!
//! let lanes = Lanes::per_core().serve("tcp://127.0.0.1:62049", |_lane| Rpc::new((Adder,)))?;
//! # drop(lanes);
//! # Ok::<(), corelane::Error>(())
//! ```
//!
//! [`client`] calls others' programs from a lane, [`registration`] tells rpcbind where one's own are.
//!
//! What is owed for a defect is decided in [`rpc`], and carried out here: the refusal is sent, the message
//! is dropped, or the connection closed. Credentials are looked into before a program is asked, for procedure 0 as well; and procedure 0,
//! which every program has by convention (RFC 5531 section 12.1), is answered here.
#![doc = include_str!("../DESIGN.md")]
#![forbid(unsafe_code)]

mod call;
pub mod client;
mod counters;
mod datagrams;
mod desk;
mod dispatch;
mod duplicates;
mod echo;
mod entry;
mod errand;
mod error;
mod held;
mod keeping;
pub mod lookup;
mod null;
mod program;
pub mod registration;
mod stream;
mod telling;

pub use call::{Answered, Call};
pub use counters::RpcCounter;
pub use datagrams::RpcDatagrams;
pub use duplicates::{DUPLICATE_AGE_MAX, DUPLICATE_BYTES_MAX, DUPLICATES_BYTES_MAX, DUPLICATES_MAX};
pub use echo::{ECHO, Echo, PAYLOAD_BYTES_MAX};
pub use entry::{DEFAULT_PORT, DEFAULT_TLS_PORT, ENTRY};
pub use error::Unanswered;
pub use held::{HELD_MAX, Held};
pub use null::{NFS, Null};
pub use program::{Outcomes, Program, Programs};
pub use stream::{FRAGMENTS_MAX, Rpc};

/// The formats that stand in signatures here: calls and replies, what arguments and results are made of, and what is wrong with bytes that are none.
pub use corelane_wire::{Error as WireError, rpc, xdr};
