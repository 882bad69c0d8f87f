//! Streams: what listeners and connections are made with, what is asked of them, and how it went.

use super::{Op, Outcome};
use crate::address::Address;
use crate::builders;
use crate::chain::Chain;
use crate::error::Fault;
use crate::handle::{File, Socket};
use crate::lease::{Lease, Shared};
use crate::piped::Piped;
use std::path::PathBuf;
use std::time::Duration;

/// Settings of a connection's socket, applied when it is accepted or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamOptions {
    /// Send at once instead of collecting small segments (TCP_NODELAY, tcp(7)). Default true: outputs are gathered here.
    pub no_delay: bool,
    /// Silence after which the peer is probed (SO_KEEPALIVE with TCP_KEEPIDLE), in whole seconds, what is less rounded up, up to 9 hours; zero
    /// never probes. Default 60 seconds.
    pub keep_alive: Duration,
    /// How long sent data may stay unacknowledged, or unsent because the peer's window is closed (TCP_USER_TIMEOUT), in whole milliseconds, what is
    /// less rounded up; zero, the default, leaves it to the kernel. Linux counts from the first probe of a closed window, and begins anew only where a window
    /// has room for all that was to be sent next. A peer with a small window, or one that reads in jumps, is cut by that though it takes bytes all the while.
    pub user_timeout: Duration,
    /// Bytes of the kernel's send buffer (SO_SNDBUF); 0 leaves it to the kernel's own tuning, the default.
    pub send_buffer_bytes: u32,
    /// Bytes of the kernel's receive buffer (SO_RCVBUF); 0 leaves it to the kernel's own tuning, the default.
    pub receive_buffer_bytes: u32,
    /// Of a listener: the peer always speaks first. Then a connection can be accepted once its first bytes are there, or a second after it was
    /// made (TCP_DEFER_ACCEPT, tcp(7)): one wake-up where there were two. Default false.
    pub peer_begins: bool,
}

impl StreamOptions {
    /// The defaults.
    pub const fn new() -> Self {
        Self {
            no_delay: true,
            keep_alive: Duration::from_secs(60),
            user_timeout: Duration::ZERO,
            send_buffer_bytes: 0,
            receive_buffer_bytes: 0,
            peer_begins: false,
        }
    }
}

builders!(StreamOptions {
    no_delay: bool,
    keep_alive: Duration,
    user_timeout: Duration,
    send_buffer_bytes: u32,
    receive_buffer_bytes: u32,
    peer_begins: bool,
});

impl Default for StreamOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// A listening stream socket to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Address and port; port 0 lets the system choose.
    pub address: Address,
    /// Connections that may wait to be accepted (listen(2)); the system may lower it (net.core.somaxconn).
    pub backlog: u32,
    /// Whether other sockets may listen on the same port (SO_REUSEPORT, socket(7)): needed for one per lane. A Unix name has one socket: see
    /// [`Driver::lend`](crate::Driver::lend).
    pub share_port: bool,
    /// Whether `[::]` takes IPv6 only (IPV6_V6ONLY, ipv6(7)).
    pub v6_only: bool,
    /// Settings for accepted connections.
    pub stream: StreamOptions,
}

