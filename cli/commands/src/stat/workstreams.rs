//! Queues and dispatch of packets: the three blocks of FreeBSD's `netstat -Q`, and behind them what services took, in the same
//! columns, and how packets come to each lane.

use corelane::admin::packets::{
    PortKind, PortState, ProtocolRow, Report, StreamCounts, StreamRow, port_states_of, ports_of, report_of,
};
use corelane::admin::watch::{PacketCounter, ServiceCounter, Snapshot, Values};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The report as text, or as one JSON object.
pub fn workstreams(snapshot: &Snapshot, as_json: bool) -> String {
    let (report, services) = (report_of(snapshot), services(snapshot));
    let ports = ports(snapshot);
    if as_json {
        return json(&report, &services, ports);
    }
    let mut out = report.to_string();
    if !services.is_empty() {
        let _ = writeln!(out, "\nServices:\n{}", Report::WORKSTREAM_COLUMNS);
        services.iter().for_each(|row| {
            let _ = writeln!(out, "{row}");
        });
    }
    if !ports.is_empty() {
        out += "\nPorts:\nWSID State     Lost SendLost Packets by\n";
        ports.iter().for_each(|PortRow { lane, packets, state, lost, send_lost }| {
            let _ = writeln!(out, "{lane:4} {:5} {lost:8} {send_lost:8} {packets}", state.unwrap_or("-"));
        });
    }
    out
}

/// Packets lost at a port before its lane had them.
const LOST: [PacketCounter; 3] = [PacketCounter::PortNoFrame, PacketCounter::PortRingFull, PacketCounter::PortTooLong];

/// A row a lane with a port.
fn ports(snapshot: &Snapshot) -> Vec<PortRow> {
    let states: BTreeMap<usize, PortState> = port_states_of(snapshot).collect();
    let state = |lane| states.get(&lane).map(|state| state.word());
    let count = |lane: usize, counters: &[PacketCounter]| {
        let values = snapshot.lanes[lane].packets.as_ref().map(|packets| &packets.values);
        values.map_or(0, |values| counters.iter().fold(0, |sum: u64, counter| sum.saturating_add(values.get(*counter))))
    };
    let port = |(lane, kind): (usize, PortKind)| {
        let (lost, send_lost) = (count(lane, &LOST), count(lane, &[PacketCounter::PortSendLost]));
        PortRow { lane, packets: kind.words(), state: state(lane), lost, send_lost }
    };
    ports_of(snapshot).map(port).collect()
}

/// A row a lane and service. A service has no queue of the lane's: what arrives for it is run in the turn that found it.
fn services(snapshot: &Snapshot) -> Vec<StreamRow> {
    let lanes = snapshot.lanes.iter().enumerate();
    let rows = lanes.flat_map(|(number, lane)| {
        let services = snapshot.services.iter().zip(&lane.services);
        services.map(move |(service, values)| StreamRow {
            lane: number,
            cpu: lane.name.cpu.map_or(number, |cpu| cpu as usize),
            name: service.name.name.clone(),
            counts: taken(values),
        })
    });
    rows.collect()
}

fn taken(values: &Values<ServiceCounter>) -> StreamCounts {
    let mut counts = StreamCounts::default();
    counts.dispatched = values.get(ServiceCounter::Requests);
    counts.handled = counts.dispatched;
    counts.drops = values.get(ServiceCounter::TrainsDropped);
    counts
}

#[derive(Serialize)]
struct Whole<'a> {
    configuration: Configuration,
    protocols: Vec<ProtocolShown<'a>>,
    workstreams: Vec<Workstream<'a>>,
    services: Vec<Workstream<'a>>,
    ports: Vec<PortRow>,
}

#[derive(Serialize)]
struct PortRow {
    lane: usize,
    packets: &'static str,
    state: Option<&'static str>,
    lost: u64,
    send_lost: u64,
}

#[derive(Serialize)]
struct Configuration {
    threads: usize,
    threads_max: usize,
    queue_limit_default: usize,
    queue_limit_max: usize,
    dispatch: String,
    threads_bound: bool,
}

#[derive(Serialize)]
struct ProtocolShown<'a> {
    name: &'a str,
    number: u8,
    queue_limit: usize,
    policy: String,
    dispatch: String,
    flags: String,
}

#[derive(Serialize)]
struct Workstream<'a> {
    lane: usize,
    cpu: usize,
    name: &'a str,
    length: usize,
    watermark: usize,
    dispatched: u64,
    hybrid: u64,
    drops: u64,
    queued: u64,
    handled: u64,
}

