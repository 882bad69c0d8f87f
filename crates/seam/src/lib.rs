//! The seam: the contract between a lane and the operating system, without a system call in it.
//!
//! A lane submits operations ([`Op`]) with a [`Handle`] to a [`Driver`] and gets [`Completion`]s back. An operation that
//! carries memory owns it: an exclusive [`Lease`], or a [`Chain`] of shared segments, all of the lane's own [`Arena`]. So the
//! kernel never holds memory that a user's value owns, and dropping any value is always sound.
//!
//! All names of ends are one type, [`Address`]: IPv4 and IPv6 with a port, a Unix path or abstract name, or a card on its link.
//!
//! ```text
//! Listen { address }, Bind { address, peer }, Op::Connect { to, from }        what is asked for
//! Outcome::{Accepted, Connected, Bound}, Driver::local_address                what came of it; a Unix peer comes with its user id
//! Arrival { peer }, Trains::add(peer, ...)                                    who sent a datagram, whom one goes to
//! "unix:/run/x.sock".parse::<Address>(), SocketAddr.into(), address.inet()    in and out
//! ```
//!
//! Flows, ports and source addresses remain the standard library's types, because only IP has them. A frame's ends (link layer) are of the
//! same type, and so a port needs none of its own.
//!
//! `epoll` and `uring` (crate `drivers`) implement the contract with Linux, `sim` with a simulated network and clock.
#![doc = include_str!("../DESIGN.md")]
#![deny(unsafe_code)]

mod address;
mod bell;
mod buddy;
mod builders;
mod chain;
mod datagram;
mod detached;
mod driver;
mod error;
mod fetch;
mod file_sends;
mod frame;
mod handle;
mod instant;
mod learnt;
mod lease;
mod ledger;
mod losses;
mod operation;
pub mod ordered;
pub mod parcel;
mod payer;
mod piped;
mod port;
mod ports;
mod random;
mod record;
mod region;
mod sealed;
pub mod share;
pub mod slab;
mod sync;
mod tuning;

pub use address::{Address, AddressError, Link, UNIX_NAME_BYTES_MAX, Unix};
pub use bell::Bell;
pub use buddy::LEASE_BYTES_MAX;
pub use chain::{Chain, FilePart, Segment};
pub use datagram::{
    Arrival, BATCH_MAX, DATAGRAM_BYTES_MAX, DATAGRAM_V6_BYTES_MAX, Datagrams, TRAIN_DATAGRAMS_MAX, Train, Trains,
    datagram_bytes_max,
};
pub use detached::Detached;
pub use driver::{
    BridgeCounters, Clock, DATAGRAM_BLOCK_BYTES_LEAST, Driver, DriverCounters, PipeCounters, RECEIVE_BYTES_LEAST,
    RECEIVES_PER_CYCLE, RELEASE_LIMIT, SendCounters, Wait,
};
pub use error::{Error, Fault, Reason};
pub use fetch::fetch;
pub use file_sends::{FileSends, FileStep};
pub use frame::{
    Checksum, FRAME_BYTES_LEAST, FRAME_BYTES_MAX, FRAMES_MAX, Frame, FrameCounts, FrameFacts, FrameHash, FrameMemory,
    FrameParcel, NotLent, VlanTag,
};
pub use handle::{File, Handle, Socket, Unheld};
pub use instant::{Instant, nanoseconds};
pub use learnt::{LearntWay, LinkSide, Offload};
pub use lease::{ARENA_BYTES_MAX, Arena, Lease, Shared};
pub use ledger::{Holder, Role, TaskHolder};
pub use losses::{LOOK_AFTER, LossPort, PortNews};
pub use operation::{
    Bind, Completion, DatagramOp, DatagramOutcome, FileFacts, FileKind, FileName, FileOp, FileOutcome, FrameOp, FrameOutcome,
    Interest, Listen, OffloadCall, OffloadResult, OffloadWork, Offloaded, Op, OpenOptions, Outcome, StreamOp, StreamOptions,
    StreamOutcome, WARM_BYTES_MAX,
};
pub use payer::Payer;
pub use piped::Piped;
pub use port::{Lost, Port, PortFacts, PortId, PortKind, PortState, Taken, Worked};
pub use ports::{Attention, PortEnd, PortTable};
pub use random::{Random, mix};
pub use record::{Code, Level, Record};
pub use region::RegionMemory;
pub use sealed::{Sealed, SealedMemory};
pub use tuning::Tuning;
