#![doc = include_str!("../DESIGN.md")]
#![deny(unsafe_code)]

mod aio;
mod border;
mod call;
mod cancelling;
mod closing;
mod failing;
mod kevents;
mod names;
mod owner;
mod record;
mod short;

pub use aio::{Aio, corelane_aio_cancel, corelane_aio_progress, corelane_aio_submit, corelane_lio_submit};
pub use border::{corelane_short_kevent, kevent, kqueue, kqueue1, kqueuex};
pub use closing::{corelane_close, corelane_close_range, corelane_dup2, corelane_dup3, corelane_fclose, corelane_loaded};
pub use kevents::{
    kevent_commit, kevent_ctl, kevent_get_events, kevent_get_stats, kevent_init, kevent_put, kevent_ring_map, kevent_ring_unmap,
    kevent_wait,
};
pub use names::{Name, corelane_names};
pub use record::Kevent;
pub use short::Short;
