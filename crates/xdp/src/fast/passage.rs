//! A packet's passage: its way is looked up, and then it leaves by that.

use super::maps::{KEYS, Maps, call};
use super::notes::{self, CONTEXT, COUNTERS, LENGTH, NOW};
use super::ways::{Half, KEY_BYTES, MIXER, at};
use crate::layout::{IPV4, IPV6};
use corelane_select::bpf::assembly::{Alu, Assembler, Label, Register, When, Width};

use Register::{R0, R1, R2, R3, R4, R5, R10};

/// Where the mixture of a key stands, and a number by which traffic is looked up.
const MIXTURE: i16 = KEYS[0] - 8;
const NUMBER: i16 = KEYS[0] - 16;
/// TCP's SYN among its flags.
const SYN: i32 = 2;
/// Bytes of Ethernet's header, and of IPv4's.
const LINK: i16 = 14;
const V4_BYTES: i16 = 20;
/// What a program answers.
const ABORTED: i32 = 0;
const DROP: i32 = 1;

/// What stands where in an interface's traffic: packets and bytes that came by it and went on, that left by it, and packets that rules dropped.
pub mod traffic {
    pub const IN: i16 = 0;
    pub const OUT: i16 = 16;
    pub const DENIED: i16 = 32;
    pub const VALUE_BYTES: usize = 40;
}

/// Looks both halves of the packet's way up, and notes them. Goes to `lane` where there is none for this packet.
pub fn find(a: &mut Assembler, maps: &Maps, lane: Label) {
    differ(a, lane);
    look_up(a, maps, Half::Source, lane);
    station(a, lane);
    note(a, &[], notes::RECEIVE, lane);
    look_up(a, maps, Half::Destination, lane);
    a.load(Width::Two, R1, R0, at::MTU);
    a.branch(When::Greater, LENGTH, R1, lane);
    a.load(Width::One, R1, R0, at::TAG_BYTES);
    a.store(Width::Eight, COUNTERS, notes::TAGS_OUT, R1);
    note(a, &[0, 8, 16], notes::TRANSMIT, lane);
}

/// Leaves a packet from an address to itself ("land") to the lane.
fn differ(a: &mut Assembler, lane: Label) {
    let passes = a.label();
    for half in [8, 16] {
        a.load(Width::Eight, R1, R10, KEYS[0] + half);
        a.load(Width::Eight, R2, R10, KEYS[1] + half);
        a.branch(When::NotEqual, R1, R2, passes);
    }
    a.jump(lane);
    a.place(passes);
}

/// Looks up one half: it is in R0 then, and holds.
fn look_up(a: &mut Assembler, maps: &Maps, half: Half, lane: Label) {
    let [v6, found] = [(); 2].map(|()| a.label());
    let key = KEYS[half as usize];
    a.wide(R4, MIXER);
    a.load(Width::Eight, R2, COUNTERS, notes::FAMILY);
    a.load(Width::Eight, R1, R10, key);
    a.branch(When::NotEqual, R2, 0, v6);
    for (label, family) in [(None, 0), (Some(v6), 1)] {
        label.into_iter().for_each(|label| a.place(label));
        for word in (8..KEY_BYTES[family] as i16).step_by(8) {
            let width = if word as usize + 8 > KEY_BYTES[family] { Width::Four } else { Width::Eight };
            a.alu(Alu::Multiply, R1, R4);
            a.load(width, R5, R10, key + word);
            a.alu(Alu::Add, R1, R5);
        }
        a.store(Width::Eight, R10, MIXTURE, R1);
        a.map(R1, maps.ways[half as usize][family]);
        a.alu(Alu::Move, R2, R10);
        a.alu(Alu::Add, R2, i32::from(key));
        a.call(call::MAP_LOOKUP);
        a.jump(found);
    }
    a.place(found);
    a.branch(When::Equal, R0, 0, lane);
    a.load(Width::Eight, R1, R0, at::UNTIL);
    a.branch(When::Greater, NOW, R1, lane);
    a.map_value(R2, maps.generation);
    a.load(Width::Four, R2, R2, 0);
    a.load(Width::Four, R3, R0, at::GENERATION);
    a.branch(When::NotEqual, R2, R3, lane);
    opening(a, lane);
}

