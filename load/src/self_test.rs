//! Shows coordinated omission (Gil Tene's word): what a client's way of counting makes of a server that stands still for a second.
//!
//! A client that waits for a server before it asks again asks less while the server is slow, and so leaves out what others would have
//! met. The same server is loaded in two runs, which are counted in four ways.

use crate::arrivals::Arrivals;
use crate::course::nanoseconds;
use crate::curve::quantiles;
use crate::error::Error;
use crate::interval::Interval;
use crate::plan::{Extent, Mode, Plan};
use crate::report::Quantiles;
use crate::run::{Beside, measure};
use crate::text::figures::{count, time};
use crate::text::layout::Page;
use crate::workloads::echo;
use crate::{Watched, report::Report};
use corelane::service::{Order, Shared, Ticket};
use corelane::{Cx, Input, Instant, Lanes, Next, Output, Peer, Silent, StreamService};
use hdrhistogram::Histogram;
use std::time::Duration;

/// The server stands still so long after its first request, in nanoseconds.
const STALL_AFTER: Duration = Duration::from_secs(1);

/// And for so long.
const STALL: Duration = Duration::from_secs(1);

/// Length of a run.
const RUN: Duration = Duration::from_secs(3);

/// Requests a second of the open loop: few, so that all that waited are sent soon after the stall, on any machine.
const RATE: f64 = 400.0;

/// Connections of the open loop, with one request in flight on each.
const CONNECTIONS: u32 = 4;

const QUANTILES: [f64; 4] = [50.0, 90.0, 99.0, 99.9];

/// What the runs came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// Each way of counting.
    pub ways: Vec<Way>,
    /// What 99 % must come to when the counting leaves nothing out, at the least, in microseconds.
    pub bound_us: f64,
    /// Whether the counting from the intended start came to it.
    pub saw_the_stall: bool,
}

/// One way of counting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Way {
    /// Its name, for a table.
    pub name: &'static str,
    /// What it came to.
    pub times_us: Quantiles,
    /// How many times it counted.
    pub count: u64,
    /// What it shows, in a sentence.
    pub shows: String,
}

/// Makes the runs, which takes twice three seconds.
///
/// # Errors
/// As [`run`](crate::run), and if the server cannot be started.
pub fn run() -> Result<Findings, Error> {
    let (_, closed) = load(Mode::Closed, 1)?;
    let (_, open) = load(Mode::Open { rate: RATE, arrivals: Arrivals::Fixed }, CONNECTIONS)?;
    Ok(outcome(&closed, &open))
}

/// One run against a server of its own on loopback.
fn load(mode: Mode, connections: u32) -> Result<(Report, Interval), Error> {
    let server = Lanes::per_core().lanes(1).serve("tcp://127.0.0.1:0", |_lane| Stalling::default())?.start()?;
    let url = server.places()[0].url.to_string();
    let mut plan = Plan::new(echo::ENTRY.name, &url, server.address());
    (plan.mode, plan.connections, plan.extent) = (mode, connections, Extent::For(RUN));
    measure(&echo::ENTRY, plan, Beside { watched: Watched::Nobody, hdr: None, show: &mut |_| true })
}

/// What 99 % comes to at the least, in microseconds, if nothing is left out.
///
/// Requests are due at equal distances, so those due in the stall wait for what is left of it: of all requests of the run, the share
/// x/run waits for the stall less x, or longer. One percent does so with x = run/100; and two requests less, because arrivals are whole.
fn bound_us() -> f64 {
    (STALL.as_secs_f64() - RUN.as_secs_f64() / 100.0 - 2.0 / RATE) * 1e6
}

