//! Parts of files behind transforms: what a client hears is what lies in the file, with bounded memory, and an end in order where a file has less than it had.

use crate::cipher::{Calls, Manner, ciphers};
use crate::echo::pattern;
use crate::for_seeds;
use crate::http::{Files, LENGTHS, judge, requests, text};
use crate::rig::{Play, Rig, RigPlan, S, Talker, address, patient};
use crate::transform::{KEY, xor};
use corelane_seam::{FileOutcome, FilePart, OpenOptions, Outcome};
use corelane_sim::{FaultKind, Faults, Report, Status, Turn, World};
use corelane_svc::{
    ConnectionId, Cx, Ending, Input, Next, Notes, Output, Passage, Peer, Progress, Silent, StreamService, Transform,
    TransformError,
};
use corelane_watch::LaneCounter;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// Clients of a run.
const CLIENTS: u64 = 6;

/// What each has heard, and how it ended.
type Heard = Rc<RefCell<Vec<Option<(Vec<u8>, Ending)>>>>;

/// Asks what its seed says, and closes when it has heard that many answers.
struct Getter {
    seed: u64,
    heard: Heard,
}

struct Line {
    number: u64,
    got: Vec<u8>,
}

/// How many whole answers these are.
fn answers(mut got: &[u8]) -> usize {
    let mut count = 0;
    while let Some(end) = got.iter().position(|&byte| byte == b'\n') {
        let length = std::str::from_utf8(&got[..end]).unwrap().strip_prefix("OK ").map_or(0, |length| length.parse().unwrap());
        let Some(rest) = got.get(end + 1 + length..) else { break };
        (got, count) = (rest, count + 1);
    }
    count
}

impl StreamService for Getter {
    type Talk = Silent;
    type Session = Line;

    fn started(&mut self, cx: &mut Cx<'_>) {
        let (lane, lanes) = (cx.lane() as u64, cx.lanes() as u64);
        for number in (0..CLIENTS).filter(|number| number % lanes == lane) {
            cx.connect(address(), Line { number, got: Vec::new() }).unwrap();
        }
    }

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &Peer) -> Line {
        unreachable!("it listens nowhere")
    }

    fn connected(&mut self, _cx: &mut Cx<'_>, line: &mut Line, output: &mut Output) -> Next {
        match output.write(&text(&requests(self.seed * 100 + line.number))) {
            Ok(()) => Next::Continue,
            Err(_) => Next::Abort,
        }
    }

    fn receive(&mut self, _cx: &mut Cx<'_>, line: &mut Line, input: &mut Input, _output: &mut Output) -> Next {
        while !input.is_empty() {
            let piece = input.first().len();
            line.got.extend_from_slice(input.first());
            input.skip(piece);
        }
        let due = requests(self.seed * 100 + line.number).len();
        if answers(&line.got) == due { Next::Close } else { Next::Continue }
    }

    fn closed(&mut self, _cx: &mut Cx<'_>, line: Line, ending: Ending) {
        self.heard.borrow_mut()[line.number as usize] = Some((line.got, ending));
    }
}

/// Waits until all have ended.
struct Watcher(Heard);

impl Play for Watcher {
    fn news(&mut self, _: &World, _: Turn) {}

    fn is_over(&self) -> bool {
        self.0.borrow().iter().all(Option::is_some)
    }
}

/// Clients behind the test cipher get files from a server behind it.
pub fn run(seed: u64, faults: Faults) -> Report {
    let world = World::new(seed, faults);
    (0..LENGTHS.len()).for_each(|file| world.write_file(format!("/{file}"), &pattern(file as u64, LENGTHS[file])));
    let ages = Duration::from_secs(1 << 20);
    let limits = patient().handshake_limit(ages).connect_limit(ages).output_high(64 << 10);
    let plan = RigPlan::lanes(1 + seed as usize % 2).memory(if seed.is_multiple_of(3) { 4 << 20 } else { 32 << 20 });
    let heard: Heard = Rc::new(RefCell::new(vec![None; CLIENTS as usize]));
    let calls = Calls::default();
    let cipher = || Box::new(ciphers(|_, _| Manner::default(), &calls));
    let mut rig = Rig::new(&world, &plan, |roster| {
        roster.serve_behind(address(), limits, Files::default(), cipher());
        roster.client_behind(limits, Getter { seed, heard: heard.clone() }, cipher());
    });
    let mut watcher = Watcher(heard.clone());
    assert!(
        rig.play(&mut watcher),
        "clients wait for ever: {:?}",
        heard.borrow().iter().map(Option::is_some).collect::<Vec<_>>()
    );
    rig.pass(60 * S, &mut watcher); // the clock may jump
    assert_eq!((rig.connections(), world.open_files()), (0, 0));
    rig.close(&mut watcher);
    for (number, heard) in heard.take().into_iter().enumerate() {
        let (got, ending) = heard.unwrap();
        let requests = requests(seed * 100 + number as u64);
        judge(&requests, &got, ending == Ending::Completed, faults != Faults::none());
        assert!(ending == Ending::Completed || faults != Faults::none(), "{ending:?}");
    }
    world.report()
}

#[test]
fn files_come_whole_behind_a_cipher() {
    for_seeds(30, |seed| {
        run(seed, Faults::none());
    });
}

