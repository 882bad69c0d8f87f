//! Row N-09: the report against the original's.

use corelane_isr::dispatch::{
    Dispatch, Facts, Isr, Number, PacketStep, Placement, ProtocolRow, Registration, Report, StreamCounts, StreamRow,
};

const SAMPLE: &str = include_str!("../data/netstat-Q.txt");

fn lines(block: &str) -> impl Iterator<Item = Vec<&'static str>> + use<> {
    let block = SAMPLE.split("\n\n").find(|text| text.starts_with(block)).unwrap();
    block.lines().skip(2).map(|line| line.split_whitespace().collect())
}

fn protocol(columns: &[&str]) -> ProtocolRow {
    let placement = [Placement::Source, Placement::Flow, Placement::Lane].into_iter().find(|p| p.to_string() == columns[3]);
    let flags: Vec<bool> = columns[5].chars().map(|flag| flag != '-').collect();
    ProtocolRow {
        name: columns[0].to_owned(),
        number: Number::new(columns[1].parse().unwrap()).unwrap(),
        limit: columns[2].parse().unwrap(),
        placement: placement.unwrap(),
        dispatch: [Dispatch::Hybrid, Dispatch::Direct, Dispatch::Deferred].into_iter().find(|d| d.to_string() == columns[4]),
        asks: flags.try_into().unwrap(),
    }
}

fn stream(columns: &[&str]) -> StreamRow {
    let number = |at: usize| columns[at].parse::<u64>().unwrap();
    let mut counts = StreamCounts::default();
    (counts.length, counts.watermark) = (number(3) as usize, number(4) as usize);
    (counts.dispatched, counts.hybrid, counts.drops) = (number(5), number(6), number(7));
    (counts.queued, counts.handled) = (number(8), number(9));
    StreamRow { lane: number(0) as usize, cpu: number(1) as usize, name: columns[2].to_owned(), counts }
}

#[test]
fn n_09_the_report_is_the_originals_to_the_letter() {
    let protocols: Vec<_> = lines("Protocols:").map(|columns| protocol(&columns)).collect();
    let streams: Vec<_> = lines("Workstreams:").map(|columns| stream(&columns)).collect();
    assert!(protocols.len() == 7 && streams.len() > 14);
    let report = Report { lanes: (8, 8), dispatch: Dispatch::Direct, are_bound: true, protocols, streams };
    assert_eq!(report.to_string().trim_end(), SAMPLE.trim_end());
}

#[test]
fn n_09_a_lane_tells_its_own_rows() {
    let mut isr: Isr<u8> = Isr::new(1, 2, Dispatch::Direct);
    let deferred = Some(Dispatch::Deferred);
    isr.register(Registration { dispatch: deferred, has_hook: true, ..Registration::new("ip6", Number::IP6) }).unwrap();
    let choose = Some(Box::new(|_: &u8| None) as _);
    isr.register(Registration { placement: Placement::Lane, choose, ..Registration::new("ip", Number::IP) }).unwrap();
    let PacketStep::Run(run) = isr.arrive(Number::IP, 0, Facts::default()) else { panic!() };
    isr.finished(run.mark);
    let told: Vec<_> = isr.protocol_rows().iter().map(ToString::to_string).collect();
    assert_eq!(told, ["ip         1    256    cpu  default   C--", "ip6        6    256 source deferred   -D-"]);
    let rows: Vec<_> = isr.rows(3).iter().map(ToString::to_string).collect();
    let wanted = "   1   3   ip         0     0        1        0        0        0        1";
    assert_eq!((rows.len(), rows[0].as_str()), (2, wanted));
}
