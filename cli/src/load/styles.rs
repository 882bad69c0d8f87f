//! Styles: the options and the print of older load programs, on the engines and the counting of `corelane load`. One file each.

mod echotest;
mod httperf;
mod rpctest;
mod udp_clt;

use super::rounds;
use super::watch::Watcher;
use crate::exit::Exit;
use anyhow::{Result, anyhow, bail};
use clap::Parser;
use corelane_load::kinds::is_failure;
use corelane_load::plan::Plan;
use corelane_load::report::Report;
use corelane_load::text::figures;
use corelane_load::workloads::WorkloadEntry;
use corelane_load::{Beside, Watched};

/// A style as `--style` knows it.
pub struct Style {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// Does it, with the words behind its name.
    run: fn(&[String]) -> Result<Exit>,
}

/// All styles.
pub const ALL: &[Style] = &[echotest::STYLE, httperf::STYLE, rpctest::STYLE, udp_clt::STYLE];

/// Carries out `--style NAME WORDS...`.
pub fn run(words: &[String]) -> Result<Exit> {
    let names: Vec<&str> = ALL.iter().map(|style| style.name).collect();
    let (name, rest) = words.split_first().map_or(("", words), |(name, rest)| (name, rest));
    match ALL.iter().find(|style| style.name == name) {
        Some(style) => (style.run)(rest),
        None => bail!("--style: there is no style {name:?}: use one of {}", names.join(", ")),
    }
}

/// What stands behind a style's help, and the codes it ends with: failures show, doubts do not, because the older programs had none.
fn with_codes(help: &str) -> String {
    let codes = Exit::help(&[Exit::Done, Exit::Late, Exit::Usage, Exit::Wrong, Exit::Interrupted]);
    format!("{help}\n{codes}")
}

/// Reads a style's words, or ends the program with its help (0) or with what is wrong (2).
fn options<O: Parser>(words: &[String]) -> O {
    O::parse_from(words)
}

/// The plan, if it can be met.
fn checked(entry: &WorkloadEntry, plan: Plan) -> Result<Plan> {
    let settled = plan.settled();
    settled.and_then(|plan| (entry.check)(&plan).map(|()| plan)).map_err(|error| anyhow!("{error}"))
}

/// Makes one run of a checked plan, which the watcher can end early.
fn measure(entry: &WorkloadEntry, plan: Plan, watcher: &Watcher) -> Result<Report> {
    let beside = Beside { watched: Watched::Nobody, hdr: None, show: &mut |_| !watcher.wants_end() };
    corelane_load::run(entry, plan, beside).map_err(rounds::failed)
}

/// What failed, by kind: `lost 3, reset 1`. None if nothing did.
fn failures(report: &Report) -> Option<String> {
    let met = figures::errors(&report.errors).into_iter().filter(|&(kind, _)| is_failure(kind));
    let parts: Vec<String> = met.map(|(kind, count)| format!("{kind} {}", figures::count(count))).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// What the program ends with.
fn exit_of(has_failures: bool) -> Exit {
    if has_failures { Exit::Wrong } else { Exit::Done }
}

/// Reads a whole number with a suffix: of `K M G T` in powers of 1000, of `k m g t` in powers of 1024.
fn suffixed(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.chars().last().and_then(unit) {
        Some(unit) => (&text[..text.len() - 1], unit),
        None => (text, 1),
    };
    let wrong =
        || format!("{text:?} is not a whole number, with K, M, G or T (1000 each) or k, m, g or t (1024 each) behind it or not");
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(unit).ok_or_else(|| format!("{text:?} is over {}", u64::MAX))
}

fn unit(suffix: char) -> Option<u64> {
    let power = "kmgt".find(suffix.to_ascii_lowercase())? as u32 + 1;
    let base: u64 = if suffix.is_ascii_uppercase() { 1_000 } else { 1_024 };
    Some(base.pow(power))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_decimal_in_upper_case_and_binary_in_lower_case() {
        let cases =
            [("0", 0), ("17", 17), ("9M", 9_000_000), ("64k", 65_536), ("2K", 2_000), ("1g", 1 << 30), ("3T", 3_000_000_000_000)];
        for (text, number) in cases {
            assert_eq!(suffixed(text), Ok(number), "{text}");
        }
        assert_eq!(suffixed(&u64::MAX.to_string()), Ok(u64::MAX));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in
            ["", "k", "-1", "+1", "1.5M", "1MM", "1x", "M1", " 1", "1\u{e9}", "18446744073709551616", "18446744073709551615k"]
        {
            let error = suffixed(text).expect_err(text);
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn every_style_has_a_name_of_its_own_and_a_line() {
        for (index, style) in ALL.iter().enumerate() {
            assert!(!style.about.is_empty() && ALL[..index].iter().all(|other| other.name < style.name), "{}", style.name);
        }
    }
}
