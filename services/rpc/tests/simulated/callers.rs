//! The client, from a lane, against the server: each call ends exactly once, and with what the server has said, under faults.

use crate::for_seeds;
use crate::programs::{BY_HELPER, FAILS, NEVER, SLOW, Slow};
use crate::rig::{Family, Nobody, Rig, RigPlan, S, patient};
use corelane::service::{Ending, Fault, Reason, SocketId};
use corelane::testing::{Faults, World};
use corelane::{Address, Cx, DatagramService, Datagrams, Input, Instant, Next, Output, Peer, Replies, Silent, StreamService};
use corelane_rpc::client::{CallError, DatagramClient, OverdueCall, StreamClient};
use corelane_rpc::lookup::{Lookup, Whereabouts};
use corelane_rpc::{ECHO, Echo, Rpc, RpcDatagrams};
use corelane_wire::rpc::{Auth, CallHead, Patience};
use corelane_wire::xdr::{Decode, Encode, Opaque, Reader, Writer};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;

/// Calls of one caller, and how many it has under way at once.
const CALLS: u64 = 80;
const AT_ONCE: u32 = 6;
use std::time::Duration;

const PATIENCE: Patience =
    Patience { timeout: Duration::from_secs(3), again: Duration::from_millis(40), again_max: Duration::from_millis(300) };

/// What a call asks, by its name: one in eight of each kind but echo.
fn kind(name: u64) -> u64 {
    name.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61
}

fn payload(name: u64) -> Vec<u8> {
    let length = if kind(name) == 7 { 20_000 } else { name % 300 };
    (0..length).map(|at| (name + at) as u8).collect()
}

fn head(name: u64) -> CallHead<'static> {
    let (program, version, procedure) = match kind(name) {
        0 => (SLOW.number, 2, BY_HELPER),
        1 => (SLOW.number, 2, FAILS),
        2 => (SLOW.number, 2, NEVER),
        3 => (ECHO.number, 9, 1),
        4 => (100_005, 3, 0),
        _ => (ECHO.number, 1, 1),
    };
    CallHead { xid: 77, program, version, procedure, credential: Auth::NONE, verifier: Auth::NONE }
}

/// The arguments of a call: a number, or its payload.
struct Arguments(u64);

impl Encode for Arguments {
    fn encode(&self, to: &mut Writer<'_>) -> Result<(), corelane_wire::Error> {
        if kind(self.0) == 0 { to.u32(self.0 as u32) } else { to.opaque(&payload(self.0)) }
    }
}

/// How calls have ended, by name.
#[derive(Default)]
struct Ledger {
    begun: u64,
    /// Whether the server may be refused memory.
    may_fail: bool,
    ends: BTreeMap<u64, &'static str>,
}

type LedgerRef = Rc<RefCell<Ledger>>;

impl Ledger {
    /// Notes the one end of a call, after a look at its results.
    fn end(&mut self, name: u64, results: Result<&[u8], CallError>) {
        let end = match (kind(name), results) {
            (0, Ok(bytes)) => {
                assert_eq!(bytes, (name as u32).to_be_bytes());
                "answered"
            }
            (5.., Ok(bytes)) => {
                assert_eq!(Opaque::<65_536>::decode(&mut Reader::new(bytes)).unwrap().bytes(), payload(name));
                "answered"
            }
            (1, Err(CallError::SystemError)) | (4, Err(CallError::ProgramUnavailable)) => "answered",
            (3, Err(CallError::ProgramMismatch { low: 1, high: 1 })) => "answered",
            (_, Err(CallError::SystemError)) if self.may_fail => "failed",
            (_, Err(CallError::TimedOut)) => "timed out",
            (_, Err(CallError::Lost)) => "lost",
            (kind, other) => panic!("a call of kind {kind} ended with {other:?}"),
        };
        assert_eq!(self.ends.insert(name, end), None, "call {name} has ended before");
    }

    fn of(&self, end: &str) -> u64 {
        self.ends.values().filter(|&&other| other == end).count() as u64
    }
}

/// Calls over connections: a lost one is opened again, until all calls are made.
struct StreamCaller {
    ledger: LedgerRef,
    to: Address,
}

type Client = StreamClient<u64>;

impl StreamCaller {
    fn client() -> Client {
        StreamClient::new(AT_ONCE, 64 << 10, 5)
    }

