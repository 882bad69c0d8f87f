//! Calls behind the test cipher, both ends and perhaps a proxy between them on lanes, under every fault: what a service is told is what was said.

use crate::cipher::{CERTIFICATE, Calls, Manner, PROTOCOLS, ciphers};
use crate::echo::pattern;
use crate::for_seeds;
use crate::rig::{Family, Play, Rig, RigPlan, patient};
use corelane_seam::{Address, Arena};
use corelane_sim::{Faults, Random, Report, Turn, World};
use corelane_svc::{ConnectionId, Cx, Ending, Input, Next, Output, Peer, Side, Silent, StreamService};
use corelane_watch::ServiceCounter as C;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// Where the calls are taken.
pub const PLAIN: u16 = 7;
/// Where the client's cipher leaves without a word.
const RUDE: u16 = 8;
pub const PROXY: u16 = 9;
/// Calls in a run.
const CALLS: u32 = 15;
/// Bytes in front of what a call says: its number, how much follows, how it ends.
const HEAD: usize = 9;

/// How a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The caller closes when it has heard all.
    Caller,
    /// The one who is called does.
    Called,
    /// The caller breaks off in the middle.
    BrokenOff,
    /// The caller closes when it has heard all, and its cipher says no word of it.
    Rude,
    /// The caller closes when it has said all, and hears nothing.
    Deaf,
}

const WAYS: [Way; 5] = [Way::Caller, Way::Called, Way::BrokenOff, Way::Rude, Way::Deaf];

/// What one end of a call knows.
#[derive(Clone, Debug, Default)]
struct End {
    heard: usize,
    /// It was told that the stream has ended; and whether that was cut.
    ended: Option<bool>,
    closed: Option<Ending>,
}

#[derive(Default)]
struct Book {
    callers: BTreeMap<u32, End>,
    called: BTreeMap<u32, End>,
}

type SharedBook = Rc<RefCell<Book>>;

/// How a call of this number goes in the run of `seed`.
fn call(seed: u64, number: u32) -> (Way, Vec<u8>) {
    let way = WAYS[number as usize % WAYS.len()];
    let bytes = Random::new(seed * 1_000 + u64::from(number)).one_to(40_000);
    let head = [&number.to_be_bytes()[..], &(bytes as u32).to_be_bytes(), &[number as u8 % WAYS.len() as u8]].concat();
    (way, [head, pattern(seed + u64::from(number), bytes)].concat())
}

/// Says back what it hears, and compares that with what was to be said.
struct Mirror {
    seed: u64,
    book: SharedBook,
}

/// The number and the whole text of the call, once that is known.
type Reflection = Option<(u32, Way, Vec<u8>)>;

/// Whether the connection's cipher has told all that it knows, on the side that it is on.
fn is_introduced(peer: &Peer, side: Side) -> bool {
    let learned = peer.learned.as_deref().expect("a service gets a connection with what was learned of the peer");
    let certificates: &[Vec<u8>] = if side == Side::Client { &[CERTIFICATE.to_vec()] } else { &[] };
    let is_agreed = learned.protocol.as_deref() == Some(PROTOCOLS[0].as_bytes());
    is_agreed
        && learned.certificates == certificates
        && learned.server_name.as_ref().is_some_and(|name| name.starts_with("host-"))
}

impl StreamService for Mirror {
    type Talk = Silent;
    type Session = Reflection;

    fn open(&mut self, _cx: &mut Cx<'_>, peer: &Peer) -> Reflection {
        assert!(is_introduced(peer, Side::Server), "{peer:?}");
        None
    }

    fn receive(&mut self, cx: &mut Cx<'_>, session: &mut Reflection, input: &mut Input, output: &mut Output) -> Next {
        if session.is_none() && input.len() >= HEAD {
            let Some(head) = input.contiguous(HEAD) else { return Next::Continue };
            let number = u32::from_be_bytes(head[..4].try_into().unwrap());
            let (way, text) = call(self.seed, number);
            assert_eq!(head, &text[..HEAD], "what was said comes as it was said");
            *session = Some((number, way, text));
            self.book.borrow_mut().called.entry(number).or_default();
        }
        let Some((number, way, text)) = session else { return Next::Continue };
        if !output.ask_room() {
            return Next::Continue;
        }
        let mut book = self.book.borrow_mut();
        let end = book.called.get_mut(number).unwrap();
        while !input.is_empty() {
            let piece = input.first().to_vec();
            assert_eq!(piece, text[end.heard..end.heard + piece.len()], "what was said comes as it was said");
            end.heard += piece.len();
            output.forward(input.take(piece.len()));
        }
        cx.count_requests(1);
        assert!(input.is_finished() || !input.is_truncated());
        end.ended = input.is_finished().then(|| input.is_truncated());
        if *way == Way::Called && end.heard == text.len() { Next::Close } else { Next::Continue }
    }

