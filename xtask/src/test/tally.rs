//! Counts of tests, read from what test programs print.

use super::process::Outcome;

/// How many tests passed, failed and were skipped.
#[derive(Debug, Default, PartialEq)]
pub struct Tally {
    pub passed: u64,
    pub failed: u64,
    pub skipped: Vec<Skip>,
}

/// A test that did not run, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Skip {
    pub name: String,
    pub reason: String,
}

impl Tally {
    /// So many passed tests.
    pub fn passed(passed: u64) -> Self {
        Self { passed, ..Self::default() }
    }

    /// So many failed tests.
    pub fn failed(failed: u64) -> Self {
        Self { failed, ..Self::default() }
    }

    /// Adds `other`.
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped.extend(other.skipped);
    }

    /// Sums the closing lines of the test programs that `outcome` is of.
    ///
    /// A run without any counts as one test, for it is a program with a harness of its own or one that died. A run
    /// that failed although no closing line says so counts as one failure more.
    pub fn read(outcome: &Outcome) -> Self {
        let mut tally = Self::default();
        let mut closing_lines = 0;
        for line in outcome.output.lines() {
            if let Some(counts) = closing(line) {
                tally.add(counts);
                closing_lines += 1;
            }
            tally.skipped.extend(ignored(line));
        }
        if !outcome.success && tally.failed == 0 {
            tally.failed = 1;
        } else if closing_lines == 0 {
            tally.passed = 1;
        }
        tally
    }
}

/// The counts in `test result: ok. 5 passed; 0 failed; 1 ignored; ...`.
fn closing(line: &str) -> Option<Tally> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let count = |what: &str| counts.split("; ").find_map(|part| part.strip_suffix(what)?.trim().parse().ok());
    Some(Tally { passed: count("passed")?, failed: count("failed")?, skipped: Vec::new() })
}

/// The test in `test NAME ... ignored, REASON`.
fn ignored(line: &str) -> Option<Skip> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ignored")?;
    let reason = rest.strip_prefix(", ").unwrap_or("no reason given");
    Some(Skip { name: name.to_owned(), reason: reason.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(success: bool, output: &str) -> Tally {
        Tally::read(&Outcome { success, output: output.to_owned() })
    }

    #[test]
    fn closing_lines_are_summed() {
        let output = "running 2 tests\ntest a ... ok\n\
            test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\n\
            test result: FAILED. 3 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(read(false, output), Tally { passed: 5, failed: 4, skipped: vec![] });
    }

    #[test]
    fn ignored_tests_are_skipped_by_name() {
        let output = "test a::b ... ignored, needs a NIC\ntest c ... ignored\n\
            test result: ok. 1 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out\n";
        let tally = read(true, output);
        assert_eq!((tally.passed, tally.failed), (1, 0));
        assert_eq!(tally.skipped[0], Skip { name: "a::b".into(), reason: "needs a NIC".into() });
        assert_eq!(tally.skipped[1].reason, "no reason given");
    }

    #[test]
    fn a_failure_is_never_lost() {
        let closing = "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured\n";
        assert_eq!(read(false, closing), Tally { passed: 1, failed: 1, skipped: vec![] });
        assert_eq!(read(false, "Segmentation fault"), Tally::failed(1));
        assert_eq!(read(false, "test result: what"), Tally::failed(1));
    }

    #[test]
    fn a_program_with_its_own_harness_counts_once() {
        assert_eq!(read(true, "all well\n"), Tally::passed(1));
    }
}