    /// Makes calls until there is no room.
    fn fill(&self, cx: &mut Cx<'_>, client: &mut Client, output: &mut Output) -> Next {
        loop {
            let name = self.ledger.borrow().begun;
            if name == CALLS {
                return if client.is_empty() { Next::Close } else { Next::Continue };
            }
            match client.call(cx.now(), output, &head(name), &Arguments(name), PATIENCE.timeout, name) {
                Ok(_) => self.ledger.borrow_mut().begun += 1,
                Err((CallError::Full { limit: AT_ONCE } | CallError::NoMemory, back)) => {
                    assert_eq!(back, name);
                    let due = client.next_due().unwrap_or(cx.now());
                    cx.start_timer(due - cx.now(), 0).unwrap();
                    return Next::Continue;
                }
                Err((error, _)) => panic!("{error}"),
            }
        }
    }
}

impl StreamService for StreamCaller {
    type Talk = Silent;
    type Session = Client;

    fn started(&mut self, cx: &mut Cx<'_>) {
        cx.connect(self.to.clone(), Self::client()).unwrap();
    }

    fn open(&mut self, _: &mut Cx<'_>, _: &Peer) -> Client {
        unreachable!("nobody connects to it")
    }

    fn connected(&mut self, cx: &mut Cx<'_>, client: &mut Client, output: &mut Output) -> Next {
        self.fill(cx, client, output)
    }

    fn receive(&mut self, cx: &mut Cx<'_>, client: &mut Client, input: &mut Input, output: &mut Output) -> Next {
        let next = client.receive(input, |name, results| self.ledger.borrow_mut().end(name, results)).unwrap();
        match self.fill(cx, client, output) {
            Next::Close => Next::Close,
            _ => next,
        }
    }

    fn timer(&mut self, cx: &mut Cx<'_>, client: &mut Client, output: &mut Output, _token: u64) -> Next {
        while let Some(name) = client.overdue(cx.now()) {
            self.ledger.borrow_mut().end(name, Err(CallError::TimedOut));
        }
        let due = client.next_due().unwrap_or(cx.now() + Duration::from_secs(1));
        cx.start_timer(due - cx.now(), 0).unwrap();
        self.fill(cx, client, output)
    }

    fn closed(&mut self, cx: &mut Cx<'_>, mut client: Client, _ending: Ending) {
        client.lost().for_each(|name| self.ledger.borrow_mut().end(name, Err(CallError::Lost)));
        assert!(client.is_empty());
        if self.ledger.borrow().begun < CALLS {
            let _ = cx.connect(self.to.clone(), Self::client());
        }
    }
}

/// Calls over datagrams.
struct DatagramCaller {
    ledger: LedgerRef,
    family: Family,
    to: Address,
    client: DatagramClient<u64>,
    socket: Option<SocketId>,
}

impl DatagramCaller {
    fn fill(&mut self, cx: &mut Cx<'_>, mut replies: Option<&mut Replies>) {
        while self.ledger.borrow().begun < CALLS && self.client.len() < AT_ONCE as usize {
            let name = self.ledger.borrow().begun;
            let datagram = match self.client.call(cx, &head(name), &Arguments(name), PATIENCE, name) {
                Ok(datagram) => datagram,
                Err((CallError::NoMemory, _)) => return cx.start_alarm(Duration::from_millis(1), 0).unwrap(),
                Err((error, _)) => panic!("{error}"),
            };
            self.ledger.borrow_mut().begun += 1;
            match replies.as_deref_mut() {
                Some(replies) => assert!(replies.send(&self.to, None, datagram)),
                None => assert!(cx.datagrams(self.socket.unwrap()).unwrap().send(&self.to, None, datagram)),
            }
        }
        cx.start_alarm(self.client.next_due().unwrap_or(Instant::NEVER), 0).unwrap();
    }
}

impl DatagramService for DatagramCaller {
    type Talk = Silent;
    fn started(&mut self, cx: &mut Cx<'_>) {
        self.socket = Some(cx.open_datagrams(self.family.any(), Some(self.to.clone())).unwrap());
    }

    fn opened(&mut self, cx: &mut Cx<'_>, _socket: SocketId, outcome: Result<Address, Fault>) {
        match outcome {
            Ok(_) => self.fill(cx, None),
            Err(fault) => {
                assert_eq!(fault.reason, Reason::NoDescriptor);
                self.started(cx);
            }
        }
    }

    fn receive(&mut self, cx: &mut Cx<'_>, batch: &Datagrams, replies: &mut Replies) {
        self.client.receive(batch, |name, results| self.ledger.borrow_mut().end(name, results));
        self.fill(cx, Some(replies));
    }

