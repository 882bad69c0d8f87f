//! What the simulated system does, case by case: connections, datagrams, files, clocks, bells and faults.

mod bridged;
mod connections;
mod contract;
mod datagrams;
mod descriptors;
mod faults;
mod names;
mod releases;
mod time;
mod work;
