//! What a guest is made of: taken out of Debian's packages once, and kept in `target/guest`. Nothing is installed, and the machine's own sources stay as
//! they are.
//!
//! A kernel that apt(8) does not know is looked for among Debian's backports: in lists of their own, from the archive that the machine's sources name.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::workspace::Workspace;

/// The packages that Debian makes of later versions' ones for its version 13.
const BACKPORTS: &str = "trixie-backports";
/// By whose keys they are signed.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// What is taken out of packages once, and kept.
pub struct Kept {
    pub kernel: PathBuf,
    pub modules: PathBuf,
    pub busybox: PathBuf,
}

impl Kept {
    /// Looks whether all is there, and takes it out of packages if not.
    ///
    /// # Errors
    /// What apt(8) and dpkg-deb(1) say.
    pub fn prepare(version: &str) -> Result<Self> {
        let root = Workspace::load()?.root.join("target/guest");
        if let Some(kept) = Self::find(&root, version) {
            return Ok(kept);
        }
        fs::create_dir_all(&root).with_context(|| root.display().to_string())?;
        let (apt, kernel) = kernel(version)?;
        for (apt, package) in [(&apt, kernel.as_str()), (&Apt::default(), "busybox-static")] {
            eprintln!("package {package}: taken out, not installed");
            said("apt-get", apt.command("apt-get").args(["download", "--quiet=2", package]).current_dir(&root))?;
        }
        for entry in fs::read_dir(&root)? {
            let path = entry?.path();
            if path.extension().is_some_and(|end| end == "deb") {
                said("dpkg-deb", Command::new("dpkg-deb").arg("-x").args([&path, &root]))?;
                fs::remove_file(&path)?;
            }
        }
        Self::find(&root, version).with_context(|| format!("{} lacks a kernel or busybox: remove that folder", root.display()))
    }

    fn find(root: &Path, version: &str) -> Option<Self> {
        let kernels = fs::read_dir(root.join("boot")).ok()?.filter_map(|entry| entry.ok().map(|entry| entry.path()));
        let begins = format!("/vmlinuz-{version}.");
        let kernel = kernels.into_iter().find(|path| path.to_string_lossy().contains(&begins))?;
        let release = kernel.file_name()?.to_str()?.strip_prefix("vmlinuz-")?.to_owned();
        // Debian 13 and later have all of it below /usr.
        let found =
            |path: &str| [root.to_owned(), root.join("usr")].map(|root| root.join(path)).into_iter().find(|path| path.exists());
        Some(Self { kernel, modules: found(&format!("lib/modules/{release}"))?, busybox: found("bin/busybox")? })
    }

    /// Whether a guest with such a kernel can be started without taking anything out of packages.
    #[cfg(test)]
    pub fn is_there(version: &str) -> bool {
        Workspace::load().is_ok_and(|workspace| Self::find(&workspace.root.join("target/guest"), version).is_some())
    }
}

/// A kernel's version, or how it begins: numbers with dots.
pub fn version(text: &str) -> Result<String> {
    let is_version = text.split('.').all(|part| part.parse::<u16>().is_ok());
    ensure!(is_version, "{text:?} is no version of a kernel: name one like 6.18");
    Ok(text.to_owned())
}

/// Debian's newest kernel of that version for guests: who knows it, and the name of its package.
fn kernel(version: &str) -> Result<(Apt, String)> {
    let machine = Apt::default();
    if let Some(name) = newest(&machine.kernels(version)?) {
        return Ok((machine, name));
    }
    let none = || {
        format!(
            "no package linux-image-{version}.*-cloud-amd64 is known, and none of {BACKPORTS} can be had: add a Debian that has it to apt's sources"
        )
    };
    let backports = Apt::of_backports().with_context(none)?;
    let name = newest(&backports.kernels(version)?).with_context(none)?;
    Ok((backports, name))
}

