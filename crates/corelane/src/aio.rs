//! Connections by `async fn`, on the lane's own executor: for code that reads better so, and for what is written against futures.
//!
//! ```no_run
//! use corelane::Lanes;
//! use corelane::aio::{self, Connection, Lane};
//!
//! async fn echo(_lane: Lane, connection: Connection) -> aio::Result<()> {
//!     while let Some(bytes) = connection.read().await? {
//!         connection.send_all(bytes).await?;
//!     }
//!     Ok(())
//! }
//!
//! Lanes::per_core().serve("tcp://[::1]:60007", |_lane| aio::each(echo))?.run()
//! # ; Ok::<(), corelane::Error>(())
//! ```
//!
//! [`each`] makes a service of an `async fn` that is called for each connection, [`main`] of one that is called once on each lane. All that it is given
//! stays on that lane: futures need no `Send`, and nothing is locked. Transforms (TLS) work below as they do below any service.
//!
//! # What may be relied on
//!
//! * **A dropped future has lost nothing.** Only memory of the lane is ever lent to the system. A read that is dropped leaves its bytes where the next
//!   one finds them. A message sent ([`Connection::send`]) leaves whole or not at all; [`Connection::write`] of much, which waits for room between its
//!   pieces, says how far it has come ([`Write::written`]).
//! * **Back-pressure is the connection's.** Who does not read is not read for: about two blocks (64 KiB each, less for small bytes) wait with the lane, the rest with
//!   the peer. A write waits as long as the output holds `output_high`, and a task that waits for bytes meanwhile gets them.
//! * **A connection lives as long as its [`Connection`]**: dropped, it is closed behind what was written. If the task of [`each`] panics, or is not let
//!   finish, its connection is broken off; the lane lives on, and counts it (`panics`).
//! * **An end is passed on as what it was**: a stream that failed is an error to its reader ([`Error::Ended`]), and who writes what it read says so in turn by [`Connection::abort`].
//! * **Each side ends for itself.** A task that says no more ([`Connection::finish`]) reads on to the end of what its peer says; a peer that has said all is answered, however
//!   late. Behind TLS as well.
//! * **A drain** takes what is readable when it begins and answers it; a task is at work from when it has been handed bytes until it waits for more, and its
//!   connection stays as long, within `drain_limit` and `answer_limit`. It may see the drain ([`Lane::draining`]), and may keep its connection open and read on
//!   until it is content ([`Connection::outlive_drain`], [`Connection::draining`]).
//! * **No connection silences its lane** by what its peer does: a turn polls each task at most once, and 256 of them; a task that wakes itself, or fifty thousand that wake at
//!   once, wait for the next turns, between which all others are served. A future that never returns from a poll holds its lane, as a call into any service would: that is for [`Lane::offload`].
//!   At the bound of tasks (`tasks_max`), or of its peer's share of them, a connection that was accepted is closed, and counted (`tasks_max_hits`).
//! * Limits are the service's ([`Limits`](crate::service::Limits)). Those of records (`read_limit`, `receive_rate_min`) count for what a task waits for
//!   ([`Connection::fill`]) as soon as something of it is there; who knows more of what its peer owes says so ([`Connection::peer_owes`]).
//! * After warm-up a read, a write and a wait with a timeout allocate nothing.

mod acceptors;
mod connection;
mod error;
mod lane;
mod link;
mod select;
mod serve;
mod shared;
mod sleeps;
mod waits;

pub use connection::{AtWork, Connection, Filling, Write};
pub use error::{Error, Result};
pub use lane::{Accepting, Lane, Sleep};
pub use select::{Either, select};
pub use serve::{NoCounter, Serve, each, main};
