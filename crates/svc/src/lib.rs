//! Services on a lane: listeners, connections, gathered output, tickets, back-pressure, limits, endings, drain.
//!
//! A user implements [`StreamService`] or [`DatagramService`]; [`Services`] runs any number of them as the work of one lane.
#![doc = include_str!("../DESIGN.md")]
#![forbid(unsafe_code)]

mod accepting;
mod accounts;
mod alarms;
mod class;
mod connecting;
mod connection;
mod connections;
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
mod messages;
mod names;
mod notices;
mod outgoing;
mod output;
mod passage;
mod places;
mod port;
mod relief;
mod replies;
mod requests;
mod service;
mod services;
mod settings;
mod slab;
mod sockets;
mod state;
mod steered;
mod steering;
mod streams;
mod table;
mod ticket;
mod timers;
mod transform;
mod writer;

pub use alarms::When;
pub use cx::Cx;
pub use error::{Error, Refused};
pub use flows::{Flow, Flows};
pub use input::{Input, Taken};
pub use limits::Limits;
pub use messages::Message;
pub use names::{ConnectionId, Ending, Learned, Next, Order, Peer, SocketId};
pub use output::{Output, OutputWriter};
pub use places::{Place, Sharing};
pub use replies::Replies;
pub use service::{DatagramService, StreamService};
pub use services::{LANE_CONNECTIONS_MAX, Services};
pub use steering::{Command, MakeSocket, Reply, Selected, Selection, Steer, discard};
pub use ticket::{Hold, Ticket};
pub use timers::Timer;
pub use transform::{MakeTransform, PASS_BYTES, Passage, Progress, Side, Transform, TransformError};
pub use writer::Writer;
