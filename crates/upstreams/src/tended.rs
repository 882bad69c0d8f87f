//! The upstreams of a service on one lane, and what is under way to tend them: the part that services over connections and over datagrams have alike.

use crate::entry::Behind;
use crate::operated::Asked;
use crate::probe::{Checks, Probe};
use crate::table::Upstreams;
use crate::targets::Targets;
use crate::tend::{Tending, found, tend};
use crate::tried::Upstream;
use corelane::admin::reports::Level;
use corelane::service::{Outcome, Talk};
use corelane::{Address, Cx, Instant};

/// Upstreams that are tended. The service hands on what it is called for: [`Tended::tend`], [`Tended::completed`], [`Tended::checked`] and [`Tended::drain`].
#[derive(Debug)]
pub struct Tended {
    /// Their table.
    pub upstreams: Upstreams,
    /// How they are tended. What is under way ends as it began.
    pub tending: Tending,
    key: fn(&Address) -> u64,
    checks: Checks,
    is_draining: bool,
}

impl Tended {
    /// Those behind a service, on this lane.
    pub fn new(behind: &Behind, lane: usize, tending: Tending) -> Self {
        let upstreams = Upstreams::new(&behind.targets, behind.settings.clone(), lane);
        Self { upstreams, tending, key: behind.key, checks: Checks::default(), is_draining: false }
    }

    /// The key of a client, for [`Upstreams::begin`].
    pub fn key(&self, client: &Address) -> u64 {
        (self.key)(client)
    }

    /// Whether the lane drains: nothing is tended any more.
    pub fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// Does what is due, and sets the alarm for what is due next: in [`started`](corelane::StreamService::started), and whenever something of it has ended. `session` makes the session of a connection
    /// that checks an upstream. The service owes [`Tended::checked`] for it, and calls for that what its [`Probe`] has: [`Probe::opened`], [`Probe::received`]. One that is closed before it knows has failed,
    /// unless this side lacks something. The service closes what has ended.
    pub fn tend<T: Talk, S: 'static>(&mut self, cx: &mut Cx<'_, T>, session: impl FnMut(Probe) -> S) {
        if !self.is_draining {
            self.upstreams.start(cx.now());
            // A use has two connections: its client's, and its own.
            self.upstreams.bound_uses(cx.connections_max() / 4);
            tend(cx, &mut self.upstreams, &mut self.checks, self.tending, session);
            self.alarm_next(cx);
        }
    }

    /// A helper thread has asked for a name or a source; [`Tended::tend`] is due behind it.
    pub fn completed<T: Talk>(&mut self, cx: &mut Cx<'_, T>, token: u64, outcome: Outcome) {
        let asking = (token - self.tending.completed) as usize;
        if let Some(why) = self.upstreams.resolved(asking, cx.now(), found(outcome)) {
            cx.report_kind("resolve", Level::Warn, format_args!("upstreams are not known anew: {why}"));
        }
    }

    /// The connection whose call this is has checked an upstream: well, or not, or without a word about it.
    pub fn checked<T: Talk>(&mut self, cx: &mut Cx<'_, T>, upstream: Upstream, is_well: Option<bool>) {
        self.checks.end(cx.id());
        let name = self.upstreams.shown_name(upstream).unwrap_or_default();
        match self.upstreams.checked(upstream, cx.now(), is_well) {
            Some(true) => cx.report(Level::Info, format_args!("upstream {name} is up: its checks succeed")),
            Some(false) => cx.report(Level::Warn, format_args!("upstream {name} is down: its checks fail")),
            None => {}
        }
        if !self.is_draining {
            self.alarm_next(cx);
        }
    }

    /// Has the service called when something is due.
    fn alarm_next<T: Talk>(&self, cx: &mut Cx<'_, T>) {
        let next = self.checks.next_due(&self.upstreams, cx.now());
        if next < Instant::NEVER {
            // At the bound of alarms, a resolution or a check that ends sets the next one. Where none is under way, the service is called anew only by what its clients do.
            let _ = cx.start_alarm(next, self.tending.alarm);
        }
    }

    /// From now on there are these targets, where that can be followed ([`Upstreams::retarget`]); [`Tended::tend`] is due behind it.
    pub fn retarget<T: Talk>(&mut self, cx: &Cx<'_, T>, targets: &Targets) -> bool {
        self.upstreams.retarget(targets, cx.now())
    }

    /// Answers an operator who asks for upstreams, or takes some out or in; none for other words.
    pub fn operate<T: Talk>(&mut self, cx: &Cx<'_, T>, words: &str) -> Option<String> {
        let mut asked = Asked::read(words, cx.now())?;
        asked.of(&mut self.upstreams);
        Some(asked.answer())
    }

    /// The lane drains. Checks are broken off: it waits for those that are not open yet.
    pub fn drain<T: Talk>(&mut self, cx: &mut Cx<'_, T>) {
        self.is_draining = true;
        cx.stop_alarm(self.tending.alarm);
        self.checks.end_all(cx);
    }
}
