//! Peers that speak the test cipher by hand: how handshakes are bounded, how both ends of a stream are told, and what leaves before an end.

use crate::cipher::{self, ALERT, Calls, DATA, END, Key, Manner, PLAIN, PROOF, REPLY, Trap, ciphers, hello, record};
use crate::proxy::Accepting;
use crate::puppet::Stage;
use crate::rig::{Family, MS, Nobody, Play, Rig, RigPlan, S, at};
use crate::veiled::{PROXY, Proxy};
use corelane_lane::Order as Command;
use corelane_seam::{Fault, Reason};
use corelane_sim::{Faults, Peer, Status, Turn, World};
use corelane_svc::{Ending, Limits, Passage, Progress, Side, Transform, TransformError};
use corelane_watch::{LaneCounter, ServiceCounter as C};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

const RESET: Status = Status::Failed(Fault { reason: Reason::Reset, number: 104 });
/// The nonce of clients by hand.
pub const NONCE: u8 = 5;

/// A puppet behind the cipher, and what the ciphers noted.
struct Scene {
    stage: Stage,
    calls: Calls,
}

impl Scene {
    fn new(limits: Limits, manner: Manner) -> Self {
        let calls = Calls::default();
        let world = World::new(1, Faults::none());
        let stage = Stage::with(&world, &RigPlan::lanes(1), limits, ciphers(move |_, _| manner, &calls));
        Self { stage, calls }
    }

    /// Ciphers that panic at `trap` for all but the peer of number 50.
    fn trapped(trap: Trap) -> Self {
        let calls = Calls::default();
        let world = World::new(1, Faults::none());
        let manner = move |_, peer: &corelane_svc::Peer| {
            let is_witness = peer.address.ip() == Some(crate::rig::client(50).ip());
            Manner { trap: Some(trap).filter(|_| !is_witness), ..Manner::default() }
        };
        Self { stage: Stage::with(&world, &RigPlan::lanes(1), Limits::default(), ciphers(manner, &calls)), calls }
    }

    fn count(&self, counter: C) -> u64 {
        self.stage.rig.count(counter)
    }

    fn connect(&mut self, number: usize) -> Hand {
        let peer = self.stage.rig.connect(number);
        self.stage.rig.wait(MS);
        Hand::of(peer)
    }

    /// A connection whose handshake is over.
    fn open(&mut self, number: usize) -> Hand {
        let mut hand = self.connect(number);
        hand.say(&hello(NONCE, "host-a", "echo/1"));
        hand.prove(&mut self.stage.rig);
        hand
    }

    fn close(mut self, unborn: &[Ending]) {
        self.stage.rig.wait(MS);
        self.stage.close_with(unborn);
    }
}

/// A client by hand.
pub struct Hand {
    pub peer: Peer,
    unread: Vec<u8>,
    read: Key,
    write: Key,
}

impl Hand {
    pub fn of(peer: Peer) -> Self {
        Self { peer, unread: Vec::new(), read: Key::default(), write: Key::default() }
    }

    fn say(&self, bytes: &[u8]) {
        assert_eq!(self.peer.send(bytes), bytes.len(), "there is room");
    }

    /// Hears the reply, and shows that it has the key.
    fn prove(&mut self, rig: &mut Rig) {
        let heard = self.hear(rig);
        let [(REPLY, reply)] = &heard[..] else { panic!("a reply, not {heard:?}") };
        let proof = self.agree(reply);
        self.say(&proof);
        rig.wait(5 * MS);
    }

    /// Has the keys from now on; returns what shows that.
    pub fn agree(&mut self, reply: &[u8]) -> Vec<u8> {
        (self.write, self.read) = (Key::of(NONCE, reply[0], Side::Client), Key::of(NONCE, reply[0], Side::Server));
        record(PROOF, &self.write.proof())
    }

    pub fn data(&mut self, text: impl AsRef<[u8]>) -> Vec<u8> {
        let mut bytes = text.as_ref().to_vec();
        self.write.apply(&mut bytes);
        record(DATA, &bytes)
    }

