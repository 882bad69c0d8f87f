//! Contents: their limit, bytes that go another way, and what a head says of them.

use corelane_wire::http1::{Body, Framing, Limits, Part, Refusal, Requests, Scratch, Step, Version};

/// The bytes of content in `stream`, or why it is refused.
fn content(framing: Framing, limit: u64, mut stream: &[u8]) -> Result<u64, Refusal> {
    let mut body = Body::new(framing, limit)?;
    let mut bytes = 0;
    loop {
        match body.next(stream)? {
            Part::Data(range) => {
                bytes += range.len() as u64;
                stream = &stream[range.end..];
            }
            Part::End(_) => return Ok(bytes),
            Part::More(_) => return body.finish().map(|()| bytes),
            Part::Trailers(_) => panic!("none were sent"),
        }
    }
}

#[test]
fn the_limit_holds_for_all_of_a_content() {
    let chunks = b"3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n";
    assert_eq!(content(Framing::Chunked, 6, chunks), Ok(6));
    assert_eq!(content(Framing::Chunked, 5, chunks), Err(Refusal::ContentTooLong));
    assert_eq!(content(Framing::Chunked, 2, b"3\r\n"), Err(Refusal::ContentTooLong), "before it comes");
    assert_eq!(content(Framing::Length(6), 6, b"abcdef"), Ok(6));
    assert_eq!(content(Framing::Length(6), 5, b""), Err(Refusal::ContentTooLong), "before it comes");
    assert_eq!(content(Framing::UntilClose, 6, b"abcdef"), Ok(6));
    assert_eq!(content(Framing::UntilClose, 5, b"abcdef"), Err(Refusal::ContentTooLong));
    assert_eq!(content(Framing::None, 0, b"GET"), Ok(0));
    assert_eq!(content(Framing::Length(7), 9, b"abcdef"), Err(Refusal::CutShort));
}

#[test]
fn what_is_announced_may_go_another_way() {
    let mut body = Body::new(Framing::Length(6), 9).unwrap();
    assert_eq!((body.next(b"ab"), body.announced()), (Ok(Part::Data(0..2)), 4));
    body.advance(4);
    assert!(body.is_ended());

    let mut body = Body::new(Framing::Chunked, 9).unwrap();
    assert_eq!((body.next(b"6\r\nab"), body.announced()), (Ok(Part::Data(3..5)), 4));
    body.advance(3);
    assert_eq!((body.announced(), body.is_ended()), (1, false));
    body.advance(1);
    assert_eq!((body.announced(), body.next(b"\r\n0\r\n\r\n")), (0, Ok(Part::End(7))));
}

#[test]
fn nothing_that_went_another_way_changes_nothing() {
    let mut body = Body::new(Framing::Chunked, 9).unwrap();
    body.advance(0);
    assert_eq!((body.next(b"1\r\na"), body.next(b"\r\n0\r\n\r\n")), (Ok(Part::Data(3..4)), Ok(Part::End(7))));
}

#[test]
fn each_chunk_has_a_size_of_its_own() {
    let many = [&b"1\r\na\r\n".repeat(40)[..], b"0\r\n\r\n"].concat();
    assert_eq!(content(Framing::Chunked, 100, &many), Ok(40));
    assert_eq!(content(Framing::Chunked, 100, b"1\r\na\r\n\r\n\r\n"), Err(Refusal::ChunkSize));
    assert_eq!(content(Framing::Chunked, 100, b"1\r\na\r\n;a=b\r\n\r\n"), Err(Refusal::ChunkSize));
}

#[test]
fn what_cannot_be_counted_is_no_length() {
    let length = |digits: &str| {
        let text = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {digits}\r\n\r\n");
        let mut scratch = Scratch::new();
        match Requests::new(Limits::default()).next(text.as_bytes(), &mut scratch) {
            Ok(Step::Request { head, .. }) => Ok(head.framing),
            Err(refusal) => Err(refusal),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(length("18446744073709551614"), Ok(Framing::Length(u64::MAX - 1)));
    assert_eq!(length("18446744073709551615"), Err(Refusal::LengthOverflow));
    assert_eq!(length("99999999999999999999"), Err(Refusal::LengthOverflow));
}

/// The request line alone may be longer than a head.
#[test]
fn a_head_is_bounded_though_its_line_may_be_longer() {
    let limits = Limits { head_bytes: 20, ..Limits::default() };
    let text = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(100));
    for shown in [118, text.len()] {
        let refused = Requests::new(limits).next(&text.as_bytes()[..shown], &mut Scratch::new()).map(|_| ());
        assert_eq!(refused, Err(Refusal::HeadTooLong), "{shown}");
    }
}

#[test]
#[should_panic(expected = "7 bytes of content where 6 were announced")]
fn no_more_than_announced() {
    Body::new(Framing::Length(6), 9).unwrap().advance(7);
}

#[test]
fn what_a_head_says_of_its_content_and_connection() {
    let says = |text: &str| {
        let mut scratch = Scratch::new();
        match Requests::new(Limits::default()).next(text.replace('\n', "\r\n").as_bytes(), &mut scratch) {
            Ok(Step::Request { head, .. }) => (head.version, head.framing, head.persists, head.expects_continue, head.upgrades),
            other => panic!("{text}: {other:?}"),
        }
    };
    let (old, new) = (Version::Http10, Version::Http11);
    assert_eq!(says("GET / HTTP/1.1\nHost: a\n\n"), (new, Framing::None, true, false, false));
    assert_eq!(says("GET / HTTP/1.1\nHost: a\nExpect: 100-continue\n\n"), (new, Framing::None, true, false, false));
    let expecting = "PUT / HTTP/1.1\nHost: a\nExpect: 100-continue\nContent-Length: 1\nConnection: close, Upgrade\n\n";
    assert_eq!(says(expecting), (new, Framing::Length(1), false, true, true));
    assert_eq!(says(&expecting.replace("h: 1", "h: 0")), (new, Framing::Length(0), false, false, true));
    assert_eq!(says(&expecting.replace("P/1.1", "P/1.0")), (old, Framing::Length(1), false, false, false));
    assert_eq!(
        says("PUT / HTTP/1.1\nHost: a\nExpect: 100-continue\nTransfer-Encoding: chunked\n\n"),
        (new, Framing::Chunked, true, true, false)
    );
    assert_eq!(says("GET / HTTP/1.0\nConnection: Keep-Alive\n\n"), (old, Framing::None, true, false, false));
    assert_eq!(says("GET / HTTP/1.0\nConnection: Keep-Alive, close\n\n"), (old, Framing::None, false, false, false));
}
