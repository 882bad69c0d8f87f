//! Services on a lane: listeners, connections, gathered output, tickets, back-pressure, limits, endings, drain.
//!
//! A user implements [`StreamService`] or [`DatagramService`]; [`Services`] runs any number of them as the work of one lane.
#![doc = include_str!("../DESIGN.md")]
#![forbid(unsafe_code)]

mod accepting;
mod accounts;
mod call;
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
mod exchange;
mod fence;
mod flows;
mod flush;
mod found;
mod input;
mod limits;
mod listeners;
mod machine;
mod memory;
mod names;
mod notices;
mod outgoing;
mod output;
mod own;
mod passage;
mod places;
mod port;
mod post;
mod postal;
mod relief;
mod remote;
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
mod talk;
mod ticket;
mod timers;
mod transform;

pub use call::Call;
pub use cx::Cx;
pub use error::{Error, Refused};
pub use exchange::Exchange;
pub use flows::{Flow, Flows};
pub use input::{Input, Taken};
pub use limits::Limits;
pub use names::{ConnectionId, Ending, Learned, Next, Order, Peer, SocketId};
pub use output::Output;
pub use places::{Place, Sharing};
pub use remote::{Remote, Reply as RemoteReply};
pub use replies::Replies;
pub use service::{DatagramService, StreamService};
pub use services::{LANE_CONNECTIONS_MAX, Services};
pub use steering::{Command, MakeSocket, Reply, Selected, Selection, Steer, discard};
pub use talk::{Asking, Asks, Lost, Notes, Origin, Says, Silent, Talk};
pub use ticket::Ticket;
pub use timers::Timer;
pub use transform::{MakeTransform, PASS_BYTES, Passage, Progress, Side, Transform, TransformError};
