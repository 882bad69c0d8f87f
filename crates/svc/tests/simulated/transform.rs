//! Transforms between the socket and the service.

use crate::puppet::Stage;
use crate::rig::{MS, RigPlan, patient};
use corelane_seam::{Arena, Chain};
use corelane_sim::{Faults, Status, World};
use corelane_svc::{Ending, Limits, PASS_BYTES, Passage, Progress, Transform, TransformError};
use corelane_watch::ServiceCounter as C;

/// Changes every byte, as a cipher does.
pub struct Xor(u8);

pub const KEY: u8 = 0x5a;

pub fn xor() -> Box<dyn Transform> {
    Box::new(Xor(KEY))
}

/// Copies as much as there is memory for.
fn change(key: u8, arena: &Arena, from: &mut Chain, to: &mut Chain) {
    while !from.is_empty() {
        let Some(mut lease) = arena.lease(from.len().min(16 << 10)) else { return };
        let bytes = from.copy_to(lease.spare());
        lease.advance(bytes);
        lease.iter_mut().for_each(|byte| *byte ^= key);
        from.skip(bytes);
        to.push(lease.share());
    }
}

impl Transform for Xor {
    fn pass(&mut self, passage: &mut Passage<'_>) -> Result<Progress, TransformError> {
        passage.open();
        change(self.0, passage.arena, passage.received, passage.input);
        change(self.0, passage.arena, passage.output, passage.wire);
        if passage.peer_finished && passage.received.is_empty() {
            passage.end_input();
        }
        Ok(Progress::Idle)
    }
}

/// Opens its connection, and takes nothing of what comes.
struct Hoarder;

impl Transform for Hoarder {
    fn pass(&mut self, passage: &mut Passage<'_>) -> Result<Progress, TransformError> {
        passage.open();
        Ok(Progress::Idle)
    }
}

#[test]
fn what_a_transform_leaves_lying_is_bounded_as_a_record_is() {
    for record_max in [1_000, 200_000] {
        let world = World::new(1, Faults::none());
        let limits = Limits::default().record_max(record_max);
        let mut stage = Stage::with(&world, &RigPlan::lanes(1), limits, |_, _| Some(Box::new(Hoarder)));
        let peer = stage.rig.connect(1);
        stage.rig.wait(MS);
        let most = record_max.max(PASS_BYTES);
        let (mut sent, bytes) = (0, vec![7; 1 << 10]);
        while peer.status() == Status::Open && sent < 4 * most {
            sent += peer.send(&bytes);
            stage.rig.wait(MS);
        }
        assert!(sent > most && sent < 2 * most, "{sent} bytes were taken, of {most} at the most");
        assert_eq!((stage.last_ending(), stage.rig.count(C::RecordMaxHits)), (Some(Ending::Aborted), 1));
        peer.close();
        stage.rig.wait(MS);
        stage.close();
    }
}

/// Begins with a line of its own, and lets bytes pass only with a lease of a mebibyte.
#[derive(Default)]
struct Glutton {
    has_begun: bool,
}

impl Transform for Glutton {
    fn pass(&mut self, passage: &mut Passage<'_>) -> Result<Progress, TransformError> {
        passage.open();
        passage.wire.append(passage.output);
        if passage.received.is_empty() {
            return Ok(Progress::Idle);
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            passage.input.push(&b"say on\n"[..]);
        }
        if passage.arena.lease(1 << 20).is_some() {
            passage.input.append(passage.received);
        }
        Ok(Progress::Idle)
    }
}

