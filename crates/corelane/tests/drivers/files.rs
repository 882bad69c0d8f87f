//! Files, and calls on helper threads.

use crate::bench::Bench;
use crate::rig::{Rig, Side};
use corelane_seam::{
    Fault, File, FileFacts, FileKind, FileName, FileOp, FileOutcome, OffloadWork, Op, OpenOptions, Outcome, Reason, Tuning,
};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use std::any::Any;
use std::os::unix::net::UnixListener;
use std::path::Path;

const READABLE: OpenOptions = OpenOptions::new().read(true);
const WRITABLE: OpenOptions = READABLE.write(true).create(true);
const DIRECTORY: OpenOptions = READABLE.directory(true);

fn open<R: Rig>(bench: &mut Bench<R>, options: OpenOptions) -> (File, u64) {
    let path = bench.rig.path("file");
    match bench.run(Side::Server, FileOp::Open { beneath: None, path, options }) {
        Outcome::File(FileOutcome::Opened { file, facts }) => (file, facts.length),
        other => panic!("{other:?}"),
    }
}

fn write<R: Rig>(bench: &mut Bench<R>, file: &File, offset: u64, bytes: &[u8]) {
    let bytes = bench.rig.arena(Side::Server).copy_of(bytes).unwrap().share();
    let asked = bytes.len();
    let outcome = bench.run(Side::Server, FileOp::Write { file: file.clone(), offset, bytes });
    assert!(matches!(outcome, Outcome::File(FileOutcome::Written { bytes }) if bytes == asked), "{outcome:?}");
}

fn read<R: Rig>(bench: &mut Bench<R>, file: &File, offset: u64, before: &[u8], until: usize) -> Vec<u8> {
    let lease = bench.rig.arena(Side::Server).copy_of(before).unwrap();
    match bench.run(Side::Server, FileOp::Read { file: file.clone(), offset, lease, until }) {
        Outcome::File(FileOutcome::Filled { lease, fault: None }) => lease.to_vec(),
        other => panic!("{other:?}"),
    }
}

pub fn what_is_written_can_be_read<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (file, length) = open(&mut bench, WRITABLE);
    assert_eq!(length, 0);
    write(&mut bench, &file, 0, b"0123456789");
    write(&mut bench, &file, 8, b"abc");
    assert!(matches!(bench.run(Side::Server, FileOp::Sync { file: file.clone() }), Outcome::File(FileOutcome::Done)));
    assert_eq!(read(&mut bench, &file, 3, b">", 6), b">34567");
    assert_eq!(read(&mut bench, &file, 0, b"", 200), b"01234567abc");
    assert_eq!(read(&mut bench, &file, 11, b"end:", 200), b"end:");
    assert_eq!(read(&mut bench, &file, 1 << 40, b"", 200), b"");
    assert!(matches!(bench.run(Side::Server, FileOp::Close { file: file.clone() }), Outcome::File(FileOutcome::Done)));
    assert_eq!(open(&mut bench, OpenOptions::new().read(true)).1, 11);
    assert_eq!(open(&mut bench, WRITABLE.truncate(true)).1, 0);
    bench.finish();
}

pub fn a_file_that_is_not_there_is_not_found<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let path = bench.rig.path("missing");
    let outcome = bench.run(Side::Server, FileOp::Open { beneath: None, path, options: OpenOptions::new().read(true) });
    assert!(matches!(outcome, Outcome::Failed(Fault { reason: Reason::NotFound, .. })), "{outcome:?}");
    bench.finish();
}

pub fn a_file_open_for_reading_cannot_be_written<R: Rig>() {
    let mut bench = Bench::<R>::new();
    open(&mut bench, WRITABLE);
    let (file, _) = open(&mut bench, OpenOptions::new().read(true));
    let bytes = bench.rig.arena(Side::Server).copy_of(b"no").unwrap().share();
    let outcome = bench.run(Side::Server, FileOp::Write { file: file.clone(), offset: 0, bytes });
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    bench.finish();
}

