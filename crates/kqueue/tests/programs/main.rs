//! C programs against the shipped header: built with cc, on the shared and on the static library.
#![allow(clippy::unwrap_used, reason = "all of it is test code")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use corelane_os::testing::skip;

mod foreign;
mod nginx;
mod porting;
#[path = "../conformance/shared.rs"]
mod shared;

/// Bytes of the header and of the page that evserver sends.
const ANSWER: usize = 198 + 3931;

/// A folder of this test's own for what is built, removed at its end.
struct Built {
    folder: PathBuf,
    program: PathBuf,
}

impl Built {
    /// Compiles `source` as `language` and links it with the library, `shared` or not.
    fn new(source: &str, language: &str, shared: bool) -> Self {
        Self::linked(source, language, shared, &[])
    }

    /// The same, with `first` given to the linker before the library.
    fn linked(source: &str, language: &str, shared: bool, first: &[&str]) -> Self {
        Self::on(source, language, shared.then_some("libcorelane_kqueue.so.1"), first)
    }

    /// The same, on the shared library of this name, or on the static one.
    fn on(source: &str, language: &str, soname: Option<&str>, first: &[&str]) -> Self {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        // Tests that run side by side build the same sources.
        static BUILT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("{}-{}", std::process::id(), BUILT.fetch_add(1, Ordering::Relaxed));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let program = folder.join("program");
        let mut cc = Command::new("cc");
        cc.args(["-Wall", "-Wextra", "-Werror", "-O1", "-I"]).arg(here.join("include"));
        cc.args(["-x", language]).arg(here.join(source)).args(["-x", "none", "-o"]).arg(&program).args(first);
        if let Some(soname) = soname {
            let library = shared::library(&folder, soname);
            cc.arg(library).arg(format!("-Wl,-rpath,{}", folder.display()));
        } else {
            cc.arg(shared::archive()).args(["-lgcc_s", "-lpthread", "-lm", "-ldl"]);
        }
        let output = cc.output().expect("a C compiler: install cc");
        assert!(output.status.success(), "{source}: {}", String::from_utf8_lossy(&output.stderr));
        Self { folder, program }
    }

    fn command(&self) -> Command {
        Command::new(&self.program)
    }
}

