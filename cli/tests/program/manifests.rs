//! Files and configurations of the book to be copied. The manifests for Kubernetes are what its schemas say, and what they start has right settings. The alerts for
//! Prometheus are on metrics that there are.

use crate::common::*;
use crate::tls::certified;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const MANIFESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/kubernetes/corelane.yaml");

/// What HTTPS changes in them.
const TLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/kubernetes/tls.yaml");

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

#[test]
fn their_settings_with_tls_are_right() {
    let test = "manifests::their_settings_with_tls_are_right";
    if !have(test, &["openssl"]) {
        return;
    }
    let folder = Scratch::new();
    let (certificate, key) = certified(&folder);
    let manifests = fs::read_to_string(TLS).unwrap();
    assert!(manifests.contains("mountPath: /etc/tls") && manifests.contains("containerPort: 8443"), "{manifests}");
    let settings = folder.path().join("corelane.toml");
    let written = file_of(&manifests, "corelane.toml").replace("/srv/www", folder.path().to_str().unwrap());
    fs::write(&settings, written.replace("/etc/tls/tls.crt", &certificate).replace("/etc/tls/tls.key", &key)).unwrap();
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

/// The blocks of a page that are set in as code, without their indentation.
fn blocks(page: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for line in page.lines() {
        match line.strip_prefix("    ") {
            Some(code) => *blocks.last_mut().expect("there is one always") += &format!("{code}\n"),
            None if line.is_empty() => *blocks.last_mut().expect("there is one always") += "\n",
            None => blocks.push(String::new()),
        }
    }
    blocks.into_iter().map(|block| block.trim_start().to_owned()).filter(|block| !block.is_empty()).collect()
}

/// The configurations of other programs that the book has, each beginning with one of these words.
fn configurations(begins: &[&str]) -> Vec<String> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let pages = ["behind-a-proxy.md", "several-machines.md"].map(|name| fs::read_to_string(docs.join(name)).unwrap());
    let blocks = pages.iter().flat_map(|page| blocks(page));
    blocks.filter(|block| begins.iter().any(|begin| block.starts_with(begin))).collect()
}

/// Whether a program can be started.
fn is_there(program: &str, asked: &str) -> bool {
    Command::new(program).arg(asked).output().is_ok_and(|done| done.status.success())
}

#[test]
fn configurations_of_haproxy_are_right() {
    let configurations = configurations(&["defaults\n"]);
    assert_eq!(configurations.len(), 3, "{configurations:?}");
    if !is_there("haproxy", "-v") {
        return skip("manifests::configurations_of_haproxy_are_right", "there is no haproxy");
    }
    let folder = Scratch::new();
    let file = folder.path().join("haproxy.cfg");
    for configuration in configurations {
        fs::write(&file, &configuration).unwrap();
        let done = output(Command::new("haproxy").args(["-c", "-f"]).arg(&file));
        assert!(done.status.success(), "{configuration}{done:?}");
    }
}

#[test]
fn configurations_of_nginx_are_right() {
    let test = "manifests::configurations_of_nginx_are_right";
    let configurations = configurations(&["stream {\n", "upstream "]);
    assert_eq!(configurations.len(), 3, "{configurations:?}");
    if !is_there("nginx", "-v") {
        return skip(test, "there is no nginx");
    }
    let module = "/usr/lib/nginx/modules/ngx_stream_module.so";
    let folder = Scratch::new();
    let (file, at) = (folder.path().join("nginx.conf"), folder.path().display());
    for configuration in configurations {
        let (load, body) = match configuration.starts_with("stream") {
            true if !Path::new(module).exists() => {
                skip(test, "nginx has no module for streams");
                continue;
            }
            true => (format!("load_module {module};"), configuration),
            false => (String::new(), format!("http {{ access_log off;\n{configuration}}}\n")),
        };
        // It binds what it is to listen at, which port 80 may forbid.
        let body = body.replace("listen 80;", &format!("listen unix:{at}/socket;"));
        fs::write(&file, format!("{load}\nerror_log stderr;\npid {at}/pid;\nevents {{}}\n{body}")).unwrap();
        let done = output(Command::new("nginx").args(["-t", "-p"]).arg(folder.path()).arg("-c").arg(&file));
        assert!(done.status.success(), "{body}{done:?}");
    }
}
