//! Every member takes the lints of the workspace, and those ask for documentation.

use super::finding::{Finding, Rule};
use super::tree::Tree;

const RULE: Rule = "manifest";

pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let mut demand = |path: String, section: &str, key: &str, remedy: &str| {
        if !has(tree.text(&path), section, key) {
            let what = format!("no `{key}` under [{section}]");
            findings.push(Finding { path, line: 1, rule: RULE, what, remedy: remedy.to_owned() });
        }
    };
    for member in &tree.workspace.members {
        let path = format!("{}/Cargo.toml", member.folder);
        demand(path, "lints", "workspace = true", "every crate takes the lints of the workspace");
    }
    let remedy = "public items are documented";
    demand("Cargo.toml".to_owned(), "workspace.lints.rust", "missing_docs = \"warn\"", remedy);
}

/// The first line of `manifest` that sets `name`, or line 1.
pub fn line_of(manifest: &str, name: &str) -> usize {
    let sets = |line: &str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['.', ' ', '=']));
    manifest.lines().position(sets).map_or(1, |index| index + 1)
}

/// Whether the line `key` stands in `[section]` of `manifest`.
fn has(manifest: &str, section: &str, key: &str) -> bool {
    let header = format!("[{section}]");
    let after = manifest.lines().map(str::trim).skip_while(|line| *line != header).skip(1);
    after.take_while(|line| !line.starts_with('[')).any(|line| line == key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Member, Workspace};

    const ROOT: (&str, &str) = ("Cargo.toml", "[workspace.lints.rust]\nmissing_docs = \"warn\"\n");

    fn faults(files: &[(&str, &str)]) -> usize {
        let member = Member { folder: "cli".into(), ..Member::default() };
        let workspace = Workspace { members: vec![member], ..Workspace::default() };
        let mut findings = Vec::new();
        check(&Tree::from_files(workspace, files), &mut findings);
        findings.len()
    }

    #[test]
    fn members_take_the_lints() {
        assert_eq!(faults(&[ROOT, ("cli/Cargo.toml", "[lints]\nworkspace = true\n")]), 0);
        assert_eq!(faults(&[ROOT, ("cli/Cargo.toml", "[package]\nname = \"a\"\n")]), 1);
        assert_eq!(faults(&[ROOT, ("cli/Cargo.toml", "[lints]\n[a]\nworkspace = true")]), 1);
    }

    #[test]
    fn the_lints_ask_for_documentation() {
        let root = ("Cargo.toml", "[workspace.lints.rust]\nunsafe_code = \"deny\"\n");
        assert_eq!(faults(&[root, ("cli/Cargo.toml", "[lints]\nworkspace = true\n")]), 1);
    }

    #[test]
    fn lines_are_found_by_name() {
        assert_eq!(line_of("[dependencies]\nlibc-x = 1\nlibc.workspace = true", "libc"), 3);
        assert_eq!(line_of("", "libc"), 1);
    }
}
