//! What is found at which name, and what is not.

use super::tools::Server;
use corelane::testing::S;

fn check(server: &mut Server, expected: &[(&str, u16, &str)]) {
    for (path, status, content) in expected {
        let answer = server.get(path);
        assert_eq!(answer.status, *status, "{path}");
        assert!(content.is_empty() || answer.content == *content, "{path}: {}", answer.content);
        assert_eq!(answer.field("content-length"), answer.content.len().to_string(), "{path}");
        assert!(!answer.content.contains("secret"), "{path}");
    }
}

#[test]
fn files_are_found_beneath_the_root() {
    let mut server = Server::new(|files| files);
    let found = [
        ("/", 200, "<p>top"),
        ("/a.txt", 200, "0123456789"),
        ("//a.txt", 200, "0123456789"),
        ("/a.txt?x=1", 200, "0123456789"),
        ("/with/../%61.txt", 200, "0123456789"),
        ("/with/", 200, "<p>with"),
        ("/with/.", 200, "<p>with"),
        ("/without/c%20d&'%3C.txt", 200, "c"),
        ("/inside", 200, "0123456789"),
        ("/down/", 200, "<p>with"),
        ("/empty.txt", 200, ""),
    ];
    // The second time from memory.
    check(&mut server, &found);
    check(&mut server, &found);
    server.end();
}

#[test]
fn what_is_not_beneath_the_root_is_not_found() {
    let mut server = Server::new(|files| files);
    let long = "/".to_owned() + &"a".repeat(300);
    let longer = "/a".repeat(1_900);
    for (path, status) in [
        ("/nothing", 404),
        ("/a.txt/", 404),
        ("/a.txt/b", 404),
        ("/nothing/", 404),
        ("/.secret", 404),
        ("/.git/config", 404),
        ("/%2egit/config", 404),
        ("/with/.%2e/.secret", 404),
        ("/up", 404),
        ("/root", 404),
        ("/magic", 404),
        ("/..", 400),
        ("/../outside.txt", 400),
        ("/%2e%2e/outside.txt", 400),
        ("/with/../../outside.txt", 400),
        ("/..%2foutside.txt", 400),
        ("/a.txt%00", 400),
        ("/..\\outside.txt", 404),
        ("/%c0%ae%c0%ae/outside.txt", 404),
        ("/%c0%ae%c0%ae%c0%afoutside.txt", 404),
        (long.as_str(), 404),
        (longer.as_str(), 404),
        ("/without/", 403),
    ] {
        for _ in 0..2 {
            check(&mut server, &[(path, status, "")]);
        }
    }
    server.end();
}

#[test]
fn a_directory_is_asked_for_with_a_slash() {
    let mut server = Server::new(|files| files);
    server.world.write_file("site/evil.example/%2f/index.html", b"");
    server.world.write_file("site/a b\\c/index.html", b"");
    for (path, to) in [
        ("/with", "/with/"),
        ("/with?a=//b", "/with/?a=//b"),
        ("//evil.example", "/evil.example/"),
        ("//evil.example/%252f", "/evil.example/%252f/"),
        ("/./a%20b%5Cc", "/a%20b%5Cc/"),
    ] {
        let answer = server.get(path);
        assert_eq!((answer.status, answer.field("location")), (301, to), "{path}");
    }
    server.end();
}

#[test]
fn directories_are_listed_when_asked() {
    let mut server = Server::new(|files| files.listing(true));
    let answer = server.get("/without/");
    assert_eq!((answer.status, answer.field("content-type")), (200, "text/html; charset=utf-8"));
    assert!(answer.content.contains("<a href=\"./c%20d%26%27%3C.txt\">c d&amp;&#39;&lt;.txt</a>"), "{}", answer.content);
    assert_eq!(server.get("/with/").content, "<p>with", "an index is preferred");
    // It is there, and has no tag and no date.
    for (fields, status) in [
        ("If-Match: *", 200),
        ("If-Match: \"x\"", 412),
        ("If-None-Match: \"x\"", 200),
        ("If-None-Match: *", 304),
        ("If-Modified-Since: Thu, 31 Dec 2100 23:59:59 GMT", 200),
        ("If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT", 200),
        ("Range: bytes=0-0", 200),
    ] {
        assert_eq!(server.ask("GET", "/without/", fields).status, status, "{fields}");
    }
    server.end();
}

#[test]
fn another_index_may_be_named() {
    let mut server = Server::new(|files| files.index("b.css"));
    assert_eq!((server.get("/without/").content.as_str(), server.status("/with/")), ("b {}", 403));
    server.end();
}

