//! The cost of translating a packet, with few and with many flows: `cargo bench -p corelane-nat`.
//!
//! Packets come as a lane has them: 64 frames of one way at a time, whose memory is used again and again; then 64 of the other way; each is of a flow by chance.
//! Their headers are put into the frames beforehand; only the translation is timed. The two tables take turns, and the ratio is the median of the rounds' ratios.

#![allow(clippy::unwrap_used)] // a benchmark that cannot go on stops

use corelane_nat::{Nat, Settings, Verdict};
use corelane_rss::{FlowHasher, HashTypes, Key};
use corelane_seam::Random;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

const BATCH: usize = 64;
const BATCHES: usize = 1_000;
const ROUNDS: usize = 101;
const FEW: usize = 10;
const MANY: usize = 100_000;
const BYTES: usize = 40;

/// A header of IPv4, and behind it what is a length for UDP and the flag of an acknowledgement for TCP.
const HEAD: [u8; BYTES] = {
    let mut bytes = [0; BYTES];
    (bytes[0], bytes[3], bytes[8], bytes[25], bytes[26], bytes[33]) = (0x45, BYTES as u8, 64, 20, 1, 0x10);
    bytes
};

struct Subject {
    nat: Nat,
    /// The external end of each flow; the others follow from its number, so that what makes packets needs little memory.
    externals: Vec<(Ipv4Addr, u16)>,
    random: Random,
}

fn main() {
    let (mut few, mut many) = (Subject::new(FEW), Subject::new(MANY));
    println!(
        "sessions: {} and {}; {} KiB of memory each at most",
        few.nat.sessions(),
        many.nat.sessions(),
        many.nat.memory_bytes() / 1024
    );
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
    // What the quietest rounds took, of which others that run on the machine have the least part.
    println!("the least: {:.1} ns and {:.1} ns, ratio {:.2}", costs[0][0], costs[1][0], costs[1][0] / costs[0][0]);
}

impl Subject {
    fn new(count: usize) -> Self {
        let mut random = Random::new(1);
        let hasher = Arc::new(FlowHasher::new(&Key::MICROSOFT, HashTypes::ALL));
        let mut settings = Settings::new(Ipv4Addr::new(192, 0, 2, 1));
        settings.externals.extend((2..=4).map(|last| Ipv4Addr::new(192, 0, 2, last)));
        let mut nat = Nat::new(&settings, hasher, || random.bits()).unwrap();
        let begin = |number| {
            let mut bytes = packet(number, None);
            assert_eq!(nat.outgoing(0, &mut bytes, |_| true), Verdict::Translated);
            (Ipv4Addr::from([bytes[12], bytes[13], bytes[14], bytes[15]]), u16::from_be_bytes([bytes[20], bytes[21]]))
        };
        let externals = (0..count as u32).map(begin).collect();
        Self { nat, externals, random }
    }

    /// Nanoseconds a packet.
    fn round(&mut self) -> f64 {
        let mut frames = [[[0; BYTES]; BATCH]; 2];
        let mut spent = Duration::ZERO;
        for batch in 0..BATCHES {
            let now = batch as u64;
            for (way, frames) in frames.iter_mut().enumerate() {
                for frame in frames {
                    let number = self.random.index(self.externals.len());
                    *frame = packet(number as u32, (way == 1).then(|| self.externals[number]));
                }
            }
            let start = Instant::now();
            let done = |place, verdict| assert_eq!(verdict, Verdict::Translated, "{place}");
            let [out, back] = &mut frames;
            self.nat.outgoing_all(now, &mut out.each_mut().map(<[u8; BYTES]>::as_mut_slice), |_| true, done);
            self.nat.incoming_all(now, &mut back.each_mut().map(<[u8; BYTES]>::as_mut_slice), done);
            spent += start.elapsed();
        }
        spent.as_nanos() as f64 / (2 * BATCH * BATCHES) as f64
    }
}

/// A packet of a flow, out or, to its external end, back. Every other flow is of TCP; a host has some twenty. Nobody looks at the checksums.
fn packet(number: u32, external: Option<(Ipv4Addr, u16)>) -> [u8; BYTES] {
    let mixed = corelane_seam::mix(number.into());
    let inside = (Ipv4Addr::from_bits(0x0a00_0000 + number / 20), 1024 + (mixed >> 48) as u16 % 60_000);
    let remote = (Ipv4Addr::from_bits(0xc600_0000 | mixed as u32 & 0xf_ffff), 443);
    let (from, to) = external.map_or((inside, remote), |external| (remote, external));
    let mut bytes = HEAD;
    bytes[9] = if number.is_multiple_of(2) { 6 } else { 17 };
    bytes[12..16].copy_from_slice(&from.0.octets());
    bytes[16..20].copy_from_slice(&to.0.octets());
    bytes[20..22].copy_from_slice(&from.1.to_be_bytes());
    bytes[22..24].copy_from_slice(&to.1.to_be_bytes());
    bytes
}