/// The service has taken a part of what came, so it waits for nothing, and there is memory to receive into.
#[test]
fn nothing_is_received_for_a_transform_that_waits_for_memory() {
    let world = World::new(1, Faults::none());
    let limits = patient().record_max(PASS_BYTES);
    let make = |_, _: &_| Some(Box::new(Glutton::default()) as Box<dyn Transform>);
    let mut stage = Stage::with(&world, &RigPlan::lanes(1), limits, make);
    let peer = stage.rig.connect(1);
    stage.rig.wait(MS);
    let arena = stage.rig.arenas[0].clone();
    let is_much = || arena.free() > arena.reserve() + (512 << 10);
    let taken: Vec<_> = std::iter::from_fn(|| is_much().then(|| arena.lease(64 << 10)).flatten()).collect();
    let text = b"say x\n".repeat(20_000);
    let mut sent = 0;
    for _ in 0..50 {
        sent += peer.send(&text[sent..]);
        stage.rig.wait(MS);
    }
    assert_eq!((peer.status(), stage.rig.count(C::RecordMaxHits)), (Status::Open, 0));
    drop(taken);
    for _ in 0..50 {
        sent += peer.send(&text[sent..]);
        stage.rig.wait(MS);
    }
    assert_eq!((sent, stage.rig.count(C::RecordMaxHits)), (text.len(), 0));
    peer.close();
    stage.rig.wait(MS);
    stage.close();
}

/// A line `PROXY ADDRESS` in front says who the peer is; a line `PANIC` panics. It is answered with `HELLO`.
#[derive(Default)]
pub struct ProxyHeader {
    is_over: bool,
}

pub fn proxy_header() -> Box<dyn Transform> {
    Box::new(ProxyHeader::default())
}

/// The most bytes of the line.
const LINE_MAX: usize = 60;

impl Transform for ProxyHeader {
    fn pass(&mut self, passage: &mut Passage<'_>) -> Result<Progress, TransformError> {
        if !self.is_over {
            let mut line = [0; LINE_MAX];
            let bytes = passage.received.copy_to(&mut line);
            let Some(end) = line[..bytes].iter().position(|&byte| byte == b'\n') else {
                return if bytes < LINE_MAX { Ok(Progress::Idle) } else { Err(TransformError("no line".into())) };
            };
            let text = String::from_utf8_lossy(&line[..end]).into_owned();
            assert_ne!(text, "PANIC", "told to");
            let address = text.strip_prefix("PROXY ").and_then(|address| address.parse().ok());
            passage.peer.address = address.ok_or_else(|| TransformError(format!("{text:?} names no peer")))?;
            passage.received.skip(end + 1);
            passage.wire.push(&b"HELLO\n"[..]);
            passage.open();
            self.is_over = true;
        }
        passage.input.append(passage.received);
        passage.wire.append(passage.output);
        if passage.peer_finished {
            passage.end_input();
        }
        Ok(Progress::Idle)
    }

    fn passes_files(&self) -> bool {
        true
    }
}

/// Lets nothing out before it has heard a `g`.
#[derive(Default)]
struct Sluice {
    is_open: bool,
}

impl Transform for Sluice {
    fn pass(&mut self, passage: &mut Passage<'_>) -> Result<Progress, TransformError> {
        passage.open();
        let mut heard = vec![0; passage.received.len()];
        passage.received.copy_to(&mut heard);
        self.is_open |= heard.contains(&b'g');
        passage.input.append(passage.received);
        if self.is_open {
            passage.wire.append(passage.output);
        }
        if passage.peer_finished {
            passage.end_input();
        }
        Ok(Progress::Idle)
    }
}

pub mod tests {
    use super::*;
    use crate::echo::pattern;
    use crate::for_seeds;
    use crate::puppet::{MakeTransform, Stage};
    use crate::rig::Talker;
    use crate::rig::{Family, MS, Nobody, Rig, RigPlan, patient};
    use corelane_seam::{Fault, Reason};
    use corelane_sim::{Faults, Report, Status, World};
    use corelane_svc::{Cx, Ending, Input, Limits, Next, Output, Peer, Silent, StreamService};
    use corelane_watch::{LaneCounter, ServiceCounter as C};

    const RESET: Status = Status::Failed(Fault { reason: Reason::Reset, number: 104 });

    /// Echo.
    struct Behind;

    impl StreamService for Behind {
        type Talk = Silent;
        type Session = ();