/// Leaves packets that open connections to the lane, if the half says so.
fn opening(a: &mut Assembler, lane: Label) {
    let passes = a.label();
    a.load(Width::One, R1, R0, at::OPENING);
    a.branch(When::Equal, R1, 0, passes);
    a.load(Width::Eight, R1, COUNTERS, notes::FLAGS);
    // The number of a packet without flags has none of their bits.
    a.alu(Alu::And, R1, SYN);
    a.branch(When::NotEqual, R1, 0, lane);
    a.place(passes);
}

/// Leaves frames that are for another station to the lane.
fn station(a: &mut Assembler, lane: Label) {
    a.load(Width::Four, R2, CONTEXT, 0);
    a.load(Width::Four, R3, CONTEXT, 4);
    a.alu(Alu::Move, R4, R2);
    a.alu(Alu::Add, R4, i32::from(LINK));
    a.branch(When::Greater, R4, R3, lane);
    for (width, part) in [(Width::Four, 0), (Width::Two, 4)] {
        a.load(width, R4, R2, part);
        a.load(width, R5, R0, at::STATION + part);
        a.branch(When::NotEqual, R4, R5, lane);
    }
}

/// Notes the interface of a half, and these words from the header of the link on. Then it looks whether the half is still this packet's.
fn note(a: &mut Assembler, words: &[i16], interface: i16, lane: Label) {
    a.load(Width::Two, R1, R0, at::INTERFACE);
    a.store(Width::Eight, COUNTERS, interface, R1);
    for word in words {
        a.load(Width::Eight, R1, R0, at::HEAD + word);
        a.store(Width::Eight, COUNTERS, notes::WAY + word, R1);
    }
    a.load(Width::Eight, R1, R0, 0);
    a.load(Width::Eight, R2, R10, MIXTURE);
    a.branch(When::NotEqual, R1, R2, lane);
}

/// Moves the beginning of the frame to where it is to be. Where there is no room, it is left as it was, and the lane's. From there on no packet is.
pub fn fit_tags(a: &mut Assembler, lane: Label) {
    let fits = a.label();
    a.load(Width::Eight, R2, COUNTERS, notes::TAGS_IN);
    a.load(Width::Eight, R1, COUNTERS, notes::TAGS_OUT);
    a.alu(Alu::Subtract, R2, R1);
    a.branch(When::Equal, R2, 0, fits);
    a.alu(Alu::Move, R1, CONTEXT);
    a.call(call::ADJUST_HEAD);
    a.branch(When::NotEqual, R0, 0, lane);
    a.place(fits);
}

/// Counts a packet that rules drop, and drops it.
pub fn deny(a: &mut Assembler, maps: &Maps) {
    let gone = a.label();
    count(a, maps, notes::RECEIVE, gone);
    a.load(Width::Eight, R1, R0, traffic::DENIED);
    a.alu(Alu::Add, R1, 1);
    a.store(Width::Eight, R0, traffic::DENIED, R1);
    a.place(gone);
    a.alu(Alu::Move, R0, DROP);
    a.exit();
}

/// Looks up the traffic of an interface, or goes on at the label.
fn count(a: &mut Assembler, maps: &Maps, interface: i16, absent: Label) {
    a.load(Width::Eight, R1, COUNTERS, interface);
    a.store(Width::Four, R10, NUMBER, R1);
    a.map(R1, maps.traffic);
    a.alu(Alu::Move, R2, R10);
    a.alu(Alu::Add, R2, i32::from(NUMBER));
    a.call(call::MAP_LOOKUP);
    a.branch(When::Equal, R0, 0, absent);
}

