//! HTTP/2 peers that mean no good: what they cost is bounded, and others are served meanwhile.

use crate::simulated::frames::{
    ACK, CONTINUATION, Came, DATA, END_HEADERS, END_STREAM, Frames, HEADERS, PADDED, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE,
    data, frame, get, goaway, post,
};
use crate::simulated::{PIECE, Pieces, rig, served};
use corelane::admin::watch::{LaneCounter, ServiceCounter};
use corelane::aio;
use corelane::testing::{Faults, MS, Nobody, Peer, Rig, RigPlan, Status, World, patient};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Error, Request, Response};
use std::cell::Cell;
use std::rc::Rc;

const ENHANCE_YOUR_CALM: u32 = 0xb;

/// Somebody else asks, and is answered within some milliseconds.
fn asks(rig: &mut Rig, other: &Peer) {
    let answer = rig.ask(other, "GET /other HTTP/1.1\r\nhost: x\r\n\r\n");
    assert!(answer.ends_with("hello from /other"), "{answer}");
}

fn other(rig: &mut Rig) -> Peer {
    let other = rig.connect(9);
    rig.wait(MS);
    asks(rig, &other);
    other
}

/// Says this again and again, as much as is taken, until it is told to go or has said `most` bytes; returns what came, and how much was said.
fn flood(rig: &mut Rig, client: &mut Frames, other: &Peer, most: usize, mut next: impl FnMut() -> Vec<u8>) -> (Vec<Came>, usize) {
    let (mut came, mut said, mut waiting) = (Vec::new(), 0, Vec::new());
    while said < most && client.peer.status() == Status::Open {
        while waiting.len() < 64 << 10 {
            waiting.extend(next());
        }
        let taken = client.peer.send(&waiting);
        waiting.drain(..taken);
        said += taken;
        asks(rig, other);
        came.extend(client.hear(rig));
        assert!(rig.lane_count(LaneCounter::MemoryUsed) < 1 << 20, "{} bytes are held", rig.lane_count(LaneCounter::MemoryUsed));
    }
    (came, said)
}

#[test]
fn streams_that_are_opened_and_reset_at_once_end_their_connection() {
    let (_world, mut rig) = rig(served);
    let other = other(&mut rig);
    let mut client = Frames::begin(&mut rig, 0, &[]);
    let mut stream = 1;
    let (came, said) = flood(&mut rig, &mut client, &other, 16 << 20, || {
        stream += 2;
        [get(stream - 2, "/wait"), frame(RST_STREAM, 0, stream - 2, &[0, 0, 0, 8])].concat()
    });
    assert!(goaway(&came).is_some_and(|(_, why)| why == ENHANCE_YOUR_CALM), "{said} bytes of resets were taken: {came:?}");
    asks(&mut rig, &other);
    rig.close(&mut Nobody);
}

#[test]
fn a_head_that_never_ends_ends_its_connection() {
    let (_world, mut rig) = rig(served);
    let other = other(&mut rig);
    let mut client = Frames::begin(&mut rig, 0, &[]);
    client.say(&frame(HEADERS, END_STREAM, 1, &[0x82]));
    // A field that is not kept, again and again: `a: b`.
    let fields = [0x00, 1, b'a', 1, b'b'].repeat(3000);
    let (came, said) = flood(&mut rig, &mut client, &other, 64 << 20, || frame(CONTINUATION, 0, 1, &fields));
    assert!(goaway(&came).is_some() && said < 1 << 20, "{said} bytes of a head were taken: {came:?}");
    asks(&mut rig, &other);
    rig.close(&mut Nobody);
}

#[test]
fn who_floods_with_settings_or_pings_and_reads_no_answer_is_not_read() {
    for (kind, payload) in [(SETTINGS, &[0, 4, 0, 0, 255, 255][..]), (PING, &[7; 8])] {
        let (_world, mut rig) = rig(served);
        let other = other(&mut rig);
        let client = Frames::begin(&mut rig, 0, &[]);
        rig.wait(MS);
        let flood = frame(kind, 0, 0, payload).repeat(5000);
        let (mut said, mut rounds) = (0, 0);
        while rounds < 200 {
            let taken = client.peer.send(&flood);
            (said, rounds) = (said + taken, rounds + 1);
            // There is room for no more whole frames.
            if !taken.is_multiple_of(9 + payload.len()) {
                break;
            }
            asks(&mut rig, &other);
        }
        let used = rig.lane_count(LaneCounter::MemoryUsed);
        assert!(used < 2 << 20, "{used} bytes are held for {said} of kind {kind}");
        asks(&mut rig, &other);
        client.peer.reset();
        rig.close(&mut Nobody);
    }
}