impl Drop for Built {
    fn drop(&mut self) {
        // reason: what is left of a folder of builds is no failure of a test
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_record_has_freebsds_layout() {
    let text = output(&mut Built::new("tests/programs/layout.c", "c", false).command());
    let numbers: Vec<_> = text.lines().map(|line| line.rsplit(' ').next().unwrap()).collect();
    assert_eq!(numbers, ["64", "0", "8", "10", "12", "16", "24", "32"], "{text}");
}

#[test]
fn a_usual_program_works_in_c_and_cpp_on_both_libraries() {
    for language in ["c", "c++"] {
        for shared in [false, true] {
            output(&mut Built::new("tests/programs/usual.c", language, shared).command());
        }
    }
}

#[test]
fn kevent_of_2007_keeps_its_promises_in_c_and_cpp_on_both_libraries() {
    for language in ["c", "c++"] {
        for shared in [false, true] {
            let built = Built::new("tests/programs/kevent.c", language, shared);
            // The end of an origin is told at once where closes are.
            output(built.command().args((!shared).then_some("static")));
        }
    }
}

#[test]
fn a_thread_that_is_cancelled_while_it_waits_loses_no_event_of_the_ring() {
    for shared in [true, false] {
        output(&mut Built::new("tests/programs/cancel.c", "c", shared).command());
    }
}

#[test]
fn a_program_built_against_libkqueue_runs_on_the_library_that_takes_its_place() {
    let built = Built::on("tests/programs/libkqueue.c", "c", Some("libkqueue.so.0"), &[]);
    let status = built.command().status().unwrap();
    assert!(status.success(), "line {status}");
}

#[test]
fn operations_complete_in_c_and_cpp_on_both_libraries() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/operations.c");
    for language in ["c", "c++"] {
        for shared in [false, true] {
            output(Built::new("tests/programs/operations.c", language, shared).command().arg(&source));
        }
    }
}

#[test]
fn the_shared_library_has_these_names_and_versions_and_no_others() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-names", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let library = shared::library(&folder, "libkqueue.so.0");
    let mut names: Vec<_> = output(Command::new("nm").args(["-D", "--defined-only"]).arg(&library))
        .lines()
        .filter(|line| line.contains(" T "))
        .map(|line| line.rsplit(' ').next().unwrap().to_owned())
        .collect();
    names.sort_unstable();
    let versioned = |names: &[&str], version: &str| names.iter().map(|name| format!("{name}@@{version}")).collect::<Vec<_>>();
    let own = ["corelane_aio_cancel", "corelane_aio_progress", "corelane_aio_submit", "corelane_lio_submit", "corelane_names"];
    let of_2007 = ["init", "ctl", "get_events", "wait", "commit", "put", "get_stats", "ring_map", "ring_unmap"];
    let of_2007 = of_2007.map(|name| format!("kevent_{name}"));
    let mut expected = versioned(&[&own[..], &["kevent", "kqueue1", "kqueuex", "kqueue"]].concat(), "CORELANE_KQUEUE_1");
    expected.extend(versioned(&of_2007.each_ref().map(String::as_str), "CORELANE_KEVENT_1"));
    expected.extend(["close", "close_range", "dup2", "dup3", "fclose"].map(str::to_owned));
    expected.sort_unstable();
    assert_eq!(names, expected);
    let dynamic = output(Command::new("readelf").arg("-d").arg(&library));
    assert!(dynamic.contains("Library soname: [libkqueue.so.0]"), "{dynamic}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn evtest_tells_a_line_for_each_wake_and_event() {
    let built = Built::new("programs/evtest.c", "c", true);
    let text = output(built.command().args(["3", "12", "2"]));
    let (mut told, mut left) = (0, 0);
    for line in text.lines() {
        if left == 0 {
            left = wake(line);
            assert!((1..=2).contains(&left), "{line}");
        } else {
            event(line);
            told += 1;
            left -= 1;
        }
    }
    assert!(told >= 12 && left == 0, "{text}");
}

/// How many events a line like `1163.000042: num: 1, requested: 2, diff: 1001 usec.` announces.
fn wake(line: &str) -> usize {
    let words: Vec<_> = line.split([' ', ':', ',', '.']).filter(|word| !word.is_empty()).collect();
    let [_seconds, _microseconds, "num", count, "requested", "2", "diff", passed, "usec"] = words[..] else { panic!("{line}") };
    passed.parse::<u64>().unwrap();
    count.parse().unwrap()
}

/// A line of two pairs of hexadecimal words: a timer, one of three, that has expired.
fn event(line: &str) {
    let word = |word: &str| u64::from_str_radix(word, 16).unwrap();
    let words: Vec<_> = line.split([' ', '.']).filter(|word| !word.is_empty()).map(word).collect();
    let [kind, ident, _notes, expirations] = words[..] else { panic!("{line}") };
    assert_eq!(kind >> 16, 0xfff9, "EVFILT_TIMER: {line}");
    assert!(ident < 3 && expirations >= 1, "{line}");
}

/// evserver that ends after so many answers, and its port; 0 if it says none.
fn serving(built: &Built, system: &str, answers: usize) -> (Child, u16) {
    let mut server = built.command();
    let mut server = server.args([system, "0", &answers.to_string()]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (server, line.trim().parse().unwrap_or(0))
}

fn ask(port: u16) -> TcpStream {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    stream
}

fn check_answer(mut stream: TcpStream) {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(answer.len(), ANSWER);
    let head = String::from_utf8(answer[..198].to_vec()).unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    assert!(head.contains("Content-Length: 3931\r\n"), "{head}");
    assert!(answer.ends_with(b"</body></html>\n"));
}

#[test]
fn evserver_answers_on_every_system_of_events() {
    for shared in [true, false] {
        let built = Built::new("programs/evserver.c", "c", shared);
        for system in ["kqueue", "kevent", "epoll", "poll", "uring"] {
            if system == "uring" && !uring_is_allowed(&built) {
                skip("evserver_answers_on_every_system_of_events", "io_uring is refused here");
                continue;
            }
            let (mut server, port) = serving(&built, system, 1_200);
            for _ in 0..24 {
                // Fifty at once, of which half say their request in two pieces.
                let streams: Vec<_> = (0..50).map(|index| if index % 2 == 0 { ask(port) } else { ask_in_pieces(port) }).collect();
                streams.into_iter().for_each(check_answer);
            }
            assert!(server.wait().unwrap().success(), "{system}");
        }
    }
}

/// Whether evserver has io_uring, and the system lets it.
fn uring_is_allowed(built: &Built) -> bool {
    let (mut server, port) = serving(built, "uring", 1);
    if port > 0 {
        check_answer(ask(port));
    }
    server.wait().unwrap().success()
}

fn ask_in_pieces(port: u16) -> TcpStream {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r").unwrap();
    stream.write_all(b"\n").unwrap();
    stream
}

#[test]
fn evserver_says_how_it_is_used() {
    let output = Built::new("programs/evserver.c", "c", true).command().output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("usage: evserver kqueue|kevent|epoll|poll|uring PORT"));
}

/// System calls that strace(1) counts in a run of `program`; none where it is not there.
fn system_calls(built: &Built, arguments: &[u32]) -> Option<usize> {
    let log = built.folder.join("log");
    let mut strace = Command::new("strace");
    let status =
        strace.arg("-f").arg("-o").arg(&log).arg(&built.program).args(arguments.iter().map(u32::to_string)).status().ok()?;
    assert!(status.success(), "{status}");
    Some(std::fs::read_to_string(log).unwrap().lines().count())
}

#[test]
fn an_event_costs_two_system_calls_where_closes_are_told_and_four_elsewhere() {
    // Where the C library comes first, its close is what the program calls.
    let late = ["-Wl,--no-as-needed", "-lc"];
    for (shared, first, expected) in [(true, &[][..], 2), (true, &late[..], 4), (false, &[][..], 4)] {
        let built = Built::linked("tests/programs/retrieve.c", "c", shared, first);
        // A pipe, and then a socket at which connections wait: both are asked how much there is.
        for kind in [&[][..], &[1]] {
            let counted = |events: u32| system_calls(&built, &[&[events], kind].concat());
            let (Some(few), Some(many)) = (counted(100), counted(300)) else {
                skip("an_event_costs_two_system_calls_where_closes_are_told_and_four_elsewhere", "strace is not installed");
                return;
            };
            // To find out which end of a pipe a number means takes one call more than with a socket.
            let expected = if kind.is_empty() || expected == 2 { expected } else { expected - 1 };
            assert_eq!((many - few, shared, first.len(), kind), (200 * expected, shared, first.len(), kind));
        }
    }
}

/// Instructions that valgrind(1) counts in a run of `program`; none where it is not there.
fn instructions(built: &Built, arguments: [u32; 2]) -> Option<u64> {
    let out = built.folder.join("callgrind");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", &format!("--callgrind-out-file={}", out.display())]);
    let status = valgrind.arg(&built.program).args(arguments.map(|argument| argument.to_string())).stderr(Stdio::null()).status();
    assert!(status.ok()?.success());
    let text = std::fs::read_to_string(out).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("summary: ")).expect("callgrind sums up");
    Some(line.trim().parse().unwrap())
}

