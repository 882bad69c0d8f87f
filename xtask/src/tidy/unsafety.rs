//! Where `unsafe` may stand: in the crates that call the system, and in marked cells of `seam`, `lane`, `watch` and `kqueue`.

use super::finding::{Finding, Rule};
use super::layering::SYSTEM;
use super::source::Source;
use super::tree::Tree;

const RULE: Rule = "unsafe";
const CELLS: [&str; 4] = ["crates/seam", "crates/lane", "crates/watch", "crates/kqueue"];
/// What the header of a file with `unsafe` says, before its reason.
const MARK: &str = "//! Holds a marked cell: ";
/// Programs beside the workspace, with lints of their own.
const APART: &str = "bench/peers/";

pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for text in tree.texts.iter().filter(|text| !text.path.starts_with(APART)) {
        if let Some(source) = tree.sources.iter().find(|source| source.path == text.path) {
            check_words(source, &text.text, findings);
        }
    }
    for member in &tree.workspace.members {
        for source in tree.sources.iter().filter(|source| member.roots.contains(&source.path)) {
            check_root(source, &member.folder, findings);
        }
    }
}

fn check_words(source: &Source, text: &str, findings: &mut Vec<Finding>) {
    let within = |folder: &str| source.path.starts_with(&format!("{folder}/"));
    let cell = CELLS.iter().any(|folder| within(folder));
    if SYSTEM.iter().any(|folder| within(folder)) || cell && is_marked(text) {
        return;
    }
    let remedy = if cell {
        "begin the file with `//! Holds a marked cell: ` and the reason, or do without"
    } else {
        "put it into one of the crates that call the system, or into a marked cell of seam, lane, watch or kqueue"
    };
    for index in (0..source.tokens()).filter(|&index| source.word(index) == "unsafe") {
        let what = "`unsafe` may not stand here".to_owned();
        findings.push(source.finding(source.line(index), RULE, what, remedy));
    }
}

fn is_marked(text: &str) -> bool {
    let mut header = text.lines().take_while(|line| line.starts_with("//!"));
    header.any(|line| line.strip_prefix(MARK).is_some_and(|reason| !reason.trim().is_empty()))
}

fn check_root(source: &Source, folder: &str, findings: &mut Vec<Finding>) {
    let sets = |level: &str| {
        let attribute = ["#", "!", "[", level, "(", "unsafe_code", ")", "]"];
        (0..source.tokens()).any(|index| source.has(index, &attribute))
    };
    let may_deny = CELLS.contains(&folder);
    if SYSTEM.contains(&folder) || is_empty(source) || sets("forbid") || may_deny && sets("deny") {
        return;
    }
    let what = "the crate does not rule out `unsafe`".to_owned();
    let remedy =
        if may_deny { "add `#![deny(unsafe_code)]`, or `forbid` if there is no cell" } else { "add `#![forbid(unsafe_code)]`" };
    findings.push(source.finding(1, RULE, what, remedy));
}

/// Whether the root holds nothing yet but perhaps an empty `main`.
fn is_empty(source: &Source) -> bool {
    let nothing = ["fn", "main", "(", ")", "{", "}"];
    source.tokens() == 0 || source.tokens() == nothing.len() && source.has(0, &nothing)
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;
    use crate::workspace::{Member, Workspace};

    const BLOCK: &str = "fn f() {\n    unsafe { g() }\n}";

    fn root_faults(folder: &str, text: &str) -> usize {
        let path = format!("{folder}/src/lib.rs");
        let member = Member { folder: folder.into(), roots: vec![path.clone()], ..Member::default() };
        let workspace = Workspace { members: vec![member], ..Workspace::default() };
        let mut findings = Vec::new();
        check(&Tree::from_files(workspace, &[(&path, text)]), &mut findings);
        findings.len()
    }

    #[test]
    fn only_the_crates_below_and_marked_cells_hold_unsafe() {
        let marked = format!("//! A ring.\n//! Holds a marked cell: one writer.\n{BLOCK}");
        for folder in SYSTEM {
            assert!(found(check, &[(&format!("{folder}/src/a.rs"), BLOCK)]).is_empty());
        }
        assert!(found(check, &[("crates/lane/src/a.rs", &marked)]).is_empty());
        let expected = ["crates/lane/src/a.rs:2 `unsafe` may not stand here"];
        assert_eq!(found(check, &[("crates/lane/src/a.rs", BLOCK)]), expected);
        assert_eq!(found(check, &[("crates/svc/src/a.rs", &marked)]).len(), 1);
        assert_eq!(found(check, &[("crates/osx/src/a.rs", BLOCK)]).len(), 1);
    }

    #[test]
    fn a_mark_needs_a_reason() {
        let text = format!("//! Holds a marked cell: \n{BLOCK}");
        assert_eq!(found(check, &[("crates/lane/src/a.rs", &text)]).len(), 1);
    }

    #[test]
    fn words_in_comments_and_longer_words_are_fine() {
        let text = "//! No unsafe.\n#![forbid(unsafe_code)]\nconst A: &str = \"unsafe\";";
        assert!(found(check, &[("cli/src/main.rs", text)]).is_empty());
    }

    #[test]
    fn roots_rule_it_out() {
        let forbid = "#![forbid(unsafe_code)]\nfn f() {}";
        let deny = "#![deny(unsafe_code)]\nfn f() {}";
        assert_eq!(root_faults("crates/svc", forbid), 0);
        assert_eq!(root_faults("crates/lane", forbid), 0);
        assert_eq!(root_faults("crates/lane", deny), 0);
        assert_eq!(root_faults("crates/os", "fn f() {}"), 0);
        assert_eq!(root_faults("crates/svc", deny), 1);
        assert_eq!(root_faults("crates/lane", "fn f() {}"), 1);
        assert_eq!(root_faults("crates/svc", "//! Nothing yet.\nfn main() {}"), 0);
    }
}
