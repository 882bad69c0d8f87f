//! Whatever pieces a stream comes in, it means the same.

use super::samples;
use super::table::rows;
use crate::parsers::http1::exchange::{Event, Listener};
use corelane_wire::http1::{Limits, Method, Requests, Scratch, Step};

/// Longer streams are cut in fewer places.
const EVERY_PLACE_BYTES_MAX: usize = 600;

fn heard<'a>(mut listener: Listener, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Event> {
    pieces.into_iter().for_each(|piece| listener.feed(piece));
    listener.finish()
}

fn check(what: &str, listener: impl Fn() -> Listener, stream: &[u8]) {
    let whole = heard(listener(), [stream]);
    assert_eq!(heard(listener(), stream.chunks(1)), whole, "{what}, byte by byte");
    let step = if stream.len() > EVERY_PLACE_BYTES_MAX { 97 } else { 1 };
    for at in (0..stream.len()).step_by(step) {
        let (before, after) = stream.split_at(at);
        assert_eq!(heard(listener(), [before, after]), whole, "{what}, split at {at}");
    }
    for bytes in [2, 3, 5, 7, 1460] {
        assert_eq!(heard(listener(), stream.chunks(bytes)), whole, "{what}, {bytes} bytes a piece");
    }
}

#[test]
fn requests() {
    rows().iter().for_each(|row| check(&row.what, Listener::server, &row.sent));
}

#[test]
fn answers() {
    for stream in samples::ANSWERS {
        for method in [Method::Get, Method::Head, Method::Connect] {
            check(stream, || Listener::client(method), stream.as_bytes());
        }
    }
}

/// A client that waits holds no memory here, not even that of an empty line.
#[test]
fn empty_lines_before_a_head_are_dropped() {
    let mut requests = Requests::new(Limits::default());
    let mut dropped = |stream: &[u8]| match requests.next(stream, &mut Scratch::new()) {
        Ok(Step::More(drop)) => drop,
        other => panic!("{other:?}"),
    };
    assert_eq!((dropped(b"\r"), dropped(b"\r\n"), dropped(b"\r\n\r\nG")), (0, 2, 4));
    assert_eq!(dropped(b"GET / HTTP/1.1\r\n"), 0, "it belongs to a head");
}