fn outcome(closed: &Interval, open: &Interval) -> Findings {
    let ways = vec![
        way("closed loop", closed.latency.0.as_deref(), |times| {
            let all = count(times.len());
            format!(
                "the client waited with the server, so the stall is one slow request of {all}; those that others would have made in that second are left out"
            )
        }),
        way("open, from sending", open.service.0.as_deref(), |_| {
            format!(
                "requests had their times, but waited for one of {CONNECTIONS} connections, and that waiting is not counted: the stall is {CONNECTIONS} slow requests"
            )
        }),
        way("open, from intended", open.latency.0.as_deref(), |times| {
            let share = times.count_between(nanoseconds(STALL / 10), u64::MAX) as f64 / times.len() as f64;
            format!(
                "the same run, each request counted from when it was due: {:.0} % of them took a tenth of the stall or longer, which is what users meet",
                share * 100.0
            )
        }),
        corrected(closed.latency.0.as_deref()),
    ];
    let bound_us = bound_us();
    let saw_the_stall = ways[2].times_us.get("99").is_some_and(|&us| us >= bound_us);
    Findings { ways, bound_us, saw_the_stall }
}

fn way(name: &'static str, times: Option<&Histogram<u64>>, shows: impl FnOnce(&Histogram<u64>) -> String) -> Way {
    let Some(times) = times.filter(|times| !times.is_empty()) else {
        return Way { name, shows: "nothing was answered".to_owned(), ..Way::default() };
    };
    Way { name, times_us: quantiles(times, &QUANTILES), count: times.len(), shows: shows(times) }
}

/// The closed loop with what it left out put back as HdrHistogram does (`recordValueWithExpectedInterval`): for a time over the expected
/// distance of two requests, the times of those that should have followed meanwhile.
fn corrected(times: Option<&Histogram<u64>>) -> Way {
    let expected = times.map_or(0, |times| times.value_at_quantile(0.5)).max(1);
    let corrected = times.map(|times| times.clone_correct(expected));
    way("closed, corrected", corrected.as_ref(), |_| {
        let expected = time(expected as f64 / 1e3);
        format!(
            "HdrHistogram's correction puts back a request for each {expected} of a longer wait: near the truth, but made up, and only as good as that guess"
        )
    })
}

impl Findings {
    /// A table of the ways, a sentence for each, and the verdict.
    pub fn text(&self) -> String {
        let mut page = Page::default();
        page.prose("self-test", &format!(
            "a server on loopback stands still once for 1 s, in runs of {} s: one connection that asks as fast as it is answered (closed loop), and {RATE} requests/s at equal distances over {CONNECTIONS} connections (open)",
            RUN.as_secs(),
        ));
        page.gap();
        let keys = ["50", "90", "99", "99.9", "max"];
        let header = ["counted", "p50", "p90", "p99", "p99.9", "max"].map(str::to_owned).to_vec();
        let cell = |way: &Way, key: &str| way.times_us.get(key).map_or("-".to_owned(), |&us| time(us));
        let row = |way: &Way| [vec![way.name.to_owned()], keys.iter().map(|key| cell(way, key)).collect()].concat();
        page.table(&[vec![header], self.ways.iter().map(row).collect()].concat());
        for way in &self.ways {
            page.gap();
            page.prose("", &format!("{}: {}.", way.name, way.shows));
        }
        page.gap();
        let (got, bound) = (cell(&self.ways[2], "99"), time(self.bound_us));
        let verdict = match self.saw_the_stall {
            true => format!(
                "good: counted from the intended start, p99 is {got}; with a stall of this share it must be {bound} or more"
            ),
            false => format!(
                "FAILED: counted from the intended start, p99 is {got}; with a stall of this share it must be {bound} or more"
            ),
        };
        page.prose("verdict", &verdict);
        page.finish()
    }
}

/// Echo that stands still once. It holds its answers back and goes on turning: its lane is not blocked.
#[derive(Default)]
struct Stalling {
    /// When it stands still, and when it goes on, once the first request has come.
    stall: Option<(Instant, Instant)>,
    held: Vec<(Ticket, Shared)>,
}

