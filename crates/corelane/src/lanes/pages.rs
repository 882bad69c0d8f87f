//! The pages of lanes' memory: what is wished for, what is insisted on, and what a lane comes to have.

use crate::admin::messages::Degraded;
use crate::error::Error;
use corelane_os::lane_memory::{Lacking, LaneMemory, Pages, lacking};
use corelane_os::report;
use corelane_seam::{Arena, LEASE_BYTES_MAX, Record};
use corelane_watch::{LaneCounter, LaneRow};

/// The pages that each lane's memory is to have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WantedPages {
    pub(crate) wished: Pages,
    /// Without these the start is refused.
    pub(crate) required: Pages,
}

impl WantedPages {
    /// Makes so much memory for a lane, which shows on its row what pages it has, and tells of pages that lack.
    ///
    /// # Errors
    /// [`Error::Setting`] where pages that are required lack; what the arena or the system refuses.
    pub(crate) fn make(self, bytes: usize, lane: usize, row: &LaneRow) -> Result<Arena, Error> {
        let (mut lacks, mut had) = (Vec::new(), Pages::default());
        let make = |bytes| {
            let (memory, lacking) = LaneMemory::new(bytes, self.wished).ok()?;
            (lacks, had) = (lacking, memory.pages());
            Some(memory)
        };
        let arena = Arena::made(bytes, make)?;
        self.judge(lacks)?.into_iter().for_each(|note| report::line(note.of_lane(lane)));
        let shown = [(LaneCounter::MemoryHuge, had.huge), (LaneCounter::MemoryLocked, had.locked)];
        shown.into_iter().filter(|(_, is_so)| *is_so).for_each(|(gauge, _)| row.writer().set(gauge, arena.limit() as u64));
        Ok(arena)
    }

    /// Whether so many lanes with so much memory each can have these pages, which is tried: what is told of those that lack.
    ///
    /// # Errors
    /// [`Error::Setting`] where pages that are required lack.
    pub(crate) fn check(self, bytes: usize, lanes: usize) -> Result<Vec<Record>, Error> {
        if self.wished == Pages::default() {
            return Ok(Vec::new());
        }
        // More than there are addresses is lacking as well.
        let blocks = bytes.div_ceil(LEASE_BYTES_MAX).saturating_mul(lanes).clamp(1, isize::MAX as usize / LEASE_BYTES_MAX);
        self.judge(lacking(blocks * LEASE_BYTES_MAX, self.wished))
    }

    /// The notes of pages that lack.
    ///
    /// # Errors
    /// As [`WantedPages::check`].
    fn judge(self, lacks: Vec<Lacking>) -> Result<Vec<Record>, Error> {
        if let Some(lack) = lacks.iter().find(|lack| lack.is_of(self.required)) {
            let name = if matches!(lack, Lacking::Huge { .. }) { "huge-pages" } else { "locked-memory" };
            return Err(Error::Setting { name, why: format!("required, and not to be had: {lack}") });
        }
        Ok(lacks.iter().map(|lack| Degraded::OtherPages.note(lack)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none_huge() -> Vec<Lacking> {
        vec![Lacking::Huge { error: std::io::ErrorKind::OutOfMemory.into(), pages: 32 }]
    }

    #[test]
    fn what_is_wished_for_is_told_and_what_is_required_is_refused_with_the_remedy() {
        let huge = Pages { huge: true, locked: false };
        let told = WantedPages { wished: huge, ..WantedPages::default() }.judge(none_huge()).unwrap();
        assert!(matches!(&told[..], [note] if note.to_string().contains("raise vm.nr_hugepages by 32")), "{told:?}");
        let refused = WantedPages { wished: huge, required: huge }.judge(none_huge()).unwrap_err().to_string();
        assert!(refused.starts_with("huge-pages: required") && refused.contains("raise vm.nr_hugepages by 32"), "{refused}");
        let locked = Pages { huge: false, locked: true };
        let wanted = WantedPages { wished: Pages { huge: true, locked: true }, required: locked };
        assert_eq!(wanted.judge(none_huge()).unwrap().len(), 1, "what lacks is not what is required");
        let lacks = vec![Lacking::Locked { error: std::io::ErrorKind::OutOfMemory.into(), bytes: 4 << 20 }];
        let refused = wanted.judge(lacks).unwrap_err().to_string();
        assert!(refused.starts_with("locked-memory: required") && refused.contains("by 4096 KiB"), "{refused}");
    }

    #[test]
    fn lanes_without_a_wish_try_nothing_and_more_than_any_machine_has_lacks() {
        assert!(WantedPages::default().check(usize::MAX, 256).unwrap().is_empty());
        let huge = Pages { huge: true, locked: false };
        assert_eq!(WantedPages { wished: huge, ..WantedPages::default() }.check(usize::MAX, 256).unwrap().len(), 1);
        let refused = WantedPages { wished: huge, required: huge }.check(1 << 40, 256).unwrap_err().to_string();
        assert!(refused.contains("vm.nr_hugepages"), "{refused}");
    }
}
