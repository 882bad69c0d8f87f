//! How many assertions stand in the code that must not be wrong. A report, no rule.

use std::fmt::Write;

use super::source::Source;
use super::tree::Tree;

const FOLDERS: [&str; 10] = [
    "crates/os/src/",
    "crates/event/src/",
    "crates/kevent/src/",
    "crates/machine/src/",
    "crates/select/src/",
    "crates/drivers/src/",
    "crates/seam/src/",
    "crates/lane/src/",
    "crates/svc/src/",
    "crates/isr/src/",
];

/// Assertions per 1,000 lines outside tests, by crate.
pub fn report(tree: &Tree) -> String {
    let mut report = String::new();
    for folder in FOLDERS {
        let sources = tree.sources.iter().filter(|source| source.path.starts_with(folder));
        let (lines, assertions) = sources.map(count).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        let name = folder.trim_end_matches("/src/");
        let density = 1_000 * assertions / lines.max(1);
        // reason: writing to a string does not fail
        let _ = writeln!(report, "{name}: {assertions} assertions in {lines} lines, {density} per 1000");
    }
    report
}

/// Lines and assertions of `source` outside tests.
fn count(source: &Source) -> (usize, usize) {
    let lines = (1..=source.lines).filter(|&line| !source.beside_product(line)).count();
    let asserts = |index: &usize| {
        let word = source.word(*index);
        let name = word.strip_prefix("debug_").unwrap_or(word);
        matches!(name, "assert" | "assert_eq" | "assert_ne") && source.word(index + 1) == "!"
    };
    let assertions = (0..source.tokens()).filter(asserts);
    (lines, assertions.filter(|&index| !source.beside_product(source.line(index))).count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Workspace;

    #[test]
    fn assertions_of_the_product_are_counted() {
        let text = "fn f() {\n    assert!(a);\n    debug_assert_eq!(b, c); // assert!(d)\n}\n\
                    #[cfg(test)]\nmod tests { fn g() { assert!(e); } }\n";
        let tree = Tree::from_files(Workspace::default(), &[("crates/lane/src/a.rs", text)]);
        let report = report(&tree);
        assert!(report.contains("crates/lane: 2 assertions in 4 lines, 500 per 1000\n"));
        assert!(report.contains("crates/svc: 0 assertions in 0 lines"));
    }
}
