//! `corelane polling`: shows and changes how much of their time the packet lanes of a running process give to packets.

mod asked;
mod tune;

use crate::print::print;
use anyhow::{Result, anyhow};
use asked::{Page, change};
use corelane::admin::dispatch;
use corelane::admin::polling::{Change, Controller, Knob, LanePolling, Settings, Variables, polling_of};
use corelane::admin::watch::{LaneFigures, LongTurns, ProcessFigures, Snapshot};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::thread::sleep;
use std::time::Duration;

/// How long the lanes are looked at for their shares.
const WINDOW: Duration = Duration::from_millis(250);
/// The same for lanes beside threads of the kernel, whose time the page has four times a second.
const WINDOW_OF_THREADS: Duration = Duration::from_secs(1);

/// Shows how much of their time the lanes of a running process give to packets (`serve --packet eth1,..,poll`), or changes it on all of them
///
/// The knobs and variables have the names that FreeBSD gives them (polling(4), kern.polling.*). Shares are those of a quarter of a second from now on. A change is in force
/// when it is printed, and lasts as long as the process. docs/flood.md says what each knob does.
#[derive(clap::Args)]
pub struct Arguments {
    /// The process; need not be named where only one serves
    #[arg(long, value_parser = crate::stat::process_number)]
    pid: Option<u32>,
    /// Set a knob: user_frac=30 keeps 30 % for services and tasks. May be repeated
    ///
    /// controller=timed|original (original is FreeBSD's, by ticks), hz (its ticks a second), user_frac (0 to 99), burst_max, each_burst, reg_frac, idle_poll, and
    /// other_programs=0|1 (whether other programs of the lanes' CPUs have a part in the user fraction).
    #[arg(long = "set", value_name = "KNOB=VALUE")]
    changes: Vec<Change>,
    /// Find the knobs that carry most, by trying for a minute at most; services keep N per cent at least, or what is set
    ///
    /// Each setting that is tried is in force on all lanes for a second or more, so do it under load. The best stays.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, conflicts_with = "json", value_parser = clap::value_parser!(u32).range(..=99))]
    tune: Option<Option<u32>>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Has the process carry it out, and prints what is set and what comes of it.
pub fn run(arguments: &Arguments) -> Result<()> {
    let page = Page::of(arguments.pid)?;
    arguments.changes.iter().try_for_each(|wanted| change(&page, *wanted))?;
    if let Some(least) = arguments.tune {
        let lanes = || {
            anyhow!(
                "--tune tries the knobs of lanes that poll, and none of process {} does: `--packet INTERFACE,..,poll`",
                page.pid
            )
        };
        let before = shown(&page)?.ok_or_else(lanes)?;
        let least = least.or_else(|| before.user_frac());
        tune::run(&page, least, &mut |line| print(line))?;
    }
    if let Some(shown) = shown(&page)? {
        return print(if arguments.json { serde_json::to_string_pretty(&shown)? } else { shown.text() }.trim_end());
    }
    let threads = dispatch::polled(&page.path).map_err(|error| page.said(error))?;
    print(&beside_threads(&page, threads.ok_or_else(|| page.polls_nothing())?, arguments.json)?)
}

/// The part that lanes keep beside threads of the kernel at their CPUs, and the shares of both in a while from now on.
fn beside_threads(page: &Page, user_frac: u32, as_json: bool) -> Result<String> {
    let before = page.look();
    sleep(WINDOW_OF_THREADS);
    let span = page.look().since(&before)?;
    let lanes: Vec<BesideThreads> = ProcessFigures::of(&span).lanes.iter().enumerate().map(BesideThreads::of).collect();
    if as_json {
        return Ok(serde_json::to_string_pretty(&serde_json::json!({ "settings": { "user_frac": user_frac }, "lanes": lanes }))?);
    }
    let mut out = format!("user_frac {user_frac}, of threads that receive beside lanes\n\nlane network%  user%");
    for BesideThreads { lane, network_percent, user_percent } in lanes {
        let _ = write!(out, "\n{lane:4} {network_percent:8.1} {user_percent:6.1}");
    }
    Ok(out)
}

/// A lane: the time that threads had at its CPU, and its own, in per cent.
#[derive(Debug, Serialize)]
struct BesideThreads {
    lane: usize,
    network_percent: f64,
    user_percent: f64,
}

impl BesideThreads {
    fn of((lane, figures): (usize, &LaneFigures)) -> Self {
        let [network_percent, user_percent] =
            [figures.network_share, figures.user_share].map(|share| share.unwrap_or_default() * 100.0);
        Self { lane, network_percent, user_percent }
    }
}

/// What is set, and how lanes spend a while from now on; none where no lane polls.
fn shown(page: &Page) -> Result<Option<Shown>> {
    let before = page.look();
    if polling_of(&before).next().is_none() {
        return Ok(None);
    }
    sleep(WINDOW);
    let now = page.look();
    Ok(Shown::of(&now, &now.since(&before)?))
}

/// What is set, and what comes of it on each lane.
#[derive(Debug, Serialize)]
struct Shown {
    settings: BTreeMap<&'static str, Value>,
    lanes: Vec<Row>,
    /// Services that had most of turns which took more than half a millisecond while packets waited, since the start.
    long_turns: Vec<LongTurn>,
}

/// A service that had turns of a lane for too long.
#[derive(Debug, Serialize)]
struct LongTurn {
    lane: usize,
    service: String,
    turns: u64,
    milliseconds_each: f64,
}

/// A lane: its time in per cent, and the variables.
#[derive(Debug, Serialize)]
struct Row {
    lane: usize,
    network_percent: f64,
    others_percent: f64,
    asleep_percent: f64,
    burst: u32,
    residual_burst: u32,
    phase: u32,
    pending_polls: u32,
    handlers: u32,
    short_ticks: u32,
    lost_polls: u32,
    stalled: u32,
    suspect: u32,
    held: u64,
    overruns: u64,
}

impl Shown {
    /// As of `now`, with the shares of a span; none where no lane polls.
    fn of(now: &Snapshot, span: &Snapshot) -> Option<Self> {
        let polled: Vec<LanePolling> = polling_of(now).collect();
        // All lanes are told the same.
        let settings = set(&polled.first()?.settings);
        let figures = ProcessFigures::of(span).lanes;
        let long_turn = |one: LongTurns<'_>| LongTurn {
            lane: one.lane,
            service: one.service.to_owned(),
            turns: one.turns,
            milliseconds_each: one.milliseconds_each(),
        };
        let long_turns = now.long_turns().map(long_turn).collect();
        Some(Self { settings, lanes: polled.iter().map(|one| Row::of(one, figures.get(one.lane))).collect(), long_turns })
    }

