//! A flood of one CPU: what is answered as more and more is offered, how often the server's threads are switched, and what a socket service on the
//! same lane gets meanwhile.
//!
//! The flood is of frames that a program puts on the wire without the kernel's stack ([`Flood`]); answers are
//! counted and dropped by a program at the near end. The flood's thread gives way to everything else on its CPU, the thread that receives at the
//! far end to the server: else the kernel would spend the server's CPU on receiving what is dropped (receive livelock), for sockets as for frames.

use std::fs;
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use corelane_load::report::Report;
use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::gettid;
use serde::Serialize;

use super::cells::{Echo, FLOOD};
use super::programs::{self, Counting, Flood};
use super::servers::Echoing;
use super::wire::{End, Wire};
use crate::bars::Limit;
use crate::cpus::{self, GENERATOR_CPU};
use crate::interrupt::Interrupt;
use crate::rounds::{Extent, Rounds, Verdict};
use crate::server;
use crate::stage::Stage;
use crate::tables::{self, number};

/// Who is flooded.
const FLOODED: [Echo; 3] = [Echo::Polling, Echo::Sockets, Echo::Packet];
/// Those among them that are judged: the lane that somebody gets who asks for nothing else, and one that polls.
const JUDGED: [Echo; 2] = [Echo::Packet, Echo::Polling];
/// Bytes of a datagram's payload.
const BYTES: usize = 64;
/// Datagrams a second that are offered, before as many as can be.
const OFFERS: [f64; 6] = [50e3, 100e3, 150e3, 200e3, 300e3, 400e3];
/// Frames that a program sees in one call, which takes 100 ns and more for each: what is not due is dropped.
const FRAMES: u32 = 1 << 20;
/// The same where so many a second are offered that most are due: what pauses between two calls ([`Flood::held`]) is to do so for a small part.
const FRAMES_OF_MANY: u32 = 1 << 22;
const MANY: f64 = 5e5;
/// Frames a second that one CPU brings at the least, and CPUs that help it at the most: three bring ten times what a lane answers.
const FROM_ONE: f64 = 2.5e6;
const HELPERS_MAX: usize = 3;
/// The port of the socket service on the same lane, and the requests a second that it is asked for: less than its share of the lane.
const BESIDE_PORT: u16 = programs::PORT + 1;
const BESIDE_RATE: u32 = 2_000;

/// The least that is answered of the highest offer, of the most that was answered of any.
const GOODPUT: Limit = Limit::AtLeast(0.9);
/// The highest offer, by the most that was answered.
const HIGHEST: Limit = Limit::AtLeast(3.0);
/// Switches a second by those of sockets.
const SWITCHES: Limit = Limit::AtMost(0.1);
/// Answers of the socket service by requests that were due.
const BESIDE: Limit = Limit::AtLeast(0.9);

/// What one offer brought.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Step {
    /// Datagrams a second that were put on the wire, those among them for which it had no room.
    pub offered_per_s: f64,
    /// Answers a second.
    pub answered_per_s: f64,
    /// Switches of the server's threads a second, of its own will and not.
    pub switches_per_s: f64,
}

/// What one echo showed in one round.
#[derive(Clone, Debug, Serialize)]
pub struct Flooded {
    /// By offer, the highest last.
    pub steps: Vec<Step>,
    /// Answers of the socket service by requests that were due, under the highest offer.
    pub beside: f64,
}

/// All rounds.
pub type Floods = Rounds<Echo, Flooded>;

impl Flooded {
    fn highest(&self) -> &Step {
        // reason: there is a step for the highest offer.
        self.steps.last().expect("the highest offer is one")
    }

    fn peak(&self) -> f64 {
        self.steps.iter().map(|step| step.answered_per_s).fold(0.0, f64::max)
    }
}

/// Floods all of them in rounds, each started anew for each round.
///
/// # Errors
/// When a wire or a server cannot be made, or a signal asks for the end.
pub fn run(stage: &Stage, extent: Extent, interrupt: &Interrupt) -> Result<Floods> {
    Rounds::take(FLOOD, FLOODED.to_vec(), extent.rounds, interrupt, |place| {
        Target::new(FLOODED[place], stage)?.flood(stage, extent.timing.window)
    })
}

/// Somebody who is flooded.
struct Target {
    echoing: Echoing,
    counting: Counting,
    emitter: Emitter,
}

/// What was put on a wire.
#[derive(Clone, Copy, Debug)]
pub struct Emitted {
    /// Frames, those among them for which the wire had no room.
    pub frames: u64,
    /// Processor time of the thread that did it.
    pub cpu_ns: u64,
}