    fn closed(&mut self, _cx: &mut Cx<'_>, session: Reflection, ending: Ending) {
        let mut book = self.book.borrow_mut();
        if let Some(end) = session.and_then(|(number, ..)| book.called.get_mut(&number)) {
            end.closed = Some(ending);
        }
    }
}

/// Makes all calls, each lane its part.
struct Caller {
    seed: u64,
    family: Family,
    is_proxied: bool,
    book: SharedBook,
}

struct Call {
    number: u32,
    way: Way,
    text: Vec<u8>,
    said: usize,
}

impl Caller {
    fn to(&self, way: Way) -> Address {
        self.family.at(match way {
            Way::Rude => RUDE,
            _ if self.is_proxied => PROXY,
            _ => PLAIN,
        })
    }
}

/// Says the next pieces.
fn say(call: &mut Call, output: &mut Output) -> Next {
    while call.said < call.text.len() && output.ask_room() {
        let piece = &call.text[call.said..call.text.len().min(call.said + 3_000)];
        if output.write(piece).is_err() {
            break;
        }
        call.said += piece.len();
    }
    if call.said < call.text.len() {
        output.notify_drained();
    } else if call.way == Way::Deaf {
        return Next::Close;
    }
    Next::Continue
}

impl StreamService for Caller {
    type Talk = Silent;
    type Session = Call;

    fn started(&mut self, cx: &mut Cx<'_>) {
        let (lane, lanes) = (cx.lane(), cx.lanes());
        for number in (0..CALLS).filter(|number| *number as usize % lanes == lane) {
            let (way, text) = call(self.seed, number);
            self.book.borrow_mut().callers.insert(number, End::default());
            cx.connect(self.to(way), Call { number, way, text, said: 0 }).unwrap();
        }
    }

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &Peer) -> Call {
        unreachable!("it listens nowhere")
    }

    fn connected(&mut self, cx: &mut Cx<'_>, call: &mut Call, output: &mut Output) -> Next {
        let peer = cx.peer(cx.id()).unwrap();
        assert!(is_introduced(&peer, Side::Client), "{peer:?}");
        say(call, output)
    }

    fn drained(&mut self, _cx: &mut Cx<'_>, call: &mut Call, output: &mut Output) -> Next {
        say(call, output)
    }

    fn receive(&mut self, _cx: &mut Cx<'_>, call: &mut Call, input: &mut Input, _output: &mut Output) -> Next {
        let mut book = self.book.borrow_mut();
        let end = book.callers.get_mut(&call.number).unwrap();
        while !input.is_empty() {
            let piece = input.first().to_vec();
            assert_eq!(piece, call.text[end.heard..end.heard + piece.len()], "an echo is what was said");
            end.heard += piece.len();
            input.skip(piece.len());
        }
        end.ended = input.is_finished().then(|| input.is_truncated());
        match call.way {
            Way::BrokenOff if end.heard >= call.text.len() / 2 => Next::Abort,
            Way::Caller | Way::Rude if end.heard == call.text.len() => Next::Close,
            _ => Next::Continue,
        }
    }

    fn closed(&mut self, _cx: &mut Cx<'_>, call: Call, ending: Ending) {
        self.book.borrow_mut().callers.get_mut(&call.number).unwrap().closed = Some(ending);
    }
}

/// Passes on what it hears, both ways.
pub struct Proxy {
    pub family: Family,
}

impl StreamService for Proxy {
    type Talk = Silent;
    type Session = ConnectionId;

    fn open(&mut self, cx: &mut Cx<'_>, _peer: &Peer) -> ConnectionId {
        let here = cx.id();
        let there = cx.connect(self.family.at(PLAIN), here).unwrap();
        cx.pair(here, there);
        there
    }

