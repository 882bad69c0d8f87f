//! The word by which a connection is told that it may begin, or go on.

use corelane::Cx;
use corelane::service::Notes;

/// A connection may begin, or go on: it is open, and there is something to send.
#[derive(Debug)]
pub struct Begin {
    /// How many bytes may be handed over.
    pub(crate) warm: u64,
}

/// The service's calls are made with this.
pub(crate) type PushCx<'a> = Cx<'a, Notes<Begin>>;
