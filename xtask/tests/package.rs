//! Packages and the book as a machine meets them: the Debian package is installed, upgraded and removed by dpkg itself on a copy of this system, and the
//! container's file system is run as it is.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use corelane_testkit::skip;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// The program as the other tests of the workspace have it built.
fn program() -> Option<PathBuf> {
    let program = Path::new(env!("CARGO_BIN_EXE_xtask")).with_file_name("corelane");
    program.is_file().then_some(program)
}

/// Both packages, made once; none where something is missing, and then the test is skipped by name.
fn packages(test: &str) -> Option<&'static (PathBuf, PathBuf)> {
    static MADE: OnceLock<Result<(PathBuf, PathBuf), &'static str>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        if !nix::unistd::geteuid().is_root() {
            return Err("only root may install, and change the root folder");
        }
        if ["dpkg-deb", "dpkg-shlibdeps", "strip"].iter().any(|tool| Command::new(tool).arg("--version").output().is_err()) {
            return Err("needs dpkg-dev and binutils");
        }
        let program = program().ok_or("the program is not built: cargo build -p corelane-cli")?;
        Ok(make(&program))
    });
    match made {
        Ok(made) => Some(made),
        Err(reason) => {
            skip(test, reason);
            None
        }
    }
}

fn make(program: &Path) -> (PathBuf, PathBuf) {
    let into = Path::new(env!("CARGO_TARGET_TMPDIR")).join("package");
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    // A package is the same however tightly it is packed (dpkg-deb(1), ENVIRONMENT), and this one is packed in a sixth of the time.
    command.env("DPKG_DEB_COMPRESSOR_LEVEL", "1");
    let output = command.args(["package", "--program"]).arg(program).arg("--into").arg(&into).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let mut files = lines.lines().map(PathBuf::from);
    (files.next().unwrap(), files.next().unwrap())
}

/// Runs a script in a mount namespace of its own, which is gone with it; returns what it printed.
fn apart(script: &str, arguments: &[&Path]) -> String {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-euc", script, "test"]).args(arguments);
    let output = command.output().unwrap();
    let (lines, words) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{lines}{words}");
    lines.into_owned()
}

/// A copy of this system that is changed at will: what is written goes to memory. The package is its /tmp/a.deb, the next version /tmp/b.deb.
const COPY: &str = r#"
mount -t tmpfs none "$2"
cd "$2"
mkdir upper work all next
dpkg-deb -R "$1" next
sed -i 's/^Version: .*/&+next/' next/DEBIAN/control
dpkg-deb -Zgzip -z1 --root-owner-group -b next b.deb >/dev/null
mount -t overlay none -o lowerdir=/,upperdir=upper,workdir=work all
mount -t proc none all/proc
mount -t tmpfs none all/tmp
mount -t tmpfs none all/run
cp "$1" all/tmp/a.deb
cp b.deb all/tmp/b.deb
# Its index of manual pages would be made anew three times.
rm -f all/var/lib/man-db/auto-update
export DEBIAN_FRONTEND=noninteractive
ours() { chroot all sh -c 'find /usr /etc /var/lib/dpkg/info -name "*corelane*" | sort'; }
"#;

/// What a script prints that changes such a copy.
fn on_a_copy(name: &str, script: &str, package: &Path) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    apart(&[COPY, script].concat(), &[package, &folder])
}

#[test]
fn a_debian_package_is_installed_upgraded_and_removed() {
    let Some((package, _)) = packages("a_debian_package_is_installed_upgraded_and_removed") else { return };
    let script = r#"
before=$(ours)
chroot all dpkg --force-unsafe-io -i /tmp/a.deb >/dev/null
chroot all corelane --version
chroot all sh -c 'for page in corelane corelane-serve; do zcat /usr/share/man/man1/$page.1.gz | grep -c "^.SH OPTIONS"; done'
chroot all sh -c 'ldd /usr/bin/corelane | grep -c "not found" || true'
chroot all dpkg --force-unsafe-io -i /tmp/b.deb >/dev/null
chroot all dpkg-query -W -f '${db:Status-Status} ${Version}\n' corelane
chroot all dpkg --force-unsafe-io -r corelane >/dev/null
chroot all dpkg --force-unsafe-io -P corelane >/dev/null
[ "$before" = "$(ours)" ] || { ours; exit 1; }
"#;
    let version = env!("CARGO_PKG_VERSION");
    let lines = on_a_copy("installed", script, package);
    let expected = ["corelane ", version, "\n1\n1\n0\ninstalled ", version, "+next\n"].concat();
    assert_eq!(lines, expected);
}

