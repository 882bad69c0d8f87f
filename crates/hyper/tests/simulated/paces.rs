//! Limits of time from both sides: a client that does too little is ended within its limit, and one that is slow but does enough is not.

use crate::simulated::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, Frames, HEADERS, PING, data, frame, get, has_ended, post,
};
use crate::simulated::{Pieces, served};
use corelane::admin::watch::ServiceCounter as C;
use corelane::aio;
use corelane::service::Limits;
use corelane::testing::{Faults, MS, Nobody, Peer, Rig, RigPlan, Status, World};
use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Error, Request, Response};
use std::cell::Cell;
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

fn limits() -> Limits {
    Limits::new().idle_limit(seconds(20)).read_limit(seconds(5)).answer_limit(seconds(10)).send_limit(seconds(10))
}

fn serving(make: impl Fn() -> aio::Serve) -> (World, Rig) {
    let world = World::new(1, Faults::none());
    let rig = Rig::serving(&world, &RigPlan::lanes(1), limits(), move |_lane| make());
    (world, rig)
}

/// Says this each second until the connection ends, for so many seconds at the most; returns after how many it did.
fn ends_after(rig: &mut Rig, peer: &Peer, says: &[u8], most: u64) -> Option<u64> {
    (0..most).find(|_| {
        peer.send(says);
        rig.wait(1000 * MS);
        peer.read(usize::MAX);
        peer.status() != Status::Open
    })
}

#[test]
fn pings_keep_no_connection_that_asks_nothing() {
    let (_world, mut rig) = serving(served);
    let client = Frames::begin(&mut rig, 0, &[]);
    let mut asks = Frames::begin(&mut rig, 1, &[]);
    let ping = frame(PING, 0, 0, &[7; 8]);
    for second in 0..30 {
        client.peer.send(&ping);
        asks.peer.send(&ping);
        if second % 15 == 10 {
            asks.say(&get(2 * second + 1, "/slow"));
            assert_eq!(data(&asks.hear(&mut rig), 2 * second + 1), b"hello from /slow");
        }
        assert_eq!(client.peer.status() == Status::Open, second < 20, "after {second} seconds");
        rig.wait(1000 * MS);
        client.peer.read(usize::MAX);
    }
    assert_eq!((asks.peer.status(), rig.count(C::IdleLimitHits)), (Status::Open, 1));
    asks.peer.reset();
    client.peer.close();
    rig.close(&mut Nobody);
}

#[test]
fn a_request_whose_content_does_not_come_is_given_up_whatever_else_is_said() {
    let ping = frame(PING, 0, 0, &[7; 8]);
    let trickle = frame(DATA, 0, 1, b"x");
    for (what, says) in [("nothing", &b""[..]), ("pings", &ping), ("a byte of content a second", &trickle)] {
        let (_world, mut rig) = serving(served);
        let mut client = Frames::begin(&mut rig, 0, &[]);
        client.say(&post(1, "/sum"));
        client.hear(&mut rig);
        let ended = ends_after(&mut rig, &client.peer, says, 20);
        assert!(ended.is_some_and(|seconds| (8..=12).contains(&seconds)), "{what}: {ended:?}");
        assert_eq!(rig.count(C::AnswerLimitHits), 1, "{what}");
        rig.close(&mut Nobody);
    }
    for (what, says) in [("nothing", &b""[..]), ("a byte of content a second", b"x")] {
        let (_world, mut rig) = serving(served);
        let peer = rig.connect(0);
        rig.wait(MS);
        peer.send(b"POST /sum HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n");
        let ended = ends_after(&mut rig, &peer, says, 20);
        assert!(ended.is_some_and(|seconds| (8..=12).contains(&seconds)), "{what}: {ended:?}");
        rig.close(&mut Nobody);
    }
}

