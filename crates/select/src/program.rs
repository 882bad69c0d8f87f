//! The program that selects a socket by the flow's bucket (`BPF_PROG_TYPE_SK_REUSEPORT`).
//!
//! The kernel runs it for the first packet of a connection and for each datagram to a socket without a peer; and for each
//! connection whose listener closes before it was accepted, which it calls migrating. Then there may be no packet, so the
//! tuple comes from the connection. Other than these, a packet is at its transport header; IP options, extension headers and
//! fragments lie behind.

use crate::bpf::assembly::{Alu, Assembler, Instruction, Label, Register, When, Width};
use crate::hashing::{ADDRESSES, BUCKET, FROM_NETWORK_HEADER, KEY, LOAD_BYTES_RELATIVE, MAP_LOOKUP, PORTS, to_bucket};
use crate::parity::{Family, Mask, masks};
use corelane_rss::{Buckets, FlowHasher, HashType, Protocol};
use std::os::fd::BorrowedFd;

use Register::{R0, R1, R2, R3, R4, R5, R6, R10};

/// A function of the kernel (bpf-helpers(7)).
const SELECT_SOCKET: i32 = 82;
/// `SK_PASS`. Without a selected socket the kernel's own hash chooses one.
const PASS: i32 = 1;

/// Where things stand in `struct sk_reuseport_md`.
mod context {
    pub const DATA: i16 = 0;
    pub const DATA_END: i16 = 8;
    pub const ETHER_TYPE: i16 = 20;
    pub const MIGRATING: i16 = 48;
}

/// Where things stand in `struct bpf_sock`. The destination is the remote end.
mod socket {
    pub const FAMILY: i16 = 4;
    pub const SOURCE_V4: i16 = 24;
    pub const SOURCE_V6: i16 = 28;
    /// In the machine's byte order, unlike all others.
    pub const SOURCE_PORT: i16 = 44;
    pub const DESTINATION_PORT: i16 = 48;
    pub const DESTINATION_V4: i16 = 52;
    pub const DESTINATION_V6: i16 = 56;
}

/// Whether a connection migrates.
const MIGRATES: i16 = -48;
const CONTEXT: Register = R6;

/// What one lane has of the counts, on each CPU: two counters of 8 bytes. One behind the last lane's is that of all that was
/// left to the kernel.
pub(super) const COUNTS_BYTES: usize = 16;
const COUNT_MIGRATION: i16 = 8;

/// The maps that the program uses.
#[derive(Clone, Copy)]
pub(super) struct Maps<'a> {
    /// The lane of each bucket, 4 bytes.
    pub table: BorrowedFd<'a>,
    /// Each lane's socket.
    pub sockets: BorrowedFd<'a>,
    /// [`COUNTS_BYTES`] for each lane, and for those without.
    pub counts: BorrowedFd<'a>,
    /// How many lanes there are.
    pub lanes: usize,
}

/// The program for flows of one protocol.
pub(super) fn program(hasher: &FlowHasher, buckets: Buckets, protocol: Protocol, maps: Maps<'_>) -> Vec<Instruction> {
    let mut assembler = Assembler::new();
    let labels = Labels {
        v4: assembler.label(),
        v6: assembler.label(),
        packet: assembler.label(),
        select: assembler.label(),
        leave: assembler.label(),
    };
    let masks = masks(hasher.toeplitz().key(), buckets.bits());
    assert!(maps.lanes > 0 && 1 << masks.len() == buckets.count(), "a bit of the bucket has a mask");
    let mut writer = SelectionWriter { assembler, labels, maps };
    writer.tuple_of_connection();
    writer.tuple_of_packet();
    for (family, label) in [(Family::V4, labels.v4), (Family::V6, labels.v6)] {
        writer.assembler.place(label);
        writer.hash(family, family.hash_type(hasher, protocol), &masks);
    }
    writer.select();
    writer.leave();
    writer.assembler.finish()
}

#[derive(Clone, Copy)]
struct Labels {
    /// Addresses and ports are on the stack, and of that family.
    v4: Label,
    v6: Label,
    /// Nothing migrates.
    packet: Label,
    /// The bucket is known.
    select: Label,
    /// Leave it to the kernel.
    leave: Label,
}

struct SelectionWriter<'a> {
    assembler: Assembler,
    labels: Labels,
    maps: Maps<'a>,
}

