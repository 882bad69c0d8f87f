//! The headers of a packet, as a program reads them: what rules ask for becomes notes, and what its way is looked up by are keys on the stack.
//!
//! Whole packets are read that a router passes on as they are: Ethernet with up to two tags, IPv4 without options and with a right sum, IPv6 without extension headers,
//! and a hop left. All others are the lane's: fragments, headers that are cut short or wrong, other tags.

use super::maps::{KEYS, call};
use super::notes::{self, CONTEXT, COUNTERS, LENGTH, NOW};
use super::ways::{ONE_TAG, SERVICE_VLAN, TOWARDS, TWO_TAGS, VLAN};
use crate::layout::{ICMPV6, IPV4, IPV6, UDP};
use corelane_select::bpf::assembly::{Alu, Assembler, Label, Register, When, Width};
use std::os::fd::BorrowedFd;

use Register::{R0, R1, R2, R3, R4, R5, R7, R8, R10};

const TCP: u8 = 6;
const ICMP: u8 = 1;
/// IPv6's extension headers that a lane walks past (RFC 8200).
const EXTENSIONS: [u8; 5] = [0, 43, 44, 51, 60];
/// More fragments follow, or this one is not the first.
const FRAGMENT: u16 = 0x3fff;
/// Bytes of Ethernet's header.
const LINK: i16 = 14;
/// Of a packet that has no port, and no type or flags.
const NO_PORT: i32 = 1 << 16;
const NONE: i32 = 1 << 8;

/// Writes them: goes on behind with whole keys, or goes to `lane`.
pub struct Headers<'a> {
    pub a: &'a mut Assembler,
    /// Where packets go that the program does not understand.
    pub lane: Label,
    /// The port's place among those of the fast path.
    pub place: u16,
    /// Senders may leave checksums to a card that there is not: such packets are a lane's, which computes them.
    pub leaves_sums: bool,
}

