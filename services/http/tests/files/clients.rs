//! Other people's clients, on real lanes.

pub use super::fetching::{curl, large, run};

use super::fetching;
use corelane::Lanes;
use corelane::admin::watch::Reader;
use corelane::lanes::{DriverChoice, Running};
use corelane_http::{Files, Http};
use std::path::{Path, PathBuf};
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

fn status(running: &Running, path: &str) -> String {
    let code = curl(&["-o", "/dev/null", "-w", "%{http_code}", "--path-as-is", &url(running, path)]);
    String::from_utf8(code).unwrap()
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
        fetching::curl_gets_whole_files_and_parts(&site.0.path().join("site"), |path| url(running, path))
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
        fetching::wget_goes_on_where_it_stopped(&site.0.path().join("site"), &site.got(), |path| url(running, path));
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
