//! Order: ten million packets over four lanes, and as many while policies and buckets change; how many of them came behind one that was sent later. The
//! programs are the crates' own tests, which end at the first.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use super::cells::ORDER;
use crate::bars::Limit;
use crate::rounds::Verdict;
use xtask::workspace::cargo;

/// Packets of each run.
const PACKETS: u64 = 10_000_000;

/// A test of a crate.
struct Program {
    what: &'static str,
    package: &'static str,
    target: &'static str,
    test: &'static str,
}

const PROGRAMS: [Program; 3] = [
    Program {
        what: "dispatch alone, hybrid, 4 producers: reordered",
        package: "corelane-isr",
        target: "dispatch",
        test: "order::n_06_no_flow_is_reordered_under_hybrid_with_four_producers",
    },
    Program {
        what: "dispatch alone, policies and lanes change: reordered",
        package: "corelane-isr",
        target: "dispatch",
        test: "order::n_05_no_flow_is_reordered_across_changes_of_policy_and_of_lanes",
    },
    Program {
        what: "wire to service, 4 producers, also with changes: reordered",
        package: "corelane-stack",
        target: "simulated",
        test: "order::n_06_x_12_four_producers_reorder_no_flow_of_ten_million_datagrams",
    },
];

/// None may be out of order.
const REORDERED: Limit = Limit::AtMost(0.0);

/// What the programs said, and what comes of the bar.
///
/// # Errors
/// When one cannot be built, or does not run its test.
pub fn run(root: &Path) -> Result<(String, Vec<Verdict>)> {
    let (mut lines, mut verdicts) = (vec![ORDER.to_owned()], Vec::new());
    for program in &PROGRAMS {
        let mut command = cargo();
        command.args(["test", "--quiet", "--package", program.package, "--test", program.target, "--"]);
        command.args(["--exact", program.test, "--include-ignored", "--nocapture"]);
        // The unit of the dispatch test that changes something is a tenth of this, nine times.
        command.env("CORELANE_DISPATCH_PACKETS", PACKETS.to_string()).current_dir(root);
        let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).output().with_context(|| format!("{command:?}"))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let complaint = String::from_utf8_lossy(&output.stderr);
        let reordered = reordered(&said, &complaint, output.status.success());
        ensure!(reordered.is_some(), "{command:?}: {}: {said}{complaint}", output.status);
        lines.push(program.test.to_owned());
        lines.extend(said.lines().filter(|line| is_figure(line)).map(|line| format!("  {line}")));
        verdicts.extend(reordered.map(|packets| Verdict::of_one(ORDER, program.what.to_owned(), packets, REORDERED)));
    }
    Ok((lines.join("\n") + "\n", verdicts))
}

/// Whether a line is of the test itself.
fn is_figure(line: &str) -> bool {
    line.starts_with(|first: char| first.is_ascii_digit())
}

/// How many came out of order: none, or the one at which the test ended; nothing if it did not run, or failed for something else.
fn reordered(said: &str, complaint: &str, is_success: bool) -> Option<f64> {
    match is_success {
        true => said.contains("test result: ok. 1 passed").then_some(0.0),
        false => (complaint.contains("flow ") && complaint.contains(" after ")).then_some(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_test_that_ran_says_that_nothing_is_reordered() {
        let passed =
            "9 sent, 9 heard, 3 changed lanes\n.\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 20 filtered out\n";
        assert_eq!(reordered(passed, "", true), Some(0.0));
        assert_eq!(reordered("test result: ok. 0 passed; 0 failed", "", true), None, "it has another name now");
        assert_eq!(reordered("", "panicked at order.rs:41:9:\nflow 7: 12 after 13\n", false), Some(1.0));
        assert_eq!(reordered("", "error: could not compile", false), None);
        assert_eq!(passed.lines().filter(|line| is_figure(line)).count(), 1);
    }

    #[test]
    fn the_tests_are_where_they_are_looked_for() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for Program { package, target, test, .. } in PROGRAMS {
            let folder = package.strip_prefix("corelane-").unwrap();
            let (module, name) = test.split_once("::").unwrap();
            let path = root.join("crates").join(folder).join("tests").join(target).join(module).with_extension("rs");
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.contains(&format!("fn {name}()")), "{test} in {}", path.display());
        }
    }
}
