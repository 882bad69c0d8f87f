//! A file server in the manner of HTTP: ordered answers, bodies as parts of files, opening and reading that takes its time.

use crate::echo::pattern;
use crate::for_seeds;
use crate::rig::Talker;
use crate::rig::{Family, MS, Play, Rig, RigPlan, S, patient};
use corelane_seam::{Chain, File, FileOutcome, FilePart, OpenOptions, Outcome, RELEASE_LIMIT};
use corelane_sim::{Faults, Random, Report, World};
use corelane_svc::{Hold, Input, Next, Notes, Order, Output, Peer, StreamService, Ticket};
use corelane_watch::ServiceCounter as C;
use std::collections::BTreeMap;
use std::time::Duration;

/// Files of the server, by number: their lengths.
pub const LENGTHS: [usize; 6] = [0, 1, 700, 5_000, 70_000, 300_000];
/// The most bytes that are read into memory at once.
const READ_BYTES: usize = 64 << 10;

/// What is going on for one request: `GET` sends the file from the disk, `READ` reads it into memory first.
enum Work {
    Opening { ticket: Ticket, reads: bool },
    Reading { ticket: Ticket, file: File, length: usize, offset: usize, chain: Chain },
}

#[derive(Default)]
pub struct Files {
    work: BTreeMap<u64, Work>,
    /// What waits for memory to read into.
    waiting: Vec<Work>,
    next: u64,
}

/// The files that a connection's answers are sent from.
pub type OpenFiles = Vec<File>;

type Cx<'a> = corelane_svc::Cx<'a, Notes<File>>;

/// Bytes that are kept for the first line of an answer.
const LINE_BYTES: usize = 32;

/// The first line of an answer, in the memory that its ticket keeps.
fn line(cx: &Cx<'_>, ticket: &mut Ticket, text: &str) -> Chain {
    let mut writer = cx.answer_writer(ticket);
    writer.put(text.as_bytes()).and_then(|()| writer.finish()).expect("memory is kept for it")
}

/// After how long memory is asked for again.
const AGAIN: Duration = Duration::from_millis(1);

impl Files {
    fn token(&mut self, work: Work) -> u64 {
        self.next += 1;
        self.work.insert(self.next, work);
        self.next
    }

    fn opened(&mut self, cx: &mut Cx<'_>, mut ticket: Ticket, reads: bool, file: File, length: usize) {
        let connection = ticket.connection();
        let mut chain = line(cx, &mut ticket, &format!("OK {length}\n"));
        if reads && length > 0 {
            return self.read(cx, Work::Reading { ticket, file, length, offset: 0, chain });
        }
        chain.push(FilePart { file: file.clone(), offset: 0, length: length as u64 });
        cx.answer_chain(ticket, chain);
        cx.notify(connection, file);
    }

    fn read(&mut self, cx: &mut Cx<'_>, work: Work) {
        let Work::Reading { ref file, offset, length, .. } = work else { return };
        let file = file.clone();
        let until = READ_BYTES.min(length - offset);
        let Ok(lease) = cx.lease(until) else {
            self.waiting.push(work);
            return cx.start_alarm(AGAIN, 0).unwrap();
        };
        let token = self.token(work);
        cx.read_file(&file, offset as u64, lease, until, token);
    }

    fn take_read(&mut self, cx: &mut Cx<'_>, work: Work, outcome: Outcome) {
        let Work::Reading { ticket, file, length, mut offset, mut chain } = work else { return };
        match outcome {
            Outcome::File(FileOutcome::Filled { lease, fault: None }) => {
                offset += lease.len();
                chain.push(lease.share());
            }
            _ => return cx.answer(ticket, &b"ERROR\n"[..]),
        }
        if offset < length {
            return self.read(cx, Work::Reading { ticket, file, length, offset, chain });
        }
        cx.answer_chain(ticket, chain);
    }
}

impl StreamService for Files {
    type Talk = Notes<File>;
    type Session = OpenFiles;

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &Peer) -> OpenFiles {
        Vec::new()
    }

    fn receive(&mut self, cx: &mut Cx<'_>, _session: &mut OpenFiles, input: &mut Input, output: &mut Output) -> Next {
        while let Some(end) = input.position(b'\n') {
            if !output.ask_room() {
                break;
            }
            let Some(head) = input.contiguous(end) else { break };
            let head = String::from_utf8(head.to_vec()).unwrap();
            let Ok(ticket) = output.hold(Hold::new(Order::Kept).reserve(LINE_BYTES)) else { break };
            input.skip(end + 1);
            let (verb, path) = head.split_once(' ').unwrap();
            let token = self.token(Work::Opening { ticket, reads: verb == "READ" });
            cx.open_file(path.into(), OpenOptions::new().read(true), token);
            cx.count_requests(1);
        }
        Next::Continue
    }

    fn message(&mut self, _cx: &mut Cx<'_>, session: &mut OpenFiles, _output: &mut Output, file: File) -> Next {
        session.push(file);
        Next::Continue
    }

    fn completed(&mut self, cx: &mut Cx<'_>, token: u64, outcome: Outcome) {
        match (self.work.remove(&token).unwrap(), outcome) {
            (Work::Opening { ticket, reads }, Outcome::File(FileOutcome::Opened { file, facts })) => {
                self.opened(cx, ticket, reads, file, facts.length as usize);
            }
            (Work::Opening { ticket, .. }, Outcome::Failed(fault)) => {
                let missing = fault.reason == corelane_seam::Reason::NotFound;
                cx.answer(ticket, if missing { &b"MISSING\n"[..] } else { b"ERROR\n" });
            }
            (work @ Work::Reading { .. }, outcome) => self.take_read(cx, work, outcome),
            (Work::Opening { .. }, outcome) => unreachable!("{outcome:?}"),
        }
    }

    fn alarm(&mut self, cx: &mut Cx<'_>, _: u64) {
        std::mem::take(&mut self.waiting).into_iter().for_each(|work| self.read(cx, work));
    }
}