impl StreamService for Stalling {
    type Talk = Silent;
    type Session = ();

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &Peer) {}

    fn receive(&mut self, cx: &mut Cx<'_>, _session: &mut (), input: &mut Input, output: &mut Output) -> Next {
        let now = cx.now();
        let (from, until) = *self.stall.get_or_insert((now + STALL_AFTER, now + STALL_AFTER + STALL));
        if !(from..until).contains(&now) {
            output.forward(input.take_all());
        } else if !input.is_empty() {
            // reason: a service may have one alarm, whatever its bound is.
            cx.start_alarm(until, 0).expect("one alarm is always to be had");
            self.hold(input, output);
        }
        Next::Continue
    }

    fn alarm(&mut self, cx: &mut Cx<'_>, _: u64) {
        self.held.drain(..).for_each(|(ticket, bytes)| cx.answer(ticket, bytes));
    }
}

impl Stalling {
    /// What finds no ticket or no memory stays in the input, and is offered again.
    fn hold(&mut self, input: &mut Input, output: &mut Output) {
        let Ok(ticket) = output.hold(Order::Kept) else { return };
        let bytes = input.take_shared(input.len());
        // A ticket that is dropped ends the connection, which the run would count.
        self.held.extend(bytes.map(|bytes| (ticket, bytes)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::interval::{Times, histogram};

    const STALL_NS: u64 = STALL.as_nanos() as u64;

    fn times(of: impl Iterator<Item = u64>) -> Times {
        let mut all = histogram();
        of.for_each(|ns| all.saturating_record(ns));
        Times(Some(Box::new(all)))
    }

    /// An ideal run: every request takes 50 us, and those due in the stall wait for its end.
    fn ideal() -> (Interval, Interval) {
        const SERVICE: u64 = 50_000;
        let closed = times((0..40_000).map(|_| SERVICE).chain([STALL_NS]));
        let due = (0..1_200).map(|number| number * 2_500_000);
        let wait = |at: u64| if (STALL_NS..2 * STALL_NS).contains(&at) { 2 * STALL_NS - at } else { SERVICE };
        let latency = times(due.map(wait));
        let service = times((0..1_196).map(|_| SERVICE).chain([STALL_NS; 4]));
        let open = Interval { latency, service, ..Interval::default() };
        (Interval { latency: closed, ..Interval::default() }, open)
    }

    #[test]
    fn an_ideal_run_meets_the_bound_narrowly_and_only_where_nothing_is_left_out() {
        let (closed, open) = ideal();
        let outcome = outcome(&closed, &open);
        let p99 = |way: usize| outcome.ways[way].times_us["99"];
        assert!(outcome.saw_the_stall, "{outcome:?}");
        assert!((p99(2) - outcome.bound_us) / outcome.bound_us < 0.02, "the bound is no closer than it can be: {outcome:?}");
        assert!(p99(0) < 100.0 && p99(1) < 100.0, "{outcome:?}");
        // Of 2 s at 50 us and the 20,000 requests that the stall of 1 s kept from being made.
        assert!((p99(3) - 970_000.0).abs() < 5_000.0, "{outcome:?}");
    }

    #[test]
    fn counting_that_leaves_something_out_fails() {
        let (closed, open) = ideal();
        let blind = outcome(&closed, &Interval { latency: open.service.clone(), ..open });
        assert!(!blind.saw_the_stall);
        assert!(blind.text().contains("FAILED"));
        let silent = outcome(&closed, &Interval::default());
        assert!(!silent.saw_the_stall);
        assert!(silent.text().contains("nothing was answered"));
    }

    #[test]
    fn the_text_fits_a_terminal() {
        let (closed, open) = ideal();
        let text = outcome(&closed, &open).text();
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        assert!(text.contains("\ncounted "), "{text}");
        assert!(text.lines().any(|line| line.starts_with("open, from intended ") && line.ends_with("1.00 s")), "{text}");
    }
}
