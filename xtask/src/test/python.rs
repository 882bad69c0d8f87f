//! The Python environment of tests whose other side is a Python library, and where its libraries come from (the Python
//! package index, by pip).

use std::path::Path;
use std::process::Command;

use anyhow::{Context, anyhow};

use super::lacking::{installed, missing};
use super::process;
use super::share::Share;

/// Folder of the environment in the target folder, where tests look for it.
const ENVIRONMENT: &str = "python";

/// Module and the package that holds it, with its version.
const LIBRARIES: &[(&str, &str)] = &[
    ("gunicorn", "gunicorn==27.0.1"),
    ("hdrh", "hdrhistogram==0.10.8"),
    ("kubernetes_validate", "kubernetes-validate==1.37.0"),
    ("pyvisa_py", "pyvisa-py==0.8.1"),
    ("scapy", "scapy==2.8.0"),
    ("uvicorn", "uvicorn==0.54.0"),
    ("websockets", "websockets==17.4"),
];

/// Says which libraries are missing and how to get them, or installs them within `share`.
///
/// Returns what was to be installed and is not there afterwards. Where nothing was to be installed, what is missing is no
/// failure: the tests that need it skip themselves by name.
pub fn prepare(install: bool, target: &Path, share: &Share) -> anyhow::Result<Vec<&'static str>> {
    let environment = target.join(ENVIRONMENT);
    let interpreter = environment.join("bin/python");
    let absent = || missing(LIBRARIES, |module| imports(&interpreter, module));
    // The environment is made anew, so all of them are wanted where one is.
    let all = missing(LIBRARIES, |_| false);
    if install {
        return installed(absent, |_| self::install(&environment, &all, share));
    }
    if !absent().is_empty() {
        advise(&environment, &all);
    }
    Ok(Vec::new())
}

/// Where test programs look for programs: the environment's come first. Its interpreter is the one that made it, and no script that looks for it at each start.
///
/// # Errors
/// A path that no list of paths can hold.
pub fn path_with(target: &Path) -> anyhow::Result<String> {
    let others = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(target.join(ENVIRONMENT).join("bin")).chain(std::env::split_paths(&others));
    let path = std::env::join_paths(all).context("a folder of PATH, or the target folder")?;
    path.into_string().map_err(|path| anyhow!("PATH is not UTF-8: {}", path.display()))
}

/// Whether `interpreter` is there and has `module`.
pub fn imports(interpreter: &Path, module: &str) -> bool {
    let output = Command::new(interpreter).args(["-c", &format!("import {module}")]).output();
    output.is_ok_and(|output| output.status.success())
}

fn advise(environment: &Path, libraries: &[&str]) {
    let environment = environment.display();
    println!("missing Python libraries, their tests are skipped; get them with --install or:");
    println!("  python3 -m venv {environment} && {environment}/bin/pip install {}", libraries.join(" "));
}

fn install(environment: &Path, libraries: &[&str], share: &Share) -> anyhow::Result<()> {
    // What is imported is compiled then, and kept: beforehand all of it would be, most of which nobody asks for.
    let script = "python3 -m venv --clear \"$0\" && \"$0\"/bin/pip install --disable-pip-version-check --no-compile \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(environment).args(libraries);
    let outcome = process::run(command, share)?;
    if outcome.success {
        println!("installed: {}", libraries.join(" "));
    } else {
        print!("{}", outcome.output);
        advise(environment, libraries);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_that_is_not_there_has_no_module() {
        assert!(!imports(Path::new("/no/such/python"), "sys"));
        assert!(imports(Path::new("true"), "sys"), "the exit code decides");
        assert!(!imports(Path::new("false"), "sys"));
    }

    #[test]
    fn the_environment_comes_first() {
        let path = path_with(Path::new("/t")).unwrap();
        assert_eq!(path.split(':').next(), Some("/t/python/bin"));
        assert!(path.ends_with(&std::env::var("PATH").unwrap()));
    }

    #[test]
    fn an_installation_that_fails_says_what_is_missing() {
        let target = std::env::temp_dir().join(format!("corelane-python-{}", std::process::id()));
        std::fs::write(&target, "a file where the folder is to be").unwrap();
        assert_eq!(prepare(true, &target, &Share::new(60)).unwrap(), missing(LIBRARIES, |_| false));
        assert!(prepare(false, &target, &Share::new(60)).unwrap().is_empty(), "nothing was to be installed");
        assert!(!imports(&target.join(ENVIRONMENT).join("bin/python"), LIBRARIES[0].0));
        std::fs::remove_file(target).unwrap();
    }
}
