//! No circle of files: where one uses another by `crate::` or `super::`, that one does not lead back.
//!
//! What is compared is brothers and sisters, at each level: the modules of a crate, each with all that is in it, then the children of each
//! module; and the children with the module's own file, which may declare them and pass on what they offer, but not use what is in them
//! while they use what is in it. What a module merely passes on (`pub use`) counts as where it comes from.

use std::collections::BTreeMap;

use super::finding::{Finding, Rule};
use super::graph::{Uses, circles, way_back};
use super::source::Source;
use super::tree::Tree;

const RULE: Rule = "circles";

/// A module of a crate: the names on the way to it.
type Module = Vec<String>;

/// Stands for a module's own file among its children, before all of them.
const OWN: &str = "";

/// The files of one crate.
struct Crate<'a> {
    sources: Vec<(Module, &'a Source)>,
    /// What each module has taken from elsewhere, by the name under which it has it.
    taken: BTreeMap<Module, BTreeMap<String, Vec<String>>>,
}

pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for member in &tree.workspace.members {
        let one = Crate::new(tree, &format!("{}/src/", member.folder));
        let mut uses = one.uses();
        for uses in uses.values() {
            findings.extend(circles(uses).iter().map(|circle| finding(uses, circle)));
        }
        one.add_own(&mut uses);
        findings.extend(uses.values().filter_map(family));
    }
}

/// Where a module's own file and its children use each other.
fn family(uses: &Uses<'_>) -> Option<Finding> {
    let circle = circles(uses).into_iter().find(|circle| circle[0] == OWN)?;
    let (source, line) = uses[OWN][&way_back(uses, &circle[0])[1]];
    let what = format!("this file and its children {} use each other in a circle", circle[1..].join(", "));
    Some(source.finding(line, RULE, what, "put what both need into a child that uses neither"))
}

fn finding(uses: &Uses<'_>, circle: &[String]) -> Finding {
    let first = &circle[0];
    let way = way_back(uses, first);
    let (source, line) = uses[first][&way[1]];
    let what = format!("{} use each other in a circle: {}", circle.join(", "), way.join(" -> "));
    source.finding(line, RULE, what, "put what both need into a file that uses neither")
}

impl<'a> Crate<'a> {
    /// The crate whose files are in `folder`, which has a slash at its end.
    fn new(tree: &'a Tree, folder: &str) -> Self {
        let inside = |source: &'a Source| Some((module(source.path.strip_prefix(folder)?)?, source));
        let sources: Vec<_> = tree.sources.iter().filter_map(inside).collect();
        let mut taken: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for (module, source) in &sources {
            let names = taken.entry(module.clone()).or_default();
            let uses = (0..source.tokens()).filter(|&index| source.word(index) == "use");
            names.extend(uses.flat_map(|index| paths(source, index + 1)).map(|(name, path, _)| (name, path)));
        }
        Self { sources, taken }
    }

