//! The programs of both ends: users who send to each other, whoever counts what came of it and answers for them, and the least that a gateway can do.

use std::net::Ipv4Addr;
use std::os::fd::AsFd;

use anyhow::Result;
use corelane_select::bpf::assembly::{Alu, Assembler, Label, Register, When, Width};
use corelane_select::bpf::{Counts, Program};

use super::houses::{FIRST_USER, FRAME_BYTES, HOUSES, USERS};
use crate::packet::programs::{self, CONTEXT_DATA, CONTEXT_DATA_END, DROP, Flood, MAP_LOOKUP, PASS, RANDOM, TX};

use Register::{R0, R1, R2, R3, R4, R5, R7, R8, R9, R10};

const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
const VLAN: u16 = 0x8100;
/// Bytes of a tag: where a frame has one, all behind it stands so much further on.
const TAG_BYTES: i16 = 4;
/// Hops that users give a packet.
const HOPS: u8 = 64;
/// Bytes before a datagram's payload, without a tag.
const HEADS: usize = 42;
/// Where a tag's number stands.
const TAG: i16 = 14;

/// Where things stand in a frame without a tag.
mod at {
    pub const ETHER_TYPE: i16 = 12;
    pub const HOPS: i16 = 22;
    pub const PROTOCOL: i16 = 23;
    pub const SUM: i16 = 24;
    pub const SOURCE: i16 = 26;
    pub const DESTINATION: i16 = 30;
    pub const PAYLOAD: i16 = 42;
    pub const ASKS: i16 = 20;
    pub const ASKER_MAC: i16 = 22;
    pub const ASKER: i16 = 28;
    pub const ASKED_MAC: i16 = 32;
    pub const ASKED: i16 = 38;
    pub const ARP_END: i16 = 42;
}

/// A frame from a user; which house's and to whom, its program decides.
pub fn frame(macs: [[u8; 6]; 2], is_tagged: bool) -> Vec<u8> {
    let addresses = [Ipv4Addr::new(10, 0, 1, FIRST_USER), Ipv4Addr::new(10, 0, 2, FIRST_USER)];
    let mut frame = programs::frame(macs, addresses, FRAME_BYTES - HEADS);
    if is_tagged {
        frame.splice(12..12, [VLAN.to_be_bytes(), [0, 1]].concat());
    }
    frame
}

/// Users who send out of an interface, each to a user of another house. All of a frame that a gateway may have changed is written anew, because the same memory
/// is used for further frames.
pub fn users(interface: u32, macs: [[u8; 6]; 2], is_tagged: bool) -> Result<Flood> {
    let more = if is_tagged { TAG_BYTES } else { 0 };
    Flood::of(interface, at::PAYLOAD + 8 + more, |a| {
        a.store(Width::Eight, R7, at::PAYLOAD + more, R1);
        let [from, to] = macs;
        for (place, pair) in [to, from].concat().as_chunks::<2>().0.iter().enumerate() {
            a.store(Width::Two, R7, 2 * place as i16, i32::from(u16::from_ne_bytes(*pair)));
        }
        a.call(RANDOM);
        // The sender's house in R1, the receiver's in R2, another one.
        part(a, R1, 0, 0xffff, HOUSES.into());
        part(a, R2, 16, 0x7ff, i32::from(HOUSES) - 1);
        a.alu(Alu::Add, R1, 1);
        a.alu(Alu::Add, R2, 1);
        let other = a.label();
        a.branch(When::Less, R2, R1, other);
        a.alu(Alu::Add, R2, 1);
        a.place(other);
        if is_tagged {
            a.store(Width::Two, R7, at::ETHER_TYPE, i32::from(VLAN.to_be()));
            a.alu(Alu::Move, R3, R1);
            a.to_big_endian_16(R3);
            a.store(Width::Two, R7, TAG, R3);
        }
        a.store(Width::Two, R7, at::ETHER_TYPE + more, i32::from(IPV4.to_be()));
        for house in [R1, R2] {
            a.alu(Alu::ShiftLeft, house, 8);
            a.alu(Alu::Or, house, i32::from(FIRST_USER));
            a.alu(Alu::Move, R3, R0);
            a.alu(Alu::ShiftRight, R3, if house == R1 { 3 } else { 27 });
            a.alu(Alu::And, R3, i32::from(USERS) - 1);
            a.alu(Alu::Or, house, R3);
        }
        head(a, more);
    })
}