#[test]
fn content_that_comes_may_take_longer_than_any_limit() {
    let (_world, mut rig) = serving(served);
    let mut client = Frames::begin(&mut rig, 0, &[]);
    let peer = rig.connect(1);
    rig.wait(MS);
    client.say(&post(1, "/sum"));
    peer.send(b"POST /sum HTTP/1.1\r\nhost: x\r\ncontent-length: 120000\r\n\r\n");
    for second in 0..60 {
        client.say(&frame(DATA, if second == 59 { END_STREAM } else { 0 }, 1, &[7; 2_000]));
        assert_eq!(peer.send(&[7; 2_000]), 2_000);
        rig.wait(1000 * MS);
    }
    assert_eq!(data(&client.hear(&mut rig), 1), b"120000");
    assert!(rig.hear(&peer).ends_with("120000"));
    [&client.peer, &peer].iter().for_each(|peer| peer.close());
    rig.wait(MS);
    rig.close(&mut Nobody);
}

#[test]
fn a_head_must_come_whole_in_time() {
    for (what, says) in [("a head byte by byte", &b"x"[..]), ("empty lines", b"\r\n"), ("nothing more", b"")] {
        let (_world, mut rig) = serving(served);
        let peer = rig.connect(0);
        rig.wait(MS);
        peer.send(if what == "empty lines" { &b"\r\n"[..] } else { b"GET /" });
        let ended = ends_after(&mut rig, &peer, says, 20);
        assert!(ended.is_some_and(|seconds| (4..=6).contains(&seconds)), "{what}: {ended:?}");
        assert_eq!(rig.count(C::ReadLimitHits), 1, "{what}");
        rig.close(&mut Nobody);
    }
    // Each in time, one after the other.
    let (_world, mut rig) = serving(served);
    let peer = rig.connect(0);
    rig.wait(MS);
    for _ in 0..5 {
        for part in ["GET /a ", "HTTP/1.1\r\n", "host: x\r\n\r", "\n"] {
            peer.send(part.as_bytes());
            rig.wait(1000 * MS);
        }
        assert!(rig.hear(&peer).ends_with("hello from /a"));
        rig.wait(10_000 * MS);
    }
    assert!(ends_after(&mut rig, &peer, b"", 20).is_some(), "then it is idle");
    assert_eq!((rig.count(C::ReadLimitHits), rig.count(C::IdleLimitHits)), (0, 1));
    rig.close(&mut Nobody);
}

/// The same limit as for one of HTTP/1.1, whatever else is in hand.
#[test]
fn a_head_of_http2_must_come_whole_in_time() {
    let field = [&[0x82, 0x86, 0x00, 1, b'a', 100][..], &[b'v'; 60]].concat();
    let begun = frame(HEADERS, END_STREAM, 3, &field);
    let nothing_more = frame(CONTINUATION, 0, 3, &[]);
    for (what, first, says, in_hand) in [
        ("a frame byte by byte", &begun[..10], &b"v"[..], false),
        ("no more frames", &begun, b"", false),
        ("the same beside a request in hand", &begun, b"", true),
        ("a frame byte by byte beside a request in hand", &begun[..10], b"v", true),
        ("frames byte by byte", &begun, &nothing_more[..1], false),
        ("the first bytes of a frame", &begun[..2], b"", false),
    ] {
        let (_world, mut rig) = serving(served);
        let mut client = Frames::begin(&mut rig, 0, &[]);
        if in_hand {
            client.say(&post(1, "/sum"));
            client.hear(&mut rig);
        }
        client.say(first);
        let ended = ends_after(&mut rig, &client.peer, says, 20);
        // What is in hand is answered first, within its own limit.
        let most = if in_hand { 12 } else { 6 };
        assert!(ended.is_some_and(|seconds| (4..=most).contains(&seconds)), "{what}: {ended:?}");
        assert_eq!(rig.count(C::ReadLimitHits), 1, "{what}");
        rig.close(&mut Nobody);
    }
}

