//! What a service is written with: its traits, what it is called with, what it returns, the memory between, and its [`entry`].

pub use corelane_lane::tasks::Spawner;
pub use corelane_lane::{Silence, Unheard, WORDS_MAX};
pub use corelane_os::journal;
pub use corelane_rss::{Bucket, FlowId, HashType};
pub use corelane_seam::{
    ARENA_BYTES_MAX, Address, AddressError, Arena, Arrival, Chain, DATAGRAM_BYTES_MAX, DATAGRAM_V6_BYTES_MAX, Datagrams,
    Error as ArenaError, Fault, File, FileFacts, FileKind, FileName, FileOutcome, FilePart, Instant, Interest, LEASE_BYTES_MAX,
    Lease, Link, OffloadResult, OpenOptions, Outcome, Random, Reason, Segment, Shared, Socket, StreamOptions,
    TRAIN_DATAGRAMS_MAX, Unix,
};
pub use corelane_svc::{
    Asking, Asks, Call, ConnectionId, Cx, DatagramService, Ending, Error as ServiceError, Flow, Hold, Input,
    LANE_CONNECTIONS_MAX, Learned, Limits, Lost, MakeTransform, Next, Notes, Nudge, Order, Origin, Output, OutputWriter,
    PASS_BYTES, Passage, Peer, Progress, Refused, Remote, RemoteReply, Replies, Says, Side, Silent, SocketId, StreamService,
    Taken, Talk, Ticket, Timer, Transform, TransformError, Watch, When, Writer,
};
pub use corelane_watch::{Counted, Declaration, Joined, Kind, OwnCounter, ServiceCounter};

/// What stands in signatures here and a service seldom has to name: the outcomes of operations that Corelane begins itself, what memory that
/// travels between lanes is made of, and who pays for a lane's memory.
pub mod parts {
    pub use corelane_lane::channel::Full;
    pub use corelane_seam::parcel::{AbroadCounts, AbroadLimits, Guest, Guests, Parcel, ParcelRefused, Post};
    pub use corelane_seam::slab::Key;
    pub use corelane_seam::{
        Checksum, DatagramOutcome, Frame, FrameCounts, FrameFacts, FrameHash, FrameMemory, FrameOutcome, FrameParcel, Handle,
        Holder, NotLent, Offloaded, Payer, PortFacts, PortId, Role, StreamOutcome, Train, Trains, Unheld, VlanTag,
    };
}

/// A service as it declares itself: its name, where it is served, its options, limits and counters.
pub mod entry {
    pub use crate::lanes::beside::{Beside, Opened};
    pub use crate::lanes::entry::*;

    /// Options that a service or a workload declares, and what somebody chose of them: one declaration for reading, help and errors.
    pub mod choice {
        pub use crate::lanes::choice::*;
    }
}
