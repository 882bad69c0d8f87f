//! Functions of at most 60 lines, files of at most 800, and the report on how long functions are.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::finding::{Finding, Rule};
use super::source::{Function, Source};
use super::tree::Tree;

const RULE: Rule = "lengths";
const FUNCTION_LINES: usize = 60;
const FILE_LINES: usize = 800;
/// What a comment above a longer function says, before its reason.
const MARK: &str = "tidy: long because ";
/// Endings of the files that [`FILE_LINES`] holds for.
const ENDINGS: [&str; 5] = [".rs", ".c", ".h", ".py", ".sh"];

pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for source in &tree.sources {
        for function in source.functions.iter().filter(|f| f.length() > FUNCTION_LINES) {
            if !is_excused(source, function) {
                let what = format!("`{}` has {} lines", function.name, function.length());
                let remedy = "split it to 60 or note `// tidy: long because` above it";
                findings.push(source.finding(function.line, RULE, what, remedy));
            }
        }
    }
    for text in &tree.texts {
        let lines = text.text.lines().count();
        if lines > FILE_LINES && ENDINGS.iter().any(|ending| text.path.ends_with(ending)) {
            let what = format!("the file has {lines} lines");
            let remedy = "split it by subject to 800".to_owned();
            findings.push(Finding { path: text.path.clone(), line: 1, rule: RULE, what, remedy });
        }
    }
}

fn is_excused(source: &Source, function: &Function) -> bool {
    let reasoned = |line: usize| {
        let comment = source.comment(line);
        comment.split_once(MARK).is_some_and(|(_, reason)| !reason.trim().is_empty())
    };
    (source.header(function.line)..=function.line).any(reasoned)
}

/// The median and the greatest length of functions outside tests, by crate and in all.
pub fn report(tree: &Tree) -> String {
    let mut crates: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for source in &tree.sources {
        let product = source.functions.iter().filter(|f| !source.beside_product(f.line));
        let lengths: Vec<usize> = product.map(Function::length).collect();
        crates.entry(folder(&source.path)).or_default().extend(&lengths);
        crates.entry("in all").or_default().extend(&lengths);
    }
    let mut report = String::new();
    for (name, lengths) in &mut crates {
        lengths.sort_unstable();
        if let (Some(median), Some(most)) = (lengths.get(lengths.len() / 2), lengths.last()) {
            let count = lengths.len();
            // reason: writing to a string does not fail
            let _ = writeln!(report, "{name}: {count} functions, median {median} lines, most {most}");
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
    fn functions_have_sixty_lines_at_most() {
        assert!(found(check, &[("a.rs", &function(60))]).is_empty());
        assert_eq!(found(check, &[("a.rs", &function(61))]), ["a.rs:1 `long` has 61 lines"]);
    }

    #[test]
    fn a_reason_excuses_a_long_function() {
        let noted = |note: &str| format!("{note}\n/// Doc\n#[inline]\npub {}", function(61));
        assert!(found(check, &[("a.rs", &noted("// tidy: long because a table"))]).is_empty());
        assert_eq!(found(check, &[("a.rs", &noted("// tidy: long because "))]).len(), 1);
        assert_eq!(found(check, &[("a.rs", &noted("// a table"))]).len(), 1);
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
        assert!(report.contains("crates/lane: 3 functions, median 5 lines, most 9\n"));
        assert!(report.contains("in all: 3 functions"));
    }
}
