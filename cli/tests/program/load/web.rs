//! HTTP: what a run counts is what servers of others have logged.

use super::hosts::{Host, answering};
use super::others::Other;
use super::*;
use corelane_testkit::free;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// A folder to be served, with contents of known lengths, and a server's files.
pub struct Site {
    pub folder: Scratch,
    pub address: SocketAddr,
}

/// XXH64 of the 4,000 bytes of `page`, by the program `xxh64sum`.
const PAGE_HASH: &str = "9a9485b89563d294";
const PAGE_BYTES: u64 = 4_000;

impl Site {
    pub fn new() -> Self {
        use std::os::unix::fs::PermissionsExt;
        let site = Self { folder: Scratch::new(), address: free() };
        // The server's workers may be of another user.
        fs::set_permissions(site.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir_all(site.path("www/folder")).unwrap();
        let page: Vec<u8> = (0..PAGE_BYTES).map(|at| b'a' + (at % 23) as u8).collect();
        fs::write(site.path("www/page"), page).unwrap();
        fs::write(site.path("www/other"), "another page\n").unwrap();
        fs::write(site.path("www/folder/index.html"), "in the folder\n").unwrap();
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn nginx(&self) -> Other {
        self.nginx_with("")
    }

    /// With these lines more in its server.
    pub fn nginx_with(&self, more: &str) -> Other {
        let folder = self.folder.path().display();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {folder}/{name};"))
            .concat();
        let text = format!(
            "daemon off; user root; worker_processes 1; pid {folder}/pid; error_log {folder}/errors;
             events {{ worker_connections 1000; }}
             http {{
                 access_log {folder}/log; {temporary} keepalive_requests 50; gzip on; gzip_types *; gzip_min_length 1;
                 server {{
                     listen {}; listen unix:{folder}/socket; root {folder}/www;
                     {more}
                     location /nothing {{ return 204; }}
                     location /broken {{ return 500; }}
                 }}
             }}",
            self.address
        );
        let file = self.path("nginx.conf");
        fs::write(&file, text).unwrap();
        Other::listening(&["nginx", "-c", file.to_str().unwrap()], self.address)
    }

    fn lighttpd(&self) -> Other {
        let folder = self.folder.path().display();
        let text = format!(
            "server.modules = (\"mod_accesslog\")
             server.document-root = \"{folder}/www\"
             server.bind = \"127.0.0.1\"
             server.port = {}
             server.errorlog = \"{folder}/errors\"
             server.max-keep-alive-requests = 50
             index-file.names = (\"index.html\")
             accesslog.filename = \"|cat >>{folder}/log\"",
            self.address.port()
        );
        let file = self.path("lighttpd.conf");
        fs::write(&file, text).unwrap();
        Other::listening(&["lighttpd", "-D", "-f", file.to_str().unwrap()], self.address)
    }

    /// Waits until the server has logged so many requests that have these words.
    pub fn logs(&self, words: &str, count: u64) {
        let log = self.path("log");
        let logged =
            |log: &Path| fs::read_to_string(log).unwrap_or_default().lines().filter(|line| line.contains(words)).count() as u64;
        until(&format!("{count} lines with {words:?} in the log, not {}", logged(&log)), || logged(&log) >= count);
        assert_eq!(logged(&log), count, "{words}");
    }
}

/// Every way to make requests, against a server that ends each connection after some; none is lost, none is made twice.
fn serves_a_page(site: &Site) {
    let (url, expect) = (site.url("/page"), format!("{PAGE_BYTES}:{PAGE_HASH}"));
    let mut all = 0;
    for (more, requests) in [
        (&["-n", "400"][..], 400),
        (&["-n", "403", "-c", "5", "-d", "8"], 403),
        (&["-n", "200", "-c", "4", "-r", "2000"], 200),
        (&["-n", "120", "-c", "4", "--requests-per-connection", "1"], 120),
        (&["-n", "120", "-c", "4", "-d", "3", "--requests-per-connection", "7"], 120),
        (&["-n", "60", "--connection-rate", "300"], 60),
        (&["-n", "20", "--connection-rate", "300", "--requests-per-connection", "70"], 1_400),
    ] {
        let run = load(&[&["http", &url, "--expect", &expect], more].concat());
        run.met(&[]).doubted(&[]);
        let report = &run.report;
        assert_eq!((report.requests, report.counted["status_2xx"], report.sent), (requests, requests, requests), "{more:?}");
        assert_eq!(report.counted["content_bytes"], requests * PAGE_BYTES, "{more:?}");
        all += requests;
        site.logs("/page", all);
    }
}

#[test]
fn nginx_logs_as_many_requests() {
    if !have("load::web::nginx_logs_as_many_requests", &["nginx"]) {
        return;
    }
    let site = Site::new();
    let _nginx = site.nginx();
    serves_a_page(&site);
}

#[test]
fn lighttpd_logs_as_many_requests() {
    if !have("load::web::lighttpd_logs_as_many_requests", &["lighttpd"]) {
        return;
    }
    let site = Site::new();
    let _lighttpd = site.lighttpd();
    serves_a_page(&site);
}

#[test]
fn what_nginx_answers_is_counted_by_its_status() {
    if !have("load::web::what_nginx_answers_is_counted_by_its_status", &["nginx"]) {
        return;
    }
    let site = Site::new();
    let _nginx = site.nginx();
    let count = |path: &str, more: &[&str]| load(&[&["http", &site.url(path), "-n", "60", "-c", "2", "-d", "2"], more].concat());
    let redirect = count("/folder", &[]);
    redirect.met(&[]).doubted(&[]);
    assert_eq!((redirect.report.counted["redirects"], redirect.report.counted["status_3xx"]), (60, 60));
    let head = count("/page", &["--method", "HEAD"]);
    head.met(&[]).doubted(&[]);
    assert_eq!((head.report.counted["content_bytes"], head.report.counted["status_2xx"]), (0, 60));
    site.logs("HEAD /page HTTP/1.1\" 200", 60);
    let chunked = count("/page", &["--header", "Accept-Encoding: gzip"]);
    chunked.met(&[]).doubted(&[]);
    let packed = chunked.report.counted["content_bytes"];
    assert!(packed > 0 && packed < 60 * PAGE_BYTES / 4, "{packed} bytes of compressed chunks");
    let unchanged = count("/page", &["--header", "If-Modified-Since: Fri, 31 Dec 2100 23:59:59 GMT"]);
    unchanged.met(&[]).doubted(&[]);
    assert_eq!(unchanged.report.counted["status_3xx"], 0, "a date to come is no condition");
    let nothing = count("/nothing", &["--size", "1000"]);
    nothing.met(&[]).doubted(&[]);
    site.logs("POST /nothing HTTP/1.1\" 204", 60);
    for (path, kind) in [("/missing", "http_4xx"), ("/broken", "http_5xx")] {
        let run = count(path, &[]);
        assert_eq!((run.code, run.errors().into_iter().collect::<Vec<_>>()), (FAILURES, vec![(kind, 60)]));
        let run = count(path, &["--any-status"]);
        run.met(&[]).doubted(&[]);
        assert_eq!(run.report.requests, 60);
        site.logs(path, 120);
    }
    let wrong = count("/page", &["--expect", "4001"]);
    assert_eq!(wrong.errors().into_iter().collect::<Vec<_>>(), [("http_content", 60)]);
}

#[test]
fn paths_are_asked_for_by_weight_and_over_unix_sockets() {
    if !have("load::web::paths_are_asked_for_by_weight_and_over_unix_sockets", &["nginx"]) {
        return;
    }
    let site = Site::new();
    let _nginx = site.nginx();
    let list = site.path("paths");
    fs::write(&list, "# pages\n3 /page\n/other 13\n").unwrap();
    let unix = format!("unix:{}", site.path("socket").display());
    let run = load(&["http", &unix, "-n", "400", "-d", "4", "--paths", list.to_str().unwrap(), "--path", "4 /folder/"]);
    run.met(&[]).doubted(&[]);
    assert_eq!(run.report.settings.call.as_deref(), Some("GET of 3 paths"));
    for (path, count) in [("/page", 150), ("/other", 50), ("/folder/", 200)] {
        site.logs(&format!("GET {path} "), count);
    }
}

/// A server of HTTP/1.0, which ends each connection.
#[test]
fn python_is_connected_to_again() {
    if !have("load::web::python_is_connected_to_again", &["python3"]) {
        return;
    }
    let site = Site::new();
    let (root, port) = (site.path("www"), site.address.port().to_string());
    let serve = ["python3", "-m", "http.server", "--bind", "127.0.0.1", "--directory", root.to_str().unwrap(), &port];
    let _python = Other::listening(&serve, site.address);
    let run = load(&["http", &site.url("/page"), "-n", "60", "-c", "3"]);
    run.met(&[]).doubted(&[]);
    assert_eq!(run.report.requests, 60);
    assert!((57..=60).contains(&run.report.renewed), "{} connections followed another", run.report.renewed);
}

#[test]
fn what_was_asked_for_is_in_the_report() {
    let host = Host::start(answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
    let url = format!("http://{}/a?b=c", host.address);
    let run = load(&[&url, "-n", "10"]);
    run.met(&[]).doubted(&[]);
    assert_eq!((run.report.workload.as_str(), run.report.target.as_str()), ("http", url.as_str()));
    assert_eq!(run.report.settings.call.as_deref(), Some("GET /a?b=c"));
    let said = ended(&[], &[&url, "-n", "10", "--quiet"]);
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(
        said.contains("GET /a?b=c") && said.contains("counted      content bytes 20,") && said.contains("status 2xx 10"),
        "{said}"
    );
}

#[test]
fn what_cannot_be_asked_is_refused_in_a_line() {
    let url = "http://127.0.0.1:9";
    for (more, words) in [
        (&["--path", "a"][..], &["--path", "must begin with a slash"][..]),
        (&["--paths", "/nowhere"], &["paths", "/nowhere", "cannot be read"]),
        (&["--method", "get"], &["--method", "capital letters"]),
        (&["--method", "CONNECT"], &["--method", "tunnel"]),
        (&["--header", "a"], &["--header", "NAME: VALUE"]),
        (&["--header", "Content-Length: 3"], &["--header", "--size"]),
        (&["--expect", "much"], &["--expect", "first", "any"]),
        (&["--rate", "5", "--requests-per-connection", "1"], &["requests-per-connection", "--connection-rate"]),
    ] {
        says(&[], &[&["http", url], more].concat(), REFUSED, words);
    }
    says(&[], &["http", "http://127.0.0.1:9/a", "--path", "/b"], REFUSED, &["path", "http://127.0.0.1:9/a"]);
    says(&[], &["http", "tcp://127.0.0.1:9"], REFUSED, &["http is asked for by http://"]);
    says(&[], &["echo", "--method", "GET"], REFUSED, &["--method is for http", "echo has no such option"]);
}