impl SelectionWriter<'_> {
    /// Takes the tuple of the connection that migrates, if one does. One that came by IPv4 to a socket of IPv6 has its
    /// addresses mapped.
    fn tuple_of_connection(&mut self) {
        let Self { assembler: a, labels, .. } = self;
        let v4 = a.label();
        a.alu(Alu::Move, CONTEXT, R1);
        a.store(Width::Eight, R10, MIGRATES, 0);
        a.load(Width::Eight, R1, CONTEXT, context::MIGRATING);
        a.branch(When::Equal, R1, 0, labels.packet);
        a.store(Width::Eight, R10, MIGRATES, 1);
        a.load(Width::Two, R2, R1, socket::DESTINATION_PORT);
        a.store(Width::Two, R10, PORTS, R2);
        a.load(Width::Four, R2, R1, socket::SOURCE_PORT);
        a.to_big_endian_16(R2);
        a.store(Width::Two, R10, PORTS + 2, R2);
        a.load(Width::Four, R2, R1, socket::FAMILY);
        a.branch(When::Equal, R2, libc::AF_INET, v4);
        for word in 0..4 {
            a.load(Width::Four, R2, R1, socket::DESTINATION_V6 + 4 * word);
            a.store(Width::Four, R10, ADDRESSES + 4 * word, R2);
            a.load(Width::Four, R3, R1, socket::SOURCE_V6 + 4 * word);
            a.store(Width::Four, R10, ADDRESSES + 16 + 4 * word, R3);
        }
        a.load(Width::Eight, R2, R10, ADDRESSES);
        a.branch(When::NotEqual, R2, 0, labels.v6);
        a.load(Width::Four, R2, R10, ADDRESSES + 8);
        // As a number in the instruction it would have its sign extended.
        a.wide(R3, u32::from_ne_bytes([0, 0, 0xff, 0xff]).into());
        a.branch(When::NotEqual, R2, R3, labels.v6);
        a.place(v4);
        for (from, to) in [(socket::DESTINATION_V4, ADDRESSES), (socket::SOURCE_V4, ADDRESSES + 4)] {
            a.load(Width::Four, R2, R1, from);
            a.store(Width::Four, R10, to, R2);
        }
        a.jump(labels.v4);
    }

    fn tuple_of_packet(&mut self) {
        let Self { assembler: a, labels, .. } = self;
        let v6 = a.label();
        a.place(labels.packet);
        a.load(Width::Eight, R2, CONTEXT, context::DATA);
        a.load(Width::Eight, R3, CONTEXT, context::DATA_END);
        a.alu(Alu::Move, R4, R2);
        a.alu(Alu::Add, R4, 4);
        a.branch(When::Greater, R4, R3, labels.leave);
        a.load(Width::Four, R2, R2, 0);
        a.store(Width::Four, R10, PORTS, R2);
        a.load(Width::Four, R1, CONTEXT, context::ETHER_TYPE);
        a.branch(When::Equal, R1, i32::from(Family::V6.ether_type().to_be()), v6);
        a.branch(When::NotEqual, R1, i32::from(Family::V4.ether_type().to_be()), labels.leave);
        self.addresses(Family::V4, self.labels.v4);
        self.assembler.place(v6);
        self.addresses(Family::V6, self.labels.v6);
    }

    fn addresses(&mut self, family: Family, then: Label) {
        let a = &mut self.assembler;
        a.alu(Alu::Move, R1, CONTEXT);
        a.alu(Alu::Move, R2, family.addresses_offset() as i32);
        a.alu(Alu::Move, R3, R10);
        a.alu(Alu::Add, R3, i32::from(ADDRESSES));
        a.alu(Alu::Move, R4, family.addresses_bytes() as i32);
        a.alu(Alu::Move, R5, FROM_NETWORK_HEADER);
        a.call(LOAD_BYTES_RELATIVE);
        a.branch(When::NotEqual, R0, 0, self.labels.leave);
        a.jump(then);
    }

    /// From the input on the stack to the bucket.
    fn hash(&mut self, family: Family, hash_type: Option<HashType>, masks: &[Mask]) {
        if let Some(hash_type) = hash_type {
            to_bucket(&mut self.assembler, family, hash_type.takes_ports(), masks);
            self.assembler.jump(self.labels.select);
        } else {
            self.assembler.jump(self.labels.leave);
        }
    }

    /// From the bucket to the lane, its socket, and the count.
    fn select(&mut self) {
        let (maps, labels) = (self.maps, self.labels);
        self.assembler.place(labels.select);
        self.assembler.store(Width::Four, R10, KEY, BUCKET);
        self.look_up(maps.table);
        let a = &mut self.assembler;
        a.branch(When::Equal, R0, 0, labels.leave);
        a.load(Width::Four, R2, R0, 0);
        a.store(Width::Four, R10, KEY, R2);
        a.alu(Alu::Move, R1, CONTEXT);
        a.map(R2, maps.sockets);
        self.key(R3);
        let a = &mut self.assembler;
        a.alu(Alu::Move, R4, 0);
        a.call(SELECT_SOCKET);
        a.branch(When::NotEqual, R0, 0, labels.leave);
        self.count();
    }

    fn leave(&mut self) {
        self.assembler.place(self.labels.leave);
        self.assembler.store(Width::Four, R10, KEY, self.maps.lanes as i32);
        self.count();
    }

    /// Counts at the key, and ends. The place is this CPU's, and no two programs of one CPU run at a time.
    fn count(&mut self) {
        self.look_up(self.maps.counts);
        let a = &mut self.assembler;
        let (migration, end) = (a.label(), a.label());
        a.branch(When::Equal, R0, 0, end);
        a.load(Width::Eight, R1, R10, MIGRATES);
        a.branch(When::NotEqual, R1, 0, migration);
        for (label, offset) in [(None, 0), (Some(migration), COUNT_MIGRATION)] {
            label.into_iter().for_each(|label| a.place(label));
            a.load(Width::Eight, R1, R0, offset);
            a.alu(Alu::Add, R1, 1);
            a.store(Width::Eight, R0, offset, R1);
            a.jump(end);
        }
        a.place(end);
        a.alu(Alu::Move, R0, PASS);
        a.exit();
    }

    fn look_up(&mut self, map: BorrowedFd) {
        self.assembler.map(R1, map);
        self.key(R2);
        self.assembler.call(MAP_LOOKUP);
    }

    fn key(&mut self, to: Register) {
        self.assembler.alu(Alu::Move, to, R10);
        self.assembler.alu(Alu::Add, to, i32::from(KEY));
    }
}
