//! A design names what is there: files, folders, and what stands in them.
//!
//! It looks for these names in backticks: those in a table's column that is headed `file`, `files` or `module`, among the files and folders of the crate, but for those with `*`; those that end
//! in `.rs` or begin with a folder of the project, among its files; and each word of a path with `::`, among the words of its Rust. A single word elsewhere may
//! be anything.

use std::collections::BTreeSet;

use super::finding::{Finding, Rule};
use super::lexer::is_word;
use super::tree::{Text, Tree};

const RULE: Rule = "named";
const PAGE: &str = "DESIGN.md";
const HEADS: [&str; 3] = ["file", "files", "module"];
/// Folders of the project in which its files stand.
const FOLDERS: [&str; 7] = ["crates/", "services/", "cli/", "load/", "xtask/", "bench/", "docs/"];

/// All that a name can mean.
struct Known<'a> {
    /// Files and folders.
    paths: BTreeSet<&'a str>,
    words: BTreeSet<&'a str>,
}

pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let known = Known::new(tree);
    for page in tree.texts.iter().filter(|text| text.path == PAGE || text.path.ends_with(&format!("/{PAGE}"))) {
        for (line, name) in known.missing(page) {
            let (path, what) = (page.path.clone(), format!("`{name}` is not there"));
            findings.push(Finding { path, line, rule: RULE, what, remedy: "name what is".into() });
        }
    }
}

impl<'a> Known<'a> {
    fn new(tree: &'a Tree) -> Self {
        let files = tree.texts.iter().map(|text| text.path.as_str());
        let above = |path: &'a str| path.match_indices('/').map(|(end, _)| &path[..end]).chain([path]);
        let words = tree.sources.iter().flat_map(|source| (0..source.tokens()).map(|index| source.word(index)));
        Self { paths: files.flat_map(above).collect(), words: words.collect() }
    }

    /// The names of a page that mean nothing, each with its line.
    fn missing<'p>(&self, page: &'p Text) -> Vec<(usize, &'p str)> {
        let folder = page.path.trim_end_matches(PAGE);
        let (mut missing, mut column, mut is_quoted) = (Vec::new(), None, false);
        for (index, line) in page.text.lines().enumerate() {
            is_quoted ^= line.starts_with("```");
            let cells: Vec<&str> = line.split('|').collect();
            match line.starts_with('|') {
                true => column = column.or_else(|| Some(cells.iter().position(|cell| HEADS.contains(&cell.trim())))),
                false => column = None,
            }
            let files = column.flatten().map_or("", |column| cells.get(column).copied().unwrap_or(""));
            let of_crate = names(files).filter(|name| !(name.contains('*') || self.is_in(folder, name)));
            let elsewhere = names(line).filter(|name| !self.may_be(name)).filter(|_| !is_quoted);
            missing.extend(of_crate.chain(elsewhere).map(|name| (index + 1, name)));
        }
        missing
    }

    /// Whether a crate has a file or a folder of that name, with its ending or without.
    fn is_in(&self, folder: &str, name: &str) -> bool {
        let name = name.trim_end_matches('/');
        let is_it = |path: &str| {
            let end = path.strip_suffix(name).or_else(|| path.strip_suffix(".rs")?.strip_suffix(name));
            end.is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
        };
        self.paths.iter().filter_map(|path| path.strip_prefix(folder)).any(is_it)
    }

    /// Whether a name means something, or may.
    fn may_be(&self, name: &str) -> bool {
        if FOLDERS.iter().any(|folder| name.starts_with(folder)) || name.ends_with(".rs") {
            return self.is_in("", name);
        }
        let called = name.split('(').next().unwrap_or(name);
        !is_path(name) || called.split(|c| !is_word(c)).all(|word| word.is_empty() || self.words.contains(word))
    }
}

/// Whether a name is one of Rust with `::` in it.
fn is_path(name: &str) -> bool {
    let joins = |(at, _): (usize, &str)| name[..at].ends_with(is_word) && name[at + 2..].starts_with(is_word);
    !name.contains(' ') && name.match_indices("::").any(joins)
}

/// The names in backticks.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    fn of(page: &str) -> Vec<String> {
        let files = [("crates/a/DESIGN.md", page), ("crates/a/src/one/two.rs", "fn three() {}"), ("crates/b/src/four.rs", "")];
        found(check, &files)
    }

    #[test]
    fn what_is_there_may_be_named() {
        assert!(of("| file | what |\n| --- | --- |\n| `one`, `two`, `two.rs`, `one/`, `one/two` | `five` |\n").is_empty());
        assert!(of("`crates/b`, `two.rs`, `fn::three(x)`, `five`, `udp://[::]?six`, `cargo six::seven`\n").is_empty());
        assert!(of("```text\n`crates/c`\n```\n").is_empty(), "quoted");
        assert!(found(check, &[("README.md", "`crates/c`")]).is_empty(), "another page");
    }

    #[test]
    fn what_is_not_there_is_told() {
        let told = |name: &str, line| [format!("crates/a/DESIGN.md:{line} `{name}` is not there")];
        assert_eq!(of("a\n\n| what | module |\n| --- | --- |\n| `five` | `four` |\n"), told("four", 5));
        assert_eq!(of("| a |\n\n| file |\n| `wo` |\n"), told("wo", 4));
        assert_eq!(of("`crates/c`"), told("crates/c", 1));
        assert_eq!(of("`five.rs`"), told("five.rs", 1));
        assert_eq!(of("`three::five`"), told("three::five", 1));
    }
}
