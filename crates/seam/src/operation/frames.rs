//! Frames: what is asked of ports, and how it went. The contract is told with [`Port`](crate::Port).

use super::{Op, Outcome};
use crate::error::Fault;
use crate::frame::Frame;
use crate::port::{Port, PortFacts, PortId};

/// An operation on a port. A port has at most one receive and one send under way.
#[derive(Debug)]
pub enum FrameOp {
    /// Take a port up: [`FrameOutcome::Opened`].
    Open(
        /// The port, which is the driver's from now on.
        Box<dyn Port>,
    ),
    /// Receive once: [`FrameOutcome::Arrived`], with at least one frame.
    Receive {
        /// An open port.
        port: PortId,
        /// Most frames that are to come; at least 1.
        at_most: usize,
        /// The storage to fill; emptied first.
        into: Vec<Frame>,
    },
    /// End receiving: frames that have arrived are still delivered, otherwise the receive completes with `Cancelled`. Has no completion of its
    /// own.
    StopReceive {
        /// An open port.
        port: PortId,
    },
    /// Send all frames, in order: [`FrameOutcome::Departed`].
    Send {
        /// An open port.
        port: PortId,
        /// The frames to send; never empty. They may be frames of other lanes.
        frames: Vec<Frame>,
    },
    /// Close: operations under way end first, as cancelled, then comes [`Outcome::Closed`]; what the interface still reads is waited for.
    Close {
        /// An open port.
        port: PortId,
    },
}

/// How it went with a port.
#[derive(Debug)]
pub enum FrameOutcome {
    /// The port is open.
    Opened {
        /// Its name.
        port: PortId,
        /// The facts of the port.
        facts: PortFacts,
    },
    /// Frames arrived, or none and a fault.
    Arrived {
        /// The batch.
        frames: Vec<Frame>,
        /// Why it is empty.
        fault: Option<Fault>,
    },
    /// A batch was worked off.
    Departed {
        /// The storage, with the frames that were neither taken nor refused, because of the fault.
        frames: Vec<Frame>,
        /// Frames that the interface took.
        taken: u64,
        /// Frames that it never will; they are lost.
        refused: u64,
        /// Why the port took no more.
        fault: Option<Fault>,
    },
}

impl FrameOp {
    /// [`Op::check`] of this kind.
    #[inline]
    pub(super) fn check(&self) {
        match self {
            Self::Receive { at_most, .. } => assert!(*at_most > 0, "a receive has room for a frame"),
            Self::Send { frames, .. } => assert!(!frames.is_empty(), "nothing to send"),
            Self::Open(_) | Self::StopReceive { .. } | Self::Close { .. } => {}
        }
    }
}

impl From<FrameOp> for Op {
    fn from(op: FrameOp) -> Self {
        Self::Frame(op)
    }
}

impl From<FrameOutcome> for Outcome {
    fn from(outcome: FrameOutcome) -> Self {
        Self::Frame(outcome)
    }
}