/// A flood of the far end of a wire.
pub struct Emitter {
    flood: Flood,
    /// Those that take part where more is offered than one brings, each with its CPU.
    helpers: Vec<(usize, Flood)>,
    frame: Vec<u8>,
}

impl Emitter {
    /// At the near end of the wire, with datagrams of so many bytes for the echo at an address of the far end.
    pub fn new(wire: &Wire, to: Ipv4Addr, bytes: usize) -> Result<Self> {
        let interface = wire.inside(End::Near, || if_nametoindex(End::Near.interface()).context("the wire's near end"))?;
        let macs = [wire.mac(End::Near)?, wire.mac(End::Far)?];
        let frame = programs::frame(macs, [End::Near.address(), to], bytes);
        Ok(Self { flood: Flood::new(interface)?, helpers: Vec::new(), frame })
    }

    /// The same from other CPUs as well, as far as there are any, where more is offered than one CPU brings.
    pub fn helped(mut self, wire: &Wire) -> Result<Self> {
        let interface = wire.inside(End::Near, || if_nametoindex(End::Near.interface()).context("the wire's near end"))?;
        let cpus = cpus::helpers(HELPERS_MAX)?;
        self.helpers = cpus.into_iter().map(|cpu| Ok((cpu, Flood::new(interface)?))).collect::<Result<_>>()?;
        Ok(self)
    }

    /// At the near end of a wire, with what this program makes of a frame.
    pub fn of(flood: Flood, frame: Vec<u8>) -> Self {
        Self { flood, helpers: Vec::new(), frame }
    }

    /// The same to another port.
    pub fn at_port(mut self, port: u16) -> Self {
        programs::set_port(&mut self.frame, port);
        self
    }

    /// Puts frames on the wire as long as is said, so many a second or as many as can be. Everything else on this thread's CPU comes before it, and on those of its helpers.
    pub fn emit(&self, wire: &Wire, offer: Option<f64>, goes_on: impl Fn() -> bool + Sync) -> Result<Emitted> {
        let helpers = &self.helpers[..helpers_for(offer).min(self.helpers.len())];
        let part = offer.map(|rate| rate / (1 + helpers.len()) as f64);
        let each = |flood: &Flood, cpu: Option<usize>| wire.inside(End::Near, || put(flood, cpu, &self.frame, part, &goes_on));
        thread::scope(|scope| {
            let running: Vec<_> = helpers.iter().map(|(cpu, flood)| scope.spawn(|| each(flood, Some(*cpu)))).collect();
            let mut all = each(&self.flood, None)?;
            for one in running {
                // reason: a thread that panicked has said so.
                let one = one.join().expect("a helper's thread")?;
                (all.frames, all.cpu_ns) = (all.frames + one.frames, all.cpu_ns + one.cpu_ns);
            }
            Ok(all)
        })
    }
}

/// How many help with an offer. As much as can be is what one CPU brings.
fn helpers_for(offer: Option<f64>) -> usize {
    offer.map_or(0, |rate| ((rate / FROM_ONE).ceil() as usize).saturating_sub(1))
}

/// Puts frames on a wire in this thread, which does nothing else, on a CPU or where it is.
fn put(flood: &Flood, cpu: Option<usize>, frame: &[u8], rate: Option<f64>, goes_on: &dyn Fn() -> bool) -> Result<Emitted> {
    cpu.map_or(Ok(()), |cpu| server::pin(&[cpu]))?;
    yields(gettid().as_raw().unsigned_abs())?;
    let _held = flood.held();
    flood.begin(rate)?;
    let frames = if rate.is_none_or(|rate| rate > MANY) { FRAMES_OF_MANY } else { FRAMES };
    while goes_on() {
        flood.emit(frame, frames)?;
    }
    Ok(Emitted { frames: flood.sent()?, cpu_ns: thread_cpu_ns()? })
}

impl Target {
    fn new(echo: Echo, stage: &Stage) -> Result<Self> {
        let counting = Counting::new()?;
        let beside = format!("echo=tcp://{}:{BESIDE_PORT}", End::Far.address());
        let echoing = Echoing::start_behind(echo, &stage.corelane, &counting.program, &[beside])?;
        // Its program lets nobody see answers.
        echoing.await_answer(|| Ok(counting.answers()? > 0))?;
        yields(echoing.receiver.id())?;
        Ok(Self { emitter: Emitter::new(&echoing.wire, echoing.address(), BYTES)?, echoing, counting })
    }

