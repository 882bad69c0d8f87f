//! The workspace as `cargo metadata` describes it (the Cargo Book, "cargo metadata").

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Root, target folder and members of the workspace that the current folder lies in.
#[derive(Debug, Default)]
pub struct Workspace {
    /// Folder of the root manifest.
    pub root: PathBuf,
    /// Folder that build results go to.
    pub target: PathBuf,
    /// Every member, in the order of `cargo metadata`.
    pub members: Vec<Member>,
}

/// One package of the workspace. Paths are relative to the root, with slashes.
#[derive(Debug, Default)]
pub struct Member {
    /// Name of the package.
    pub name: String,
    /// Folder of the package, for example `crates/lane`.
    pub folder: String,
    /// Root files of the library and of the programs; not of tests, benches and examples.
    pub roots: Vec<String>,
    /// Its test programs beside those of the library and the programs: the name of each, and its root file.
    pub tests: Vec<(String, String)>,
    /// What the manifest names, of all kinds.
    pub dependencies: Vec<Dependency>,
    /// The names of its features.
    pub features: Vec<String>,
}

/// One dependency as a manifest declares it.
#[derive(Debug, Default)]
pub struct Dependency {
    /// Name of the package, whatever the manifest renames it to.
    pub name: String,
    /// Folder of the dependency when it is a member of the workspace.
    pub folder: Option<String>,
    /// Whether it stands under `[dev-dependencies]`.
    pub dev: bool,
    /// The `cfg(...)` that it stands under, if any.
    pub target: Option<String>,
    /// Whether only a feature brings it.
    pub optional: bool,
}

/// A `cargo` command of the toolchain that runs this program.
pub fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    // Colour codes would hide the closing lines of test programs.
    command.env("CARGO_TERM_COLOR", "never");
    command
}

/// `path` relative to `root`, with slashes; `path` itself when it lies elsewhere.
pub fn relative(root: &Path, path: &Path) -> String {
    let inside = path.strip_prefix(root).unwrap_or(path);
    inside.to_string_lossy().into_owned()
}

impl Workspace {
    /// Asks `cargo metadata`. Fails outside a workspace and where a manifest is malformed.
    pub fn load() -> anyhow::Result<Self> {
        let output = cargo()
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .output()
            .context("cannot start cargo: install a Rust toolchain")?;
        ensure!(
            output.status.success(),
            "cargo metadata failed, mend the manifest it names:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Self::parse(&output.stdout)
    }

    fn parse(json: &[u8]) -> anyhow::Result<Self> {
        let raw: Metadata = serde_json::from_slice(json).context("cargo metadata answered in an unknown form")?;
        let members = raw.packages.iter().map(|p| p.member(&raw.workspace_root)).collect();
        Ok(Self { root: raw.workspace_root, target: raw.target_directory, members })
    }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_root: PathBuf,
    target_directory: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    #[serde(default)]
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Declared>,
    targets: Vec<Target>,
    #[serde(default)]
    features: BTreeMap<String, IgnoredAny>,
}

#[derive(Deserialize)]
struct Declared {
    name: String,
    kind: Option<String>,
    target: Option<String>,
    path: Option<PathBuf>,
    #[serde(default)]
    optional: bool,
}

#[derive(Deserialize)]
struct Target {
    #[serde(default)]
    name: String,
    kind: Vec<String>,
    src_path: PathBuf,
}

impl Package {
    fn member(&self, root: &Path) -> Member {
        let folder = self.manifest_path.parent().unwrap_or(root);
        Member {
            name: self.name.clone(),
            folder: relative(root, folder),
            roots: self.roots(root),
            tests: self.tests(root),
            dependencies: self.dependencies.iter().map(|d| d.dependency(root)).collect(),
            features: self.features.keys().cloned().collect(),
        }
    }

    fn roots(&self, root: &Path) -> Vec<String> {
        let beside = ["test", "bench", "example", "custom-build"];
        let product = |target: &&Target| !target.kind.iter().any(|k| beside.contains(&k.as_str()));
        self.targets.iter().filter(product).map(|t| relative(root, &t.src_path)).collect()
    }

    fn tests(&self, root: &Path) -> Vec<(String, String)> {
        let tests = self.targets.iter().filter(|target| target.kind.iter().any(|kind| kind == "test"));
        tests.map(|target| (target.name.clone(), relative(root, &target.src_path))).collect()
    }
}

impl Declared {
    fn dependency(&self, root: &Path) -> Dependency {
        Dependency {
            name: self.name.clone(),
            folder: self.path.as_ref().map(|path| relative(root, path)),
            dev: self.kind.as_deref() == Some("dev"),
            target: self.target.clone(),
            optional: self.optional,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_becomes_folders_roots_and_dependencies() {
        let json = br#"{"workspace_root": "/w", "target_directory": "/w/target", "packages": [{
            "manifest_path": "/w/crates/lane/Cargo.toml",
            "targets": [{"kind": ["lib"], "src_path": "/w/crates/lane/src/lib.rs"},
                        {"name": "turn", "kind": ["test"], "src_path": "/w/crates/lane/tests/turn.rs"}],
            "dependencies": [
                {"name": "corelane-seam", "kind": null, "target": null, "path": "/w/crates/seam"},
                {"name": "loom", "kind": null, "target": "cfg(loom)"},
                {"name": "proptest", "kind": "dev", "target": null}]}]}"#;
        let workspace = Workspace::parse(json).unwrap();
        let lane = &workspace.members[0];
        assert_eq!(lane.folder, "crates/lane");
        assert_eq!(lane.roots, ["crates/lane/src/lib.rs"]);
        assert_eq!(lane.tests, [("turn".to_owned(), "crates/lane/tests/turn.rs".to_owned())]);
        assert_eq!(lane.dependencies[0].folder.as_deref(), Some("crates/seam"));
        assert_eq!(lane.dependencies[1].target.as_deref(), Some("cfg(loom)"));
        assert!(lane.dependencies[2].dev && !lane.dependencies[1].dev);
    }

    #[test]
    fn a_foreign_answer_is_an_error() {
        assert!(Workspace::parse(b"{}").is_err());
        assert!(Workspace::parse(b"no json").is_err());
    }
}
