//! What an operation is in the books, and which outcomes it may have.

use corelane_seam::{
    DatagramOp, DatagramOutcome, FileOp, FileOutcome, FrameOp, FrameOutcome, Op, Outcome, PortId, Socket, StreamOp, StreamOutcome,
};

/// The kinds of operation that have a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Accept,
    Connect,
    Receive,
    ReceivePiped,
    ReceiveInto,
    Send,
    SendFile,
    ReceiveDatagrams,
    SendDatagrams,
    Close,
    Poll,
    Open,
    Read,
    Write,
    Sync,
    List,
    Warm,
    Watch,
    CloseFile,
    Offload,
    Bind,
    OpenPort,
    ReceiveFrames,
    SendFrames,
    Unknown,
}

impl Kind {
    /// The kind of an operation, with its socket; none for those without a completion.
    pub(crate) fn of(op: &Op) -> Option<(Self, Option<Socket>)> {
        Some(match op {
            Op::Stream(op) => return Self::of_stream(op),
            Op::Datagram(op) => Self::of_datagram(op),
            Op::File(op) => (Self::of_file(op), None),
            Op::Frame(op) => return Self::of_frame(op),
            Op::Close { socket, .. } => (Self::Close, Some(*socket)),
            Op::Poll { .. } => (Self::Poll, None),
            Op::Offload(_) => (Self::Offload, None),
            Op::StopReceive { .. } | Op::Bridge { .. } | Op::TellUnseen { .. } | Op::Cancel { .. } => return None,
            _ => (Self::Unknown, None),
        })
    }

    fn of_stream(op: &StreamOp) -> Option<(Self, Option<Socket>)> {
        Some(match op {
            StreamOp::Accept { listener } => (Self::Accept, Some(*listener)),
            StreamOp::Receive { socket } => (Self::Receive, Some(*socket)),
            StreamOp::ReceivePiped { socket, .. } => (Self::ReceivePiped, Some(*socket)),
            StreamOp::ReceiveInto { socket, .. } => (Self::ReceiveInto, Some(*socket)),
            StreamOp::Send { socket, .. } => (Self::Send, Some(*socket)),
            StreamOp::SendFile { socket, .. } => (Self::SendFile, Some(*socket)),
            StreamOp::Connect { .. } => (Self::Connect, None),
            StreamOp::StopAccept { .. } => return None,
        })
    }

    fn of_datagram(op: &DatagramOp) -> (Self, Option<Socket>) {
        match op {
            DatagramOp::Receive { socket, .. } => (Self::ReceiveDatagrams, Some(*socket)),
            DatagramOp::Send { socket, .. } => (Self::SendDatagrams, Some(*socket)),
            DatagramOp::Bind(_) => (Self::Bind, None),
        }
    }

    fn of_frame(op: &FrameOp) -> Option<(Self, Option<Socket>)> {
        Some(match op {
            FrameOp::Open(_) => (Self::OpenPort, None),
            FrameOp::Receive { port, .. } => (Self::ReceiveFrames, Some(entered_as(*port))),
            FrameOp::Send { port, .. } => (Self::SendFrames, Some(entered_as(*port))),
            FrameOp::Close { port } => (Self::Close, Some(entered_as(*port))),
            FrameOp::StopReceive { .. } => return None,
        })
    }

    fn of_file(op: &FileOp) -> Self {
        match op {
            FileOp::Open { .. } => Self::Open,
            FileOp::Read { .. } => Self::Read,
            FileOp::Write { .. } => Self::Write,
            FileOp::Sync { .. } => Self::Sync,
            FileOp::Warm { .. } => Self::Warm,
            FileOp::List { .. } => Self::List,
            FileOp::Watch { .. } => Self::Watch,
            FileOp::Close { .. } => Self::CloseFile,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Connect => "connect",
            Self::Receive => "receive",
            Self::ReceivePiped => "receive-piped",
            Self::ReceiveInto => "receive-into",
            Self::Send => "send",
            Self::SendFile => "send-file",
            Self::ReceiveDatagrams => "receive-datagrams",
            Self::SendDatagrams => "send-datagrams",
            Self::Close => "close",
            Self::Poll => "poll",
            Self::Open => "open",
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::Warm => "warm",
            Self::List => "list",
            Self::Watch => "watch",
            Self::CloseFile => "close-file",
            Self::Offload => "offload",
            Self::Bind => "bind",
            Self::OpenPort => "open-port",
            Self::ReceiveFrames => "receive-frames",
            Self::SendFrames => "send-frames",
            Self::Unknown => "unknown",
        }
    }

    /// Kinds of which a socket has one under way at most share a direction.
    pub(crate) const fn direction(self) -> Option<u8> {
        match self {
            Self::Accept => Some(0),
            Self::Receive | Self::ReceivePiped | Self::ReceiveInto | Self::ReceiveDatagrams | Self::ReceiveFrames => Some(1),
            Self::Send | Self::SendFile | Self::SendDatagrams | Self::SendFrames => Some(2),
            Self::Close => Some(3),
            _ => None,
        }
    }

