//! Services on a lane: listeners, connections, gathered output, tickets, back-pressure, limits, endings, drain.
//!
//! A user implements [`StreamService`] or [`DatagramService`]; [`Services`] runs any number of them as the work of one lane.
#![doc = include_str!("../DESIGN.md")]
#![forbid(unsafe_code)]

mod connection;
mod datagrams;
mod limits;
mod pending;
mod places;
mod post;
mod service;
mod services;
mod state;
mod table;
mod words;

pub use connection::input::{Input, Taken};
pub use connection::output::{Output, OutputWriter};
pub use connection::packed::Packed;
pub use datagrams::replies::Replies;
pub use limits::nearest::did_you_mean;
pub use limits::{Limits, amounts, bounds};
pub use pending::alarms::When;
pub use pending::nudge::Nudge;
pub use pending::requests::Watch;
pub use pending::timers::Timer;
pub use places::steering::{
    Answered, Choose, Command, MakeSocket, Move, Operate, Reply, Selected, Selection, Stay, Steer, Visit, discard,
};
pub use places::{Sharing, TransportAddress};
pub use post::call::Call;
pub use post::exchange::Exchange;
pub use post::remote::{Remote, RemoteReply};
pub use post::room::{Room, WakeOutside};
pub use service::cx::Cx;
pub use service::{DatagramService, StreamService};
pub use services::{LANE_CONNECTIONS_MAX, Services};
pub use state::accounts::PeerKey;
pub use state::shares::Shares;
pub use words::error::{Error, Refused};
pub use words::flows::{Flow, Flows};
pub use words::names::{ConnectionId, Ending, Learned, Next, Order, Owes, Peer, SocketId};
pub use words::stays::Stays;
pub use words::talk::{Asking, Asks, Lends, Lost, Notes, Origin, Says, Silent, Talk};
pub use words::ticket::{Hold, Ticket};
pub use words::transform::{MakeTransform, PASS_BYTES, Passage, Progress, Side, Transform, TransformError, Whole};
pub use words::writer::Writer;
