//! What the program ends with: every code, and what it means, once; and the error that says with which.

use corelane::admin::reports::Level;
use corelane_load::Verdict;
use std::fmt::{self, Write};
use std::process::ExitCode;

/// What the program ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// As asked.
    Done = Verdict::Good as u8,
    /// Something failed after it had begun as asked.
    Late = 1,
    /// It could not be done as asked: the arguments, or what stands in their way. Those that cannot be read end with it as well.
    Usage = 2,
    /// What was looked at is not as it should be.
    Wrong = Verdict::Failures as u8,
    /// Figures that are not to be believed.
    Doubts = Verdict::Doubts as u8,
    /// A lane broke: an error of this program (`EX_SOFTWARE` of sysexits.h).
    Broken = 70,
    /// What shells show of a program that SIGINT ended.
    Interrupted = 130,
}

impl Exit {
    /// All, in the order of their codes.
    pub const ALL: [Self; 7] = [Self::Done, Self::Late, Self::Usage, Self::Wrong, Self::Doubts, Self::Broken, Self::Interrupted];

    /// The number that the system is given.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// What it means, for help.
    const fn meaning(self) -> &'static str {
        match self {
            Self::Done => "all was done as asked; load: every request was answered rightly, and the figures can be believed",
            Self::Late => {
                "it failed after it had begun: a target that cannot be reached, output that cannot be written, buckets that could not be judged"
            }
            Self::Usage => "it could not be done as asked: the arguments, or what stands in their way",
            Self::Wrong => {
                "load: requests failed, some or all, see the errors by kind; rss check: flows were on other lanes, or did not arrive; doctor: something is missing"
            }
            Self::Doubts => {
                "load: no request failed, but the figures are not to be believed: the run fell behind, was cut short, or was disturbed"
            }
            Self::Broken => "a lane broke, which is an error of this program: the message says which lane, what and where",
            Self::Interrupted => "a second SIGINT or SIGTERM ended a load at once, without a report",
        }
    }

    /// These codes with what they mean of all commands, as lines of help.
    pub fn help(of: &[Self]) -> String {
        Self::help_of(&of.iter().map(|exit| (*exit, exit.meaning())).collect::<Vec<_>>())
    }

    /// These codes with what they mean of one command, as lines of help.
    pub fn help_of(codes: &[(Self, &str)]) -> String {
        let mut help = String::from("Exit codes:\n");
        for (exit, meaning) in codes {
            // Writing to a string does not fail.
            let _ = writeln!(help, "  {:>3}  {meaning}", exit.code());
        }
        help
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

impl From<Verdict> for Exit {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Good => Self::Done,
            Verdict::Failures => Self::Wrong,
            Verdict::Doubts => Self::Doubts,
        }
    }
}

/// What went wrong after all was as asked.
pub struct Late {
    /// What is told of it.
    pub words: String,
    /// What the program ends with.
    pub exit: Exit,
    /// How grave it is, where there is a log.
    pub level: Level,
}

impl Late {
    /// Says what was being done, and what came in its way.
    pub fn of(what: &str, error: impl fmt::Display) -> Self {
        Self { words: format!("{what}: {error}"), exit: Exit::Late, level: Level::Warn }
    }
}

impl fmt::Debug for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for Late {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_in_help_once_and_in_order() {
        let help = Exit::help(&Exit::ALL);
        let shown: Vec<u8> = help.lines().skip(1).map(|line| line.split_whitespace().next().unwrap().parse().unwrap()).collect();
        assert_eq!(shown, Exit::ALL.map(Exit::code));
        assert!(shown.is_sorted());
    }
}