        fn open(&mut self, _cx: &mut Cx<'_>, _peer: &Peer) {}

        fn receive(&mut self, _cx: &mut Cx<'_>, _session: &mut (), input: &mut Input, output: &mut Output) -> Next {
            if output.ask_room() {
                output.forward(input.take_all());
            }
            Next::Continue
        }
    }

    /// Echo behind `make`: what comes back is `front` and then what was sent behind `header`.
    pub fn run(seed: u64, faults: Faults, make: fn() -> Box<dyn Transform>, header: &str, front: &str) -> Report {
        let world = World::new(seed, faults);
        let plan = RigPlan::lanes(2).memory(8 << 20).family(Family::of(seed));
        let mut rig = Rig::behind(&world, &plan, patient(), |_| Behind, move |_, _: &_| Some(make()));
        let to_send = |number: usize| [header.as_bytes(), &pattern(seed + number as u64, 9_000)].concat();
        let talker = |number| Talker::new(rig.connect(number), seed, to_send(number));
        let mut talkers: Vec<Talker> = (0..8).map(talker).collect();
        assert!(rig.play(&mut talkers), "clients wait for ever");
        rig.close(&mut talkers);
        for talker in &talkers {
            let expected = [front.as_bytes(), &talker.to_send[header.len()..]].concat();
            assert!(expected.starts_with(&talker.got), "wrong bytes");
            assert!(!talker.is_complete() || talker.got == expected, "bytes missing");
            assert!(faults != Faults::none() || talker.is_complete());
        }
        world.report()
    }

    #[test]
    fn bytes_pass_a_transform_unharmed() {
        for_seeds(30, |seed| {
            run(seed, Faults::none(), xor, "", "");
        });
        for_seeds(100, |seed| {
            run(seed, Faults::all(seed), xor, "", "");
        });
    }

    #[test]
    fn a_header_is_taken_off_wherever_it_is_cut() {
        let (header, hello) = ("PROXY 203.0.113.9:4711\n", "HELLO\n");
        for_seeds(30, |seed| {
            run(seed, Faults::none(), proxy_header, header, hello);
        });
        for_seeds(100, |seed| {
            run(seed, Faults::all(seed), proxy_header, header, hello);
        });
    }

    #[test]
    fn a_transform_that_waits_for_its_peer_keeps_no_lane_at_work() {
        let world = World::new(1, Faults::none());
        let make = |_, _: &Peer| Some(Box::new(Sluice::default()) as Box<dyn Transform>);
        let mut rig = Rig::behind(&world, &RigPlan::lanes(1), patient(), |_| Behind, make);
        let peer = rig.connect(1);
        rig.wait(MS);
        assert_eq!(rig.ask(&peer, "abc"), "");
        let turns = |rig: &Rig| rig.lane_count(LaneCounter::TurnsProductive) + rig.lane_count(LaneCounter::TurnsEmpty);
        let before = turns(&rig);
        rig.wait(100 * MS);
        assert!(turns(&rig) - before < 10, "{} turns for nothing", turns(&rig) - before);
        assert_eq!(rig.ask(&peer, "g"), "abcg");
        peer.close();
        rig.wait(MS);
        rig.close(&mut Nobody);
    }

    fn stage(transform: MakeTransform) -> (Stage, corelane_sim::Peer) {
        let world = World::new(1, Faults::none());
        let mut stage = Stage::with(&world, &RigPlan::lanes(1), Limits::default(), transform);
        let peer = stage.rig.connect(1);
        stage.rig.wait(MS);
        (stage, peer)
    }

    #[test]
    fn everything_a_service_does_passes_the_transform() {
        let (mut stage, peer) = stage(|_, _| Some(xor()));
        let changed = |text: &str| -> Vec<u8> { text.bytes().map(|byte| byte ^ KEY).collect() };
        let text = "hold a\nsay two\nafter 10 answer a one\nfill 10\naaaaaaaaaaany b\nhere b three\nflood 9\nclose\n";
        peer.send(&changed(text));
        stage.rig.wait(20 * MS);
        let got: Vec<u8> = peer.read(usize::MAX).iter().map(|byte| byte ^ KEY).collect();
        let got = String::from_utf8(got).unwrap();
        assert_eq!((got.as_str(), peer.status()), ("one\ntwo\nfilled 10 970\nthree\nfffffffff", Status::Ended));
        peer.close();
        stage.rig.wait(MS);
        assert_eq!(stage.last_ending(), Some(Ending::Completed));
        stage.close();
    }

