//! The C face of kevent of 2007, over `crates/kevent`: which queue a descriptor is, whether pointers can be followed, errno.

mod border;
mod memory;
mod table;

pub use border::{
    kevent_commit, kevent_ctl, kevent_get_events, kevent_get_stats, kevent_init, kevent_put, kevent_ring_map, kevent_ring_unmap,
    kevent_wait,
};
pub(crate) use table::closed;
