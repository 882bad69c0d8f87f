//! What the Internet checksum costs by length, against word by word, and what a walk over a frame's headers costs: prints nanoseconds,
//! and asserts nothing.
//!
//! `cargo bench -p corelane-wire --bench checksum`; under `valgrind --tool=callgrind` the instructions are exact.

use corelane_wire::Error;
use corelane_wire::packet::checksum::{Addresses, Sum, replaced};
use corelane_wire::packet::{EtherType, IpProtocol, Packet, ethernet, ipv4, udp};
use corelane_wire::xdr::Writer;
use std::hint::black_box;
use std::time::Instant;

/// Bytes summed in each measurement.
const BYTES: usize = 1 << 26;

#[inline(never)]
fn whole(bytes: &[u8]) -> u16 {
    Sum::of(bytes).checksum()
}

/// RFC 1071, section 4.1.
#[inline(never)]
fn plain(bytes: &[u8]) -> u16 {
    let mut sum: u64 = bytes.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0))).sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[inline(never)]
fn change(checksum: u16) -> u16 {
    replaced(checksum, Sum::ZERO.and_word(0x4011), Sum::ZERO.and_word(0x3f11))
}

#[inline(never)]
fn walk(frame: &[u8]) -> u16 {
    Packet::of_frame(frame).ok().and_then(|packet| packet.flow()).map_or(0, |flow| flow.protocol.0.into())
}

fn nanoseconds(rounds: usize, mut work: impl FnMut() -> u16) -> f64 {
    let mut time = || {
        let started = Instant::now();
        (0..rounds).for_each(|_| _ = black_box(work()));
        started.elapsed().as_nanos() as f64 / rounds as f64
    };
    // The least of some rounds: what other programs on the machine cost is not ours.
    (0..5).map(|_| time()).fold(f64::INFINITY, f64::min)
}

/// A frame with a datagram of 64 bytes.
fn frame(memory: &mut [u8]) -> Result<usize, Error> {
    let header = ipv4::Header {
        traffic: Default::default(),
        identification: 1,
        fragment: Default::default(),
        hops: 64,
        protocol: IpProtocol::UDP,
        source: [192, 0, 2, 1].into(),
        destination: [192, 0, 2, 2].into(),
        options: Default::default(),
    };
    let addresses: Addresses = header.addresses();
    let mut to = Writer::new(memory);
    let mac = ethernet::Mac::BROADCAST;
    ethernet::Header { destination: mac, source: mac, protocol: EtherType::IPV4 }.emit(&mut to)?;
    header.emit(72, &mut to)?;
    udp::Header { source: 1, destination: 2 }.emit(&addresses, &[0; 64], &mut to)?;
    to.put(&[0; 64])?;
    Ok(to.len())
}

fn main() {
    let bytes: Vec<u8> = (0..65_536_u32).map(|at| (at * 31) as u8).collect();
    for length in [20, 64, 510, 1_472, 8_972, 65_507] {
        let (bytes, rounds) = (&bytes[..length], BYTES / length);
        let ours = nanoseconds(rounds, || whole(black_box(bytes)));
        let theirs = nanoseconds(rounds / 16, || plain(black_box(bytes)));
        println!("{length} bytes: {ours:.1} ns, {:.1} bytes a ns; word by word {theirs:.1} ns", length as f64 / ours);
    }
    println!("after a change of one word: {:.1} ns", nanoseconds(1 << 22, || change(black_box(0x1234))));
    let mut memory = [0; 128];
    let length = frame(&mut memory).expect("the memory holds the frame");
    println!("walk over Ethernet, IPv4 and UDP: {:.1} ns", nanoseconds(1 << 22, || walk(black_box(&memory[..length]))));
}
