//! The programs that tests run, and where they come from on Debian.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::unistd::geteuid;

use super::process;
use crate::workspace::cargo;

/// Most seconds that installing may take.
pub const SECONDS: u64 = 90;

/// Program and the Debian package that holds it.
const PROGRAMS: &[(&str, &str)] = &[("ip", "iproute2"), ("nc", "netcat-openbsd"), ("python3", "python3"), ("socat", "socat")];

/// Parts of the Rust toolchain, by the cargo command that each brings.
const COMPONENTS: &[(&str, &str)] = &[("fmt", "rustfmt"), ("clippy", "clippy")];

/// Says what is missing and how to get it; installs the packages if asked to, or as root where `CI=true`.
///
/// What stays missing is no failure here: the tests that need it skip themselves by name.
pub fn prepare(install: bool) -> anyhow::Result<()> {
    let components: Vec<_> = COMPONENTS.iter().filter(|(command, _)| !answers(command)).collect();
    for (_, component) in components {
        println!("missing: {component}; get it with: rustup component add {component}");
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(&paths).collect();
    let packages = missing(PROGRAMS, |program| folders.iter().any(|f| is_file(f, program)));
    if packages.is_empty() {
        return Ok(());
    }
    if install || in_ci() { self::install(&packages) } else { advise(&packages) }
}

fn answers(command: &str) -> bool {
    let output = cargo().args([command, "--version"]).output();
    output.is_ok_and(|output| output.status.success())
}

fn is_file(folder: &Path, program: &str) -> bool {
    folder.join(program).is_file()
}

fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|ci| ci == "true") && geteuid().is_root()
}

/// The packages of the programs that are not there.
fn missing(programs: &[(&'static str, &'static str)], is_there: impl Fn(&str) -> bool) -> Vec<&'static str> {
    programs.iter().filter(|(program, _)| !is_there(program)).map(|(_, package)| *package).collect()
}

fn advise(packages: &[&str]) -> anyhow::Result<()> {
    println!("missing programs, their tests are skipped; get them with --install or:");
    println!("  apt-get update && apt-get install -y {}", packages.join(" "));
    Ok(())
}

fn install(packages: &[&str]) -> anyhow::Result<()> {
    let script = "apt-get update && apt-get install -y --no-install-recommends \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "install"]).args(packages);
    command.env("DEBIAN_FRONTEND", "noninteractive");
    let outcome = process::run(command, Duration::from_secs(SECONDS))?;
    if outcome.success {
        println!("installed: {}", packages.join(" "));
        return Ok(());
    }
    print!("{}", outcome.output);
    advise(packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_missing_programs_are_named() {
        assert_eq!(missing(PROGRAMS, |program| program != "nc"), ["netcat-openbsd"]);
        assert!(missing(PROGRAMS, |_| true).is_empty());
    }

    #[test]
    fn programs_are_files() {
        assert!(is_file(Path::new("/bin"), "sh"));
        assert!(!is_file(Path::new("/"), "bin"));
    }

    #[test]
    fn this_toolchain_answers() {
        assert!(answers("fmt"));
        assert!(!answers("no-such-command"));
    }
}
