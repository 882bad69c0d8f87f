//! The conservation of datagrams: what was received, and what became of each.

use corelane::admin::watch::{Counter, Kind, PacketCounter, ServiceCounter, Snapshot, Values};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// What was lost before and behind the packet path, in the words that stand behind a number.
const PORT: [(PacketCounter, &str); 4] = [
    (PacketCounter::PortNoFrame, "packets lost due to no free frame"),
    (PacketCounter::PortRingFull, "lost due to a full ring"),
    (PacketCounter::PortTooLong, "lost because too long"),
    (PacketCounter::PortSendLost, "lost when sent, due to the interface's full queue or no carrier"),
];
/// What is told of the packet path, in this order.
const IP: [(PacketCounter, &str); 12] = [
    (PacketCounter::FramesIn, "frames received"),
    (PacketCounter::FramesNotOurs, "for somebody else"),
    (PacketCounter::FramesMalformed, "with a malformed header"),
    (PacketCounter::FramesChecksum, "with a bad checksum"),
    (PacketCounter::SumsLeft, "with a checksum that its sender left to its card"),
    (PacketCounter::FramesDropped, "dropped, these and for other reasons"),
    (PacketCounter::PacketsCrossed, "sent to the lane of their bucket"),
    (PacketCounter::FramesOut, "frames sent"),
    (PacketCounter::EchoesAnswered, "echo requests answered"),
    (PacketCounter::ErrorsSent, "ICMP errors sent"),
    (PacketCounter::AnnouncementsSent, "announcements of addresses sent"),
    (PacketCounter::AddressConflicts, "claims of others to an address"),
];
/// The first is the sum of the next three.
const FRAGMENTS: [(PacketCounter, &str); 13] = [
    (PacketCounter::Fragments, "fragments received"),
    (PacketCounter::FragmentsJoined, "put together"),
    (PacketCounter::FragmentsWaiting, "waiting for others"),
    (PacketCounter::FragmentsDropped, "dropped"),
    (PacketCounter::FragmentsTooSmall, "too small"),
    (PacketCounter::FragmentsTooLong, "too long"),
    (PacketCounter::FragmentsTwice, "there already"),
    (PacketCounter::FragmentsAtOdds, "at odds with others, or in their headers"),
    (PacketCounter::FragmentsTimedOut, "datagrams timed out"),
    (PacketCounter::FragmentsNoRoom, "datagrams dropped due to no room"),
    (PacketCounter::FragmentsTooMany, "datagrams dropped that came in too many"),
    (PacketCounter::Reassembled, "datagrams reassembled"),
    (PacketCounter::Reorders, "datagrams run behind a later one of their flow"),
];
/// The first is the sum of those up to the last but one.
const UDP: [(PacketCounter, &str); 7] = [
    (PacketCounter::UdpReceived, "datagrams received"),
    (PacketCounter::UdpDamaged, "with a bad header or checksum"),
    (PacketCounter::UdpNoSocket, "dropped due to no socket"),
    (PacketCounter::UdpSocketFull, "dropped due to full socket buffers"),
    (PacketCounter::UdpElsewhere, "sent to the lane of their socket"),
    (PacketCounter::UdpDelivered, "delivered"),
    (PacketCounter::UdpSent, "datagrams output"),
];
/// By the kind of tunnel: which ends a tunnel has is not asked when it is opened.
const TUNNELS: [(PacketCounter, &str); 8] = [
    (PacketCounter::GreOpened, "packets taken out of GRE"),
    (PacketCounter::GreDropped, "dropped with what they carried in GRE"),
    (PacketCounter::IpipOpened, "packets taken out of IPv4 in IP"),
    (PacketCounter::IpipDropped, "dropped with what they carried in IPv4 in IP"),
    (PacketCounter::Ip6inipOpened, "packets taken out of IPv6 in IP"),
    (PacketCounter::Ip6inipDropped, "dropped with what they carried in IPv6 in IP"),
    (PacketCounter::VxlanOpened, "packets taken out of VXLAN"),
    (PacketCounter::VxlanDropped, "dropped with what they carried in VXLAN"),
];
const CHANNELS: [(PacketCounter, &str); 2] = [
    (PacketCounter::ChannelPut, "packets put into channels"),
    (PacketCounter::ChannelDropped, "dropped due to a full ring, or too long for one"),
];
const SERVICE: [(ServiceCounter, &str); 4] = [
    (ServiceCounter::DatagramsIn, "datagrams received"),
    (ServiceCounter::TrainsDropped, "trains dropped due to full socket buffers"),
    (ServiceCounter::DatagramsOut, "datagrams output"),
    (ServiceCounter::DatagramsRefused, "not sent"),
];

/// It as text, or as one JSON object.
pub fn datagrams(snapshot: &Snapshot, as_json: bool) -> String {
    let rows: Vec<_> = snapshot.lanes.iter().filter_map(|lane| lane.packets.as_ref()).map(|packets| &packets.values).collect();
    let packets = (!rows.is_empty()).then(|| Values::sum(rows));
    if as_json { json(snapshot, packets.as_ref()) } else { text(snapshot, packets.as_ref()) }
}

fn text(snapshot: &Snapshot, packets: Option<&Values<PacketCounter>>) -> String {
    let mut out = String::new();
    if let Some(values) = packets {
        block(&mut out, "port", values, &PORT);
        block(&mut out, "ip", values, &IP);
        block(&mut out, "fragments", values, &FRAGMENTS);
        block(&mut out, "tunnels", values, &TUNNELS);
        block(&mut out, "channels", values, &CHANNELS);
        block(&mut out, "udp", values, &UDP);
    }
    for service in &snapshot.services {
        block(&mut out, &format!("{} at {}", service.name.name, service.name.url), &service.values, &SERVICE);
    }
    out
}

