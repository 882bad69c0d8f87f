//! The program that decides, for each piece of what a connection has received, whether it goes on to the other or to the lane.

use crate::words::{Counted, Say};
use corelane_select::bpf::assembly::{Alu, Assembler, Instruction, Label, Register, When, Width};
use std::mem::offset_of;
use std::os::fd::BorrowedFd;

use Register::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};

/// `SK_PASS`: to where it was redirected, or else to who reads the connection.
const PASS: i32 = 1;
const DROP: i32 = 0;
const LOOKUP: i32 = 1;
const SOCKET_COOKIE: i32 = 46;
const ADJUST_ROOM: i32 = 50;
const REDIRECT: i32 = 52;
const RING_OUTPUT: i32 = 130;
/// `BPF_RB_FORCE_WAKEUP`.
const WAKES: i32 = 2;
/// Where a piece has its length, and its place in the stream with the place behind it: the kernel keeps `seq` and `end_seq` of `tcp_skb_cb` first among what a program sees as `cb`.
const LENGTH: i16 = 0;
const FIRST: i16 = 48;
const BEHIND: i16 = 52;
/// [`ADJUST_ROOM`] takes so many bytes off at once, and so many times it is asked.
const TRIM_BYTES: i32 = 0xfff;
const TRIMS: usize = 33;
/// Where on the stack the cookie, and the direction's number stand: as a key of 4 bytes, and as what is told, of 8.
const COOKIE: i16 = -8;
const DIRECTION: i16 = -16;

/// What it looks things up in.
pub(crate) struct Maps<'a> {
    pub(crate) connections: BorrowedFd<'a>,
    pub(crate) directions: BorrowedFd<'a>,
    pub(crate) said: BorrowedFd<'a>,
    pub(crate) counted: BorrowedFd<'a>,
    pub(crate) bells: BorrowedFd<'a>,
}

const fn field(offset: usize) -> i16 {
    assert!(offset < 64, "a value has few fields");
    offset as i16
}

/// R0 is the value of this key, and if there is none it goes to `absent`.
fn look_up(a: &mut Assembler, map: BorrowedFd<'_>, key: i16, absent: Label) {
    a.map(R1, map);
    a.alu(Alu::Move, R2, R10);
    a.alu(Alu::Add, R2, i32::from(key));
    a.call(LOOKUP);
    a.branch(When::Equal, R0, 0, absent);
}

/// Adds R7 to a count. Whoever looks sees that before anything that is loaded later: so either the program sees that its last bell was heard, or the lane that there is more ([`ring`]).
fn add(a: &mut Assembler, count: usize) {
    a.alu(Alu::Move, R1, R7);
    a.fetch_add(R9, field(count), R1);
}

/// Keeps the low 32 bits, as numbers of TCP's have them.
fn wrap(a: &mut Assembler, register: Register) {
    a.alu(Alu::ShiftLeft, register, 32);
    a.alu(Alu::ShiftRight, register, 32);
}

/// R6 is the piece, R7 its length, R8 what the lane has said, R9 what is counted. It runs under the lock of the connection that has received, so a direction's pieces come one by one.
pub(crate) fn assembled(maps: &Maps<'_>) -> Vec<Instruction> {
    let mut a = Assembler::new();
    let [ours, lanes, told, end, spoiled, judged] = [(); 6].map(|()| a.label());
    a.alu(Alu::Move, R6, R1);
    a.call(SOCKET_COOKIE);
    a.store(Width::Eight, R10, COOKIE, R0);
    look_up(&mut a, maps.directions, COOKIE, ours);
    a.load(Width::Four, R7, R0, 0);
    a.store(Width::Eight, R10, DIRECTION, R7);
    look_up(&mut a, maps.counted, DIRECTION, ours);
    a.alu(Alu::Move, R9, R0);
    place(&mut a, end, spoiled, judged);
    trim(&mut a, spoiled, judged);
    a.place(spoiled);
    a.store(Width::Four, R9, field(offset_of!(Counted, is_spoiled)), 1);
    a.place(judged);
    a.load(Width::Four, R7, R6, LENGTH);
    a.branch(When::Equal, R7, 0, end);
    look_up(&mut a, maps.said, DIRECTION, ours);
    a.alu(Alu::Move, R8, R0);
    decide(&mut a, maps, lanes);
    a.place(lanes);
    add(&mut a, offset_of!(Counted, passed));
    ring(&mut a, maps, told);
    a.place(told);
    a.place(ours);
    a.alu(Alu::Move, R0, PASS);
    a.exit();
    // The end of the stream alone is a piece without bytes. It is known without it, and the kernel's thread would take it for a fault (`sk_psock_backlog`).
    a.place(end);
    a.alu(Alu::Move, R0, DROP);
    a.exit();
    a.finish()
}