impl Headers<'_> {
    /// Finds the notes and the time, and reads the packet.
    pub fn write(&mut self, counters: BorrowedFd<'_>) {
        self.a.store(Width::Four, R10, KEYS[0], 0);
        self.a.map(R1, counters);
        self.a.alu(Alu::Move, R2, R10);
        self.a.alu(Alu::Add, R2, i32::from(KEYS[0]));
        self.a.call(call::MAP_LOOKUP);
        self.a.branch(When::Equal, R0, 0, self.lane);
        self.a.alu(Alu::Move, R7, R0);
        self.a.call(call::COARSE_TIME);
        self.a.alu(Alu::Move, R8, R0);
        self.a.load(Width::Four, R2, CONTEXT, 0);
        self.a.load(Width::Four, R3, CONTEXT, 4);
        self.tags();
        let [v4, v6, transport] = [(); 3].map(|()| self.a.label());
        self.a.branch(When::Equal, R5, i32::from(IPV4.to_be()), v4);
        self.a.branch(When::Equal, R5, i32::from(IPV6.to_be()), v6);
        self.a.jump(self.lane);
        self.a.place(v4);
        self.v4();
        self.a.jump(transport);
        self.a.place(v6);
        self.v6();
        self.a.place(transport);
        self.transport();
    }

    /// Leaves what has not so many bytes from R2 on to the lane.
    fn reaches(&mut self, bytes: i16) {
        self.a.alu(Alu::Move, R4, R2);
        self.a.alu(Alu::Add, R4, i32::from(bytes));
        self.a.branch(When::Greater, R4, R3, self.lane);
    }

    /// Loads two bytes from R2 on as a number.
    fn half(&mut self, to: Register, offset: i16) {
        self.a.load(Width::Two, to, R2, offset);
        self.a.to_big_endian_16(to);
    }

    fn note(&mut self, at: i16, value: Register) {
        self.a.store(Width::Eight, COUNTERS, at, value);
    }

    /// Walks over the tags: the type behind them is in R5 then as it stands there, and R2 so many bytes on. Begins the keys.
    fn tags(&mut self) {
        let [one, two, done] = [(); 3].map(|()| self.a.label());
        self.reaches(LINK);
        self.a.load(Width::Two, R5, R2, 12);
        self.a.alu(Alu::Move, R1, 0);
        self.a.store(Width::Eight, COUNTERS, notes::TAGS_IN, 0);
        self.a.branch(When::Equal, R5, i32::from(VLAN.to_be()), one);
        self.a.branch(When::NotEqual, R5, i32::from(SERVICE_VLAN.to_be()), done);
        self.a.jump(two);
        self.a.place(one);
        self.a.store(Width::Eight, COUNTERS, notes::TAGS_IN, 4);
        self.a.alu(Alu::Move, R1, ONE_TAG as i32);
        self.tag(0);
        self.a.jump(done);
        self.a.place(two);
        self.a.store(Width::Eight, COUNTERS, notes::TAGS_IN, 8);
        self.a.alu(Alu::Move, R1, TWO_TAGS as i32);
        self.tag(12);
        self.a.branch(When::NotEqual, R5, i32::from(VLAN.to_be()), self.lane);
        self.tag(0);
        self.a.place(done);
        self.a.store(Width::Four, R10, KEYS[0], R1);
        self.a.store(Width::Four, R10, KEYS[1], TOWARDS.cast_signed());
        self.a.load(Width::Four, R1, CONTEXT, 16);
        self.a.alu(Alu::Or, R1, i32::from(self.place) << 16);
        KEYS.iter().for_each(|key| self.a.store(Width::Four, R10, key + 4, R1));
    }

    /// Adds a tag's number to R1, and loads the type behind it.
    fn tag(&mut self, shift: i32) {
        self.reaches(LINK + 4);
        self.half(R4, LINK);
        self.a.alu(Alu::And, R4, 0xfff);
        self.a.alu(Alu::ShiftLeft, R4, shift);
        self.a.alu(Alu::Or, R1, R4);
        self.a.load(Width::Two, R5, R2, LINK + 2);
        self.a.alu(Alu::Add, R2, 4);
    }

    /// Goes on with the protocol in R0, bytes of what is carried in R1, and R2 14 bytes in front of it.
    fn v4(&mut self) {
        self.reaches(LINK + 20);
        self.a.load(Width::One, R5, R2, LINK);
        self.a.branch(When::NotEqual, R5, 0x45, self.lane);
        self.a.load(Width::Two, R5, R2, LINK + 6);
        self.a.alu(Alu::And, R5, i32::from(FRAGMENT.to_be()));
        self.a.branch(When::NotEqual, R5, 0, self.lane);
        self.a.load(Width::One, R5, R2, LINK + 8);
        self.a.branch(When::Less, R5, 2, self.lane);
        self.half(LENGTH, LINK + 2);
        self.a.branch(When::Less, LENGTH, 20, self.lane);
        self.holds_packet();
        self.sum_v4();
        self.a.store(Width::Eight, COUNTERS, notes::FAMILY, 0);
        self.a.wide(R0, 0xffff << 32);
        for (at, from, key) in [(notes::SOURCE, 12, KEYS[0]), (notes::DESTINATION, 16, KEYS[1])] {
            self.a.store(Width::Eight, COUNTERS, at, 0);
            self.a.load(Width::Four, R4, R2, LINK + from);
            self.a.store(Width::Four, R10, key + 8, R4);
            // The kernel's check knows of no family later, and sees a key of the other as well.
            self.a.store(Width::Four, R10, key + 12, 0);
            self.a.store(Width::Eight, R10, key + 16, 0);
            self.a.to_big_endian_32(R4);
            self.a.alu(Alu::Or, R4, R0);
            self.note(at + notes::LOW, R4);
        }
        self.a.load(Width::One, R0, R2, LINK + 9);
        self.note(notes::PROTOCOL, R0);
        self.a.alu(Alu::Move, R1, LENGTH);
        self.a.alu(Alu::Add, R1, -20);
        self.a.alu(Alu::Add, R2, 20);
    }

    /// Leaves a header of IPv4 whose sum is wrong to the lane.
    fn sum_v4(&mut self) {
        self.a.load(Width::Four, R5, R2, LINK);
        for at in [4, 8] {
            self.a.load(Width::Four, R4, R2, LINK + at);
            self.a.alu(Alu::Add, R5, R4);
        }
        self.a.load(Width::Four, R1, R2, LINK + 12);
        self.a.load(Width::Four, R4, R2, LINK + 16);
        self.a.alu(Alu::Add, R1, R4);
        if self.leaves_sums {
            self.note(notes::ADDRESSES, R1);
        }
        self.a.alu(Alu::Add, R5, R1);
        self.fold(R5, R4);
        self.a.branch(When::NotEqual, R5, 0xffff, self.lane);
    }

    /// Folds a sum of words of 4 bytes to one of words of 2.
    fn fold(&mut self, sum: Register, aside: Register) {
        for _ in 0..3 {
            self.a.alu(Alu::Move, aside, sum);
            self.a.alu(Alu::ShiftRight, aside, 16);
            self.a.alu(Alu::And, sum, 0xffff);
            self.a.alu(Alu::Add, sum, aside);
        }
    }

    fn v6(&mut self) {
        self.reaches(LINK + 40);
        self.a.load(Width::One, R1, R2, LINK);
        self.a.alu(Alu::ShiftRight, R1, 4);
        self.a.branch(When::NotEqual, R1, 6, self.lane);
        self.a.load(Width::One, R5, R2, LINK + 7);
        self.a.branch(When::Less, R5, 2, self.lane);
        self.half(LENGTH, LINK + 4);
        self.a.alu(Alu::Add, LENGTH, 40);
        self.holds_packet();
        self.a.store(Width::Eight, COUNTERS, notes::FAMILY, 1);
        for (at, from, key) in [(notes::SOURCE, 8, KEYS[0]), (notes::DESTINATION, 24, KEYS[1])] {
            for half in [0, notes::LOW] {
                self.a.load(Width::Eight, R4, R2, LINK + from + half);
                self.a.store(Width::Eight, R10, key + 8 + half, R4);
                self.a.to_big_endian_64(R4);
                self.note(at + half, R4);
            }
        }
        if self.leaves_sums {
            self.a.alu(Alu::Move, R5, 0);
            for at in (8..40).step_by(4) {
                self.a.load(Width::Four, R4, R2, LINK + at);
                self.a.alu(Alu::Add, R5, R4);
            }
            self.note(notes::ADDRESSES, R5);
        }
        self.a.load(Width::One, R0, R2, LINK + 6);
        self.note(notes::PROTOCOL, R0);
        for extension in EXTENSIONS {
            self.a.branch(When::Equal, R0, i32::from(extension), self.lane);
        }
        self.a.alu(Alu::Move, R1, LENGTH);
        self.a.alu(Alu::Add, R1, -40);
        self.a.alu(Alu::Add, R2, 40);
    }

    /// Leaves a packet of which the frame holds fewer bytes than its header says to the lane.
    fn holds_packet(&mut self) {
        self.a.alu(Alu::Move, R4, R2);
        self.a.alu(Alu::Add, R4, LENGTH);
        self.a.alu(Alu::Add, R4, i32::from(LINK));
        self.a.branch(When::Greater, R4, R3, self.lane);
    }

    fn transport(&mut self) {
        let done = self.a.label();
        for (at, none) in [
            (notes::SOURCE_PORT, NO_PORT),
            (notes::DESTINATION_PORT, NO_PORT),
            (notes::FLAGS, NONE),
            (notes::ICMP, NONE),
            (notes::ICMP6, NONE),
        ] {
            self.a.store(Width::Eight, COUNTERS, at, none);
        }
        let [tcp, udp, ports, icmp, icmp6] = [(); 5].map(|()| self.a.label());
        for (protocol, label) in [(TCP, tcp), (UDP, udp), (ICMP, icmp), (ICMPV6, icmp6)] {
            self.a.branch(When::Equal, R0, i32::from(protocol), label);
        }
        self.a.jump(done);
        self.a.place(tcp);
        self.carries(20);
        self.a.load(Width::One, R5, R2, LINK + 12);
        self.a.alu(Alu::ShiftRight, R5, 4);
        self.a.branch(When::Less, R5, 5, self.lane);
        self.a.alu(Alu::ShiftLeft, R5, 2);
        self.a.branch(When::Less, R1, R5, self.lane);
        self.a.load(Width::One, R5, R2, LINK + 13);
        self.note(notes::FLAGS, R5);
        self.sum_is_there(TCP, 16);
        self.a.jump(ports);
        self.a.place(udp);
        self.carries(8);
        self.sum_is_there(UDP, 6);
        self.a.place(ports);
        self.half(R5, LINK);
        self.note(notes::SOURCE_PORT, R5);
        self.half(R5, LINK + 2);
        self.note(notes::DESTINATION_PORT, R5);
        self.a.jump(done);
        for (label, family, at) in [(icmp, 0, notes::ICMP), (icmp6, 1, notes::ICMP6)] {
            self.a.place(label);
            self.a.load(Width::Eight, R5, COUNTERS, notes::FAMILY);
            self.a.branch(When::NotEqual, R5, family, done);
            self.carries(8);
            self.a.load(Width::One, R5, R2, LINK);
            self.note(at, R5);
            self.a.jump(done);
        }
        self.a.place(done);
    }

    /// Leaves a packet that has the sum of its pseudo-header where its checksum should stand to the lane, if a sender may have left it so.
    fn sum_is_there(&mut self, protocol: u8, at: i16) {
        if !self.leaves_sums {
            return;
        }
        self.a.load(Width::Eight, R5, COUNTERS, notes::ADDRESSES);
        self.a.alu(Alu::Move, R0, R1);
        self.a.to_big_endian_16(R0);
        self.a.alu(Alu::Add, R5, R0);
        self.a.alu(Alu::Add, R5, i32::from(u16::from(protocol).to_be()));
        self.fold(R5, R0);
        self.a.load(Width::Two, R4, R2, LINK + at);
        self.a.branch(When::Equal, R4, R5, self.lane);
    }

    /// Leaves a packet that carries fewer bytes to the lane.
    fn carries(&mut self, bytes: i16) {
        self.a.branch(When::Less, R1, i32::from(bytes), self.lane);
        self.reaches(LINK + bytes);
    }
}

const _: () = assert!(NOW as u8 == R8 as u8 && COUNTERS as u8 == R7 as u8);