    fn user_frac(&self) -> Option<u32> {
        self.settings.get(Knob::UserFrac.name()).and_then(Value::as_u64).and_then(|value| value.try_into().ok())
    }

    fn text(&self) -> String {
        let mut out = String::new();
        for (name, value) in &self.settings {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let about = Knob::ALL.into_iter().find(|knob| knob.name() == *name).map_or("", Knob::about);
            let _ = writeln!(out, "{}", format!("{name:14} {value:>8}  {about}").trim_end());
        }
        out += "\nlane network% others% asleep%  burst residual_burst phase pending_polls handlers short_ticks lost_polls stalled suspect    held overruns\n";
        for row in &self.lanes {
            let Row { lane, network_percent, others_percent, asleep_percent, burst, residual_burst, phase, .. } = row;
            let Row { pending_polls, handlers, short_ticks, lost_polls, stalled, suspect, held, overruns, .. } = row;
            let _ = writeln!(
                out,
                "{lane:4} {network_percent:8.1} {others_percent:7.1} {asleep_percent:7.1} {burst:6} {residual_burst:14} {phase:5} {pending_polls:13} {handlers:8} {short_ticks:11} {lost_polls:10} {stalled:7} {suspect:7} {held:7} {overruns:8}"
            );
        }
        if !self.long_turns.is_empty() {
            out += "\nlane  long turns  each ms  service\n";
        }
        for LongTurn { lane, service, turns, milliseconds_each } in &self.long_turns {
            let _ = writeln!(out, "{lane:4} {turns:11} {milliseconds_each:8.1}  {service}");
        }
        out
    }
}

impl Row {
    fn of(polled: &LanePolling, lane: Option<&LaneFigures>) -> Self {
        let share = |of: Option<f64>| of.unwrap_or_default() * 100.0;
        let network_percent = share(lane.and_then(|lane| lane.network_share));
        let asleep_percent = share(lane.and_then(|lane| lane.shares).map(|shares| shares.asleep));
        let Variables {
            burst, residual_burst, phase, pending_polls, handlers, short_ticks, lost_polls, stalled, suspect, ..
        } = polled.variables;
        Self {
            lane: polled.lane,
            network_percent,
            others_percent: (100.0 - network_percent - asleep_percent).max(0.0),
            asleep_percent,
            burst,
            residual_burst,
            phase,
            pending_polls,
            handlers,
            short_ticks,
            lost_polls,
            stalled,
            suspect,
            held: polled.held,
            overruns: polled.overruns,
        }
    }
}

/// What is set, by name; what only FreeBSD's controller has stands there where that is in force.
fn set(settings: &Settings) -> BTreeMap<&'static str, Value> {
    let is_original = settings.controller == Controller::Original;
    let knobs = Knob::ALL.into_iter().filter(|knob| is_original || !matches!(knob, Knob::RegFrac | Knob::IdlePoll));
    let mut set: BTreeMap<_, Value> = knobs.map(|knob| (knob.name(), settings.knobs.get(knob).into())).collect();
    set.insert("controller", settings.controller.name().into());
    if is_original {
        set.insert("hz", settings.hz.into());
    } else {
        set.insert("other_programs", u32::from(settings.other_programs).into());
    }
    set
}
