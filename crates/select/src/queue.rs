//! The program that says which queue of a tap a packet of the kernel's goes to, by the flow's bucket: a card with receive side scaling,
//! whose key and table are ours (`TUNSETSTEERINGEBPF`).
//!
//! A fragment, and a packet of IPv6 with extension headers, is hashed by its addresses alone, as most cards do; what is no packet of IP
//! goes to the first queue.

use crate::bpf::assembly::{Alu, Assembler, Instruction, Label, Register, When, Width};
use crate::bpf::{Map, MapKind, Program, ProgramKind};
use crate::errors::Error;
use crate::hashing::{ADDRESSES, BUCKET, FROM_NETWORK_HEADER, KEY, LOAD_BYTES_RELATIVE, MAP_LOOKUP, PORTS, to_bucket};
use crate::parity::{Family, Mask, masks};
use corelane_rss::{FlowHasher, Protocol, Table};
use std::os::fd::{AsFd, BorrowedFd};

use Register::{R0, R1, R2, R3, R4, R5, R6, R10};

const CONTEXT: Register = R6;
/// `protocol` of `struct __sk_buff`.
const ETHER_TYPE: i16 = 16;
/// The first bytes of a header on the stack.
const HEADER: i16 = -64;
const V4_HEADER_BYTES: i32 = 10;
const V6_HEADER_BYTES: i32 = 8;
/// Where things stand in them (RFC 791, 3.1; RFC 8200, section 3).
const V4_FRAGMENT: i16 = 6;
const V4_PROTOCOL: i16 = 9;
const V6_NEXT: i16 = 6;
const V6_BYTES: i32 = 40;
/// More fragments follow, or this one is not the first.
const FRAGMENT: u16 = 0x3fff;
/// Any protocol without ports.
const OTHER: Protocol = Protocol(253);

/// The program and its table.
#[derive(Debug)]
pub struct QueueSelector {
    table: Map,
    buckets: usize,
    program: Program,
}

impl QueueSelector {
    /// Loads the program for flows that `hasher` hashes. The table's lanes are queues.
    ///
    /// # Errors
    /// Those of [`Map::new`] and [`Program::load`].
    pub fn new(hasher: &FlowHasher, table: &Table) -> Result<Self, Error> {
        let map = Map::new(MapKind::Array, size_of::<u32>(), table.buckets().count(), "corelane_table")?;
        let masks = masks(hasher.toeplitz().key(), table.buckets().bits());
        let program = Program::load(ProgramKind::Filter, &program(hasher, &masks, map.as_fd()), "corelane_queue")?;
        let selector = Self { table: map, buckets: table.buckets().count(), program };
        selector.rewrite(table)?;
        Ok(selector)
    }

    /// Puts another table in force, bucket by bucket: the next packet of a bucket goes where it says.
    ///
    /// # Errors
    /// [`Error::BucketCount`] for one of another size, [`Error::Refused`].
    pub fn rewrite(&self, table: &Table) -> Result<(), Error> {
        let got = table.buckets().count();
        if got != self.buckets {
            return Err(Error::BucketCount { got, expected: self.buckets });
        }
        for bucket in table.buckets().all() {
            let queue = table.lane(bucket) as u32;
            let written = self.table.update(bucket.index(), &queue.to_ne_bytes());
            written.map_err(|fault| Error::Refused { call: "BPF_MAP_UPDATE_ELEM", fault })?;
        }
        Ok(())
    }
}

impl AsFd for QueueSelector {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }
}

fn program(hasher: &FlowHasher, masks: &[Mask], table: BorrowedFd<'_>) -> Vec<Instruction> {
    let mut a = Assembler::new();
    let [v4, v6, select, leave] = [(); 4].map(|()| a.label());
    a.alu(Alu::Move, CONTEXT, R1);
    a.load(Width::Four, R1, CONTEXT, ETHER_TYPE);
    a.branch(When::Equal, R1, i32::from(Family::V4.ether_type().to_be()), v4);
    a.branch(When::Equal, R1, i32::from(Family::V6.ether_type().to_be()), v6);
    a.jump(leave);
    let mut writer = QueueWriter { a, hasher, masks, select, leave };
    writer.a.place(v4);
    writer.v4();
    writer.a.place(v6);
    writer.v6();
    let QueueWriter { mut a, .. } = writer;
    a.place(select);
    a.store(Width::Four, R10, KEY, BUCKET);
    a.map(R1, table);
    a.alu(Alu::Move, R2, R10);
    a.alu(Alu::Add, R2, i32::from(KEY));
    a.call(MAP_LOOKUP);
    a.branch(When::Equal, R0, 0, leave);
    a.load(Width::Four, R0, R0, 0);
    a.exit();
    a.place(leave);
    a.alu(Alu::Move, R0, 0);
    a.exit();
    a.finish()
}

