//! The names in calls between a service and its lane: connections, sockets, endings, and what a service wants next.

use crate::words::flows::Flow;
use crate::words::talk::Asking;
use corelane_seam::ordered::Rank;
use corelane_seam::slab::Key;
use corelane_seam::{Address, Lease};
use corelane_watch::ConnectionState;
use std::fmt;
use std::sync::Arc;

/// The two ends of a connection, as its [transform](crate::Transform) knows them if it knows better than the socket does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peer {
    /// The other end.
    pub address: Address,
    /// This end: the address that the peer connected to. Connections that follow each other to one address share it.
    pub local: Arc<Address>,
    /// The flow, as it arrives here: known before the first byte. None where flows are not told apart, and while this side is
    /// still opening the connection.
    pub flow: Option<Flow>,
    /// Facts that a transform has learned of the other end; none without one.
    pub learned: Option<Arc<Learned>>,
}

/// Facts that a transform has learned of the other end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Learned {
    /// The name by which the client asked for the server (RFC 6066, section 3). Of a connection that this side opens by a name ([`Cx::connect_named`](crate::Cx::connect_named)), that name, from the beginning.
    pub server_name: Option<String>,
    /// The protocol that both have agreed on (RFC 7301), as its registered bytes.
    pub protocol: Option<Vec<u8>>,
    /// The certificates by which the peer proved who it is, as DER, its own first. Empty if it was not asked, or showed none.
    pub certificates: Vec<Vec<u8>>,
    /// The session began on another connection, and goes on here: so nobody has proved anything anew (RFC 8446, section 2.2).
    pub resumed: bool,
    /// The fault of the other end, in words, if the transform has refused it: to be asked for in [`closed`](crate::StreamService::closed), by [`Cx::peer`](crate::Cx::peer).
    pub refused: Option<String>,
    /// Bytes that go before all of the transform's own, in plain: those of a PROXY header, which names a client to a server before TLS begins. Of a connection that this side opens by a name
    /// ([`Cx::connect_named`](crate::Cx::connect_named)) alone, and only until it is open.
    pub preface: Vec<u8>,
}

/// Names a connection of this lane; void once the connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl Rank for ConnectionId {
    fn rank(self) -> u128 {
        Key::from(self).rank()
    }

    fn of_rank(rank: u128) -> Self {
        Key::of_rank(rank).into()
    }
}

/// Names a datagram socket of this lane; void once it is closed, or if it could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SocketId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// The names that a lane gives out are keys of its tables, each of a type of its own.
macro_rules! keys {
    ($($name:ident),+) => {$(
        impl From<Key> for $name {
            fn from(Key { index, generation }: Key) -> Self {
                Self { index, generation }
            }
        }

        impl From<$name> for Key {
            fn from($name { index, generation }: $name) -> Self {
                Self { index, generation }
            }
        }
    )+};
}

keys!(ConnectionId, SocketId, Asking);

/// A service's wish for the connection after a call.
#[derive(Debug)]
pub enum Next {
    /// Call again when there are more bytes. The rest of the input stays.
    Continue,
    /// Call again when at least this many more bytes are there than now, or the stream has ended.
    Need(usize),
    /// Take nothing more from the peer, and leave the input as it is: the service waits for something else, and says so with
    /// [`Cx::resume`](crate::Cx::resume). It may be called before that, too. While it waits the connection counts as idle, unless a request is held.
    Wait,
    /// Call again when there are more bytes, as [`Next::Continue`]: they belong to a message that has begun, also where nothing of it is left
    /// in the input. So they must come, and have more time than the rate alone would give them: a pause of `read_limit` ends the connection as aborted, and so do fewer bytes than `receive_rate_min` asks for in
    /// that time.
    More,
    /// Put the next bytes straight into this lease until it holds `until` bytes, then call again with
    /// [`Input::filled`](crate::Input::filled). Bytes that have arrived already are copied; the others are received in place.
    Fill {
        /// Where the bytes go, behind what it holds.
        lease: Lease,
        /// How many bytes it shall hold: more than it holds now (else the call comes again at once), and cut to its capacity.
        until: usize,
    },
    /// Close once all output has left, and the peer has finished too, or has taken all and `linger_limit` has passed, or [owes nothing](Owes::Nothing): the connection ends as [`Ending::Completed`].
    Close,
    /// Break the connection off: it ends as [`Ending::Aborted`].
    Abort,
}

/// The debt of a connection's peer, and so which limit of time holds for it, as a service says that counts all of its requests
/// ([`Output::peer_owes`](crate::Output::peer_owes)). Of a service that never says so, whatever it takes counts as a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owes {
    /// A request, within `idle_limit`. Bytes that were taken and are none count for nothing.
    Request,
    /// The rest of a request that has begun: all of it within `read_limit`, as fast as `receive_rate_min`.
    Rest,
    /// Nothing: a request is being served, or was the last. A connection that is closed then ends as soon as its peer has taken everything, and its end is not awaited (RFC 9112 section
    /// 9.6); behind a transform it is.
    Nothing,
}

/// Why a connection ended. Each has exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// The service closed it, and all output left.
    Completed,
    /// The peer finished, and all was answered.
    EndOfStream,
    /// The lane drains, or the connection was idle for too long.
    Closing,
    /// The socket failed, the peer reset it, or the connection could not be opened.
    Error,
    /// The session panicked, a deadline or a limit was passed, or the service broke it off.
    Aborted,
}

impl Ending {
    /// As the page says it.
    pub(crate) fn state(self) -> ConnectionState {
        match self {
            Self::Completed => ConnectionState::Completed,
            Self::EndOfStream => ConnectionState::EndOfStream,
            Self::Closing => ConnectionState::Closing,
            Self::Error => ConnectionState::Error,
            Self::Aborted => ConnectionState::Aborted,
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Completed => "completed",
            Self::EndOfStream => "end of stream",
            Self::Closing => "closing",
            Self::Error => "error",
            Self::Aborted => "aborted",
        })
    }
}

/// Whether an answer must keep its place among the connection's answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Bytes that are written after the ticket was taken leave after its answer (HTTP, a cache).
    Kept,
    /// The answer leaves when it is given (RPC).
    Any,
}
