//! A store beside a model that keeps every interval and makes each step from all of them.

use crate::disk::{Pages, vlan};
use corelane_graphs::{HOLE_MILLISECONDS, Name, Reading, Span, Store, view};
use corelane_seam::Random;
use std::collections::BTreeMap;

/// What is known of a stretch of time: its seconds, and of each series the average and the most.
#[derive(Clone, Debug, Default)]
struct Known {
    seconds: f64,
    values: BTreeMap<Name, (f64, f64)>,
}

fn together(parts: &[&Known]) -> Known {
    let mut names: Vec<&Name> = parts.iter().flat_map(|part| part.values.keys()).collect();
    names.dedup();
    let value = |name: &Name| {
        let own: Vec<_> = parts.iter().filter_map(|part| Some((part.seconds, part.values.get(name)?))).collect();
        let seconds: f64 = own.iter().map(|(seconds, _)| seconds).sum();
        let weighed: f64 = own.iter().map(|(seconds, (average, _))| seconds * average).sum();
        (name.clone(), (weighed / seconds, own.iter().map(|(_, (_, most))| *most).fold(0.0, f64::max)))
    };
    Known { seconds: parts.iter().map(|part| part.seconds).sum(), values: names.into_iter().map(value).collect() }
}

/// By the first second of the step in which it ended.
type Steps = BTreeMap<u64, Vec<Known>>;

fn coarser(steps: &Steps, span: Span) -> Steps {
    let mut coarse = Steps::new();
    for (at, parts) in steps {
        coarse.entry(at - at % span.step()).or_default().push(together(&parts.iter().collect::<Vec<_>>()));
    }
    coarse
}

#[derive(Default)]
struct Model {
    last: Option<(u64, BTreeMap<Name, Reading>)>,
    steps: Steps,
}

impl Model {
    fn record(&mut self, at: u64, readings: &[(Name, Reading)]) {
        let now: BTreeMap<Name, Reading> = readings.iter().cloned().collect();
        let before = self.last.replace((at, now.clone()));
        let Some((then, before)) = before.filter(|(then, _)| *then < at && at - then <= HOLE_MILLISECONDS) else { return };
        let seconds = (at - then) as f64 / 1000.0;
        let value = |(name, reading): (Name, Reading)| match (before.get(&name), reading) {
            (_, Reading::Gauge(value)) => Some((name, (value, value))),
            (Some(Reading::Counter(before)), Reading::Counter(now)) if now >= *before => {
                let rate = (now - before) as f64 / seconds;
                Some((name, (rate, rate)))
            }
            _ => None,
        };
        let known = Known { seconds, values: now.into_iter().filter_map(value).collect() };
        let second = (at - 1) / 1000;
        self.steps.entry(second - second % 300).or_default().push(known);
    }

    /// The store is opened anew: of the step that goes on, it knows what its row says.
    fn open(&mut self) {
        self.last = None;
        if let Some(mut step) = self.steps.last_entry() {
            let whole = together(&step.get().iter().collect::<Vec<_>>());
            *step.get_mut() = vec![whole];
        }
    }

    fn check(&self, disk: &Pages, now: u64, words: &str) -> usize {
        let weeks = coarser(&self.ended(), Span::Week);
        let years = coarser(&coarser(&self.ended(), Span::Week), Span::Year);
        let mut cells = 0;
        for (span, steps) in Span::ALL.into_iter().zip([&self.steps, &weeks, &years]) {
            let view = view(disk, span, now).unwrap();
            let mut found = BTreeMap::new();
            for curve in &view.curves {
                for (index, (average, most)) in
                    curve.average.iter().zip(&curve.most).enumerate().filter(|(_, (a, _))| !a.is_nan())
                {
                    found.insert((view.from + index as u64 * span.step(), curve.name.clone()), (*average, *most));
                }
            }
            let in_span = steps.range(view.from..=now).map(|(at, parts)| (at, together(&parts.iter().collect::<Vec<_>>())));
            for (at, known) in in_span {
                for (name, (average, most)) in known.values {
                    let cell = found.remove(&(*at, name.clone()));
                    let (a, m) = cell.unwrap_or_else(|| panic!("{words}: {span:?} {at} {name:?} is missing"));
                    let near = |found: f32, wanted: f64| (f64::from(found) - wanted).abs() <= wanted.abs() * 1e-4 + 1e-6;
                    assert!(near(a, average) && near(m, most), "{words}: {span:?} {at} {name:?}: {a} {m}, not {average} {most}");
                    cells += 1;
                }
            }
            assert!(found.is_empty(), "{words}: {span:?} knows of what never was: {found:?}");
        }
        cells
    }

    /// The steps that go into coarser ones: all but the one that goes on.
    fn ended(&self) -> Steps {
        let mut ended = self.steps.clone();
        ended.pop_last();
        ended
    }
}

fn play(seed: u64) -> usize {
    let mut random = Random::new(seed);
    let (mut store, mut model) = (Store::open(Pages::default()).unwrap(), Model::default());
    let mut at = 1_700_000_000_000 + random.below(86_400_000);
    let mut counts = [0_u64; 6];
    for _ in 0..150 {
        at += match random.below(40) {
            0 => HOLE_MILLISECONDS + random.below(2),
            1 => 1 + random.below(3_600_000),
            2 => random.below(86_400_000),
            3 => 1 + random.below(20 * 86_400_000),
            4..20 => 60_000 + random.below(60_000),
            _ => 10_000,
        };
        let mut readings = Vec::new();
        for (number, count) in counts.iter_mut().enumerate().take(5) {
            *count = if random.below(30) == 0 { 0 } else { *count + random.below(1_000_000) };
            if random.below(10) > 0 {
                readings.push((vlan(number as u64), Reading::Counter(*count)));
            }
        }
        readings.push((vlan(9), Reading::Gauge(random.below(100) as f64)));
        store.record(at, &readings).unwrap();
        model.record(at, &readings);
        if random.below(25) == 0 {
            store = Store::open(store.disk().clone()).unwrap();
            // Whatever it finds of the last step goes into the coarser ones.
            model.open();
        }
    }
    // One step more, so that all before it has ended.
    for more in [0, 10_000] {
        at += if more == 0 { 600_000 } else { more };
        store.record(at, &[(vlan(9), Reading::Gauge(1.0))]).unwrap();
        model.record(at, &[(vlan(9), Reading::Gauge(1.0))]);
    }
    model.check(store.disk(), at / 1000, &format!("seed {seed}"))
}

#[test]
fn each_step_of_each_span_is_what_all_intervals_say() {
    let cells: usize = (0..60).map(play).sum();
    assert!(cells > 5000, "{cells} cells are compared");
}