/// Takes a hop from the packet, writes the header of the link, counts its traffic, and redirects it.
pub fn leave(a: &mut Assembler, maps: &Maps) {
    let [v6, typed, aborted] = [(); 3].map(|()| a.label());
    for (interface, place) in [(notes::RECEIVE, traffic::IN), (notes::TRANSMIT, traffic::OUT)] {
        let absent = a.label();
        count(a, maps, interface, absent);
        a.load(Width::Eight, R1, R0, place);
        a.alu(Alu::Add, R1, 1);
        a.store(Width::Eight, R0, place, R1);
        a.load(Width::Eight, R1, R0, place + 8);
        a.alu(Alu::Add, R1, LENGTH);
        a.store(Width::Eight, R0, place + 8, R1);
        a.place(absent);
    }
    // R2 is in front of the frame, and R5 of its last 14 bytes before the packet.
    a.load(Width::Four, R2, CONTEXT, 0);
    a.load(Width::Four, R3, CONTEXT, 4);
    a.load(Width::Eight, R5, COUNTERS, notes::TAGS_OUT);
    a.alu(Alu::And, R5, 12);
    a.alu(Alu::Add, R5, R2);
    for register in [R2, R5] {
        a.alu(Alu::Move, R4, register);
        a.alu(Alu::Add, R4, i32::from(LINK + V4_BYTES));
        a.branch(When::Greater, R4, R3, aborted);
    }
    head(a);
    a.load(Width::Eight, R1, COUNTERS, notes::FAMILY);
    a.branch(When::NotEqual, R1, 0, v6);
    hop_v4(a);
    a.store(Width::Two, R5, 12, i32::from(IPV4.to_be().cast_signed()));
    a.jump(typed);
    a.place(v6);
    a.load(Width::One, R1, R5, LINK + 7);
    a.alu(Alu::Add, R1, -1);
    a.store(Width::One, R5, LINK + 7, R1);
    a.store(Width::Two, R5, 12, i32::from(IPV6.to_be().cast_signed()));
    a.place(typed);
    a.map(R1, maps.devices);
    a.load(Width::Two, R2, COUNTERS, notes::WAY + at::PLACE - at::HEAD);
    a.alu(Alu::Move, R3, DROP);
    a.call(call::REDIRECT_MAP);
    a.exit();
    a.place(aborted);
    a.alu(Alu::Move, R0, ABORTED);
    a.exit();
}

/// Writes the addresses and the tags from R2 on.
fn head(a: &mut Assembler) {
    let (more, done) = (a.label(), a.label());
    a.load(Width::Eight, R1, COUNTERS, notes::WAY);
    a.store(Width::Eight, R2, 0, R1);
    a.load(Width::Eight, R4, COUNTERS, notes::TAGS_OUT);
    a.branch(When::NotEqual, R4, 0, more);
    a.load(Width::Four, R1, COUNTERS, notes::WAY + 8);
    a.store(Width::Four, R2, 8, R1);
    a.jump(done);
    a.place(more);
    a.load(Width::Eight, R1, COUNTERS, notes::WAY + 8);
    a.store(Width::Eight, R2, 8, R1);
    a.branch(When::Equal, R4, 4, done);
    a.load(Width::Four, R1, COUNTERS, notes::WAY + 16);
    a.store(Width::Four, R2, 16, R1);
    a.place(done);
}

/// Takes a hop from a header of IPv4 behind R5, and changes its sum by as much (RFC 1624, equation 3).
fn hop_v4(a: &mut Assembler) {
    a.load(Width::One, R1, R5, LINK + 8);
    a.alu(Alu::Add, R1, -1);
    a.store(Width::One, R5, LINK + 8, R1);
    a.load(Width::Two, R1, R5, LINK + 10);
    a.to_big_endian_16(R1);
    a.alu(Alu::Xor, R1, 0xffff);
    // The word with the hops is less by 256: its complement before and it itself after have this sum.
    a.alu(Alu::Add, R1, 0xfeff);
    a.alu(Alu::Move, R4, R1);
    a.alu(Alu::ShiftRight, R4, 16);
    a.alu(Alu::Add, R1, R4);
    a.alu(Alu::Xor, R1, 0xffff);
    a.to_big_endian_16(R1);
    a.store(Width::Two, R5, LINK + 10, R1);
}
