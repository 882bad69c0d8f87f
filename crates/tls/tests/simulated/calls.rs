//! Calls behind TLS, both ends on lanes, under every fault: what a service is told is what was said, and nothing else.

use crate::simulated::for_seeds;
use crate::simulated::identity::{client, server};
use crate::simulated::provider::{seeded, speaking};
use crate::simulated::rig::{FaultCounts, FaultKind, Faults, Planted, Play, Report, Rig, RigPlan, Turn, World, address, patient};
use corelane::admin::watch::ServiceCounter as C;
use corelane::service::{Ending, Limits, Random};
use corelane::{Cx, Input, Next, Output, Peer, Silent, StreamService};
use corelane_tls::rustls::ProtocolVersion;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// Calls of a lane in a run, and how many of them at once.
const CALLS: u32 = 7;
const AT_ONCE: u32 = 3;
/// Bytes of the longest.
const BYTES_MAX: usize = 50_000;

/// What is said in a call of this number.
fn words(seed: u64, number: u32) -> Vec<u8> {
    let mut random = Random::new((seed << 8) ^ u64::from(number));
    let bytes = random.one_to(BYTES_MAX);
    (0..bytes).map(|at| (((at as u64 * 31) >> 3) ^ seed ^ u64::from(number)) as u8).collect()
}

/// What came of a call.
#[derive(Clone, Copy, Debug)]
struct Call {
    heard_all: bool,
    resumed: bool,
    ending: Ending,
    was_cut: bool,
}

impl Call {
    fn is_whole(&self) -> bool {
        self.heard_all && self.ending == Ending::Completed && !self.was_cut
    }
}

type Calls = Rc<RefCell<Vec<Call>>>;

/// Says back what it hears.
pub struct Echo;

impl StreamService for Echo {
    type Talk = Silent;
    type Session = ();

    fn open(&mut self, _cx: &mut Cx<'_>, peer: &Peer) {
        let learned = peer.learned.as_deref().unwrap();
        assert_eq!((learned.server_name.as_deref(), learned.protocol.as_deref()), (Some("one.test"), Some(&b"echo/1"[..])));
    }

    fn receive(&mut self, _cx: &mut Cx<'_>, (): &mut (), input: &mut Input, output: &mut Output) -> Next {
        if output.ask_room() {
            output.forward(input.take_all());
        }
        Next::Continue
    }
}

/// Makes its lane's calls.
struct Caller {
    seed: u64,
    begun: u32,
    calls: Calls,
}

struct Line {
    words: Vec<u8>,
    said: usize,
    heard: usize,
    resumed: bool,
    was_cut: bool,
}

impl Caller {
    fn call(&mut self, cx: &mut Cx<'_>) {
        if self.begun == CALLS {
            return;
        }
        let words = words(self.seed, cx.lane() as u32 * CALLS + self.begun);
        self.begun += 1;
        cx.connect(address(), Line { words, said: 0, heard: 0, resumed: false, was_cut: false }).unwrap();
    }
}

fn say(line: &mut Line, output: &mut Output) -> Next {
    while line.said < line.words.len() && output.ask_room() {
        let piece = &line.words[line.said..line.words.len().min(line.said + 3_000)];
        if output.write(piece).is_err() {
            break;
        }
        line.said += piece.len();
    }
    if line.said < line.words.len() {
        output.notify_drained();
    }
    Next::Continue
}

impl StreamService for Caller {
    type Talk = Silent;
    type Session = Line;

    fn started(&mut self, cx: &mut Cx<'_>) {
        (0..AT_ONCE).for_each(|_| self.call(cx));
    }

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &Peer) -> Line {
        unreachable!("it listens nowhere")
    }

    fn connected(&mut self, cx: &mut Cx<'_>, line: &mut Line, output: &mut Output) -> Next {
        let peer = cx.peer(cx.id()).unwrap();
        let learned = peer.learned.as_deref().unwrap();
        assert_eq!((learned.certificates.len(), learned.protocol.as_deref()), (1, Some(&b"echo/1"[..])));
        line.resumed = learned.resumed;
        say(line, output)
    }

    fn drained(&mut self, _cx: &mut Cx<'_>, line: &mut Line, output: &mut Output) -> Next {
        say(line, output)
    }

    fn receive(&mut self, _cx: &mut Cx<'_>, line: &mut Line, input: &mut Input, _output: &mut Output) -> Next {
        while !input.is_empty() {
            let piece = input.first().len();
            let due = line.words.get(line.heard..line.heard + piece);
            assert_eq!(Some(input.first()), due, "an echo is what was said");
            line.heard += piece;
            input.skip(piece);
        }
        line.was_cut |= input.is_truncated();
        if line.heard == line.words.len() { Next::Close } else { Next::Continue }
    }

    fn closed(&mut self, cx: &mut Cx<'_>, line: Line, ending: Ending) {
        let Line { heard, words, resumed, was_cut, .. } = line;
        self.calls.borrow_mut().push(Call { heard_all: heard == words.len(), resumed, ending, was_cut });
        self.call(cx);
    }
}

/// Waits until all calls have been made.
struct Watcher {
    calls: Calls,
    due: usize,
}

impl Play for Watcher {
    fn news(&mut self, _: &World, _: Turn) {}

    fn is_over(&self) -> bool {
        self.calls.borrow().len() == self.due
    }
}

