//! `corelane polling --tune`: the knobs of running lanes are found by trying.

use super::asked::{Page, change};
use anyhow::{Context, Result, anyhow, bail};
use corelane::admin::gateway;
use corelane::admin::polling::tune::{self, Dimension, Limits, Seen, Settings as Found, TuneStep, Tuner};
use corelane::admin::polling::{Change, Controller, Knob, Knobs, LanePolling, polling_of};
use corelane::admin::watch::{PacketCounter, ProcessFigures, Snapshot};
use corelane::lanes::Signals;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How long the lanes are looked at with each setting.
const EACH: Duration = Duration::from_millis(700);
/// Looks at the most.
const LOOKS: u32 = 60;
/// With all changes between the looks it is to end within a minute.
const _: () = assert!(EACH.as_millis() * (LOOKS as u128) <= 45_000);

/// Tries settings on all lanes, and says of each what came of it. The best stays; where this fails or is stopped (SIGINT, SIGTERM), what was set is set again. `user_share` is kept for others at least, in per cent.
pub fn run(page: &Page, user_share: Option<u32>, say: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
    let first = first(&page.look())?;
    let settings = first.settings;
    let mut tuner = Tuner::new(Limits { user_share, measurements: LOOKS }, dimensions(&first));
    let (mut said, stops) = (0, stops()?);
    let started = tune_on(page, &mut tuner, &mut said, &stops, say);
    if started.is_err() {
        // As far as the process still hears.
        let _gone = put(page, settings.hz, &settings.knobs);
    }
    started
}

/// Hears of the first signal that asks for the end.
fn stops() -> Result<Receiver<()>> {
    let signals = Signals::block().context("waiting for signals (signalfd4)")?;
    let (tell, stops) = channel();
    std::thread::spawn(move || {
        let _ = signals.wait_for_end();
        // Nobody hears it behind the end.
        let _ = tell.send(());
    });
    Ok(stops)
}

fn tune_on(
    page: &Page,
    tuner: &mut Tuner,
    said: &mut usize,
    stops: &Receiver<()>,
    say: &mut dyn FnMut(&str) -> Result<()>,
) -> Result<()> {
    loop {
        let before = Look::at(page);
        if stops.recv_timeout(EACH) != Err(RecvTimeoutError::Timeout) {
            bail!("tuning was stopped: what was set before is set again");
        }
        let step = tuner.seen(Look::at(page).since(&before)?);
        for line in &tuner.lines()[*said..] {
            say(line)?;
        }
        *said = tuner.lines().len();
        match step {
            TuneStep::Try { settings, .. } => set(page, &settings)?,
            TuneStep::Done { best, why } => {
                set(page, &best)?;
                return say(&format!("{why}: {best}"));
            }
        }
    }
}

fn first(snapshot: &Snapshot) -> Result<LanePolling> {
    polling_of(snapshot).next().ok_or_else(|| anyhow!("no lane polls any more"))
}

/// What may be tried of the controller that is in force.
fn dimensions(now: &LanePolling) -> Vec<Dimension> {
    let (hz, knobs) = (now.settings.hz, &now.settings.knobs);
    match now.settings.controller {
        Controller::Original => tune::original::dimensions(hz, knobs),
        Controller::Timed => tune::timed::dimensions(knobs),
    }
}

/// Puts settings in force; what is so already is left alone. The bound comes before what it bounds.
fn set(page: &Page, found: &Found) -> Result<()> {
    let now = first(&page.look())?.settings;
    let (hz, knobs) = tune::original::knobs(found, now.hz, &now.knobs);
    put(page, hz, &knobs)
}

/// The ticks a second bound a knob: they come before it where they grow, and behind it else.
fn put(page: &Page, hz: u32, knobs: &Knobs) -> Result<()> {
    let now = first(&page.look())?.settings;
    let ticks = || if hz == now.hz { Ok(()) } else { change(page, Change::Hz(hz.into())) };
    if hz > now.hz {
        ticks()?;
    }
    for knob in Knob::ALL.into_iter().filter(|knob| knobs.get(*knob) != now.knobs.get(*knob)) {
        change(page, Change::Knob(knob, knobs.get(knob).into()))?;
    }
    if hz < now.hz { ticks() } else { Ok(()) }
}

/// What is counted of packets.
struct Look {
    lanes: Snapshot,
    /// Packets that left a gateway, by its lanes and its fast path; none where there is no gateway.
    forwarded: Option<u64>,
}

impl Look {
    fn at(page: &Page) -> Self {
        let forwarded = gateway::interfaces(&page.path).ok().map(|shown| shown.rows.iter().map(|row| row.packets_out).sum());
        Self { lanes: page.look(), forwarded }
    }

    /// What all lanes and the fast path carried and lost in a second, and the greatest shares. What a card drops before anybody sees it is not known; but packets that were held show
    /// that there were more.
    fn since(&self, before: &Self) -> Result<Seen> {
        let span = self.lanes.since(&before.lanes)?;
        let per_second = |count: u64| span.span_nanoseconds.map_or(0, |ns| (count as f64 * 1e9 / ns.max(1) as f64) as u64);
        let sum = |counters: &[PacketCounter]| counters.iter().map(|counter| span.packets_sum(*counter)).sum::<u64>();
        let (came, dropped) = (sum(&[PacketCounter::FramesIn]), sum(&[PacketCounter::FramesDropped]));
        let port = [PacketCounter::PortNoFrame, PacketCounter::PortRingFull];
        let lost = dropped + sum(&port) + sum(&[PacketCounter::NetworkHeld, PacketCounter::PollingLostPolls]);
        let forwarded = self.forwarded.zip(before.forwarded).map_or(0, |(now, before)| now.saturating_sub(before));
        let carried = carried(came, dropped, forwarded, sum(&[PacketCounter::PacketsForwarded]));
        let share = |of: Option<f64>| (of.unwrap_or_default() * 100.0) as u32;
        let lanes = ProcessFigures::of(&span).lanes;
        let network_share = lanes.iter().map(|lane| share(lane.network_share)).max().unwrap_or_default();
        Ok(Seen {
            goodput: per_second(carried),
            lost: per_second(lost),
            network_share,
            user_share: 100_u32.saturating_sub(network_share),
            burst: polling_of(&self.lanes).map(|lane| lane.variables.burst).max().unwrap_or_default(),
        })
    }
}

/// What lanes have taken in and not dropped, and what the fast path has forwarded: all that was forwarded but for what lanes did.
fn carried(came: u64, dropped: u64, forwarded: u64, by_lanes: u64) -> u64 {
    came.saturating_sub(dropped).saturating_add(forwarded.saturating_sub(by_lanes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_fast_path_forwards_is_carried_and_what_lanes_forward_counts_once() {
        assert_eq!(carried(100, 10, 0, 0), 90, "no gateway");
        assert_eq!(carried(100, 10, 90, 90), 90, "all by lanes");
        assert_eq!(carried(100, 10, 1090, 90), 1090, "most by programs");
        // Looks at both are not of one moment.
        assert_eq!(carried(10, 20, 80, 90), 0);
    }
}
