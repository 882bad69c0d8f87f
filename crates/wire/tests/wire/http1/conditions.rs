//! Conditions, ranges' conditions and codings, from whole requests (RFC 9110 sections 12.5.3 and 13).

use corelane_wire::http1::{
    Coding, Condition, Date, Limits, Ranges, Request, Requests, Scratch, Step, Tag, Validators, coding, condition, range_applies,
    ranges,
};

const OLD: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
const NOW: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const NEW: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

fn current() -> Validators<'static> {
    Validators { tag: Tag::parse(b"\"a\""), modified: Date::parse(NOW.as_bytes()), changed: None, is_modified_strong: true }
}

/// What `look` sees of a request with `method` and `fields`, which are divided by semicolons.
fn with<T>(method: &str, fields: &str, look: impl FnOnce(&Request<'_>) -> T) -> T {
    let lines = if fields.is_empty() { String::new() } else { fields.replace("; ", "\r\n") + "\r\n" };
    let text = format!("{method} / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
    let mut scratch = Scratch::new();
    match Requests::new(Limits::default()).next(text.as_bytes(), &mut scratch) {
        Ok(Step::Request { head, .. }) => look(&head),
        other => panic!("{text}: {other:?}"),
    }
}

fn comes_to(method: &str, fields: &str, current: Option<&Validators<'_>>) -> Condition {
    with(method, fields, |head| condition(head.fields, head.method, current))
}

#[test]
fn conditions_in_their_order() {
    use Condition::{Failed, Holds, NotModified};
    let cases: [(&str, String, Condition); 30] = [
        ("GET", String::new(), Holds),
        ("GET", "If-None-Match: \"a\"".into(), NotModified),
        ("HEAD", "If-None-Match: W/\"a\"".into(), NotModified),
        ("GET", "If-None-Match: \"b\", W/\"c\", \"a\"".into(), NotModified),
        ("GET", "If-None-Match: \"b\"; If-None-Match: \"a\"".into(), NotModified),
        ("GET", r#"If-None-Match: "b\", "a""#.into(), NotModified),
        ("GET", "If-None-Match: *".into(), NotModified),
        ("GET", "If-None-Match: \"b\"".into(), Holds),
        ("GET", "If-None-Match: a".into(), Holds),
        ("PUT", "If-None-Match: \"a\"".into(), Failed),
        ("PUT", "If-None-Match: *".into(), Failed),
        ("GET", "If-Match: \"a\"".into(), Holds),
        ("GET", "If-Match: *".into(), Holds),
        ("GET", "If-Match: W/\"a\"".into(), Failed),
        ("PUT", "If-Match: \"b\"".into(), Failed),
        ("GET", "If-Match: \"a\"; If-None-Match: \"a\"".into(), NotModified),
        ("GET", "If-Match: \"b\"; If-None-Match: \"a\"".into(), Failed),
        ("GET", format!("If-Modified-Since: {NOW}"), NotModified),
        ("GET", format!("If-Modified-Since: {NEW}"), NotModified),
        ("GET", format!("If-Modified-Since: {OLD}"), Holds),
        ("GET", "If-Modified-Since: yesterday".into(), Holds),
        ("PUT", format!("If-Modified-Since: {NOW}"), Holds),
        ("GET", format!("If-Modified-Since: {NOW}; If-Modified-Since: {NOW}"), Holds),
        ("GET", format!("If-Unmodified-Since: {OLD}; If-Unmodified-Since: {OLD}"), Holds),
        ("GET", format!("If-None-Match: \"b\"; If-Modified-Since: {NOW}"), Holds),
        ("GET", format!("If-Unmodified-Since: {NOW}"), Holds),
        ("GET", format!("If-Unmodified-Since: {OLD}"), Failed),
        ("GET", "If-Unmodified-Since: yesterday".into(), Holds),
        ("GET", format!("If-Match: \"a\"; If-Unmodified-Since: {OLD}"), Holds),
        ("GET", format!("If-Unmodified-Since: {NOW}; If-None-Match: \"a\""), NotModified),
    ];
    for (method, fields, expected) in cases {
        assert_eq!(comes_to(method, &fields, Some(&current())), expected, "{method} {fields}");
    }
}

#[test]
fn conditions_on_what_is_not_there() {
    assert_eq!(comes_to("PUT", "If-None-Match: *", None), Condition::Holds);
    assert_eq!(comes_to("PUT", "If-Match: *", None), Condition::Failed);
    assert_eq!(comes_to("PUT", "If-Match: \"a\"", None), Condition::Failed);
    assert_eq!(comes_to("PUT", &format!("If-Unmodified-Since: {OLD}"), None), Condition::Holds);
}

#[test]
fn a_range_of_something_else_is_not_sent() {
    let applies = |fields: &str, current: &Validators<'_>| with("GET", fields, |head| range_applies(head.fields, current));
    let strong = current();
    assert!(applies("", &strong) && applies("If-Range: \"a\"", &strong) && applies(&format!("If-Range: {NOW}"), &strong));
    for fields in ["If-Range: \"b\"", "If-Range: W/\"a\"", "If-Range: a", "If-Range: \"a\"; If-Range: \"a\""] {
        assert!(!applies(fields, &strong), "{fields}");
    }
    for date in [OLD, NEW] {
        assert!(!applies(&format!("If-Range: {date}"), &strong), "{date}");
    }
    let weak = Validators { tag: Tag::parse(b"W/\"a\""), is_modified_strong: false, ..strong };
    assert!(!applies("If-Range: W/\"a\"", &weak) && !applies(&format!("If-Range: {NOW}"), &weak));
}

#[test]
fn ranges_in_two_lines_ask_for_all() {
    let asked = |fields: &str| with("GET", fields, |head| ranges(head.fields, 10));
    assert!(matches!(asked("Range: bytes=0-1"), Ranges::Some(_)));
    assert_eq!(asked("Range: bytes=0-1; Range: bytes=0-1"), Ranges::Whole);
}

#[test]
fn the_coding_that_is_liked_best() {
    use Coding::{Brotli, Gzip, Identity, Zstandard};
    let all = [Brotli, Zstandard, Gzip];
    let cases = [
        ("", Some(Identity)),
        ("Accept-Encoding:", Some(Identity)),
        ("Accept-Encoding: gzip", Some(Gzip)),
        ("Accept-Encoding: x-gzip", Some(Gzip)),
        ("Accept-Encoding: GZIP, deflate", Some(Gzip)),
        ("Accept-Encoding: gzip, br", Some(Brotli)),
        ("Accept-Encoding: gzip, br;q=0.9", Some(Gzip)),
        ("Accept-Encoding: gzip; Accept-Encoding: zstd", Some(Zstandard)),
        ("Accept-Encoding: *", Some(Brotli)),
        ("Accept-Encoding: *, br;q=0", Some(Zstandard)),
        ("Accept-Encoding: gzip;q=0.5, identity", Some(Identity)),
        ("Accept-Encoding: gzip;q=0", Some(Identity)),
        ("Accept-Encoding: gzip;q=2", Some(Identity)),
        ("Accept-Encoding: *;q=0", None),
        ("Accept-Encoding: identity;q=0", None),
        ("Accept-Encoding: gzip, *;q=0", Some(Gzip)),
    ];
    for (fields, expected) in cases {
        assert_eq!(with("GET", fields, |head| coding(head.fields, &all)), expected, "{fields}");
    }
    assert_eq!(with("GET", "Accept-Encoding: br", |head| coding(head.fields, &[Gzip])), Some(Identity));
}

/// Who puts an older state in the place of a newer one puts its date there as well.
#[test]
fn what_was_rolled_back_is_another_state() {
    use Condition::{Failed, Holds, NotModified};
    let back = Validators {
        tag: None,
        modified: Date::parse(OLD.as_bytes()),
        changed: Date::parse(NEW.as_bytes()),
        is_modified_strong: true,
    };
    for (fields, expected) in [
        (format!("If-Modified-Since: {NOW}"), Holds),
        (format!("If-Modified-Since: {OLD}"), NotModified),
        (format!("If-Modified-Since: {NEW}"), NotModified),
        (format!("If-Unmodified-Since: {NOW}"), Failed),
        (format!("If-Unmodified-Since: {OLD}"), Holds),
        (format!("If-Unmodified-Since: {NEW}"), Holds),
    ] {
        assert_eq!(comes_to("GET", &fields, Some(&back)), expected, "{fields}");
    }
}
