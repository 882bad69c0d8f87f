//! What the project's programs for its developers share: the workspace as cargo describes it, and networks to try things in.
#![forbid(unsafe_code)]

pub mod rig;
pub mod workspace;
