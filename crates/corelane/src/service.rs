//! What a service is written with: its traits, what it is called with, what it answers, the memory between, and its [`entry`].

pub mod entry;

pub use corelane_lane::{Silence, Unheard, WORDS_MAX};
pub use corelane_rss::{Bucket, FlowId, HashType};
pub use corelane_seam::{
    ARENA_BYTES_MAX, Address, AddressError, Arena, Arrival, Chain, DATAGRAM_BYTES_MAX, DATAGRAM_V6_BYTES_MAX, Datagrams,
    Error as ArenaError, Fault, File, FileOutcome, FilePart, Interest, LEASE_BYTES_MAX, Lease, Link, OffloadResult, OpenOptions,
    Outcome, Reason, Segment, Shared, Socket, StreamOptions, TRAIN_DATAGRAMS_MAX, Unix,
};
pub use corelane_svc::{
    Asking, Asks, Call, ConnectionId, Cx, DatagramService, Ending, Error as ServiceError, Flow, Input, LANE_CONNECTIONS_MAX,
    Learned, Limits, Lost, Next, Notes, Order, Origin, Output, PASS_BYTES, Passage, Peer, Progress, Refused, Remote, RemoteReply,
    Replies, Says, Side, Silent, SocketId, StreamService, Taken, Talk, Ticket, Timer, Transform, TransformError,
};
pub use corelane_watch::{Counted, Declaration, Kind, OwnCounter, ServiceCounter};