fn block<C: Counter>(out: &mut String, title: &str, values: &Values<C>, told: &[(C, &str)]) {
    let _ = writeln!(out, "{title}:");
    told.iter().for_each(|(counter, words)| {
        let _ = writeln!(out, "\t{} {words}", values.get(*counter));
    });
}

#[derive(Serialize)]
struct Whole<'a> {
    packets: Option<BTreeMap<&'static str, u64>>,
    services: Vec<Service<'a>>,
}

#[derive(Serialize)]
struct Service<'a> {
    name: &'a str,
    url: &'a str,
    datagrams: BTreeMap<&'static str, u64>,
}

fn json(snapshot: &Snapshot, packets: Option<&Values<PacketCounter>>) -> String {
    let services = snapshot.services.iter().map(|service| Service {
        name: &service.name.name,
        url: &service.name.url,
        datagrams: SERVICE.iter().map(|(counter, _)| (counter.declaration().name, service.values.get(*counter))).collect(),
    });
    let counted = packets.map(|values| {
        let counted = values.iter().filter(|(counter, _)| counter.declaration().kind != Kind::Mark);
        counted.map(|(counter, value)| (counter.declaration().name, value)).collect()
    });
    let whole = Whole { packets: counted, services: services.collect() };
    // reason: all keys are strings, and writing to a string does not fail.
    serde_json::to_string(&whole).expect("counts can be written") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane::admin::watch::{Description, LaneName, Page, Reader, ServiceName};
    use serde_json::Value;

    fn snapshot(has_packets: bool) -> Snapshot {
        let echo = ServiceName { name: "echo".into(), url: "udp://[::]:7".into(), counters: Vec::new() };
        let (services, lanes) = (vec![echo], vec![LaneName::default(), LaneName::default()]);
        let page = Page::heap(&Description { services, lanes, ..Description::default() }).unwrap();
        page.service(1, 0).unwrap().add(ServiceCounter::DatagramsIn, 7);
        for lane in (0..2).filter(|_| has_packets) {
            page.packets(lane).unwrap().together(|row| {
                row.set_protocols(1);
                row.set(PacketCounter::UdpReceived, 10);
                row.set(PacketCounter::UdpNoSocket, 4);
                row.set(PacketCounter::UdpDelivered, 6);
            });
        }
        Reader::of(&page).unwrap().snapshot(0)
    }

    /// The numbers of a block, by their words.
    fn numbers<'a>(text: &'a str, title: &str) -> BTreeMap<&'a str, u64> {
        let lines = text.lines().skip_while(|line| *line != title).skip(1).take_while(|line| line.starts_with('\t'));
        let pairs = lines.map(|line| line.trim().split_once(' ').unwrap());
        pairs.map(|(number, words)| (words, number.parse().unwrap())).collect()
    }

    #[test]
    fn all_lanes_are_added_up_and_what_was_received_is_accounted_for() {
        let text = datagrams(&snapshot(true), false);
        let udp = numbers(&text, "udp:");
        assert_eq!((udp["datagrams received"], udp["dropped due to no socket"], udp["delivered"]), (20, 8, 12));
        let [(_, received), middle @ .., _] = &UDP;
        assert_eq!(udp[received], middle.iter().map(|(_, words)| udp[words]).sum::<u64>());
        assert_eq!(numbers(&text, "echo at udp://[::]:7:")["datagrams received"], 7);
    }

    #[test]
    fn what_was_lost_at_ports_is_told_and_fragments_are_accounted_for() {
        let page = Page::heap(&Description { lanes: vec![LaneName::default()], ..Description::default() }).unwrap();
        page.packets(0).unwrap().together(|row| {
            row.set_protocols(1);
            let counted = [
                (PacketCounter::PortRingFull, 7),
                (PacketCounter::Fragments, 10),
                (PacketCounter::FragmentsJoined, 4),
                (PacketCounter::FragmentsWaiting, 1),
                (PacketCounter::FragmentsDropped, 5),
                (PacketCounter::Reorders, 3),
                (PacketCounter::VxlanOpened, 11),
                (PacketCounter::ChannelDropped, 13),
            ];
            counted.into_iter().for_each(|(counter, value)| row.set(counter, value));
        });
        let text = datagrams(&Reader::of(&page).unwrap().snapshot(0), false);
        assert_eq!(numbers(&text, "port:")["lost due to a full ring"], 7);
        let fragments = numbers(&text, "fragments:");
        let parts = ["put together", "waiting for others", "dropped"].map(|words| fragments[words]);
        assert_eq!((fragments["fragments received"], parts.iter().sum()), (10, 10));
        assert_eq!(fragments["datagrams run behind a later one of their flow"], 3);
        assert_eq!(numbers(&text, "tunnels:")["packets taken out of VXLAN"], 11);
        assert_eq!(numbers(&text, "channels:")["dropped due to a full ring, or too long for one"], 13);
    }

    #[test]
    fn without_a_packet_path_there_are_the_services() {
        let text = datagrams(&snapshot(false), false);
        assert!(text.starts_with("echo at udp://[::]:7:\n\t7 datagrams received\n"), "{text}");
    }

    #[test]
    fn the_same_as_json() {
        let value: Value = serde_json::from_str(&datagrams(&snapshot(true), true)).unwrap();
        assert_eq!((&value["packets"]["udp_received"], &value["packets"]["udp_delivered"]), (&20.into(), &12.into()));
        assert_eq!(value["services"][0]["datagrams"]["datagrams_in"], 7);
        let value: Value = serde_json::from_str(&datagrams(&snapshot(false), true)).unwrap();
        assert_eq!(value["packets"], Value::Null);
    }
}
