//! What is counted over a day, a week and a year, in a file of fixed size.
//!
//! ```text
//! readings --[rates]--> steps of 5 min: a day --[average, most]--> of 30 min: a week --> of a day: a year
//!                          each step is a row of the file, with a cell for each series      --[view]--> curves
//! ```
//!
//! A [`Store`] is told what is counted at a time ([`Store::record`]), and what was changed ([`Store::note`]). A [`View`] is what it knows of a span. The
//! crate asks no clock: times are handed in. The file is a [`Disk`], so that tests tear it at every byte.
//!
//! **The file** begins with its version and shape. Then come names of series, notes, and three rings of rows. Each name, note and row is sealed by a checksum of
//! its own, which covers its place as well. One that was torn when the process was killed is a gap, and never a wrong value. At most the current step is lost.
//! The rows of a week and a year are made from finer ones, so they are made again after a kill.
//!
//! **A series** has a column, which it keeps for as long as it is seen once a year. When all [`SERIES_MAX`] have owners, a new series takes the column that was
//! not seen for longest, if that was not today. Otherwise it is refused, and counted.
//!
//! **A counter** becomes a rate a second. One that is less than before has begun again: that interval is unknown, and no spike. Intervals longer than
//! [`HOLE_MILLISECONDS`] are unknown too, because nobody knows what happened in them.
//!
//! **Bounds**: the file is [`FILE_BYTES`] long. It is sparse: a row takes 8 bytes a series on the file system, rounded up to its blocks. Memory is some hundred bytes
//! a series, and a view takes 8 bytes for each series and step.
#![forbid(unsafe_code)]

mod catalogue;
mod disk;
mod error;
mod layout;
mod name;
mod notes;
mod row;
mod step;
mod store;
mod view;

pub use disk::Disk;
pub use error::Error;
pub use layout::{FILE_BYTES, NOTES_MAX, SERIES_MAX, Span, VERSION};
pub use name::{Kind, Name, Reading, Subject, TEXT_BYTES_MAX, WHAT_BYTES_MAX};
pub use notes::{NOTE_BYTES_MAX, Note};
pub use store::{HOLE_MILLISECONDS, Store};
pub use view::{Curve, View, last_known, view};
