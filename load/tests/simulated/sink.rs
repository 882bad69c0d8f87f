//! A sink against the service that pushes, and against servers that send something else.

use crate::simulated::for_seeds;
use crate::simulated::plans::streams;
use crate::simulated::rig::{MS, Outcome, Rig, S, patient, target};
use crate::simulated::witness::Note;
use corelane::service::Notes;
use corelane::testing::{Faults, Nobody, Random};
use corelane::{Cx, Input, Next, Output, Peer, StreamService};
use corelane_load::plan::{Extent, Mode, Plan};
use corelane_load::workloads::Particulars;
use corelane_load::workloads::sink::Sample;
use corelane_push::Push;
use corelane_wire::pattern;
use std::time::Duration;

/// A sink of `connections` on two lanes, for 5 ms, which checks every byte.
fn plan(connections: u32) -> Plan {
    let plan = streams(target(false));
    let extent = Extent::For(Duration::from_millis(5));
    let particulars = Particulars::of(Sample(1));
    Plan { workload: "sink".into(), mode: Mode::Sink, size: 1_000, lanes: 2, connections, extent, particulars, ..plan }
}

fn sink<Svc: StreamService>(seed: u64, faults: Faults, plan: Plan, service: impl Fn() -> Svc) -> Outcome {
    let rig = Rig::new(seed, faults, plan);
    let at = rig.plan.target.clone();
    rig.serve(2, |roster| roster.serve(at.clone(), patient(), service())).generate(0).run(&mut Nobody)
}

/// What a server does in place of sending the stream.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// Sends one wrong byte, at this place.
    Wrong(usize),
    /// Leaves so many bytes out, behind this place.
    Skips(usize, usize),
    /// Says nothing more from this place on.
    SilentAfter(usize),
    ClosesAfter(usize),
    AbortsAfter(usize),
}

/// Sends 20,000 bytes a millisecond to each client in this manner.
struct Pushes(Manner);

impl StreamService for Pushes {
    type Talk = Notes<()>;
    type Session = usize;

    fn open(&mut self, cx: &mut Cx<'_, Notes<()>>, _peer: &Peer) -> usize {
        cx.notify(cx.id(), ());
        0
    }

    fn message(&mut self, cx: &mut Cx<'_, Notes<()>>, session: &mut usize, output: &mut Output, (): ()) -> Next {
        self.timer(cx, session, output, 0)
    }

    fn timer(&mut self, cx: &mut Cx<'_, Notes<()>>, session: &mut usize, output: &mut Output, _token: u64) -> Next {
        let (from, until) = (*session, *session + 20_000);
        let mut bytes = vec![0; until - from];
        pattern::fill(from as u64, &mut bytes);
        *session = until;
        match self.0 {
            Manner::Wrong(at) if (from..until).contains(&at) => bytes[at - from] ^= 1,
            Manner::Skips(at, length) if from >= at => pattern::fill((from + length) as u64, &mut bytes),
            Manner::SilentAfter(at) if from >= at => return Next::Continue,
            Manner::ClosesAfter(at) if from >= at => return Next::Close,
            Manner::AbortsAfter(at) if from >= at => return Next::Abort,
            _ => {}
        }
        output.write(&bytes).unwrap();
        cx.start_timer(Duration::from_millis(1), 0).unwrap();
        Next::Continue
    }

    fn receive(&mut self, _: &mut Cx<'_, Notes<()>>, _: &mut usize, input: &mut Input, _: &mut Output) -> Next {
        input.skip(input.len());
        Next::Continue
    }
}

/// Bytes and pieces that lanes were handed within the window.
fn seen(outcome: &Outcome) -> (u64, u64) {
    let desk = outcome.desk.borrow();
    let (from, until) = desk.window.unwrap();
    let got = desk.journal.iter().filter(|entry| (from..until).contains(&entry.at));
    got.fold((0, 0), |(all, pieces), entry| match entry.note {
        Note::Got { bytes, answers, .. } => (all + bytes, pieces + answers),
        _ => (all, pieces),
    })
}

/// The report says what the lanes saw, and that every byte was right.
fn verify(outcome: &Outcome) {
    let (report, connections) = (&outcome.report, u64::from(outcome.plan.connections));
    assert_eq!(report.errors.values().sum::<u64>(), 0, "{:?}", report.errors);
    assert!(report.believable, "{:?}", report.doubts);
    let flow = report.flow.as_ref().unwrap();
    let bits = report.bytes_received as f64 * 8.0;
    assert!(bits > 0.0 && (flow.gigabits_per_second - bits / report.seconds / 1e9).abs() < 1e-9, "{flow:?}");
    assert_eq!(report.counted["bytes_checked"], report.bytes_received);
    assert_eq!((report.bytes_received, report.requests), seen(outcome), "what the lanes saw");
    // Of each connection less than a piece is left over at each end of the window.
    let whole = report.bytes_received / 1_000;
    assert!(report.requests.abs_diff(whole) <= connections && report.requests == report.answered_in_window);
    assert_eq!(report.generator.lanes.iter().map(|lane| lane.connections).sum::<u64>(), connections);
    assert!(report.latency_us.is_empty() && report.bytes_sent == 0 && report.settings.mode == "sink");
}

#[test]
fn what_comes_is_counted_and_every_byte_of_it_is_checked() {
    for_seeds(20, |seed| {
        let faults = Faults { short_read: 100, short_write: 100, ..Faults::none() };
        let outcome = sink(seed, faults, plan(1 + seed as u32 % 7), || Pushes(Manner::Skips(usize::MAX, 0)));
        verify(&outcome);
        assert_eq!(outcome.report.seconds, 0.005);
    });
}

