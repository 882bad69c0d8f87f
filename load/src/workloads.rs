//! The protocols: one file each, and one line each in [`ALL`].

pub mod echo;
pub mod flood;
pub mod idle;
pub mod rpc;
pub mod udp;

use crate::error::Error;
use crate::plan::Plan;
use crate::run::Ends;
use corelane::{Lanes, Transport};

/// A workload as `corelane load` knows it.
#[derive(Debug)]
pub struct Entry {
    /// Its name on the command line and in reports.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// How its requests can travel: by the first of these unless said otherwise.
    pub transports: &'static [Transport],
    /// The port where none is named.
    pub default_port: u16,
    /// Bytes of a request where no size is asked for.
    pub default_size: usize,
    /// Whether a plan fits the protocol: sizes, modes.
    pub check: fn(&Plan) -> Result<(), Error>,
    /// Adds its client to the lanes of a run.
    pub client: fn(Lanes, Ends) -> Lanes,
}

/// All workloads.
pub const ALL: &[Entry] = &[echo::ENTRY, idle::ENTRY, rpc::ENTRY, udp::ENTRY];

/// The workload of that name.
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.name == name)
}
