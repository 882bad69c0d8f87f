//! Files asked for by clients that do more than one request in a way of their own: rclone, apt, git, a browser. Who serves them is told by the module around.

use super::{Server, measuring};
use corelane_testkit::{is_installed, skip};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// Seconds after which a client is said to hang.
const PATIENCE_S: &str = "180";

/// A directory of the test's own: `site` is served, the rest is the client's. It goes with the test.
struct Site(TempDir);

impl Site {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("site")).unwrap();
        fs::create_dir(folder.path().join("home")).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file, with the directories that it lies in.
    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), bytes).unwrap();
    }

    /// Serves it, and logs what is answered to `log`.
    fn serve(&self) -> Served {
        let log = self.path("log");
        Served { server: Server::start(&self.path("site"), &log), log }
    }

    /// Runs a client in a directory of its own, without the settings of whoever runs the test.
    fn output(&self, program: &str, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
        let mut command = Command::new("timeout");
        command.arg(PATIENCE_S).arg(program).args(arguments).current_dir(self.path("home"));
        let settings = [("HOME", "home"), ("XDG_CONFIG_HOME", "home"), ("GIT_CONFIG_GLOBAL", "none"), ("RCLONE_CONFIG", "none")];
        command.envs(settings.map(|(name, place)| (name, self.path(place))));
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("LC_ALL", "C").env("no_proxy", "127.0.0.1");
        command.output().unwrap()
    }

    /// What it says, when it succeeds.
    fn said(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.output(program, arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{program} {arguments:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }
}

struct Served {
    server: Server,
    log: PathBuf,
}

impl Served {
    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.server.address())
    }

    /// The statuses of what was answered for this path, in their order.
    fn statuses(&self, path: &str) -> Vec<u16> {
        self.server.write_log();
        let text = fs::read_to_string(&self.log).unwrap();
        let of = |line: &str| {
            let mut quoted = line.split('"').skip(1);
            let asked = quoted.next()?.split(' ').nth(1)?.split('?').next()?.to_owned();
            let status = quoted.next()?.split_whitespace().next()?.parse().ok()?;
            (asked == path).then_some(status)
        };
        text.lines().filter_map(of).collect()
    }

    fn end(self) {
        self.server.end();
    }
}

/// Whether these programs are there; if not the test is left out, by name.
fn are_here(test: &str, programs: &[(&str, &str)]) -> bool {
    let Some((program, package)) = programs.iter().find(|(program, _)| !is_installed(program)) else { return true };
    skip(test, &format!("there is no {program}: apt-get install -y {package}"));
    false
}

