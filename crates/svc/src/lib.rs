//! Services on a lane: listeners, connections, gathered output, tickets, back-pressure, limits, endings, drain.
//!
//! A user implements [`StreamService`] or [`DatagramService`]; [`Services`] runs any number of them as the work of one lane.
#![doc = include_str!("../DESIGN.md")]
#![forbid(unsafe_code)]

mod connection;
mod cx;
mod datagrams;
mod drain;
mod drops;
mod endings;
mod error;
mod fence;
mod flows;
mod flush;
mod found;
mod input;
mod limits;
mod listeners;
mod machine;
mod memory;
mod outgoing;
mod output;
mod passage;
mod port;
mod replies;
mod service;
mod services;
mod settings;
mod slab;
mod steering;
mod streams;
mod table;
mod ticket;
mod timers;
mod transform;

pub use cx::Cx;
pub use error::{Error, Refused};
pub use flows::{Flow, Flows};
pub use input::{Input, Taken};
pub use limits::{Limits, SECOND};
pub use output::Output;
pub use replies::Replies;
pub use service::{ConnectionId, DatagramService, Ending, Next, Order, Peer, SocketId, StreamService};
pub use services::{LANE_CONNECTIONS_MAX, Message, Services, Sharing};
pub use steering::{Command, MakeSocket, Place, Reply, Selected, Selection, Steer, discard};
pub use ticket::Ticket;
pub use timers::Timer;
pub use transform::{Learned, MakeTransform, PASS_BYTES, Passage, Progress, Side, Transform, TransformError};