    /// The records that come within some milliseconds; data as they were meant.
    fn hear(&mut self, rig: &mut Rig) -> Vec<(u8, Vec<u8>)> {
        rig.wait(5 * MS);
        self.take()
    }

    /// The records that have come whole.
    pub fn take(&mut self) -> Vec<(u8, Vec<u8>)> {
        self.unread.extend(self.peer.read(usize::MAX));
        let mut heard = Vec::new();
        while self.unread.len() >= 4 {
            let payload = usize::from(u16::from_be_bytes([self.unread[1], self.unread[2]]));
            if self.unread.len() < payload + 4 {
                break;
            }
            let rest = self.unread.split_off(payload + 4);
            let whole = std::mem::replace(&mut self.unread, rest);
            let mut bytes = whole[3..3 + payload].to_vec();
            assert_eq!(record(whole[0], &bytes), whole, "its check is right");
            if whole[0] == DATA {
                self.read.apply(&mut bytes);
            }
            heard.push((whole[0], bytes));
        }
        heard
    }

    fn ask(&mut self, rig: &mut Rig, text: &str) -> String {
        let question = self.data(text);
        self.say(&question);
        let heard = self.hear(rig);
        assert!(heard.iter().all(|(kind, _)| *kind == DATA), "{heard:?}");
        String::from_utf8(heard.into_iter().flat_map(|(_, bytes)| bytes).collect()).unwrap()
    }
}

const LAST: (u8, Vec<u8>) = (END, Vec::new());

