//! Directories that are watched.

use crate::bench::{Bench, assert_cancelled};
use crate::rig::{Rig, Side};
use corelane_seam::{Fault, File, FileOp, FileOutcome, Handle, Op, OpenOptions, Outcome, Reason, Tuning};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const READ: OpenOptions = OpenOptions::new().read(true);

fn open<R: Rig>(bench: &mut Bench<R>, beneath: Option<&File>, path: impl AsRef<Path>, options: OpenOptions) -> File {
    let path = path.as_ref().to_path_buf();
    match bench.run(Side::Server, FileOp::Open { beneath: beneath.cloned(), path, options }) {
        Outcome::File(FileOutcome::Opened { file, .. }) => file,
        other => panic!("{other:?}"),
    }
}

/// A directory with another one in it.
fn directory<R: Rig>(bench: &mut Bench<R>) -> (File, File) {
    bench.rig.make_directory("top");
    bench.rig.make_directory("top/sub");
    let path = bench.rig.path("top");
    let top = open(bench, None, path, READ.directory(true));
    let sub = open(bench, Some(&top), "sub", READ.directory(true));
    (top, sub)
}

fn make<R: Rig>(bench: &mut Bench<R>, directory: &File, name: &str) -> File {
    open(bench, Some(directory), name, READ.write(true).create(true))
}

fn write<R: Rig>(bench: &mut Bench<R>, file: &File) {
    let bytes = bench.rig.arena(Side::Server).copy_of(b"bytes").unwrap().share();
    let outcome = bench.run(Side::Server, FileOp::Write { file: file.clone(), offset: 0, bytes });
    assert!(matches!(outcome, Outcome::File(FileOutcome::Written { .. })), "{outcome:?}");
}

fn watch<R: Rig>(bench: &mut Bench<R>, directory: &File) -> Handle {
    let watch = bench.push(Side::Server, FileOp::Watch { directory: directory.clone() });
    let begun = bench.next(Side::Server, watch);
    assert!(matches!(begun, Outcome::File(FileOutcome::Watched)) && !bench.has_ended(Side::Server, watch), "{begun:?}");
    watch
}

fn assert_changed<R: Rig>(bench: &mut Bench<R>, watch: Handle) {
    let told = bench.next(Side::Server, watch);
    assert!(matches!(told, Outcome::File(FileOutcome::Changed)) && bench.has_ended(Side::Server, watch), "{told:?}");
}

fn cancel<R: Rig>(bench: &mut Bench<R>, watch: Handle) {
    bench.push(Side::Server, Op::Cancel { target: watch });
    assert_cancelled(&bench.end(Side::Server, watch));
}

pub fn what_happens_in_a_directory_is_told_once<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (top, sub) = directory(&mut bench);
    for _ in 0..2 {
        let watch = watch(&mut bench, &top);
        bench.settle();
        assert!(!bench.has_ended(Side::Server, watch), "nothing has happened");
        let file = make(&mut bench, &top, "file");
        write(&mut bench, &file);
        assert_changed(&mut bench, watch);
        write(&mut bench, &file);
        bench.settle();
        // Who watches again hears of what comes.
        let again = self::watch(&mut bench, &top);
        let deeper = make(&mut bench, &sub, "deeper");
        write(&mut bench, &deeper);
        bench.settle();
        assert!(!bench.has_ended(Side::Server, again), "that was in another directory");
        write(&mut bench, &file);
        assert_changed(&mut bench, again);
    }
    bench.finish();
}

pub fn a_directory_that_is_moved_is_told_of_and_so_is_where_it_was<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (top, sub) = directory(&mut bench);
    let watches = [&top, &sub].map(|of| watch(&mut bench, of));
    bench.rig.rename("top/sub", "top/other");
    watches.into_iter().for_each(|watch| assert_changed(&mut bench, watch));
    bench.finish();
}

pub fn all_who_watch_a_directory_are_told_and_one_can_leave<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (top, _) = directory(&mut bench);
    let path = bench.rig.path("top");
    let again = open(&mut bench, None, path, READ.directory(true));
    let watches = [&top, &top, &again].map(|of| watch(&mut bench, of));
    cancel(&mut bench, watches[0]);
    bench.push(Side::Server, Op::Cancel { target: watches[0] });
    // It goes on though the directory is closed.
    assert!(matches!(bench.run(Side::Server, FileOp::Close { file: again }), Outcome::File(FileOutcome::Done)));
    make(&mut bench, &top, "file");
    watches[1..].iter().for_each(|watch| assert_changed(&mut bench, *watch));
    bench.finish();
}

