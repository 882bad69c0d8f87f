//! The conformance suite: what kqueue(2) promises, a named case each, on the functions linked into a program and on those of the shared
//! library; and, of these, what kevent of 2007 can say the same (`of_2007`; the rest is listed in `unsaid`), by its calls and by its ring. Each case is a process of its own, because signals, children and descriptor numbers belong to a process.
#![allow(clippy::unwrap_used, reason = "a test without libtest, which clippy does not take for one")]

mod aio;
mod closing;
mod core;
mod empty;
mod fork;
mod limits;
mod names;
mod numbers;
mod of_2007;
mod proc;
mod read;
mod rig;
mod rows;
mod shared;
mod signal;
mod sockets;
mod threading;
mod timer;
mod unsaid;
mod user;
mod vnode;
mod write;

use std::path::Path;
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Failed, Trial};
use rig::Queue;

/// One promise.
pub struct Case {
    /// What holds, in words.
    name: &'static str,
    /// Which rule of kqueue's semantics it belongs to.
    rule: &'static str,
    /// Panics where it does not hold. The queue is new.
    run: fn(&Queue),
}

/// A case for a table.
const fn case(name: &'static str, rule: &'static str, run: fn(&Queue)) -> Case {
    Case { name, rule, run }
}

/// All groups.
const GROUPS: &[(&str, &[Case])] = &[
    ("core", core::CASES),
    ("read", read::CASES),
    ("write", write::CASES),
    ("empty", empty::CASES),
    ("vnode", vnode::CASES),
    ("timer", timer::CASES),
    ("user", user::CASES),
    ("signal", signal::CASES),
    ("proc", proc::CASES),
    ("threading", threading::CASES),
    ("fork", fork::CASES),
    ("close", closing::CASES),
    ("names", names::CASES),
    ("aio", aio::CASES),
    ("limits", limits::CASES),
];

/// The least number of cases; they differ in name.
const AT_LEAST: usize = 250;

/// Names the case that a process of its own runs.
const VARIABLE: &str = "CORELANE_KQUEUE_CASE";
/// Names the face that it runs on, where that is not kqueue(2).
const FACE: &str = "CORELANE_KQUEUE_FACE";
/// Seconds after which a case that waits in vain is killed.
const SECONDS: u32 = 300;

fn main() -> ExitCode {
    match std::env::var(VARIABLE) {
        Ok(name) => run(&name),
        Err(_) => run_all(),
    }
}

fn run(name: &str) -> ExitCode {
    let all = GROUPS.iter().flat_map(|(group, cases)| cases.iter().map(move |case| (*group, case)));
    let (_, case) = all.into_iter().find(|(group, case)| full_name(group, case) == name).expect("a case of this name");
    nix::unistd::alarm::set(SECONDS);
    (case.run)(&Queue::new());
    ExitCode::SUCCESS
}

fn full_name(group: &str, case: &Case) -> String {
    format!("{group}: {} ({})", case.name, case.rule)
}

fn run_all() -> ExitCode {
    let arguments = Arguments::from_args();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-conformance", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the target's folder can be written");
    let library = shared::library(&folder, "libcorelane_kqueue.so.1");
    let mut trials = vec![Trial::test("there are enough cases, and their names differ", enough)];
    trials.push(Trial::test("every row of the originals is shown by a test", rows::are_shown));
    for (group, case) in GROUPS.iter().flat_map(|(group, cases)| cases.iter().map(move |case| (*group, case))) {
        let name = full_name(group, case);
        trials.push(trial("linked", &name, None, None));
        trials.push(trial("shared", &name, Some(library.as_path()), None));
        if unsaid::is_said(&name) {
            trials.push(trial("kevent", &name, Some(library.as_path()), Some(of_2007::CALLS)));
            trials.push(trial("ring", &name, None, Some(of_2007::RING)));
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    std::fs::remove_dir_all(folder).expect("what was made can be removed");
    conclusion.exit_code()
}

fn trial(label: &str, name: &str, library: Option<&Path>, face: Option<&str>) -> Trial {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.env(VARIABLE, name).env("RUST_BACKTRACE", "0");
    if let Some(library) = library {
        command.env("LD_PRELOAD", library);
    }
    if let Some(face) = face {
        command.env(FACE, face);
    }
    Trial::test(format!("{label}: {name}"), move || {
        let output = command.output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(Failed::from(format!("{}\n{}", output.status, String::from_utf8_lossy(&output.stderr))))
    })
}

fn enough() -> Result<(), Failed> {
    let names: Vec<_> = GROUPS.iter().flat_map(|(group, cases)| cases.iter().map(|case| (*group, case.name))).collect();
    let mut once = names.clone();
    once.sort_unstable();
    once.dedup();
    let superfluous = unsaid::superfluous();
    if !superfluous.is_empty() {
        return Err(Failed::from(format!("no case to be left out, or left out twice: {superfluous:?}")));
    }
    if once.len() == names.len() && names.len() >= AT_LEAST {
        return Ok(());
    }
    Err(Failed::from(format!("{} cases, {} names, {AT_LEAST} wanted", names.len(), once.len())))
}
