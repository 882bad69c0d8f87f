//! Whether a program that depends on the facade alone can name whatever stands in the facade's signatures, by what rustdoc says of it and of the crates below.

mod signatures;

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, ensure};

use super::process::{self, Finished};
use super::share::Share;
use super::verdict::Verdict;
use crate::workspace::{Workspace, cargo};
use signatures::Documents;

/// Name and folder of the crate that is all a program needs.
const FACADE: (&str, &str) = ("corelane", "crates/corelane");

/// The package of the program that is documented, and has no library.
const PROGRAM: &str = "corelane-bench";

/// Its module that only a feature brings: what stands outside of it must be shown outside of it.
const BY_FEATURE: &str = "testing";

/// Two checks: what rustdoc warns of in any document, and names in signatures that the facade does not show. `variables` are those of the build, if it is the only one.
pub fn check(workspace: &Workspace, variables: &[(&str, String)], share: &Share) -> anyhow::Result<Verdict> {
    let mut outcome = write(workspace, variables, share)?;
    if variables.is_empty() && outcome.success {
        outcome = write_program(workspace, share)?;
    }
    let mut verdict = Verdict::one(outcome.success, outcome.output);
    if !outcome.success {
        return Ok(verdict);
    }
    let (name, folder) = FACADE;
    let documents = read(workspace, &packages(workspace, name, folder)?)?;
    let findings = documents.unshown(name, None)?.into_iter().chain(documents.unshown(name, Some(BY_FEATURE))?);
    let findings: BTreeSet<_> = findings.collect();
    let facade = Verdict::one(findings.is_empty(), findings.into_iter().collect());
    verdict.tally.add(facade.tally);
    verdict.output.push_str(&facade.output);
    Ok(verdict)
}

/// The package `name` and all members that it depends on.
fn packages(workspace: &Workspace, name: &str, folder: &str) -> anyhow::Result<BTreeSet<String>> {
    let (mut names, mut open) = (BTreeSet::from([name.to_owned()]), vec![folder]);
    while let Some(folder) = open.pop() {
        let member = workspace.members.iter().find(|member| member.folder == folder);
        let member = member.with_context(|| format!("the workspace has no {folder}"))?;
        for dependency in member.dependencies.iter().filter(|dependency| !dependency.dev) {
            let Some(folder) = &dependency.folder else { continue };
            if names.insert(dependency.name.clone()) {
                open.push(folder);
            }
        }
    }
    Ok(names)
}

/// Has rustdoc write what the libraries of all members show, in a form that [`read`] reads; what it warns of fails. That the build had features less would show
/// in how long it takes: all are built that it has not.
fn write(workspace: &Workspace, variables: &[(&str, String)], share: &Share) -> anyhow::Result<Finished> {
    let documents = workspace.target.join("doc");
    let documents = documents.to_str().with_context(|| format!("{}: the path is not UTF-8", documents.display()))?;
    let flags = ["-D", "warnings", "-Z", "unstable-options", "--output-format", "json", "--out-dir", documents];
    let mut command = cargo();
    command.args(["test", "--doc", "--no-fail-fast", "--workspace", "--all-features"]).current_dir(&workspace.root);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    command.env("RUSTDOC", Path::new(env!("CARGO_MANIFEST_DIR")).join("rustdoc.sh"));
    command.env("CARGO_ENCODED_RUSTDOCFLAGS", flags.join("\x1f"));
    process::run(command, share)
}

/// The same of the one program that has documents. What builds all once does it there.
fn write_program(workspace: &Workspace, share: &Share) -> anyhow::Result<Finished> {
    let mut command = cargo();
    command.args(["doc", "--no-deps", "--package", PROGRAM]).current_dir(&workspace.root);
    command.env("RUSTDOCFLAGS", "-D warnings");
    process::run(command, share)
}