/// Pipes, sockets, devices and directories could make their reader wait, or have no bytes at an offset. None of them is
/// waited for: the helpers are free for files afterwards.
pub fn what_is_no_file_is_refused_at_once<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let [pipe, socket, directory] = ["pipe", "socket", "."].map(|name| bench.rig.path(name));
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    let _listener = UnixListener::bind(&socket).unwrap();
    let reading = OpenOptions::new().read(true);
    let writing = OpenOptions::new().write(true);
    let both = OpenOptions::new().read(true).write(true);
    // More at once than there are helpers.
    let opens = [
        (pipe.clone(), reading),
        (pipe.clone(), writing),
        (pipe, both),
        (socket, reading),
        (directory.clone(), reading),
        (directory, writing),
        ("/dev/zero".into(), reading),
    ]
    .map(|(path, options)| bench.push(Side::Server, FileOp::Open { beneath: None, path, options }));
    for (number, open) in opens.into_iter().enumerate() {
        let outcome = bench.end(Side::Server, open);
        assert!(matches!(outcome, Outcome::Failed(Fault { reason: Reason::NotAFile, .. })), "{number}: {outcome:?}");
    }
    let (file, _) = open(&mut bench, WRITABLE);
    write(&mut bench, &file, 0, b"0123456789");
    assert_eq!(read(&mut bench, &file, 2, b"", 5), b"23456");
    bench.finish();
}

fn opened<R: Rig>(bench: &mut Bench<R>, beneath: Option<&File>, path: &Path, options: OpenOptions) -> (File, FileFacts) {
    let open = FileOp::Open { beneath: beneath.cloned(), path: path.into(), options };
    match bench.run(Side::Server, open) {
        Outcome::File(FileOutcome::Opened { file, facts }) => (file, facts),
        other => panic!("{}: {other:?}", path.display()),
    }
}

fn refused<R: Rig>(bench: &mut Bench<R>, beneath: Option<&File>, path: &Path, options: OpenOptions) -> Reason {
    let open = FileOp::Open { beneath: beneath.cloned(), path: path.into(), options };
    match bench.run(Side::Server, open) {
        Outcome::Failed(fault) => fault.reason,
        other => panic!("{}: {other:?}", path.display()),
    }
}

/// A directory with a file and a directory with a file beneath it, and a file beside it.
fn directory<R: Rig>(bench: &mut Bench<R>) -> File {
    bench.rig.make_directory("top");
    bench.rig.make_directory("top/sub");
    for name in ["secret", "top/file", "top/sub/file"] {
        let path = bench.rig.path(name);
        let (file, _) = opened(bench, None, &path, WRITABLE);
        write(bench, &file, 0, name.as_bytes());
    }
    let path = bench.rig.path("top");
    opened(bench, None, &path, DIRECTORY).0
}

pub fn a_file_tells_what_it_is<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let path = bench.rig.path("file");
    let (file, made) = opened(&mut bench, None, &path, WRITABLE);
    assert_eq!((made.kind, made.length), (FileKind::Regular, 0));
    write(&mut bench, &file, 0, b"0123456789");
    let (_, written) = opened(&mut bench, None, &path, READABLE);
    assert_eq!((written.kind, written.length), (FileKind::Regular, 10));
    assert!(written.modified >= made.modified && !written.modified.is_zero(), "{made:?} {written:?}");
    bench.finish();
}

