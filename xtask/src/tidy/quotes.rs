//! Rust in the book is compiled: each block of it stands so in a file that is, which a comment before it names.
//!
//! ````text
//! <!-- from crates/corelane/examples/echo.rs -->
//! ```rust
//! struct Echo;
//! ```
//! ````

use super::finding::{Finding, Rule};
use super::tree::Tree;

const RULE: Rule = "quotes";
const BOOK: &str = "docs/";
const REMEDY: &str = "name a file that is compiled, as <!-- from PATH --> before the block, and quote its lines as they are";

pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for page in tree.texts.iter().filter(|text| text.path.starts_with(BOOK) && text.path.ends_with(".md")) {
        let lines: Vec<&str> = page.text.lines().collect();
        for begin in (0..lines.len()).filter(|&at| lines[at].starts_with("```rust")) {
            if let Some(what) = fault(tree, &lines, begin) {
                findings.push(Finding { path: page.path.clone(), line: begin + 1, rule: RULE, what, remedy: REMEDY.to_owned() });
            }
        }
    }
}

/// What is wrong with the block that begins at a line; none if nothing is.
fn fault(tree: &Tree, lines: &[&str], begin: usize) -> Option<String> {
    let above = begin.checked_sub(1).map_or("", |at| lines[at]);
    let Some(from) = above.strip_prefix("<!-- from ").and_then(|rest| rest.strip_suffix(" -->")) else {
        return Some("the block says not from where it is".to_owned());
    };
    let block: Vec<&str> = lines[begin + 1..].iter().take_while(|line| **line != "```").map(|line| line.trim()).collect();
    let source: Vec<&str> = tree.text(from).lines().map(str::trim).collect();
    // How far lines are set in may differ, as a method is quoted without what is around it.
    let stands = !block.is_empty() && source.windows(block.len()).any(|window| window == block);
    (!stands).then(|| format!("{from} does not have these lines"))
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    fn of(page: &str) -> Vec<String> {
        found(check, &[("docs/a.md", page), ("e.rs", "mod a {\n    fn b() {\n        c();\n    }\n}\n")])
    }

    #[test]
    fn lines_of_a_file_are_quoted() {
        assert!(of("<!-- from e.rs -->\n```rust\nfn b() {\n    c();\n}\n```\n").is_empty());
        assert!(of("```toml\na = 1\n```\n").is_empty(), "other languages are nobody's");
        assert!(found(check, &[("a.md", "```rust\n```\n")]).is_empty(), "nor are texts outside of the book");
    }

    #[test]
    fn what_stands_nowhere_is_found() {
        assert_eq!(of("```rust\nfn b() {\n```\n"), ["docs/a.md:1 the block says not from where it is"]);
        assert_eq!(of("<!-- from e.rs -->\n```rust\nfn d() {\n```\n"), ["docs/a.md:2 e.rs does not have these lines"]);
        assert_eq!(of("<!-- from no.rs -->\n```rust\nfn b() {\n```\n"), ["docs/a.md:2 no.rs does not have these lines"]);
        assert_eq!(of("<!-- from e.rs -->\n```rust\n```\n"), ["docs/a.md:2 e.rs does not have these lines"], "nothing is quoted");
    }
}