    fn flood(&self, stage: &Stage, window: Duration) -> Result<Flooded> {
        let offers = OFFERS.map(Some).into_iter().chain([None]);
        let steps = offers.map(|offer| self.step(offer, window)).collect::<Result<Vec<_>>>()?;
        // A stream of offers is answered in part, whatever its rate; all of it stays without an answer where the service takes it for something else.
        let unanswered = steps.iter().take(OFFERS.len()).find(|step| step.answered_per_s == 0.0);
        ensure!(
            unanswered.is_none(),
            "nothing was answered of {:.0} a second",
            unanswered.map_or(0.0, |step| step.offered_per_s)
        );
        let beside = self.beside(stage, window)?;
        Ok(Flooded { steps, beside })
    }

    fn step(&self, offer: Option<f64>, window: Duration) -> Result<Step> {
        let server = self.echoing.server.as_ref().context("a flooded echo has a process")?;
        let (answers, switched, started) = (self.counting.answers()?, switches(server.pid())?, Instant::now());
        let sent = self.emit(offer, || started.elapsed() < window)?.frames;
        let (answered, switched, took) =
            (self.counting.answers()? - answers, switches(server.pid())? - switched, started.elapsed().as_secs_f64());
        let [offered_per_s, answered_per_s, switches_per_s] = [sent, answered, switched].map(|count| count as f64 / took);
        Ok(Step { offered_per_s, answered_per_s, switches_per_s })
    }

    fn emit(&self, offer: Option<f64>, goes_on: impl Fn() -> bool + Sync) -> Result<Emitted> {
        self.emitter.emit(&self.echoing.wire, offer, goes_on)
    }

    /// Asks the socket service on the same lane, from its own end of the wire, while the flood is at its highest; returns what part was answered.
    fn beside(&self, stage: &Stage, window: Duration) -> Result<f64> {
        let url = format!("tcp://{}:{BESIDE_PORT}", End::Far.address());
        let report =
            ask_beside(&self.echoing.wire, &stage.corelane, &url, BESIDE_RATE, window, |runs| self.emit(None, runs).map(drop))?;
        Ok(report.requests as f64 / (f64::from(BESIDE_RATE) * window.as_secs_f64()))
    }
}

/// Asks a service at the far end from its own end of the wire, so often a second, while `meanwhile` does something as long as it is told to.
pub fn ask_beside(
    wire: &Wire,
    corelane: &Path,
    url: &str,
    rate: u32,
    window: Duration,
    meanwhile: impl FnOnce(&(dyn Fn() -> bool + Sync)) -> Result<()>,
) -> Result<Report> {
    let mut command = wire.command_on(&[GENERATOR_CPU], End::Far, corelane)?;
    command.args(["load", "echo", url, "--lanes", "1", "--cpus", &GENERATOR_CPU.to_string(), "--json", "--quiet"]);
    // More than are due while a lane rests: one that waits for an answer puts off the next.
    command.args(["--connections", "16", "--rate", &rate.to_string(), "--timeout", "10s", "--warmup", "200ms"]);
    command.args(["--duration", &format!("{}us", window.as_micros())]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().context("the generator")?;
    let child = Mutex::new(child);
    // reason: nobody panics while holding it.
    meanwhile(&|| matches!(child.lock().expect("whole").try_wait(), Ok(None)))?;
    // reason: as above.
    let output = child.into_inner().expect("whole").wait_with_output().context("the generator")?;
    serde_json::from_slice(&output.stdout).with_context(|| format!("the generator: {}", output.status))
}

/// Has a thread run only while nobody else wants its CPU (SCHED_IDLE, sched(7)).
pub fn yields(thread: u32) -> Result<()> {
    let status =
        Command::new("chrt").args(["--idle", "--pid", "0", &thread.to_string()]).status().context("chrt (package util-linux)")?;
    ensure!(status.success(), "chrt: {status}");
    Ok(())
}

/// Processor time of this thread, in nanoseconds.
pub fn thread_cpu_ns() -> Result<u64> {
    let used = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).context("this thread's clock")?;
    Ok(used.num_nanoseconds().unsigned_abs())
}

/// How often the threads of a process have been switched.
fn switches(pid: i32) -> Result<u64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).context("the server's threads")?;
    let of_one = |entry: std::io::Result<fs::DirEntry>| match fs::read_to_string(entry?.path().join("status")) {
        Ok(status) => Ok(switches_of(&status)),
        // A thread may end after it was listed.
        Err(error) if error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(Errno::ESRCH as i32) => Ok(0),
        Err(error) => Err(error),
    };
    threads.map(of_one).sum::<std::io::Result<u64>>().context("the server's threads")
}

fn switches_of(status: &str) -> u64 {
    let lines = status.lines().filter_map(|line| line.split_once("ctxt_switches:"));
    lines.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum()
}

