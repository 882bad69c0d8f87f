//! All that a queue knows, under its lock: interests, origins, the ready list, and what wakes it.
//!
//! [`State`] has these as its parts; each of the other files has what is done with some of them.

mod asking;
mod changing;
mod files;
mod following;
mod interests;
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
