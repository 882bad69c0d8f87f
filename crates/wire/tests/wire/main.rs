//! Published bytes, round trips, hostile bytes, and another implementation of XDR.

mod differential;
mod hostile;
mod parsers;
mod round_trip;
mod samples;
mod seeds;
mod vectors;