#[test]
fn lintian_finds_nothing_wrong_with_the_package() {
    let test = "lintian_finds_nothing_wrong_with_the_package";
    let Some((package, _)) = packages(test) else { return };
    if Command::new("lintian").arg("--version").output().is_err() {
        return skip(test, "lintian is not installed");
    }
    // It leaves files behind where temporary ones are.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lintian");
    std::fs::create_dir_all(&folder).unwrap();
    let mut command = Command::new("lintian");
    command.args(["--allow-root", "--fail-on", "error,warning"]).arg(package).env("TMPDIR", &folder);
    let said = command.output();
    std::fs::remove_dir_all(folder).unwrap();
    let said = said.unwrap();
    assert!(said.status.success(), "{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
}

#[test]
fn the_unit_is_one_that_systemd_takes() {
    let test = "the_unit_is_one_that_systemd_takes";
    let Some((package, _)) = packages(test) else { return };
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return skip(test, "systemd-analyze is not installed");
    }
    let script = r#"
chroot all dpkg --force-unsafe-io -i /tmp/a.deb >/dev/null
chroot all systemd-analyze verify /usr/lib/systemd/system/corelane.service 2>&1
"#;
    let lines = on_a_copy("unit", script, package);
    let ours: Vec<&str> = lines.lines().filter(|line| line.contains("corelane")).collect();
    assert!(ours.is_empty(), "{ours:?}");
}

/// The server of a container: its root folder is the image's, and so are its processes.
struct Contained(Child);

impl Contained {
    fn start(root: &Path) -> Self {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc=/proc"]);
        command.arg(format!("--root={}", root.display()));
        command.args(["/usr/bin/corelane", "serve", "--lanes", "1", "echo=tcp://127.0.0.1:0"]);
        Self(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Reads on until it is ready; returns where it serves.
    fn address(&mut self) -> String {
        let mut address = None;
        let mut lines = String::new();
        for line in BufReader::new(self.0.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            address = address.or_else(|| line.strip_prefix("echo tcp://").map(str::to_owned));
            if line == "ready" {
                return address.expect("it says where it serves before it is ready");
            }
            lines.push_str(&line);
        }
        self.0.stderr.take().unwrap().read_to_string(&mut lines).unwrap();
        panic!("it ended before it was ready: {lines}");
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        // What is in it ends with it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_container_serves_and_has_no_shell() {
    let Some((_, image)) = packages("a_container_serves_and_has_no_shell") else { return };
    let root = tempfile(image);
    let files = Command::new("tar").arg("-xf").arg(image).arg("-C").arg(&root).output().unwrap();
    assert!(files.status.success(), "{}", String::from_utf8_lossy(&files.stderr));
    let programs: Vec<_> = std::fs::read_dir(root.join("usr/bin")).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(programs, ["corelane"]);
    assert!(!root.join("bin").exists());
    let mut server = Contained::start(&root);
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(b"hello").unwrap();
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"hello");
}

#[test]
fn the_book_is_built_and_its_links_lead_to_what_is_in_it() {
    let test = "the_book_is_built_and_its_links_lead_to_what_is_in_it";
    if Command::new("mdbook").arg("--version").output().is_err() {
        return skip(test, "mdbook is not installed");
    }
    let book = Path::new(env!("CARGO_TARGET_TMPDIR")).join("book");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let output = Command::new("mdbook").args(["build", "-d"]).arg(&book).arg(root).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("WARN"), "{said}");
    let mut links = 0;
    // That nothing is at an address is said by a page whose links begin at the root of a site.
    let pages = std::fs::read_dir(&book).unwrap().map(|entry| entry.unwrap().path());
    for page in pages.filter(|page| page.extension().is_some_and(|end| end == "html") && !page.ends_with("404.html")) {
        let text = std::fs::read_to_string(&page).unwrap();
        let targets =
            text.split("href=\"").skip(1).chain(text.split("src=\"").skip(1)).filter_map(|rest| rest.split(['"', '#']).next());
        for target in targets.filter(|target| target.ends_with(".html") || target.ends_with(".svg")) {
            assert!(target.contains("://") || book.join(target).is_file(), "{} links to {target}", page.display());
            links += 1;
        }
    }
    assert!(links > 500, "{links} links");
    std::fs::remove_dir_all(book).unwrap();
}

/// A new folder beside a file.
fn tempfile(beside: &Path) -> PathBuf {
    let folder = beside.with_file_name("root");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