    /// Whether it can be cancelled by its handle, which then names nothing else meanwhile.
    pub(crate) fn is_cancellable(self) -> bool {
        matches!(self, Self::Connect | Self::Poll | Self::Watch)
    }

    /// Whether `outcome` may come from an operation of this kind.
    pub(crate) fn fits(self, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Stream(outcome) => self.fits_stream(outcome),
            Outcome::Datagram(DatagramOutcome::Bound { .. }) => self == Self::Bind,
            Outcome::Datagram(DatagramOutcome::Arrived { .. }) => self == Self::ReceiveDatagrams,
            Outcome::Datagram(DatagramOutcome::Departed { .. }) => self == Self::SendDatagrams,
            Outcome::File(outcome) => self.fits_file(outcome),
            Outcome::Frame(FrameOutcome::Opened { .. }) => self == Self::OpenPort,
            Outcome::Frame(FrameOutcome::Arrived { .. }) => self == Self::ReceiveFrames,
            Outcome::Frame(FrameOutcome::Departed { .. }) => self == Self::SendFrames,
            Outcome::Closed => self == Self::Close,
            Outcome::Ready { .. } => self == Self::Poll,
            Outcome::Offloaded(_) => self == Self::Offload,
            Outcome::Failed(_) => true,
            _ => false,
        }
    }

    fn fits_stream(self, outcome: &StreamOutcome) -> bool {
        match outcome {
            StreamOutcome::Accepted { .. } => self == Self::Accept,
            StreamOutcome::Connected { .. } => self == Self::Connect,
            StreamOutcome::Received(_) | StreamOutcome::Unseen { .. } | StreamOutcome::EndOfStream => {
                matches!(self, Self::Receive | Self::ReceivePiped)
            }
            StreamOutcome::ReceivedPiped(_) => self == Self::ReceivePiped,
            StreamOutcome::Filled { .. } => self == Self::ReceiveInto,
            StreamOutcome::Sent { .. } => self == Self::Send,
            StreamOutcome::FileSent { .. } => self == Self::SendFile,
        }
    }

    fn fits_file(self, outcome: &FileOutcome) -> bool {
        match outcome {
            FileOutcome::Opened { .. } => self == Self::Open,
            FileOutcome::Filled { .. } => self == Self::Read,
            FileOutcome::Written { .. } => self == Self::Write,
            FileOutcome::Warm { .. } => self == Self::Warm,
            FileOutcome::Listed { .. } => self == Self::List,
            FileOutcome::Watched | FileOutcome::Changed => self == Self::Watch,
            FileOutcome::Done => matches!(self, Self::Sync | Self::CloseFile),
            _ => false,
        }
    }
}

/// The name that a port has in the books: that of no socket.
pub(crate) fn entered_as(port: PortId) -> Socket {
    Socket { index: port.index | 1 << 31, generation: port.generation }
}

/// What the outcome is, for the log.
pub(crate) fn outcome_name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Stream(StreamOutcome::Accepted { .. }) => "accepted",
        Outcome::Stream(StreamOutcome::Connected { .. }) => "connected",
        Outcome::Stream(StreamOutcome::Received(_)) => "received",
        Outcome::Stream(StreamOutcome::ReceivedPiped(_)) => "received in a pipe",
        Outcome::Stream(StreamOutcome::Unseen { .. }) => "passed on by the system",
        Outcome::Stream(StreamOutcome::EndOfStream) => "end of stream",
        Outcome::Stream(StreamOutcome::Filled { .. }) | Outcome::File(FileOutcome::Filled { .. }) => "filled",
        Outcome::Stream(StreamOutcome::Sent { .. }) => "sent",
        Outcome::Stream(StreamOutcome::FileSent { .. }) => "file sent",
        Outcome::Datagram(DatagramOutcome::Bound { .. }) => "bound",
        Outcome::Datagram(DatagramOutcome::Arrived { .. }) => "arrived",
        Outcome::Datagram(DatagramOutcome::Departed { .. }) => "departed",
        Outcome::File(FileOutcome::Opened { .. }) => "opened",
        Outcome::File(FileOutcome::Written { .. }) => "written",
        Outcome::File(FileOutcome::Warm { .. }) => "warm",
        Outcome::File(FileOutcome::Listed { .. }) => "listed",
        Outcome::File(FileOutcome::Watched) => "watched",
        Outcome::File(FileOutcome::Changed) => "changed",
        Outcome::File(FileOutcome::Done) => "done",
        Outcome::Frame(FrameOutcome::Opened { .. }) => "port opened",
        Outcome::Frame(FrameOutcome::Arrived { .. }) => "frames arrived",
        Outcome::Frame(FrameOutcome::Departed { .. }) => "frames departed",
        Outcome::Closed => "closed",
        Outcome::Ready { .. } => "ready",
        Outcome::Offloaded(_) => "offloaded",
        Outcome::Released => "released",
        Outcome::Failed(_) => "failed",
        _ => "unknown",
    }
}
