//! What the translation of a packet costs with few and with many flows: `cargo bench -p corelane-nat`.
//!
//! Packets come as a lane has them: 64 frames at a time, whose memory is used again and again. Half of them go out, half are answers; each is of a flow by chance.
//! Their headers are put into the frames beforehand; only the translation is timed. The two tables take turns, and the ratio is the median of the rounds' ratios.

use corelane_nat::{Nat, Settings, Verdict};
use corelane_rss::{FlowHasher, HashTypes, Key};
use corelane_seam::Random;
use corelane_wire::packet::{IpProtocol, ipv4, tcp, udp};
use corelane_wire::xdr::Writer;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

const BATCH: usize = 64;
const BATCHES: usize = 4_000;
const ROUNDS: usize = 15;
const FEW: usize = 10;
const MANY: usize = 100_000;
const BYTES: usize = 40;

/// The headers of a flow's packets, out and back.
struct Flow {
    out: [u8; BYTES],
    back: [u8; BYTES],
}

struct Subject {
    nat: Nat,
    flows: Vec<Flow>,
    random: Random,
}

fn main() {
    let (mut few, mut many) = (Subject::new(FEW), Subject::new(MANY));
    println!("sessions: {} and {}; {} KiB of memory each at most", few.nat.sessions(), many.nat.sessions(), many.nat.memory_bytes() / 1024);
    let (mut ratios, mut costs) = (Vec::new(), [Vec::new(), Vec::new()]);
    for round in 0..ROUNDS {
        let (one, other) = if round % 2 == 0 {
            let few = few.round();
            (few, many.round())
        } else {
            let many = many.round();
            (few.round(), many)
        };
        ratios.push(other / one);
        costs[0].push(one);
        costs[1].push(other);
    }
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let [few, many] = costs.each_mut().map(median);
    println!("{FEW} flows: {few:.1} ns a packet; {MANY} flows: {many:.1} ns; ratio {:.2}", median(&mut ratios));
    println!("the ratios: {:.2} to {:.2} in {ROUNDS} rounds", ratios[0], ratios[ROUNDS - 1]);
}

impl Subject {
    fn new(count: usize) -> Self {
        let mut random = Random::new(1);
        let hasher = Arc::new(FlowHasher::new(&Key::MICROSOFT, HashTypes::ALL));
        let mut settings = Settings::new(Ipv4Addr::new(192, 0, 2, 1));
        settings.externals.extend((2..=4).map(|last| Ipv4Addr::new(192, 0, 2, last)));
        let mut nat = Nat::new(&settings, hasher, || random.bits()).unwrap();
        let mut random = Random::new(2);
        let flows = (0..count).map(|number| flow(&mut nat, &mut random, number as u32)).collect();
        Self { nat, flows, random }
    }

    /// Nanoseconds a packet.
    fn round(&mut self) -> f64 {
        let mut frames = [[0; BYTES]; BATCH];
        let mut spent = Duration::ZERO;
        for batch in 0..BATCHES {
            let now = batch as u64;
            for (place, frame) in frames.iter_mut().enumerate() {
                let flow = &self.flows[self.random.index(self.flows.len())];
                *frame = if place % 2 == 0 { flow.out } else { flow.back };
            }
            let start = Instant::now();
            let ways = |place: usize, frame| match place % 2 {
                0 => self.nat.look_outgoing(frame),
                _ => self.nat.look_incoming(frame),
            };
            let looked: [_; BATCH] = std::array::from_fn(|place| ways(place, &frames[place]));
            for (place, (frame, looked)) in frames.iter_mut().zip(&looked).enumerate() {
                let verdict = match place % 2 {
                    0 => self.nat.outgoing_looked(now, frame, looked, |_| true),
                    _ => self.nat.incoming_looked(now, frame, looked),
                };
                assert_eq!(verdict, Verdict::Translated);
            }
            spent += start.elapsed();
        }
        spent.as_nanos() as f64 / (BATCH * BATCHES) as f64
    }
}

/// Every other flow is of TCP. A host has some twenty.
fn flow(nat: &mut Nat, random: &mut Random, number: u32) -> Flow {
    let inside = (Ipv4Addr::from_bits(0x0a00_0000 + number / 20), 1024 + random.below(60_000) as u16);
    let remote = (Ipv4Addr::from_bits(0xc600_0000 + random.below(1 << 20) as u32), 443);
    let is_tcp = number.is_multiple_of(2);
    let mut out = packet(is_tcp, inside, remote);
    let header = out;
    assert_eq!(nat.outgoing(0, &mut out, |_| true), Verdict::Translated);
    let source = (Ipv4Addr::from([out[12], out[13], out[14], out[15]]), u16::from_be_bytes([out[20], out[21]]));
    Flow { out: header, back: packet(is_tcp, remote, source) }
}

fn packet(is_tcp: bool, from: (Ipv4Addr, u16), to: (Ipv4Addr, u16)) -> [u8; BYTES] {
    let protocol = if is_tcp { IpProtocol::TCP } else { IpProtocol::UDP };
    let ip = ipv4::Header {
        traffic: Default::default(),
        identification: 1,
        fragment: Default::default(),
        hops: 64,
        protocol,
        source: from.0,
        destination: to.0,
        options: Default::default(),
    };
    let mut bytes = [0; BYTES];
    let mut writer = Writer::new(&mut bytes);
    ip.emit(20, &mut writer).unwrap();
    if is_tcp {
        let (flags, options) = (tcp::Flags::ACK, Default::default());
        let (source, destination, sequence, acknowledgement, window, urgent) = (from.1, to.1, 1, 2, 3, 0);
        let header = tcp::Header { source, destination, sequence, acknowledgement, flags, window, urgent, options };
        header.emit(&ip.addresses(), &[], &mut writer).unwrap();
    } else {
        udp::Header { source: from.1, destination: to.1 }.emit(&ip.addresses(), &[0; 12], &mut writer).unwrap();
    }
    bytes
}
