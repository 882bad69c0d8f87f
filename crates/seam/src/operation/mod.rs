//! What a lane asks of a driver, and what it gets back; what each kind of operation is made with has a file of its own.

mod calls;
mod datagrams;
mod descriptors;
mod files;
mod streams;

pub use calls::{OffloadResult, OffloadWork, Offloaded, Work};
pub use datagrams::Bind;
pub use descriptors::Interest;
pub use files::OpenOptions;
pub use streams::{Listen, StreamOptions};

use crate::address::Address;
use crate::chain::Chain;
use crate::datagram::{Datagrams, Trains};
use crate::error::Fault;
use crate::handle::{File, Handle, Socket};
use crate::lease::{Lease, Shared};
use std::path::PathBuf;

/// One operation. Each pushed operation ends in exactly one completion without `more`; only [`Op::Accept`] has
/// completions with `more` before it. A socket has at most one operation of each of these kinds under way:
/// accepting, receiving (any form), sending (any form).
#[derive(Debug)]
#[non_exhaustive]
pub enum Op {
    /// Accept connections until [`Op::StopAccept`]; each is a [`Outcome::Accepted`] with `more`. A fault ends it.
    Accept {
        /// A listening socket.
        listener: Socket,
    },
    /// End accepting: the accept operation completes with [`Reason::Cancelled`](crate::Reason::Cancelled). Has no completion of its own.
    StopAccept {
        /// A listening socket.
        listener: Socket,
    },
    /// Open a connection: [`Outcome::Connected`].
    Connect {
        /// The peer.
        to: Address,
        /// The address, and port if not 0, to connect from.
        from: Option<Address>,
        /// Settings of the new connection.
        options: StreamOptions,
    },
    /// Make a datagram socket, as [`Driver::bind`](crate::Driver::bind) does: [`Outcome::Bound`].
    Bind(
        /// The socket.
        Bind,
    ),
    /// Receive once, into memory that the driver takes when there is something to receive: [`Outcome::Received`]
    /// with at least one byte, or [`Outcome::EndOfStream`].
    Receive {
        /// A connection.
        socket: Socket,
    },
    /// Receive once, behind the data of `lease`, until it holds `until` bytes at the most: [`Outcome::Filled`], with at
    /// least one byte more, or without one at the end of the stream.
    ReceiveInto {
        /// A connection.
        socket: Socket,
        /// Where the bytes go; comes back in any case.
        lease: Lease,
        /// Most bytes that the lease shall hold then; at most its capacity.
        until: usize,
    },
    /// End receiving (stream or datagram): bytes that have arrived are still delivered, otherwise the receive
    /// completes with `Cancelled`; with `NoMemory` if there are bytes and no memory for them. Has no completion of its own.
    StopReceive {
        /// A connection or datagram socket.
        socket: Socket,
    },
    /// Send the chain, as much as goes: [`Outcome::Sent`].
    Send {
        /// A connection.
        socket: Socket,
        /// What to send; never empty.
        chain: Chain,
    },
    /// Receive a batch: [`Outcome::Arrived`].
    ReceiveDatagrams {
        /// A datagram socket.
        socket: Socket,
        /// The storage to fill.
        into: Datagrams,
    },
    /// Send all trains: [`Outcome::Departed`].
    SendDatagrams {
        /// A datagram socket.
        socket: Socket,
        /// What to send; never empty.
        trains: Trains,
    },
    /// Close: operations under way on the socket end first, as cancelled, then comes [`Outcome::Closed`].
    Close {
        /// Any socket.
        socket: Socket,
        /// Break the connection off (RST) instead of finishing it.
        reset: bool,
    },
    /// Wait for a descriptor that the driver does not own: [`Outcome::Ready`].
    Poll {
        /// The number of an open descriptor of the lane's table.
        descriptor: i32,
        /// For what.
        interest: Interest,
    },
    /// Open a file: [`Outcome::Opened`]. What is no regular file is refused with [`Reason::NotAFile`](crate::Reason::NotAFile),
    /// and waited for in no case.
    Open {
        /// Its path.
        path: PathBuf,
        /// How.
        options: OpenOptions,
    },
    /// Read at `offset`, behind the data of the lease, until it holds `until` bytes at the most: [`Outcome::Filled`]; nothing more at the end of the file.
    Read {
        /// An open file.
        file: File,
        /// Where in the file, in bytes.
        offset: u64,
        /// Where the bytes go; comes back in any case.
        lease: Lease,
        /// Most bytes that the lease shall hold then.
        until: usize,
    },
    /// Write at `offset`: [`Outcome::Written`].
    Write {
        /// An open file.
        file: File,
        /// Where in the file, in bytes.
        offset: u64,
        /// The bytes.
        bytes: Shared,
    },
    /// Bring what was written to the disk (fsync(2)): [`Outcome::Done`].
    Sync {
        /// An open file.
        file: File,
    },
    /// Close a file: [`Outcome::Done`].
    CloseFile {
        /// An open file.
        file: File,
    },
    /// Run a call on a helper thread: [`Outcome::Offloaded`]. It waits for a helper where all are busy; over
    /// [`Driver::offload_max`](crate::Driver::offload_max) it fails with `Busy`.
    Offload(
        /// The call. A panic in it is a fault of reason `Other`.
        OffloadWork,
    ),
    /// Cancel a connect or a poll, by its handle: it completes with `Cancelled`, unless it had ended. Has no completion of its own.
    Cancel {
        /// The operation's handle.
        target: Handle,
    },
}

