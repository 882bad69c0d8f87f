//! Drains: who has asked is answered and told that no more is taken.

use crate::simulated::frames::{self, Frames, data, get, goaway, has_ended};
use crate::simulated::{rig, served};
use corelane::testing::{MS, Nobody, Peer, Rig, S, Status, Turn, World};

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")
}

fn heard(peer: &Peer) -> String {
    String::from_utf8_lossy(&peer.read(usize::MAX)).into_owned()
}

fn client(rig: &mut Rig, number: usize) -> Peer {
    let peer = rig.connect(number);
    rig.wait(MS);
    assert!(rig.ask(&peer, &request("/first")).ends_with("hello from /first"));
    peer
}

#[test]
fn a_request_in_hand_is_answered_and_its_client_told_that_it_was_the_last() {
    let (_world, mut rig) = rig(served);
    let [busy, idle] = [client(&mut rig, 0), client(&mut rig, 1)];
    assert_eq!(rig.ask(&busy, &request("/wait")), "");
    rig.begin_drain();
    rig.wait(100 * MS);
    assert_eq!((idle.status(), busy.status()), (Status::Ended, Status::Open));
    rig.wait(S);
    let answer = heard(&busy);
    assert!(answer.contains("connection: close") && answer.ends_with("waited"), "{answer}");
    assert_eq!(busy.status(), Status::Ended);
    rig.close(&mut Nobody);
}

/// Who is told with an answer that it is the last asks the other process next, and loses nothing by the drain that follows.
#[test]
fn when_another_process_has_taken_over_the_next_answer_is_the_last_and_says_so() {
    let (_world, mut rig) = rig(served);
    let [kept, busy] = [client(&mut rig, 0), client(&mut rig, 1)];
    let mut frames = Frames::begin(&mut rig, 2, &[]);
    assert_eq!(rig.ask(&busy, &request("/wait")), "");
    rig.hand_over();
    rig.wait(100 * MS);
    assert_eq!((kept.status(), busy.status()), (Status::Open, Status::Open), "nobody is cut");
    let answer = rig.ask(&kept, &request("/next"));
    assert!(answer.contains("connection: close") && answer.ends_with("hello from /next"), "{answer}");
    rig.wait(S);
    let answer = heard(&busy);
    assert!(answer.contains("connection: close") && answer.ends_with("waited"), "{answer}");
    assert_eq!((kept.status(), busy.status()), (Status::Ended, Status::Ended));
    let came = frames.hear(&mut rig);
    assert!(goaway(&came).is_some_and(|(_, why)| why == 0), "{came:?}");
    rig.close(&mut Nobody);
}

/// The body of a request comes on while the lane drains.
#[test]
fn a_request_whose_body_is_under_way_is_answered_to_its_end() {
    let (_world, mut rig) = rig(served);
    let peer = client(&mut rig, 0);
    assert_eq!(rig.ask(&peer, "POST /sum HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n12345"), "");
    rig.begin_drain();
    rig.wait(100 * MS);
    let answer = rig.ask(&peer, "67890");
    assert!(answer.contains("connection: close") && answer.ends_with("\r\n\r\n10"), "{answer}");
    rig.close(&mut Nobody);
}

/// Has the drain begin as the lane is about to look at what has come.
fn drain_at_news(world: &World, rig: &mut Rig) {
    loop {
        match world.step() {
            Some(Turn::Lane(lane)) => {
                rig.begin_drain();
                assert_eq!(rig.turn(lane), Some(0));
                return;
            }
            turn => assert!(turn.is_some(), "news are on their way"),
        }
    }
}

#[test]
fn what_was_readable_as_the_drain_began_is_answered() {
    let (world, mut rig) = rig(served);
    let [known, silent] = [client(&mut rig, 0), client(&mut rig, 1)];
    let three = [request("/one"), request("/wait"), request("/three")].concat();
    assert_eq!(known.send(three.as_bytes()), three.len());
    drain_at_news(&world, &mut rig);
    rig.wait(2 * S);
    let answers = heard(&known);
    let places = ["hello from /one", "waited", "hello from /three"].map(|answer| answers.find(answer));
    assert!(places.is_sorted() && places[0].is_some(), "{answers}");
    assert_eq!((known.status(), silent.status()), (Status::Ended, Status::Ended));
    rig.close(&mut Nobody);
}

#[test]
fn who_waited_to_be_accepted_as_the_drain_began_is_answered() {
    let (world, mut rig) = rig(served);
    rig.wait(MS);
    let new = rig.connect(0);
    drain_at_news(&world, &mut rig);
    rig.wait(MS);
    assert!(rig.ask(&new, &request("/new")).ends_with("hello from /new"));
    assert_eq!(new.status(), Status::Ended);
    rig.close(&mut Nobody);
}

#[test]
fn streams_in_flight_are_answered_and_their_client_is_told_to_go_away() {
    let (_world, mut rig) = rig(served);
    let mut client = Frames::begin(&mut rig, 0, &[]);
    client.say(&[get(1, "/wait"), get(3, "/now"), get(5, "/wait")].concat());
    let mut came = client.hear(&mut rig);
    assert_eq!((data(&came, 3), goaway(&came)), (b"hello from /now".to_vec(), None));
    rig.begin_drain();
    came.extend(client.hear(&mut rig));
    assert!(goaway(&came).is_some_and(|(_, why)| why == 0), "{came:?}");
    // Who has heard that answers its ping: from then on streams are refused.
    let ping = came.iter().find(|frame| frame.kind == frames::PING).unwrap();
    client.say(&frames::frame(frames::PING, frames::ACK, 0, &ping.payload));
    rig.wait(2 * S);
    came.extend(client.hear(&mut rig));
    for stream in [1, 5] {
        assert!(data(&came, stream) == b"waited" && has_ended(&came, stream), "{came:?}");
    }
    assert_eq!((goaway(&came), client.peer.status()), (Some((5, 0)), Status::Ended));
    rig.close(&mut Nobody);
}

#[test]
fn a_client_of_http2_that_asks_nothing_is_told_to_go_away() {
    let (_world, mut rig) = rig(served);
    let mut client = Frames::begin(&mut rig, 0, &[]);
    client.hear(&mut rig);
    rig.begin_drain();
    let came = client.hear(&mut rig);
    let ping = came.iter().find(|frame| frame.kind == frames::PING).unwrap();
    client.say(&frames::frame(frames::PING, frames::ACK, 0, &ping.payload));
    let came = client.hear(&mut rig);
    assert_eq!((goaway(&came), client.peer.status()), (Some((0, 0)), Status::Ended));
    rig.close(&mut Nobody);
}
