//! The root file system of a container: the program, the libraries that it loads, and nothing to log in with.

use super::parts::{Parts, said};
use super::staged::Staged;
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The user that nothing else belongs to.
const ACCOUNTS: &str = "root:x:0:0::/:\ncorelane:x:65532:65532::/:\n";
const GROUPS: &str = "root:x:0:\ncorelane:x:65532:\n";

/// Writes the file system as a tar file, the same for the same program.
pub fn package(parts: &Parts<'_>) -> Result<PathBuf> {
    let name = format!("corelane-{}-{}-rootfs", parts.version, parts.architecture);
    let tree = Staged::new(parts.into.join(&name))?;
    tree.copy(parts.program, "usr/bin/corelane", 0o755)?;
    for library in libraries(parts.program)? {
        tree.copy(Path::new(&library), library.trim_start_matches('/'), 0o755)?;
    }
    tree.write("etc/passwd", ACCOUNTS.as_bytes(), 0o644)?;
    tree.write("etc/group", GROUPS.as_bytes(), 0o644)?;
    for place in ["dev", "proc", "run", "sys"] {
        tree.folder(place, 0o755)?;
    }
    tree.folder("tmp", 0o1777)?;
    let file = parts.into.join(name + ".tar");
    let always = ["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "--format=posix"];
    let headers = "--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime";
    said(Command::new("tar").args(always).arg(headers).arg("-cf").arg(&file).arg("-C").arg(tree.path()).arg("."))?;
    Ok(file)
}

/// The files that the system loads with a program: each line of ldd(1) that names one.
fn libraries(program: &Path) -> Result<Vec<String>> {
    let lines = said(Command::new("ldd").arg(program))?;
    let missing: Vec<&str> = lines.lines().filter(|line| line.ends_with("not found")).collect();
    ensure!(missing.is_empty(), "libraries are missing here: {missing:?}");
    Ok(named(&lines))
}

fn named(lines: &str) -> Vec<String> {
    lines.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/'))).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_the_same_whenever_it_is_made() {
        let into = std::env::temp_dir().join(format!("corelane-image-{}", std::process::id()));
        let images = ["one", "two"].map(|name| {
            let into = into.join(name);
            let (version, architecture) = ("1".to_owned(), "any".to_owned());
            let parts = Parts { root: Path::new("/"), program: Path::new("/bin/true"), version, architecture, into: &into };
            std::fs::read(package(&parts).unwrap()).unwrap()
        });
        std::fs::remove_dir_all(&into).unwrap();
        assert!(images[0] == images[1], "{} bytes and {}", images[0].len(), images[1].len());
    }

    #[test]
    fn libraries_are_named_by_their_files() {
        let lines = "\tlinux-vdso.so.1 (0x00007ffe)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x7f)\n\t/lib64/ld-linux-x86-64.so.2 (0x7f)\n";
        assert_eq!(named(lines), ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]);
        assert_eq!(named("\tstatically linked\n"), [""; 0]);
    }
}
