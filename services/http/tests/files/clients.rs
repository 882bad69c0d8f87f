//! Other people's clients, on real lanes.

use corelane::Lanes;
use corelane::admin::watch::Reader;
use corelane::lanes::{DriverChoice, Running};
use corelane_http::{Files, Http};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A directory of the test's own, which goes with it.
pub struct Site(pub TempDir);

impl Site {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("site/sub")).unwrap();
        std::fs::create_dir(folder.path().join("got")).unwrap();
        Self(folder)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.0.path().join("site").join(name), bytes).unwrap();
    }

    fn serve(&self, driver: DriverChoice) -> Running {
        let root = self.0.path().join("site");
        let files = move |_lane| Http::new(Files::new(&root).listing(true));
        Lanes::per_core().lanes(1).driver(driver).serve("tcp://127.0.0.1:0", files).unwrap().start().unwrap()
    }

    fn got(&self) -> PathBuf {
        self.0.path().join("got")
    }
}

pub fn url(running: &Running, path: &str) -> String {
    format!("http://{}{path}", running.address())
}

fn run(program: &str, at: &Path, arguments: &[&str]) -> Output {
    Command::new(program).current_dir(at).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"))
}

pub fn curl(arguments: &[&str]) -> Vec<u8> {
    let output = run("curl", Path::new("/"), &[&["-sS", "--max-time", "60"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn status(running: &Running, path: &str) -> String {
    let code = curl(&["-o", "/dev/null", "-w", "%{http_code}", "--path-as-is", &url(running, path)]);
    String::from_utf8(code).unwrap()
}

pub fn large() -> Vec<u8> {
    (0..5_000_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

pub fn on_each_driver(body: impl Fn(&Site, &Running)) {
    for driver in [DriverChoice::Epoll, DriverChoice::Uring] {
        let site = Site::new();
        let running = site.serve(driver);
        body(&site, &running);
        running.drain();
        running.wait().unwrap();
    }
}

#[test]
fn curl_gets_whole_files_and_parts() {
    on_each_driver(|site, running| {
        let large = large();
        site.write("a.txt", "0123456789");
        site.write("large.bin", &large);
        for _ in 0..2 {
            assert_eq!(curl(&[&url(running, "/a.txt")]), b"0123456789");
            assert_eq!(curl(&["-r", "2-4", &url(running, "/a.txt")]), b"234");
            assert!(curl(&[&url(running, "/large.bin")]) == large);
            assert!(curl(&["-r", "-3000000", &url(running, "/large.bin")]) == large[2_000_000..]);
        }
        let parts = curl(&["-r", "0-1,1000000-1000001", &url(running, "/large.bin")]);
        let has = |part: &[u8]| parts.windows(part.len()).any(|window| window == part);
        assert!(has(&large[..2]) && has(&large[1_000_000..1_000_002]) && has(b"Content-Range: bytes 1000000-1000001/5000000"));
        assert!(String::from_utf8(curl(&[&url(running, "/sub/")])).unwrap().contains("<title>/sub/</title>"));
        assert!(curl(&["-L", &url(running, "/sub")]).starts_with(b"<!doctype"));
    });
}

/// How often the service has counted something.
fn named(running: &Running, name: &str) -> u64 {
    let snapshot = Reader::of(running.counters()).unwrap().snapshot(0);
    snapshot.services[0].values.all().find(|value| value.name == name).unwrap().value
}

/// Beside the program, where there is a disk: what lies in memory has no other place to go to.
#[test]
fn what_was_evicted_is_read_by_a_helper_before_it_is_sent() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cold-{}", std::process::id()));
    std::fs::create_dir_all(&root).unwrap();
    let (large, path) = (large(), root.join("large.bin"));
    std::fs::write(&path, &large).unwrap();
    for driver in [DriverChoice::Epoll, DriverChoice::Uring] {
        let files = root.clone();
        let lanes = Lanes::per_core().lanes(1).driver(driver);
        let running = lanes.serve("tcp://127.0.0.1:0", move |_lane| Http::new(Files::new(&files))).unwrap().start().unwrap();
        let cold = |running: &Running| (curl(&[&url(running, "/large.bin")]) == large).then(|| named(running, "files_cold"));
        let before = cold(&running).unwrap();
        std::fs::File::open(&path).unwrap().sync_all().unwrap();
        // dd(1) with this flag and nothing to read drops the file from the page cache.
        let evicted = run("dd", &root, &["if=large.bin", "iflag=nocache", "count=0"]);
        assert!(evicted.status.success());
        let after = cold(&running).unwrap();
        assert!(after > before, "{} was not evicted: is it on a disk?", path.display());
        running.drain();
        running.wait().unwrap();
    }
    std::fs::remove_dir_all(&root).unwrap();
}

#[test]
fn curl_keeps_what_has_not_changed() {
    on_each_driver(|site, running| {
        site.write("a.txt", "first");
        let (at, tag) = (site.got().join("a.txt"), site.got().join("tag"));
        let [at, tag] = [&at, &tag].map(|path| path.to_str().unwrap());
        let get = || {
            let arguments = ["--etag-compare", tag, "--etag-save", tag, "-o", at, "-w", "%{http_code}", &url(running, "/a.txt")];
            String::from_utf8(curl(&arguments)).unwrap()
        };
        assert_eq!((get().as_str(), get().as_str()), ("200", "304"));
        assert_eq!(std::fs::read(at).unwrap(), b"first");
    });
}

#[test]
fn curl_takes_compressed_files() {
    on_each_driver(|site, running| {
        let text = "many words ".repeat(1_000);
        site.write("a.txt", &text);
        let made = run("gzip", &site.0.path().join("site"), &["-k", "a.txt"]);
        assert!(made.status.success());
        let heads = ["--compressed", "-o", "/dev/null", "-w", "%{size_download}", &url(running, "/a.txt")];
        let bytes: usize = String::from_utf8(curl(&heads)).unwrap().parse().unwrap();
        assert!(bytes < text.len() / 10, "{bytes} bytes came");
        assert_eq!(curl(&["--compressed", &url(running, "/a.txt")]), text.as_bytes());
    });
}

#[test]
fn wget_goes_on_where_it_stopped() {
    on_each_driver(|site, running| {
        let large = large();
        site.write("large.bin", &large);
        std::fs::write(site.got().join("large.bin"), &large[..1_234_567]).unwrap();
        let output = run("wget", &site.got(), &["-c", "-nv", &url(running, "/large.bin")]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(std::fs::read(site.got().join("large.bin")).unwrap() == large);
    });
}

#[test]
fn what_is_no_file_is_refused() {
    on_each_driver(|site, running| {
        let root = site.0.path().join("site");
        site.write("closed", "secret");
        site.write(".hidden", "secret");
        site.write("name\\with", "backslash");
        assert!(run("mkfifo", &root, &["pipe"]).status.success());
        for (to, name) in [("/etc/passwd", "absolute"), ("../../..", "up"), ("/dev/zero", "device"), ("circle", "circle")] {
            std::os::unix::fs::symlink(to, root.join(name)).unwrap();
        }
        std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
        let expected = [
            ("/pipe", "403"),
            ("/socket", "403"),
            ("/absolute", "404"),
            ("/up/etc/passwd", "404"),
            ("/device", "404"),
            ("/circle", "404"),
            ("/.hidden", "404"),
            ("/name%5Cwith", "200"),
            ("/../../etc/passwd", "400"),
            ("/%2e%2e/%2e%2e/etc/passwd", "400"),
            ("/sub/%2e%2e/closed", "200"),
            ("/%c0%ae%c0%ae/a", "404"),
        ];
        for (path, code) in expected {
            assert_eq!(status(running, path), code, "{path}");
        }
        assert_eq!(status(running, &format!("/{}", "a".repeat(256))), "404");
        assert_eq!(status(running, &"/a".repeat(1_990)), "404");
        assert_eq!(status(running, &"/a".repeat(2_047)), "414");
    });
}