    #[test]
    fn a_service_learns_the_peer_from_its_transform() {
        let (mut stage, peer) = stage(|_, _| Some(proxy_header()));
        assert_eq!(stage.rig.ask(&peer, "PROXY 203.0.1"), "");
        assert_eq!(stage.rig.ask(&peer, "13.9:4711\npeer\n"), "HELLO\n203.0.113.9:4711\n");
        peer.close();
        stage.rig.wait(MS);
        stage.close();
    }

    #[test]
    fn a_transform_that_refuses_ends_the_connection() {
        let (mut stage, peer) = stage(|_, _| Some(proxy_header()));
        stage.rig.ask(&peer, "GET / HTTP/1.1\nsay never\n");
        assert_eq!((peer.status(), stage.rig.count(C::TransformRefusals)), (Status::Ended, 1), "in order, not with a reset");
        assert!(stage.rig.reports.borrow()[0].text.contains("names no peer"));
        peer.close();
        stage.rig.wait(MS);
        stage.close_with(&[Ending::Aborted]);
    }

    #[test]
    fn a_transform_that_panics_ends_the_connection_only() {
        let (mut stage, peer) = stage(|_, _| Some(proxy_header()));
        let other = stage.rig.connect(2);
        stage.rig.wait(MS);
        stage.rig.ask(&peer, "PANIC\n");
        assert_eq!((peer.status(), stage.rig.count(C::EndingsAborted), stage.rig.count(C::Panics)), (RESET, 1, 1));
        assert_eq!(stage.rig.ask(&other, "PROXY 1.2.3.4:5\nsay on\n"), "HELLO\non\n");
        other.close();
        stage.rig.wait(MS);
        stage.close_with(&[Ending::Aborted]);
    }

    #[test]
    fn a_peer_that_ends_within_the_header_is_let_go() {
        let (mut stage, peer) = stage(|_, _| Some(proxy_header()));
        peer.send(b"PROXY 203");
        peer.finish();
        stage.rig.wait(10 * MS);
        let counts = [C::EndingsEndOfStream, C::RecordsTruncated, C::HandshakesFailed].map(|counter| stage.rig.count(counter));
        assert_eq!((counts, peer.status()), ([1; 3], Status::Ended));
        peer.close();
        stage.close_with(&[Ending::EndOfStream]);
    }

    #[test]
    fn a_transform_without_memory_is_called_again_when_there_is_some() {
        let world = World::new(1, Faults::none());
        // What waits for memory before the transform is not too long: no more is received meanwhile.
        let limits = patient().output_high(8 << 20).record_max(PASS_BYTES);
        let mut rig = Rig::behind(&world, &RigPlan::lanes(1).memory(4 << 20), limits, |_| Behind, |_, _: &_| Some(xor()));
        let peers: Vec<_> = (0..12).map(|number| rig.connect(number)).collect();
        rig.wait(MS);
        let (mut sent, mut got) = ([0; 12], [0; 12]);
        let bytes = 1 << 20;
        for round in 0..4_000 {
            for (number, peer) in peers.iter().enumerate() {
                let piece = (bytes - sent[number]).min(64 << 10);
                sent[number] += peer.send(&vec![7; piece]);
                // Nobody reads in the first rounds: the lane's memory fills.
                got[number] += if round > 200 { peer.read(usize::MAX).len() } else { 0 };
            }
            rig.wait(MS / 5);
            if got.iter().all(|&got| got == bytes) {
                break;
            }
        }
        assert_eq!(got, [bytes; 12], "all that was held back is delivered");
        peers.iter().for_each(corelane_sim::Peer::close);
        rig.wait(MS);
        rig.close(&mut Nobody);
    }
}
