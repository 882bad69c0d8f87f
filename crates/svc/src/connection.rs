//! A connection: its state, and what its events do to that.

pub(crate) mod connections;
pub(crate) mod delivery;
pub(crate) mod entry;
pub(crate) mod files;
pub(crate) mod found;
pub(crate) mod input;
pub(crate) mod machine;
pub(crate) mod output;
pub(crate) mod ticket;
pub(crate) mod transform;
pub(crate) mod writer;
