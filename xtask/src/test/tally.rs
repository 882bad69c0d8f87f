//! Counts of tests, read from what test programs print.

use super::process::Finished;

/// How many tests passed, failed and were skipped.
#[derive(Debug, Default, PartialEq)]
pub struct Tally {
    pub passed: u64,
    pub failed: u64,
    pub skipped: Vec<Skip>,
    /// Why tests failed, in their own words, or what was said last where none has panicked.
    pub reasons: Vec<String>,
}

/// Most lines of a reason, and most reasons of one outcome.
const REASON_LINES_MAX: usize = 4;
const REASONS_MAX: usize = 12;
/// How the line ends that names the seed of a failed simulation (`corelane_sim::for_seeds`).
const SEED_LINE_END: &str = " shows this again";

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
        self.reasons.extend(other.reasons);
    }

    /// With the reasons that stand in `output`, where something failed.
    pub fn explained(mut self, output: &str) -> Self {
        if self.failed > 0 {
            self.reasons = reasons(output);
        }
        self
    }

    /// Sums the closing lines of the test programs that `outcome` is of.
    ///
    /// A run that failed although no closing line says so counts as one failure more. So does one that ended well and in
    /// which a program did not close: one of its tests has ended the process, and the others were never looked at.
    pub fn read(outcome: &Finished) -> Self {
        let mut tally = Self::default();
        let (mut begun, mut closed) = (0, 0);
        for line in outcome.output.lines() {
            begun += u64::from(is_opening(line));
            if let Some(counts) = closing(line) {
                tally.add(counts);
                closed += 1;
            }
            tally.skipped.extend(ignored(line));
        }
        let is_whole = outcome.success && closed > 0 && closed >= begun;
        if !is_whole && tally.failed == 0 {
            tally.failed = 1;
        }
        tally
    }
}

/// What each thread said as it panicked last, with the seed that shows it again; the last lines of all where none did.
///
/// A test may provoke panics, so those before the last say little.
fn reasons(output: &str) -> Vec<String> {
    let lines: Vec<&str> = output.lines().collect();
    let says = |from: usize| lines[from..].iter().take_while(|line| !line.starts_with("stack backtrace")).take(REASON_LINES_MAX);
    let words = |from: usize| says(from).copied().collect::<Vec<_>>().join("\n");
    let panics: Vec<(&str, usize)> = lines.iter().enumerate().filter_map(|(at, line)| Some((panicked(line)?, at))).collect();
    let is_last = |at: usize| panics[at + 1..].iter().all(|(thread, _)| *thread != panics[at].0);
    let last = (0..panics.len()).filter(|at| is_last(*at)).map(|at| words(panics[at].1));
    let seeds = lines.iter().filter(|line| line.ends_with(SEED_LINE_END)).map(|line| (*line).to_owned());
    let reasons: Vec<String> = last.take(REASONS_MAX).chain(seeds.take(REASONS_MAX)).collect();
    if reasons.is_empty() { vec![words(lines.len().saturating_sub(REASON_LINES_MAX))] } else { reasons }
}

/// The thread, by name and number, of which `line` says that it panicked; as Rust 1.95 and those before it print that.
fn panicked(line: &str) -> Option<&str> {
    line.strip_prefix("thread ")?.split_once(" panicked at ").map(|(thread, _)| thread)
}

/// Whether `line` is the `running 5 tests` that a program begins with.
fn is_opening(line: &str) -> bool {
    let count = line.strip_prefix("running ").and_then(|rest| rest.strip_suffix(" tests").or(rest.strip_suffix(" test")));
    count.is_some_and(|count| count.parse::<u64>().is_ok())
}

/// The counts in `test result: ok. 5 passed; 0 failed; 1 ignored; ...`.
fn closing(line: &str) -> Option<Tally> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let count = |what: &str| counts.split("; ").find_map(|part| part.strip_suffix(what)?.trim().parse().ok());
    Some(Tally { passed: count("passed")?, failed: count("failed")?, ..Tally::default() })
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
        Tally::read(&Finished { success, output: output.to_owned() })
    }

    #[test]
    fn closing_lines_are_summed() {
        let output = "running 2 tests\ntest a ... ok\n\
            test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\n\
            test result: FAILED. 3 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(read(false, output), Tally { passed: 5, failed: 4, ..Tally::default() });
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
        assert_eq!(read(false, closing), Tally { passed: 1, failed: 1, ..Tally::default() });
        assert_eq!(read(false, "Segmentation fault"), Tally::failed(1));
        assert_eq!(read(false, "test result: what"), Tally::failed(1));
    }

    #[test]
    fn why_tests_failed_is_told_again_and_of_what_never_panicked_its_last_words() {
        let panicked = "noise\nthread 'a::b' (7) panicked at x.rs:1:2:\nleft\n\nstack backtrace:\n 0: c\nthread 'd' panicked at y.rs:3:4:\nright\n";
        let told = Tally::failed(2).explained(panicked).reasons;
        assert_eq!(told, ["thread 'a::b' (7) panicked at x.rs:1:2:\nleft\n", "thread 'd' panicked at y.rs:3:4:\nright"]);
        let provoked = "thread 'a' (7) panicked at x.rs:1:2:\nmeant\n".repeat(40);
        let at_last =
            format!("{provoked}thread 'a' (7) panicked at x.rs:3:4:\nnot meant\nCORELANE_SEED=5 shows this again\nfailures:\n");
        let told = Tally::failed(1).explained(&at_last).reasons;
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("not meant"), "{told:?}");
        assert_eq!(told[1], "CORELANE_SEED=5 shows this again");
        assert_eq!(Tally::failed(1).explained("1\n2\n3\n4\nkilled\n").reasons, ["2\n3\n4\nkilled"]);
        assert!(Tally::passed(1).explained(panicked).reasons.is_empty());
    }

    #[test]
    fn a_program_that_ends_well_without_its_closing_line_has_failed() {
        assert_eq!(read(true, ""), Tally::failed(1));
        assert_eq!(read(true, "all well\n"), Tally::failed(1));
        assert_eq!(read(true, "running 3 tests\ntest a ... ok\n"), Tally::failed(1));
    }

    #[test]
    fn one_of_several_programs_that_does_not_close_is_noticed() {
        let closing = "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured\n";
        let cut = format!("running 2 tests\n{closing}running 1 test\nrunning 2 tests\n{closing}");
        assert_eq!(read(true, &cut), Tally { passed: 4, failed: 1, ..Tally::default() });
        let whole = format!("running 2 tests\nrunning late\n{closing}running 0 tests\n{closing}");
        assert_eq!(read(true, &whole), Tally::passed(4));
    }
}