#[test]
fn whoever_speaks_plainly_is_told_so_plainly() {
    let mut scene = Scene::new(Limits::default(), Manner::default());
    let hand = scene.connect(1);
    hand.say(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n");
    scene.stage.rig.wait(5 * MS);
    assert_eq!((hand.peer.read(usize::MAX), hand.peer.status()), (PLAIN.to_vec(), Status::Ended));
    assert!(scene.stage.rig.reports.borrow()[0].text.contains("it speaks plainly"));
    hand.peer.close();
    assert_eq!((scene.count(C::TransformRefusals), scene.count(C::HandshakesFailed)), (1, 1));
    scene.close(&[Ending::Aborted]);
}

#[test]
fn what_a_cipher_says_as_it_refuses_leaves_before_the_end() {
    let mut scene = Scene::new(Limits::default(), Manner::default());
    let refusals = [
        (hello(NONCE, "nobody", "echo/1"), cipher::NO_SUCH_NAME),
        (hello(NONCE, "host-a", "telepathy/7"), cipher::NO_PROTOCOL),
        (vec![0x80; 9], cipher::BAD_RECORD),
        (record(DATA, b"too early"), cipher::BAD_RECORD),
    ];
    for (number, (said, alert)) in refusals.into_iter().enumerate() {
        let mut hand = scene.connect(number);
        hand.say(&said);
        assert_eq!(hand.hear(&mut scene.stage.rig), [(ALERT, vec![alert])]);
        assert_eq!(hand.peer.status(), Status::Ended, "in order, not with a reset");
        hand.peer.close();
    }
    assert_eq!((scene.count(C::TransformRefusals), scene.count(C::LingerLimitHits)), (4, 0));
    scene.close(&[Ending::Aborted; 4]);
}

#[test]
fn garbage_behind_good_requests_ends_the_session_in_order() {
    let mut scene = Scene::new(Limits::default(), Manner::default());
    let mut hand = scene.open(1);
    assert_eq!(hand.ask(&mut scene.stage.rig, "say on\nhold a\nafter 20 answer a late\nafter 1 say never\n"), "on\n");
    hand.say(&[0xff; 30]);
    assert_eq!(hand.hear(&mut scene.stage.rig), [(ALERT, vec![cipher::BAD_RECORD])]);
    assert_eq!((hand.peer.status(), scene.stage.last_ending()), (Status::Ended, None), "it lingers until the peer has it");
    scene.stage.rig.wait(30 * MS);
    hand.peer.close();
    scene.stage.rig.wait(MS);
    assert_eq!(scene.stage.last_ending(), Some(Ending::Aborted));
    assert_eq!(scene.count(C::AnswersLate), 0, "its timers are of no use any more");
    scene.close(&[]);
}

#[test]
fn a_ticket_that_outlives_a_refusal_is_answered_late_or_dropped() {
    let mut scene = Scene::new(Limits::default(), Manner::default());
    let (mut hand, mut other) = (scene.open(1), scene.open(2));
    assert_eq!(hand.ask(&mut scene.stage.rig, "hold a\nhold b\nany c\n"), "");
    hand.say(&[0xff; 30]);
    assert_eq!(hand.hear(&mut scene.stage.rig), [(ALERT, vec![cipher::BAD_RECORD])]);
    assert_eq!(other.ask(&mut scene.stage.rig, "answer a one\ndrop c\ndrop b\nsay on\n"), "on\n");
    assert_eq!((hand.peer.status(), scene.count(C::AnswersLate)), (Status::Ended, 1));
    hand.peer.close();
    other.peer.close();
    scene.close(&[]);
}

#[test]
fn an_end_that_was_said_is_told_apart_from_one_that_was_cut() {
    let mut scene = Scene::new(Limits::default(), Manner::default());
    for (number, says_so) in [true, false].into_iter().enumerate() {
        let mut hand = scene.open(number);
        let mut last = hand.data("say bye\n");
        last.extend(if says_so { record(END, &[]) } else { Vec::new() });
        hand.say(&last);
        hand.peer.finish();
        assert_eq!(hand.hear(&mut scene.stage.rig), [(DATA, b"bye\n".to_vec()), LAST]);
        assert_eq!((hand.peer.status(), scene.stage.last_ending()), (Status::Ended, Some(Ending::EndOfStream)));
        assert_eq!(scene.count(C::StreamsCut), u64::from(!says_so));
        hand.peer.close();
    }
    assert_eq!(scene.count(C::RecordsTruncated), 0);
    scene.close(&[]);
}

#[test]
fn a_stream_that_is_cut_within_a_record_loses_that_record() {
    let mut scene = Scene::new(Limits::default(), Manner::default());
    let mut hand = scene.open(1);
    let whole = hand.data("say whole\n");
    let half = hand.data("say half\n");
    hand.say(&[&whole[..], &half[..half.len() - 1]].concat());
    hand.peer.finish();
    assert_eq!(hand.hear(&mut scene.stage.rig), [(DATA, b"whole\n".to_vec()), LAST]);
    assert_eq!((scene.count(C::StreamsCut), scene.count(C::RecordsTruncated)), (1, 1));
    hand.peer.close();
    scene.close(&[]);
}

/// What still waits when the other of a pair is broken off leaves, and no word behind it says that this was all.
#[test]
fn a_break_is_passed_on_behind_what_waits_and_not_as_a_proper_end() {
    let mut scene = Scene::new(Limits::default(), Manner::default());
    let (mut broken, mut other) = (scene.open(1), scene.open(2));
    assert_eq!(broken.ask(&mut scene.stage.rig, "hold a\n"), "");
    let question = other.data("pair a\nflood 1000000\n");
    other.say(&question);
    scene.stage.rig.wait(5 * MS);
    broken.peer.reset();
    let mut heard = Vec::new();
    for _ in 0..500 {
        heard.extend(other.hear(&mut scene.stage.rig));
    }
    let bytes: usize = heard.iter().map(|(_, data)| data.len()).sum();
    assert!(heard.iter().all(|(kind, _)| *kind == DATA), "{:?}", heard.last());
    assert_eq!((bytes, other.peer.status()), (1_000_000, Status::Ended));
    other.peer.close();
    scene.close(&[]);
}

#[test]
fn our_output_goes_on_behind_the_peers_end() {
    let mut scene = Scene::new(Limits::default(), Manner::default());
    let mut hand = scene.open(1);
    let last = [hand.data("flood 300000\nsay over\n"), record(END, &[]), hand.data("say never\n"), vec![0xee; 100]].concat();
    hand.say(&last);
    let (mut heard, mut turns) = (Vec::new(), 0);
    while !heard.contains(&LAST) && turns < 100 {
        heard.extend(hand.hear(&mut scene.stage.rig));
        turns += 1;
    }
    assert_eq!(heard.pop(), Some(LAST));
    let text: Vec<u8> = heard.into_iter().flat_map(|(_, bytes)| bytes).collect();
    assert_eq!((text.len(), &text[300_000..]), (300_005, &b"over\n"[..]));
    let counts = [C::TransformRefusals, C::RecordsTruncated].map(|counter| scene.count(counter));
    assert_eq!((hand.peer.status(), counts), (Status::Ended, [0; 2]), "what comes behind an end is nothing");
    hand.peer.close();
    scene.stage.rig.wait(MS);
    assert_eq!((scene.stage.last_ending(), scene.count(C::LingerLimitHits)), (Some(Ending::EndOfStream), 0));
    scene.close(&[]);
}

#[test]
fn an_alert_of_the_peer_ends_the_connection() {
    let mut scene = Scene::new(Limits::default(), Manner::default());
    let mut hand = scene.open(1);
    hand.say(&record(ALERT, &[cipher::CANCELLED]));
    assert_eq!((hand.hear(&mut scene.stage.rig), hand.peer.status()), (Vec::new(), Status::Ended));
    assert!(scene.stage.rig.reports.borrow()[0].text.contains("it says alert 4"));
    hand.peer.close();
    scene.stage.rig.wait(MS);
    assert_eq!(scene.stage.last_ending(), Some(Ending::Aborted));
    scene.close(&[]);
}

#[test]
fn our_own_end_is_said_whatever_its_reason() {
    let limits = Limits::default().idle_limit(Duration::from_secs(5));
    let mut scene = Scene::new(limits, Manner::default());
    let (mut closed, mut idle) = (scene.open(1), scene.open(2));
    let question = closed.data("say bye\nclose\n");
    closed.say(&question);
    assert_eq!(closed.hear(&mut scene.stage.rig), [(DATA, b"bye\n".to_vec()), LAST]);
    scene.stage.rig.wait(6 * S);
    assert_eq!((idle.hear(&mut scene.stage.rig), scene.count(C::IdleLimitHits)), (vec![LAST], 1));
    for hand in [closed, idle] {
        assert_eq!(hand.peer.status(), Status::Ended);
        hand.peer.close();
    }
    scene.close(&[]);
}

#[test]
fn a_cipher_that_never_comes_to_its_last_word_is_ended_at_the_send_limit() {
    let limits = Limits::default().send_limit(Duration::from_secs(3));
    let mut scene = Scene::new(limits, Manner { is_endless: true, ..Manner::default() });
    let mut hand = scene.open(1);
    let question = hand.data("say bye\nclose\n");
    hand.say(&question);
    assert_eq!(hand.hear(&mut scene.stage.rig), [(DATA, b"bye\n".to_vec()), LAST]);
    scene.stage.rig.wait(2 * S);
    assert_eq!((hand.peer.status(), scene.count(C::SendLimitHits)), (Status::Open, 0));
    scene.stage.rig.wait(2 * S);
    assert_eq!((hand.peer.status(), scene.count(C::SendLimitHits)), (RESET, 1));
    scene.close(&[]);
}

#[test]
fn more_is_made_of_the_output_only_when_what_was_made_has_left() {
    let limits = Limits::default().output_high(8 << 20);
    let mut scene = Scene::new(limits, Manner::default());
    let mut hand = scene.open(1);
    let calls = scene.calls.get();
    let question = hand.data("flood 2000000\n");
    hand.say(&question);
    // Nobody reads: the socket's buffer fills, and the rest waits as it was written.
    scene.stage.rig.wait(50 * MS);
    assert!(scene.calls.get() - calls < 12, "{} calls", scene.calls.get() - calls);
    let mut bytes = 0;
    for _ in 0..1_000 {
        bytes += hand.hear(&mut scene.stage.rig).iter().map(|(_, data)| data.len()).sum::<usize>();
        if bytes == 2_000_000 {
            break;
        }
    }
    assert_eq!(bytes, 2_000_000);
    hand.peer.close();
    scene.close(&[]);
}

#[test]
fn a_handshake_that_is_never_finished_is_ended_at_its_limit() {
    let limits = Limits::default().handshake_limit(Duration::from_secs(3)).read_limit(Duration::ZERO).receive_rate_min(0);
    let mut scene = Scene::new(limits, Manner::default());
    let (silent, half, mut unproven) = (scene.connect(1), scene.connect(2), scene.connect(3));
    half.say(&hello(NONCE, "host-a", "echo/1")[..7]);
    unproven.say(&hello(NONCE, "host-a", "echo/1"));
    assert_eq!(unproven.hear(&mut scene.stage.rig).len(), 1);
    scene.stage.rig.wait(2 * S);
    assert_eq!((scene.count(C::HandshakesUnderWay), scene.count(C::HandshakeLimitHits)), (3, 0));
    scene.stage.rig.wait(2 * S);
    assert_eq!([silent, half, unproven].map(|hand| hand.peer.status()), [RESET; 3]);
    let counts =
        [C::HandshakeLimitHits, C::HandshakesFailed, C::HandshakesUnderWay, C::Handshakes].map(|counter| scene.count(counter));
    assert_eq!(counts, [3, 3, 0, 0]);
    scene.close(&[Ending::Aborted; 3]);
}

#[test]
fn handshakes_over_the_bound_wait_until_others_are_over() {
    let mut scene = Scene::new(Limits::default().handshakes_max(2), Manner::default());
    let mut hands = [1, 2, 3].map(|number| Hand::of(scene.stage.rig.connect(number)));
    scene.stage.rig.wait(MS);
    hands.iter().for_each(|hand| hand.say(&hello(NONCE, "host-a", "echo/1")));
    scene.stage.rig.wait(20 * MS);
    hands.sort_by_key(|hand| hand.peer.readable_bytes() == 0);
    let [mut first, second, mut third] = hands;
    assert_eq!(third.hear(&mut scene.stage.rig), [], "it waits");
    assert_eq!((scene.count(C::HandshakesUnderWay), scene.count(C::Accepts)), (2, 3));
    assert!(scene.count(C::HandshakesMaxHits) == 1 && scene.count(C::ConnectionsMaxHits) == 0);
    let [(REPLY, reply)] = &first.take()[..] else { panic!("its handshake goes on") };
    let proof = first.agree(reply);
    first.say(&proof);
    scene.stage.rig.wait(2 * MS);
    assert_ne!(third.peer.readable_bytes(), 0, "it has a place as soon as a handshake is over");
    third.prove(&mut scene.stage.rig);
    assert_eq!(first.ask(&mut scene.stage.rig, "say first\n"), "first\n");
    assert_eq!(third.ask(&mut scene.stage.rig, "say third\n"), "third\n");
    for hand in [first, second, third] {
        hand.peer.close();
    }
    // It has not read its reply.
    scene.close(&[Ending::Error]);
}

/// Opens its connection when it has heard a byte, and says nothing: nothing else happens on the lane then.
struct Knock;

impl Transform for Knock {
    fn pass(&mut self, passage: &mut Passage<'_>) -> Result<Progress, TransformError> {
        if !passage.received.is_empty() {
            passage.received.clear();
            passage.open();
        }
        Ok(Progress::Idle)
    }
}

#[test]
fn the_end_of_a_handshake_alone_lets_the_next_one_in() {
    for at_once in [false, true] {
        let world = World::new(1, Faults::none());
        let limits = crate::rig::patient().handshakes_max(2).handshake_limit(Duration::ZERO);
        let mut stage = Stage::with(&world, &RigPlan::lanes(1), limits, |_, _| Some(Box::new(Knock)));
        let peers = [1, 2, 3].map(|number| {
            if number == 3 && !at_once {
                stage.rig.wait(MS);
            }
            stage.rig.connect(number)
        });
        world.pass(MS);
        stage.rig.wait(MS);
        let counts = |stage: &Stage| [C::Accepts, C::Handshakes, C::HandshakesUnderWay].map(|counter| stage.rig.count(counter));
        assert_eq!(counts(&stage), [3, 0, 2]);
        assert_eq!(peers[0].send(b"k"), 1);
        stage.rig.wait(MS);
        assert_eq!(counts(&stage), [3, 1, 2], "it has a place as soon as a handshake is over; all came at once: {at_once}");
        peers[1..].iter().for_each(|peer| assert_eq!(peer.send(b"k"), 1));
        stage.rig.wait(MS);
        peers.iter().for_each(Peer::close);
        stage.rig.wait(MS);
        stage.close();
    }
}

/// One host that says nothing has its share of the handshakes, and many more that wait: nobody else waits for it, and who comes from its address not long.
#[test]
fn who_stands_still_in_a_handshake_makes_room_for_who_waits() {
    let mut scene = Scene::new(Limits::default().handshakes_max(8), Manner::default());
    let slow = scene.connect(3);
    let silent: Vec<Peer> = (0..20).map(|_| scene.stage.rig.connect(1)).collect();
    let mut hand = scene.connect(2);
    assert_eq!((scene.count(C::HandshakesUnderWay), scene.count(C::Accepts)), (5, 22), "one alone leaves as many as it has");
    hand.say(&hello(NONCE, "host-a", "echo/1"));
    hand.prove(&mut scene.stage.rig);
    assert_eq!(hand.ask(&mut scene.stage.rig, "say served\n"), "served\n");
    let mut fellow = scene.connect(1);
    fellow.say(&hello(NONCE, "host-a", "echo/1"));
    assert_eq!(fellow.hear(&mut scene.stage.rig), [], "it waits for those of its own address");
    scene.stage.rig.wait(700 * MS);
    fellow.prove(&mut scene.stage.rig);
    assert_eq!(fellow.ask(&mut scene.stage.rig, "say as well\n"), "as well\n");
    assert_eq!(slow.peer.status(), Status::Open, "who has few of them is not in the way");
    let ended = silent.iter().filter(|peer| peer.status() == RESET).count() as u64;
    assert_eq!((ended, scene.count(C::HandshakeLimitHits)), (scene.count(C::ShareEndings), 0));
    assert!((3..20).contains(&ended), "{ended}");
    silent.into_iter().chain([slow.peer, hand.peer, fellow.peer]).for_each(|peer| peer.close());
    scene.stage.rig.wait(MS);
    scene.stage.rig.close(&mut Nobody);
    assert_eq!(crate::rig::endings(&scene.stage.rig, 0), 23, "each ends once");
}

#[test]
fn a_peer_that_ends_within_its_handshake_is_let_go_with_a_word() {
    let mut scene = Scene::new(Limits::default(), Manner { steps: 3, ..Manner::default() });
    let mut hand = scene.connect(1);
    hand.say(&hello(NONCE, "host-a", "echo/1"));
    hand.peer.finish();
    let heard: Vec<u8> = hand.hear(&mut scene.stage.rig).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!((heard, hand.peer.status()), (vec![REPLY, ALERT], Status::Ended));
    hand.peer.close();
    let counts = [C::HandshakesFailed, C::RecordsTruncated, C::EndingsEndOfStream].map(|counter| scene.count(counter));
    assert_eq!(counts, [1, 0, 1]);
    scene.close(&[Ending::EndOfStream]);
}

#[test]
fn a_panic_of_a_cipher_in_any_call_ends_its_connection_only() {
    for trap in [Trap::First, Trap::Hello, Trap::Proof, Trap::Received, Trap::Written, Trap::Leave, Trap::Alert] {
        let mut scene = Scene::trapped(trap);
        let mut witness = scene.open(50);
        let mut hand = scene.connect(1);
        let said = if trap == Trap::Alert { vec![0xee] } else { hello(NONCE, "host-a", "echo/1") };
        hand.peer.send(&said);
        let reply = hand.hear(&mut scene.stage.rig);
        if let [(REPLY, reply)] = &reply[..] {
            (hand.write, hand.read) = (Key::of(NONCE, reply[0], Side::Client), Key::of(NONCE, reply[0], Side::Server));
            hand.say(&record(PROOF, &hand.write.proof()));
            let question = hand.data("say x\nclose\n");
            hand.peer.send(&question);
        }
        drop(hand.hear(&mut scene.stage.rig));
        assert_eq!((hand.peer.status(), scene.count(C::Panics), scene.count(C::EndingsAborted)), (RESET, 1, 1), "{trap:?}");
        assert_eq!(witness.ask(&mut scene.stage.rig, "say on\n"), "on\n");
        witness.peer.close();
        scene.stage.rig.wait(MS);
        let was_open = matches!(trap, Trap::Received | Trap::Written | Trap::Leave);
        scene.close(if was_open { &[] } else { &[Ending::Aborted] });
    }
}

#[test]
fn who_is_in_a_handshake_when_a_drain_begins_is_served_once() {
    let mut scene = Scene::new(Limits::default(), Manner { steps: 5, ..Manner::default() });
    let (mut hand, mut silent) = (scene.connect(1), scene.connect(2));
    hand.say(&hello(NONCE, "host-a", "echo/1"));
    scene.stage.rig.control.give(Command::Drain);
    hand.prove(&mut scene.stage.rig);
    let question = hand.data("say served\n");
    hand.say(&question);
    let heard = hand.hear(&mut scene.stage.rig);
    assert_eq!(heard, [(DATA, b"served\n".to_vec()), LAST]);
    hand.peer.close();
    scene.stage.rig.wait(2 * S);
    assert_eq!(silent.hear(&mut scene.stage.rig), [(ALERT, vec![cipher::CANCELLED])]);
    assert_eq!((silent.peer.status(), scene.count(C::DrainDeadlineHits)), (Status::Ended, 1));
    silent.peer.close();
    scene.stage.rig.until_ended(&mut Nobody);
    scene.close(&[Ending::Closing]);
}

#[test]
fn an_idle_connection_is_idle_since_its_handshake() {
    let limits = Limits::default().idle_limit(Duration::from_secs(5));
    let mut scene = Scene::new(limits, Manner::default());
    let mut hand = scene.connect(1);
    scene.stage.rig.wait(4 * S);
    hand.say(&hello(NONCE, "host-a", "echo/1"));
    hand.prove(&mut scene.stage.rig);
    scene.stage.rig.wait(4 * S);
    assert_eq!((hand.peer.status(), scene.count(C::IdleLimitHits)), (Status::Open, 0));
    scene.stage.rig.wait(2 * S);
    assert_eq!((hand.hear(&mut scene.stage.rig), scene.count(C::IdleLimitHits)), (vec![LAST], 1));
    hand.peer.close();
    scene.close(&[]);
}

/// A transform with so many steps of work in its handshake, which notes how many were taken at each time: a turn has one.
struct Laborious {
    left: u32,
    steps: Rc<RefCell<BTreeMap<u64, u32>>>,
}

impl Transform for Laborious {
    fn pass(&mut self, passage: &mut Passage<'_>) -> Result<Progress, TransformError> {
        *self.steps.borrow_mut().entry(passage.now.nanoseconds()).or_default() += 1;
        if self.left > 0 {
            self.left -= 1;
            return Ok(Progress::More);
        }
        passage.open();
        Ok(Progress::Idle)
    }
}

#[test]
fn sixteen_steps_of_handshakes_are_taken_in_a_turn() {
    let steps = Rc::<RefCell<BTreeMap<u64, u32>>>::default();
    let (world, noted) = (World::new(1, Faults::none()), steps.clone());
    let make = move |_, _: &_| Some(Box::new(Laborious { left: 100, steps: noted.clone() }) as Box<dyn Transform>);
    let mut stage = Stage::with(&world, &RigPlan::lanes(1), Limits::default(), make);
    let peers: Vec<Peer> = (0..40).map(|number| stage.rig.connect(number)).collect();
    stage.rig.wait(50 * MS);
    assert_eq!((steps.borrow().values().sum::<u32>(), stage.rig.count(C::Handshakes)), (40 * 101, 40));
    assert_eq!(steps.borrow().values().max(), Some(&16));
    peers.iter().for_each(Peer::close);
    stage.rig.wait(MS);
    stage.close();
}

#[test]
fn handshakes_at_work_leave_turns_to_others() {
    let mut scene = Scene::new(Limits::default(), Manner { steps: 400, ..Manner::default() });
    let mut witness = scene.open(50);
    let before = (scene.calls.get(), turns(&scene.stage.rig));
    let hands: Vec<Hand> = (0..60).map(|number| scene.connect(number % 40)).collect();
    for hand in &hands {
        hand.say(&hello(NONCE, "host-a", "echo/1"));
    }
    let question = witness.data("say on\n");
    witness.say(&question);
    assert!(scene.stage.rig.play(&mut Answered(witness.peer.clone())), "it is answered");
    assert!(scene.count(C::HandshakesUnderWay) == 60, "nobody waited for them");
    scene.stage.rig.wait(50 * MS);
    let after = (scene.calls.get(), turns(&scene.stage.rig));
    let (calls, turns) = (after.0 - before.0, after.1 - before.1);
    assert!(calls >= 60 * 400 && calls <= 16 * turns + 10, "{calls} calls in {turns} turns");
    for hand in hands {
        assert!(hand.peer.readable_bytes() > 0, "each has its reply");
        hand.peer.close();
    }
    witness.peer.close();
    scene.close(&[Ending::Error; 60]);
}

/// A client of a proxy whose server never answers has said much, and ends by `leave`: what waits behind the handshake with the server, which is given
/// up, leaves no more, keeps no lane at work, and is not waited for.
fn given_up(limits: Limits, leave: impl Fn(&mut Rig, &Hand)) -> Vec<(u8, Vec<u8>)> {
    let world = World::new(1, Faults::none());
    world.listen(crate::rig::address()).unwrap();
    let mut rig = Rig::new(&world, &RigPlan::lanes(1), |roster| {
        let proxy = Proxy { family: Family::Inet };
        roster.serve_behind(at(PROXY), limits, proxy, ciphers(|_, _| Manner::default(), &Calls::default()));
    });
    let mut hand = Hand::of(rig.connect_to(1, PROXY));
    rig.wait(MS);
    hand.say(&hello(NONCE, "host-a", "echo/1"));
    let heard = hand.hear(&mut rig);
    let proof = hand.agree(&heard[0].1);
    hand.say(&proof);
    let mut server = Accepting(None);
    assert!(rig.play(&mut server), "the proxy goes on to the server");
    let mut server = Hand::of(server.0.unwrap());
    let question = hand.data([b'x'; 3_000]);
    hand.say(&question);
    rig.wait(5 * MS);
    leave(&mut rig, &hand);
    rig.wait(5 * MS);
    let before = turns(&rig);
    rig.wait(100 * MS);
    assert!(turns(&rig) - before < 10, "{} turns for nothing", turns(&rig) - before);
    let said = server.take();
    assert_eq!(server.peer.status(), Status::Ended);
    server.peer.close();
    hand.peer.close();
    rig.wait(MS);
    assert_eq!((rig.connections(), rig.holds_nothing()), (0, true));
    rig.close(&mut Nobody);
    said
}

#[test]
fn what_waits_for_a_handshake_is_dropped_when_that_is_given_up() {
    let no_limits = crate::rig::patient();
    // What was broken off is passed on without a word, so that the server takes it for no end.
    let said = given_up(no_limits, |_, hand| hand.peer.reset());
    assert!(matches!(said[..], [(cipher::HELLO, _)]), "{said:?}");
    let said = given_up(no_limits.idle_limit(Duration::from_secs(2)), |rig, hand| {
        rig.wait(2 * S);
        hand.peer.read(usize::MAX);
        hand.peer.close();
    });
    assert!(matches!(&said[..], [(cipher::HELLO, _), (ALERT, why)] if why == &[cipher::CANCELLED]), "{said:?}");
}

/// Waits until there is something for a peer.
struct Answered(Peer);

impl Play for Answered {
    fn news(&mut self, _: &World, _: Turn) {}

    fn is_over(&self) -> bool {
        self.0.readable_bytes() > 0
    }
}

fn turns(rig: &Rig) -> u64 {
    rig.lane_count(LaneCounter::TurnsProductive) + rig.lane_count(LaneCounter::TurnsEmpty)
}