pub fn a_directory_is_opened_where_one_is_asked_for<R: Rig>() {
    let mut bench = Bench::<R>::new();
    directory(&mut bench);
    let [top, file, none] = ["top", "top/file", "none"].map(|name| bench.rig.path(name));
    let (directory, facts) = opened(&mut bench, None, &top, DIRECTORY);
    assert_eq!((facts.kind, facts.length), (FileKind::Directory, 0));
    assert_eq!(refused(&mut bench, None, &top, READABLE), Reason::NotAFile);
    assert_eq!(refused(&mut bench, None, &file, DIRECTORY), Reason::NotFound);
    assert_eq!(refused(&mut bench, None, &none, DIRECTORY), Reason::NotFound);
    assert_eq!(refused(&mut bench, None, &none, DIRECTORY.write(true).create(true)), Reason::Other);
    let lease = bench.rig.arena(Side::Server).lease(10).unwrap();
    let read = bench.run(Side::Server, FileOp::Read { file: directory.clone(), offset: 0, lease, until: 10 });
    assert!(matches!(read, Outcome::File(FileOutcome::Filled { fault: Some(_), .. })), "{read:?}");
    drop(read);
    let bytes = bench.rig.arena(Side::Server).copy_of(b"no").unwrap().share();
    let written = bench.run(Side::Server, FileOp::Write { file: directory.clone(), offset: 0, bytes });
    assert!(matches!(written, Outcome::Failed(_)), "{written:?}");
    assert!(matches!(bench.run(Side::Server, FileOp::Sync { file: directory }), Outcome::File(FileOutcome::Done)));
    bench.finish();
}

pub fn beneath_a_directory_files_are_opened_and_made<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let top = directory(&mut bench);
    bench.rig.make_link("top/down", Path::new("sub/file"));
    bench.rig.make_link("top/sub/beside", Path::new("../file"));
    let found = [("file", 8), ("./file", 8), ("sub/file", 12), ("sub/../file", 8), ("down", 12), ("sub/beside", 8)];
    for (name, length) in found {
        assert_eq!(opened(&mut bench, Some(&top), Path::new(name), READABLE).1.length, length, "{name}");
    }
    let (sub, facts) = opened(&mut bench, Some(&top), Path::new("sub"), DIRECTORY);
    assert_eq!(facts.kind, FileKind::Directory);
    assert_eq!(refused(&mut bench, Some(&top), Path::new("secret"), READABLE), Reason::NotFound);
    assert_eq!(refused(&mut bench, Some(&top), Path::new("sub"), READABLE), Reason::NotAFile);
    let (made, _) = opened(&mut bench, Some(&sub), Path::new("made"), WRITABLE);
    write(&mut bench, &made, 0, b"123");
    let path = bench.rig.path("top/sub/made");
    assert_eq!(opened(&mut bench, None, &path, READABLE).1.length, 3);
    bench.finish();
}

pub fn no_path_leads_out_of_a_directory<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let top = directory(&mut bench);
    let secret = bench.rig.path("secret");
    bench.rig.make_link("top/up", Path::new("../secret"));
    bench.rig.make_link("top/root", &secret);
    bench.rig.make_link("top/sub/parents", Path::new("../.."));
    bench.rig.make_link("top/circle", Path::new("circle"));
    let inside = bench.rig.path("top/file");
    let out = ["..", "../secret", "../top/file", "sub/../../secret", "up", "root", "sub/parents", "sub/parents/secret", "circle"];
    for path in out.map(Path::new).into_iter().chain([&*secret, &*inside]) {
        for options in [READABLE, WRITABLE, DIRECTORY] {
            assert_eq!(refused(&mut bench, Some(&top), path, options), Reason::Outside, "{}", path.display());
        }
    }
    assert_eq!(refused(&mut bench, Some(&top), Path::new("../made"), WRITABLE), Reason::Outside);
    let path = bench.rig.path("made");
    assert_eq!(refused(&mut bench, None, &path, READABLE), Reason::NotFound);
    let (directory, name) = bench.rig.magic_link();
    assert!(opened(&mut bench, None, &directory.join(name), READABLE).1.length > 0);
    let directory = opened(&mut bench, None, &directory, DIRECTORY).0;
    assert_eq!(refused(&mut bench, Some(&directory), Path::new(name), READABLE), Reason::Outside);
    bench.finish();
}

