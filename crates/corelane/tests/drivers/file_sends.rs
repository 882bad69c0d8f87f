//! Files that are sent by their paths: whole, or ended once and told why.

use crate::bench::{Bench, Pipe, lasting};
use crate::rig::{Rig, Side};
use corelane_seam::{Fault, File, FileOp, FileOutcome, Handle, Op, OpenOptions, Outcome, Reason, StreamOp, StreamOutcome};

const WRITABLE: OpenOptions = OpenOptions::new().write(true).create(true);
/// More than both ends have room for while nobody reads.
const MUCH: usize = 16 << 20;

fn opened<R: Rig>(bench: &mut Bench<R>, name: &str, options: OpenOptions) -> File {
    let path = bench.rig.path(name);
    match bench.run(Side::Server, FileOp::Open { beneath: None, path, options }) {
        Outcome::File(FileOutcome::Opened { file, .. }) => file,
        other => panic!("{other:?}"),
    }
}

fn close<R: Rig>(bench: &mut Bench<R>, file: File) {
    assert!(matches!(bench.run(Side::Server, FileOp::Close { file }), Outcome::File(FileOutcome::Done)));
}

/// A file of so many bytes of the pattern.
fn put<R: Rig>(bench: &mut Bench<R>, name: &str, bytes: usize) {
    let file = opened(bench, name, WRITABLE);
    for (part, offset) in lasting(bytes).chunks(1 << 20).zip((0..).step_by(1 << 20)) {
        let bytes = bench.rig.arena(Side::Server).copy_of(part).unwrap().share();
        let outcome = bench.run(Side::Server, FileOp::Write { file: file.clone(), offset, bytes });
        assert!(matches!(outcome, Outcome::File(FileOutcome::Written { bytes }) if bytes == part.len()), "{outcome:?}");
    }
    close(bench, file);
}

fn send<R: Rig>(bench: &mut Bench<R>, pipe: &Pipe, name: &str) -> Handle {
    let path = bench.rig.path(name);
    bench.push(Side::Server, StreamOp::SendFile { socket: pipe.server, beneath: None, path, sync: false })
}

/// How a file's send ended: bytes sent, the file's length, and why not all.
fn end<R: Rig>(bench: &mut Bench<R>, send: Handle) -> (u64, u64, Option<Fault>) {
    match bench.end(Side::Server, send) {
        Outcome::Stream(StreamOutcome::FileSent { bytes, length, fault }) => (bytes, length, fault),
        other => panic!("{other:?}"),
    }
}

/// A file of which as much has left as goes while nobody reads.
fn under_way<R: Rig>(bench: &mut Bench<R>) -> (Pipe, Handle, usize) {
    put(bench, "file", MUCH);
    let pipe = bench.pipe();
    let send = send(bench, &pipe, "file");
    // A helper that opens it may take its time.
    let received = bench.receive(Side::Client, pipe.client).len();
    bench.settle();
    assert!(!bench.has_ended(Side::Server, send), "it cannot fit");
    (pipe, send, received)
}

/// Receives until the send has ended; returns how many bytes.
fn receive_until_end<R: Rig>(bench: &mut Bench<R>, pipe: &Pipe, send: Handle) -> usize {
    let mut received = 0;
    loop {
        let receive = bench.push(Side::Client, StreamOp::Receive { socket: pipe.client });
        bench.until(|bench| bench.has_ended(Side::Client, receive) || bench.has_ended(Side::Server, send));
        let has_ended = bench.has_ended(Side::Server, send);
        bench.push(Side::Client, Op::StopReceive { socket: pipe.client });
        if let Outcome::Stream(StreamOutcome::Received(bytes)) = bench.end(Side::Client, receive) {
            received += bytes.len();
        }
        if has_ended {
            return received;
        }
    }
}

/// How a send ended of which some bytes had left and some had not: the first, and why.
fn end_within<R: Rig>(bench: &mut Bench<R>, send: Handle) -> (u64, Fault) {
    let (bytes, length, fault) = end(bench, send);
    assert!(bytes > 0 && bytes < length && length == MUCH as u64, "{bytes} of {length}");
    (bytes, fault.expect("not all has left"))
}

/// Waits until the file is open nowhere any more, for it is closed behind its end; then nothing is under way.
fn finish<R: Rig>(mut bench: Bench<R>, name: &str) {
    let path = bench.rig.path(name);
    let is_open = || {
        let numbers = std::fs::read_dir("/proc/thread-self/fd").unwrap();
        numbers.flatten().any(|number| std::fs::read_link(number.path()).is_ok_and(|to| to == path))
    };
    while is_open() {
        bench.round();
    }
    bench.settle();
    bench.finish();
}

pub fn a_file_is_sent_by_its_path<R: Rig>() {
    const BYTES: usize = (2 << 20) + 5;
    let mut bench = Bench::<R>::new();
    bench.rig.make_directory("top");
    put(&mut bench, "top/file", BYTES);
    put(&mut bench, "empty", 0);
    let top = opened(&mut bench, "top", OpenOptions::new().read(true).directory(true));
    let pipe = bench.pipe();
    let path = bench.rig.path("top/file");
    for (beneath, path, sync) in [(None, path, false), (Some(top.clone()), "file".into(), true)] {
        let send = bench.push(Side::Server, StreamOp::SendFile { socket: pipe.server, beneath, path, sync });
        assert!(bench.receive_all(Side::Client, pipe.client, BYTES) == lasting(BYTES));
        assert_eq!(end(&mut bench, send), (BYTES as u64, BYTES as u64, None));
    }
    let empty = send(&mut bench, &pipe, "empty");
    assert_eq!(end(&mut bench, empty), (0, 0, None));
    bench.send_bytes(Side::Server, pipe.server, b"and on");
    assert_eq!(bench.receive_all(Side::Client, pipe.client, 6), b"and on");
    close(&mut bench, top);
    finish(bench, "top/file");
}