/// R8 is how many of the first bytes of a piece have come before; if there are none it goes to `judged`, and to `spoiled` if the piece does not say what it should. The end alone is no piece.
fn place(a: &mut Assembler, end: Label, spoiled: Label, judged: Label) {
    a.load(Width::Four, R7, R6, LENGTH);
    a.load(Width::Four, R8, R6, FIRST);
    // An end of the stream has a place like a byte.
    a.load(Width::Four, R1, R6, BEHIND);
    a.alu(Alu::Subtract, R1, R8);
    a.alu(Alu::Subtract, R1, R7);
    wrap(a, R1);
    a.branch(When::Greater, R1, 1, spoiled);
    a.load(Width::Four, R2, R9, field(offset_of!(Counted, ends)));
    a.alu(Alu::Or, R2, R1);
    a.store(Width::Four, R9, field(offset_of!(Counted, ends)), R2);
    a.branch(When::Equal, R7, 0, end);
    a.load(Width::Four, R2, R9, field(offset_of!(Counted, next)));
    a.load(Width::Four, R3, R9, field(offset_of!(Counted, is_placed)));
    a.alu(Alu::Move, R1, R8);
    a.alu(Alu::Add, R1, R7);
    a.store(Width::Four, R9, field(offset_of!(Counted, next)), R1);
    a.store(Width::Four, R9, field(offset_of!(Counted, is_placed)), 1);
    a.branch(When::Equal, R3, 0, judged);
    a.alu(Alu::Subtract, R2, R8);
    a.alu(Alu::Move, R8, R2);
    wrap(a, R8);
    // Less than none is a gap, and far more.
    a.branch(When::Greater, R8, R7, spoiled);
}

/// Takes R8 bytes off the front of a piece, and goes to `judged`; or falls through where that cannot be had.
fn trim(a: &mut Assembler, spoiled: Label, judged: Label) {
    for _ in 0..TRIMS {
        let few = a.label();
        a.branch(When::Equal, R8, 0, judged);
        a.alu(Alu::Move, R7, R8);
        a.branch(When::Less, R7, TRIM_BYTES, few);
        a.alu(Alu::Move, R7, TRIM_BYTES);
        a.place(few);
        a.alu(Alu::Subtract, R8, R7);
        a.alu(Alu::Move, R1, R6);
        a.alu(Alu::Move, R2, 0);
        a.alu(Alu::Subtract, R2, R7);
        a.alu(Alu::Move, R3, 0);
        a.alu(Alu::Move, R4, 0);
        a.call(ADJUST_ROOM);
        a.branch(When::NotEqual, R0, 0, spoiled);
    }
    a.branch(When::Equal, R8, 0, judged);
}

/// Redirects it, or goes to `lanes`: of a spoiled direction, where the lane still has bytes that came before, and where a bound is reached.
fn decide(a: &mut Assembler, maps: &Maps<'_>, lanes: Label) {
    a.load(Width::Four, R1, R9, field(offset_of!(Counted, is_spoiled)));
    a.branch(When::NotEqual, R1, 0, lanes);
    a.load(Width::Eight, R1, R9, field(offset_of!(Counted, passed)));
    a.load(Width::Eight, R2, R8, field(offset_of!(Say, done)));
    a.branch(When::NotEqual, R1, R2, lanes);
    a.load(Width::Eight, R1, R9, field(offset_of!(Counted, redirected)));
    a.alu(Alu::Add, R1, R7);
    a.load(Width::Eight, R2, R8, field(offset_of!(Say, until)));
    a.branch(When::Greater, R1, R2, lanes);
    a.load(Width::Eight, R1, R9, field(offset_of!(Counted, pieces)));
    a.alu(Alu::Add, R1, 1);
    a.load(Width::Eight, R2, R8, field(offset_of!(Say, until_pieces)));
    a.branch(When::Greater, R1, R2, lanes);
    a.alu(Alu::Move, R1, R6);
    a.map(R2, maps.connections);
    a.load(Width::Four, R3, R10, DIRECTION);
    a.alu(Alu::Xor, R3, 1);
    a.alu(Alu::Move, R4, 0);
    a.call(REDIRECT);
    a.branch(When::NotEqual, R0, PASS, lanes);
    add(a, offset_of!(Counted, redirected));
    a.load(Width::Eight, R1, R9, field(offset_of!(Counted, pieces)));
    a.alu(Alu::Add, R1, 1);
    a.store(Width::Eight, R9, field(offset_of!(Counted, pieces)), R1);
    a.alu(Alu::Move, R0, PASS);
    a.exit();
}

/// Tells the lane, unless that was told and it has not heard it yet.
fn ring(a: &mut Assembler, maps: &Maps<'_>, told: Label) {
    a.load(Width::Eight, R1, R9, field(offset_of!(Counted, rung)));
    a.load(Width::Eight, R2, R8, field(offset_of!(Say, heard)));
    a.branch(When::Greater, R1, R2, told);
    a.map(R1, maps.bells);
    a.alu(Alu::Move, R2, R10);
    a.alu(Alu::Add, R2, i32::from(DIRECTION));
    a.alu(Alu::Move, R3, 8);
    a.alu(Alu::Move, R4, WAKES);
    a.call(RING_OUTPUT);
    // Where the ring is full the next piece tells.
    a.branch(When::NotEqual, R0, 0, told);
    a.load(Width::Eight, R2, R8, field(offset_of!(Say, heard)));
    a.alu(Alu::Add, R2, 1);
    a.store(Width::Eight, R9, field(offset_of!(Counted, rung)), R2);
}
