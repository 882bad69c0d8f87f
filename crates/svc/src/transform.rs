//! What may stand between a socket and a connection's input and output: TLS, a PROXY header in front, a cipher.
//!
//! A service knows nothing of it. Whoever adds the service says what makes its transforms ([`Services::transform`](crate::Services::transform)):
//! a function for each lane, asked for each connection, once it is accepted or open.
//!
//! ```text
//! socket --received--> Transform --input--> service
//!        <----wire----           <--output--
//! ```
//!
//! A transform is one call, [`Transform::pass`], with the four chains at hand: it moves what it can, and says whether it has more to do. It is
//! called at the start (so that a client can speak first), when bytes have come, when the peer's stream has ended, when the service has written, before our
//! side ends, and in the next turn when it has said that it has more to do. Until it [opens](Passage::open) the connection it is in its
//! handshake: the service has nothing of the connection yet, and what the transform has learned of the peer by then is in the [`Peer`] with which the service opens it.
//!
//! TLS by rustls is `crates/tls`, which OpenSSL's client and Python's ask in the tests. Its call:
//!
//! ```text
//! fn pass(&mut self, p: &mut Passage<'_>) -> Result<Progress, TransformError> {
//!     let reads_on = self.receive(p)?;     // a whole record at a time: what is not whole stays in `received`; in a handshake one record a call
//!     if !self.is_open && !self.rustls.is_handshaking() { self.open(p) }     // server_name, alpn_protocol, peer_certificates
//!     let writes_on = self.send(p)?;       // `output` becomes records, 16 KiB each
//!     if p.finishing && p.output.is_empty() { self.rustls.send_close_notify(); self.say(p) }
//!     Ok(if reads_on || writes_on { Progress::More } else { Progress::Idle })
//! }
//! ```
//!
//! The peer's close_notify is told by `end_input`; when rustls refuses, the alert that it made goes into `wire` before the error returns. Its API without buffers
//! of its own fits as well: it says in *one* call that bytes are to be sent, have been read, or may be written, whichever way it was called for. Version 0.23
//! does not tell the server's name by it, and what it has opened of a message of the handshake must lie where it was until the rest comes: so the
//! transform keeps those records in a lease of its own, and not in `received`.
//!
//! Tickets and certificates are in the configuration, one a lane, which the function that makes transforms keeps; its clock is [`Passage::now`].
//! A PROXY header is taken off by a transform that opens when the header has come, and says who the peer is in [`Passage::peer`]; TLS behind one
//! is a transform that it calls with the same passage from then on ([`Services::wrap_transforms`](crate::Services::wrap_transforms)); one within another
//! calls that with chains of its own. TLS by the kernel comes later: a transform then hands its keys over from
//! `pass`, when `wire` and `received` are empty, and is called for what is no data (alerts, new keys) only.

use crate::names::Peer;
use corelane_seam::{Arena, Chain};

/// About the most bytes that one call of [`Transform::pass`] should move each way, so that other connections get their turn: more is left for the next call.
pub const PASS_BYTES: usize = 64 << 10;

/// Changes the bytes of one connection in both directions.
///
/// A panic in a call ends the connection as aborted, is counted and named; the lane lives on.
pub trait Transform {
    /// Moves what it can, [`PASS_BYTES`] or a step of a handshake at the most, and leaves the rest in its chain.
    ///
    /// # Errors
    /// The peer is at fault. What is in `wire` by then (an alert, an answer in plain) still leaves, then our side finishes and the connection ends as
    /// [`Ending::Aborted`](crate::Ending::Aborted); what the service had written is lost. The reason is reported, and counted (`transform_refusals`).
    fn pass(&mut self, passage: &mut Passage<'_>) -> Result<Progress, TransformError>;

    /// Whether parts of files may stand in [`Passage::output`], which go into `wire` as they are: where nothing changes bytes (behind a PROXY header), or the kernel does.
    /// Otherwise they are read before, piece by piece, and come as bytes in memory.
    fn passes_files(&self) -> bool {
        false
    }
}

/// Whether a transform is to be called without anything having happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It has done what it could: it is called when bytes come, or the service writes, or one of both sides ends; and, if it was refused memory, when the
    /// lane would lend that.
    Idle,
    /// It has done a turn's share, and is called again in the next turn. Steps of handshakes are bounded for the lane as well, so it may be a later one.
    More,
}

/// Which end of a connection we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The connection was accepted.
    Server,
    /// We have opened it ([`Cx::connect`](crate::Cx::connect)).
    Client,
}

/// Makes the transform of a connection, on its lane; none lets its bytes pass as they are. A panic ends the connection as aborted.
pub type MakeTransform = Box<dyn FnMut(Side, &Peer) -> Option<Box<dyn Transform>>>;

/// What a transform works on in one call.
#[non_exhaustive]
pub struct Passage<'a> {
    /// Bytes from the peer that were not taken yet. Leave here what is not whole: it counts as a record that is arriving, with its limits in time, and may be
    /// `record_max` bytes long, or 64 KiB if that is more.
    pub received: &'a mut Chain,
    /// Bytes for the service.
    pub input: &'a mut Chain,
    /// Bytes of the service, all of them in memory unless the transform [says otherwise](Transform::passes_files): parts of files are read before they come here.
    pub output: &'a mut Chain,
    /// Bytes to the peer. New bytes of the service come only when this has left.
    pub wire: &'a mut Chain,
    /// The two ends as the service sees them: to be corrected by who knows better, and to be told what was [learned](Peer::learned).
    pub peer: &'a mut Peer,
    /// The lane's memory; what is leased is charged to the connection. When it lends nothing leave the input where it is.
    pub arena: &'a Arena,
    /// This turn's time: nanoseconds of the monotonic clock.
    pub now: u64,
    /// The time of day then: nanoseconds since 1970.
    pub time_of_day: u64,
    /// The peer's socket has finished: nothing will come behind `received`. Whether the peer meant to end there only the transform can say.
    pub peer_finished: bool,
    /// Our side ends behind `output`: take leave of the peer (close_notify). From the first such call on, each says so.
    pub finishing: bool,
    pub(crate) opens: bool,
    pub(crate) ends_input: bool,
}

impl Passage<'_> {
    /// The handshake is over: the service gets the connection, with `peer` as it is now. The second time it does nothing.
    pub fn open(&mut self) {
        self.opens = true;
    }

    /// The peer has said that its stream ends here (close_notify): the service sees [`Input::is_finished`](crate::Input::is_finished) behind what is in `input`. What comes
    /// after it is discarded, and our output may go on. If the socket finishes and this was not said, the service is told as well that its
    /// input [was cut](crate::Input::is_truncated).
    pub fn end_input(&mut self) {
        self.ends_input = true;
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
