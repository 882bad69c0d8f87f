//! Lines as they are written: of what the format is made.

use super::*;
use corelane::service::Address;
use corelane_wire::http1::{Date, Limits, Requests, Scratch, Step};

const SENT: Sent = Sent { status: 200, bytes: 12 };

/// The line of a request that was answered at once.
fn line(format: LogFormat, head: &[u8], peer: &str) -> String {
    let log = AccessLog::open("/dev/null", format).unwrap();
    let mut lane = log.lane();
    lane.look(Date::from_unix_seconds(784_111_777));
    lane.begin_call(Some(&Address::Ip(peer.parse().unwrap())));
    let mut scratch = Scratch::new();
    match Requests::new(Limits::default()).next(head, &mut scratch) {
        Ok(Step::Request { head: parsed, bytes }) => {
            let asked = Asked { bytes: &head[..bytes], head: Some(&parsed) };
            lane.answered(asked, SENT, Ended::Kept);
        }
        _ => lane.answered(Asked { bytes: head, head: None }, SENT, Ended::Closed),
    }
    String::from_utf8(lane.line).unwrap()
}

const HEAD: &[u8] = b"\r\nGET /a?b=1 HTTP/1.1\r\nHost: Shop.example:8080\r\nReferer: http://c/\r\nUser-Agent: d/1 (e)\r\n\r\n";

#[test]
fn a_line_of_the_combined_format_has_host_seconds_and_end_behind_it() {
    assert_eq!(
        line(LogFormat::Combined, HEAD, "[::ffff:192.0.2.1]:9"),
        "192.0.2.1 - - [06/Nov/1994:08:49:37 +0000] \"GET /a?b=1 HTTP/1.1\" 200 12 \"http://c/\" \"d/1 (e)\" \"Shop.example\" \
         0.000000 +\n"
    );
}

#[test]
fn a_line_of_json_is_an_object() {
    assert_eq!(
        line(LogFormat::Json, HEAD, "[2001:db8::1]:9"),
        "{\"time\":\"1994-11-06T08:49:37Z\",\"peer\":\"2001:db8::1\",\"method\":\"GET\",\"path\":\"/a\",\"query\":\"b=1\",\
         \"protocol\":\"HTTP/1.1\",\"status\":200,\"bytes\":12,\
         \"referer\":\"http://c/\",\"agent\":\"d/1 (e)\",\"host\":\"Shop.example\",\"seconds\":0.000000,\"end\":\"+\"}\n"
    );
}

#[test]
fn what_is_not_there_is_nothing() {
    let head = b"GET / HTTP/1.0\r\n\r\n";
    assert!(line(LogFormat::Combined, head, "192.0.2.1:9").contains("\"GET / HTTP/1.0\" 200 12 \"-\" \"-\" \"-\" 0.000000 +"));
    assert!(line(LogFormat::Json, head, "192.0.2.1:9").contains("\"referer\":null,\"agent\":null,\"host\":null,"));
    assert!(line(LogFormat::Combined, b"\r\n", "192.0.2.1:9").contains("] \"-\" 200"));
}

#[test]
fn nobody_forges_a_line_or_tells_a_terminal_anything() {
    let hostile = b"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: \" 200 1 \"\\\xff\t\xc2\x9b[2J\r\n\r\n";
    let escapes = b"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: \x1b[2J\r\n\r\n";
    let refused = b"\x16\x03\x01\x1b]0;x\x07\"\\\nGET / HTTP/1.1\r\n\r\n";
    for format in [LogFormat::Combined, LogFormat::Json] {
        for head in [&hostile[..], escapes, refused] {
            let line = line(format, head, "192.0.2.1:9");
            let (text, end) = line.split_at(line.len() - 1);
            assert!(end == "\n" && text.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{text:?}");
        }
    }
    let combined = line(LogFormat::Combined, hostile, "192.0.2.1:9");
    assert_eq!(combined.matches('"').count(), 8, "{combined}");
    assert!(combined.contains(r#""\x22 200 1 \x22\x5C\xFF\x09\xC2\x9B[2J""#), "{combined}");
    assert!(line(LogFormat::Json, hostile, "192.0.2.1:9").contains(r#""agent":"\" 200 1 \"\\\uFFFD\u0009\u009B[2J""#));
    let no_request = line(LogFormat::Json, refused, "192.0.2.1:9");
    assert!(
        no_request.contains(r#""query":null,"protocol":null,"request":"\u0016\u0003\u0001\u001B]0;x\u0007\"\\","status":200"#),
        "{no_request}"
    );
    assert!(line(LogFormat::Combined, refused, "192.0.2.1:9").contains(r#"] "\x16\x03\x01\x1B]0;x\x07\x22\x5C" 200"#));
}

#[test]
fn who_reads_json_has_what_was_sent() {
    let agent = "a\"b\\c \u{e4}\u{1f980} \t/";
    let head = format!("GET /\"%22?q=\\&r= HTTP/1.1\r\nHost: a\r\nUser-Agent: {agent}\r\n\r\n");
    let read = |head: &str| -> serde_json::Value {
        serde_json::from_str(&line(LogFormat::Json, head.as_bytes(), "192.0.2.1:9")).unwrap()
    };
    let object = read(&head);
    assert_eq!(object["agent"], agent);
    assert_eq!((&object["path"], &object["query"]), (&"/\"%22".into(), &"q=\\&r=".into()));
    let bare = read("OPTIONS * HTTP/1.0\r\n\r\n");
    assert_eq!((&bare["method"], &bare["path"], &bare["query"]), (&"OPTIONS".into(), &"*".into(), &serde_json::Value::Null));
    assert!(bare.get("request").is_none());
}

#[test]
fn the_longest_line_fits_and_says_what_was_cut_off() {
    let long = vec![0xff; 20_000];
    for format in [LogFormat::Combined, LogFormat::Json] {
        let text = line(format, &long, "192.0.2.1:9");
        assert!(text.contains("...\"") && text.len() <= corelane::service::journal::LINE_BYTES_MAX);
    }
    let head = [b"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: ", &vec![b'u'; 16_000][..], b"\r\n\r\n"].concat();
    let text = line(LogFormat::Combined, &head, "192.0.2.1:9");
    assert!(text.contains(&format!("\"{}...\"", "u".repeat(512))), "{text}");
}

#[test]
fn a_request_whose_texts_found_no_memory_has_a_line_that_says_so() {
    for (format, shown) in [
        (LogFormat::Combined, "] \"...\" 200 12 \"...\" \"...\" \"...\" 0.000000 +\n"),
        (
            LogFormat::Json,
            ",\"method\":null,\"path\":null,\"query\":null,\"protocol\":null,\"request\":\"...\",\"status\":200,\"bytes\":12,\
             \"referer\":\"...\",\"agent\":\"...\",\"host\":\"...\",\"seconds\":0.000000,\"end\":\"+\"}\n",
        ),
    ] {
        let log = AccessLog::open("/dev/null", format).unwrap();
        let mut lane = log.lane();
        // Nobody has lent it any.
        let kept = lane.keep(Asked { bytes: HEAD, head: None });
        lane.end(kept, SENT, Ended::Kept);
        let line = String::from_utf8(lane.line).unwrap();
        assert!(line.ends_with(shown), "{line}");
    }
}
