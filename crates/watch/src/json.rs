//! A snapshot as JSON (RFC 8259) for programs. All numbers but the derived figures are whole and below 2^64.

use crate::catalogue::{Counter, LaneState};
use crate::snapshot::{LaneSnapshot, Snapshot, Values};
use std::fmt::{Display, Write};

/// The snapshot as one JSON object. Every counter is there, zero or not, under its name; a derived figure
/// that would be a division by zero is null.
pub fn json(snapshot: &Snapshot) -> String {
    let mut writer = Writer { out: String::new(), first: true };
    writer.object(|w| {
        w.field("process", |w| w.object(|w| process(w, snapshot)));
        w.field("at_nanoseconds", |w| w.plain(snapshot.at_nanoseconds));
        w.field("span_nanoseconds", |w| w.plain_or_null(snapshot.span_nanoseconds));
        w.field("notes", |w| w.array(&snapshot.notes, |w, note| w.string(note)));
        w.field("notes_refused", |w| w.plain(snapshot.notes_refused));
        w.field("total", |w| w.object(|w| values(w, &snapshot.total)));
        w.field("services", |w| {
            w.array(&snapshot.services, |w, service| {
                w.object(|w| {
                    w.field("name", |w| w.string(&service.name.name));
                    w.field("url", |w| w.string(&service.name.url));
                    values(w, &service.values);
                });
            });
        });
        w.field("lanes", |w| w.array(&snapshot.lanes, |w, row| w.object(|w| lane(w, snapshot, row))));
    });
    writer.out
}

fn process(w: &mut Writer, snapshot: &Snapshot) {
    w.field("pid", |w| w.plain(snapshot.process.pid));
    w.field("start_ticks", |w| w.plain(snapshot.process.start_ticks));
    w.field("pid_namespace", |w| w.plain(snapshot.process.pid_namespace));
    w.field("liveness", |w| w.string(snapshot.liveness.name()));
    w.field("program", |w| w.string(&snapshot.program));
    w.field("started_unix_nanoseconds", |w| w.plain(snapshot.started_unix_nanoseconds));
}

fn lane(w: &mut Writer, snapshot: &Snapshot, lane: &LaneSnapshot) {
    w.field("cpu", |w| w.plain_or_null(lane.name.cpu));
    w.field("driver", |w| w.string(&lane.name.driver));
    w.field("steering", |w| w.string(&lane.name.steering));
    w.field("state", |w| w.string(lane.state().map_or("unknown", LaneState::name)));
    values(w, &lane.values);
    let services: Vec<_> = snapshot.services.iter().zip(&lane.services).collect();
    w.field("services", |w| {
        w.array(&services, |w, (service, row)| {
            w.object(|w| {
                w.field("name", |w| w.string(&service.name.name));
                values(w, row);
            });
        });
    });
}

fn values<C: Counter>(w: &mut Writer, values: &Values<C>) {
    w.field("counters", |w| {
        w.object(|w| values.all().for_each(|one| w.field(one.name, |w| w.plain(one.value))));
    });
    w.field("ratios", |w| {
        w.object(|w| C::RATIOS.iter().for_each(|ratio| w.field(ratio.name, |w| w.plain_or_null(values.ratio(ratio)))));
    });
}

struct Writer {
    out: String,
    /// Nothing stands yet in the object or array that is open.
    first: bool,
}

impl Writer {
    fn object(&mut self, content: impl FnOnce(&mut Self)) {
        self.nested('{', '}', content);
    }

    fn array<T>(&mut self, items: &[T], mut item: impl FnMut(&mut Self, &T)) {
        self.nested('[', ']', |w| {
            for each in items {
                w.comma();
                item(w, each);
            }
        });
    }

    fn field(&mut self, name: &str, value: impl FnOnce(&mut Self)) {
        self.comma();
        self.string(name);
        self.out.push(':');
        value(self);
    }

    fn nested(&mut self, open: char, close: char, content: impl FnOnce(&mut Self)) {
        self.out.push(open);
        self.first = true;
        content(self);
        self.out.push(close);
        self.first = false;
    }

    fn comma(&mut self) {
        if !self.first {
            self.out.push(',');
        }
        self.first = false;
    }

    /// A whole number, or a finite one that is not: both are written as JSON has them.
    fn plain(&mut self, number: impl Display) {
        let _ = write!(self.out, "{number}");
    }

