//! Asynchronous connections where it matters how something ends: halves of connections, futures that are dropped, and crowds.

mod asking;
mod crowds;
mod drained;
mod dropped;
mod half;
mod hearing;
mod reading;
mod refused;
mod writing;