/// Steps that end within a rest are the driver's own there too.
pub fn a_file_is_sent_by_a_lane_that_rests<R: Rig>() {
    const BYTES: usize = (2 << 20) + 5;
    let mut bench = Bench::<R>::new();
    put(&mut bench, "file", BYTES);
    let pipe = bench.pipe();
    let send = send(&mut bench, &pipe, "file");
    let mut received = 0;
    while received < BYTES {
        let receive = bench.push(Side::Client, StreamOp::Receive { socket: pipe.client });
        while !bench.has_ended(Side::Client, receive) {
            bench.rest(Side::Server, 0);
            bench.round();
        }
        bench.push(Side::Client, Op::StopReceive { socket: pipe.client });
        if let Outcome::Stream(StreamOutcome::Received(bytes)) = bench.end(Side::Client, receive) {
            received += bytes.len();
        }
    }
    assert_eq!(end(&mut bench, send), (BYTES as u64, BYTES as u64, None));
    finish(bench, "file");
}

pub fn a_file_that_cannot_be_opened_is_not_sent_and_nothing_is_lost<R: Rig>() {
    let mut bench = Bench::<R>::new();
    // Before there are helpers, which have the rights of whoever starts them.
    bench.rig.make_forbidden("forbidden");
    bench.rig.make_directory("directory");
    let pipe = bench.pipe();
    let refused = [("missing", Reason::NotFound), ("forbidden", Reason::Permission), ("directory", Reason::NotAFile)];
    for (name, reason) in refused {
        let send = send(&mut bench, &pipe, name);
        let (bytes, length, fault) = end(&mut bench, send);
        assert_eq!((bytes, length, fault.map(|fault| fault.reason)), (0, 0, Some(reason)), "{name}");
    }
    bench.send_bytes(Side::Server, pipe.server, b"not found");
    assert_eq!(bench.receive_all(Side::Client, pipe.client, 9), b"not found");
    bench.finish();
}

pub fn a_file_that_becomes_shorter_ends_where_it_ends<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (pipe, send, before) = under_way(&mut bench);
    let emptied = opened(&mut bench, "file", WRITABLE.truncate(true));
    close(&mut bench, emptied);
    let received = before + receive_until_end(&mut bench, &pipe, send);
    let (bytes, fault) = end_within(&mut bench, send);
    assert_ne!(fault.reason, Reason::Cancelled, "{fault:?}");
    bench.receive_all(Side::Client, pipe.client, bytes as usize - received);
    finish(bench, "file");
}

pub fn a_close_ends_a_file_that_is_being_sent<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (pipe, send, _) = under_way(&mut bench);
    let receive = bench.push(Side::Server, StreamOp::Receive { socket: pipe.server });
    bench.settle();
    let stays = bench.driver(Side::Server).detach(pipe.server);
    assert!(matches!(stays, Err(Fault { reason: Reason::UnderWay, .. })), "it is not at rest");
    let close = bench.push(Side::Server, Op::Close { socket: pipe.server, reset: false });
    bench.forget(Side::Server, pipe.server);
    while !bench.has_ended(Side::Server, close) {
        bench.round();
    }
    assert!(bench.has_ended(Side::Server, send) && bench.has_ended(Side::Server, receive), "before the close");
    assert_eq!(end_within(&mut bench, send).1, Fault::CANCELLED);
    finish(bench, "file");
}

/// Before it is open, and with what was closed before.
pub fn a_close_in_the_same_breath_ends_a_file_once<R: Rig>() {
    let mut bench = Bench::<R>::new();
    put(&mut bench, "file", 100);
    let pipe = bench.pipe();
    let first = send(&mut bench, &pipe, "file");
    let close = bench.push(Side::Server, Op::Close { socket: pipe.server, reset: true });
    bench.forget(Side::Server, pipe.server);
    assert!(matches!(bench.end(Side::Server, close), Outcome::Closed));
    let late = send(&mut bench, &pipe, "file");
    for send in [first, late] {
        assert_eq!(end(&mut bench, send), (0, 0, Some(Fault::CANCELLED)));
    }
    finish(bench, "file");
}

pub fn a_peer_that_breaks_off_ends_a_file<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (pipe, send, _) = under_way(&mut bench);
    bench.run(Side::Client, Op::Close { socket: pipe.client, reset: true });
    bench.forget(Side::Client, pipe.client);
    assert_eq!(end_within(&mut bench, send).1.reason, Reason::Reset);
    finish(bench, "file");
}

pub fn a_disk_that_fails_ends_a_file<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (pipe, first, _) = under_way(&mut bench);
    bench.rig.break_disk(true);
    receive_until_end(&mut bench, &pipe, first);
    assert_eq!(end_within(&mut bench, first).1.number, 5);
    let whole = send(&mut bench, &pipe, "file");
    let (bytes, length, fault) = end(&mut bench, whole);
    assert!(bytes == 0 && length == MUCH as u64 && fault.is_some_and(|fault| fault.number == 5), "{fault:?}");
    bench.settle();
    bench.finish();
}