pub fn links_are_not_followed_where_none_may_be<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let top = directory(&mut bench);
    bench.rig.make_link("top/down", Path::new("sub"));
    let strict = READABLE.no_links(true);
    assert_eq!(opened(&mut bench, Some(&top), Path::new("down/file"), READABLE).1.length, 12);
    assert_eq!(opened(&mut bench, Some(&top), Path::new("sub/file"), strict).1.length, 12);
    assert_eq!(refused(&mut bench, Some(&top), Path::new("down/file"), strict), Reason::Outside);
    let [direct, linked] = ["top/sub/file", "top/down/file"].map(|name| bench.rig.path(name));
    assert_eq!(opened(&mut bench, None, &direct, strict).1.length, 12);
    assert_eq!(refused(&mut bench, None, &linked, strict), Reason::Outside);
    bench.finish();
}

fn listed<R: Rig>(bench: &mut Bench<R>, directory: &File, most: usize) -> (Vec<FileName>, bool) {
    match bench.run(Side::Server, FileOp::List { directory: directory.clone(), most }) {
        Outcome::File(FileOutcome::Listed { mut names, is_whole }) => {
            names.sort();
            (names, is_whole)
        }
        other => panic!("{other:?}"),
    }
}

pub fn a_directory_is_listed<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let top = directory(&mut bench);
    bench.rig.make_link("top/up", Path::new("../secret"));
    let kinds = [("file", Some(FileKind::Regular)), ("sub", Some(FileKind::Directory)), ("up", None)];
    let all = kinds.map(|(name, kind)| FileName { name: name.into(), kind });
    for _ in 0..2 {
        assert_eq!(listed(&mut bench, &top, 3), (all.to_vec(), true), "as often as it is asked for");
    }
    let (some, is_whole) = listed(&mut bench, &top, 2);
    assert!(some.len() == 2 && some.iter().all(|name| all.contains(name)) && !is_whole, "{some:?}");
    let (file, _) = opened(&mut bench, Some(&top), Path::new("file"), READABLE);
    let outcome = bench.run(Side::Server, FileOp::List { directory: file, most: 3 });
    assert!(matches!(outcome, Outcome::Failed(Fault { reason: Reason::NotFound, .. })), "{outcome:?}");
    bench.finish();
}

pub fn what_was_just_written_is_warm<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (file, _) = open(&mut bench, WRITABLE);
    write(&mut bench, &file, 0, &[7; 10_000]);
    let mut warm = |offset, length| match bench.run(Side::Server, FileOp::Warm { file: file.clone(), offset, length }) {
        // Whether it was so already is the system's affair.
        Outcome::File(FileOutcome::Warm { bytes, .. }) => bytes,
        other => panic!("{other:?}"),
    };
    let asked = [(0, 10_000), (9_000, 4 << 20), (10_000, 1), (u64::MAX, 1)];
    assert_eq!(asked.map(|(offset, length)| warm(offset, length)), [10_000, 1_000, 0, 0], "up to the file's end");
    assert!(matches!(bench.run(Side::Server, FileOp::Close { file: file.clone() }), Outcome::File(FileOutcome::Done)));
    let outcome = bench.run(Side::Server, FileOp::Warm { file, offset: 0, length: 1 });
    assert!(matches!(outcome, Outcome::Failed(Fault { reason: Reason::Cancelled, .. })), "{outcome:?}");
    bench.finish();
}

pub fn beneath_what_is_no_directory_is_nothing<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let top = directory(&mut bench);
    let (file, _) = opened(&mut bench, Some(&top), Path::new("file"), READABLE);
    assert_eq!(refused(&mut bench, Some(&file), Path::new("file"), READABLE), Reason::NotFound);
    assert_eq!(refused(&mut bench, Some(&top), Path::new(""), READABLE), Reason::NotFound);
    assert!(matches!(bench.run(Side::Server, FileOp::Close { file: top.clone() }), Outcome::File(FileOutcome::Done)));
    assert_eq!(refused(&mut bench, Some(&top), Path::new("file"), READABLE), Reason::Cancelled);
    bench.finish();
}

