//! Files, offloaded calls and descriptors of others.

use crate::bench::{Bench, reason};
use corelane_seam::{
    Chain, Fault, File, FileFacts, FileOp, FileOutcome, FilePart, Interest, OffloadWork, Op, OpenOptions, Outcome, Reason,
    Segment, StreamOp, StreamOutcome,
};
use corelane_sim::{FaultKind, Faults};

const READ: Interest = Interest { read: true, write: false };
const WRITE: Interest = Interest { read: false, write: true };

fn open(bench: &mut Bench, write: bool) -> File {
    let options = OpenOptions::new().read(!write).write(write);
    match bench.run(0, FileOp::Open { beneath: None, path: "file".into(), options }) {
        Outcome::File(FileOutcome::Opened { file, facts: FileFacts { length: 10, .. } }) => file,
        other => panic!("{other:?}"),
    }
}

fn with_file(faults: Faults) -> Bench {
    let bench = Bench::new(faults);
    bench.world.write_file("file", b"0123456789");
    bench
}

fn read(bench: &mut Bench, file: &File, offset: u64, until: usize) -> (Vec<u8>, Option<Fault>) {
    let lease = bench.arena.copy_of(b">").unwrap();
    match bench.run(0, FileOp::Read { file: file.clone(), offset, lease, until }) {
        Outcome::File(FileOutcome::Filled { lease, fault }) => (lease.to_vec(), fault),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_is_read_and_written_at_offsets() {
    let mut bench = with_file(Faults::none());
    let file = open(&mut bench, false);
    assert_eq!(read(&mut bench, &file, 8, 100), (b">89".to_vec(), None));
    assert_eq!(read(&mut bench, &file, 2, 4), (b">234".to_vec(), None));
    assert_eq!(read(&mut bench, &file, 10, 100), (b">".to_vec(), None));
    let bytes = bench.arena.copy_of(b"XY").unwrap().share();
    assert_eq!(reason(&bench.run(0, FileOp::Write { file: file.clone(), offset: 0, bytes })), Some(Reason::Other));
    let writer = open(&mut bench, true);
    let bytes = bench.arena.copy_of(b"XY").unwrap().share();
    assert!(matches!(
        bench.run(0, FileOp::Write { file: writer.clone(), offset: 9, bytes }),
        Outcome::File(FileOutcome::Written { bytes: 2 })
    ));
    assert!(matches!(bench.run(0, FileOp::Sync { file: writer.clone() }), Outcome::File(FileOutcome::Done)));
    assert_eq!(bench.world.read_file("file").unwrap(), b"012345678XY");
    assert!(matches!(bench.run(0, FileOp::Close { file: file.clone() }), Outcome::File(FileOutcome::Done)));
    assert_eq!(read(&mut bench, &file, 0, 9), (b">".to_vec(), Some(Fault::CANCELLED)));
    let missing = Op::File(FileOp::Open { beneath: None, path: "missing".into(), options: OpenOptions::new().read(true) });
    assert_eq!(reason(&bench.run(0, missing)), Some(Reason::NotFound));
}

#[test]
fn files_fail_and_read_short() {
    let mut bench = with_file(Faults { short_file_read: 1_000, ..Faults::none() });
    let file = open(&mut bench, false);
    let (bytes, fault) = read(&mut bench, &file, 0, 100);
    assert!((2..11).contains(&bytes.len()) && fault.is_none() && b">0123456789".starts_with(&bytes), "{bytes:?}");
    assert_eq!(bench.world.report().faults.of(FaultKind::ShortFileRead), 1);
    let mut bench = with_file(Faults { file_error: 1_000, ..Faults::none() });
    let options = OpenOptions::new().read(true);
    assert_eq!(reason(&bench.run(0, FileOp::Open { beneath: None, path: "file".into(), options })), Some(Reason::Other));
}

#[test]
fn parts_of_files_are_sent_and_a_short_file_is_a_fault() {
    let mut bench = with_file(Faults::none());
    let (socket, peer) = bench.pipe();
    let file = open(&mut bench, false);
    let mut chain = Chain::new();
    chain.push(&b"<"[..]);
    chain.push(Segment::File(FilePart { file: file.clone(), offset: 3, length: 4 }));
    chain.push(bench.arena.copy_of(b">").unwrap().share());
    chain.push(Segment::File(FilePart { file: file.clone(), offset: 8, length: 4 }));
    match bench.run(0, StreamOp::Send { socket, chain }) {
        Outcome::Stream(StreamOutcome::Sent { bytes: 8, rest, fault: Some(_), .. }) => assert_eq!(rest.len(), 2),
        other => panic!("{other:?}"),
    }
    bench.settle();
    assert_eq!(peer.read(100), b"<3456>89");
}

#[test]
fn offloaded_calls_are_bounded_and_may_panic() {
    let mut bench = Bench::new(Faults::none());
    let works: [fn() -> i32; 3] = [|| 42, || panic!("on purpose"), || 43];
    let handles = works.map(|work| bench.push(0, Op::Offload(OffloadWork(Box::new(move || Box::new(work()))))));
    assert_eq!(reason(&bench.end(handles[2])), Some(Reason::Busy));
    assert_eq!(reason(&bench.end(handles[1])), Some(Reason::Other));
    assert!(matches!(bench.end(handles[0]), Outcome::Offloaded(result) if result.0.downcast_ref() == Some(&42)));
    let again = bench.run(0, Op::Offload(OffloadWork(Box::new(|| Box::new(())))));
    assert!(matches!(again, Outcome::Offloaded(_)));
}

#[test]
fn polls_end_when_their_descriptor_is_ready() {
    let mut bench = Bench::new(Faults::none());
    let descriptor = bench.world.open_foreign(0).unwrap();
    let reader = bench.push(0, Op::Poll { descriptor, interest: READ });
    let writer = bench.push(0, Op::Poll { descriptor, interest: WRITE });
    bench.settle();
    assert!(bench.completions.is_empty());
    bench.world.set_ready(0, descriptor, READ);
    assert!(matches!(bench.end(reader), Outcome::Ready { interest: READ }));
    bench.push(0, Op::Cancel { target: writer });
    assert_eq!(reason(&bench.end(writer)), Some(Reason::Cancelled));
    assert!(matches!(bench.run(0, Op::Poll { descriptor, interest: READ }), Outcome::Ready { interest: READ }));
    assert_eq!(reason(&bench.run(0, Op::Poll { descriptor: descriptor + 1, interest: READ })), Some(Reason::Other));
}