    /// For each module with children, who of these uses whom.
    fn uses(&self) -> BTreeMap<Module, Uses<'a>> {
        let mut uses: BTreeMap<Module, Uses<'a>> = BTreeMap::new();
        for (from, source) in &self.sources {
            for index in (0..source.tokens()).filter(|&index| begins(source, index)) {
                for (_, path, line) in paths(source, index) {
                    if let Some((parent, one, other)) = self.apart(from, &path).filter(|_| !source.beside_product(line)) {
                        uses.entry(parent).or_default().entry(one).or_default().entry(other).or_insert((source, line));
                    }
                }
            }
        }
        uses
    }

    /// Who uses what stands in a module's own file, and whom that uses, but for what it passes on.
    fn add_own(&self, uses: &mut BTreeMap<Module, Uses<'a>>) {
        for (from, source) in &self.sources {
            let mut index = 0;
            while index < source.tokens() {
                if self.passes_on(source, index) {
                    while index < source.tokens() && source.word(index) != ";" {
                        index += 1;
                    }
                }
                if begins(source, index) || self.begins_child(from, source, index) {
                    for (_, path, line) in paths(source, index) {
                        let Some(to) = self.home(from, &path, 0).filter(|_| !source.beside_product(line)) else { continue };
                        if let Some((parent, one, other)) = related(from, &to) {
                            uses.entry(parent).or_default().entry(one).or_default().entry(other).or_insert((source, line));
                        }
                    }
                }
                index += 1;
            }
        }
    }

    /// Whether a `pub use` begins at `index`.
    fn passes_on(&self, source: &Source, index: usize) -> bool {
        source.word(index) == "use" && index > 0 && matches!(source.word(index - 1), "pub" | ")")
    }

    /// Whether a path into a child of `from` begins at `index`.
    fn begins_child(&self, from: &Module, source: &Source, index: usize) -> bool {
        let is_first = index == 0 || !matches!(source.word(index - 1), "::" | "mod");
        is_first && source.word(index + 1) == "::" && self.is_module(from, source.word(index))
    }

    /// Where the ways to a module and to what it names part: their last common module, and the child of it on either way. None if one
    /// of them is in the other.
    fn apart(&self, from: &Module, path: &[String]) -> Option<(Module, String, String)> {
        let to = self.home(from, path, 0)?;
        let common = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
        Some((from[..common].to_vec(), from.get(common)?.clone(), to.get(common)?.clone()))
    }

    /// The module in which that stands which a path in `from` names. None if it is not of this crate.
    fn home(&self, from: &Module, path: &[String], passed_on: usize) -> Option<Module> {
        let mut path = path.iter();
        let mut at = from.clone();
        let first = path.as_slice().first()?;
        match first.as_str() {
            "crate" => at.clear(),
            "super" => drop(at.pop()),
            "self" => {}
            _ if self.is_module(from, first) => at.push(first.clone()),
            _ => return None,
        }
        path.next();
        for name in path {
            let elsewhere = self.taken.get(&at).and_then(|names| names.get(name)).filter(|_| passed_on < 8);
            match elsewhere.filter(|_| !self.is_module(&at, name)).and_then(|other| self.home(&at, other, passed_on + 1)) {
                _ if name == "super" => drop(at.pop()),
                _ if self.is_module(&at, name) => at.push(name.clone()),
                Some(home) => return Some(home),
                None => break,
            }
        }
        Some(at)
    }

    fn is_module(&self, parent: &Module, name: &str) -> bool {
        let is_it = |module: &Module| module.split_last().is_some_and(|(last, rest)| last == name && rest == parent.as_slice());
        self.sources.iter().any(|(module, _)| is_it(module))
    }
}

/// Of two modules of which one is in the other: the outer one, and who uses whom there, its own file or a child.
fn related(from: &Module, to: &Module) -> Option<(Module, String, String)> {
    if from.len() > to.len() && from.starts_with(to) {
        Some((to.clone(), from[to.len()].clone(), OWN.to_owned()))
    } else if to.len() > from.len() && to.starts_with(from) {
        Some((from.clone(), OWN.to_owned(), to[from.len()].clone()))
    } else {
        None
    }
}

/// The module that a file is; None for programs beside the main one.
fn module(path: &str) -> Option<Module> {
    let mut names: Module = path.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if names[0] == "bin" {
        return None;
    }
    if matches!(names.last().map(String::as_str), Some("mod")) || names == ["lib"] || names == ["main"] {
        names.pop();
    }
    Some(names)
}

/// Whether a path into this crate begins at `index`.
fn begins(source: &Source, index: usize) -> bool {
    let is_first = index == 0 || source.word(index - 1) != "::";
    is_first && matches!(source.word(index), "crate" | "super" | "self") && source.word(index + 1) == "::"
}

/// The paths that a tree of them at `index` names, each with the name that it gives and its line.
fn paths(source: &Source, index: usize) -> Vec<(String, Vec<String>, usize)> {
    let mut found = Vec::new();
    read_paths(source, index, &[], &mut found);
    found
}