/// The verdicts on the bars, for each lane over frames.
pub fn judge(floods: &Floods) -> Vec<Verdict> {
    JUDGED.into_iter().flat_map(|echo| judge_one(floods, echo)).flatten().collect()
}

fn judge_one(floods: &Floods, echo: Echo) -> [Option<Verdict>; 4] {
    let of = |what: &str, figure: fn(&Flooded) -> f64, bar| {
        Verdict::of_rounds(FLOOD, format!("{echo}: {what}"), &floods.values(echo, figure)?, bar)
    };
    // Fewer than one a second count as one: sockets may have none.
    let switches = |one: &Flooded| one.highest().switches_per_s.max(1.0);
    [
        of("answered of the highest offer / of the best", |one| one.highest().answered_per_s / one.peak(), GOODPUT),
        of("highest offer / most answered", |one| one.highest().offered_per_s / one.peak(), HIGHEST),
        of("TCP service on it, answered of what was due", |one| one.beside, BESIDE),
        floods.judge(echo, Echo::Sockets, "switches a second", switches, SWITCHES),
    ]
}

/// The medians over the rounds: a row for each offer, and with the highest what part was answered on the same lane.
pub fn table(floods: &Floods) -> String {
    let mut rows = Vec::new();
    for &echo in &floods.who {
        for step in 0..=OFFERS.len() {
            let middle = |of: fn(&Step) -> f64| number(floods.median(echo, |one| of(&one.steps[step])), 0);
            let beside = (step == OFFERS.len()).then(|| floods.median(echo, |one| one.beside)).flatten();
            rows.push(vec![
                ("echo", echo.to_string()),
                ("offered/s", middle(|step| step.offered_per_s)),
                ("answered/s", middle(|step| step.answered_per_s)),
                ("switches/s", middle(|step| step.switches_per_s)),
                ("TCP echo on it", number(beside, 3)),
            ]);
        }
    }
    let rounds = floods.rounds.len();
    format!(
        "{FLOOD}, {BYTES} B, {rounds} rounds, TCP echo: the part answered of {BESIDE_RATE} a second\n{}",
        tables::table(&rows)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bars::Word;

    fn flooded(answered: [f64; 2], switches: f64) -> Flooded {
        let step = |offered_per_s, answered_per_s| Step { offered_per_s, answered_per_s, switches_per_s: switches };
        Flooded { steps: vec![step(100.0, answered[0]), step(900.0, answered[1])], beside: 1.0 }
    }

    #[test]
    fn others_help_where_one_does_not_bring_what_is_offered() {
        assert_eq!([None, Some(2.5e6), Some(2.6e6), Some(8e6)].map(helpers_for), [0, 0, 1, 3]);
    }

    #[test]
    fn x_07_what_is_left_under_the_flood_is_held_against_the_most_that_was_answered() {
        let round = |polls: &Flooded, sockets: &Flooded, plain: &Flooded| vec![polls.clone(), sockets.clone(), plain.clone()];
        let words = |polls, sockets, plain| {
            let rounds = vec![round(polls, sockets, plain); 5];
            let floods = Rounds { rounds, ..Rounds::new(FLOOD, FLOODED.to_vec()) };
            let verdicts = judge(&floods);
            assert!(
                verdicts[..4].iter().all(|verdict| verdict.what.starts_with("packet lane") && !verdict.what.contains("polls"))
            );
            assert!(verdicts[4..].iter().all(|verdict| verdict.what.starts_with("packet lane, polls")), "each by its name");
            verdicts.iter().map(|verdict| verdict.word).collect::<Vec<_>>()
        };
        let sockets = flooded([100.0, 50.0], 1_000.0);
        let (calm, torn) = (flooded([100.0, 95.0], 90.0), flooded([400.0, 95.0], 110.0));
        let missed = [Word::Missed, Word::Missed, Word::Met, Word::Missed];
        assert_eq!(words(&calm, &sockets, &calm), [Word::Met; 8]);
        assert_eq!(words(&calm, &sockets, &torn), [&missed[..], &[Word::Met; 4]].concat());
        assert_eq!(words(&torn, &sockets, &calm), [&[Word::Met; 4][..], &missed].concat());
    }

    #[test]
    fn switches_of_both_kinds_are_counted() {
        let status = "Name:\tlane-0\nvoluntary_ctxt_switches:\t15\nnonvoluntary_ctxt_switches:\t4\n";
        assert_eq!(switches_of(status), 19);
        assert!(switches(std::process::id() as i32).expect("this process has threads") > 0);
    }
}