    fn alarm(&mut self, cx: &mut Cx<'_>, _: u64) {
        while let Some(step) = self.client.overdue(cx.now()) {
            match step {
                OverdueCall::Again(datagram) => {
                    cx.datagrams(self.socket.unwrap()).unwrap().send(&self.to, None, datagram);
                }
                OverdueCall::GivenUp(name) => self.ledger.borrow_mut().end(name, Err(CallError::TimedOut)),
            }
        }
        self.fill(cx, None);
    }
}

/// The programs at two ports, over connections and over datagrams, and a caller of each beside them.
fn run(seed: u64, faults: Faults) -> [LedgerRef; 2] {
    let world = World::new(seed, faults);
    let ledgers: [LedgerRef; 2] = Default::default();
    ledgers.iter().for_each(|ledger| ledger.borrow_mut().may_fail = faults.refused_memory > 0);
    let [streams, datagrams] = ledgers.clone();
    let family = Family::of(seed);
    // A name of the file system is of one socket.
    let [to, to_datagrams] = [7, 8].map(|port| family.at(port));
    let mut rig = Rig::new(&world, &RigPlan::lanes(1), |roster| {
        roster.serve(to.clone(), patient(), Rpc::talking((Echo, Slow::default())));
        roster.serve_datagrams(to_datagrams.clone(), patient(), RpcDatagrams::talking((Echo, Slow::default())));
        roster.client(patient(), StreamCaller { ledger: streams.clone(), to: to.clone() });
        let client = DatagramClient::new(AT_ONCE, 9);
        let to = to_datagrams.clone();
        let caller = DatagramCaller { ledger: datagrams.clone(), family, to, client, socket: None };
        roster.client_datagrams(patient(), caller);
    });
    for _ in 0..200 {
        if ledgers.iter().all(|ledger| ledger.borrow().ends.len() as u64 == CALLS) {
            break;
        }
        rig.pass(S, &mut Nobody);
    }
    rig.close(&mut Nobody);
    ledgers
}

/// Makes a call that is longer than its client's records may be, and then one that is not.
struct Boundless {
    to: Address,
    answered: Rc<RefCell<Vec<&'static str>>>,
}

impl Boundless {
    const BYTES: u32 = 128;
}

impl StreamService for Boundless {
    type Talk = Silent;
    type Session = StreamClient<&'static str>;

    fn started(&mut self, cx: &mut Cx<'_>) {
        cx.connect(self.to.clone(), Self::Session::new(AT_ONCE, Self::BYTES, 0)).unwrap();
    }

    fn open(&mut self, _: &mut Cx<'_>, _: &Peer) -> Self::Session {
        unreachable!("nobody connects to it")
    }

    fn connected(&mut self, cx: &mut Cx<'_>, client: &mut Self::Session, output: &mut Output) -> Next {
        let what = CallHead { procedure: 1, program: ECHO.number, version: 1, ..head(5) };
        let long = Opaque::<65_536>::new(&[7; Self::BYTES as usize]).unwrap();
        let refused = client.call(cx.now(), output, &what, &long, PATIENCE.timeout, "too long");
        assert!(matches!(refused, Err((CallError::Arguments(_), "too long"))), "{refused:?}");
        assert!(output.is_empty(), "nothing was written of it");
        assert_eq!((client.len(), client.counts().begun, client.counts().dropped), (0, 1, 1));
        let short = Opaque::<65_536>::new(&[7; 4]).unwrap();
        client.call(cx.now(), output, &what, &short, PATIENCE.timeout, "fits").unwrap();
        Next::Continue
    }

    fn receive(&mut self, _: &mut Cx<'_>, client: &mut Self::Session, input: &mut Input, _: &mut Output) -> Next {
        let answered = |name, results: Result<&[u8], CallError>| {
            assert!(results.is_ok(), "{results:?}");
            self.answered.borrow_mut().push(name);
        };
        client.receive(input, answered).unwrap();
        Next::Continue
    }
}

#[test]
fn a_call_that_cannot_be_written_is_given_back_and_the_next_one_is_made() {
    let answered = Rc::default();
    let to = Family::of(0).at(7);
    let mut rig = Rig::new(&World::new(0, Faults::none()), &RigPlan::lanes(1), |roster| {
        roster.serve(to.clone(), patient(), Rpc::new((Echo,)));
        roster.client(patient(), Boundless { to: to.clone(), answered: Rc::clone(&answered) });
    });
    rig.pass(S, &mut Nobody);
    rig.close(&mut Nobody);
    assert_eq!(*answered.borrow(), ["fits"]);
}