/// Requests for files by number; number 6 is not there.
pub fn requests(seed: u64) -> Vec<(bool, usize)> {
    let mut random = Random::new(seed);
    (0..1 + random.below(12)).map(|_| (random.below(2) == 0, random.below(LENGTHS.len() as u64 + 1) as usize)).collect()
}

pub fn text(requests: &[(bool, usize)]) -> Vec<u8> {
    let line = |&(reads, file): &(bool, usize)| format!("{} /{file}\n", if reads { "READ" } else { "GET" });
    requests.iter().map(line).collect::<String>().into_bytes()
}

/// Whether `got` is what the requests may be answered with; `whole` if no answer may be missing. `ERROR` may stand for an
/// answer where the disk fails or no descriptor is left.
pub fn judge(requests: &[(bool, usize)], mut got: &[u8], whole: bool, may_fail: bool) {
    for &(_, file) in requests {
        let answer = match LENGTHS.get(file) {
            Some(&length) => [format!("OK {length}\n").as_bytes(), &pattern(file as u64, length)].concat(),
            None => b"MISSING\n".to_vec(),
        };
        let error = b"ERROR\n";
        if may_fail && got.starts_with(error) {
            got = &got[error.len()..];
        } else if got.len() < answer.len() {
            assert!(!whole, "an answer is missing");
            assert!(answer.starts_with(got) || (may_fail && error.starts_with(got)), "wrong bytes");
            return;
        } else {
            assert!(got.starts_with(&answer), "wrong bytes for file {file}");
            got = &got[answer.len()..];
        }
    }
    assert!(got.is_empty(), "more than was asked for");
}

/// Lets all operations end: then no file is open, however its connections ended.
fn until_closed(rig: &mut Rig, cast: &mut impl Play) {
    let is_closed = |rig: &Rig| (rig.connections(), rig.world.open_files()) == (0, 0);
    // The clock may jump over a span; a file is open while the system still reads what was sent of it.
    for _ in 0..10 + RELEASE_LIMIT.as_secs() {
        rig.pass(S, cast);
        if is_closed(rig) {
            return;
        }
    }
    panic!("{} connections and {} files are open", rig.connections(), rig.world.open_files());
}

pub fn run(seed: u64, faults: Faults) -> Report {
    let world = World::new(seed, faults);
    (0..LENGTHS.len()).for_each(|file| world.write_file(format!("/{file}"), &pattern(file as u64, LENGTHS[file])));
    let mut rig =
        Rig::serving(&world, &RigPlan::lanes(2).memory(64 << 20).family(Family::of(seed)), patient(), |_| Files::default());
    let wishes: Vec<_> = (0..6).map(|number| requests(seed * 100 + number)).collect();
    let talker = |number: usize| Talker::new(rig.connect(number), seed, text(&wishes[number]));
    let mut talkers: Vec<Talker> = (0..6).map(talker).collect();
    assert!(rig.play(&mut talkers), "clients wait for ever");
    until_closed(&mut rig, &mut talkers);
    rig.close(&mut talkers);
    for (talker, requests) in talkers.iter().zip(&wishes) {
        judge(requests, &talker.got, talker.is_complete(), faults.file_error + faults.filled_table > 0);
        assert!(talker.is_complete() || faults != Faults::none());
    }
    if faults == Faults::none() {
        assert_eq!(rig.count(C::Requests), wishes.iter().map(Vec::len).sum::<usize>() as u64);
        assert_eq!((rig.count(C::TicketsDropped), rig.count(C::AnswersLate)), (0, 0));
    }
    world.report()
}

#[test]
fn files_are_served_in_order() {
    for_seeds(30, |seed| {
        run(seed, Faults::none());
    });
}

#[test]
fn files_are_served_in_order_under_every_fault() {
    for_seeds(60, |seed| {
        run(seed, Faults::all(seed));
    });
}

#[test]
fn files_of_connections_that_break_off_are_closed() {
    for_seeds(300, |seed| {
        let faults = if seed % 3 == 0 { Faults::none() } else { Faults { clock_jump: 0, ..Faults::all(seed) } };
        let world = World::new(seed, faults);
        (0..LENGTHS.len()).for_each(|file| world.write_file(format!("/{file}"), &pattern(file as u64, LENGTHS[file])));
        let mut rig =
            Rig::serving(&world, &RigPlan::lanes(2).memory(64 << 20).family(Family::of(seed)), patient(), |_| Files::default());
        let mut random = Random::new(seed);
        let mut peers: Vec<_> = (0..8).map(|number| rig.connect(number)).collect();
        rig.wait(MS);
        for (number, peer) in peers.iter().enumerate() {
            peer.send(&text(&requests(seed * 100 + number as u64)));
        }
        let mut opened = 0;
        while let Some(peer) = peers.pop() {
            rig.wait(Duration::from_nanos(random.below(300_000)));
            opened = opened.max(world.open_files());
            match random.below(3) {
                0 => peer.close(),
                _ => peer.reset(),
            }
        }
        assert!(opened > 0 || faults != Faults::none());
        until_closed(&mut rig, &mut crate::rig::Nobody);
        rig.close(&mut crate::rig::Nobody);
    });
}