/// Many operations on one file at once, each with its own memory.
pub fn file_operations_go_side_by_side<R: Rig>() {
    const BLOCK: usize = 20_000;
    let mut bench = Bench::<R>::new();
    let (file, _) = open(&mut bench, WRITABLE);
    let writes: Vec<_> = (0..20u8)
        .map(|number| {
            let bytes = bench.rig.arena(Side::Server).copy_of(&[number; BLOCK]).unwrap().share();
            bench.push(Side::Server, FileOp::Write { file: file.clone(), offset: u64::from(number) * BLOCK as u64, bytes })
        })
        .collect();
    for handle in writes {
        assert!(matches!(bench.end(Side::Server, handle), Outcome::File(FileOutcome::Written { bytes: BLOCK })));
    }
    let reads: Vec<_> = (0..20u8)
        .map(|number| {
            let lease = bench.rig.arena(Side::Server).lease(BLOCK).unwrap();
            bench.push(
                Side::Server,
                Op::File(FileOp::Read { file: file.clone(), offset: u64::from(number) * BLOCK as u64, lease, until: BLOCK }),
            )
        })
        .collect();
    for (number, handle) in reads.into_iter().enumerate() {
        match bench.end(Side::Server, handle) {
            Outcome::File(FileOutcome::Filled { lease, fault: None }) => assert!(*lease == [number as u8; BLOCK]),
            other => panic!("{other:?}"),
        }
    }
    bench.finish();
}

fn work(call: impl FnOnce() -> Box<dyn Any + Send> + Send + 'static) -> Op {
    Op::Offload(OffloadWork(Box::new(call)))
}

pub fn an_offloaded_call_brings_its_value<R: Rig>() {
    let mut bench = Bench::<R>::new();
    match bench.run(Side::Server, work(|| Box::new(6 * 7))) {
        Outcome::Offloaded(value) => assert_eq!(value.0.downcast_ref(), Some(&42)),
        other => panic!("{other:?}"),
    }
    bench.finish();
}

pub fn a_panic_in_an_offloaded_call_is_a_fault<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let outcome = bench.run(Side::Server, work(|| panic!("meant to be")));
    assert!(matches!(outcome, Outcome::Failed(Fault { reason: Reason::Other, .. })), "{outcome:?}");
    assert!(matches!(bench.run(Side::Server, work(|| Box::new(()))), Outcome::Offloaded(_)));
    bench.finish();
}

/// Those over the bound fail at once; the others, and later ones, are carried out.
pub fn offloaded_calls_are_bounded<R: Rig>() {
    let tuning = Tuning::default().offload_max(5);
    let mut bench = Bench::<R>::with(tuning, crate::bench::MEMORY);
    let calls: Vec<_> = (0..12).map(|number| bench.push(Side::Server, work(move || Box::new(number)))).collect();
    let outcomes: Vec<_> = calls.into_iter().map(|call| bench.end(Side::Server, call)).collect();
    for (number, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            Outcome::Offloaded(value) if number < 5 => assert_eq!(value.0.downcast_ref(), Some(&(number as i32))),
            Outcome::Failed(Fault { reason: Reason::Busy, .. }) if number >= 5 => {}
            other => panic!("{number}: {other:?}"),
        }
    }
    assert!(matches!(bench.run(Side::Server, work(|| Box::new(()))), Outcome::Offloaded(_)));
    bench.finish();
}

/// A driver says how many it takes: whoever has no more under way is never refused, however many there are in all.
pub fn who_counts_offloaded_calls_needs_none_refused<R: Rig>() {
    let tuning = Tuning::default().offload_max(7);
    let mut bench = Bench::<R>::with(tuning, crate::bench::MEMORY);
    let room = bench.driver(Side::Server).offload_max();
    assert_eq!(room, 7);
    let mut under_way = std::collections::VecDeque::new();
    for number in 0..200 {
        if under_way.len() == room {
            let (call, expected): (_, i32) = under_way.pop_front().unwrap();
            match bench.end(Side::Server, call) {
                Outcome::Offloaded(value) => assert_eq!(value.0.downcast_ref(), Some(&expected)),
                other => panic!("{other:?}"),
            }
        }
        under_way.push_back((bench.push(Side::Server, work(move || Box::new(number))), number));
    }
    bench.finish();
}
