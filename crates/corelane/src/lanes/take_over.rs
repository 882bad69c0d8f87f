//! A hand-over restart: a new process goes on with the sockets of a running one, which then drains.
//!
//! ```text
//! new                                    control socket                                   old
//! take-over {version}          ------------------------------------------>   refused while another takes over
//!                              <------------------------------------------   offer: lanes, steering, key, table
//!                              <------- maps, groups (descriptors) -------   of the selection, where a program chooses
//!                              <------- sockets (descriptors) ------------   lane by lane: each sends its own from its own table
//!                              <------- listeners (descriptors) ----------   those that are no service's, as of metrics
//!                              <------- keepsakes ------------------------   what services keep over a restart: keys of tickets
//!                              <------------------------------------------   complete
//! lanes start on these sockets
//! ready                        ------------------------------------------>   waits for the new one
//!                              <------------------------------------------   agreed
//! prints, tells its supervisor
//! serving                      ------------------------------------------>   lanes leave their sockets behind; the name goes
//!                              <------------------------------------------   released
//! serves alone                                                               a second later: drains and ends
//! ```
//!
//! Without the feature `take-over`, `without::take_over` stands in its place.
//!
//! * **Who may fail where**, and who serves then, is the table of [`steps`]; both processes go by its two machines.
//! * **Nothing changes in the kernel**: sockets, groups, programs and maps go on as they are. So whoever dies or refuses before `serving` leaves nothing to be
//!   mended: the old process serves on. Until `released` both accept from the same sockets, and what waits in one is never closed with it.
//! * **A message is a line** of JSON (at most [`message::LINE_BYTES_MAX`]), and says how many descriptors come with its first byte. Fields and messages that
//!   a reader does not know are passed over, with their descriptors; a process reads what one release before it and one after it say (`message::VERSION`).
//! * **Who is heard**: the same user, and root (SO_PEERCRED). One at a time.
//! * **Lanes** are handed over one by one, so both processes have as many; the new one takes that number where none is set, and refuses another.

mod giving;
mod message;
mod steps;
mod taking;

pub(crate) use giving::{Giver, Passage};
pub(crate) use taking::Taken;