/// A part of R0, scaled to less than `most`.
fn part(a: &mut Assembler, to: Register, shift: i32, mask: i32, most: i32) {
    a.alu(Alu::Move, to, R0);
    a.alu(Alu::ShiftRight, to, shift);
    a.alu(Alu::And, to, mask);
    a.alu(Alu::Multiply, to, most);
    a.alu(Alu::ShiftRight, to, mask.count_ones().cast_signed());
}

/// Writes what of the IP header differs from frame to frame: the low halves of the addresses from R1 and R2, the hops, and the sum (RFC 1071).
fn head(a: &mut Assembler, more: i16) {
    let length = (FRAME_BYTES - 14) as i32;
    // The words of `programs::frame`'s header that stay, and the high halves of both addresses.
    let rest = 0x4500 + length + 0x0001 + 0x4000 + (i32::from(HOPS) << 8 | 17) + 2 * 0x0a00;
    a.alu(Alu::Move, R3, R1);
    a.alu(Alu::Add, R3, R2);
    a.alu(Alu::Add, R3, rest);
    for _ in 0..2 {
        a.alu(Alu::Move, R4, R3);
        a.alu(Alu::ShiftRight, R4, 16);
        a.alu(Alu::And, R3, 0xffff);
        a.alu(Alu::Add, R3, R4);
    }
    a.alu(Alu::Xor, R3, 0xffff);
    for (value, place) in [(R3, at::SUM), (R1, at::SOURCE + 2), (R2, at::DESTINATION + 2)] {
        a.to_big_endian_16(value);
        a.store(Width::Two, R7, place + more, value);
    }
    a.store(Width::Two, R7, at::SOURCE + more, i32::from(0x0a00_u16.to_be()));
    a.store(Width::Two, R7, at::DESTINATION + more, i32::from(0x0a00_u16.to_be()));
    a.store(Width::One, R7, at::HOPS + more, i32::from(HOPS));
}

/// The counts of the users' end.
#[derive(Clone, Copy, Debug)]
enum Counted {
    /// Packets that came as they had to.
    Right = 0,
    /// Packets with other hops, another tag, or for another station.
    Wrong = 1,
}

/// The users' end: it counts their packets, which nobody sees, and answers who asks for a user's link-layer address.
pub struct Sink {
    /// The program.
    pub program: Program,
    counts: Counts,
}

impl Sink {
    /// At the station of this address, for packets with so many hops less than users gave them.
    pub fn new(own: [u8; 6], hops_less: u8) -> Result<Self> {
        let counts = Counts::new(2, "bench_sink").map_err(|error| anyhow::anyhow!("a count: {error}"))?;
        let mut a = Assembler::new();
        let [pass, tagged] = [a.label(), a.label()];
        a.load(Width::Four, R7, R1, CONTEXT_DATA);
        a.load(Width::Four, R8, R1, CONTEXT_DATA_END);
        reaches(&mut a, at::ARP_END, pass);
        a.load(Width::Two, R3, R7, at::ETHER_TYPE);
        a.branch(When::Equal, R3, i32::from(VLAN.to_be()), tagged);
        sort(&mut a, 0, own, hops_less, &counts);
        a.place(tagged);
        reaches(&mut a, at::ARP_END + TAG_BYTES, pass);
        a.load(Width::Two, R3, R7, at::ETHER_TYPE + TAG_BYTES);
        sort(&mut a, TAG_BYTES, own, hops_less, &counts);
        a.place(pass);
        a.alu(Alu::Move, R0, PASS);
        a.exit();
        Ok(Self { program: programs::load(a, "bench_sink")?, counts })
    }

    /// Packets that came as they had to.
    pub fn right(&self) -> u64 {
        self.counts.get(Counted::Right as usize)
    }

    /// Packets between users that came otherwise.
    pub fn wrong(&self) -> u64 {
        self.counts.get(Counted::Wrong as usize)
    }
}

/// Goes to `else_to` where the frame is shorter.
fn reaches(a: &mut Assembler, bytes: i16, else_to: Label) {
    a.alu(Alu::Move, R4, R7);
    a.alu(Alu::Add, R4, i32::from(bytes));
    a.branch(When::Greater, R4, R8, else_to);
}

