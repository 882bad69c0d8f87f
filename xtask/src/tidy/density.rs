//! How many assertions stand in each crate's code. A report, no rule.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::source::Source;
use super::tree::Tree;

/// Assertions per 1,000 lines outside tests, by crate.
pub fn report(tree: &Tree) -> String {
    let mut crates: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for source in &tree.sources {
        // What lies beside `src` is tests, examples and benchmarks.
        let Some((name, _)) = source.path.split_once("/src/") else { continue };
        let (lines, assertions) = count(source);
        let all = crates.entry(name).or_default();
        *all = (all.0 + lines, all.1 + assertions);
    }
    let mut report = String::new();
    for (name, (lines, assertions)) in crates {
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
        let files =
            [("crates/lane/src/a.rs", text), ("services/echo/src/b/c.rs", "fn f() {}\n"), ("crates/lane/tests/d.rs", text)];
        let tree = Tree::from_files(Workspace::default(), &files);
        let report = report(&tree);
        assert_eq!(
            report,
            "crates/lane: 2 assertions in 4 lines, 500 per 1000\nservices/echo: 0 assertions in 1 lines, 0 per 1000\n"
        );
    }
}
