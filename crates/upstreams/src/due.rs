//! What a table wants done outside of it, and what comes of that.

use crate::listing::Listing;
use crate::source::Source;
use crate::tried::Upstream;
use corelane::Address;

/// What is to be done outside of the table. Each is under way until its end is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// The addresses of a name, for [`Upstreams::resolved`](crate::Upstreams::resolved). Two at a time.
    Resolve {
        /// Which of these two.
        asking: usize,
        /// The name.
        host: String,
        /// The port of its addresses.
        port: u16,
    },
    /// What a source says, for [`Upstreams::resolved`](crate::Upstreams::resolved), as [`Listing::of`] tells it. It counts as a name: two at a time.
    List {
        /// Which of these two.
        asking: usize,
        /// Which.
        source: Source,
        /// By which its last answer is known.
        stamp: Option<u64>,
        /// Whether those that it names are spoken to by TLS.
        is_tls: bool,
    },
    /// Whether an upstream takes a connection, for [`Upstreams::checked`](crate::Upstreams::checked).
    Check {
        /// Which.
        upstream: Upstream,
        /// Where.
        address: Address,
    },
}

/// What was asked for outside of the table, and has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The addresses of a name, or why there are none.
    Addresses(Result<Vec<Address>, String>),
    /// What a source says.
    Listing(Listing),
}

impl From<Result<Vec<Address>, String>> for Found {
    fn from(found: Result<Vec<Address>, String>) -> Self {
        Self::Addresses(found)
    }
}