fn json(report: &Report, services: &[StreamRow], ports: Vec<PortRow>) -> String {
    let whole = Whole {
        configuration: Configuration {
            threads: report.lanes.0,
            threads_max: report.lanes.1,
            queue_limit_default: Report::LIMIT_DEFAULT,
            queue_limit_max: Report::LIMIT_MAX,
            dispatch: report.dispatch.to_string(),
            threads_bound: report.are_bound,
        },
        protocols: report.protocols.iter().map(protocol).collect(),
        workstreams: report.streams.iter().map(workstream).collect(),
        services: services.iter().map(workstream).collect(),
        ports,
    };
    // reason: all keys are strings, and writing to a string does not fail.
    serde_json::to_string(&whole).expect("a report can be written") + "\n"
}

fn protocol(row: &ProtocolRow) -> ProtocolShown<'_> {
    ProtocolShown {
        name: &row.name,
        number: row.number.number(),
        queue_limit: row.limit,
        policy: row.placement.to_string(),
        dispatch: row.dispatch_name(),
        flags: row.flags(),
    }
}

fn workstream(StreamRow { lane, cpu, name, counts }: &StreamRow) -> Workstream<'_> {
    Workstream {
        lane: *lane,
        cpu: *cpu,
        name,
        length: counts.length,
        watermark: counts.watermark,
        dispatched: counts.dispatched,
        hybrid: counts.hybrid,
        drops: counts.drops,
        queued: counts.queued,
        handled: counts.handled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane::admin::watch::{Description, LaneName, Page, Reader, ServiceName, StreamCounter};
    use serde_json::Value;

    fn snapshot(has_packets: bool) -> Snapshot {
        let lane = |cpu| LaneName { cpu: Some(cpu), driver: "sim".into(), steering: "table".into() };
        let echo = ServiceName { name: "echo".into(), url: "udp://[::]:7".into(), counters: Vec::new() };
        let (services, lanes) = (vec![echo], vec![lane(0), lane(3)]);
        let page = Page::heap(&Description { services, lanes, ..Description::default() }).unwrap();
        page.service(1, 0).unwrap().add(ServiceCounter::Requests, 7);
        if has_packets {
            page.packets(1).unwrap().together(|row| {
                row.set_protocols(1);
                row.set(PacketCounter::PortKind, 4);
                row.set(PacketCounter::PortState, 2);
                row.set(PacketCounter::PortNoFrame, 4);
                row.set(PacketCounter::PortRingFull, 7);
                row.set(PacketCounter::PortSendLost, 5);
                row.name(0, "ip");
                use StreamCounter as C;
                for (counter, value) in
                    [(C::Number, 1), (C::Limit, 256), (C::Placement, 3), (C::Asks, 1), (C::Hybrid, 5), (C::Handled, 5)]
                {
                    row.set_stream(0, counter, value);
                }
            });
        }
        Reader::of(&page).unwrap().snapshot(0)
    }

    #[test]
    fn n_09_the_three_blocks_and_the_services() {
        let text = workstreams(&snapshot(true), false);
        let wanted = "Configuration:
Setting                        Current        Limit
Thread count                         2            2
Default queue limit                256        10240
Dispatch policy                 direct          n/a
Threads bound to CPUs          enabled          n/a

Protocols:
Name   Proto QLimit Policy Dispatch Flags
ip         1    256    cpu  default   C--

Workstreams:
WSID CPU   Name     Len WMark   Disp'd  HDisp'd   QDrops   Queued  Handled
   1   3   ip         0     0        0        5        0        0        5

Services:
WSID CPU   Name     Len WMark   Disp'd  HDisp'd   QDrops   Queued  Handled
   0   0   echo       0     0        0        0        0        0        0
   1   3   echo       0     0        7        0        0        0        7

Ports:
WSID State     Lost SendLost Packets by
   1 down        11        5 AF_XDP, copied by the kernel
";
        assert_eq!(text, wanted);
    }

    #[test]
    fn n_09_without_a_packet_path_there_are_the_services() {
        let text = workstreams(&snapshot(false), false);
        assert!(text.contains("\nServices:\n") && text.contains("   1   3   echo "), "{text}");
        assert!(!text.contains(" ip "), "{text}");
    }

    #[test]
    fn n_09_the_same_as_json() {
        let value: Value = serde_json::from_str(&workstreams(&snapshot(true), true)).unwrap();
        assert_eq!(value["configuration"]["queue_limit_max"], 10_240);
        assert_eq!((&value["protocols"][0]["flags"], &value["protocols"][0]["dispatch"]), (&"C--".into(), &"default".into()));
        assert_eq!((&value["workstreams"][0]["cpu"], &value["workstreams"][0]["handled"]), (&3.into(), &5.into()));
        assert_eq!(value["services"][1]["dispatched"], 7);
        assert_eq!(value["ports"][0]["packets"], "AF_XDP, copied by the kernel");
        assert_eq!(value["ports"][0]["state"], "down");
        assert_eq!((&value["ports"][0]["lost"], &value["ports"][0]["send_lost"]), (&11.into(), &5.into()));
    }
}