/// As fast as a small window lets it: so once, and for a short time.
#[test]
fn what_the_service_pushes_is_right() {
    let (extent, buffers) = (Extent::For(Duration::from_millis(1)), (0, 4 << 10));
    verify(&sink(1, Faults::none(), Plan { extent, buffers, ..plan(2) }, || Push::memory(5_000)));
}

#[test]
fn each_second_says_of_each_lane_what_came_and_who_is_there() {
    let (warm_up, extent) = (Duration::from_millis(500), Extent::For(Duration::from_millis(2_500)));
    let outcome = sink(5, Faults::none(), Plan { warm_up, extent, ..plan(5) }, || Pushes(Manner::Skips(usize::MAX, 0)));
    let series = &outcome.report.series;
    assert_eq!(
        series.iter().map(|second| (second.at_s, second.length_s)).collect::<Vec<_>>(),
        [(-0.5, 0.5), (0.0, 1.0), (1.0, 1.0), (2.0, 0.5)]
    );
    for (number, second) in series.iter().enumerate() {
        assert_eq!(second.flows.iter().map(|flow| flow.connections).collect::<Vec<_>>(), [3, 2]);
        let opened = if number == 0 { [3, 2] } else { [0, 0] };
        assert_eq!(
            second.flows.iter().map(|flow| (flow.opened, flow.closed)).collect::<Vec<_>>(),
            opened.map(|opened| (opened, 0))
        );
        assert!(second.flows.iter().all(|flow| flow.bytes_received > 0 && flow.bytes_sent == 0));
    }
    let measured = series[1..].iter().flat_map(|second| &second.flows).map(|flow| flow.bytes_received).sum::<u64>();
    assert_eq!(measured, outcome.report.bytes_received, "all of it lies in some second");
}

/// What the report says failed, and whether anything came.
fn met(manner: Manner, sample: u64) -> (Vec<(String, u64)>, u64) {
    let (extent, timeout) = (Extent::For(Duration::from_millis(1_500)), Duration::from_millis(300));
    let plan = Plan { particulars: Particulars::of(Sample(sample)), timeout, extent, ..plan(4) };
    let outcome = sink(3, Faults::none(), plan, || Pushes(manner));
    let errors = outcome.report.errors.into_iter().filter(|(_, count)| *count > 0).collect();
    (errors, outcome.report.bytes_received)
}

#[test]
fn what_is_wrong_is_told_as_what_it_is() {
    for (manner, sample, kind) in [
        (Manner::Wrong(60_000), 1, "mismatch"),
        (Manner::Wrong(60_007), 1_000, "mismatch"), // of the first connection every byte is checked
        (Manner::Skips(40_000, 1), 1, "mismatch"),
        (Manner::Skips(40_000, 65_536), 1_000_000, "mismatch"),
        (Manner::SilentAfter(40_000), 16, "client_timeout"),
        (Manner::ClosesAfter(40_000), 16, "closed"),
        (Manner::AbortsAfter(40_000), 16, "reset"),
    ] {
        let (errors, received) = met(manner, sample);
        assert!(errors.len() == 1 && errors[0].0 == kind && errors[0].1 >= 3, "{manner:?}: {errors:?}");
        assert!(received > 100_000, "{manner:?}: places are opened again");
    }
    assert_eq!(met(Manner::Wrong(60_000), 0).0, [], "nothing is checked where that is asked for");
    assert_eq!(met(Manner::Skips(usize::MAX, 0), 1).0, [], "nobody is blamed for nothing");
}

#[test]
fn who_sends_nothing_is_said_to() {
    let (extent, timeout) = (Extent::For(Duration::from_millis(1_500)), Duration::from_millis(300));
    let outcome = sink(1, Faults::none(), Plan { timeout, extent, ..plan(2) }, || Pushes(Manner::SilentAfter(0)));
    assert!(outcome.report.doubts.iter().any(|doubt| doubt.starts_with("nothing came")), "{:?}", outcome.report.doubts);
    assert!(outcome.report.errors["client_timeout"] > 0 && outcome.report.bytes_received == 0);
}

#[test]
fn connections_are_opened_at_the_pace_that_was_asked_for() {
    for_seeds(20, |seed| {
        let mut random = Random::new(seed);
        let (lanes, connections) = (random.one_to(3), 20 + random.below(300) as u32);
        let rate = (50 + random.below(2_000)) as f64;
        let plan = Plan {
            lanes,
            timeout: Duration::from_secs(20),
            opening_rate: Some(rate),
            extent: Extent::For(Duration::from_millis(20)),
            ..plan(connections)
        };
        let outcome = sink(seed, Faults::none(), plan, || Pushes(Manner::SilentAfter(1)));
        let desk = outcome.desk.borrow();
        let opened = |lane: usize| {
            let of_lane = desk.journal.iter().filter(move |entry| entry.lane == lane);
            of_lane.filter(|entry| matches!(entry.note, Note::Opened { .. })).map(|entry| entry.at).collect::<Vec<_>>()
        };
        for lane in 0..outcome.plan.lanes {
            let (times, own) = (opened(lane), rate / outcome.plan.lanes as f64);
            assert_eq!(times.len(), outcome.plan.connections_of(lane) as usize);
            for (number, at) in times.iter().enumerate() {
                let due = (number as f64 / own * 1e9) as u64;
                let late = (at - times[0]).abs_diff(due);
                assert!(late < 5 * MS, "connection {number} of lane {lane} at {rate}/s: {late} ns from its time");
            }
        }
        assert!(desk.window.unwrap().0 < 400 * S);
    });
}
