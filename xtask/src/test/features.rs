//! Whether the facade builds with none of its features and with each alone, which what tests and other crates ask for would hide; and how little a plain program
//! compiles, of others' and of ours.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};

use super::process::Finished;
use super::share::Share;
use super::verdict::Verdict;
use crate::workspace::Workspace;

/// The crate whose features these are.
const FACADE: &str = "corelane";

/// What a program without any feature compiles that is not ours.
const PLAIN: &[&str] = &["bitflags", "humantime", "libc", "linux-raw-sys", "rtrb", "rustix", "sd-notify"];

/// Most crates of ours that such a program compiles, the facade among them.
const OURS_MAX: usize = 12;

/// Asks `cargo`, which takes arguments. A warning is a fault: whoever builds a program by path would see it.
pub fn check(
    workspace: &Workspace,
    cargo: impl Fn(&[&str]) -> anyhow::Result<Finished>,
    share: &Share,
) -> anyhow::Result<Verdict> {
    let member = workspace.members.iter().find(|member| member.name == FACADE);
    let member = member.with_context(|| format!("the workspace has no {FACADE}"))?;
    ensure!(!member.features.is_empty(), "{FACADE} has no features");
    let tree = cargo(&["tree", "--package", FACADE, "--edges", "normal,build", "--prefix", "none"])?;
    let mut found: Vec<String> = more_than(&tree.output, PLAIN).into_iter().map(heavier).collect();
    found.extend(too_many(&tree.output, OURS_MAX));
    for feature in std::iter::once("").chain(member.features.iter().map(String::as_str)) {
        // Features add modules to crates below: what is wrong in these without them shows once, and with them wherever all is linted.
        let alone = if feature.is_empty() { &[][..] } else { &["--no-deps"] };
        let arguments = [&["clippy", "--package", FACADE, "--lib", "--features", feature], alone, &["--", "-D", "warnings"]];
        let outcome = cargo(&arguments.concat())?;
        if !outcome.success {
            found.push(format!("with the feature {feature:?} alone:\n{}", outcome.output));
        }
        ensure!(!share.left().is_zero(), "there was no time for more than {feature:?}");
    }
    Ok(Verdict::one(tree.success && found.is_empty(), found.concat()))
}

fn heavier(name: String) -> String {
    format!("a plain program compiles {name}: put it behind a feature of {FACADE}, or name it in xtask/src/test/features.rs\n")
}

/// What is wrong where more crates of ours are in a tree than this.
fn too_many(tree: &str, most: usize) -> Option<String> {
    let ours: Vec<_> = names(tree).into_iter().filter(|name| name.starts_with(FACADE)).collect();
    let is_too_many = ours.len() > most;
    is_too_many
        .then(|| format!("a plain program compiles {} crates of ours, {most} at the most: {}\n", ours.len(), ours.join(" ")))
}

/// The crates of a tree beyond ours and these.
fn more_than(tree: &str, known: &[&str]) -> BTreeSet<String> {
    names(tree).into_iter().filter(|name| !name.starts_with(FACADE) && !known.contains(name)).map(str::to_owned).collect()
}

/// The names of all crates of a tree, each once.
fn names(tree: &str) -> BTreeSet<&str> {
    tree.lines().filter_map(|line| line.split(' ').next()).filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Member;

    const TREE: &str = "corelane v0.1.0 (/x)\ncorelane-os v0.1.0 (/y)\nlibc v0.2.1\nserde v1.0.0\nserde_derive v1.0.0 (proc-macro)\nlibc v0.2.1 (*)\n";

    #[test]
    fn what_a_plain_program_compiles_is_in_the_list() {
        assert_eq!(more_than(TREE, &["libc", "serde", "serde_derive"]), BTreeSet::new());
        assert_eq!(more_than(TREE, &["libc"]), ["serde".to_owned(), "serde_derive".to_owned()].into());
    }

    #[test]
    fn crates_of_ours_are_counted_once_and_bounded() {
        assert_eq!(too_many(&TREE.repeat(2), 2), None);
        let fault = "a plain program compiles 2 crates of ours, 1 at the most: corelane corelane-os\n";
        assert_eq!(too_many(TREE, 1).as_deref(), Some(fault));
    }

    #[test]
    fn a_facade_that_needs_too_many_of_ours_has_failed() {
        let tree = |count: usize| (0..count).map(|number| format!("{FACADE}-{number} v0.1.0 (/x)\n")).collect::<String>();
        assert_eq!(said(&["a"], "b", &tree(OURS_MAX)).tally.failed, 0);
        let verdict = said(&["a"], "b", &tree(OURS_MAX + 1));
        assert_eq!((verdict.tally.failed, verdict.output.contains("13 crates of ours")), (1, true), "{}", verdict.output);
    }

    /// What is said of a facade with these features, where this one fails, of which cargo shows this tree.
    fn said(features: &[&str], failing: &str, tree: &str) -> Verdict {
        let features = features.iter().map(|name| (*name).to_owned()).collect();
        let member = Member { name: FACADE.to_owned(), features, ..Member::default() };
        let workspace = Workspace { members: vec![member], ..Workspace::default() };
        let cargo = |arguments: &[&str]| {
            if arguments[0] == "tree" {
                return Ok(Finished { success: true, output: tree.to_owned() });
            }
            let success = !arguments.contains(&failing);
            Ok(Finished { success, output: if success { String::new() } else { "it fails\n".to_owned() } })
        };
        check(&workspace, cargo, &Share::new(60)).unwrap()
    }

    #[test]
    fn each_feature_is_built_alone_and_none_as_well() {
        assert_eq!(said(&["a", "b"], "c", "").tally.failed, 0);
        for failing in ["", "a", "b"] {
            let verdict = said(&["a", "b"], failing, "");
            assert_eq!((verdict.tally.failed, verdict.output.contains(&format!("{failing:?} alone"))), (1, true), "{failing}");
        }
    }

    #[test]
    fn the_features_are_those_of_the_manifest() {
        let workspace = Workspace::load().unwrap();
        let member = workspace.members.iter().find(|member| member.name == FACADE).unwrap();
        assert!(["packets", "take-over"].iter().all(|name| member.features.iter().any(|feature| feature == name)));
        assert!(!member.features.iter().any(|feature| feature == "serde"), "{:?}", member.features);
    }
}
