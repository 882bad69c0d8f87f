//! What porters meet: headers under every standard, what install.sh puts where, `gcc -static`, memory that is refused, what a change costs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use corelane_os::testing::skip;

use super::{Built, output, shared, system_calls};

/// A folder into which the library is installed, removed at its end.
struct Installed(PathBuf);

impl Installed {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
        let script = here().join("install.sh");
        output(Command::new("sh").arg(script).arg("--libkqueue").arg(&folder).arg(shared::archive()));
        Self(folder)
    }

    /// What pkg-config says of a package, with these arguments.
    fn said(&self, arguments: &[&str]) -> Vec<String> {
        let said = output(Command::new("pkg-config").args(arguments).env("PKG_CONFIG_PATH", self.0.join("lib/pkgconfig")));
        said.split_whitespace().map(str::to_owned).collect()
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        // reason: what is left of a folder of builds is no failure of a test
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_program_is_built_as_pkg_config_says_on_what_is_installed() {
    if Command::new("pkg-config").arg("--version").output().is_err() {
        return skip("a_program_is_built_as_pkg_config_says_on_what_is_installed", "pkg-config is not installed");
    }
    let installed = Installed::new("installed");
    let lib = installed.0.join("lib");
    for (package, source) in [("corelane_kqueue", "usual.c"), ("corelane_kevent", "kevent.c")] {
        for (how, linked) in [(&[][..], &[][..]), (&["--static"], &["-static"])] {
            let said = installed.said(&[&["--cflags", "--libs", package], how].concat());
            let program = installed.0.join(package);
            let source = here().join("tests/programs").join(source);
            output(Command::new("cc").args(linked).arg(source).arg("-o").arg(&program).args(said));
            // The end of an origin is told at once where closes are.
            let is_static = !linked.is_empty();
            output(Command::new(&program).args(is_static.then_some("static")).env("LD_LIBRARY_PATH", &lib));
        }
    }
    let program = installed.0.join("libkqueue");
    let source = here().join("tests/programs/libkqueue.c");
    output(Command::new("cc").arg(source).arg("-o").arg(&program).arg(lib.join("libkqueue.so.0")));
    assert!(Command::new(&program).env("LD_LIBRARY_PATH", &lib).status().unwrap().success());
    for library in ["libcorelane_kqueue.so.1", "libkqueue.so.0", "libcorelane_kqueue.a"] {
        let sections = output(Command::new("readelf").arg("-SW").arg(lib.join(library)));
        assert!(!sections.contains(".debug_info"), "{library} is not stripped");
    }
}

#[test]
fn headers_are_free_of_warnings_under_every_standard() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-headers", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let standards = [("c", &["c99", "c11", "c17", "c2x", "gnu99"][..]), ("c++", &["c++98", "c++11", "c++17", "c++23"])];
    for header in ["sys/event.h", "corelane/aio.h", "corelane/kevent.h"] {
        let source = folder.join("source");
        std::fs::write(&source, format!("#include <{header}>\nint main(void) {{ return 0; }}\n")).unwrap();
        for (language, standards) in standards {
            for standard in standards {
                let mut cc = Command::new("cc");
                cc.args([
                    "-x",
                    language,
                    &format!("-std={standard}"),
                    "-pedantic",
                    "-Wall",
                    "-Wextra",
                    "-Werror",
                    "-fsyntax-only",
                ]);
                output(cc.arg("-I").arg(here().join("include")).arg(&source));
            }
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn memory_that_is_refused_is_an_error_and_not_the_end_of_the_program() {
    for shared in [false, true] {
        let status = Built::new("tests/programs/refused.c", "c", shared).command().status().unwrap();
        assert!(status.success(), "shared: {shared}, line {status}");
    }
}

#[test]
fn to_wait_for_room_and_no_more_costs_a_change_of_the_set_each() {
    for shared in [true, false] {
        let built = Built::new("tests/programs/toggle.c", "c", shared);
        let counted = |rounds: u32| system_calls(&built, &[rounds]);
        let (Some(few), Some(many)) = (counted(100), counted(300)) else {
            return skip("to_wait_for_room_and_no_more_costs_a_change_of_the_set_each", "strace is not installed");
        };
        // Two changes, the wait, and how much room there is; to find a close that was not told takes one more for the event.
        assert_eq!((many - few, shared), (200 * if shared { 4 } else { 5 }, shared));
    }
}

#[test]
fn threadsanitizer_says_nothing_of_the_library_where_it_is_told_so() {
    const NAME: &str = "threadsanitizer_says_nothing_of_the_library_where_it_is_told_so";
    const SANITIZED: &str = "-fsanitize=thread";
    let mut cc = Command::new("cc");
    let links = cc.args([SANITIZED, "-x", "c", "-", "-o", "/dev/null"]).stdin(Stdio::piped()).stderr(Stdio::null()).spawn();
    let links = links.and_then(|mut cc| {
        std::io::Write::write_all(&mut cc.stdin.take().unwrap(), b"int main(void) { return 0; }\n")?;
        cc.wait()
    });
    if !links.is_ok_and(|status| status.success()) {
        return skip(NAME, "libtsan is not installed");
    }
    let installed = Installed::new("sanitized");
    let lib = installed.0.join("lib");
    let options = format!("suppressions={}", installed.0.join("share/corelane/tsan.supp").display());
    for library in ["libcorelane_kqueue.so.1", "libcorelane_kqueue.a"] {
        let program = installed.0.join("program");
        let source = here().join("tests/programs/sanitized.c");
        let mut cc = Command::new("cc");
        output(
            cc.arg(SANITIZED).arg("-I").arg(here().join("include")).arg(source).arg(lib.join(library)).arg("-o").arg(&program),
        );
        // The sanitizer wants its memory where addresses that were drawn by chance may lie.
        let mut run = Command::new("setarch");
        let ran = run.arg("-R").arg(&program).env("TSAN_OPTIONS", &options).env("LD_LIBRARY_PATH", &lib).output().unwrap();
        assert!(ran.status.success(), "{library}: {}", String::from_utf8_lossy(&ran.stderr));
    }
}
