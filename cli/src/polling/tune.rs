//! `corelane polling --tune`: the knobs of running lanes are found by trying.

use super::asked::{Page, change};
use anyhow::{Result, anyhow};
use corelane::admin::polling::tune::{self, Dimension, Limits, Seen, Settings as Found, Step, Tuner};
use corelane::admin::polling::{Change, Controller, Knob, Knobs, LanePolling, polling_of};
use corelane::admin::watch::{PacketCounter, Snapshot};
use std::thread::sleep;
use std::time::Duration;

/// How long the lanes are looked at with each setting.
const EACH: Duration = Duration::from_secs(1);
/// Looks at the most: a minute of them.
const LOOKS: u32 = 60;

/// Tries settings on all lanes, and says of each what came of it. The best stays; where this fails, what was set is set again. `user_share` is kept for others at least, in per cent.
pub fn run(page: &Page, user_share: Option<u32>, say: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
    let first = first(&page.look())?;
    let settings = first.settings;
    let mut tuner = Tuner::new(Limits { user_share, measurements: LOOKS }, dimensions(&first));
    let mut said = 0;
    let started = tune_on(page, &mut tuner, &mut said, say);
    if started.is_err() {
        // As far as the process still hears.
        let _gone = put(page, settings.hz, &settings.knobs);
    }
    started
}

fn tune_on(page: &Page, tuner: &mut Tuner, said: &mut usize, say: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
    loop {
        let before = page.look();
        sleep(EACH);
        let step = tuner.seen(seen(&page.look(), &before)?);
        for line in &tuner.lines()[*said..] {
            say(line)?;
        }
        *said = tuner.lines().len();
        match step {
            Step::Try { settings, .. } => set(page, &settings)?,
            Step::Done { best, why } => {
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

/// What all lanes carried and lost in a second, and the greatest shares. What a card drops before anybody sees it is not known; but packets that were held show that there were more.
fn seen(now: &Snapshot, before: &Snapshot) -> Result<Seen> {
    let span = now.since(before)?;
    let per_second = |count: u64| span.span_nanoseconds.map_or(0, |ns| (count as f64 * 1e9 / ns.max(1) as f64) as u64);
    let sum = |counters: &[PacketCounter]| counters.iter().map(|counter| span.packets_sum(*counter)).sum::<u64>();
    let (came, dropped) = (sum(&[PacketCounter::FramesIn]), sum(&[PacketCounter::FramesDropped]));
    let port = [PacketCounter::PortNoFrame, PacketCounter::PortRingFull];
    let lost = dropped + sum(&port) + sum(&[PacketCounter::NetworkHeld, PacketCounter::PollingLostPolls]);
    let share = |of: Option<f64>| (of.unwrap_or_default() * 100.0) as u32;
    let network_share = span.lanes.iter().map(|lane| share(span.network_share(lane))).max().unwrap_or_default();
    Ok(Seen {
        goodput: per_second(came.saturating_sub(dropped)),
        lost: per_second(lost),
        network_share,
        user_share: 100_u32.saturating_sub(network_share),
        burst: polling_of(now).map(|lane| lane.variables.burst).max().unwrap_or_default(),
    })
}
