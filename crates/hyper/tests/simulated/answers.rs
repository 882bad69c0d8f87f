//! Answers as clients hear them: whole, as they were made, and in their time.

use crate::simulated::frames::{DATA, END_STREAM, Frames, HEADERS, get};
use crate::simulated::{rig, served};
use corelane::aio;
use corelane::service::ServiceCounter;
use corelane::testing::{Faults, MS, Nobody, Peer, Rig, RigPlan, S, Status, World, patient};
use corelane_hyper::Here;
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

const PIECES: usize = 8;
const PIECE_BYTES: usize = 200_000;

fn byte(at: usize) -> u8 {
    (at * 3 + (at >> 11)) as u8
}

/// Pieces, each some time after the one before it.
struct Numbered {
    here: Here,
    pause: Duration,
    sleep: Pin<Box<corelane_hyper::Sleep>>,
    made: usize,
    bytes: usize,
}

impl Numbered {
    fn new(here: Here, pause: Duration, bytes: usize) -> Self {
        let sleep = Box::pin(here.sleep(pause));
        Self { here, pause, sleep, made: 0, bytes }
    }
}

impl hyper::body::Body for Numbered {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.made == PIECES {
            return Poll::Ready(None);
        }
        std::task::ready!(self.sleep.as_mut().poll(context));
        self.sleep = Box::pin(self.here.sleep(self.pause));
        let from = self.made * self.bytes;
        self.made += 1;
        Poll::Ready(Some(Ok(Frame::data((from..from + self.bytes).map(byte).collect()))))
    }
}

/// Answers everybody with such pieces.
fn numbered(pause: Duration, bytes: usize) -> aio::Serve {
    corelane_hyper::serve(move |here, _peer| {
        let here = here.clone();
        service_fn(move |_request: Request<Incoming>| {
            let body = Numbered::new(here.clone(), pause, bytes);
            async { Ok::<_, Infallible>(Response::new(body)) }
        })
    })
}

/// The content of an answer in chunks, if it is whole.
fn chunked(answer: &[u8]) -> Option<Vec<u8>> {
    let begin = answer.windows(4).position(|at| at == b"\r\n\r\n")? + 4;
    let (mut rest, mut content) = (&answer[begin..], Vec::new());
    loop {
        let line = rest.windows(2).position(|at| at == b"\r\n")?;
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        let (chunk, behind) = rest.get(line + 2..)?.split_at_checked(length)?;
        content.extend_from_slice(chunk);
        rest = behind.strip_prefix(b"\r\n")?;
        if length == 0 {
            return Some(content);
        }
    }
}

#[test]
fn a_long_answer_is_what_was_made_however_slowly_it_is_read() {
    let world = World::new(1, Faults::none());
    let limits = patient().output_high(64 << 10);
    let mut rig = Rig::serving(&world, &RigPlan::lanes(1), limits, |_lane| numbered(Duration::ZERO, PIECE_BYTES));
    let peer = rig.connect(0);
    rig.wait(MS);
    peer.send(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    let mut answer = Vec::new();
    while chunked(&answer).is_none() {
        rig.wait(10 * MS);
        let bytes = peer.read(100_003);
        assert!(!bytes.is_empty(), "it goes on behind {}", answer.len());
        answer.extend(bytes);
    }
    let expected: Vec<u8> = (0..PIECES * PIECE_BYTES).map(byte).collect();
    assert!(chunked(&answer).unwrap() == expected, "another answer than was made");
    rig.close(&mut Nobody);
}

#[test]
fn an_answer_that_is_being_made_is_made_to_its_end_though_the_lane_drains() {
    let (_world, mut rig) = rig(|| numbered(Duration::from_secs(1), 10));
    let peer = rig.connect(0);
    rig.wait(MS);
    peer.send(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    rig.wait(2500 * MS);
    rig.begin_drain();
    rig.wait(10 * S);
    let content = chunked(&peer.read(usize::MAX));
    assert_eq!((content.map(|content| content.len()), peer.status()), (Some(PIECES * 10), Status::Ended));
    rig.close(&mut Nobody);
}

/// Says one piece, and fails.
struct Failing(bool);

impl hyper::body::Body for Failing {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match std::mem::replace(&mut self.0, true) {
            false => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"half"))))),
            true => Poll::Ready(Some(Err(std::io::Error::other("it fails")))),
        }
    }
}

#[test]
fn half_an_answer_has_no_clean_end() {
    for version in ["1.0", "1.1"] {
        let failing = |_request: Request<Incoming>| async { Ok::<_, Infallible>(Response::new(Failing(false))) };
        let (_world, mut rig) = rig(move || corelane_hyper::serve(move |_here, _peer| service_fn(failing)));
        let peer = rig.connect(0);
        rig.wait(MS);
        rig.ask(&peer, &format!("GET / HTTP/{version}\r\nhost: x\r\n\r\n"));
        assert!(matches!(peer.status(), Status::Failed(_)), "HTTP/{version}: {:?}", peer.status());
        rig.close(&mut Nobody);
    }
}

#[test]
fn an_answer_without_content_ends_with_its_head() {
    let (_world, mut rig) = rig(served);
    let mut client = Frames::begin(&mut rig, 0, &[]);
    client.say(&get(1, "/nothing"));
    let came = client.hear(&mut rig);
    let head = came.iter().find(|frame| frame.kind == HEADERS && frame.stream == 1).unwrap();
    assert!(head.flags & END_STREAM != 0 && came.iter().all(|frame| frame.kind != DATA), "{came:?}");
    client.peer.reset();
    rig.close(&mut Nobody);
}

fn asks(rig: &mut Rig, peer: &Peer) {
    let answer = rig.ask(peer, "GET /a HTTP/1.1\r\nhost: x\r\n\r\n");
    assert!(answer.ends_with("hello from /a"), "{answer}");
}

#[test]
fn each_head_has_its_time_and_no_more_and_each_request_is_counted() {
    let (world, limits) = (World::new(1, Faults::none()), patient().read_limit(Duration::from_secs(30)));
    let mut rig = Rig::serving(&world, &RigPlan::lanes(1), limits, |_lane| served());
    let [patient, stuck] = [rig.connect(0), rig.connect(1)];
    rig.wait(MS);
    for _ in 0..3 {
        // The time of one head says nothing of the next one's.
        assert_eq!(rig.ask(&patient, "GET /a HT"), "");
        rig.wait(20 * S);
        let answer = rig.ask(&patient, "TP/1.1\r\nhost: x\r\n\r\n");
        assert!(answer.ends_with("hello from /a"), "{answer}");
    }
    asks(&mut rig, &patient);
    asks(&mut rig, &stuck);
    assert_eq!(rig.count(ServiceCounter::Requests), 5);
    assert_eq!(rig.ask(&stuck, "GET /a HT"), "");
    rig.wait(25 * S);
    assert_eq!(stuck.status(), Status::Open);
    rig.wait(10 * S);
    assert_eq!(stuck.status(), Status::Ended);
    rig.close(&mut Nobody);
}