/// How an operation went.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// A connection was accepted.
    Accepted {
        /// The new connection.
        socket: Socket,
        /// The other end.
        peer: Address,
        /// This end.
        local: Address,
    },
    /// The connection is open.
    Connected {
        /// The new connection.
        socket: Socket,
        /// The other end.
        peer: Address,
        /// This end.
        local: Address,
    },
    /// The datagram socket is there.
    Bound {
        /// The new socket.
        socket: Socket,
        /// Its address.
        local: Address,
    },
    /// Bytes arrived; never empty.
    Received(Shared),
    /// The peer has finished sending.
    EndOfStream,
    /// A receive into a lease, or a file read, ended; the lease holds what there was.
    Filled {
        /// The lease, with its new length.
        lease: Lease,
        /// Why nothing was added, if nothing was for another reason than the end.
        fault: Option<Fault>,
    },
    /// A send ended.
    Sent {
        /// Bytes that the system took.
        bytes: usize,
        /// What it did not take; empty after a complete send.
        rest: Chain,
        /// Why, if the connection is broken.
        fault: Option<Fault>,
    },
    /// Datagrams arrived, or none and a fault.
    Arrived {
        /// The batch.
        batch: Datagrams,
        /// Why it is empty. On a socket with a peer it may be what the network said of something sent earlier (`Refused`,
        /// `Unreachable`): the socket goes on, and what has arrived comes with the next receive.
        fault: Option<Fault>,
    },
    /// A batch of trains was worked off.
    Departed {
        /// The emptied storage.
        trains: Trains,
        /// Datagrams that the system took.
        datagrams: u32,
        /// Datagrams that it refused: they are lost, as UDP allows.
        refused: u32,
        /// System calls used.
        calls: u32,
        /// Why the last of those refused was, or what the network said of something sent earlier: the socket goes on.
        fault: Option<Fault>,
    },
    /// The socket is closed; its name is void.
    Closed,
    /// The descriptor is ready.
    Ready {
        /// For what.
        interest: Interest,
    },
    /// The file is open.
    Opened {
        /// The file.
        file: File,
        /// Bytes in it at the time.
        length: u64,
    },
    /// Bytes were written to the file.
    Written {
        /// How many; fewer than asked only at a limit of the system.
        bytes: usize,
    },
    /// Done, and nothing to say.
    Done,
    /// The helper's call returned.
    Offloaded(
        /// What it returned.
        OffloadResult,
    ),
    /// Memory of an operation that ended earlier is released only now.
    Released,
    /// Nothing was done.
    Failed(Fault),
}

/// The driver's word on an operation.
#[derive(Debug)]
pub struct Completion {
    /// The handle given with the operation.
    pub handle: Handle,
    /// How it went.
    pub outcome: Outcome,
    /// Whether more completions of the same operation follow.
    pub more: bool,
    /// Whether the system is done with the operation's memory. If not, a [`Outcome::Released`] follows.
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