pub fn a_watch_that_is_cancelled_is_not_told_of<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (top, sub) = directory(&mut bench);
    let [gone, stays] = [&top, &sub].map(|of| watch(&mut bench, of));
    cancel(&mut bench, gone);
    make(&mut bench, &top, "file");
    bench.settle();
    assert!(!bench.has_ended(Side::Server, stays));
    let again = watch(&mut bench, &top);
    make(&mut bench, &top, "another");
    assert_changed(&mut bench, again);
    cancel(&mut bench, stays);
    bench.finish();
}

pub fn the_watches_of_a_work_that_left_end<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (top, _) = directory(&mut bench);
    let [left, stays] = [2, 3].map(|work| {
        bench.work = work;
        watch(&mut bench, &top)
    });
    bench.driver(Side::Server).abandon(2);
    assert_cancelled(&bench.end(Side::Server, left));
    make(&mut bench, &top, "file");
    assert_changed(&mut bench, stays);
    bench.finish();
}

pub fn watches_are_bounded<R: Rig>() {
    let tuning = Tuning::default().watches_max(2);
    let mut bench = Bench::<R>::with(tuning, 1 << 20);
    let (top, sub) = directory(&mut bench);
    let watches = [&top, &sub].map(|of| watch(&mut bench, of));
    let refused = |bench: &mut Bench<R>| bench.run(Side::Server, FileOp::Watch { directory: top.clone() });
    assert!(matches!(refused(&mut bench), Outcome::Failed(Fault { reason: Reason::Busy, number: 0 })));
    cancel(&mut bench, watches[1]);
    let again = watch(&mut bench, &sub);
    assert!(matches!(refused(&mut bench), Outcome::Failed(Fault { reason: Reason::Busy, number: 0 })));
    [watches[0], again].into_iter().for_each(|watch| cancel(&mut bench, watch));
    bench.finish();
}

/// The queue of notices overflows: all are told, and the system watches nothing of it any more.
pub fn where_notices_were_lost_nothing_is_watched_any_more<R: Rig>() {
    let queued: usize = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
    let mut bench = Bench::<R>::new();
    let (top, sub) = directory(&mut bench);
    let quiet = watch(&mut bench, &sub);
    let number = std::fs::metadata(bench.rig.path("top/sub")).unwrap().ino();
    assert!(is_watched(number));
    // The system tells of the end of each, and all is begun and ended before the driver reads any of it.
    let watches: Vec<Handle> = (0..=queued)
        .map(|_| {
            let watch = bench.push(Side::Server, FileOp::Watch { directory: top.clone() });
            bench.push(Side::Server, Op::Cancel { target: watch });
            watch
        })
        .collect();
    assert_changed(&mut bench, quiet);
    watches.into_iter().for_each(|watch| assert_cancelled(&bench.end(Side::Server, watch)));
    assert!(!is_watched(number), "it is watched for nobody");
    let again = watch(&mut bench, &sub);
    make(&mut bench, &sub, "file");
    assert_changed(&mut bench, again);
    bench.finish();
}

/// Whether this process watches the directory of this number (proc_pid_fdinfo(5)).
fn is_watched(number: u64) -> bool {
    let wanted = format!(" ino:{number:x} ");
    // One that was listed may have been closed since.
    let all = std::fs::read_dir("/proc/self/fdinfo").unwrap().filter_map(|one| std::fs::read_to_string(one.ok()?.path()).ok());
    all.flat_map(|one| one.lines().map(str::to_owned).collect::<Vec<_>>())
        .any(|line| line.starts_with("inotify ") && line.contains(&wanted))
}

pub fn what_is_no_directory_is_not_watched<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let (top, _) = directory(&mut bench);
    let file = make(&mut bench, &top, "file");
    let refused =
        |bench: &mut Bench<R>, directory: &File| match bench.run(Side::Server, FileOp::Watch { directory: directory.clone() }) {
            Outcome::Failed(fault) => fault.reason,
            other => panic!("{other:?}"),
        };
    assert_eq!(refused(&mut bench, &file), Reason::NotFound);
    assert!(matches!(bench.run(Side::Server, FileOp::Close { file: top.clone() }), Outcome::File(FileOutcome::Done)));
    assert_eq!(refused(&mut bench, &top), Reason::Cancelled);
    bench.finish();
}
