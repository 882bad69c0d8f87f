//! What the simulated system does, case by case: connections, datagrams, files, clocks, bells and faults.
#![allow(clippy::unwrap_used)] // in a test, a broken assumption is to end it

mod bench;
mod cases {
    mod connections;
    mod contract;
    mod datagrams;
    mod descriptors;
    mod faults;
    mod names;
    mod time;
    mod work;
}
