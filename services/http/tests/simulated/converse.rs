//! Content and its answer side by side: what a client does not read is not written, and what has no room is not read.

use super::rig::{MS, Peer, Rig, RigPlan, S, Status, patient};
use super::shop::{Shop, TALK_BYTES};
use corelane::admin::watch::{LaneCounter, ServiceCounter as C};
use corelane::service::Limits;
use corelane::testing::{Faults, Nobody, World};
use corelane_http::Http;
use corelane_http::http1::{Answer, Body, Limits as HeadLimits, Method, Part, Responses, Scratch};
use std::time::Duration;

/// More than a connection may hold: what was read and not answered, and what was answered and not taken.
const HELD_MAX: u64 = 2 * (256 << 10) + (256 << 10);
const NOW: &str = "GET /now/5 HTTP/1.1\r\nHost: a\r\n\r\n";

fn rig(limits: Limits) -> Rig {
    let world = World::new(1, Faults::none());
    Rig::serving(&world, &RigPlan::lanes(1).memory(16 << 20), limits, |_| Http::new(Shop::default()))
}

fn byte(at: usize) -> u8 {
    (at * 7 + (at >> 13)) as u8
}

/// A client that says so many bytes, and hears them again.
struct Client {
    peer: Peer,
    said: usize,
    waiting: Vec<u8>,
    heard: usize,
    /// What was not told apart yet, and the rest of the answer once its head is there.
    unread: Vec<u8>,
    body: Option<Body>,
}

impl Client {
    fn begin(rig: &mut Rig, number: usize, framing: &str) -> Self {
        let peer = rig.connect(number);
        rig.wait(MS);
        let waiting = format!("PUT /talk HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n").into_bytes();
        Self { peer, said: 0, waiting, heard: 0, unread: Vec::new(), body: None }
    }

    /// Says as much as is taken of so many bytes in all.
    fn say(&mut self, bytes: usize) {
        let room = (64_usize << 10).saturating_sub(self.waiting.len());
        let more = bytes.saturating_sub(self.said).min(room);
        self.waiting.extend((self.said..self.said + more).map(byte));
        self.said += more;
        let taken = self.peer.send(&self.waiting);
        self.waiting.drain(..taken);
    }

    fn hear(&mut self) {
        self.unread.extend(self.peer.read(usize::MAX));
        if self.body.is_none() {
            let mut scratch = Scratch::new();
            let Ok(Answer::Response { head, bytes }) = Responses::new(HeadLimits::default()).next(&self.unread, &mut scratch)
            else {
                return;
            };
            assert_eq!(head.status.code(), 200);
            self.body = Some(Body::new(head.framing(Method::Put), TALK_BYTES).unwrap());
            self.unread.drain(..bytes);
        }
        while let Some(taken) = self.hear_part() {
            self.unread.drain(..taken);
        }
    }

    /// Bytes of the next part; none if nothing whole is there.
    fn hear_part(&mut self) -> Option<usize> {
        let body = self.body.as_mut().filter(|body| !body.is_ended())?;
        match body.next(&self.unread).unwrap() {
            Part::Data(range) => {
                let bytes = &self.unread[range.clone()];
                assert!(bytes.iter().enumerate().all(|(at, one)| *one == byte(self.heard + at)), "behind {}", self.heard);
                self.heard += range.len();
                Some(range.end)
            }
            Part::Trailers(range) => Some(range.end),
            Part::End(drop) => Some(drop),
            Part::More(drop) => {
                self.unread.drain(..drop);
                None
            }
        }
    }

    /// Says all of so many bytes, and hears them.
    fn go_on(&mut self, rig: &mut Rig, bytes: usize) {
        while !self.has_heard_all() {
            self.hear();
            self.say(bytes);
            rig.wait(MS);
        }
        assert_eq!(self.heard, bytes);
    }

    fn has_heard_all(&self) -> bool {
        self.body.as_ref().is_some_and(Body::is_ended)
    }
}

fn assert_others_are_served(rig: &mut Rig, number: usize) {
    let other = rig.connect(number);
    rig.wait(MS);
    assert!(rig.ask(&other, NOW).starts_with("HTTP/1.1 200 "));
    other.close();
}

#[test]
fn an_upload_without_an_end_comes_back_in_bounded_memory() {
    const BYTES: usize = 32 << 20;
    let mut rig = rig(patient());
    let mut client = Client::begin(&mut rig, 1, &format!("Content-Length: {BYTES}"));
    while !client.has_heard_all() {
        client.say(BYTES);
        rig.wait(MS);
        client.hear();
        let used = rig.lane_count(LaneCounter::MemoryUsed);
        assert!(used <= HELD_MAX, "{used} bytes are held behind {}", client.heard);
    }
    assert_eq!((client.heard, client.said), (BYTES, BYTES));
    assert!(client.unread.is_empty() && rig.ask(&client.peer, NOW).starts_with("HTTP/1.1 200 "), "the connection goes on");
    client.peer.close();
    rig.wait(5 * MS);
    assert_eq!((rig.connections(), rig.lane_count(LaneCounter::MemoryUsed)), (0, 0));
}

