//! The protocols: a folder each, with its `mod` here and its entry in [`ALL`]. What a workload needs of the rest of the program is in its entry.

pub mod burst;
pub mod echo;
mod entry;
pub mod flood;
pub mod http;
pub mod idle;
pub mod rpc;
pub mod sink;
pub mod udp;

use crate::kinds::Kind;
use crate::plan::Plan;

pub use crate::particulars::Particulars;
pub use entry::WorkloadEntry;

impl Plan {
    /// The kinds of errors that only its workload has.
    pub fn kinds(&self) -> &'static [Kind] {
        find(&self.workload).map_or(&[], |entry| entry.kinds)
    }

    /// What only its workload counts, by name.
    pub fn counts(&self) -> &'static [&'static str] {
        find(&self.workload).map_or(&[], |entry| entry.counts)
    }
}

/// All workloads.
pub const ALL: &[WorkloadEntry] = &[echo::ENTRY, http::ENTRY, idle::ENTRY, rpc::ENTRY, udp::ENTRY, sink::ENTRY, burst::ENTRY];

/// The workload of that name.
pub fn find(name: &str) -> Option<&'static WorkloadEntry> {
    ALL.iter().find(|entry| entry.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::COUNTS_MAX;
    use crate::kinds::OWN_KINDS_MAX;
    use std::collections::HashSet;

    #[test]
    fn entries_agree_with_themselves_and_each_other() {
        let mut names: HashSet<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        let mut options = HashSet::new();
        for entry in ALL {
            assert_eq!(find(entry.name).map(|found| found.about), Some(entry.about));
            assert!(
                entry.options.iter().all(|option| options.insert(option.name())),
                "{}: two workloads have one option",
                entry.name
            );
            assert!(entry.kinds.len() <= OWN_KINDS_MAX && entry.counts.len() <= COUNTS_MAX);
            for (place, kind) in entry.kinds.iter().enumerate() {
                assert!(matches!(kind, Kind::Own(own) if own.place == place) && names.insert(kind.name()), "{kind}");
            }
        }
    }
}