    fn plain_or_null(&mut self, number: Option<impl Display>) {
        match number {
            Some(number) => self.plain(number),
            None => self.out.push_str("null"),
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' | '\\' => self.out.extend(['\\', c]),
                '\0'..='\x1f' => {
                    let _ = write!(self.out, "\\u{:04x}", u32::from(c));
                }
                _ => self.out.push(c),
            }
        }
        self.out.push('"');
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::catalogue::{LaneCounter, ServiceCounter};
    use crate::page::{Description, LaneName, Page, ServiceName};
    use crate::reader::Reader;
    use proptest::prelude::*;
    use serde_json::Value;

    fn page(name: &str, note: &str) -> Page {
        let lane = |cpu| LaneName { cpu, driver: "sim".into(), steering: "table".into() };
        let service = |name: &str| ServiceName { name: name.into(), url: "udp://[::]:7".into(), counters: Vec::new() };
        let mut page = Page::heap(&Description {
            program: "example 1.0".into(),
            services: vec![service("echo"), service(name)],
            lanes: vec![lane(Some(3)), lane(None)],
            ..Description::default()
        })
        .unwrap();
        page.note(note);
        page
    }

    #[test]
    fn every_value_is_found_under_its_name() {
        let page = page("cache", "none");
        for lane in 0..2 {
            for &counter in LaneCounter::ALL {
                page.lane(lane).unwrap().set(counter, u64::MAX - (lane * 1000 + counter.index()) as u64);
            }
            for service in 0..2 {
                for &counter in ServiceCounter::ALL {
                    page.service(lane, service).unwrap().set(counter, (lane * 1000 + service * 100 + counter.index()) as u64);
                }
            }
        }
        let snapshot = Reader::of(&page).unwrap().snapshot(5);
        let value: Value = serde_json::from_str(&json(&snapshot)).unwrap();
        assert_eq!(value["at_nanoseconds"], 5);
        assert_eq!(value["span_nanoseconds"], Value::Null);
        assert_eq!(value["lanes"][0]["cpu"], 3);
        assert_eq!(value["lanes"][1]["cpu"], Value::Null);
        assert_eq!(value["lanes"].as_array().unwrap().len(), 2);
        for (index, lane) in snapshot.lanes.iter().enumerate() {
            let found = &value["lanes"][index];
            check(found, &lane.values);
            check(&found["services"][0], &lane.services[0]);
            check(&found["services"][1], &lane.services[1]);
        }
        check(&value["total"], &snapshot.total);
        check(&value["services"][1], &snapshot.services[1].values);
    }

    fn check<C: Counter>(found: &Value, values: &Values<C>) {
        assert_eq!(found["counters"].as_object().unwrap().len(), C::ALL.len());
        for (counter, value) in values.iter() {
            assert_eq!(found["counters"][counter.declaration().name], value);
        }
        for ratio in C::RATIOS {
            // The parser rounds its last digit otherwise.
            let close = |a: f64, b: f64| (a - b).abs() <= a.abs() * 1e-12;
            match (found["ratios"][ratio.name].as_f64(), values.ratio(ratio)) {
                (Some(found), Some(value)) => assert!(close(found, value), "{}", ratio.name),
                (found, value) => assert_eq!(found, value, "{}", ratio.name),
            }
        }
    }

    #[test]
    fn strings_of_any_character_survive() {
        for text in ["\"", "\\", "\u{0}\u{1f}\u{7f}", "a\"b\\c\n", "ä€😀", ""] {
            let mut writer = Writer { out: String::new(), first: true };
            writer.string(text);
            assert_eq!(serde_json::from_str::<String>(&writer.out).unwrap(), text);
        }
    }

    proptest! {
        #[test]
        fn any_name_and_note_make_valid_json(name in "\\PC{0,30}", note in "\\PC{1,300}") {
            let snapshot = Reader::of(&page(&name, &note)).unwrap().snapshot(0);
            let value: Value = serde_json::from_str(&json(&snapshot)).unwrap();
            prop_assert_eq!(&value["services"][1]["name"], snapshot.services[1].name.name.as_str());
            prop_assert_eq!(&value["notes"][0], snapshot.notes[0].as_str());
        }
    }
}
