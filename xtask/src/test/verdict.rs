//! What a section came to, and what is said of it.

use super::process::Finished;
use super::tally::Tally;
use super::times::Times;

/// Said of a program that ended well, but not by coming to its end.
pub(super) const UNCLOSED: &str =
    "it ended well without a closing line: a test has ended the process, and the rest did not run\n";

/// Said of a section without a test.
const IDLE: &str = "no test ran: all were skipped, or there are none where xtask/src/test/sections.rs looks for them\n";

/// What a section came to.
#[derive(Default)]
pub struct Verdict {
    pub tally: Tally,
    /// What to print in full: everything that failing programs said.
    pub output: String,
    /// How long each of its programs took.
    pub times: Times,
}

impl Verdict {
    /// What the test programs of `outcome` counted, and all that they said if one failed.
    pub fn counted(outcome: Finished) -> Self {
        let tally = Tally::read(&outcome);
        match (tally.failed, outcome.success) {
            (0, _) => Self { tally, ..Self::default() },
            (_, false) => Self { tally, output: outcome.output, ..Self::default() },
            (_, true) => Self { tally, output: outcome.output + UNCLOSED, ..Self::default() },
        }
    }

    /// A section in which no test ran has failed: nothing would be noticed in it any more.
    pub fn unless_idle(mut self) -> Self {
        if self.tally.passed + self.tally.failed == 0 {
            self.tally.failed = 1;
            self.output.push_str(IDLE);
        }
        self
    }

    pub fn failed(output: String) -> Self {
        Self { tally: Tally::failed(1), output, ..Self::default() }
    }

    /// One check, passed or not.
    pub fn one(passed: bool, output: String) -> Self {
        if passed { Self { tally: Tally::passed(1), ..Self::default() } } else { Self::failed(output) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_in_which_nothing_ran_has_failed() {
        let of = |output: &str| Verdict::counted(Finished { success: true, output: output.to_owned() }).unless_idle();
        let idle = of("running 0 tests\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured\n");
        assert_eq!((idle.tally, idle.output.as_str()), (Tally::failed(1), IDLE));
        let skipped = of("test a ... ignored, no NIC\ntest result: ok. 0 passed; 0 failed; 1 ignored; 0 measured\n").tally;
        assert_eq!((skipped.passed, skipped.failed, skipped.skipped.len()), (0, 1, 1));
        let busy = of("test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured\n");
        assert_eq!((busy.tally, busy.output.as_str()), (Tally::passed(1), ""));
    }

    #[test]
    fn a_check_counts_once_and_speaks_only_when_it_fails() {
        let passed = Verdict::one(true, "noise".into());
        assert_eq!((passed.tally.passed, passed.output.as_str()), (1, ""));
        let failed = Verdict::one(false, "cause".into());
        assert_eq!((failed.tally.failed, failed.output.as_str()), (1, "cause"));
    }
}
