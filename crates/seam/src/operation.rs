//! What a lane asks of a driver, and what it gets back.

use crate::chain::{Chain, Segment};
use crate::datagram::{Datagrams, Trains};
use crate::error::Fault;
use crate::handle::{File, Handle, Socket};
use crate::lease::{Lease, Shared};
use std::any::Any;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What an offloaded call brings back.
pub type Offloaded = Box<dyn Any + Send>;
/// A call for a helper thread.
pub type Work = Box<dyn FnOnce() -> Offloaded + Send>;

/// Settings of a connection's socket, applied when it is accepted or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamOptions {
    /// Send at once instead of collecting small segments (TCP_NODELAY, tcp(7)). Default true: outputs are gathered here.
    pub no_delay: bool,
    /// Seconds of silence before the peer is probed (SO_KEEPALIVE with TCP_KEEPIDLE); 0 never probes. Default 60.
    pub keep_alive_seconds: u32,
    /// Milliseconds that sent data may stay unacknowledged, or unsent because the peer takes none (TCP_USER_TIMEOUT); 0 leaves
    /// it to the kernel. Default 90,000: longer than a service's own limit for slow readers.
    pub user_timeout_milliseconds: u32,
    /// Bytes of the kernel's send buffer (SO_SNDBUF); 0 leaves it to the kernel's own tuning, the default.
    pub send_buffer_bytes: u32,
    /// Bytes of the kernel's receive buffer (SO_RCVBUF); 0 leaves it to the kernel's own tuning, the default.
    pub receive_buffer_bytes: u32,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            no_delay: true,
            keep_alive_seconds: 60,
            user_timeout_milliseconds: 90_000,
            send_buffer_bytes: 0,
            receive_buffer_bytes: 0,
        }
    }
}

/// A listening stream socket to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Address and port; port 0 lets the system choose.
    pub address: SocketAddr,
    /// Connections that may wait to be accepted (listen(2)); the system may lower it (net.core.somaxconn).
    pub backlog: u32,
    /// Whether other sockets may listen on the same port (SO_REUSEPORT, socket(7)): needed for one per lane.
    pub share_port: bool,
    /// Whether `[::]` takes IPv6 only (IPV6_V6ONLY, ipv6(7)).
    pub v6_only: bool,
    /// Settings for accepted connections.
    pub stream: StreamOptions,
}

/// A datagram socket to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind {
    /// Address and port; port 0 lets the system choose.
    pub address: SocketAddr,
    /// The only peer, if there is one (connect(2), udp(7)): nobody else's datagrams arrive, all that is sent goes there,
    /// whatever the trains name, and what the network says of it is reported: `Refused` where nobody is bound.
    pub peer: Option<SocketAddr>,
    /// As in [`Listen`].
    pub share_port: bool,
    /// As in [`Listen`].
    pub v6_only: bool,
    /// Bytes of the kernel's receive buffer; 0 leaves the default (net.core.rmem_default).
    pub receive_buffer_bytes: u32,
    /// Bytes of the kernel's send buffer; 0 leaves the default (net.core.wmem_default).
    pub send_buffer_bytes: u32,
}

/// How a file is opened (open(2)); always close-on-exec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Allow reading.
    pub read: bool,
    /// Allow writing.
    pub write: bool,
    /// Create it (mode 0600) if it is not there.
    pub create: bool,
    /// Empty it first.
    pub truncate: bool,
}

/// What a polled descriptor is waited for (poll(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// Readable, or at its end.
    pub read: bool,
    /// Writable, or broken.
    pub write: bool,
}

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
        to: SocketAddr,
        /// The address, and port if not 0, to connect from.
        from: Option<SocketAddr>,
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
        /// Nothing waits for its end: if all of it goes at once, a collect goes on waiting, and tells that with whatever it tells next,
        /// or when the wait is over. The memory is given back before.
        quiet: bool,
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

/// A [`Work`] that can be printed.
pub struct OffloadWork(
    /// The call.
    pub Work,
);

impl std::fmt::Debug for OffloadWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OffloadWork")
    }
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
        peer: SocketAddr,
        /// This end.
        local: SocketAddr,
    },
    /// The connection is open.
    Connected {
        /// The new connection.
        socket: Socket,
        /// The other end.
        peer: SocketAddr,
        /// This end.
        local: SocketAddr,
    },
    /// The datagram socket is there.
    Bound {
        /// The new socket.
        socket: Socket,
        /// Its address.
        local: SocketAddr,
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
        /// It was to be [quiet](Op::Send::quiet), and all went at once, when the operation was carried out: that may have been a while ago.
        quiet: bool,
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

/// An [`Offloaded`] that can be printed.
pub struct OffloadResult(
    /// The value.
    pub Offloaded,
);

impl std::fmt::Debug for OffloadResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OffloadResult")
    }
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

/// Lets a file part's segment be named where a chain is built.
impl From<crate::chain::FilePart> for Segment {
    fn from(part: crate::chain::FilePart) -> Self {
        Segment::File(part)
    }
}
