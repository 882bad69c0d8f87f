//! `corelane serve`: starts the built-in services, one lane per core.

mod arguments;
mod lanes;
mod live;
mod log;
mod plan;
mod reach;
mod reload;
mod rule;
mod sandbox;
mod settings;
mod supervisor;
mod tables;

pub use arguments::Arguments;

use crate::exit::{Exit, Late};
use crate::gateway::metrics;
use crate::gateway::watched::Watched;
use crate::print::print;
use crate::wrap::wrapped;
use anyhow::{Context, Result, anyhow};
use corelane::admin::InForce;
use corelane::admin::confine::calls::Beside;
use corelane::admin::messages::Degraded;
use corelane::admin::reports::{Level, Record};
use corelane::admin::user::{Beginning, User};
use corelane::admin::watch::Reader;
use corelane::lanes::{Running, Signals};
use corelane::{Error, Lanes};
use corelane_metrics::graphs::Sampler;
use corelane_metrics::{Listen, Metrics};
use log::Log;
use reload::Reload;
use sandbox::{Sandbox, confine_calls, confine_files};
use settings::Setting;
use std::ffi::OsString;
use std::sync::mpsc::channel;
use std::thread::Builder;
use std::time::Duration;
use supervisor::Supervisor;

/// Serves until told to end.
pub fn run(arguments: Arguments) -> Result<Exit> {
    let (arguments, settings) = settings::complete(arguments, settings::given())?;
    let (plan, json, check) = (arguments.plan, arguments.json, arguments.check);
    let (metrics, dashboard, names) = (arguments.metrics, arguments.dashboard, arguments.host_names.clone());
    let mut listen = Listen { metrics, dashboard, names, graphs: None };
    if check || plan {
        let lanes = rule::noting_variables(rule::lanes_as_user(arguments, &settings)?);
        return if check { print_checked(&lanes, &settings) } else { print_plan(&lanes, json) };
    }
    let user = rule::user(&arguments)?;
    // Before anything is opened, and before there are threads.
    let (sandbox, config) = (arguments.sandbox, settings::file(&arguments));
    let (format, level, takes_over) = (arguments.log_format, arguments.log_level, arguments.take_over.is_some());
    // Before a descriptor of our own is under a number that was to be handed over.
    let handed = corelane::lanes::take_handed().map_err(|why| anyhow!(why))?;
    let user = user.map(User::begin).transpose().map_err(|why| anyhow!("--user: {why}"))?;
    let lanes = rule::noting_variables(rule::lanes(arguments, &settings)?);
    corelane::admin::reports::set_panic_hook();
    let signals = Signals::block().context("waiting for signals (signalfd4)")?;
    // Before the first thread: one that there is already would stay as free as it is.
    let lanes = lanes.sockets(handed).listens_also(listen.addresses()).with_holders();
    let confined = confine_files(sandbox, &lanes, config.as_deref())?;
    let log = Log::begin(format, level)?;
    let ports = reload::ports(&lanes);
    let mut running = lanes.start()?;
    let _graphs = graphs(&running, &mut listen)?;
    let shown = shown(&mut running, &listen)?;
    let forwarding = running.gateway().is_some_and(|gateway| gateway.offloads());
    let beside = Beside { receiving: running.user_fraction().is_some(), forwarding };
    if beside.receiving && user.is_some() {
        running.note(fixed_receiving());
    }
    user.map_or(Ok(()), Beginning::finish).map_err(|why| anyhow!("--user: {why}"))?;
    confined.into_iter().chain(confine_calls(sandbox, beside)?).for_each(|note| running.note(note));
    let reload = Reload::new(settings, &running, log, (sandbox != Sandbox::Off).then_some(ports));
    let _supervisor = Supervisor::start(&mut running, move || reload.again())?;
    // Nothing of the start can fail any more but to say so. A process that is taken over goes on until that is done.
    running.announce(|running| {
        let (words, status) = (announcement(running, shown.as_ref()), supervisor::status(running));
        if takes_over { within(READ_LIMIT, move || announce(words, &status)) } else { announce(words, &status) }
    })?;
    log::tell_notes(format, running.notes());
    let drained = running.run_until_told(signals).map_err(ended)?;
    corelane::admin::reports::say(&format!("drained: {drained}"));
    corelane::admin::reports::flush(corelane::admin::reports::PATIENCE);
    Ok(Exit::Done)
}

/// Serves metrics and the dashboard, if they are asked for.
fn shown(running: &mut Running, listen: &Listen) -> Result<Option<Metrics>> {
    if listen.addresses().next().is_none() {
        return Ok(None);
    }
    let gateway = running.gateway();
    Ok(Some(Metrics::beside_with(running, listen, move || metrics::counted(gateway.as_ref()))?))
}

/// Keeps graphs of a gateway that has a file for them, which are beside the dashboard then.
fn graphs(running: &Running, listen: &mut Listen) -> Result<Option<Sampler>> {
    let Some((gateway, file)) = running.gateway().and_then(|gateway| Some((gateway.clone(), gateway.graphs()?.to_owned())))
    else {
        return Ok(None);
    };
    let source = Watched::new(gateway, Reader::of(running.counters())?);
    let sampler = Sampler::start(&file, source).context("keeping graphs takes a thread")?;
    listen.graphs = Some(file);
    Ok(Some(sampler))
}