/// An event is looked up in what is registered: a little more of that is not in the first place where it is looked for.
const LOOK_UPS: f64 = 1.05;

#[test]
fn an_event_takes_as_much_work_with_2000_descriptors_as_with_10() {
    let built = Built::new("tests/programs/idle.c", "c", true);
    let by_event = |pipes| Some(instructions(&built, [1_100, pipes])? - instructions(&built, [100, pipes])?);
    let (Some(few), Some(many)) = (by_event(10), by_event(2_000)) else {
        skip("an_event_takes_as_much_work_with_2000_descriptors_as_with_10", "needs the program valgrind");
        return;
    };
    assert!((many as f64) < few as f64 * LOOK_UPS, "{few} instructions for 1000 events of 10, {many} of 2000");
}

#[test]
fn events_of_the_ring_cost_one_call_for_each_full_batch_and_no_call_to_take() {
    // Each byte is written and read; taking events from the ring takes no call.
    const BYTES: usize = 400;
    for shared in [true, false] {
        let built = Built::new("tests/programs/ring.c", "c", shared);
        // Room in the ring, events that are asked for, and calls for all.
        for (size, batch, calls) in [(1000, 1000, 1), (1000, 100, 4), (100, 1000, 4)] {
            let counted = |rounds: u32| system_calls(&built, &[rounds, size, batch]);
            let (Some(few), Some(many)) = (counted(2), counted(12)) else {
                skip("events_of_the_ring_cost_one_call_for_each_full_batch_and_no_call_to_take", "needs the program strace");
                return;
            };
            assert_eq!((many - few, shared, size, batch), (10 * (2 * BYTES + calls), shared, size, batch));
        }
    }
}
