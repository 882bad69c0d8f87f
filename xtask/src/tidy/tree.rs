//! The files that the rules look at: what git tracks or would track.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use super::source::Source;
use crate::workspace::Workspace;

/// The workspace with its files read. Files that are not UTF-8 are left out.
#[derive(Debug, Default)]
pub struct Tree {
    /// Members and their dependencies.
    pub workspace: Workspace,
    /// Every text file.
    pub texts: Vec<Text>,
    /// Every Rust file.
    pub sources: Vec<Source>,
}

/// A text file.
#[derive(Debug)]
pub struct Text {
    /// Path relative to the root, with slashes.
    pub path: String,
    /// What it holds.
    pub text: String,
}

impl Tree {
    /// Reads the files of `workspace`. Fails where git does not know the folder or a file cannot be read.
    pub fn load(workspace: Workspace) -> anyhow::Result<Self> {
        let mut files = Vec::new();
        for path in listed(&workspace.root)? {
            if let Some(text) = read(&workspace.root.join(&path))? {
                files.push((path, text));
            }
        }
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        Ok(Self::from_files(workspace, &files))
    }

    /// A tree of the given files, each a path and its text.
    pub fn from_files(workspace: Workspace, files: &[(&str, &str)]) -> Self {
        let rust = files.iter().filter(|(path, _)| path.ends_with(".rs"));
        let mut sources: Vec<_> = rust.map(|(path, text)| Source::new(path, text)).collect();
        mark_test_modules(&mut sources);
        let text = |(path, text): &(&str, &str)| Text { path: (*path).into(), text: (*text).into() };
        Self { workspace, texts: files.iter().map(text).collect(), sources }
    }

    /// The text of the file at `path`, empty if there is none.
    pub fn text(&self, path: &str) -> &str {
        self.texts.iter().find(|text| text.path == path).map_or("", |text| &text.text)
    }
}

fn listed(root: &Path) -> anyhow::Result<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"])
        .current_dir(root)
        .output()
        .context("cannot start git: install it")?;
    ensure!(output.status.success(), "git ls-files failed, run inside a checkout: {}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8_lossy(&output.stdout);
    Ok(names.split_terminator('\0').map(str::to_owned).collect())
}

/// The text at `path`; nothing for a link, a folder, a file just deleted, or bytes that are not UTF-8.
fn read(path: &Path) -> anyhow::Result<Option<String>> {
    if !path.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
        return Ok(None);
    }
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8(bytes).ok())
}

/// Marks the files of modules that are declared under `#[cfg(test)]` elsewhere.
fn mark_test_modules(sources: &mut [Source]) {
    let declared: Vec<String> = sources.iter().flat_map(module_stems).collect();
    let inside = |path: &str, stem: &String| path.strip_prefix(stem).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'));
    for source in sources {
        if declared.iter().any(|stem| inside(&source.path, stem)) {
            source.mark_test();
        }
    }
}

/// Where the test modules that `source` declares lie: paths without `.rs` or `/mod.rs`.
fn module_stems(source: &Source) -> Vec<String> {
    let stem = source.path.trim_end_matches(".rs");
    let (folder, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    let base = if matches!(name, "lib" | "main" | "mod") { folder } else { stem };
    source.test_modules.iter().map(|module| format!("{base}/{module}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(files: &[(&str, &str)]) -> Vec<String> {
        let tree = Tree::from_files(Workspace::default(), files);
        let marked = tree.sources.into_iter().filter(|source| source.in_test(1));
        marked.map(|source| source.path).collect()
    }

    #[test]
    fn test_modules_in_files_of_their_own_are_test_code() {
        let root = ("crates/lane/src/lib.rs", "mod turn;\n#[cfg(test)] mod model;");
        let turn = ("crates/lane/src/turn.rs", "fn f() {}\n#[cfg(test)]\nmod cases;");
        let others = [
            ("crates/lane/src/model.rs", "fn f() {}"),
            ("crates/lane/src/model/bytes.rs", "fn f() {}"),
            ("crates/lane/src/models.rs", "fn f() {}"),
            ("crates/lane/src/turn/cases.rs", "fn f() {}"),
            ("crates/lane/src/turn/more.rs", "fn f() {}"),
        ];
        let files = [&[root, turn], &others[..]].concat();
        let expected = ["crates/lane/src/model.rs", "crates/lane/src/model/bytes.rs", "crates/lane/src/turn/cases.rs"];
        let marked: Vec<_> = marked(&files).into_iter().filter(|p| !p.ends_with("lib.rs")).collect();
        assert_eq!(marked, expected);
    }
}