struct QueueWriter<'a> {
    a: Assembler,
    hasher: &'a FlowHasher,
    masks: &'a [Mask],
    /// The bucket is known.
    select: Label,
    /// It is not.
    leave: Label,
}

impl QueueWriter<'_> {
    fn v4(&mut self) {
        let plain = self.a.label();
        self.load(0, V4_HEADER_BYTES, HEADER);
        self.addresses(Family::V4);
        self.a.load(Width::Two, R1, R10, HEADER + V4_FRAGMENT);
        self.a.alu(Alu::And, R1, i32::from(FRAGMENT.to_be()));
        self.a.branch(When::NotEqual, R1, 0, plain);
        self.ports(Family::V4, V4_PROTOCOL, plain);
        self.a.place(plain);
        self.plain(Family::V4);
    }

    fn v6(&mut self) {
        let plain = self.a.label();
        self.load(0, V6_HEADER_BYTES, HEADER);
        self.addresses(Family::V6);
        self.ports(Family::V6, V6_NEXT, plain);
        self.a.place(plain);
        self.plain(Family::V6);
    }

    /// Hashes by addresses and ports what is of a protocol that is hashed so; goes to `plain` with the rest.
    fn ports(&mut self, family: Family, protocol_at: i16, plain: Label) {
        let hashed = self.a.label();
        self.a.load(Width::One, R1, R10, HEADER + protocol_at);
        for protocol in [Protocol::TCP, Protocol::UDP] {
            let kind = family.hash_type(self.hasher, protocol);
            if kind.is_some_and(|kind| kind.takes_ports()) {
                self.a.branch(When::Equal, R1, i32::from(protocol.0), hashed);
            }
        }
        self.a.jump(plain);
        self.a.place(hashed);
        match family {
            Family::V4 => {
                // Its length in words of 4 bytes stands in the lower half of its first byte.
                self.a.load(Width::One, R2, R10, HEADER);
                self.a.alu(Alu::And, R2, 0x0f);
                self.a.alu(Alu::ShiftLeft, R2, 2);
            }
            Family::V6 => self.a.alu(Alu::Move, R2, V6_BYTES),
        }
        self.load_at_r2(4, PORTS);
        to_bucket(&mut self.a, family, true, self.masks);
        self.a.jump(self.select);
    }

    /// Hashes by the addresses alone.
    fn plain(&mut self, family: Family) {
        match family.hash_type(self.hasher, OTHER) {
            Some(_) => {
                to_bucket(&mut self.a, family, false, self.masks);
                self.a.jump(self.select);
            }
            None => self.a.jump(self.leave),
        }
    }

    fn addresses(&mut self, family: Family) {
        self.load(family.addresses_offset() as i32, family.addresses_bytes() as i32, ADDRESSES);
    }

    /// Loads bytes from behind the beginning of the IP header to the stack; what is shorter is left.
    fn load(&mut self, from: i32, bytes: i32, to: i16) {
        self.a.alu(Alu::Move, R2, from);
        self.load_at_r2(bytes, to);
    }

    fn load_at_r2(&mut self, bytes: i32, to: i16) {
        self.a.alu(Alu::Move, R1, CONTEXT);
        self.a.alu(Alu::Move, R3, R10);
        self.a.alu(Alu::Add, R3, i32::from(to));
        self.a.alu(Alu::Move, R4, bytes);
        self.a.alu(Alu::Move, R5, FROM_NETWORK_HEADER);
        self.a.call(LOAD_BYTES_RELATIVE);
        self.a.branch(When::NotEqual, R0, 0, self.leave);
    }
}
