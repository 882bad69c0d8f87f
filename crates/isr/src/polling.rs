//! Polling with a guaranteed user fraction: how much of a lane's time its network may take while something else wants it.

pub mod timed;
