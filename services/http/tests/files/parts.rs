//! Conditions and ranges, of files in memory and of those that are not.

use super::tools::{Answer, Server};

const SMALL: &str = "0123456789";

/// A server with a large file of known bytes beside the small one, and that file's bytes.
fn server() -> (Server, String) {
    let server = Server::new(|files| files);
    let large: String = (0..70_000).map(|number| format!("{number:05}\n")).collect();
    server.world.write_file("site/large.bin", large.as_bytes());
    (server, large)
}

#[test]
fn conditions_are_kept() {
    let (mut server, _) = server();
    for path in ["/a.txt", "/large.bin"] {
        let first = server.get(path);
        let (tag, date) = (first.field("etag").to_owned(), first.field("last-modified").to_owned());
        assert!(tag.starts_with('"') && !date.is_empty());
        let not_modified = server.ask("GET", path, &format!("If-None-Match: \"x\", W/{tag}"));
        assert_eq!((not_modified.status, not_modified.field("etag"), not_modified.content.as_str()), (304, tag.as_str(), ""));
        let late = "Fri, 31 Dec 2100 23:59:59 GMT";
        for (fields, status) in [
            (format!("If-None-Match: {tag}"), 304),
            ("If-None-Match: *".into(), 304),
            ("If-None-Match: \"x\"".into(), 200),
            (format!("If-Modified-Since: {date}"), 304),
            (format!("If-Modified-Since: {late}\nIf-None-Match: \"x\""), 200),
            (format!("If-Match: {tag}"), 200),
            ("If-Match: \"x\"".into(), 412),
            (format!("If-Match: W/{tag}"), 412),
            (format!("If-Unmodified-Since: {late}"), 200),
            ("If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT".into(), 412),
        ] {
            assert_eq!(server.ask("HEAD", path, &fields).status, status, "{path} {fields}");
            assert_eq!(server.ask("GET", path, &fields).status, status, "{path} {fields}");
        }
    }
    assert_eq!(server.ask("GET", "/nothing", "If-None-Match: *").status, 404);
    server.end();
}

#[test]
fn one_range_is_sent() {
    let (mut server, large) = server();
    for (path, whole) in [("/a.txt", SMALL), ("/large.bin", &large)] {
        let length = whole.len();
        let tag = server.get(path).field("etag").to_owned();
        for (range, begin, end) in [("0-0", 0, 1), ("2-", 2, length), ("-3", length - 3, length), ("1-99999999", 1, length)] {
            let answer = server.ask("GET", path, &format!("Range: bytes={range}\nIf-Range: {tag}"));
            assert_eq!((answer.status, answer.content.as_str()), (206, &whole[begin..end]), "{path} {range}");
            assert_eq!(answer.field("content-range"), format!("bytes {begin}-{}/{length}", end - 1));
        }
        let beyond = server.ask("GET", path, &format!("Range: bytes={length}-"));
        assert_eq!((beyond.status, beyond.field("content-range")), (416, format!("bytes */{length}").as_str()));
        let others = ["Range: lines=0-1", "Range: bytes=0-1\nIf-Range: \"x\"", "Range: bytes=x"];
        for fields in others {
            let answer = server.ask("GET", path, fields);
            assert_eq!((answer.status, answer.content.as_str()), (200, whole), "{fields}");
        }
        let head = server.ask("HEAD", path, "Range: bytes=0-1");
        assert_eq!(
            (head.status, head.field("content-length"), head.field("accept-ranges")),
            (200, length.to_string().as_str(), "bytes")
        );
    }
    assert_eq!(server.ask("GET", "/empty.txt", "Range: bytes=0-").status, 416);
    assert_eq!(server.ask("GET", "/empty.txt", "Range: bytes=-1").status, 200);
    server.end();
}

/// The parts of a multipart/byteranges, each as an answer of its own.
fn split(answer: &Answer) -> Vec<(String, String)> {
    let boundary = answer.field("content-type").strip_prefix("multipart/byteranges; boundary=").unwrap();
    let (parts, end) = answer.content.split_once(&format!("\r\n--{boundary}--")).unwrap();
    assert_eq!(end, "\r\n");
    let begin = format!("\r\n--{boundary}\r\n");
    let parts = parts.split(&begin).skip(1);
    let field = |head: &str, name: &str| head.lines().find_map(|line| Some(line.strip_prefix(name)?.to_owned()));
    let part = |part: &str| {
        let (head, content) = part.split_once("\r\n\r\n").unwrap();
        assert!(field(head, "Content-Type: ").is_some());
        (field(head, "Content-Range: ").unwrap(), content.to_owned())
    };
    parts.map(part).collect()
}

#[test]
fn several_ranges_are_sent_in_parts() {
    let (mut server, large) = server();
    for (path, whole) in [("/a.txt", SMALL), ("/large.bin", &large)] {
        let length = whole.len();
        for _ in 0..2 {
            let answer = server.ask("GET", path, "Range: bytes=-2,0-1,4-5");
            assert_eq!(answer.status, 206);
            assert_eq!(answer.field("content-length"), answer.content.len().to_string());
            let expected = [(length - 2, length), (0, 2), (4, 6)]
                .map(|(begin, end)| (format!("bytes {begin}-{}/{length}", end - 1), whole[begin..end].to_owned()));
            assert_eq!(split(&answer), expected);
        }
    }
    let many = format!("Range: bytes={}", vec!["0-0"; 17].join(","));
    assert_eq!(server.ask("GET", "/a.txt", &many).status, 200, "too many");
    server.end();
}

#[test]
fn a_large_file_is_sent_whole_and_behind_others() {
    let (mut server, large) = server();
    let request = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    server.say(&[request("/a.txt"), request("/large.bin"), request("/large.bin"), request("/a.txt")].concat());
    let heard = server.hear();
    let contents: Vec<&str> =
        heard.split("HTTP/1.1 200 OK\r\n").skip(1).map(|answer| answer.split_once("\r\n\r\n").unwrap().1).collect();
    assert!(contents == [SMALL, &large, &large, SMALL]);
    server.end();
}