/// Reads what these packages show.
fn read(workspace: &Workspace, packages: &BTreeSet<String>) -> anyhow::Result<Documents> {
    let mut documents = Documents::default();
    for package in packages {
        let name = package.replace('-', "_");
        let path = workspace.target.join("doc").join(format!("{name}.json"));
        let json = std::fs::read(&path).with_context(|| path.display().to_string())?;
        documents.add(name, &json).with_context(|| path.display().to_string())?;
    }
    ensure!(documents.len() == packages.len(), "no two packages are one crate");
    Ok(documents)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BELOW: &str = "\
        pub struct Shown { pub field: Field, _hidden: Private }\n\
        pub struct Field;\n\
        pub struct Private;\n\
        pub struct Unheard;\n\
        pub trait Bound {}\n\
        pub mod deep { pub struct Given; pub struct Listed; }\n\
        impl Shown { pub fn give(&self, _: impl Bound) -> Option<deep::Given> { None } fn private(&self) -> Option<Unheard> { None } }\n\
        impl Iterator for Shown { type Item = deep::Listed; fn next(&mut self) -> Option<deep::Listed> { None } }\n";

    /// A workspace of a facade and a crate below, in a folder of its own.
    fn small(folder: &Path, facade: &str) -> Workspace {
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let package = |name| format!("[package]\nname = {name:?}\nversion = \"0.1.0\"\nedition = \"2024\"\n");
        write("Cargo.toml", &format!("{}[dependencies]\nbelow = {{ path = \"below\" }}\n[workspace]\n", package("facade")));
        write("src/lib.rs", facade);
        write("below/Cargo.toml", &package("below"));
        write("below/src/lib.rs", BELOW);
        Workspace { root: folder.to_owned(), target: folder.join("target"), ..Workspace::default() }
    }

    /// What the facade with this text names and does not show, outside of `without`.
    fn unshown(name: &str, facade: &str, without: Option<&str>) -> Vec<String> {
        let folder = std::env::temp_dir().join(format!("corelane-facade-{}-{name}", std::process::id()));
        let workspace = small(&folder, facade);
        let packages = ["below", "facade"].map(str::to_owned).into();
        let outcome = write(&workspace, &[], &Share::new(60));
        let documents = read(&workspace, &packages);
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(outcome.unwrap().success);
        documents.unwrap().unshown("facade", without).unwrap().into_iter().collect()
    }

    #[test]
    fn what_is_named_and_not_shown_is_found_with_where() {
        let found = unshown("found", "pub use below::Shown;\n", None);
        let named = |place: &str, name: &str| format!("below::{place} names below::{name}, which the facade does not show\n");
        let expected = [
            named("Shown", "deep::Listed"),
            named("Shown::field", "Field"),
            named("Shown::give", "Bound"),
            named("Shown::give", "deep::Given"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_link_that_leads_nowhere_fails() {
        let folder = std::env::temp_dir().join(format!("corelane-facade-{}-link", std::process::id()));
        let workspace = small(&folder, "//! [`Nothing`] is here.\n");
        let outcome = write(&workspace, &[], &Share::new(60));
        std::fs::remove_dir_all(&folder).unwrap();
        let outcome = outcome.unwrap();
        assert!(!outcome.success && outcome.output.contains("unresolved link to `Nothing`"), "{}", outcome.output);
    }

    #[test]
    fn what_is_shown_anywhere_is_shown() {
        let facade = "pub use below::*;\nmod inner { pub fn f(_: below::Private) {} }\npub use inner::*;\n";
        assert_eq!(unshown("shown", facade, None), [""; 0]);
        let facade = "pub use below::{Field as Renamed, Shown};\npub mod parts { pub use below::{Bound, deep}; }\n";
        assert_eq!(unshown("renamed", facade, None), [""; 0]);
    }

    #[test]
    fn what_only_a_feature_shows_is_not_shown_without_it() {
        let facade = "pub use below::{Field, Shown, Bound};\npub mod testing { pub use below::deep; }\n";
        assert_eq!(unshown("feature", facade, None), [""; 0]);
        assert_eq!(unshown("without", facade, Some("testing")).len(), 2);
    }

    #[test]
    fn members_are_followed_down_and_only_they() {
        let workspace = Workspace::load().unwrap();
        let packages = packages(&workspace, FACADE.0, FACADE.1).unwrap();
        assert!(packages.contains("corelane-seam") && packages.contains("corelane-rss"), "{packages:?}");
        assert!(!packages.contains("corelane-tls") && !packages.contains("serde"), "{packages:?}");
    }
}