#[test]
fn files_come_behind_a_cipher_under_every_fault() {
    let mut short = 0;
    for_seeds(100, |seed| short += run(seed, Faults::all(seed)).faults.of(FaultKind::ShortFileRead));
    assert!(short > 0);
}

/// Sends one file of which it promises so many bytes more than there are, and a word behind it.
struct Sender {
    more: u64,
    waits: Option<ConnectionId>,
    ending: Rc<Cell<Option<Ending>>>,
}

impl StreamService for Sender {
    type Talk = Notes<FilePart>;
    type Session = ();

    fn open(&mut self, cx: &mut Cx<'_, Self::Talk>, _peer: &Peer) {
        cx.open_file("/file".into(), OpenOptions::new().read(true), 0);
        self.waits = Some(cx.id());
    }

    fn receive(&mut self, _cx: &mut Cx<'_, Self::Talk>, (): &mut (), _input: &mut Input, _output: &mut Output) -> Next {
        Next::Continue
    }

    fn completed(&mut self, cx: &mut Cx<'_, Self::Talk>, _token: u64, outcome: Outcome) {
        let Outcome::File(FileOutcome::Opened { file, facts }) = outcome else { unreachable!("{outcome:?}") };
        let part = FilePart { file, offset: 0, length: facts.length + self.more };
        cx.notify(self.waits.take().unwrap(), part);
    }

    fn message(&mut self, _cx: &mut Cx<'_, Self::Talk>, (): &mut (), output: &mut Output, part: FilePart) -> Next {
        output.write(b"head").unwrap();
        output.push(part);
        output.write(b"tail").unwrap();
        Next::Close
    }

    fn closed(&mut self, _cx: &mut Cx<'_, Self::Talk>, (): (), ending: Ending) {
        self.ending.set(Some(ending));
    }
}

/// Lets all through as it is.
struct Window;

impl Transform for Window {
    fn pass(&mut self, passage: &mut Passage<'_>) -> Result<Progress, TransformError> {
        passage.open();
        passage.input.append(passage.received);
        passage.wire.append(passage.output);
        Ok(Progress::Idle)
    }

    fn passes_files(&self) -> bool {
        true
    }
}

type Make = fn() -> Box<dyn Transform>;

/// What a client heard that read so many bytes at once, how its stream and the connection ended, and how often the file was read.
#[derive(Debug, PartialEq)]
struct Sent {
    got: Vec<u8>,
    end: Option<Status>,
    ending: Option<Ending>,
    reads: u64,
}

/// Sends a file of so many bytes, perhaps behind a transform.
fn send(make: Option<Make>, bytes: usize, more: u64, read_most: usize) -> Sent {
    let world = World::new(7, Faults::none());
    world.write_file("/file", &pattern(3, bytes));
    let ending = Rc::new(Cell::new(None));
    let sender = |_| Sender { more, waits: None, ending: ending.clone() };
    let plan = RigPlan::lanes(1).memory(1 << 20);
    let mut rig = match make {
        None => Rig::serving(&world, &plan, patient(), sender),
        Some(make) => Rig::behind(&world, &plan, patient(), sender, move |_, _| Some(make())),
    };
    let mut talkers = vec![Talker::new(rig.connect(1), 7, Vec::new())];
    talkers[0].read_most = read_most;
    assert!(rig.play(&mut talkers), "the client waits for ever");
    rig.close(&mut talkers);
    let (got, end) = (std::mem::take(&mut talkers[0].got), talkers[0].end);
    Sent { got, end, ending: ending.get(), reads: rig.lane_count(LaneCounter::FileOperations) }
}

fn unveiled(mut sent: Sent) -> Sent {
    sent.got.iter_mut().for_each(|byte| *byte ^= KEY);
    sent
}

fn all(bytes: usize) -> Vec<u8> {
    [b"head", &pattern(3, bytes)[..], b"tail"].concat()
}

#[test]
fn a_file_that_is_larger_than_the_memory_leaves_whole() {
    let bytes = 8 << 20;
    let sent = unveiled(send(Some(xor), bytes, 0, 50_000));
    assert_eq!((sent.end, sent.ending), (Some(Status::Ended), Some(Ending::Completed)));
    assert!(sent.got == all(bytes), "{} bytes came", sent.got.len());
    assert_eq!(sent.reads, bytes as u64 / (64 << 10), "whole pieces");
}

#[test]
fn what_passes_files_has_them_sent_by_the_driver() {
    let sent = send(Some(|| Box::new(Window)), 300_000, 0, usize::MAX);
    assert!(sent.got == all(300_000), "{} bytes came", sent.got.len());
    assert_eq!((sent.reads, sent.ending), (0, Some(Ending::Completed)));
}

/// All that there is leaves, and then the connection ends as it does where the driver sends the file: not by a reset, and not as if all were well.
#[test]
fn a_file_that_has_become_shorter_ends_the_connection_in_order() {
    for bytes in [0, 1, 70_000, 200_000] {
        let bare = send(None, bytes, 1_000, 5_000);
        let veiled = unveiled(send(Some(xor), bytes, 1_000, 5_000));
        assert_eq!(bare.got, all(bytes)[..4 + bytes]);
        assert_eq!((bare.end, bare.ending), (Some(Status::Ended), Some(Ending::Error)));
        assert_eq!(veiled.got, bare.got);
        assert_eq!((veiled.end, veiled.ending), (bare.end, bare.ending), "{bytes} bytes");
    }
}