    fn receive(&mut self, cx: &mut Cx<'_>, other: &mut ConnectionId, input: &mut Input, _output: &mut Output) -> Next {
        match cx.connection(*other) {
            _ if input.is_empty() => Next::Continue,
            Some(output) => {
                output.forward(input.take_all());
                Next::Continue
            }
            None => Next::Abort,
        }
    }
}

/// Waits until every caller is done.
struct Watcher(SharedBook);

impl Play for Watcher {
    fn news(&mut self, _: &World, _: Turn) {}

    fn is_over(&self) -> bool {
        let book = self.0.borrow();
        book.callers.len() == CALLS as usize && book.callers.values().all(|end| end.closed.is_some())
    }
}

fn manner(seed: u64, family: Family) -> impl Fn(Side, &Peer) -> Manner + Clone + 'static {
    move |side, peer| {
        let is_rude = side == Side::Client && family.is_at(&peer.address, RUDE);
        Manner { steps: (seed % 4) as u32, is_rude, ..Manner::default() }
    }
}

/// All calls of a seed, perhaps through a proxy that has ciphers on both of its sides.
pub fn run(seed: u64, faults: Faults, is_proxied: bool) -> Report {
    run_refusing(seed, faults, is_proxied, |_| {})
}

/// The same, with lanes whose memory is as `equip` makes it.
fn run_refusing(seed: u64, faults: Faults, is_proxied: bool, equip: impl FnOnce(&[Arena])) -> Report {
    let world = World::new(seed, faults);
    let (book, calls) = (SharedBook::default(), Calls::default());
    let limits = patient().handshake_limit(Duration::from_secs(1 << 20)).output_high(16 << 10);
    let family = Family::of(seed);
    let plan = RigPlan::lanes(1 + seed as usize % 2).memory(8 << 20).family(family);
    let cipher = || Box::new(ciphers(manner(seed, family), &calls));
    let mut rig = Rig::new(&world, &plan, |roster| {
        let mirror = || Mirror { seed, book: book.clone() };
        roster.serve_behind(family.at(PLAIN), limits, mirror(), cipher());
        roster.serve_behind(family.at(RUDE), limits, mirror(), cipher());
        roster.client_behind(limits, Caller { seed, family, is_proxied, book: book.clone() }, cipher());
        roster.serve_behind(family.at(PROXY), limits, Proxy { family }, cipher());
    });
    equip(&rig.arenas);
    let mut watcher = Watcher(book.clone());
    assert!(rig.play(&mut watcher), "calls wait for ever: {:?}", book.borrow().callers);
    rig.close(&mut watcher);
    // What a proxy passes on, and what a Unix socket tells, of a call that was broken off, is that it was cut.
    let breaks_are_cuts = is_proxied || family.is_unix();
    judge(seed, faults, breaks_are_cuts, &book.borrow());
    if faults == Faults::none() {
        count(&rig, is_proxied, family);
    }
    world.report()
}

fn judge(seed: u64, faults: Faults, breaks_are_cuts: bool, book: &Book) {
    for (number, caller) in &book.callers {
        let (way, text) = call(seed, *number);
        let called = book.called.get(number).cloned().unwrap_or_default();
        let all = text.len();
        let what = format!("call {number}, {way:?}, {all} bytes: {caller:?}, {called:?}");
        assert!(called.closed.is_some() || called.heard == 0, "{what}");
        // A reset may show as an end, if a send has met it already.
        let may_break = faults != Faults::none() || breaks_are_cuts && way == Way::BrokenOff;
        let says_so = !matches!(way, Way::Rude | Way::BrokenOff);
        match called.ended {
            Some(false) => assert!(called.heard == all && says_so, "a stream ends when all has come: {what}"),
            Some(true) => assert!(way == Way::Rude || may_break, "only who says no word is cut: {what}"),
            None => {}
        }
        match caller.ended {
            Some(false) => assert_eq!((caller.heard, way), (all, Way::Called), "a stream ends when all has come: {what}"),
            Some(true) => assert!(may_break, "{what}"),
            None => {}
        }
        if faults == Faults::none() {
            judge_faultless(way, breaks_are_cuts, caller, &called, all, &what);
        }
    }
}

