//! Answers as a client reads them: where their content ends (RFC 9112 section 6.3), and what is no answer.

use crate::parsers::http1::exchange::{Event, Listener};
use corelane_wire::http1::{Method, Refusal};

/// How an answer ends.
#[derive(Debug, PartialEq)]
enum End {
    /// With so much content, and the connection stays.
    Stays(&'static str),
    /// With so much content, and the connection ends.
    Ends(&'static str),
    /// It is refused.
    Refused(Refusal),
}
use End::{Ends, Refused, Stays};

fn end(method: Method<'static>, stream: &str) -> End {
    let mut client = Listener::client(method);
    client.feed(stream.as_bytes());
    let events = client.finish();
    let content = events.iter().find_map(|event| if let Event::Whole(content) = event { Some(content.clone()) } else { None });
    let text = content.map(|content| String::from_utf8(content).unwrap().leak() as &str);
    match events.last() {
        Some(Event::Closed(Some(refusal))) => Refused(*refusal),
        Some(Event::Closed(None)) => Ends(text.unwrap_or("none")),
        _ => Stays(text.unwrap_or("none")),
    }
}

#[test]
fn where_content_ends() {
    let (get, head, connect) = (Method::Get, Method::Head, Method::Connect);
    let cases = [
        (get, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", Stays("ab")),
        (get, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nab", Ends("ab")),
        (get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", Stays("ab")),
        (get, "HTTP/1.1 200 OK\r\n\r\nab", Ends("ab")),
        (get, "HTTP/1.0 200 OK\r\n\r\n", Ends("")),
        (get, "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab", Ends("ab")),
        (get, "HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nab", Stays("ab")),
        (get, "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n", Stays("")),
        (get, "HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\n", Stays("")),
        (get, "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n", Stays("")),
        (get, "HTTP/1.1 101 Switching Protocols\r\n\r\nno HTTP", Ends("")),
        (head, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", Stays("")),
        (head, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Stays("")),
        (head, "HTTP/1.1 200 OK\r\n\r\n", Stays("")),
        (connect, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", Stays("")),
        (connect, "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nab", Stays("ab")),
    ];
    for (method, stream, expected) in cases {
        assert_eq!(end(method, stream), expected, "{method:?} {stream:?}");
    }
}

#[test]
fn what_is_no_answer() {
    let with = |fields: &str| format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
    let cases = [
        ("HTTP/1.1 200 OK\n\n".to_owned(), Refusal::BareLf),
        ("HTTP/2.0 200 OK\r\n\r\n".to_owned(), Refusal::Version),
        ("HTTP/1.1 099 OK\r\n\r\n".to_owned(), Refusal::StatusLine),
        ("HTTP/1.1 600 OK\r\n\r\n".to_owned(), Refusal::StatusLine),
        ("HTTP/1.1 20 OK\r\n\r\n".to_owned(), Refusal::StatusLine),
        ("HTTP/1.1 2000 OK\r\n\r\n".to_owned(), Refusal::StatusLine),
        ("HTTP/1.1 +20 OK\r\n\r\n".to_owned(), Refusal::StatusLine),
        ("HTTP/1.1  200 OK\r\n\r\n".to_owned(), Refusal::StatusLine),
        ("HTTP/1.1 200 a\0b\r\n\r\n".to_owned(), Refusal::StatusLine),
        ("ICY 200 OK\r\n\r\n".to_owned(), Refusal::StatusLine),
        ("\r\nHTTP/1.1 200 OK\r\n\r\n".to_owned(), Refusal::StatusLine),
        ("x".repeat(20_000), Refusal::HeadTooLong),
        (with("Content-Length: 2\r\nContent-Length: 3\r\n"), Refusal::RepeatedLength),
        (with("Content-Length: 2, 2\r\n"), Refusal::RepeatedLength),
        (with("Content-Length: 2,\r\n"), Refusal::InvalidLength),
        (with("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n"), Refusal::LengthAndCoding),
        (with("Transfer-Encoding: gzip\r\n"), Refusal::NotChunkedLast),
        (with("X: a\r\n b\r\n"), Refusal::Fold),
        (with("X : a\r\n"), Refusal::SpaceBeforeColon),
        (with("Content-Length: 3\r\n") + "ab", Refusal::CutShort),
        (with("Transfer-Encoding: chunked\r\n") + "3\r\nabc\r\n", Refusal::CutShort),
        (with("Transfer-Encoding: chunked\r\n") + "3\r\nabcd\r\n", Refusal::ChunkEnd),
    ];
    for (stream, refusal) in cases {
        assert_eq!(end(Method::Get, &stream), Refused(refusal), "{stream:?}");
    }
}

#[test]
fn every_refusal_says_who_is_at_fault_and_what_to_do() {
    for refusal in Refusal::ALL {
        let words = refusal.to_string();
        let names_someone = ["the client", "the server", "the peer"].iter().any(|who| words.starts_with(who));
        assert!(names_someone && words.contains("; ") && refusal.section().contains(" section "), "{refusal:?}: {words}");
        assert!((400..=505).contains(&refusal.status().code()), "{refusal:?}");
        assert!(!refusal.status().phrase().is_empty(), "{refusal:?}");
    }
}