#[test]
fn a_head_of_http2_that_comes_slowly_and_in_time_is_answered() {
    let (_world, mut rig) = serving(served);
    let mut client = Frames::begin(&mut rig, 0, &[]);
    for stream in [1, 3, 5, 7, 9] {
        let whole = [
            frame(HEADERS, END_STREAM, stream, &[0x82, 0x86, 0x04]),
            frame(CONTINUATION, 0, stream, &[2, b'/', b'a']),
            frame(CONTINUATION, END_HEADERS, stream, &[0x01, 1, b'x']),
        ]
        .concat();
        for part in whole.chunks(whole.len().div_ceil(4)) {
            client.say(part);
            rig.wait(1000 * MS);
        }
        assert_eq!(data(&client.hear(&mut rig), stream), b"hello from /a");
        rig.wait(10_000 * MS);
    }
    assert!(ends_after(&mut rig, &client.peer, b"", 20).is_some(), "then it is idle");
    assert_eq!((rig.count(C::ReadLimitHits), rig.count(C::IdleLimitHits)), (0, 1));
    rig.close(&mut Nobody);
}

/// Answers that leave slowly, in both versions, because of their reader.
#[test]
fn a_slow_reader_has_its_answer() {
    const PIECES: usize = 30;
    let (_world, mut rig) = serving(|| {
        corelane_hyper::serve(|_here, _peer| {
            service_fn(|_request: Request<Incoming>| {
                let body = Pieces { left: PIECES, made: Rc::new(Cell::new(0)) };
                async { Ok::<Response<_>, Error>(Response::new(body.map_err(|never| match never {}))) }
            })
        })
    });
    let (peer, client) = (rig.connect(0), Frames::begin(&mut rig, 1, &[(4, 1 << 20)]));
    peer.send(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    let window = frame(8, 0, 0, &(1_u32 << 20).to_be_bytes());
    client.say(&[window, get(1, "/")].concat());
    let mut got = [0, 0];
    for _ in 0..100 {
        for (got, peer) in got.iter_mut().zip([&peer, &client.peer]) {
            *got += peer.read(6_000).len();
        }
        rig.wait(1000 * MS);
    }
    assert!(got.iter().all(|got| *got > PIECES * crate::simulated::PIECE), "{got:?}");
    assert_eq!((rig.count(C::AnswerLimitHits), rig.count(C::SendLimitHits)), (0, 0));
    rig.close(&mut Nobody);
}

/// Says a word every few seconds, on the lane's clock.
struct Words {
    here: corelane_hyper::Here,
    sleep: Option<Pin<Box<corelane_hyper::Sleep>>>,
    left: usize,
}

impl Body for Words {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let here = self.here.clone();
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(here.sleep(seconds(6))));
        std::task::ready!(sleep.as_mut().poll(context));
        self.sleep = None;
        self.left -= 1;
        Poll::Ready((self.left > 0).then(|| Ok(Frame::data(Bytes::from_static(b"word")))))
    }
}

/// An answer that goes on for long, a few bytes at a time, goes on.
#[test]
fn an_answer_that_goes_on_may_take_longer_than_any_limit() {
    let (_world, mut rig) = serving(|| {
        corelane_hyper::serve(|here, _peer| {
            let here = here.clone();
            service_fn(move |_request: Request<Incoming>| {
                let words = Words { here: here.clone(), sleep: None, left: 10 };
                async { Ok::<Response<_>, Error>(Response::new(words.map_err(|never| match never {}))) }
            })
        })
    });
    let (peer, mut client) = (rig.connect(0), Frames::begin(&mut rig, 1, &[]));
    peer.send(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    client.say(&get(1, "/"));
    rig.wait(70_000 * MS);
    let came = client.hear(&mut rig);
    assert_eq!((data(&came, 1), has_ended(&came, 1)), (b"word".repeat(9), true));
    assert_eq!(rig.hear(&peer).matches("word").count(), 9);
    assert_eq!(rig.count(C::AnswerLimitHits), 0);
    rig.close(&mut Nobody);
}
