//! No circle of files by their calls: where one calls what stands in another, that one does not call back, over others neither.
//!
//! A method may stand in any file that sees its type, so imports alone do not show such a circle. Two kinds of calls are seen, each within its crate:
//!
//! * of functions whose name stands in one file of the whole workspace (`.name(`, `::name(`), but for names that libraries have too ([`elsewhere`]);
//! * of functions of a type, where the text says which type that is ([`Types`]), and they stand in one file of the crate.
//!
//! It does not see: calls by a trait's or a parameter's type; by values whose type is inferred otherwise, as those in patterns and closures; of types whose name stands
//! twice in a crate; of names that a type has in several files; functions that are handed on without a call; what macros make. A name that a pattern binds anew
//! counts as what it was before.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::{Finding, Rule};
use super::graph::{Uses, circles, way_back};
use super::source::Source;
use super::tree::Tree;
use super::types::{Types, blocks, functions};

const RULE: Rule = "calls";

/// Names of functions of our types that the standard library or another one has, so that a call may mean theirs.
const ELSEWHERE: [&str; 2] = ["arg", "is_some"];

pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let homes = homes(tree);
    for member in &tree.workspace.members {
        let folder = format!("{}/src/", member.folder);
        let mut uses = Uses::new();
        let sources = tree.sources.iter().filter(|source| source.path.starts_with(&folder));
        let types = Types::new(sources.clone());
        for source in sources {
            let by_type = types.calls(source).into_iter().map(|call| (call.home, call.line));
            for (other, line) in
                calls(source, &homes).chain(by_type).filter(|(other, _)| other.starts_with(&folder) && *other != source.path)
            {
                let from = uses.entry(source.path.clone()).or_default();
                from.entry(other.to_owned()).or_insert((source, line));
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

/// The file in which a function of a name stands, for names that stand in one alone; and whether all of that name there are methods.
fn homes(tree: &Tree) -> BTreeMap<&str, (&str, bool)> {
    let mut found: BTreeMap<&str, (BTreeSet<&str>, bool)> = BTreeMap::new();
    for source in &tree.sources {
        for index in functions(source, 0, source.tokens()) {
            let (files, are_methods) = found.entry(source.word(index + 1)).or_insert_with(|| (BTreeSet::new(), true));
            files.insert(&source.path);
            *are_methods &= is_method(source, index);
        }
    }
    let elsewhere = elsewhere(tree);
    let alone = found.into_iter().filter(|(name, (files, _))| files.len() == 1 && !elsewhere.contains(name));
    alone.flat_map(|(name, (files, are_methods))| files.into_iter().map(move |file| (name, (file, are_methods)))).collect()
}

/// Names of functions that others have as well: those of traits that nobody here declares, and [`ELSEWHERE`].
fn elsewhere(tree: &Tree) -> BTreeSet<&str> {
    let words = |source: &Source| (1..source.tokens()).filter(|&index| source.word(index - 1) == "trait").collect::<Vec<_>>();
    let own: BTreeSet<&str> =
        tree.sources.iter().flat_map(|source| words(source).into_iter().map(|index| source.word(index))).collect();
    let mut found = BTreeSet::from(ELSEWHERE);
    for source in &tree.sources {
        for block in blocks(source).filter(|block| block.of_trait.is_some_and(|of| !own.contains(of))) {
            found.extend(functions(source, block.open, block.close).map(|index| source.word(index + 1)));
        }
    }
    found
}

/// Whether the function whose `fn` stands at `index` has a receiver.
fn is_method(source: &Source, index: usize) -> bool {
    let mut first = source.behind_angles(index + 2) + 1;
    while matches!(source.word(first), "&" | "mut" | "'") {
        first += if source.word(first) == "'" { 2 } else { 1 };
    }
    source.word(first) == "self"
}

/// The calls of a file by names in `homes`, each with the file in which that stands and its line.
fn calls<'a>(source: &'a Source, homes: &BTreeMap<&'a str, (&'a str, bool)>) -> impl Iterator<Item = (&'a str, usize)> {
    let called = |index: &usize| {
        let opens = |at: usize| source.word(at) == "(" || source.word(at) == "::" && source.word(at + 1) == "<";
        *index > 0 && matches!(source.word(index - 1), "." | "::") && source.is_identifier(*index) && opens(index + 1)
    };
    let home = |index: usize| {
        let (home, are_methods) = homes.get(source.word(index))?;
        // A function without a receiver is never called by one.
        (*are_methods || source.word(index - 1) == "::").then(|| (*home, source.line(index)))
    };
    (0..source.tokens()).filter(called).filter_map(home).filter(|(_, line)| !source.beside_product(*line))
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
    fn a_circle_by_the_type_of_a_receiver_is_told_whoever_has_such_names() {
        let other = ("crates/b/src/lib.rs", "fn first() {}\nfn second() {}");
        assert!(found(&[ONE, TWO, other]).is_empty(), "nobody knows the type");
        assert_eq!(found(&[ONE, TWO, other, ("crates/a/src/lib.rs", "struct S;")]).len(), 1);
    }

    #[test]
    fn what_may_be_meant_otherwise_is_none() {
        let other = ("crates/b/src/lib.rs", "fn first() {}");
        assert!(found(&[ONE, TWO, other]).is_empty(), "a name of two files");
        let told = ("crates/a/src/two.rs", "impl S {\nfn second(&self) { self.first }\n}");
        assert!(found(&[ONE, told]).is_empty(), "no call");
        let tested = ("crates/a/src/two.rs", "fn second() {}\n#[cfg(test)]\nmod tests {\nfn t() { s.first() }\n}");
        assert!(found(&[ONE, tested]).is_empty(), "a test");
        let of_others = ("crates/a/src/one.rs", "impl Iterator for S {\nfn first(&self) { self.second(); }\n}");
        assert!(found(&[of_others, TWO]).is_empty(), "a function of others' trait");
        let free = ("crates/a/src/one.rs", "fn first() { s.second() }");
        let called = ("crates/a/src/two.rs", "impl S {\nfn second<F: Fn(u8)>(&'a mut self) { self.first() }\n}");
        assert!(found(&[free, called]).is_empty(), "what has no receiver is not called by one");
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