/// An operation on a listener or a connection. A listener has at most one [`StreamOp::Accept`] under way, a connection one receive of any form and one send.
#[derive(Debug)]
pub enum StreamOp {
    /// Accept connections until [`StreamOp::StopAccept`]; each is a [`StreamOutcome::Accepted`] with `more`. A fault ends it.
    Accept {
        /// A listening socket.
        listener: Socket,
    },
    /// End accepting: the accept operation completes with [`Reason::Cancelled`](crate::Reason::Cancelled). Has no completion of its own.
    StopAccept {
        /// A listening socket.
        listener: Socket,
    },
    /// Open a connection: [`StreamOutcome::Connected`].
    Connect {
        /// The peer.
        to: Address,
        /// The address, and port if not 0, to connect from.
        from: Option<Address>,
        /// Settings of the new connection.
        options: StreamOptions,
    },
    /// Receive once, into memory that the driver takes when there is something to receive: [`StreamOutcome::Received`]
    /// with at least one byte, or [`StreamOutcome::EndOfStream`].
    Receive {
        /// A connection.
        socket: Socket,
    },
    /// Receive once, behind the data of `lease`, until it holds `until` bytes at the most: [`StreamOutcome::Filled`], with at
    /// least one byte more, or without one at the end of the stream.
    ReceiveInto {
        /// A connection.
        socket: Socket,
        /// Where the bytes go; comes back in any case.
        lease: Lease,
        /// Most bytes that the lease shall hold then; at most its capacity.
        until: usize,
    },
    /// Receive once, at most so many bytes, into a pipe of the system's: [`StreamOutcome::ReceivedPiped`] with at least one byte, for who sends them on unseen. Bytes that come
    /// so are in nobody's memory (splice(2)). Where the driver has no pipe for it, or the connection no such way, it is a [`StreamOp::Receive`], and ends as that does.
    ReceivePiped {
        /// A connection.
        socket: Socket,
        /// Most bytes that come in a pipe, at least 1.
        most: usize,
    },
    /// Send the chain, as much as goes: [`StreamOutcome::Sent`].
    Send {
        /// A connection.
        socket: Socket,
        /// The bytes to send; never empty.
        chain: Chain,
    },
    /// Send a whole file by its path: [`StreamOutcome::FileSent`]. It is opened, and brought to the disk if that is asked for. The bytes that it held when it was opened
    /// leave from it (sendfile(2)), 1 MiB behind the other. Each is brought into the page cache first, so that a slow disk holds no lane up. It is the connection's send
    /// under way from its beginning to its end.
    ///
    /// It fails with [`Reason::Unsupported`](crate::Reason::Unsupported) for a file that [is far](crate::FileFacts::is_far): read it, and send that.
    SendFile {
        /// A connection.
        socket: Socket,
        /// As of [`FileOp::Open`](crate::FileOp::Open).
        beneath: Option<File>,
        /// The file's path.
        path: PathBuf,
        /// Whether what was written to the file is brought to the disk (fsync(2)) before a byte of it leaves: then the peer gets nothing that a loss of power could take back.
        sync: bool,
    },
}

/// How it went with a listener or a connection.
#[derive(Debug)]
pub enum StreamOutcome {
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
    /// Bytes arrived; never empty.
    Received(Shared),
    /// Bytes arrived, and lie in a pipe; never empty.
    ReceivedPiped(Piped),
    /// The peer has finished sending.
    EndOfStream,
    /// A receive into a lease ended; the lease holds what there was.
    Filled {
        /// The lease, with its new length.
        lease: Lease,
        /// Why nothing was added, if it was not the end of the stream.
        fault: Option<Fault>,
    },
    /// A send ended.
    Sent {
        /// Bytes that the system took.
        bytes: usize,
        /// The bytes that it did not take; empty after a complete send.
        rest: Chain,
        /// Why, if the connection is broken.
        fault: Option<Fault>,
    },
    /// A file was sent, or is not any further.
    FileSent {
        /// Bytes that the system took, also in the turn of a close.
        bytes: u64,
        /// Bytes that the file held when it was opened; 0 if it was not.
        length: u64,
        /// Why not all of it was sent, if it was not: it was not opened, has become shorter, cannot be read; or the connection is broken, or was closed (`Cancelled`). Behind
        /// the first byte the peer waits for the rest, so only a close is left then.
        fault: Option<Fault>,
    },
}

impl StreamOp {
    /// [`Op::check`] of this kind.
    #[inline]
    pub(super) fn check(&self) {
        match self {
            Self::ReceiveInto { lease, until, .. } => {
                assert!(*until > lease.len() && *until <= lease.capacity(), "a receive needs room, within the lease");
            }
            Self::ReceivePiped { most, .. } => assert!(*most > 0, "a receive needs room"),
            Self::Send { chain, .. } => assert!(!chain.is_empty(), "nothing to send"),
            Self::Accept { .. }
            | Self::StopAccept { .. }
            | Self::Connect { .. }
            | Self::Receive { .. }
            | Self::SendFile { .. } => {}
        }
    }
}

impl From<StreamOp> for Op {
    fn from(op: StreamOp) -> Self {
        Self::Stream(op)
    }
}

impl From<StreamOutcome> for Outcome {
    fn from(outcome: StreamOutcome) -> Self {
        Self::Stream(outcome)
    }
}
