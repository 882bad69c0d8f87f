//! All that a queue knows, under its lock: interests, origins, the ready list, and what wakes it.
//!
//! [`State`] (`parts.rs`) holds them, each in a file of its own; what is done with several of them at once is in files above it, one for each
//! thing that is done: asking, changing, following, introducing, telling, watching, working. These use `origins` and `lines`, and neither uses them.

mod asking;
mod changing;
mod files;
mod following;
mod interests;
mod introducing;
mod lines;
mod operations;
mod origin;
mod origins;
mod parts;
mod processes;
mod spread;
mod telling;
mod timers;
mod watching;
mod working;

pub use parts::State;
pub use telling::Sink;
