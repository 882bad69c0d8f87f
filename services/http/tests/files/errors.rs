//! What is refused, shown by pages of the operator's.

use super::tools::Server;
use corelane::testing::{MS, S};

fn server() -> Server {
    let mut server = Server::new(|files| files.errors("pages"));
    server.world.write_file("pages/404.html", b"<p>gone fishing");
    server.world.write_file("pages/40x.html", b"<p>no");
    server.world.write_file("pages/41x.html", b"<p>not so");
    server.world.write_file("pages/503.html", b"<p>later");
    server.world.write_file("pages/50x.html", b"<p>cannot");
    server.world.forbid("site/only.png", true);
    server.rig.wait(2 * S);
    server
}

#[test]
fn each_refusal_has_its_page() {
    let mut server = server();
    let long = format!("/{}", "a".repeat(4_001));
    let expected = [
        ("GET", "/nothing", "", 404, "<p>gone fishing"),
        ("GET", "/only.png", "", 403, "<p>no"),
        ("GET", "/%zz", "", 400, "<p>no"),
        ("GET", "/without/", "", 403, "<p>no"),
        ("PATCH", "/a.txt", "", 405, "<p>no"),
        ("BREW", "/a.txt", "", 501, "<p>cannot"),
        ("GET", &long, "", 414, "<p>not so"),
        ("GET", "/a.txt", "If-Match: \"x\"", 412, "<p>not so"),
        ("GET", "/a.txt", "Range: bytes=100-", 416, "<p>not so"),
        ("HEAD", "/nothing", "", 404, ""),
    ];
    for _ in 0..3 {
        for (method, path, fields, status, content) in expected {
            let answer = server.ask(method, path, fields);
            assert_eq!((answer.status, answer.content.as_str()), (status, content), "{method} {path:.20}");
            assert_eq!(answer.field("content-type"), "text/html");
            assert_eq!((answer.field("etag"), answer.field("last-modified")), ("", ""), "the page is not what was asked for");
        }
        assert_eq!(server.ask("PUT", "/a.txt", "Content-Length: 0").field("allow"), "GET, HEAD, OPTIONS");
        assert_eq!(server.ask("GET", "/a.txt", "Range: bytes=100-").field("content-range"), "bytes */10");
        server.rig.wait(2 * S);
    }
    assert_eq!(server.get("/a.txt").content, "0123456789");
    server.end();
}

#[test]
fn pages_are_in_memory_and_changes_are_seen() {
    let mut server = server();
    for _ in 0..3 {
        assert_eq!(server.get("/nothing").content, "<p>gone fishing");
        server.rig.wait(S + 10 * MS);
    }
    server.world.write_file("pages/404.html", b"<p>another");
    server.rig.wait(5 * MS);
    assert_eq!(server.get("/nothing").content, "<p>another");
    server.rig.wait(2 * S);
    server.world.remove_file("pages/404.html");
    server.rig.wait(2 * S);
    assert_eq!(server.get("/nothing").content, "<p>no", "that of all that begin so");
    server.world.remove_file("pages/40x.html");
    server.rig.wait(2 * S);
    assert!(server.get("/nothing").content.contains("<h1>404 Not Found</h1>"), "ours");
    server.end();
}

#[test]
fn a_large_page_and_an_empty_one_are_sent_as_they_are() {
    let mut server = server();
    let large = "large ".repeat(100_000);
    server.world.write_file("pages/404.html", large.as_bytes());
    server.world.write_file("pages/403.html", b"");
    server.rig.wait(2 * S);
    for _ in 0..2 {
        let answer = server.get("/nothing");
        assert!(answer.status == 404 && answer.content == large, "{} bytes", answer.content.len());
        let answer = server.get("/only.png");
        assert_eq!((answer.status, answer.content.as_str(), answer.field("content-length")), (403, "", "0"));
    }
    server.end();
}

#[test]
fn without_pages_ours_are_shown() {
    let mut server = Server::new(|files| files.errors("nowhere"));
    for _ in 0..2 {
        assert!(server.get("/nothing").content.contains("<h1>404 Not Found</h1>"));
        server.rig.wait(2 * S);
    }
    server.world.write_file("nowhere/404.html", b"<p>now");
    server.get("/nothing");
    server.rig.wait(2 * S);
    assert_eq!(server.get("/nothing").content, "<p>now");
    // No page is a way out of its directory.
    server.world.remove_file("nowhere/404.html");
    server.world.make_link("nowhere/404.html", "/outside.txt", false);
    server.rig.wait(2 * S);
    assert!(server.get("/nothing").content.contains("<h1>404 Not Found</h1>"));
    server.end();
}

/// Files that were opened since, but for the roots.
fn opened_for(server: &mut Server, path: &str) -> usize {
    let opened = |server: &Server| server.world.log().iter().filter(|line| line.contains(" opened")).count();
    let before = opened(server);
    server.get(path);
    opened(server) - before
}

#[test]
fn other_pages_in_their_place_leave_the_site_in_memory_and_the_other_way_round() {
    let mut server = server();
    server.world.write_file("others/404.html", b"<p>others");
    server.world.write_file("empty/x", b"");
    for _ in 0..3 {
        assert_eq!(server.get("/nothing").content, "<p>gone fishing");
        assert_eq!(server.get("/a.txt").content, "0123456789");
        server.rig.wait(S + 10 * MS);
    }
    server.world.rename("pages", "pages before");
    server.world.rename("others", "pages");
    server.rig.wait(S + 10 * MS);
    server.get("/nothing");
    server.rig.wait(100 * MS);
    assert_eq!(server.get("/nothing").content, "<p>others");
    assert_eq!(opened_for(&mut server, "/a.txt"), 0, "its directory is the same, and has told nothing");
    // The other way round.
    for _ in 0..2 {
        server.rig.wait(S + 10 * MS);
        server.get("/nothing");
    }
    server.world.write_file("new/a.txt", b"another");
    server.world.rename("site", "site before");
    server.world.rename("new", "site");
    server.rig.wait(S + 10 * MS);
    server.get("/a.txt");
    server.rig.wait(100 * MS);
    assert_eq!(server.get("/a.txt").content, "another");
    assert_eq!(opened_for(&mut server, "/nothing"), 1, "the directory of the pages, after more than a second, and no page");
    assert_eq!(server.get("/nothing").content, "<p>others");
    server.end();
}
