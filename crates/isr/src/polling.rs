//! Device polling: how much of a CPU's time reception may take, and who finds that out.
//!
//! A card's interrupts stay off, and its handler is called each tick of a clock with a number of frames that it may take. So reception has a bounded share of the CPU,
//! whatever comes. The idea and the words are those of FreeBSD's polling(4) (Luigi Rizzo); all is written from what it does.
//!
//! [`Original`] is its controller, with the same [`Knobs`] and [`Variables`]. [`Timed`] has the same aim by the clock, without ticks. [`Settings`] say which of the two a
//! lane has. [`tune`] finds settings for them, or for whatever else has some; [`card`] is a simulated gateway to try both on.

pub mod card;
mod handlers;
mod knobs;
mod original;
mod settings;
mod timed;
pub mod tune;

pub use handlers::{HANDLERS_MAX, HandlerError};
pub use knobs::{HZ, Knob, KnobError, Knobs};
pub use original::{Chunk, IDLE_SLEEP, Original, Variables};
pub use settings::{Change, ChangeError, Controller, Settings};
pub use timed::{PERIOD, Timed, TimedCounts};
