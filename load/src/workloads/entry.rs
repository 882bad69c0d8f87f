//! What a workload needs of the rest of the program.

use crate::ends::Ends;
use crate::error::Error;
use crate::kinds::Kind;
use crate::particulars::Particulars;
use crate::place::{Destination, Scheme, Ways};
use crate::plan::{Mode, Plan};
use corelane::Lanes;
use corelane::service::entry::choice::{Choice, Chosen};
use std::time::Duration;

/// Where echo is served unless said otherwise, and every workload that names no port of its own.
pub const DEFAULT_PORT: u16 = 60007;
/// A workload as `corelane load` knows it.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadEntry {
    /// Its name on the command line and in reports.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// How its URL may begin: with the first of these unless said otherwise. A Unix socket may stand for each, with its transport.
    pub schemes: &'static [Scheme],
    /// The port where neither the URL nor its scheme names one.
    pub default_port: u16,
    /// Bytes of a request where no size is asked for.
    pub default_size: usize,
    /// Connections where no number is asked for.
    pub default_connections: u32,
    /// How long it is measured where nothing is said.
    pub default_duration: Duration,
    /// Its options, each a word of the command line. Who reads that gives one whose value is a `FILE` what the file has.
    pub options: &'static [Choice],
    /// How a request of it can fail beside what [all](Kind::ALL) can, each at its place.
    pub kinds: &'static [Kind],
    /// What it counts of answers beside what all do, by name, each at its place.
    pub counts: &'static [&'static str],
    /// Requests a second, by its options, of so many connections; none for a workload whose times the user gives.
    pub rate: Option<fn(&Chosen, u32) -> f64>,
    /// What decides when something is sent, where that is the workload's own and not the user's.
    pub mode: Option<fn() -> Mode>,
    /// What its options come to at a place, for [`Plan::particulars`].
    pub particulars: fn(&Chosen, &Destination) -> Result<Particulars, Error>,
    /// What is called how, for a report.
    pub call: fn(&Plan) -> Option<String>,
    /// Whether a plan fits the protocol: sizes, modes.
    pub check: fn(&Plan) -> Result<(), Error>,
    /// Adds its client to the lanes of a run.
    pub client: fn(Lanes, Ends) -> Lanes,
}

impl WorkloadEntry {
    /// A workload without options: one connection with requests of 64 bytes for three seconds, unless said otherwise.
    pub(crate) const fn plain(
        (name, about): (&'static str, &'static str),
        schemes: &'static [Scheme],
        check: fn(&Plan) -> Result<(), Error>,
        client: fn(Lanes, Ends) -> Lanes,
    ) -> Self {
        Self {
            name,
            about,
            schemes,
            default_port: DEFAULT_PORT,
            default_size: 64,
            default_connections: 1,
            default_duration: Duration::from_secs(3),
            options: &[],
            kinds: &[],
            counts: &[],
            rate: None,
            mode: None,
            particulars: |_, _| Ok(Particulars::default()),
            call: |_| None,
            check,
            client,
        }
    }
}

impl WorkloadEntry {
    /// Where a URL of it leads.
    ///
    /// # Errors
    /// Those of [`Destination::parse`].
    pub fn place(&self, url: Option<&str>) -> Result<Destination, Error> {
        Destination::parse(Ways { name: self.name, schemes: self.schemes, port: self.default_port }, url)
    }
}
