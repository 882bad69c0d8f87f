//! Datagrams: what their sockets are made with, what is asked of them, and how it went.

use super::{Op, Outcome};
use crate::address::Address;
use crate::datagram::{Datagrams, Trains};
use crate::error::Fault;
use crate::handle::Socket;

/// A datagram socket to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    /// Address and port; port 0 lets the system choose, and so does a Unix address without a name.
    pub address: Address,
    /// The only peer, if there is one (connect(2), udp(7)): nobody else's datagrams arrive, all that is sent goes there,
    /// whatever the trains name, and what the network says of it is reported: `Refused` where nobody is bound.
    pub peer: Option<Address>,
    /// As in [`Listen`](super::Listen).
    pub share_port: bool,
    /// As in [`Listen`](super::Listen).
    pub v6_only: bool,
    /// Bytes of the kernel's receive buffer; 0 leaves the default (net.core.rmem_default).
    pub receive_buffer_bytes: u32,
    /// Bytes of the kernel's send buffer; 0 leaves the default (net.core.wmem_default).
    pub send_buffer_bytes: u32,
}

/// An operation on a datagram socket. Such sockets have at most one receive and one send under way.
#[derive(Debug)]
pub enum DatagramOp {
    /// Make a datagram socket, as [`Driver::bind`](crate::Driver::bind) does: [`DatagramOutcome::Bound`].
    Bind(
        /// The socket.
        Bind,
    ),
    /// Receive a batch: [`DatagramOutcome::Arrived`].
    Receive {
        /// A datagram socket.
        socket: Socket,
        /// The storage to fill.
        into: Datagrams,
    },
    /// Send all trains: [`DatagramOutcome::Departed`].
    Send {
        /// A datagram socket.
        socket: Socket,
        /// The trains to send; never empty.
        trains: Trains,
    },
}

/// How it went with a datagram socket.
#[derive(Debug)]
pub enum DatagramOutcome {
    /// The datagram socket is there.
    Bound {
        /// The new socket.
        socket: Socket,
        /// Its address.
        local: Address,
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
}

impl DatagramOp {
    /// [`Op::check`] of this kind.
    #[inline]
    pub(super) fn check(&self) {
        if let Self::Send { trains, .. } = self {
            assert!(!trains.is_empty(), "nothing to send");
        }
    }
}

impl From<DatagramOp> for Op {
    fn from(op: DatagramOp) -> Self {
        Self::Datagram(op)
    }
}

impl From<DatagramOutcome> for Outcome {
    fn from(outcome: DatagramOutcome) -> Self {
        Self::Datagram(outcome)
    }
}
