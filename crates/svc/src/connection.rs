//! A connection: its state, and what its events do to that. [`entry`] holds it, and no field of that is seen outside of this folder; [`machine`] is its life.

mod bridge;
mod bridging;
mod bulk;
mod busy;
pub(crate) mod connections;
pub(crate) mod deadlines;
pub(crate) mod delivery;
pub(crate) mod entry;
pub(crate) mod events;
pub(crate) mod flush;
pub(crate) mod found;
pub(crate) mod input;
pub(crate) mod machine;
pub(crate) mod output;
pub(crate) mod packed;
pub(crate) mod parking;
pub(crate) mod passage;
mod ties;
mod window;