/// Does with a frame what is to be done, its kind in R3, all of it so much further on.
fn sort(a: &mut Assembler, more: i16, own: [u8; 6], hops_less: u8, counts: &Counts) {
    let [other, not_ip] = [a.label(), a.label()];
    a.branch(When::NotEqual, R3, i32::from(IPV4.to_be()), not_ip);
    a.load(Width::One, R4, R7, at::PROTOCOL + more);
    a.branch(When::NotEqual, R4, 17, other);
    let [wrong, known] = [a.label(), a.label()];
    for (place, pair) in own.as_chunks::<2>().0.iter().enumerate() {
        a.load(Width::Two, R4, R7, 2 * place as i16);
        a.branch(When::NotEqual, R4, i32::from(u16::from_ne_bytes(*pair)), wrong);
    }
    a.load(Width::One, R4, R7, at::HOPS + more);
    a.branch(When::NotEqual, R4, i32::from(HOPS - hops_less), wrong);
    if more > 0 {
        // A house's VLAN has its number.
        a.load(Width::Two, R4, R7, TAG);
        a.to_big_endian_16(R4);
        a.load(Width::One, R5, R7, at::DESTINATION + 2 + more);
        a.branch(When::NotEqual, R4, R5, wrong);
    }
    a.alu(Alu::Move, R9, Counted::Right as i32);
    a.jump(known);
    a.place(wrong);
    a.alu(Alu::Move, R9, Counted::Wrong as i32);
    a.place(known);
    count(a, counts, other);
    a.place(other);
    a.alu(Alu::Move, R0, DROP);
    a.exit();
    a.place(not_ip);
    let pass = a.label();
    a.branch(When::NotEqual, R3, i32::from(ARP.to_be()), pass);
    answer(a, more, own, pass);
    a.place(pass);
    a.alu(Alu::Move, R0, PASS);
    a.exit();
}

/// Adds one to the count of the number in R9.
fn count(a: &mut Assembler, counts: &Counts, absent: Label) {
    a.store(Width::Four, R10, -4, R9);
    a.map(R1, counts.map().as_fd());
    a.alu(Alu::Move, R2, R10);
    a.alu(Alu::Add, R2, -4);
    a.call(MAP_LOOKUP);
    a.branch(When::Equal, R0, 0, absent);
    // One thread receives there.
    a.load(Width::Eight, R1, R0, 0);
    a.alu(Alu::Add, R1, 1);
    a.store(Width::Eight, R0, 0, R1);
}

/// Answers who asks for a user (RFC 826), and goes to `other` for everything else: nobody else answers for users.
fn answer(a: &mut Assembler, more: i16, own: [u8; 6], other: Label) {
    const REQUEST: u16 = 1;
    const REPLY: u16 = 2;
    a.load(Width::Two, R4, R7, at::ASKS + more);
    a.branch(When::NotEqual, R4, i32::from(REQUEST.to_be()), other);
    a.load(Width::One, R4, R7, at::ASKED + 3 + more);
    a.branch(When::Less, R4, i32::from(FIRST_USER), other);
    a.store(Width::Two, R7, at::ASKS + more, i32::from(REPLY.to_be()));
    for (place, pair) in own.as_chunks::<2>().0.iter().enumerate() {
        let (place, own) = (2 * place as i16, i32::from(u16::from_ne_bytes(*pair)));
        a.load(Width::Two, R4, R7, at::ASKER_MAC + more + place);
        a.store(Width::Two, R7, at::ASKED_MAC + more + place, R4);
        a.store(Width::Two, R7, place, R4);
        a.store(Width::Two, R7, 6 + place, own);
        a.store(Width::Two, R7, at::ASKER_MAC + more + place, own);
    }
    for half in [0, 2] {
        a.load(Width::Two, R4, R7, at::ASKER + more + half);
        a.load(Width::Two, R5, R7, at::ASKED + more + half);
        a.store(Width::Two, R7, at::ASKER + more + half, R5);
        a.store(Width::Two, R7, at::ASKED + more + half, R4);
    }
    a.alu(Alu::Move, R0, TX);
    a.exit();
}

/// Sends all packets of IPv4 back out of the interface by which they came, as they are: the least that a gateway on one port can do.
pub fn redirecting(interface: u32) -> Result<Program> {
    let mut a = Assembler::new();
    let other = a.label();
    a.load(Width::Four, R7, R1, CONTEXT_DATA);
    a.load(Width::Four, R8, R1, CONTEXT_DATA_END);
    reaches(&mut a, at::ARP_END, other);
    a.load(Width::Two, R3, R7, at::ETHER_TYPE);
    a.branch(When::NotEqual, R3, i32::from(IPV4.to_be()), other);
    programs::redirect(&mut a, interface);
    a.place(other);
    a.alu(Alu::Move, R0, PASS);
    a.exit();
    programs::load(a, "bench_redirect")
}
