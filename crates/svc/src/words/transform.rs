//! Transforms, which may stand between a socket and a connection's input and output: TLS, a PROXY header in front, a cipher.
//!
//! A service knows nothing of it. The code that adds the service also gives the function that makes its transforms ([`Services::transform`](crate::Services::transform)):
//! one for each lane, called for each connection once it is accepted or open.
//!
//! ```text
//! socket --received--> Transform --input--> service
//!        <----wire----           <--output--
//! ```
//!
//! A transform is one call, [`Transform::pass`], with all four chains at hand: it moves what it can, and says whether it has more to do. It is
//! called at the start (so that a client can speak first), when bytes have come, when the peer's stream has ended, when the service has written, before our
//! side ends, and in the next turn if it said that it has more to do. Until it [opens](Passage::open) the connection, it is in its
//! handshake, and the service does not know the connection yet. Facts that the transform learned of the peer by then are in the [`Peer`] that the service gets.
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
//! `end_input` reports the peer's close_notify. When rustls refuses, its alert goes into `wire` before the error returns. Its API without buffers
//! of its own fits as well: it reports in *one* call that bytes must be sent, were read, or may be written, whichever of these the call was for. In version 0.23
//! that API does not reveal the server's name, and the opened part of a handshake message must stay where it is until the rest comes; so such a
//! transform would keep those records in a lease of its own, not in `received`.
//!
//! Tickets and certificates are in the configuration, one for each lane, which the function that makes transforms keeps; its clock is [`Passage::now`].
//! A PROXY header is taken off by a transform that opens when the header has come, and names the peer in [`Passage::peer`]; TLS behind one
//! is a transform that it calls with the same passage from then on ([`Services::wrap_transforms`](crate::Services::wrap_transforms)). One transform within another
//! calls that with chains of its own. TLS by the kernel comes later: a transform then hands over its keys in
//! `pass`, when `wire` and `received` are empty, and is called only for what is no data (alerts, new keys).

use crate::words::names::Peer;
use corelane_seam::{Arena, Chain, Instant};
use std::time::Duration;

/// About the most bytes that one call of [`Transform::pass`] should move each way; it leaves more for the next call, so that other connections get their share.
pub const PASS_BYTES: usize = 64 << 10;

/// Changes the bytes of one connection in both directions.
///
/// A panic in a call ends the connection as aborted, is counted and named; the lane lives on.
pub trait Transform: Whole {
    /// Moves what it can, [`PASS_BYTES`] or a step of a handshake at the most, and leaves the rest in its chain.
    ///
    /// # Errors
    /// The peer is at fault. Bytes in `wire` by then (an alert, an answer in plain) still leave, then our side finishes and the connection ends as
    /// [`Ending::Aborted`](crate::Ending::Aborted); what the service had written is lost. The reason is reported, and counted (`transform_refusals`).
    fn pass(&mut self, passage: &mut Passage<'_>) -> Result<Progress, TransformError>;

    /// Whether parts of files may stand in [`Passage::output`], which go into `wire` as they are: where nothing changes bytes (behind a PROXY header), or the kernel does.
    /// Otherwise they are read before, piece by piece, and come as bytes in memory.
    fn passes_files(&self) -> bool {
        false
    }

    /// The transform of an idle connection, for another lane, where it goes on. Its state goes with it whole, if no other value of this lane can reach it.
    ///
    /// # Errors
    /// It comes back, and its connection stays on this lane: the default.
    fn pack(self: Box<Self>) -> Result<Box<dyn Transform + Send>, Box<dyn Transform>> {
        Err(self.whole())
    }
}

/// A transform in the box in which its lane keeps it. Each [`Transform`] is one: so that [`Transform::pack`] can give back what it was given.
pub trait Whole {
    /// The same box, as the trait's.
    fn whole(self: Box<Self>) -> Box<dyn Transform>;
}

impl<T: Transform + 'static> Whole for T {
    fn whole(self: Box<Self>) -> Box<dyn Transform> {
        self
    }
}

/// Whether a transform is to be called without anything having happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It has done what it could. It is called again when bytes come, the service writes, or either side ends; and, if it was refused memory, when the
    /// lane would lend that memory.
    Idle,
    /// It has done a turn's share, and is called again in the next turn, or in a later one while many handshakes are at work: the lane bounds their steps.
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

/// The streams that a transform works on in one call.
#[non_exhaustive]
pub struct Passage<'a> {
    /// Bytes from the peer that were not taken yet. Leave here what is not whole: it counts as an arriving record, with a record's limits in time, and may be
    /// `record_max` bytes long, or 64 KiB if that is more.
    pub received: &'a mut Chain,
    /// Bytes for the service.
    pub input: &'a mut Chain,
    /// Bytes of the service, all of them in memory unless the transform [says otherwise](Transform::passes_files): parts of files are read before they come here.
    pub output: &'a mut Chain,
    /// Bytes to the peer. New bytes of the service come only when this has left.
    pub wire: &'a mut Chain,
    /// The two ends as the service sees them. A transform that knows better corrects them, and puts here what it [learned](Peer::learned).
    pub peer: &'a mut Peer,
    /// The lane's memory; leases are charged to the connection. When it lends nothing, leave the input where it is.
    pub arena: &'a Arena,
    /// This turn's time.
    pub now: Instant,
    /// The time of day then, since 1970, UTC, as of [`Cx::time_of_day`](crate::Cx::time_of_day).
    pub time_of_day: Duration,
    /// The peer's socket has finished: nothing comes after `received`. Only the transform can tell whether the peer meant to end there.
    pub peer_finished: bool,
    /// Our side ends after `output`: say a last word to the peer (close_notify). Once set, it stays set in all later calls. Never set where the other
    /// connection of its pair was cut or failed, so that the peer cannot take such an end for a proper one.
    pub finishing: bool,
    pub(crate) opens: bool,
    pub(crate) ends_input: bool,
}

impl Passage<'_> {
    /// The handshake is over: the service gets the connection, with `peer` as it is now. A second call does nothing.
    pub fn open(&mut self) {
        self.opens = true;
    }

    /// The peer has ended its stream here (close_notify): after what is in `input`, the service sees [`Input::is_finished`](crate::Input::is_finished). Later bytes are
    /// discarded, and our output may go on. If the socket finishes without this call, the service also sees that its
    /// input [was cut](crate::Input::is_truncated).
    pub fn end_input(&mut self) {
        self.ends_input = true;
    }
}

/// Why a transform refused: the peer is at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransformError(
    /// The fault, in words.
    pub String,
);

impl std::fmt::Display for TransformError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TransformError {}
