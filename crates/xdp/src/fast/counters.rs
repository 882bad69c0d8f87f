//! What rules have counted in programs. The counters outlive any program; each rule has a place among them as long as it is there.
//!
//! A place gets another rule only when no program runs any more that counts for the one before: a place is left with one set of rules, and given away with
//! the next, when the kernel says that what ran before has ended (membarrier(2)). What stands there then is what the earlier rule had, and is subtracted, because to
//! clear it while programs count would lose some.

use corelane_rules::{Count, RuleId};
use corelane_seam::Fault;
use corelane_select::Error as SelectError;
use corelane_select::bpf::{Map, MapKind};
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes in front of the counters, in which a program keeps what it knows of its packet.
pub const NOTES_BYTES: usize = 192;
/// Bytes of a rule's counters: packets, bytes, and when it matched last.
pub const COUNTER_BYTES: usize = 24;
/// Rules that can have counters: the kernel takes 32 KiB for a CPU's.
pub const PLACES_MAX: usize = ((32 << 10) - NOTES_BYTES) / COUNTER_BYTES;
const VALUE_BYTES: usize = NOTES_BYTES + COUNTER_BYTES * PLACES_MAX;

/// Who has a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Holder {
    #[default]
    Nobody,
    /// A rule that programs in force may count for.
    Rule(RuleId),
    /// A rule that is gone: a program may still run that counts for it.
    Former,
}

/// Counters of rules by CPU.
#[derive(Debug)]
pub struct Counters {
    map: Map,
    holders: Vec<Holder>,
    /// What each place had before its rule.
    before: Vec<Count>,
}

impl Counters {
    /// All 0.
    ///
    /// # Errors
    /// As for [`Map::new`].
    pub fn new() -> Result<Self, SelectError> {
        let map = Map::new(MapKind::PerCpuArray, VALUE_BYTES, 1, "corelane_rules")?;
        Ok(Self { map, holders: vec![Holder::Nobody; PLACES_MAX], before: vec![Count::default(); PLACES_MAX] })
    }

    /// The map, for a program.
    pub fn map(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    /// What each place has, all CPUs together.
    fn read(&self) -> Result<Vec<Count>, Fault> {
        let value = self.map.lookup(0)?;
        let mut sums = vec![Count::default(); PLACES_MAX];
        for cpu in value.chunks_exact(VALUE_BYTES.next_multiple_of(8)) {
            for (sum, place) in sums.iter_mut().zip(cpu[NOTES_BYTES..].as_chunks::<COUNTER_BYTES>().0) {
                let (words, _) = place.as_chunks::<8>();
                let [packets, bytes, last] = [words[0], words[1], words[2]].map(u64::from_ne_bytes);
                *sum += Count { packets, bytes, last };
            }
        }
        Ok(sums)
    }

    /// What each of the rules has counted in programs.
    ///
    /// # Errors
    /// What the system says.
    pub fn counts(&self, rules: &[RuleId]) -> Result<Vec<Count>, Fault> {
        let all = self.read()?;
        Ok(rules.iter().map(|rule| self.place_of(*rule).map_or(Count::default(), |at| since(all[at], self.before[at]))).collect())
    }

    /// Lets these rules begin with 0 again.
    ///
    /// # Errors
    /// What the system says.
    pub fn zero(&mut self, rules: &[RuleId]) -> Result<(), Fault> {
        let all = self.read()?;
        for at in rules.iter().filter_map(|rule| self.place_of(*rule)).collect::<Vec<_>>() {
            self.before[at] = all[at];
        }
        Ok(())
    }

    /// Gives away the places of rules that are gone, after it has waited until no program that runs counts for them any more.
    ///
    /// # Errors
    /// What the system says.
    pub fn free_former(&mut self) -> Result<(), Fault> {
        if !self.holders.contains(&Holder::Former) {
            return Ok(());
        }
        settle();
        let all = self.read()?;
        for (at, holder) in self.holders.iter_mut().enumerate().filter(|(_, holder)| **holder == Holder::Former) {
            (*holder, self.before[at]) = (Holder::Nobody, all[at]);
        }
        Ok(())
    }

    /// The place of each of the rules, in their order; none where there are not enough. Nobody else loses one.
    pub fn places_for(&mut self, rules: &[RuleId]) -> Option<Vec<usize>> {
        let free = self.holders.iter().filter(|holder| **holder == Holder::Nobody).count();
        let new = rules.iter().filter(|rule| self.place_of(**rule).is_none()).count();
        if new > free {
            return None;
        }
        rules.iter().map(|rule| self.place_of(*rule).or_else(|| self.take_place(*rule))).collect()
    }

    /// The places of all other rules are left.
    pub fn leave_all_but(&mut self, rules: &[RuleId]) {
        for holder in &mut self.holders {
            if matches!(holder, Holder::Rule(rule) if !rules.contains(rule)) {
                *holder = Holder::Former;
            }
        }
    }

    fn take_place(&mut self, rule: RuleId) -> Option<usize> {
        let is_free = |holder: &Holder| *holder == Holder::Nobody;
        let likely = Some(rule.place()).filter(|at| self.holders.get(*at).is_some_and(is_free));
        let at = likely.or_else(|| self.holders.iter().position(is_free))?;
        self.holders[at] = Holder::Rule(rule);
        Some(at)
    }

    fn place_of(&self, rule: RuleId) -> Option<usize> {
        // Rules mostly have the place by which the lanes know them.
        let likely = rule.place();
        if self.holders.get(likely) == Some(&Holder::Rule(rule)) {
            return Some(likely);
        }
        self.holders.iter().position(|holder| *holder == Holder::Rule(rule))
    }
}

fn since(now: Count, before: Count) -> Count {
    let packets = now.packets.wrapping_sub(before.packets);
    Count { packets, bytes: now.bytes.wrapping_sub(before.bytes), last: if packets > 0 { now.last } else { 0 } }
}

/// Waits until every program has ended that ran when this was called. Where the kernel does not offer that, it is taken for granted: a program runs for microseconds,
/// and to load the next takes longer.
fn settle() {
    const GLOBAL: i32 = 1;
    // SAFETY: the call takes no memory.
    let _not_offered = unsafe { libc::syscall(libc::SYS_membarrier, GLOBAL, 0, 0) };
}
