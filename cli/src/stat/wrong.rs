//! What is wrong with a process, as far as its page tells: what it has to do without, stalled lanes, and what was refused, lost or limited.

use super::figures::{amount, time};
use corelane::admin::watch::{Counter, Kind, LaneSnapshot, LaneState, Liveness, Snapshot, Values};

/// A lane that has been in one turn for so long is said to be stalled: a thousand times what any turn should take.
const STALL_NANOSECONDS: u64 = 1_000_000_000;

/// What a counter's name ends with if it counts what should not be: by the names' own rule, so a service's own counters are found as well.
const ENDS: [&str; 9] =
    ["_hits", "_refused", "_dropped", "_failed", "_late", "_starved", "_truncated", "_aborted", "_no_descriptor"];
/// Those that are told by no such ending.
const NAMES: [&str; 7] =
    ["strays", "connects_stray", "panics", "tasks_panicked", "works_broken", "memory_endings", "transform_refusals"];

/// All that is wrong, a line each: the worst first.
pub fn lines(snapshot: &Snapshot) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    if snapshot.liveness == Liveness::Dead {
        lines.push("the process has ended; this is what it left".to_owned());
    }
    for (number, lane) in snapshot.lanes.iter().enumerate() {
        lines.extend(stalled(snapshot, lane).map(|age| format!("lane {number} is stalled: in one turn for {}", time(age))));
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

/// How long a lane has been in its turn, if that is too long. A sleeping lane is in none, and a dead one in its last.
pub fn stalled(snapshot: &Snapshot, lane: &LaneSnapshot) -> Option<u64> {
    let is_awake = matches!(lane.state(), Some(LaneState::Running | LaneState::Spinning | LaneState::Draining));
    let age = age(snapshot, lane).filter(|&age| age >= STALL_NANOSECONDS)?;
    (is_awake && lane.is_whole && snapshot.liveness != Liveness::Dead).then_some(age)
}

/// Nanoseconds since the lane's last turn began; none before its first.
pub fn age(snapshot: &Snapshot, lane: &LaneSnapshot) -> Option<u64> {
    let began = lane.values.get(corelane::admin::watch::LaneCounter::LastTurnNanoseconds);
    (began > 0).then(|| snapshot.at_nanoseconds.saturating_sub(began))
}

fn counted<C: Counter>(lines: &mut Vec<String>, snapshot: &Snapshot, whose: &str, values: &Values<C>) {
    for value in values.all().filter(|value| value.value > 0 && value.kind == Kind::Counter && is_wrong(value.name)) {
        let rate = snapshot.per_second(value.value).map(|rate| format!(" ({rate:.1}/s)")).unwrap_or_default();
        lines.push(format!("{whose}: {} {}{rate}", value.name, amount(value.value as f64)));
    }
}

fn is_wrong(name: &str) -> bool {
    NAMES.contains(&name) || ENDS.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane::admin::watch::{LaneCounter, ServiceCounter};

    #[test]
    fn what_is_wrong_is_told_by_its_name() {
        let known: Vec<&str> = LaneCounter::DECLARED.iter().chain(ServiceCounter::DECLARED).map(|one| one.name).collect();
        assert!(NAMES.iter().all(|name| known.contains(name)), "names that are declared");
        assert!(ENDS.iter().all(|end| known.iter().any(|name| name.ends_with(end))), "endings that occur");
        for good in ["requests", "accepts", "endings_completed", "handshakes", "sleeps", "messages_sent", "connects_home"] {
            assert!(known.contains(&good) && !is_wrong(good), "{good}");
        }
    }
}
