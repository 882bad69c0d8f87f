//! What a connection of the proxy is.

use corelane::Instant;
use corelane::service::ConnectionId;
use corelane_upstreams::{Probe, Tried, Upstream};

/// One connection.
#[derive(Debug)]
pub enum End {
    /// A client's.
    Client(Client),
    /// To an upstream, for a client.
    Server(Server),
    /// To an upstream, to see whether it is well.
    Check(Probe),
    /// The same when that is known.
    Checked,
}

/// A client.
#[derive(Debug)]
pub struct Client {
    /// Which upstreams it gets; none before it has said whom it asks for.
    pub(crate) group: Option<u32>,
    /// The connection to its upstream, or the attempt at one.
    pub(crate) server: Option<(ConnectionId, Upstream)>,
    /// That is open: bytes pass.
    pub(crate) is_joined: bool,
}

/// The connection of a client to its upstream.
#[derive(Debug)]
pub struct Server {
    pub(crate) client: ConnectionId,
    /// The client, as it is blamed for what its bytes may have done.
    pub(crate) asker: u64,
    pub(crate) upstream: Upstream,
    pub(crate) group: u32,
    /// With this one.
    pub(crate) tried: Tried,
    /// When the attempt began.
    pub(crate) since: Instant,
    pub(crate) stage: Stage,
    /// So many times in a row little has come from it.
    pub(crate) littles: u32,
}

/// How far an upstream has come with a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It has not taken the connection.
    Connecting,
    /// It has, and has sent nothing.
    Silent,
    Answered,
}

/// What a client's connection is told of its upstream.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    pub(crate) server: (ConnectionId, Upstream),
    pub(crate) is_joined: bool,
}