#[test]
fn who_floods_with_settings_and_reads_the_answers_silences_nobody() {
    let (_world, mut rig) = rig(served);
    let other = other(&mut rig);
    let mut client = Frames::begin(&mut rig, 0, &[]);
    let (came, said) = flood(&mut rig, &mut client, &other, 4 << 20, || frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 255, 255]));
    let acknowledged = came.iter().filter(|frame| frame.kind == SETTINGS && frame.flags == ACK).count();
    println!("{acknowledged} settings of {} were taken", said / 15);
    assert!(acknowledged > 0);
    client.peer.reset();
    asks(&mut rig, &other);
    rig.close(&mut Nobody);
}

/// Frames that mean nothing, or nearly nothing, as many as are taken.
#[test]
fn who_floods_with_frames_that_mean_nothing_silences_nobody() {
    const PRIORITY: u8 = 2;
    const UNKNOWN: u8 = 0x7f;
    let open = post(1, "/sum");
    for (what, begin, next, ends) in [
        ("data without bytes", open.clone(), frame(DATA, 0, 1, &[]), true),
        ("data that is padding alone", open.clone(), frame(DATA, PADDED, 1, &[&[200][..], &[0; 200]].concat()), true),
        ("windows opened by a byte", open.clone(), frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]), false),
        ("priorities", open, frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 7]), false),
        ("frames of no kind", Vec::new(), frame(UNKNOWN, 0, 0, &[7; 100]), false),
    ] {
        let (_world, mut rig) = rig(served);
        let other = other(&mut rig);
        let mut client = Frames::begin(&mut rig, 0, &[]);
        client.say(&begin);
        let (came, said) = flood(&mut rig, &mut client, &other, 1 << 20, || next.clone());
        let calmed = goaway(&came).map(|(_, why)| why);
        assert_eq!(calmed, ends.then_some(ENHANCE_YOUR_CALM), "{what}: {said} bytes were taken");
        client.peer.reset();
        asks(&mut rig, &other);
        rig.close(&mut Nobody);
    }
}

/// A field of 3,000 bytes that is kept once, and named by one byte again and again: heads of some 16 KiB that stand for 48 MB.
#[test]
fn a_head_that_stands_for_very_much_is_refused() {
    const INDEX_OF_THE_FIRST_KEPT: u8 = 0x80 | 62;
    let (_world, mut rig) = rig(served);
    let other = other(&mut rig);
    let mut client = Frames::begin(&mut rig, 0, &[]);
    // HPACK (RFC 7541): a field to be kept, with a new name, both as they are; lengths of over 126 in several bytes.
    let kept = [&[0x40, 1, b'a', 0x7f][..], &[0x80 | (2_873 & 0x7f) as u8, (2_873 >> 7) as u8], &[b'b'; 3_000]].concat();
    let mut stream = 1;
    let mut first = get(1, "/kept");
    let length = (first.len() - 9 + kept.len()) as u32;
    first[..3].copy_from_slice(&length.to_be_bytes()[1..]);
    client.say(&[first, kept].concat());
    let came = client.hear(&mut rig);
    assert_eq!(data(&came, 1), b"hello from /kept");
    let bomb = |stream: u32| {
        let block = [&get(stream, "/bomb")[9..], &[INDEX_OF_THE_FIRST_KEPT; 16_000]].concat();
        frame(HEADERS, END_STREAM | END_HEADERS, stream, &block)
    };
    let (came, said) = flood(&mut rig, &mut client, &other, 1 << 20, || {
        stream += 2;
        bomb(stream)
    });
    assert!(came.iter().all(|frame| frame.kind != DATA), "none was served: {said} bytes were taken");
    client.peer.reset();
    asks(&mut rig, &other);
    rig.close(&mut Nobody);
}

