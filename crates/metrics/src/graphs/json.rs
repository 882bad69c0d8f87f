//! A view, as the page reads it.
//!
//! ```text
//! { "span": "day", "step": 300, "from": 1700000000, "rows": 288, "made": 1700086400,
//!   "whole": [SERIES], "interfaces": [{ "name": "vlan10", "series": [SERIES] }],
//!   "rules": [{ "number": 100, "text": "count ip from any to any // all", "series": [SERIES] }],
//!   "notes": [{ "at": 1700000000, "text": "rule 100 added" }] }
//! SERIES: { "what": "bytes in", "s": 280, "a": [1.5, null, 2], "m": [3, null, 3] }
//! ```
//!
//! `a` has the averages from step `s` on, and `m` the most of any interval, where it differs. Steps before and behind are unknown, as those that are null.

use corelane_graphs::{Curve, Subject, View};
use serde::{Serialize, Serializer};

/// Digits that are told of a value: more than a picture shows.
const DIGITS: i32 = 4;

#[derive(Serialize)]
struct Picture<'a> {
    span: &'a str,
    step: u64,
    from: u64,
    rows: usize,
    made: u64,
    whole: Vec<Series<'a>>,
    interfaces: Vec<Interface<'a>>,
    rules: Vec<Rule<'a>>,
    notes: Vec<Note<'a>>,
}

#[derive(Serialize)]
struct Interface<'a> {
    name: &'a str,
    series: Vec<Series<'a>>,
}

#[derive(Serialize)]
struct Rule<'a> {
    number: u16,
    text: &'a str,
    series: Vec<Series<'a>>,
}

#[derive(Serialize)]
struct Note<'a> {
    at: u64,
    text: &'a str,
}

#[derive(Serialize)]
struct Series<'a> {
    what: &'a str,
    s: usize,
    a: Vec<Digits>,
    #[serde(skip_serializing_if = "Option::is_none")]
    m: Option<Vec<Digits>>,
}

/// A value of a few digits; none if it is unknown.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Digits(Option<f64>);

impl Digits {
    fn of(value: f32) -> Self {
        let value = f64::from(value);
        if !value.is_finite() {
            return Self(None);
        }
        let scale = 10_f64.powi(DIGITS - 1 - (value.abs().max(1e-6).log10().floor() as i32));
        Self(Some((value * scale).round() / scale))
    }
}

impl Serialize for Digits {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            None => to.serialize_none(),
            // Shorter, and exact up to 2^53.
            Some(value) if value.fract() == 0.0 && value < 9e15 => to.serialize_u64(value as u64),
            Some(value) => to.serialize_f64(value),
        }
    }
}

/// This view at this second since 1970.
pub(super) fn write(view: &View, made: u64) -> Vec<u8> {
    let mut told = Picture {
        span: view.span.name(),
        step: view.span.step(),
        from: view.from,
        rows: view.rows,
        made,
        whole: Vec::new(),
        interfaces: Vec::new(),
        rules: Vec::new(),
        notes: view.notes.iter().map(|note| Note { at: note.at, text: &note.text }).collect(),
    };
    // They come in the order of their names: those of one subject stand together.
    for curve in &view.curves {
        let series = series(curve);
        match curve.name.subject() {
            Subject::Whole => told.whole.push(series),
            Subject::Interface(name) => match told.interfaces.last_mut().filter(|last| last.name == name) {
                Some(last) => last.series.push(series),
                None => told.interfaces.push(Interface { name, series: vec![series] }),
            },
            Subject::Rule { number, text } => {
                match told.rules.last_mut().filter(|last| last.number == *number && last.text == text) {
                    Some(last) => last.series.push(series),
                    None => told.rules.push(Rule { number: *number, text, series: vec![series] }),
                }
            }
        }
    }
    // Interfaces as people count: vlan9 comes before vlan10.
    told.interfaces.sort_by(|one, other| natural(one.name).cmp(&natural(other.name)));
    // reason: all keys are strings, and writing to memory does not fail.
    serde_json::to_vec(&told).expect("a view can be written")
}

fn series(curve: &Curve) -> Series<'_> {
    let first = curve.average.iter().position(|value| !value.is_nan()).unwrap_or(0);
    let end = curve.average.iter().rposition(|value| !value.is_nan()).map_or(first, |last| last + 1);
    let digits = |values: &[f32]| values[first..end].iter().map(|value| Digits::of(*value)).collect::<Vec<_>>();
    let (a, m) = (digits(&curve.average), digits(&curve.most));
    Series { what: curve.name.what(), s: first, m: (m != a).then_some(m), a }
}

/// A name with its first number apart.
fn natural(name: &str) -> (&str, u64, &str) {
    let from = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
    let digits = name[from..].find(|c: char| !c.is_ascii_digit()).unwrap_or(name.len() - from);
    (&name[..from], name[from..from + digits].parse().unwrap_or(u64::MAX), &name[from + digits..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_graphs::{Kind, Name, Span};

    #[test]
    fn a_view_is_told_in_few_digits_and_what_is_unknown_at_the_ends_is_left_out() {
        let curve = |subject, what: &str, average: &[f32], most: &[f32]| Curve {
            name: Name::new(subject, what),
            kind: Kind::Counter,
            average: average.to_vec(),
            most: most.to_vec(),
        };
        let (nan, vlan) = (f32::NAN, |name: &str| Subject::Interface(name.into()));
        let view = View {
            span: Span::Day,
            from: 300,
            rows: 4,
            curves: vec![
                curve(Subject::Whole, "burst", &[nan, 1.0, nan, 123_456.7], &[nan, 1.0, nan, 123_456.7]),
                curve(vlan("vlan10"), "bytes in", &[nan, nan, 0.001_234_56, nan], &[nan, nan, 2.0, nan]),
                curve(vlan("vlan9"), "bytes in", &[0.0, 0.0, 0.0, 0.0], &[0.0; 4]),
                curve(vlan("vlan9"), "drops", &[3e20, 0.0, 0.0, 0.0], &[3e20, 0.0, 0.0, 0.0]),
            ],
            notes: Vec::new(),
        };
        let told = String::from_utf8(write(&view, 1500)).unwrap();
        assert!(told.contains(r#"{"what":"burst","s":1,"a":[1,null,123500]}"#), "{told}");
        assert!(told.contains(r#"{"what":"bytes in","s":2,"a":[0.001235],"m":[2]}"#), "{told}");
        assert!(
            told.contains(r#""interfaces":[{"name":"vlan9","series":[{"what":"bytes in","s":0,"a":[0,0,0,0]},{"what":"drops""#)
        );
        assert!(told.contains("3e+20") && told.contains(r#""made":1500"#), "{told}");
    }

    #[test]
    fn names_are_ordered_as_people_count() {
        let mut names = ["vlan10", "vlan9", "eth1", "vlan10.5", "vlan", "eth99999999999999999999999"];
        names.sort_by(|one, other| natural(one).cmp(&natural(other)));
        assert_eq!(names, ["eth1", "eth99999999999999999999999", "vlan9", "vlan10", "vlan10.5", "vlan"]);
    }
}