/// A run that is over.
struct Played {
    calls: Vec<Call>,
    report: Report,
    log: Vec<String>,
    refusals: u64,
    cuts: u64,
}

/// After so long what waits is given up.
const AGES: Duration = Duration::from_secs(1 << 20);

fn limits() -> Limits {
    patient().handshake_limit(AGES).connect_limit(AGES).output_high(16 << 10)
}

fn play(seed: u64, faults: Faults, planted: Option<Planted>) -> Played {
    let world = World::new(seed, faults);
    planted.into_iter().for_each(|bug| world.plant(bug));
    let provider = seeded(seed);
    let served = server().protocols(&[b"echo/1"]).provider(provider.clone()).load().unwrap();
    let version = if seed.is_multiple_of(3) { ProtocolVersion::TLSv1_2 } else { ProtocolVersion::TLSv1_3 };
    let caller = client().protocols(&[b"echo/1"]).provider(speaking(version, provider)).load().unwrap();
    let (lanes, calls) = (1 + seed as usize % 2, Calls::default());
    let plan = RigPlan::lanes(lanes).memory(if seed.is_multiple_of(4) { 1 << 20 } else { 8 << 20 });
    let mut rig = Rig::new(&world, &plan, |roster| {
        roster.serve_behind(address(), limits(), Echo, served.lane());
        roster.client_behind(limits(), Caller { seed, begun: 0, calls: calls.clone() }, caller.lane());
    });
    let mut watcher = Watcher { calls: calls.clone(), due: lanes * CALLS as usize };
    assert!(rig.play(&mut watcher), "calls wait for ever: {:?}", calls.borrow());
    match planted {
        None => rig.close(&mut watcher),
        Some(_) => rig.drain(&mut watcher),
    }
    let sum = |counter| rig.count_of(0, counter) + rig.count_of(1, counter);
    assert_eq!(sum(C::HandshakesUnderWay), 0);
    let calls = calls.take();
    Played { calls, report: world.report(), log: world.log(), refusals: sum(C::TransformRefusals), cuts: sum(C::StreamsCut) }
}

/// What must be so in every run: nobody is refused, and all calls come to their end in order, but where the system has broken some.
fn judge(played: &Played) {
    let break_calls = [FaultKind::Reset, FaultKind::AbortedAccept, FaultKind::LostAccept, FaultKind::FilledTable];
    let breaks: u64 = break_calls.map(|kind| played.report.faults.of(kind)).iter().sum();
    assert_eq!(played.refusals, 0, "nobody is at fault");
    for call in &played.calls {
        assert!(call.is_whole() || breaks > 0, "{call:?}");
    }
    assert!(played.cuts == 0 || breaks > 0, "all take leave");
}

#[test]
fn what_is_heard_is_what_was_said() {
    let (mut resumed, mut calls, mut faults) = (0, 0, FaultCounts::default());
    for_seeds(200, |seed| {
        let played = play(seed, if seed % 8 == 7 { Faults::none() } else { Faults::all(seed) }, None);
        judge(&played);
        calls += played.calls.len();
        resumed += played.calls.iter().filter(|call| call.resumed).count();
        faults.add(&played.report.faults);
    });
    println!("{calls} calls, {resumed} of them in sessions that went on");
    assert!(0 < resumed && resumed < calls, "some go on with a session, and some begin one");
    for kind in [FaultKind::ShortRead, FaultKind::ShortWrite, FaultKind::Reset, FaultKind::NoMemory, FaultKind::ClockJump] {
        println!("{}: {}", kind.name(), faults.of(kind));
    }
}

#[test]
fn what_comes_in_pieces_is_heard_as_well() {
    for_seeds(10, |seed| {
        let faults = Faults { short_read: 1_000, short_write: 1_000, late_completion: 100, ..Faults::none() };
        let played = play(seed, faults, None);
        judge(&played);
        let short = played.report.faults.of(FaultKind::ShortRead) + played.report.faults.of(FaultKind::ShortWrite);
        assert!(short > 300, "{short}");
    });
}

#[test]
fn the_same_seed_gives_the_same_log() {
    for_seeds(12, |seed| {
        let [one, other] = [(); 2].map(|()| play(seed, Faults::all(seed), None));
        assert_eq!(one.report.digest, other.report.digest);
        assert_eq!(one.log, other.log);
    });
}

/// Not one byte of what somebody has changed on the way is heard: who hears it says so.
#[test]
fn what_was_changed_on_its_way_is_not_heard() {
    let mut refused = 0;
    for_seeds(40, |seed| {
        let played = play(seed, Faults::none(), Some(Planted::CorruptByte));
        // What comes behind all that a side waits for is not looked at.
        let is_well = played.calls.iter().all(Call::is_whole);
        // Where a record's length is longer than it was, its end is waited for until a limit.
        let last =
            played.log.last().and_then(|line| line.split(' ').next()?.parse().ok()).map_or(Duration::ZERO, Duration::from_nanos);
        let is_waited_for = last >= AGES && played.calls.iter().any(|call| call.ending == Ending::Aborted);
        let is_told = played.refusals > 0 || is_waited_for;
        assert!(is_well || is_told, "{} bytes were changed, and nobody is at fault", played.report.planted);
        refused += played.refusals;
    });
    assert!(refused > 0);
}
