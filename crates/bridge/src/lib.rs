//! Two connections between which the kernel passes bytes, without a process in between (a sockmap, `Documentation/bpf/map_sockmap.rst`).
#![doc = include_str!("../DESIGN.md")]
#![forbid(unsafe_code)]

mod bridge;
mod direction;
mod program;
mod words;

pub use bridge::Bridge;
pub use corelane_os::progress::Progress;
pub use corelane_select::Error;
pub use direction::{Direction, Given, Kernel};
pub use words::{Counted, Say};
