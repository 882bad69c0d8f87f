//! Published bytes, round trips, hostile bytes, and another implementation of XDR.
#![allow(clippy::unwrap_used)] // all of this is tests

mod calls;
mod differential;
mod hello;
mod hostile;
mod http1;
mod packet;
mod parsers;
mod round_trip;
mod samples;
mod seeds;
mod vectors;
