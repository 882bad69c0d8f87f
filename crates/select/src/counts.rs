//! What the selecting program has counted.

use crate::bpf;
use crate::program::COUNTS_BYTES;

/// Counts of a selector, of all its groups together, since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// By lane.
    pub lanes: Vec<LaneCounts>,
    /// What was left to the kernel's own hash: the lane has no socket there, or the packet no tuple that is hashed.
    pub left: LaneCounts,
}

/// What was selected for one lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneCounts {
    /// Each possible CPU, and the new connections and datagrams for which the program ran there.
    pub selections: Vec<(usize, u64)>,
    /// Connections that moved here because the listener that had them closed, on whichever CPU.
    pub migrations: u64,
}

impl LaneCounts {
    /// Selections on all CPUs.
    #[must_use]
    pub fn selected(&self) -> u64 {
        self.selections.iter().map(|(_, count)| count).sum()
    }

    /// Selections on other CPUs than the lane's own: what arrived as a stray.
    #[must_use]
    pub fn selected_off(&self, own: usize) -> u64 {
        self.selections.iter().filter(|(cpu, _)| *cpu != own).map(|(_, count)| count).sum()
    }

    /// From the map's value: both counters of each possible CPU.
    pub(super) fn decode(bytes: &[u8]) -> Self {
        let cpus = bpf::cpus_possible();
        assert!(bytes.len() == cpus.len() * COUNTS_BYTES, "each possible CPU has its counters");
        let mut counts = Self::default();
        for (&cpu, pair) in cpus.iter().zip(bytes.as_chunks::<COUNTS_BYTES>().0) {
            let [selections, migrations] = [0, 8].map(|at| pair[at..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word)));
            counts.selections.push((cpu, selections));
            counts.migrations += migrations;
        }
        counts
    }
}