/// That what is set of the kernel's receiving stays so once rights are given up.
fn fixed_receiving() -> Record {
    Degraded::ReceiveThreads.note(
        "--user gives up the rights by which receiving is governed: it stays as it is now, an interface that comes up again is received as ever, and a \
         card's threads stay at the end; remedy: have a service manager start the program as that user, with CAP_NET_ADMIN, CAP_SYS_NICE and CAP_BPF \
         (User= and AmbientCapabilities= of a unit)",
    )
}

/// How long whoever started a program that takes over may take to read that it serves: less than the other process waits.
const READ_LIMIT: Duration = Duration::from_secs(30);

/// Prints that it serves, and then tells the service manager; both may wait for a reader.
fn announce(words: String, status: &str) -> Result<()> {
    print(words)?;
    supervisor::ready(status);
    Ok(())
}

/// Gives up what takes longer.
fn within(limit: Duration, call: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    let (tell, told) = channel();
    // Nobody waits any more for what comes late.
    let body = move || drop(tell.send(call()));
    Builder::new().name("announce".to_owned()).spawn(body).context("starting the thread that says that it serves")?;
    let late = || anyhow!("nobody has read for {limit:?} that it serves: read standard output, or have it go to a file");
    told.recv_timeout(limit).map_err(|_| late())?
}

/// The lanes that `serve` would start if it were given these words.
///
/// # Errors
/// What is wrong with them, and where.
pub fn lanes_of(words: Vec<OsString>) -> Result<Lanes> {
    let (arguments, settings) = settings::complete(settings::arguments(&words)?, words)?;
    rule::lanes_as_user(arguments, &settings).map(rule::noting_variables)
}

fn ended(error: Error) -> Late {
    let exit = if matches!(error, Error::LanePanicked { .. }) { Exit::Broken } else { Exit::Late };
    Late { exit, level: Level::Error, ..Late::of("serving", error) }
}

fn print_checked(lanes: &Lanes, settings: &[Setting]) -> Result<Exit> {
    let mut notes = lanes.check()?;
    notes.extend(lanes.check_means()?);
    let (_, plan) = lanes.plan()?;
    let notes: String = notes.iter().map(|note| wrapped("warning: ", &note.to_string())).collect();
    let upstreams: String = reach::warnings(lanes, settings).iter().map(|words| wrapped("warning: ", words)).collect();
    print(notes + &plan::warnings(&plan) + &upstreams + "checked: the settings are right; nothing was started")?;
    Ok(Exit::Done)
}

fn print_plan(lanes: &Lanes, json: bool) -> Result<Exit> {
    let (topology, plan) = lanes.plan()?;
    let words = if json { plan::object(&topology, &plan).to_string() } else { plan::text(&topology, &plan) };
    print(words)?;
    Ok(Exit::Done)
}

/// Says what listens where, on what, and then that it is ready.
fn announcement(running: &Running, shown: Option<&Metrics>) -> String {
    let mut lines = Vec::new();
    for place in running.places() {
        lines.push(format!("{} {}", place.service, place.url));
    }
    lines.extend(running.ports().iter().map(|port| format!("gateway {port}")));
    let cpus: Vec<String> = running.cpus().iter().flatten().map(usize::to_string).collect();
    let lanes = running.cpus().len();
    let lanes = if lanes == 1 { "1 lane".to_owned() } else { format!("{lanes} lanes") };
    lines.push(format!("driver {}, {lanes} on CPU {}", running.driver(), cpus.join(",")));
    lines.push(match running.steered().in_force() {
        InForce::Nothing => "steering none, one lane has all flows".to_owned(),
        in_force => format!("steering {in_force}, {} buckets", running.steered().table().buckets().count()),
    });
    lines.extend(shown.iter().flat_map(|shown| shown.places()).map(|(what, address)| format!("{what} http://{address}")));
    let (topology, plan) = running.plan();
    if topology.interface.is_some() {
        lines.push(format!("interface {}", plan::interface(topology, plan)));
    }
    for note in running.notes() {
        lines.push(format!("note: {note}"));
    }
    lines.push("ready".to_owned());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane::service::Declaration;
    use corelane_services as services;
    use std::path::Path;

    #[test]
    fn a_lane_that_broke_is_an_error_and_what_is_refused_is_to_be_looked_at() {
        let broke = ended(Error::LanePanicked { lane: 1, words: "broke".to_owned(), left_behind: 0 });
        assert!(broke.words.starts_with("serving: lane 1 ") && broke.level == Level::Error, "{broke}");
        assert_eq!(Late::of("looking", "nothing there").level, Level::Warn);
    }

    #[test]
    fn the_page_has_the_name_of_every_metric() {
        let own: Vec<(&str, Vec<Declaration>)> = services::ALL.iter().map(|entry| (entry.name(), entry.counters())).collect();
        let own: Vec<(&str, &[Declaration])> = own.iter().map(|(name, declared)| (*name, declared.as_slice())).collect();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
        let written = std::fs::read_to_string(&path).unwrap();
        let (words, _) = written.split_once("-->\n").unwrap();
        let made = format!("{words}-->\n{}", corelane_metrics::documentation(&own, vec![metrics::documented()]));
        if std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
            std::fs::write(&path, &made).unwrap();
        }
        assert!(
            std::fs::read_to_string(&path).unwrap() == made,
            "metrics.md is not what is declared: run this test with UPDATE_DOCS=1"
        );
    }
}
