//! All that a service is written with: its traits, what it is called with, what it returns, the memory between, and its [`entry`].
//!
//! # Memory of another lane
//!
//! Lanes share nothing, so what one keeps another cannot see. A lane can lend it: [`Cx::lend`] makes a [`Parcel`] of a value, which goes to the other lane in a message, a
//! question or an answer, is taken in there ([`Cx::guests`]) and sent from where it lies. When it has left, its memory goes home by itself, also from a lane that drains, panics or is lost.
//! At most an eighth of a lane's memory is away at once, and who keeps some for too long gets no more ([`AbroadLimits`]): so there is always the other way, a copy.
//!
//! ```
//! use corelane::service::{Asking, Asks, Call, Lends, Lost, Origin, Parcel, Shared, Ticket};
//! use corelane::{Cx, Input, Next, Output, Peer, StreamService};
//! use std::collections::BTreeMap;
//!
//! /// Asked for the value of lane 0: lent, or copied.
//! type Talk = Lends<Asks<(), Result<Parcel, Vec<u8>>>>;
//!
//! struct Reader {
//!     value: Option<Shared>,
//!     waiting: BTreeMap<Asking, Ticket>,
//! }
//!
//! impl StreamService for Reader {
//!     type Talk = Talk;
//!     type Session = ();
//! #   fn open(&mut self, _: &mut Cx<'_, Talk>, _: &Peer) {}
//! #   fn receive(&mut self, _: &mut Cx<'_, Talk>, _: &mut (), _: &mut Input, _: &mut Output) -> Next { Next::Continue }
//!
//!     fn asked(&mut self, cx: &mut Cx<'_, Talk>, from: Origin, _question: (), call: Call<Talk>) {
//!         // A call that is dropped tells who asks that there is no answer.
//!         let (Some(value), Origin::Lane(from)) = (&self.value, from) else { return };
//!         let answer = cx.lend(value, from).map_err(|_| value.to_vec());
//!         cx.reply(call, answer);
//!     }
//!
//!     fn replied(&mut self, cx: &mut Cx<'_, Talk>, asking: Asking, outcome: Result<Result<Parcel, Vec<u8>>, Lost>) {
//!         let Some(ticket) = self.waiting.remove(&asking) else { return };
//!         match outcome {
//!             Ok(Ok(parcel)) => {
//!                 let value = cx.guests().admit(parcel);
//!                 cx.answer(ticket, value);
//!             }
//!             Ok(Err(bytes)) => drop(cx.answer_bytes(ticket, &bytes)),
//!             Err(_) => cx.answer(ticket, &b"gone\n"[..]),
//!         }
//!     }
//! }
//! ```

pub use corelane_lane::tasks::Spawner;
pub use corelane_lane::{Silence, Unheard, WORDS_MAX};
#[cfg(feature = "journal")]
pub use corelane_os::journal;
pub use corelane_os::sealed_file;
pub use corelane_rss::{Bucket, FlowId, HashType};
pub use corelane_seam::parcel::{AbroadLimits, Guest, Guests, Parcel, ParcelRefused};
pub use corelane_seam::{
    ARENA_BYTES_MAX, Address, AddressError, Arena, Arrival, Chain, DATAGRAM_BYTES_MAX, DATAGRAM_V6_BYTES_MAX, Datagrams,
    Error as ArenaError, Fault, File, FileFacts, FileKind, FileName, FileOutcome, FilePart, Instant, Interest, LEASE_BYTES_MAX,
    Lease, Level, Link, OffloadResult, OpenOptions, Outcome, Random, Reason, Sealed, Segment, Shared, Socket, StreamOptions,
    TRAIN_DATAGRAMS_MAX, Unix,
};
pub use corelane_svc::did_you_mean;
pub use corelane_svc::{
    Asking, Asks, Call, ConnectionId, Cx, DatagramService, Ending, Error as ServiceError, Flow, Hold, Input,
    LANE_CONNECTIONS_MAX, Learned, Lends, Limits, Lost, MakeTransform, Next, Notes, Nudge, Order, Origin, Output, OutputWriter,
    Owes, PASS_BYTES, Passage, Peer, PeerKey, Progress, Refused, Remote, RemoteReply, Replies, Room, Says, Shares, Side, Silent,
    SocketId, Stays, StreamService, Taken, Talk, Ticket, Timer, Transform, TransformError, Watch, When, Whole, Writer,
};
pub use corelane_watch::{Counted, Declaration, Joined, Kind, OwnCounter, ServiceCounter};

/// Types that stand in signatures here and that a service seldom has to name: the outcomes of operations that Corelane begins itself, what memory that
/// travels between lanes is made of, and who pays for a lane's memory.
pub mod parts {
    pub use corelane_lane::channel::Full;
    pub use corelane_seam::parcel::{AbroadCounts, ParcelHome};
    pub use corelane_seam::share::Share;
    pub use corelane_seam::slab::Key;
    pub use corelane_seam::{
        Checksum, DatagramOutcome, Frame, FrameCounts, FrameFacts, FrameHash, FrameMemory, FrameOutcome, FrameParcel, Handle,
        Holder, NotLent, Offloaded, Payer, Piped, PortFacts, PortId, RegionMemory, Role, SealedMemory, StreamOutcome, TaskHolder,
        Train, Trains, Unheld, VlanTag,
    };
}

mod home;
pub use home::home;

/// A service as it declares itself: its name, where it is served, its options, limits and counters.
pub mod entry {
    pub use crate::lanes::beside::{Beside, Opened};
    pub use crate::lanes::entry::*;
    pub use crate::lanes::read_file::{FILE_BYTES_MAX, ReadFile};

    /// Options that a service or a workload declares, and what somebody chose of them: one declaration for reading, help and errors.
    pub mod choice {
        pub use crate::lanes::choice::*;
    }
}