#[test]
fn other_methods_are_refused() {
    let mut server = Server::new(|files| files);
    let head = server.ask("HEAD", "/a.txt", "");
    assert_eq!((head.status, head.field("content-length"), head.content.as_str()), (200, "10", ""));
    let options = server.ask("OPTIONS", "/a.txt", "");
    assert_eq!((options.status, options.field("allow")), (204, "GET, HEAD, OPTIONS"));
    assert_eq!(server.ask("OPTIONS", "*", "").status, 204);
    for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE"] {
        let answer = server.ask(method, "/a.txt", "");
        assert_eq!((answer.status, answer.field("allow")), (405, "GET, HEAD, OPTIONS"), "{method}");
    }
    for method in ["BREW", "get"] {
        let answer = server.ask(method, "/a.txt", "");
        assert_eq!((answer.status, answer.field("allow")), (501, ""), "{method}");
        assert!(answer.content.contains("501 Not Implemented"), "{method}");
    }
    server.end();
}

#[test]
fn every_answer_has_its_date_and_a_refusal_its_page() {
    let mut server = Server::new(|files| files);
    let long = format!("/{}", "a".repeat(5_000));
    for (method, path, fields, status) in [
        ("GET", "/a.txt", "", 200),
        ("OPTIONS", "/a.txt", "", 204),
        ("GET", "/a.txt", "Range: bytes=0-1", 206),
        ("GET", "/a.txt", "Range: bytes=0-1,4-5", 206),
        ("GET", "/with", "", 301),
        ("GET", "/a.txt", "If-None-Match: *", 304),
        ("GET", "/%zz", "", 400),
        ("GET", "/without/", "", 403),
        ("GET", "/nothing", "", 404),
        ("PUT", "/a.txt", "", 405),
        ("GET", "/a.txt", "If-Match: \"x\"", 412),
        ("GET", &long, "", 414),
        ("GET", "/a.txt", "Range: bytes=10-", 416),
        ("GET", "/a.txt", "Expect: wonders", 417),
        ("GET", "https://a/a.txt", "", 421),
        ("BREW", "/a.txt", "", 501),
    ] {
        let answer = server.ask(method, path, fields);
        assert_eq!((answer.status, answer.field("date").len()), (status, 29), "{method} {path} {fields}");
        let has_page = answer.content.contains(&status.to_string()) && !answer.field("content-type").is_empty();
        assert!(status < 400 || has_page, "{method} {path} {fields}: {}", answer.content);
    }
    server.end();
}

#[test]
fn compressed_files_are_sent_to_who_takes_them() {
    let mut server = Server::new(|files| files);
    server.world.write_file("site/style.css.zst", b"<zst>");
    for _ in 0..2 {
        for (codings, content, coding) in [
            ("Accept-Encoding: gzip, br", "<br>", "br"),
            ("Accept-Encoding: gzip", "<gz>", "gzip"),
            ("Accept-Encoding: br;q=0.1, gzip", "<gz>", "gzip"),
            ("Accept-Encoding: zstd", "<zst>", "zstd"),
            ("Accept-Encoding: gzip, zstd", "<zst>", "zstd"),
            ("Accept-Encoding: br;q=0.1, gzip;q=0.3, zstd;q=0.2", "<gz>", "gzip"),
            ("Accept-Encoding: deflate", "plain {}", ""),
            ("Accept-Encoding: identity", "plain {}", ""),
            ("", "plain {}", ""),
        ] {
            let answer = server.ask("GET", "/style.css", codings);
            assert_eq!((answer.content.as_str(), answer.field("content-encoding")), (content, coding), "{codings}");
            assert_eq!((answer.field("vary"), answer.field("content-type")), ("Accept-Encoding", "text/css"));
        }
        let answer = server.ask("GET", "/only.png", "Accept-Encoding: gzip");
        assert_eq!((answer.content.as_str(), answer.field("vary"), answer.field("content-encoding")), ("png", "", ""));
    }
    let tags: Vec<String> = ["br", "gzip", ""]
        .map(|coding| server.ask("GET", "/style.css", &format!("Accept-Encoding: {coding}")).field("etag").to_owned())
        .into();
    assert!(tags[0] != tags[1] && tags[1] != tags[2] && tags[0] != tags[2], "{tags:?}");
    server.end();
}

#[test]
fn the_root_may_come_later_and_be_another() {
    let mut server = Server::new(|_| corelane_http::Files::new("later"));
    let answer = server.get("/a.txt");
    assert_eq!((answer.status, answer.field("retry-after")), (503, "1"));
    server.world.write_file("later/a.txt", b"now");
    server.rig.wait(2 * S);
    server.get("/a.txt");
    assert_eq!(server.get("/a.txt").content, "now");
    server.end();
}