/// Reads the paths at `index` below `before`; returns the index behind them.
fn read_paths(source: &Source, mut index: usize, before: &[String], found: &mut Vec<(String, Vec<String>, usize)>) -> usize {
    let mut path = before.to_vec();
    loop {
        if source.word(index) == "{" {
            let end = source.closing(index);
            while index < end {
                index = read_paths(source, index + 1, &path, found);
            }
            return end + 1;
        }
        if !source.is_identifier(index) {
            return index + usize::from(!matches!(source.word(index), "}" | ","));
        }
        path.push(source.word(index).to_owned());
        if source.word(index + 1) != "::" {
            break;
        }
        index += 2;
    }
    let is_self = path.len() > 1 && path.last().is_some_and(|last| last == "self");
    path.truncate(path.len() - usize::from(is_self));
    let line = source.line(index);
    let renamed = source.word(index + 1) == "as";
    let name = if renamed { source.word(index + 2).to_owned() } else { path[path.len() - 1].clone() };
    found.push((name, path, line));
    index + if renamed { 3 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Member, Workspace};

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let member = Member { folder: "crates/a".into(), ..Member::default() };
        let workspace = Workspace { members: vec![member], ..Workspace::default() };
        let files: Vec<_> = files.iter().map(|(path, text)| (format!("crates/a/src/{path}"), *text)).collect();
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let mut findings = Vec::new();
        check(&Tree::from_files(workspace, &files), &mut findings);
        findings.iter().map(|finding| format!("{}:{} {}", finding.path, finding.line, finding.what)).collect()
    }

    #[test]
    fn a_circle_is_told_with_its_shortest_way() {
        let files = [
            ("lib.rs", "mod one; mod two; mod three;"),
            ("one.rs", "\nuse crate::{two::B, three as t};"),
            ("two.rs", "use std::fmt;\nfn f(a: crate::three::C) {}"),
            ("three.rs", "use super::one::{self, A};"),
        ];
        assert_eq!(found(&files), ["crates/a/src/one.rs:2 one, three, two use each other in a circle: one -> three -> one"]);
        assert!(found(&files[..3]).is_empty());
    }

    #[test]
    fn what_is_passed_on_counts_as_where_it_comes_from() {
        let files = [
            ("lib.rs", "mod one; mod two;\npub use one::A as Renamed;"),
            ("one.rs", "use crate::two::B;"),
            ("two.rs", "use crate::Renamed;"),
        ];
        assert_eq!(found(&files).len(), 1);
        assert!(found(&[files[0], files[1], ("two.rs", "use crate::Other;")]).is_empty());
    }

    #[test]
    fn a_module_may_declare_its_children_and_pass_them_on() {
        let files = [
            ("lib.rs", "mod one;"),
            ("one.rs", "mod inner;\npub use inner::B;"),
            ("one/inner.rs", "use super::A;\nuse crate::one::other::D;"),
            ("one/other.rs", "use crate::one::A;"),
        ];
        assert!(found(&files).is_empty(), "it passes on what its children have");
        let using = ("one.rs", "mod inner;\nuse inner::B;\nuse self::inner::C;");
        assert_eq!(
            found(&[files[0], using, files[2], files[3]]),
            ["crates/a/src/one.rs:2 this file and its children inner, other use each other in a circle"]
        );
        let inner = ("one/inner.rs", "use crate::one::other::D;");
        assert_eq!(found(&[files[0], using, inner, files[3]]).len(), 1, "by way of another child");
        assert!(found(&[files[0], using, inner, ("one/other.rs", "use crate::Other;")]).is_empty());
        let brothers = [files[0], files[1], files[2], ("one/other.rs", "use super::inner::B;")];
        assert_eq!(
            found(&brothers),
            ["crates/a/src/one/inner.rs:2 inner, other use each other in a circle: inner -> other -> inner"]
        );
        let across =
            [files[0], files[1], ("one/inner.rs", "use super::super::two::E;"), ("two/mod.rs", "use crate::one::inner::B;")];
        assert_eq!(found(&across).len(), 1);
    }

    #[test]
    fn tests_may_use_what_they_like() {
        let files = [
            ("lib.rs", "mod one;"),
            ("one.rs", "#[cfg(test)]\nmod tests { use crate::two::B; }"),
            ("two.rs", "use crate::one::A;"),
        ];
        assert!(found(&files).is_empty());
    }

    #[test]
    fn unfinished_text_is_accepted() {
        let text = "use crate::{a::{b, c as d}, e::*}; self::x::<T>::y";
        for end in 0..=text.len() {
            found(&[("lib.rs", &text[..end]), ("a.rs", &text[..end])]);
        }
    }
}
