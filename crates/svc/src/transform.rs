//! What may stand between a socket and a connection's input and output.

use corelane_seam::{Address, Arena, Chain};

/// Changes the bytes of one connection in both directions: TLS, a PROXY header in front, compression.
///
/// Each call moves what it can from `from` to `to` and leaves the rest. Memory comes from the lane's arena; when that is
/// used up it leaves its input and is called again.
pub trait Transform {
    /// Bytes from the peer, on their way to the service. What it has to say to the peer itself (a handshake) goes to
    /// `back`, which is not passed through [`Transform::outbound`].
    ///
    /// # Errors
    /// The bytes are not what they must be: the connection is aborted, and the reason reported.
    fn inbound(&mut self, arena: &Arena, from: &mut Chain, to: &mut Chain, back: &mut Chain) -> Result<(), TransformError>;

    /// Bytes of the service, on their way to the peer.
    ///
    /// # Errors
    /// As for [`Transform::inbound`].
    fn outbound(&mut self, arena: &Arena, from: &mut Chain, to: &mut Chain) -> Result<(), TransformError>;

    /// The peer that the transform knows better than the socket does (a PROXY header names it).
    fn peer(&self) -> Option<Address> {
        None
    }
}

/// Why a transform refused: the peer is at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransformError(
    /// What was wrong, in words.
    pub String,
);

impl std::fmt::Display for TransformError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TransformError {}
