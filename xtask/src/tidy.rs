//! `cargo xtask tidy`: the house rules, checked on every file that git tracks or would track.
//!
//! The rules read text and tokens, no types. Each stands in a file of its own under `tidy/`. A line that has to break
//! a rule of words carries `tidy: allow(word) reason`; the other escapes are named by the rules themselves.

mod calls;
mod circles;
mod density;
mod finding;
mod graph;
mod habits;
mod held;
mod imports;
mod layering;
mod leftovers;
mod lengths;
mod lexer;
mod machine;
mod manifest;
mod named;
mod program;
mod quotes;
mod sentences;
mod source;
mod tree;
mod types;
mod unsafety;
mod words;

use std::process::ExitCode;

use crate::workspace::Workspace;
use finding::Finding;
use tree::Tree;

/// Options of `cargo xtask tidy`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Print the function lengths and the assertion density too
    #[arg(long)]
    verbose: bool,
}

type Check = fn(&Tree, &mut Vec<Finding>);

const CHECKS: [Check; 15] = [
    calls::check,
    circles::check,
    layering::check,
    unsafety::check,
    machine::check,
    words::check,
    lengths::check,
    habits::check,
    manifest::check,
    leftovers::check,
    program::check,
    quotes::check,
    sentences::check,
    held::check,
    named::check,
];

/// Prints what breaks a rule; the exit code is 1 if anything does.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let tree = Tree::load(Workspace::load()?)?;
    if arguments.verbose {
        print!("{}{}", lengths::report(&tree), density::report(&tree));
    }
    let findings = findings(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} files, {} findings", tree.texts.len(), findings.len());
    Ok(ExitCode::from(u8::from(!findings.is_empty())))
}

/// Everything in the workspace that breaks a rule, sorted by place.
pub fn check(workspace: Workspace) -> anyhow::Result<Vec<Finding>> {
    Ok(findings(&Tree::load(workspace)?))
}

fn findings(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for check in CHECKS {
        check(tree, &mut findings);
    }
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    findings
}

/// `path:line what` of each finding of one check on a made-up tree.
#[cfg(test)]
fn found(check: Check, files: &[(&str, &str)]) -> Vec<String> {
    let mut findings = Vec::new();
    check(&Tree::from_files(Workspace::default(), files), &mut findings);
    findings.iter().map(|f| format!("{}:{} {}", f.path, f.line, f.what)).collect()
}

#[cfg(test)]
mod tests {
    use super::finding::allows;
    use super::*;

    #[test]
    fn a_finding_names_place_rule_and_remedy() {
        let finding =
            Finding { path: "a.rs".into(), line: 3, rule: "habits", what: "it is bad".into(), remedy: "mend it".into() };
        assert_eq!(finding.to_string(), "a.rs:3: habits: it is bad; mend it");
    }

    #[test]
    fn an_escape_needs_a_reason() {
        assert!(allows("// tidy: allow(slot) the kernel's word", "slot"));
        assert!(!allows("<!-- tidy: allow(slot) -->", "slot"));
        assert!(!allows("// tidy: allow(slot) the kernel's word", "core"));
    }

    #[test]
    fn this_workspace_loads_whole() {
        let tree = Tree::load(Workspace::load().unwrap()).unwrap();
        assert!(tree.sources.iter().any(|source| source.path == "xtask/src/tidy.rs"));
        assert!(tree.texts.iter().any(|text| text.path == "Cargo.toml"));
    }
}
