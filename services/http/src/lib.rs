//! HTTP/1.1 on lanes (RFC 9110, RFC 9112): files, and applications of one's own.
//!
//! ```no_run
//! use corelane::{Lanes, Result};
//! use corelane_http::{Http, Routes};
//!
//! fn main() -> Result<()> {
//!     let app = |_lane| {
//!         let mut routes = Routes::new(0_u64);
//!         routes.get("/", |_, _, _, reply| reply.text("hello\n"));
//!         routes.get("/count", |count, _, _, reply| {
//!             *count += 1;
//!             reply.text(&format!("{count} on this lane\n"))
//!         });
//!         Http::new(routes)
//!     };
//!     Lanes::per_core().serve("tcp://[::]:8080", app)?.run()
//! }
//! ```
#![doc = include_str!("../DESIGN.md")]
#![forbid(unsafe_code)]

mod answer;
mod application;
mod backlog;
#[cfg(test)]
mod bounds;
mod content;
mod counters;
mod deliver;
mod desk;
mod due;
mod entry;
mod exchange;
mod facts;
mod files;
mod fixed;
mod forward;
mod heads;
mod held;
mod hosts;
mod live;
mod log;
mod matched;
mod options;
mod ours;
mod outcome;
mod outgoing;
mod overdue;
mod parts;
mod prepared;
mod reply;
mod request;
mod routes;
mod rules;
mod service;
mod session;
mod settings;
mod sited;
mod timed;
mod tunnel;
mod typed;
mod unfit;
mod unsent;
mod who;
mod within;

pub use answer::{Answer, HEAD_BYTES_MAX};
pub use application::{Application, Exchange, First, Flow, Goes, Handled, Minds, Produced};
pub use counters::{HttpCounter, NoCounter};
pub use deliver::{Deliver, Now};
pub use entry::{DEFAULT_PORT, DEFAULT_TLS_PORT, ENTRY};
pub use files::Files;
pub use fixed::Fixed;
pub use forward::Forward;
pub use held::{Held, Later};
pub use hosts::{HostError, Hosts, SITES_MAX};
pub use log::{AccessLog, LogFormat};
pub use matched::Matched;
pub use outcome::{Answered, Begun, Switched};
pub use parts::Parts;
pub use prepared::Prepared;
pub use reply::Reply;
pub use request::Request;
pub use routes::{Handler, Routes};
pub use rules::{RULES_MAX, RuleError, Rules};
pub use service::Http;
pub use session::Session;
pub use settings::Settings;
pub use typed::FromRequest;
pub use unfit::Unfit;

pub use corelane_wire::http1;