/// The newest of packages by its name.
fn newest(names: &str) -> Option<String> {
    let numbers = |name: &str| {
        let release = name.strip_suffix("-cloud-amd64")?;
        Some(release.split(|letter: char| !letter.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect::<Vec<u32>>())
    };
    names.lines().filter_map(|name| Some((numbers(name)?, name))).max().map(|(_, name)| name.to_owned())
}

/// apt(8), with the machine's sources, or with some of its own, which end with this.
#[derive(Default)]
struct Apt {
    own: Option<TempDir>,
}

impl Apt {
    /// One that knows Debian's backports alone.
    fn of_backports() -> Result<Self> {
        let targets = ["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Label: Debian"];
        let archives = said("apt-get", Command::new("apt-get").args(targets))?;
        let archive = archives
            .lines()
            .next()
            .context("apt's sources name no archive of Debian, or their lists are not there: apt-get update")?;
        let own = tempfile::tempdir()?;
        fs::create_dir(own.path().join("lists"))?;
        fs::write(own.path().join("sources.list"), source(archive))?;
        let apt = Self { own: Some(own) };
        said("apt-get", apt.command("apt-get").args(["update", "--quiet=2", "--error-on=any"]))?;
        Ok(apt)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        if let Some(own) = &self.own {
            let own = own.path().display();
            for option in [
                format!("Dir::Etc::SourceList={own}/sources.list"),
                "Dir::Etc::SourceParts=/dev/null".to_owned(),
                format!("Dir::State::Lists={own}/lists"),
                format!("Dir::Cache={own}"),
                // Nobody else gets into the folder.
                "APT::Sandbox::User=root".to_owned(),
            ] {
                command.args(["-o", &option]);
            }
        }
        command
    }

    /// The names of kernels that it knows, a line each.
    fn kernels(&self, version: &str) -> Result<String> {
        said("apt-cache", self.command("apt-cache").args(["pkgnames", &format!("linux-image-{version}.")]))
    }
}

/// The backports beside an archive's own packages, as a line of sources.list(5).
fn source(archive: &str) -> String {
    format!("deb [signed-by={KEYS}] {archive} {BACKPORTS} main\n")
}

/// What a program writes.
///
/// # Errors
/// What it says when it fails.
pub fn said(name: &str, command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| name.to_owned())?;
    ensure!(output.status.success(), "{name}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).with_context(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_kernel_is_the_one_with_the_highest_numbers() {
        let names = ["6.18.9+deb13", "6.18.15+deb13", "6.18.5+deb13"].map(|version| format!("linux-image-{version}-cloud-amd64"));
        let others =
            ["linux-image-6.18.20+deb13-amd64", "linux-image-6.18.21+deb13-cloud-amd64-dbg", "linux-image-6.18.22-cloud-arm64"];
        assert_eq!(newest(&format!("{}\n{}\n", others.join("\n"), names.join("\n"))).as_deref(), Some(names[1].as_str()));
        assert_eq!(newest(&others.join("\n")), None);
        assert_eq!(newest(""), None);
    }

    /// What is named by sources of one's own is known to that apt alone.
    #[test]
    fn sources_of_its_own_are_the_only_ones() {
        let own = tempfile::tempdir().unwrap();
        fs::write(own.path().join("sources.list"), source("https://debian.invalid/debian/")).unwrap();
        let apt = Apt { own: Some(own) };
        let asked = |apt: &Apt| {
            said(
                "apt-get",
                apt.command("apt-get").args(["indextargets", "--no-release-info", "--format", "$(URI)", "Created-By: Packages"]),
            )
        };
        let Ok(others) = asked(&Apt::default()) else {
            return corelane_os::testing::skip(
                "rig::kept::tests::sources_of_its_own_are_the_only_ones",
                "needs the program apt-get",
            );
        };
        let own = asked(&apt).unwrap();
        assert!(
            own.lines().count() > 0
                && own.lines().all(|line| line.starts_with("https://debian.invalid/debian/dists/trixie-backports/main/")),
            "{own}"
        );
        assert!(!others.contains("debian.invalid"));
    }

    #[test]
    fn versions_are_numbers() {
        assert!(version("6.18").is_ok() && version("6").is_ok());
        assert!(["", "6.", "6.18-cloud", "../6"].iter().all(|text| version(text).is_err()));
    }
}