/// 128 streams, of each a gigabyte is asked for, and no window is ever opened.
#[test]
fn an_answer_for_which_no_window_is_opened_is_not_made() {
    let made = Rc::new(Cell::new(0));
    let count = made.clone();
    let (_world, mut rig) = rig(move || endless(count.clone()));
    let mut client = Frames::begin(&mut rig, 0, &[(4, 0)]);
    let mut closed = Frames::begin(&mut rig, 1, &[]);
    for stream in 0..128 {
        client.say(&get(2 * stream + 1, "/"));
        closed.say(&get(2 * stream + 1, "/"));
    }
    for _ in 0..10 {
        client.hear(&mut rig);
        closed.hear(&mut rig);
    }
    // The first opens no window at all, the second none beyond the connection's first 64 KiB.
    let bytes = made.get() * PIECE;
    assert!(bytes <= 128 * 2 * PIECE + (64 << 10), "{bytes} bytes were made for who takes none");
    assert!(rig.lane_count(LaneCounter::MemoryUsed) < 1 << 20);
    [client, closed].iter().for_each(|client| client.peer.reset());
    rig.close(&mut Nobody);
}

/// All windows are open, and nothing is read from the socket.
#[test]
fn an_answer_that_nobody_reads_is_made_as_far_as_there_is_room() {
    const STREAMS: u32 = 200;
    const WINDOW_MAX: u32 = (1 << 31) - 1;
    let made = Rc::new(Cell::new(0));
    let count = made.clone();
    let (_world, mut rig) = rig(move || endless(count.clone()));
    let client = Frames::begin(&mut rig, 0, &[(4, WINDOW_MAX)]);
    client.say(&frame(WINDOW_UPDATE, 0, 0, &(WINDOW_MAX - 65_535).to_be_bytes()));
    for stream in 0..STREAMS {
        client.say(&get(2 * stream + 1, "/"));
        rig.wait(MS);
    }
    rig.wait(100 * MS);
    let bytes = made.get() * PIECE;
    // hyper makes a piece of each, and the next when that has left; the lane and the network have some.
    assert!(bytes <= STREAMS as usize * PIECE + (2 << 20), "{bytes} bytes were made for who reads none");
    assert!(bytes > 1 << 20, "only {bytes} bytes were made");
    client.peer.reset();
    rig.close(&mut Nobody);
}

/// A gigabyte for everybody who asks.
fn endless(made: Rc<Cell<usize>>) -> aio::Serve {
    corelane_hyper::serve(move |_here, _peer| {
        let made = made.clone();
        service_fn(move |_request: Request<Incoming>| {
            let body = Pieces { left: (1 << 30) / PIECE, made: made.clone() };
            async { Ok::<Response<_>, Error>(Response::new(body.map_err(|never| match never {}))) }
        })
    })
}

/// A client that never lets any answer leave asks for much on many connections, and says a PING now and then. It gets its share of the lane's tasks, and who
/// comes anew from its address is served all the same.
#[test]
fn streams_that_nobody_reads_leave_tasks_to_others() {
    let world = World::new(1, Faults::none());
    let mut plan = RigPlan::lanes(1);
    plan.settings = plan.settings.tasks_max(2_000);
    let mut rig = Rig::serving(&world, &plan, patient(), |_lane| served());
    let asks_for_much: Vec<u8> = (0..100).flat_map(|number| get(1 + 2 * number, "/much")).collect();
    let come = |rig: &mut Rig| {
        // No window at all (RFC 9113, section 6.5.2).
        let client = Frames::begin(rig, 0, &[(4, 0)]);
        client.say(&asks_for_much);
        client
    };
    let mut attackers: Vec<Frames> = (0..40).map(|_| come(&mut rig)).collect();
    for round in 0..50 {
        rig.wait(20 * MS);
        for attacker in &mut attackers {
            match attacker.peer.status() {
                Status::Open => drop(attacker.peer.send(&frame(PING, 0, 0, &[7; 8]))),
                _ => *attacker = come(&mut rig),
            }
        }
        for number in [9, 0] {
            let client = rig.connect(number);
            rig.wait(MS);
            let answer = rig.ask(&client, "GET /other HTTP/1.1\r\nhost: x\r\n\r\n");
            assert!(answer.ends_with("hello from /other"), "client {number} in round {round}: {answer:?} {:?}", client.status());
            client.close();
        }
    }
    assert!(rig.lane_count(LaneCounter::TasksMaxHits) > 0 && rig.count(ServiceCounter::ShareEndings) > 0);
    attackers.iter().for_each(|attacker| attacker.peer.reset());
    rig.close(&mut Nobody);
}