/// Calls that are answered never, whatever the way does.
fn never() -> u64 {
    (0..CALLS).filter(|&name| kind(name) == 2).count() as u64
}

#[test]
fn each_call_ends_once_and_with_what_the_server_said() {
    for_seeds(20, |seed| {
        let ledgers = run(seed, Faults::none());
        for ledger in &ledgers {
            let ledger = ledger.borrow();
            assert_eq!((ledger.of("answered"), ledger.of("timed out")), (CALLS - never(), never()));
        }
    });
}

#[test]
fn each_call_ends_once_under_every_fault() {
    let (mut lost, mut late) = (0, 0);
    for_seeds(150, |seed| {
        let ledgers = run(seed, Faults::all(seed));
        for ledger in &ledgers {
            let ledger = ledger.borrow();
            assert_eq!((ledger.begun, ledger.ends.len() as u64), (CALLS, CALLS), "seed {seed}");
            lost += ledger.of("lost");
            late += ledger.of("timed out");
        }
    });
    assert!(lost > 0 && late > never(), "{lost} were lost and {late} timed out");
}

#[test]
fn a_lookup_falls_back_to_older_versions_and_reads_every_answer() {
    let tcp = corelane::lanes::Transport::Tcp;
    let rpcbind: SocketAddr = "192.0.2.1:111".parse().unwrap();
    let encoded = |value: &dyn Fn(&mut Writer<'_>) -> Result<(), corelane_wire::Error>| {
        let mut memory = [0; 512];
        let mut writer = Writer::new(&mut memory);
        value(&mut writer).unwrap();
        writer.written().to_vec()
    };
    let text = |text: &str| encoded(&|to| to.opaque(text.as_bytes()));
    let at = |place: &str| Whereabouts::At(place.parse().unwrap());
    let mut lookup = Lookup::new(100_003, 3, tcp, rpcbind);
    let asks = |lookup: &Lookup| (lookup.call().0.version, encoded(&|to| lookup.call().1.encode(to)));
    assert_eq!(asks(&lookup).0, 4);
    assert_eq!(lookup.answer(Ok(&text("192.0.2.9.8.1"))), at("192.0.2.9:2049"));
    assert_eq!(lookup.answer(Ok(&text("0.0.0.0.8.1"))), at("192.0.2.1:2049"));
    assert_eq!(lookup.answer(Ok(&text(""))), Whereabouts::Nowhere);
    assert!(matches!(lookup.answer(Ok(&text("nowhere"))), Whereabouts::Failed(CallError::Unreadable(_))));
    assert!(matches!(lookup.answer(Ok(&[0, 0])), Whereabouts::Failed(CallError::Unreadable(_))));
    assert_eq!(lookup.answer(Err(CallError::TimedOut)), Whereabouts::Failed(CallError::TimedOut));
    assert_eq!(lookup.answer(Err(CallError::ProgramMismatch { low: 2, high: 2 })), Whereabouts::AskAgain);
    assert_eq!(lookup.answer(Err(CallError::ProcedureUnavailable)), Whereabouts::AskAgain);
    let (version, arguments) = asks(&lookup);
    // RFC 1833 section 3: a mapping of program, version, protocol (6: TCP), and a port that is not looked at.
    assert_eq!((version, arguments), (2, encoded(&|to| [100_003, 3, 6, 0].into_iter().try_for_each(|word| to.u32(word)))));
    assert_eq!(lookup.answer(Ok(&2_049_u32.to_be_bytes())), at("192.0.2.1:2049"));
    assert_eq!(lookup.answer(Ok(&[0; 4])), Whereabouts::Nowhere);
    assert!(matches!(lookup.answer(Ok(&[0, 1, 0, 0])), Whereabouts::Failed(CallError::Unreadable(_))));
    let mismatch = CallError::ProgramMismatch { low: 5, high: 5 };
    assert_eq!(lookup.answer(Err(mismatch)), Whereabouts::Failed(mismatch));
    // A port mapper knows nothing of IPv6.
    let mut v6 = Lookup::new(100_003, 3, tcp, "[2001:db8::1]:111".parse().unwrap());
    assert_eq!(v6.answer(Err(mismatch)), Whereabouts::AskAgain);
    assert_eq!(v6.answer(Err(mismatch)), Whereabouts::Failed(mismatch));
}
