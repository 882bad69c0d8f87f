//! Operations that a lane asks of a driver, and their outcomes; each kind has a file of its own.

mod calls;
mod datagrams;
mod descriptors;
mod files;
mod frames;
mod streams;

pub use calls::{OffloadCall, OffloadResult, OffloadWork, Offloaded};
pub use datagrams::{Bind, DatagramOp, DatagramOutcome};
pub use descriptors::Interest;
pub use files::{FileFacts, FileKind, FileName, FileOp, FileOutcome, OpenOptions, WARM_BYTES_MAX};
pub use frames::{FrameOp, FrameOutcome};
pub use streams::{Listen, StreamOp, StreamOptions, StreamOutcome};

use crate::error::Fault;
use crate::handle::{Handle, Socket};

/// One operation, of a kind that has its own file. Each pushed operation ends in exactly one completion without `more`; only
/// [`StreamOp::Accept`] and [`FileOp::Watch`] have completions with `more` before it. A socket has at most one operation of each of these sorts under way:
/// accepting, receiving (any form), sending (any form). Operations on sockets of any kind, or none, stand here.
#[derive(Debug)]
#[non_exhaustive]
pub enum Op {
    /// Of listeners and connections.
    Stream(StreamOp),
    /// Of datagram sockets.
    Datagram(DatagramOp),
    /// Of files.
    File(FileOp),
    /// Of ports. A driver that has none fails with [`Reason::Unsupported`](crate::Reason::Unsupported).
    Frame(FrameOp),
    /// End receiving (stream or datagram): bytes that have arrived are still delivered, otherwise the receive
    /// completes with `Cancelled`; with `NoMemory` if there are bytes and no memory for them. Has no completion of its own.
    StopReceive {
        /// A connection or datagram socket.
        socket: Socket,
    },
    /// From now on the system itself passes on what each of two connections receives to the other, as far as that is possible and as long as it keeps up: unseen, and in the order in which it came,
    /// with what the lane has received and sends. All that one receives is to be sent to the other, and nothing else, and an end of the one in the end to the other: that is how the system
    /// knows that the lane has nothing left. It stays so until they are closed. Where it is not possible nothing changes. Has no completion of its own.
    ///
    /// What was passed on so is told by [`StreamOutcome::Unseen`], in front of bytes, an end or a fault that come behind it.
    Bridge {
        /// A connection.
        one: Socket,
        /// Another one.
        other: Socket,
        /// Bytes that the lane has received of each, the one first, and not sent to the other yet, with what else it is to send there before. Neither has a send under way.
        held: [u64; 2],
    },
    /// Ends the receive under way on a connection with [`StreamOutcome::Unseen`], if the system has passed on something since. Has no completion of its own.
    TellUnseen {
        /// A connection.
        socket: Socket,
    },
    /// Close: operations under way on the socket end first, as cancelled, then comes [`Outcome::Closed`]. It waits for the memory of what was sent to be released, but
    /// no longer than [`RELEASE_LIMIT`](crate::RELEASE_LIMIT).
    Close {
        /// Any socket.
        socket: Socket,
        /// Break the connection off (RST) instead of finishing it. On Unix sockets that is the same, unless bytes were not received.
        reset: bool,
    },
    /// Wait for a descriptor that the driver does not own: [`Outcome::Ready`].
    Poll {
        /// The number of an open descriptor of the lane's table.
        descriptor: i32,
        /// For what.
        interest: Interest,
    },
    /// Run a call on a helper thread: [`Outcome::Offloaded`]. It waits for a helper where all are busy; over
    /// [`Driver::offload_max`](crate::Driver::offload_max) it fails with `Busy`.
    Offload(
        /// The call. A panic in it is a fault of reason `Other`.
        OffloadWork,
    ),
    /// Cancel a connect, a poll or a watch, by its handle: it completes with `Cancelled`, unless it had ended. Has no completion of its own.
    Cancel {
        /// The operation's handle.
        target: Handle,
    },
}

impl Op {
    /// Asserts what an operation must be to be carried out, whatever it is asked of. Every driver calls this before it does anything, so that none, and no simulated
    /// one above all, passes over what another panics at. Rules that depend on the socket, such as its kind, each asserts itself.
    ///
    /// # Panics
    /// If it asks for nothing (an empty send, a receive without room, a poll for neither), or for more than its bound.
    #[inline]
    pub fn check(&self) {
        match self {
            Self::Stream(op) => op.check(),
            Self::Datagram(op) => op.check(),
            Self::File(op) => op.check(),
            Self::Frame(op) => op.check(),
            Self::Poll { interest, .. } => assert!(interest.read || interest.write, "a poll waits for something"),
            Self::StopReceive { .. }
            | Self::Bridge { .. }
            | Self::TellUnseen { .. }
            | Self::Close { .. }
            | Self::Offload(_)
            | Self::Cancel { .. } => {}
        }
    }
}

/// How an operation went.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// With a listener or a connection.
    Stream(StreamOutcome),
    /// With a datagram socket.
    Datagram(DatagramOutcome),
    /// With a file.
    File(FileOutcome),
    /// With a port.
    Frame(FrameOutcome),
    /// The socket is closed; its name is void.
    Closed,
    /// The descriptor is ready.
    Ready {
        /// For what.
        interest: Interest,
    },
    /// The helper's call returned.
    Offloaded(
        /// The value that it returned.
        OffloadResult,
    ),
    /// Memory of an operation that ended earlier is released only now. Of a connection's sends, the one that ended first is released first.
    Released,
    /// Nothing was done.
    Failed(Fault),
}

// Each operation and each completion of a lane is moved several times. The kinds cost no room: their marks lie where the largest one has room.
const _: () = assert!(size_of::<Op>() <= 112 && size_of::<StreamOp>() == size_of::<Op>());
const _: () = assert!(size_of::<Completion>() <= 96 && size_of::<StreamOutcome>() == size_of::<Outcome>());

/// The driver's word on an operation.
#[derive(Debug)]
pub struct Completion {
    /// The handle given with the operation.
    pub handle: Handle,
    /// How it went.
    pub outcome: Outcome,
    /// Whether more completions of the same operation follow.
    pub more: bool,
    /// Whether the system is done with the operation's memory. If not, the driver keeps it, and a [`Outcome::Released`] follows once it is free: before the socket's
    /// [`Outcome::Closed`], or never ([`RELEASE_LIMIT`](crate::RELEASE_LIMIT)).
    pub released: bool,
}

impl Completion {
    /// The last completion of an operation whose memory is released: the usual kind.
    pub fn last(handle: Handle, outcome: Outcome) -> Self {
        Self { handle, outcome, more: false, released: true }
    }

    /// A failed operation.
    pub fn failed(handle: Handle, fault: Fault) -> Self {
        Self::last(handle, Outcome::Failed(fault))
    }
}
