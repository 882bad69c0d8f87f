//! What a lane tells the operator, and how often.

use corelane_seam::Record;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Nanoseconds between two lines of a kind.
const SECOND: u64 = 1_000_000_000;

/// Where a lane's lines go. It must not wait: the lane would.
pub trait Report {
    /// Takes a line.
    fn line(&mut self, record: Record);

    /// Counts the lines that it had to drop; none where it drops none. Asked once: the lane reads the count before each sleep.
    fn dropped(&self) -> Option<Arc<AtomicU64>> {
        None
    }
}

impl<F: FnMut(Record)> Report for F {
    fn line(&mut self, record: Record) {
        self(record);
    }
}

/// Lets a line of each kind pass once a second.
#[derive(Default)]
pub(crate) struct Throttle(Vec<ReportKind>);

struct ReportKind {
    name: &'static str,
    /// When a line of it passes again.
    from: u64,
    left_out: u64,
}

impl Throttle {
    /// Whether a line of the kind may be told now; else it is counted.
    pub(crate) fn pass(&mut self, name: &'static str, now: u64) -> bool {
        let from = now.saturating_add(SECOND);
        match self.0.iter_mut().find(|kind| kind.name == name) {
            None => self.0.push(ReportKind { name, from, left_out: 0 }),
            Some(kind) if now >= kind.from => kind.from = from,
            Some(kind) => {
                kind.left_out += 1;
                return false;
            }
        }
        true
    }

    /// When [`Throttle::take`] has something; `u64::MAX` if nothing was left out.
    pub(crate) fn due(&self) -> u64 {
        self.0.iter().filter(|kind| kind.left_out > 0).map(|kind| kind.from).min().unwrap_or(u64::MAX)
    }

    /// A kind of which lines were left out in a second that is over, and how many; the next second begins.
    pub(crate) fn take(&mut self, now: u64) -> Option<(&'static str, u64)> {
        let kind = self.0.iter_mut().find(|kind| kind.left_out > 0 && now >= kind.from)?;
        kind.from = now.saturating_add(SECOND);
        Some((kind.name, std::mem::take(&mut kind.left_out)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_passes_once_a_second_and_what_was_left_out_is_told() {
        let mut throttle = Throttle::default();
        assert!(throttle.pass("a", 5) && throttle.pass("b", 6));
        assert_eq!(throttle.due(), u64::MAX);
        assert!(!throttle.pass("a", 6) && !throttle.pass("a", SECOND + 4) && !throttle.pass("b", 7));
        assert_eq!(throttle.due(), SECOND + 5);
        assert_eq!(throttle.take(SECOND + 4), None);
        assert_eq!((throttle.take(SECOND + 5), throttle.take(SECOND + 5)), (Some(("a", 2)), None));
        assert!(!throttle.pass("a", SECOND + 6), "telling of others was a line, too");
        assert_eq!(throttle.take(u64::MAX), Some(("a", 1)));
        assert_eq!((throttle.take(u64::MAX), throttle.take(u64::MAX)), (Some(("b", 1)), None));
    }

    #[test]
    fn without_others_each_second_has_a_line() {
        let mut throttle = Throttle::default();
        assert!((0..9).all(|second| throttle.pass("a", second * SECOND)));
        assert_eq!(throttle.due(), u64::MAX);
    }
}
