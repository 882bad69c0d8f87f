//! No circle of files by their calls: where one calls what stands in another, that one does not call back, over others neither.
//!
//! A method may stand in any file that sees its type, so imports alone do not show such a circle. What is seen: calls (`.name(`, `::name(`) of functions whose name stands
//! in one file of the whole workspace, within its crate. What is not: names that several files have, trait methods with them; names that libraries have too
//! ([`ELSEWHERE`]); functions that are handed on without a call; calls within macros' own words.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::{Finding, Rule};
use super::graph::{Uses, circles, way_back};
use super::source::Source;
use super::tree::Tree;

const RULE: Rule = "calls";

/// Names that the standard library or another one has, so that a call may mean theirs.
const ELSEWHERE: [&str; 4] = ["arg", "augment_args", "from_arg_matches", "is_some"];

pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let homes = homes(tree);
    for member in &tree.workspace.members {
        let folder = format!("{}/src/", member.folder);
        let mut uses = Uses::new();
        for source in tree.sources.iter().filter(|source| source.path.starts_with(&folder)) {
            for (name, line) in calls(source) {
                let other = homes.get(name).filter(|other| other.starts_with(&folder) && **other != source.path);
                if let Some(other) = other {
                    let from = uses.entry(source.path.clone()).or_default();
                    from.entry((*other).to_owned()).or_insert((source, line));
                }
            }
        }
        findings.extend(circles(&uses).iter().map(|circle| finding(&uses, circle)));
    }
}

fn finding(uses: &Uses<'_>, circle: &[String]) -> Finding {
    let way = way_back(uses, &circle[0]);
    let (source, line) = uses[&circle[0]][&way[1]];
    let what = format!("{} files call each other in a circle: {}", circle.len(), way.join(" -> "));
    source.finding(line, RULE, what, "put what both call into a file that calls neither")
}

/// The file in which a function of a name stands, for names that stand in one alone.
fn homes(tree: &Tree) -> BTreeMap<&str, &str> {
    let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for source in &tree.sources {
        for index in (0..source.tokens()).filter(|&index| source.word(index) == "fn" && source.is_identifier(index + 1)) {
            if !source.beside_product(source.line(index)) {
                found.entry(source.word(index + 1)).or_default().insert(&source.path);
            }
        }
    }
    let alone = found.into_iter().filter(|(name, files)| files.len() == 1 && !ELSEWHERE.contains(name));
    alone.flat_map(|(name, files)| files.into_iter().map(move |file| (name, file))).collect()
}

/// The calls of a file, each with its line.
fn calls(source: &Source) -> impl Iterator<Item = (&str, usize)> {
    let called = |index: &usize| {
        let opens = |at: usize| source.word(at) == "(" || source.word(at) == "::" && source.word(at + 1) == "<";
        *index > 0 && matches!(source.word(index - 1), "." | "::") && source.is_identifier(*index) && opens(index + 1)
    };
    let with_line = |index: usize| (source.word(index), source.line(index));
    (0..source.tokens()).filter(called).map(with_line).filter(|(_, line)| !source.beside_product(*line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Member, Workspace};

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let members = ["crates/a", "crates/b"].map(|folder| Member { folder: folder.into(), ..Member::default() });
        let workspace = Workspace { members: members.into(), ..Workspace::default() };
        let mut findings = Vec::new();
        check(&Tree::from_files(workspace, files), &mut findings);
        findings.iter().map(|finding| format!("{}:{} {}", finding.path, finding.line, finding.what)).collect()
    }

    const ONE: (&str, &str) = ("crates/a/src/one.rs", "impl S {\nfn first(&self) { self.second(); }\n}");
    const TWO: (&str, &str) = ("crates/a/src/two.rs", "impl S {\nfn second(&self) { Self::first::<u8>(self) }\n}");

    #[test]
    fn a_circle_by_methods_of_one_type_is_told() {
        let what = "2 files call each other in a circle: crates/a/src/one.rs -> crates/a/src/two.rs -> crates/a/src/one.rs";
        assert_eq!(found(&[ONE, TWO]), [format!("crates/a/src/one.rs:2 {what}")]);
        assert!(found(&[ONE]).is_empty());
    }

    #[test]
    fn what_may_be_meant_otherwise_is_none() {
        let other = ("crates/b/src/lib.rs", "fn first() {}");
        assert!(found(&[ONE, TWO, other]).is_empty(), "a name of two files");
        let told = ("crates/a/src/two.rs", "impl S {\nfn second(&self) { self.first }\n}");
        assert!(found(&[ONE, told]).is_empty(), "no call");
        let tested = ("crates/a/src/two.rs", "fn second() {}\n#[cfg(test)]\nmod tests {\nfn t() { s.first() }\n}");
        assert!(found(&[ONE, tested]).is_empty(), "a test");
        let library = ("crates/a/src/two.rs", "impl S {\nfn second(&self) { self.is_some() }\n}");
        let same = ("crates/a/src/one.rs", "impl S {\nfn is_some(&self) { self.second(); }\n}");
        assert!(found(&[same, library]).is_empty(), "a library's name");
    }

    #[test]
    fn unfinished_text_is_accepted() {
        let text = "fn a() { x.b::<T>(); c::d(e) }";
        for end in 0..=text.len() {
            found(&[("crates/a/src/one.rs", &text[..end]), ("crates/a/src/two.rs", &text[..end])]);
        }
    }
}
