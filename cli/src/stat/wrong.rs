//! What is wrong with a process, as far as its page tells: what it has to do without, stalled lanes, and what was refused, lost or limited.

use super::figures::{amount, time};
use corelane::admin::watch::{Counter, Kind, Liveness, Snapshot, Values, is_wrong};

/// All that is wrong, a line each: the worst first.
pub fn lines(snapshot: &Snapshot) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    if snapshot.liveness == Liveness::Dead {
        lines.push("the process has ended; this is what it left".to_owned());
    }
    lines.extend(
        snapshot
            .stalls()
            .map(|(lane, age, for_whom)| format!("lane {lane} is stalled: in one turn for {}, {for_whom}", time(age))),
    );
    for (number, lane) in snapshot.lanes.iter().enumerate() {
        if !lane.is_whole {
            lines.push(format!("lane {number} was writing as it was read: its figures may be of two moments"));
        }
    }
    for service in &snapshot.services {
        counted(&mut lines, snapshot, &format!("service {}", service.name.name), &service.values);
    }
    counted(&mut lines, snapshot, "lanes", &snapshot.total);
    lines.extend(snapshot.notes.iter().map(|note| format!("note: {note}")));
    if snapshot.notes_refused > 0 {
        lines.push(format!("note: {} more, for which there was no room", snapshot.notes_refused));
    }
    lines
}

fn counted<C: Counter>(lines: &mut Vec<String>, snapshot: &Snapshot, whose: &str, values: &Values<C>) {
    for value in values.all().filter(|value| value.value > 0 && value.kind == Kind::Counter && is_wrong(value.name)) {
        let rate = snapshot.per_second(value.value).map(|rate| format!(" ({rate:.1}/s)")).unwrap_or_default();
        lines.push(format!("{whose}: {} {}{rate}", value.name, amount(value.value as f64)));
    }
}
