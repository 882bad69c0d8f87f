//! Files of the book to be copied. The manifests for Kubernetes are what its schemas say, and what they start has right settings. The alerts for
//! Prometheus are on metrics that there are.

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

/// The names of metrics in a text, whole or the beginning of one.
fn metrics_of(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    words.filter(|word| word.starts_with("corelane_") && word.len() > "corelane_".len())
}

#[test]
fn the_alerts_are_on_metrics_that_there_are_and_the_page_has_each() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let read = |name: &str| fs::read_to_string(docs.join(name)).unwrap();
    let (rules, page, all) = (read("prometheus/corelane.rules.yml"), read("prometheus.md"), read("metrics.md"));
    let known: Vec<&str> = metrics_of(&all).collect();
    for name in metrics_of(&rules).chain(metrics_of(&page)).filter(|name| !name.ends_with('_')) {
        // A histogram stands in the table once, and has three names.
        let family = name.strip_suffix("_bucket").unwrap_or(name);
        assert!(known.contains(&family), "there is no metric {name}");
    }
    let alerts: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 3 && alerts.iter().all(|alert| page.contains(&format!("| `{alert}` | "))), "{alerts:?}");
    if let Ok(done) = Command::new("promtool").args(["check", "rules"]).arg(docs.join("prometheus/corelane.rules.yml")).output() {
        assert!(done.status.success(), "{done:?}");
    }
}