fn judge_faultless(way: Way, breaks_are_cuts: bool, caller: &End, called: &End, all: usize, what: &str) {
    let of_caller = match way {
        Way::Caller | Way::Rude | Way::Deaf => Ending::Completed,
        Way::Called => Ending::EndOfStream,
        Way::BrokenOff => Ending::Aborted,
    };
    let of_called = match way {
        Way::Caller | Way::Rude | Way::Deaf => (Some(way == Way::Rude), Some(Ending::EndOfStream)),
        Way::Called => (None, Some(Ending::Completed)),
        Way::BrokenOff => (called.ended, called.closed),
    };
    assert_eq!(caller.closed, Some(of_caller), "{what}");
    assert_eq!((called.ended, called.closed), of_called, "{what}");
    assert!(way == Way::BrokenOff || called.heard == all, "{what}");
    assert!(matches!(way, Way::BrokenOff | Way::Deaf) || caller.heard == all, "{what}");
    assert!(breaks_are_cuts || way != Way::BrokenOff || called.closed == Some(Ending::Error), "{what}");
}

fn count(rig: &Rig, is_proxied: bool, family: Family) {
    let calls = u64::from(CALLS);
    let rude = calls / WAYS.len() as u64;
    let of_proxy = if is_proxied { 2 * (calls - rude) } else { 0 };
    let handshakes = [0, 1, 2, 3].map(|service| rig.count_of(service, C::Handshakes));
    assert_eq!(handshakes, [calls - rude, rude, calls, of_proxy]);
    // What was broken off counts as cut where that does not show, if it has not ended before.
    let broken_off = |is_cut: bool| if is_cut { calls / WAYS.len() as u64 } else { 0 };
    let most = [broken_off(is_proxied || family.is_unix()), broken_off(is_proxied && family.is_unix())];
    let cut = [0, 1, 2, 3].map(|service| rig.count_of(service, C::StreamsCut));
    assert!(cut[0] <= most[0] && cut[1..3] == [rude, 0] && cut[3] <= most[1], "{cut:?}");
    for counter in [C::HandshakesFailed, C::TransformRefusals, C::Panics, C::HandshakesUnderWay] {
        assert_eq!([0, 1, 2, 3].map(|service| rig.count_of(service, counter)), [0; 4], "{counter:?}");
    }
}

#[test]
fn calls_behind_a_cipher_are_told_as_they_were_made() {
    for_seeds(40, |seed| {
        run(seed, Faults::none(), false);
        run(seed, Faults::none(), true);
    });
}

#[test]
fn calls_behind_a_cipher_come_to_their_end_under_every_fault() {
    for_seeds(150, |seed| {
        run(seed, Faults::all(seed), seed.is_multiple_of(3));
    });
}

/// A proxy gives its handshake up when the caller has broken off, and what the caller had said waits for that.
#[test]
fn what_waits_for_a_handshake_that_is_given_up_is_not_waited_for() {
    run(9_345, Faults::all(9_345), true);
}

#[test]
fn a_record_may_come_byte_by_byte() {
    for_seeds(3, |seed| {
        let faults = Faults { short_read: 1_000, short_write: 1_000, ..Faults::none() };
        run(seed, faults, seed.is_multiple_of(2));
    });
}

/// Each request for memory of a run is refused in a run of its own, once: what waits for it goes on, and each call ends as it does with memory.
#[test]
fn whichever_request_for_memory_is_refused_each_call_comes_to_its_end() {
    let refusing = |seed: u64, is_proxied: bool, refused: u64| {
        let asked = Rc::new(Cell::new(0));
        run_refusing(seed, Faults::none(), is_proxied, |arenas| {
            for arena in arenas {
                let asked = asked.clone();
                arena.refuse_when(move || asked.replace(asked.get() + 1) == refused);
            }
        });
        asked.get()
    };
    for (seed, is_proxied) in [(0, false), (0, true)] {
        let asked = refusing(seed, is_proxied, u64::MAX);
        println!("{asked} requests for memory");
        // All of the end, where last words are said, and some of the others.
        let most = if is_proxied { 150 } else { 50 };
        let step = asked.div_ceil(most).max(1);
        (0..asked).step_by(step as usize).for_each(|refused| {
            refusing(seed, is_proxied, refused);
        });
    }
}
