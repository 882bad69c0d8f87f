//! Files of at most 800 lines, and the report on how long functions are, which clippy bounds (`too_many_lines`).

use std::collections::BTreeMap;
use std::fmt::Write;

use super::finding::{Finding, Rule};
use super::tree::Tree;

const RULE: Rule = "lengths";
const FILE_LINES: usize = 800;
/// Endings of the files that [`FILE_LINES`] holds for.
const ENDINGS: [&str; 5] = [".rs", ".c", ".h", ".py", ".sh"];

pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for text in &tree.texts {
        let lines = text.text.lines().count();
        if lines > FILE_LINES && ENDINGS.iter().any(|ending| text.path.ends_with(ending)) {
            let what = format!("the file has {lines} lines");
            let remedy = "split it by subject to 800".to_owned();
            findings.push(Finding { path: text.path.clone(), line: 1, rule: RULE, what, remedy });
        }
    }
}

/// The median and the greatest length of functions outside tests, by crate and in all, and whose that is.
pub fn report(tree: &Tree) -> String {
    let mut crates: BTreeMap<&str, Vec<(usize, &str)>> = BTreeMap::new();
    for source in &tree.sources {
        let product = source.functions.iter().filter(|f| !source.beside_product(f.line));
        let lengths: Vec<_> = product.map(|function| (function.length(), function.name.as_str())).collect();
        crates.entry(folder(&source.path)).or_default().extend(&lengths);
        crates.entry("in all").or_default().extend(&lengths);
    }
    let mut report = String::new();
    for (name, lengths) in &mut crates {
        lengths.sort_unstable();
        if let (Some((median, _)), Some((most, longest))) = (lengths.get(lengths.len() / 2), lengths.last()) {
            let count = lengths.len();
            // reason: writing to a string does not fail
            let _ = writeln!(report, "{name}: {count} functions, median {median} lines, most {most} (`{longest}`)");
        }
    }
    report
}

fn folder(path: &str) -> &str {
    path.split_once("/src/").map_or("elsewhere", |(folder, _)| folder)
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;
    use crate::workspace::Workspace;

    fn function(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    f();\n".repeat(lines - 2))
    }

    #[test]
    fn files_have_eight_hundred_lines_at_most() {
        let file = |lines: usize| "//\n".repeat(lines);
        assert!(found(check, &[("a.rs", &file(800)), ("a.txt", &file(801))]).is_empty());
        assert_eq!(found(check, &[("a.c", &file(801))]), ["a.c:1 the file has 801 lines"]);
    }

    #[test]
    fn the_report_gives_medians_outside_tests() {
        let lane = format!("{}{}{}", function(3), function(5), function(9));
        let tests = format!("#[cfg(test)]\nmod tests {{ {} }}", function(40));
        let files = [("crates/lane/src/a.rs", lane.as_str()), ("crates/svc/src/a.rs", tests.as_str())];
        let report = report(&Tree::from_files(Workspace::default(), &files));
        assert!(report.contains("crates/lane: 3 functions, median 5 lines, most 9 (`long`)\n"));
        assert!(report.contains("in all: 3 functions"));
    }
}
