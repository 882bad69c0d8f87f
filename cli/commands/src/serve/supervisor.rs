//! What `serve` tells the service manager that started it (sd_notify(3)): that it is ready, reloads, ends, and that all its lanes take turns.
//!
//! ```text
//! pages --every quarter of WATCHDOG_USEC--> all lanes asleep, or in a turn younger than a half of it? --WATCHDOG=1--> NOTIFY_SOCKET
//! SIGHUP --> RELOADING=1, MONOTONIC_USEC --what is read again--> READY=1            SIGTERM, a broken lane --> STOPPING=1
//! ```
//!
//! Where nobody has set NOTIFY_SOCKET nothing is told, and no thread is started.

use anyhow::{Context, Result};
use corelane::admin::messages::Degraded;
use corelane::admin::watch::{LaneCounter, LaneSnapshot, Reader};
use corelane::lanes::Running;
use sd_notify::{NotifyState, notify, watchdog_enabled};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

/// Looks at the lanes within the time after which the manager takes the program for dead.
const LOOKS: u32 = 4;

/// The shortest time that is asked for in earnest: a shorter one is looked after as if it were this.
const WATCHDOG_MIN: Duration = Duration::from_millis(20);

/// Tells the service manager of a program, until it is dropped.
pub struct Supervisor {
    /// Dropped, it ends the thread that looks after the lanes.
    _watchdog: Option<Sender<()>>,
}

impl Supervisor {
    /// From now on says that the program lives, where that is asked for, reloads and ends. `reload` is called at each SIGHUP.
    ///
    /// # Errors
    /// What the system says of the thread, or of the page.
    pub fn start(running: &mut Running, reload: impl Fn() + Send + 'static) -> Result<Self> {
        running.at_hangup(move || {
            tell(&[NotifyState::Reloading, now()]);
            reload();
            tell(&[NotifyState::Ready]);
        });
        running.at_end(|| tell(&[NotifyState::Stopping, NotifyState::Status("draining")]));
        let watchdog = watchdog_enabled().map(|limit| watch(Reader::of(running.counters())?, limit)).transpose()?;
        Ok(Self { _watchdog: watchdog })
    }
}

/// Says that the program is ready, and what it serves with ([`status`]).
pub fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// What it serves with.
pub fn status(running: &Running) -> String {
    let (lanes, steering) = (running.cpus().len(), running.steered().in_force());
    format!("serving: lanes {lanes}, driver {}, steering {steering}", running.driver())
}

/// When a reload began, as the manager has to know to tell it from one before.
fn now() -> NotifyState<'static> {
    NotifyState::MonotonicUsec((corelane::now().nanoseconds() / 1000).into())
}

/// A manager that does not listen is told of on standard error: it will take the program for one that never became ready.
fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = notify(states) {
        Degraded::ManagerNotTold.say(format_args!("the service manager was not told (NOTIFY_SOCKET): {error}"));
    }
}

/// Starts the thread that says that the lanes live.
fn watch(lanes: Reader, limit: Duration) -> Result<Sender<()>> {
    let (end, ended) = channel();
    let limit = limit.max(WATCHDOG_MIN);
    let thread = Builder::new().name("watchdog".to_owned()).spawn(move || keep_alive(&lanes, limit, &ended));
    thread.map(|_| end).context("starting the thread that looks after the lanes")
}

fn keep_alive(lanes: &Reader, limit: Duration, ended: &Receiver<()>) {
    loop {
        let now = corelane::now().nanoseconds();
        let oldest = now.saturating_sub((limit / 2).as_nanos() as u64);
        if lanes.snapshot(now).lanes.iter().all(|lane| takes_turns(lane, oldest)) {
            tell(&[NotifyState::Watchdog]);
        }
        if ended.recv_timeout(limit / LOOKS) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

/// Whether a lane sleeps, has ended, or is in a turn that began at `oldest` or later.
fn takes_turns(lane: &LaneSnapshot, oldest: u64) -> bool {
    !lane.is_awake() || lane.values.get(LaneCounter::LastTurnNanoseconds) >= oldest
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane::admin::watch::{Description, LaneName, LaneState, Page};

    #[test]
    fn a_lane_lives_while_it_sleeps_or_is_in_a_turn_that_is_young_enough() {
        let page = Page::heap(&Description { lanes: vec![LaneName::default()], ..Description::default() }).unwrap();
        let (reader, row) = (Reader::of(&page).unwrap(), page.lane(0).unwrap());
        row.set(LaneCounter::LastTurnNanoseconds, 1_000);
        let lives = |state: LaneState, oldest| {
            row.set(LaneCounter::LaneState, state as u64);
            takes_turns(&reader.snapshot(9_000).lanes[0], oldest)
        };
        for state in [LaneState::Running, LaneState::Spinning, LaneState::Draining] {
            assert_eq!((lives(state, 1_000), lives(state, 1_001)), (true, false), "{state:?}");
        }
        for state in [LaneState::Starting, LaneState::Sleeping, LaneState::Ended] {
            assert!(lives(state, 9_000), "{state:?}");
        }
    }
}
