//! TLS before any stream service of Corelane: a [`Transform`](corelane::service::Transform) by rustls (TLS 1.3, RFC 8446, and 1.2, RFC 5246).
//!
//! The service knows nothing of it but what its [`Peer`](corelane::service::Peer) has learned: server name, protocol, the peer's certificates.
//!
//! ```no_run
//! # use corelane::{Cx, Input, Lanes, Next, Output, Peer, Silent, StreamService};
//! # struct Echo;
//! # impl StreamService for Echo {
//! #     type Talk = Silent;
//! #     type Session = ();
//! #     fn open(&mut self, _: &mut Cx, _: &Peer) {}
//! #     fn receive(&mut self, _: &mut Cx, _: &mut (), _: &mut Input, _: &mut Output) -> Next { Next::Continue }
//! # }
//! use corelane_tls::{Pem, Server};
//!
//! let server = Server::new([Pem::new("certificate.pem", "key.pem")]).protocols(&[b"echo/1"]);
//! server.before(Lanes::per_core().serve("tcp://[::1]:60443", |_lane| Echo)?)?.run()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![doc = include_str!("../DESIGN.md")]
#![forbid(unsafe_code)]

mod client;
mod clock;
pub mod entry;
mod error;
mod identity;
mod keys;
mod lane;
mod program;
mod provider;
mod server;
mod session;
mod tickets;
mod transform;
mod trust;
mod watch;
mod words;

pub use client::{Caller, Client, Trust};
pub use error::Error;
pub use identity::Pem;
pub use program::Clients;
pub use rustls;
pub use server::{Served, Server};
pub use transform::{PlainAnswer, Tls};
pub use watch::Watch;
