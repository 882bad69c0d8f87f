//! The servers behind a service of Corelane, its *upstreams*: who they are, which one is next, who is left out for a while, and what is counted of each.
//!
//! ```text
//! to=web.example:80,10.0.0.2:80*3        Targets: as the operator wrote them
//!        |  Due::Resolve, on a helper
//!        v
//! Upstreams, one table a lane            begin -> Upstream -> connected, answered | failed -> end
//!        ^  Due::Check, a connection
//! ```
//!
//! * **A value without a socket or a clock.** [`Upstreams`] is told what has happened and when. It says what is to be done ([`Upstreams::due`]): a name to be resolved, an
//!   upstream to be checked. [`Tended`] does both on a lane, for services over connections and over datagrams.
//! * **A name with several addresses is several upstreams.** Each has its own health and counters. They come and go as the name is resolved again. One that has gone is
//!   taken no more, and leaves when its last use has ended.
//! * **A source** names upstreams in its turn: a file, or SRV records. Helper threads look at it again and again; a source that fails, or is broken, leaves those that are known.
//! * **A use** is one request, or one connection of a proxy of bytes. It begins with the choice and ends exactly once. The choice by least connections counts uses.
//! * **Health.** An upstream that fails several times in a row is *ejected*: it is taken no more for a time that doubles with each ejection. Where several clients use it, failures that go with the bytes of one of them alone do not count. The last one in rotation is never ejected, and
//!   those that are ejected are taken before a client is turned away. An active check may say that an upstream is down; that one is taken by nobody.
//! * **Lanes share nothing**, so each lane has its own table, and judges by what it has seen itself.
#![forbid(unsafe_code)]

mod blame;
mod choice;
mod due;
pub mod entry;
mod health;
mod listed;
mod listing;
mod one;
mod operated;
mod probe;
mod reach;
mod settings;
mod shown;
mod source;
mod srv;
mod table;
mod targets;
mod tend;
mod tended;
mod times;
mod tried;

pub use blame::{failure_to_agree, failure_to_connect};
pub use due::{Due, Found};
pub use health::Ejected;
pub use listing::Listing;
pub use one::{Counts, Failure};
pub use operated::{Asked, Gathering, Named, Page, Question, SHOWN_MAX, Shown, since};
pub use probe::{Checked, Probe};
pub use reach::Reach;
pub use settings::{Balance, Check, Settings};
pub use shown::{Row, State};
pub use source::{LISTED_MAX, Source};
pub use table::Upstreams;
pub use targets::{ADDRESSES_MAX, Place, TARGETS_MAX, Target, TargetError, Targets, WEIGHT_MAX};
pub use tend::{Tending, address_key, client_key, flow_key};
pub use tended::Tended;
pub use times::Times;
pub use tried::{Caller, TRIES_MAX, Tried, Upstream};
