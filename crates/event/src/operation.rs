//! Operations that run by themselves and are told by the queue when they are over: what is asked for, and what became of it.

use corelane_os::events::moving;
use std::fmt;
use std::net::SocketAddr;
use std::os::fd::{OwnedFd, RawFd};
use std::path::PathBuf;

/// An operation that is to begin.
#[derive(Debug)]
pub struct Submission {
    /// What the event of its end is about (filter `Aio`): a number of the program's own, that no other operation of the queue has.
    pub ident: u64,
    /// Comes back with the event.
    pub cookie: u64,
    /// What is to be done.
    pub work: Work,
}

/// What an operation does. Sockets are named by number and not kept open: with a close the operation is over (ECANCELED). Files are kept open by it.
#[derive(Debug)]
pub enum Work {
    /// Receives into `memory`: until `at_least` bytes are there (at least 1, at most all), or the stream has ended; one datagram, where there are datagrams.
    Receive {
        /// A socket.
        socket: RawFd,
        /// Where to.
        memory: Memory,
        /// Bytes.
        at_least: usize,
    },
    /// Sends all of `memory`.
    Send {
        /// A socket.
        socket: RawFd,
        /// What.
        memory: Memory,
    },
    /// Accepts one connection, which does not block and is closed by execve(2).
    Accept {
        /// A socket that listens and does not block.
        listener: RawFd,
    },
    /// Connects a socket that does not block.
    Connect {
        /// A socket.
        socket: RawFd,
        /// As the system has it: [`Work::connect`] makes it.
        address: Vec<u8>,
    },
    /// Sends a file's bytes, fewer than `length` where it has fewer.
    SendFile {
        /// A socket that does not block.
        socket: RawFd,
        /// Which.
        file: Sent,
        /// Where its first byte is in the file.
        offset: u64,
        /// How many bytes at most.
        length: u64,
    },
    /// Reads from a regular file, until `memory` is full or the file has ended.
    Read {
        /// A file.
        file: RawFd,
        /// Where to.
        memory: Memory,
        /// Of the first byte.
        offset: u64,
    },
    /// Writes all of `memory` to a regular file.
    Write {
        /// A file.
        file: RawFd,
        /// What.
        memory: Memory,
        /// Of the first byte.
        offset: u64,
    },
    /// What was written to a regular file is on the disk.
    Sync {
        /// A file.
        file: RawFd,
    },
}

/// A file that is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// A regular file that is open.
    Open(RawFd),
    /// One that the operation opens, and closes at its end.
    Path(PathBuf),
}

/// Memory of an operation, from its submission to its end.
pub enum Memory {
    /// Given away, and given back with the [`OperationResult`].
    Own(Vec<u8>),
    /// Somebody else's, who promises to leave it alone meanwhile.
    Lent(Box<dyn Lent>),
}

/// Memory that is promised to an operation until it is dropped.
pub trait Lent: Send {
    /// What is in it.
    fn bytes(&self) -> &[u8];
    /// Its bytes, to be overwritten. Called for what receives or reads alone.
    fn place(&mut self) -> &mut [u8];
}

/// What became of an operation.
#[derive(Debug)]
#[non_exhaustive]
pub struct OperationResult {
    /// Bytes that were moved.
    pub done: u64,
    /// The error that ended it, 0 without: ECANCELED where it was cancelled, or its socket closed.
    pub error: i32,
    /// The peer, or the file, had no more.
    pub is_end: bool,
    /// Its memory, where that was its own.
    pub memory: Vec<u8>,
    /// The connection that was accepted.
    pub accepted: Option<OwnedFd>,
}

/// How far an operation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that were moved.
    pub done: u64,
    /// Bytes that it may move yet.
    pub left: u64,
}

/// Which of a socket's readiness an operation waits for. Operations of one way go one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadyFor {
    In = 0,
    Out = 1,
}

impl Work {
    /// Connects `socket`, which does not block, to `address`.
    #[must_use]
    pub fn connect(socket: RawFd, address: &SocketAddr) -> Self {
        Self::Connect { socket, address: moving::address_bytes(address) }
    }

    /// The socket that it works with and what it waits for; none where it is a file's alone.
    pub(crate) fn socket(&self) -> Option<(RawFd, ReadyFor)> {
        match *self {
            Self::Receive { socket, .. } | Self::Accept { listener: socket } => Some((socket, ReadyFor::In)),
            Self::Send { socket, .. } | Self::Connect { socket, .. } | Self::SendFile { socket, .. } => {
                Some((socket, ReadyFor::Out))
            }
            Self::Read { .. } | Self::Write { .. } | Self::Sync { .. } => None,
        }
    }

    /// The open file that it reads or writes.
    pub(crate) fn file(&self) -> Option<RawFd> {
        match *self {
            Self::SendFile { file: Sent::Open(file), .. } | Self::Read { file, .. } => Some(file),
            Self::Write { file, .. } | Self::Sync { file } => Some(file),
            _ => None,
        }
    }

    /// Whether it needs a socket that does not block.
    pub(crate) fn needs_nonblocking(&self) -> bool {
        matches!(self, Self::Accept { .. } | Self::Connect { .. } | Self::SendFile { .. })
    }

    /// Bytes that it may move in all.
    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::SendFile { length, .. } => *length,
            _ => self.memory().map_or(0, |memory| memory.bytes().len() as u64),
        }
    }

    fn memory(&self) -> Option<&Memory> {
        match self {
            Self::Receive { memory, .. } | Self::Send { memory, .. } => Some(memory),
            Self::Read { memory, .. } | Self::Write { memory, .. } => Some(memory),
            _ => None,
        }
    }

    /// Its memory, if that was its own.
    pub(crate) fn into_memory(self) -> Vec<u8> {
        match self {
            Self::Receive { memory, .. } | Self::Send { memory, .. } => memory.into_own(),
            Self::Read { memory, .. } | Self::Write { memory, .. } => memory.into_own(),
            _ => Vec::new(),
        }
    }
}

impl Memory {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Lent(lent) => lent.bytes(),
        }
    }

    pub(crate) fn place(&mut self) -> &mut [u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Lent(lent) => lent.place(),
        }
    }

    fn into_own(self) -> Vec<u8> {
        match self {
            Self::Own(bytes) => bytes,
            Self::Lent(_) => Vec::new(),
        }
    }
}

impl From<Vec<u8>> for Memory {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Own(bytes)
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes().len())
    }
}