fn noise(bytes: u32) -> Vec<u8> {
    (0..bytes).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

#[test]
fn rclone_lists_copies_and_reads_parts() {
    if !are_here("rclone_lists_copies_and_reads_parts", &[("rclone", "rclone")]) {
        return;
    }
    let (site, large) = (Site::new(), noise(3_000_000));
    site.write("site/a file & more.txt", "0123456789");
    site.write("site/sub/deep/large.bin", &large);
    site.write("site/sub/empty", "");
    site.write("site/.hidden", "secret");
    let served = site.serve();
    let url = served.url("/");
    let rclone = |arguments: &[&str]| site.said("rclone", &[&["--http-url", &url, "--retries", "1"], arguments].concat());
    let mut listed: Vec<String> = rclone(&["ls", ":http:"]).lines().map(|line| line.trim().to_owned()).collect();
    listed.sort();
    assert_eq!(listed, ["0 sub/empty", "10 a file & more.txt", "3000000 sub/deep/large.bin"]);
    rclone(&["copy", ":http:", "got"]);
    let got = |name: &str| fs::read(site.path("home/got").join(name)).unwrap();
    assert!(got("sub/deep/large.bin") == large && got("a file & more.txt") == b"0123456789" && got("sub/empty").is_empty());
    assert_eq!(rclone(&["cat", "--offset", "3", "--count", "4", ":http:a file & more.txt"]), "3456");
    assert!(served.statuses("/a%20file%20&%20more.txt").contains(&206), "a part was asked for as one");
    let sent = served.statuses("/sub/deep/large.bin").len();
    rclone(&["copy", ":http:", "got"]);
    // By time and length: it asks for the head alone, and copies nothing.
    let heads = rclone(&["check", "--size-only", ":http:", "got"]);
    assert!(heads.is_empty() && served.statuses("/sub/deep/large.bin").len() > sent);
    served.end();
}

/// A package of this version with so much noise in it, in the repository that is served, and its entry in the index.
fn package(site: &Site, version: &str) -> String {
    let tree = format!("package-{version}");
    let control = format!(
        "Package: corelane-noise\nVersion: {version}\nArchitecture: all\nMaintainer: nobody <nobody@localhost>\nDescription: noise\n"
    );
    site.write(&format!("{tree}/DEBIAN/control"), &control);
    site.write(&format!("{tree}/usr/share/noise"), noise(2_000_000));
    let (name, tree) = (format!("corelane-noise_{version}_all.deb"), site.path(&tree));
    let file = site.path("site").join(&name);
    site.said("dpkg-deb", &["--root-owner-group", "-Znone", "-b", tree.to_str().unwrap(), file.to_str().unwrap()]);
    let length = fs::metadata(&file).unwrap().len();
    format!("{control}Filename: ./{name}\nSize: {length}\nSHA256: {}\n\n", sha256(site, &file))
}

fn sha256(site: &Site, file: &Path) -> String {
    site.said("sha256sum", &[file.to_str().unwrap()]).split_whitespace().next().unwrap().to_owned()
}

/// Writes the index, and what says what the index must be, as of a day: two of one second would be the same to who asks by time.
fn publish(site: &Site, index: &str, day: &str) {
    site.write("site/Packages", index);
    let hash = sha256(site, &site.path("site/Packages"));
    let date = site.said("date", &["-Ru"]);
    site.write("site/Release", format!("Suite: test\nDate: {date}SHA256:\n {hash} {} Packages\n", index.len()));
    for file in ["site/Packages", "site/Release"] {
        site.said("touch", &["-d", day, site.path(file).to_str().unwrap()]);
    }
}

/// Makes a place of its own for apt, with the repository as its only source; returns the settings that say so.
fn settled(site: &Site, served: &Served) -> [String; 9] {
    for folder in ["lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(site.path("home").join(folder)).unwrap();
    }
    site.write("home/status", "");
    site.write("home/sources.list", format!("deb [trusted=yes] {} ./\n", served.url("")));
    let home = site.path("home").display().to_string();
    [
        format!("Dir::Etc::sourcelist={home}/sources.list"),
        "Dir::Etc::sourceparts=-".to_owned(),
        "Dir::Etc::parts=-".to_owned(),
        format!("Dir::State={home}"),
        format!("Dir::State::lists={home}/lists"),
        format!("Dir::State::status={home}/status"),
        format!("Dir::Cache={home}/cache"),
        // It would give up what root may do, and the home with it.
        "APT::Sandbox::User=root".to_owned(),
        "Acquire::http::Proxy=DIRECT".to_owned(),
    ]
}

#[test]
fn apt_updates_and_downloads() {
    if !are_here("apt_updates_and_downloads", &[("apt-get", "apt"), ("dpkg-deb", "dpkg"), ("curl", "curl")]) {
        return;
    }
    let site = Site::new();
    let first = package(&site, "1.0");
    publish(&site, &first, "2020-01-01");
    let served = site.serve();
    let settings = settled(&site, &served);
    let apt = |arguments: &[&str]| {
        let settings = settings.iter().flat_map(|setting| ["-o", setting.as_str()]);
        site.said("apt-get", &settings.chain(arguments.iter().copied()).collect::<Vec<_>>())
    };
    let text = apt(&["update"]);
    assert!(text.contains("Get:") && !text.contains("Err:"), "{text}");
    apt(&["download", "corelane-noise=1.0"]);
    let got = |version: &str| {
        let name = format!("corelane-noise_{version}_all.deb");
        fs::read(site.path("home").join(&name)).unwrap() == fs::read(site.path("site").join(&name)).unwrap()
    };
    assert!(got("1.0"));
    let text = apt(&["update"]);
    assert!(text.contains("Hit:") && served.statuses("/./Release").contains(&304), "nothing has changed: {text}");
    let second = package(&site, "2.0");
    publish(&site, &(first + &second), "2020-01-02");
    // As a download that was broken off has left it.
    let half = &fs::read(site.path("site/corelane-noise_2.0_all.deb")).unwrap()[..1_000_000];
    site.write("home/cache/archives/partial/corelane-noise_2.0_all.deb", half);
    // It is as old as what it is a part of, by which apt knows it again.
    for file in ["site/corelane-noise_2.0_all.deb", "home/cache/archives/partial/corelane-noise_2.0_all.deb"] {
        site.said("touch", &["-d", "2020-01-02T03:04:05Z", site.path(file).to_str().unwrap()]);
    }
    // What was looked at less than a second ago may still be taken for what it was.
    let has_news = (0..1_000).any(|_| apt(&["update"]).contains("Get:"));
    assert!(has_news, "the new index is never seen");
    // The date of what has changed just now proves nothing, for a while: then the whole is sent.
    let url = served.url("/corelane-noise_2.0_all.deb");
    let of_old =
        ["-sS", "-o", "/dev/null", "-w", "%{http_code}", "-r", "0-0", "-H", "If-Range: Thu, 02 Jan 2020 03:04:05 GMT", &url];
    assert!((0..2_000).any(|_| site.said("curl", &of_old) == "206"), "its date is never believed");
    apt(&["install", "-y", "--download-only", "corelane-noise"]);
    let whole = fs::read(site.path("home/cache/archives/corelane-noise_2.0_all.deb")).unwrap();
    assert!(whole == fs::read(site.path("site/corelane-noise_2.0_all.deb")).unwrap());
    assert_eq!(served.statuses("/./corelane-noise_2.0_all.deb"), [206], "only the rest was sent");
    served.end();
}

#[test]
fn git_clones_and_fetches() {
    if !are_here("git_clones_and_fetches", &[("git", "git")]) {
        return;
    }
    let site = Site::new();
    let git =
        |arguments: &[&str]| site.said("git", &[&["-c", "user.name=n", "-c", "user.email=n@localhost"], arguments].concat());
    let (bare, work) = (site.path("site/it.git").display().to_string(), site.path("home/work").display().to_string());
    git(&["init", "-q", "-b", "main", "work"]);
    let commit = |name: &str, content: &[u8]| {
        site.write(&format!("home/work/{name}"), content);
        git(&["-C", &work, "add", "."]);
        git(&["-C", &work, "commit", "-q", "-m", name]);
        git(&["-C", &work, "push", "-q", "--tags", &bare, "main"]);
        git(&["-C", &bare, "update-server-info"]);
    };
    git(&["init", "-q", "--bare", "-b", "main", &bare]);
    (0..5).for_each(|number| commit(&format!("file-{number}"), &noise(10_000 + number)));
    // A pack, and objects that lie alone.
    git(&["-C", &bare, "repack", "-adq"]);
    commit("later", b"later\n");
    let served = site.serve();
    git(&["clone", "-q", &served.url("/it.git"), "got"]);
    let same = || git(&["-C", &work, "rev-parse", "main"]) == git(&["-C", "got", "rev-parse", "origin/main"]);
    assert!(same() && fs::read(site.path("home/got/file-4")).unwrap() == noise(10_004));
    git(&["-C", "got", "fsck", "--full", "--strict"]);
    assert_eq!(served.statuses("/it.git/HEAD"), [200]);
    commit("last", b"last\n");
    // What was looked at less than a second ago may still be taken for what it was.
    let has_news = (0..1_000).any(|_| {
        git(&["-C", "got", "fetch", "-q"]);
        same()
    });
    assert!(has_news, "the new commit is never seen");
    git(&["-C", "got", "fsck", "--full", "--strict"]);
    served.end();
}

/// A picture of 3 by 2 pixels.
const PICTURE: &[u8] = b"GIF87a\x03\0\x02\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\x03\0\x02\0\0\x02\x03\x84\x11\x05\0;";

/// A recording of so many seconds, of eight bits 8,000 times a second.
fn recording(seconds: u32) -> Vec<u8> {
    let (rate, bytes) = (8_000_u32, seconds * 8_000);
    let mut all = Vec::new();
    all.extend_from_slice(b"RIFF");
    all.extend_from_slice(&(36 + bytes).to_le_bytes());
    all.extend_from_slice(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    [rate, rate].iter().for_each(|rate| all.extend_from_slice(&rate.to_le_bytes()));
    all.extend_from_slice(b"\x01\0\x08\0data");
    all.extend_from_slice(&bytes.to_le_bytes());
    all.extend((0..bytes).map(|at| ((at / 20) % 2 * 64 + 96) as u8));
    all
}

const PAGE: &str = "<!doctype html><title>t</title><link rel=stylesheet href=look/style.css><p id=said>nothing</p>
<img src='look/picture.gif'><video src=recording.wav preload=metadata></video>
<iframe></iframe>
<script>
// A document that is written and not closed: the page is not loaded, and not printed, before that.
const pending = document.querySelector('iframe').contentDocument;
pending.open();
const video = document.querySelector('video'), picture = document.querySelector('img');
const seek = () => { video.currentTime = 1500 };
if (video.readyState > 0) seek(); else video.addEventListener('loadedmetadata', seek);
video.addEventListener('seeked', () => {
  const colour = getComputedStyle(document.body).color;
  document.getElementById('said').textContent =
    [colour, picture.naturalWidth, picture.naturalHeight, video.duration, video.currentTime].join(' ');
  pending.close();
});
</script>";

#[test]
fn a_browser_shows_a_page_with_all_that_it_needs() {
    if !are_here("a_browser_shows_a_page_with_all_that_it_needs", &[("chromium", "chromium")]) {
        return;
    }
    let site = Site::new();
    site.write("site/index.html", PAGE);
    site.write("site/look/style.css", "body { color: rgb(1, 2, 3) }");
    site.write("site/look/picture.gif", PICTURE);
    site.write("site/recording.wav", recording(2_000));
    site.write("site/look/a <b> & \"c\" ä.txt", "x");
    let served = site.serve();
    let shown = |path: &str| {
        let (profile, url) = (format!("--user-data-dir={}", site.path("profile").display()), served.url(path));
        let mut arguments = vec!["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom"];
        // What plays sounds would leave a folder behind.
        arguments.push("--disable-audio-output");
        arguments.extend(["--disable-background-networking", &profile, &url]);
        site.said("chromium", &arguments)
    };
    let page = shown("/");
    assert!(page.contains(">rgb(1, 2, 3) 3 2 2000 1500<"), "{page}");
    let parts = served.statuses("/recording.wav");
    assert!(parts.len() > 1 && parts.iter().all(|status| *status == 206), "{parts:?}");
    let listing = shown("/look/");
    assert!(listing.contains("<title>/look/</title>") && listing.contains(">a &lt;b&gt; &amp; \"c\" ä.txt</a>"), "{listing}");
    served.end();
}

#[test]
fn programs_that_measure_find_no_fault() {
    let site = Site::new();
    site.write("site/file", noise(4096));
    let served = site.serve();
    measuring::find_no_fault("programs_that_measure_find_no_fault", served.server.address(), "/file");
    served.end();
}
