//! The manifests for Kubernetes of the book: they are what its schemas say, and what they start has right settings.

use crate::common::*;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const MANIFESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/kubernetes/corelane.yaml");

/// Python of the environment that `cargo xtask test --install` makes.
const PYTHON: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/../python/bin/python");

/// The oldest version that has all that the manifests ask for.
const VERSION: &str = "1.30";

fn validated(manifests: &Path) -> Output {
    let strict = ["-m", "kubernetes_validate", "--strict", "-k", VERSION];
    output(Command::new(PYTHON).args(strict).arg(manifests))
}

#[test]
fn the_manifests_are_as_the_schemas_say() {
    let test = "manifests::the_manifests_are_as_the_schemas_say";
    if !Command::new(PYTHON).args(["-c", "import kubernetes_validate"]).output().is_ok_and(|done| done.status.success()) {
        return skip(test, "there is no kubernetes-validate in the Python environment of the tests (cargo xtask test --install)");
    }
    let done = validated(Path::new(MANIFESTS));
    let words = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success() && words.contains("deployment/corelane") && !words.contains("WARN"), "{words}{done:?}");
    let folder = Scratch::new();
    let misspelt = folder.path().join("misspelt.yaml");
    fs::write(&misspelt, fs::read_to_string(MANIFESTS).unwrap().replace("readinessProbe:", "readynessProbe:")).unwrap();
    assert!(!validated(&misspelt).status.success(), "what the schemas do not know is refused");
}

/// A file that a ConfigMap has under this name: the lines that are set in behind it.
fn file_of(manifests: &str, name: &str) -> String {
    let (_, behind) = manifests.split_once(&format!("  {name}: |\n")).expect("the file is in a ConfigMap");
    let lines = behind.lines().take_while(|line| line.is_empty() || line.starts_with("    "));
    lines.map(|line| format!("{}\n", line.trim_start())).collect()
}

#[test]
fn their_settings_are_right() {
    let folder = Scratch::new();
    let manifests = fs::read_to_string(MANIFESTS).unwrap();
    assert!(
        manifests.contains(r#"args: ["serve", "--config", "/etc/corelane/corelane.toml"]"#),
        "what is checked here is started"
    );
    let settings = folder.path().join("corelane.toml");
    let root = folder.path().to_str().unwrap();
    fs::write(&settings, file_of(&manifests, "corelane.toml").replace("/srv/www", root)).unwrap();
    let done = output(Command::new(PROGRAM).args(["serve", "--check", "--config"]).arg(&settings));
    assert!(done.status.success(), "{done:?}");
}
