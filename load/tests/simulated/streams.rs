//! Over connections against the echo service: what the report says is what happened.

use crate::simulated::account::verify;
use crate::simulated::figures::requests_each;
use crate::simulated::for_seeds;
use crate::simulated::plans::{drawn, followed, is_steady, steady, streams};
use crate::simulated::rig::{Outcome, Rig, patient, place};
use corelane::service::{Cx, Ending, Input, Next, Output, Peer, Silent, StreamService};
use corelane::testing::{Faults, Nobody};
use corelane_echo::Echo;
use corelane_load::arrivals::Arrivals;
use corelane_load::plan::{Extent, Mode, Plan};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// What the server has seen: bytes that came, and connections.
#[derive(Default)]
pub struct Served {
    pub bytes: Cell<u64>,
    pub connections: Cell<u64>,
}

/// The echo service, and somebody who counts beside it.
struct Counted {
    echo: Echo,
    served: Rc<Served>,
}

impl StreamService for Counted {
    type Talk = Silent;
    type Session = ();

    fn open(&mut self, cx: &mut Cx<'_>, peer: &Peer) {
        self.served.connections.set(self.served.connections.get() + 1);
        self.echo.open(cx, peer);
    }

    fn receive(&mut self, cx: &mut Cx<'_>, session: &mut (), input: &mut Input, output: &mut Output) -> Next {
        self.served.bytes.set(self.served.bytes.get() + input.len() as u64);
        self.echo.receive(cx, session, input, output)
    }

    fn closed(&mut self, cx: &mut Cx<'_>, session: (), ending: Ending) {
        self.echo.closed(cx, session, ending);
    }
}

/// A rig whose target is the echo service on so many lanes.
pub fn served(seed: u64, faults: Faults, plan: Plan, lanes: usize) -> (Rig, Rc<Served>) {
    let served: Rc<Served> = Rc::default();
    let at = plan.target.clone();
    let rig = Rig::new(seed, faults, plan).serve(lanes, |roster| {
        let counted = Counted { echo: Echo, served: served.clone() };
        roster.serve(at.clone(), patient(), counted);
    });
    (rig, served)
}

/// Any plan against the echo service. Connections that the network resets before the first is open end a run at once: it has no window.
pub fn run(seed: u64, faults: Faults, change: impl Fn(Plan) -> Plan) -> (Outcome, Rc<Served>) {
    let plan = change(drawn(seed, streams(place(seed, false))));
    let (rig, served) = served(seed, faults, plan, 1 + seed as usize % 3);
    (rig.generate(0).run(&mut Nobody), served)
}

/// How many arrivals there are, where they are recorded.
fn recorded(plan: &Plan) -> u64 {
    match &plan.mode {
        Mode::Open { arrivals: Arrivals::Recorded(times), .. }
        | Mode::Connections { arrivals: Arrivals::Recorded(times), .. } => times.len() as u64,
        _ => u64::MAX,
    }
}

#[test]
fn counts_and_times_are_exact_without_faults() {
    for_seeds(250, |seed| {
        let (outcome, served) = run(seed, Faults::none(), |plan| plan);
        let figures = verify(&outcome, true);
        let (plan, report) = (&outcome.plan, &outcome.report);
        assert_eq!(figures.errors.values().sum::<u64>(), 0, "nothing fails: {:?}", report.errors);
        assert_eq!(report.not_sent.unwrap_or(0), figures.not_sent * requests_each(plan));
        if let (Extent::Requests(asked), true) = (plan.extent, plan.warm_up.is_zero()) {
            let (each, asked) = (requests_each(plan), asked.min(recorded(plan)));
            assert_eq!((report.requests, report.not_sent.unwrap_or(0)), (asked * each, 0));
            // All that was sent counts, so the server has seen as much.
            assert_eq!(served.bytes.get(), report.bytes_sent, "bytes at the server");
            assert_eq!(report.bytes_received, report.bytes_sent);
            let connections = if each > 0 && report.connection_us.is_some() { asked } else { u64::from(plan.connections) };
            assert_eq!(served.connections.get(), connections, "connections at the server");
        }
    });
}

#[test]
fn counts_and_times_are_exact_under_every_fault() {
    for_seeds(500, |seed| {
        let faults = if seed % 2 == 0 { followed(seed) } else { steady(seed) };
        // Without resets it is clear which connection was the last one of a number.
        let faults_of = |plan: &Plan| match (&plan.mode, plan.extent) {
            (Mode::Connections { .. }, Extent::Requests(_)) => Faults { reset: 0, ..faults },
            _ => faults,
        };
        let faults = faults_of(&drawn(seed, streams(place(seed, false))));
        let (outcome, _) = run(seed, faults, |plan| plan);
        if outcome.desk.borrow().collector.unreachable().is_none() {
            verify(&outcome, is_steady(faults));
        }
    });
}

/// A reset ends a connection and what is in flight on it, and no more: its place is opened again, and the run makes what it was to make.
#[test]
fn places_are_opened_again_after_a_loss_and_the_number_is_made_exactly() {
    for_seeds(200, |seed| {
        let faults = Faults { reset: 5, short_read: 50, ..Faults::none() };
        let (outcome, served) = run(seed, faults, |plan| {
            let mode = if matches!(plan.mode, Mode::Connections { .. }) { Mode::Closed } else { plan.mode };
            Plan { mode, extent: Extent::Requests(300), warm_up: Duration::ZERO, ..plan }
        });
        if outcome.desk.borrow().collector.unreachable().is_some() {
            return;
        }
        let figures = verify(&outcome, true);
        let report = &outcome.report;
        assert_eq!(report.requests + figures.failed, recorded(&outcome.plan).min(300), "answered and failed");
        let lost = report.errors["reset"] + report.errors["closed"];
        assert!(served.connections.get() >= u64::from(outcome.plan.connections), "{lost} lost");
    });
}