#[test]
fn who_reads_nothing_is_not_read_and_goes_on_where_it_stood() {
    const BYTES: usize = 8 << 20;
    let mut rig = rig(patient());
    let mut client = Client::begin(&mut rig, 1, &format!("Content-Length: {BYTES}"));
    for round in 0..200 {
        client.say(BYTES);
        rig.wait(MS);
        if round % 50 == 0 {
            assert_others_are_served(&mut rig, 10 + round);
        }
    }
    let (said, used) = (client.said, rig.lane_count(LaneCounter::MemoryUsed));
    assert!(said < BYTES / 2 && used <= HELD_MAX, "{said} bytes were taken of who reads nothing, {used} are held");
    client.go_on(&mut rig, BYTES);
}

/// While nobody takes what was answered, the content is not read: that is no time in which the client was to send it.
#[test]
fn time_without_a_reader_is_no_time_of_the_content() {
    const BYTES: usize = 8 << 20;
    let mut rig = rig(patient().read_limit(Duration::from_secs(5)).send_limit(Duration::from_secs(600)));
    let mut client = Client::begin(&mut rig, 1, &format!("Content-Length: {BYTES}"));
    for _ in 0..3 {
        for _ in 0..50 {
            client.say(BYTES);
            rig.wait(MS);
        }
        rig.wait(12 * S);
        let heard = client.heard;
        while client.heard < heard + BYTES / 4 {
            client.hear();
            // What has come so far is answered before more comes.
            rig.wait(MS);
            client.say(BYTES);
            rig.wait(MS);
        }
    }
    client.go_on(&mut rig, BYTES);
}

#[test]
fn who_sends_nothing_hears_the_head_and_is_given_up() {
    let mut rig = rig(patient().read_limit(Duration::from_secs(20)));
    let mut silent = Client::begin(&mut rig, 1, "Content-Length: 1000");
    let mut falls_silent = Client::begin(&mut rig, 2, "Transfer-Encoding: chunked");
    silent.say(0);
    falls_silent.waiting.extend_from_slice(b"5\r\n");
    falls_silent.say(5);
    rig.wait(S);
    [&mut silent, &mut falls_silent].into_iter().for_each(Client::hear);
    assert!(silent.body.is_some() && silent.heard == 0, "the answer has begun");
    assert_eq!((falls_silent.heard, rig.connections()), (5, 2));
    rig.wait(25 * S);
    assert_eq!((rig.connections(), rig.count(C::EndingsAborted), rig.lane_count(LaneCounter::MemoryUsed)), (0, 2, 0));
    let other = rig.connect(3);
    rig.wait(MS);
    assert!(rig.ask(&other, "GET /gone HTTP/1.1\r\nHost: a\r\n\r\n").ends_with("\r\n\r\n2"), "both exchanges were told");
}

#[test]
fn content_that_is_refused_breaks_off_the_answer_that_has_begun() {
    let mut rig = rig(patient());
    for (number, wrong) in ["5\r\nhello\r\nno size\r\n", "5\r\nhello\r\n40000001\r\n"].into_iter().enumerate() {
        let peer = rig.connect(number);
        rig.wait(MS);
        let begun = rig.ask(&peer, "PUT /talk HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert!(begun.starts_with("HTTP/1.1 200 OK\r\n"), "{begun}");
        rig.ask(&peer, wrong);
        assert!(matches!(peer.status(), Status::Failed(_)), "{wrong}: {:?}", peer.status());
    }
    assert_eq!((rig.named("contents_refused"), rig.named("answers_cut_short")), (2, 2));
}

#[test]
fn who_waits_to_be_told_is_told_before_the_answer_begins() {
    let mut rig = rig(patient());
    let peer = rig.connect(1);
    rig.wait(MS);
    let said = rig.ask(&peer, "PUT /talk HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    assert!(said.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"), "{said}");
    assert_eq!(rig.ask(&peer, "talk"), "4\r\ntalk\r\n0\r\n\r\n");
    // Without content there is nothing to be told.
    let said = rig.ask(&peer, "PUT /talk HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n");
    assert!(said.starts_with("HTTP/1.1 200 OK\r\n") && said.ends_with("\r\n\r\n0\r\n\r\n"), "{said}");
}

#[test]
fn an_answer_that_ends_before_its_content_is_whole_and_the_rest_passed_over() {
    let mut rig = rig(patient());
    let peer = rig.connect(1);
    rig.wait(MS);
    let said = rig.ask(&peer, "PUT /talk/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello");
    assert!(said.ends_with("\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), "{said}");
    let said = rig.ask(&peer, &format!("other{NOW}"));
    assert!(said.starts_with("HTTP/1.1 200 OK\r\n"), "{said}");
    assert_eq!(rig.named("contents_unwanted"), 1);
}

/// As of any request nothing is read of it that was not readable as the drain began.
#[test]
fn a_drain_answers_what_had_come_and_cuts_the_answer_short() {
    const BYTES: usize = 1 << 20;
    let mut rig = rig(patient());
    let mut client = Client::begin(&mut rig, 1, &format!("Content-Length: {BYTES}"));
    client.say(60_000);
    rig.wait(50 * MS);
    rig.begin_drain();
    client.say(BYTES);
    rig.wait(S);
    client.hear();
    assert_eq!((client.heard, client.has_heard_all(), client.peer.status()), (60_000, false, Status::Ended));
    rig.close(&mut Nobody);
}
