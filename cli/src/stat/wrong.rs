//! What is wrong with a process, as far as its page tells: what it has to do without, stalled lanes, and what was refused, lost or limited.

use super::figures::{amount, time};
use corelane::admin::packets::{PortState, port_states_of};
use corelane::admin::watch::{Counter, Kind, Liveness, PacketCounter, Snapshot, Values, is_wrong};

/// What is wrong with packets if it is counted, in words, with what to do. What others may send as they like is not among it, but for checksums: a wire
/// between two ends of one machine leaves them out, and nothing is ever answered.
const PACKETS: [(PacketCounter, &str); 7] = [
    (
        PacketCounter::FramesChecksum,
        "packets with wrong checksums: if they come from this machine itself, have it compute them (ethtool -K PEER tx off)",
    ),
    (PacketCounter::PortNoFrame, "packets lost at ports for want of a free frame: lanes did not take them in time"),
    (PacketCounter::PortRingFull, "packets lost at ports whose ring was full: lanes did not take them in time"),
    (PacketCounter::PortTooLong, "packets lost at ports, longer than their frames: start anew after the MTU was raised"),
    (
        PacketCounter::PortSendLost,
        "packets lost in the interface's queue: it sends fewer than it is given (ip link set INTERFACE txqueuelen)",
    ),
    (PacketCounter::UdpSocketFull, "datagrams lost at sockets that were full: services did not take them in time"),
    (PacketCounter::FragmentsNoRoom, "datagrams in fragments given up for others: a flood of fragments, or more than may wait"),
];

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
    for (number, state) in port_states_of(snapshot).filter(|(_, state)| *state != PortState::Up) {
        lines.push(format!("lane {number}: its interface is {}: {}", state.word(), state.remedy()));
    }
    of_packets(&mut lines, snapshot);
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

/// What is wrong with the packets of all lanes.
fn of_packets(lines: &mut Vec<String>, snapshot: &Snapshot) {
    let rows: Vec<_> = snapshot.lanes.iter().filter_map(|lane| lane.packets.as_ref()).map(|packets| &packets.values).collect();
    let sum = Values::<PacketCounter>::sum(rows);
    for (counter, words) in PACKETS {
        let count = sum.get(counter);
        if count > 0 {
            lines.push(format!("{}{} {words}", amount(count as f64), rate(snapshot, count)));
        }
    }
}

/// How many a second, if that is known.
fn rate(snapshot: &Snapshot, count: u64) -> String {
    snapshot.per_second(count).map(|rate| format!(" ({rate:.1}/s)")).unwrap_or_default()
}

fn counted<C: Counter>(lines: &mut Vec<String>, snapshot: &Snapshot, whose: &str, values: &Values<C>) {
    for value in values.all().filter(|value| value.value > 0 && value.kind == Kind::Counter && is_wrong(value.name)) {
        lines.push(format!("{whose}: {} {}{}", value.name, amount(value.value as f64), rate(snapshot, value.value)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane::admin::watch::{Description, LaneName, Page, Reader};

    fn wrong_with(marks: &[(PacketCounter, u64)]) -> String {
        let page = Page::heap(&Description { lanes: vec![LaneName::default()], ..Description::default() }).unwrap();
        page.packets(0).unwrap().together(|row| {
            row.set_protocols(1);
            marks.iter().for_each(|(counter, value)| row.set(*counter, *value));
        });
        lines(&Reader::of(&page).unwrap().snapshot(0)).join("\n")
    }

    #[test]
    fn an_interface_that_is_down_or_gone_is_told_with_what_to_do() {
        assert_eq!(wrong_with(&[(PacketCounter::PortState, 1)]), "");
        assert!(wrong_with(&[(PacketCounter::PortState, 2)]).starts_with("lane 0: its interface is down: "));
        assert!(wrong_with(&[(PacketCounter::PortState, 3)]).contains("is gone: no packet comes or goes any more"));
    }

    #[test]
    fn what_is_lost_with_packets_is_told() {
        assert!(wrong_with(&[(PacketCounter::FramesChecksum, 3)]).contains("3 packets with wrong checksums: "));
        assert!(wrong_with(&[(PacketCounter::PortRingFull, 9)]).contains("9 packets lost at ports whose ring was full"));
        assert_eq!(wrong_with(&[(PacketCounter::FramesNotOurs, 9)]), "");
    }
}
