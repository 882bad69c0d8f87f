//! The hash in a program of the kernel's virtual machine: from the addresses and ports on the stack to the bucket.

use crate::bpf::assembly::{Alu, Assembler, Register, Width};
use crate::parity::{Family, Mask};

use Register::{R0, R1, R2, R3, R4, R5, R7, R8, R9, R10};

/// Functions of the kernel (bpf-helpers(7)).
pub(super) const MAP_LOOKUP: i32 = 1;
pub(super) const LOAD_BYTES_RELATIVE: i32 = 68;
/// `BPF_HDR_START_NET`: offsets count from the IP header.
pub(super) const FROM_NETWORK_HEADER: i32 = 1;

/// The input on the stack, at the place that [`Mask`] gives it in IPv6: the addresses, then the ports. Those of IPv4 begin
/// there as well.
pub(super) const ADDRESSES: i16 = -40;
pub(super) const PORTS: i16 = -8;
/// Then keys of maps.
pub(super) const KEY: i16 = -4;
/// Registers that hold the addresses while they are hashed, and the one for the ports.
const WORDS: [Register; 4] = [R1, R2, R3, R4];
const PORTS_WORD: Register = R8;
/// Eight bytes, whose parities are bits of the bucket.
const PARITIES: Register = R5;
pub(super) const BUCKET: Register = R9;
const SPARE: Register = R7;

/// Lets [`BUCKET`] be the bucket of what is on the stack. All registers but R6 are used up.
pub(super) fn to_bucket(a: &mut Assembler, family: Family, takes_ports: bool, masks: &[Mask]) {
    let addresses_bytes = family.addresses_bytes();
    let mut words: Vec<(Register, usize)> = WORDS.into_iter().zip((0..addresses_bytes).step_by(8)).collect();
    for (word, at) in &words {
        a.load(Width::Eight, *word, R10, ADDRESSES + *at as i16);
    }
    if takes_ports {
        a.load(Width::Four, PORTS_WORD, R10, PORTS);
        words.push((PORTS_WORD, addresses_bytes));
    }
    a.alu(Alu::Move, BUCKET, 0);
    for (group, masks) in masks.chunks(8).enumerate() {
        for (bit, mask) in masks.iter().enumerate() {
            masked(a, &words, mask);
            fold_to_byte(a);
            a.alu(Alu::ShiftLeft, R0, 8 * bit as i32);
            a.alu(if bit == 0 { Alu::Move } else { Alu::Or }, PARITIES, R0);
        }
        gather_parities(a);
        a.alu(Alu::ShiftLeft, PARITIES, 8 * group as i32);
        a.alu(Alu::Or, BUCKET, PARITIES);
    }
}

/// Lets R0 be the exclusive or of all words under their parts of the mask.
fn masked(a: &mut Assembler, words: &[(Register, usize)], mask: &Mask) {
    for (index, (word, at)) in words.iter().enumerate() {
        let to = if index == 0 { R0 } else { SPARE };
        a.wide(to, mask_word(mask, *at, *word == PORTS_WORD));
        a.alu(Alu::And, to, *word);
        if index > 0 {
            a.alu(Alu::Xor, R0, to);
        }
    }
}

/// The mask of a word as the machine loads it from the stack.
fn mask_word(mask: &Mask, at: usize, is_ports: bool) -> u64 {
    let mut bytes = [0; 8];
    let length = if is_ports { 4 } else { 8 };
    assert!(at.is_multiple_of(length) && at + length <= mask.len(), "a word lies in the input");
    bytes[..length].copy_from_slice(&mask[at..at + length]);
    let [a, b, c, d, ..] = bytes;
    if is_ports { u32::from_ne_bytes([a, b, c, d]).into() } else { u64::from_ne_bytes(bytes) }
}

/// Lets the low byte of R0 have the parity of all its bits, and clears the others.
fn fold_to_byte(a: &mut Assembler) {
    for distance in [32, 16, 8] {
        fold(a, R0, SPARE, distance);
    }
    a.alu(Alu::And, R0, 0xff);
}

/// From 8 bytes to the parity of each, in the low 8 bits: the parity goes to the lowest bit of each byte, and the product
/// moves these side by side into the highest byte. No two of its terms meet.
fn gather_parities(a: &mut Assembler) {
    for distance in [4, 2, 1] {
        fold(a, PARITIES, R0, distance);
    }
    for (what, number) in [(Alu::And, 0x0101_0101_0101_0101), (Alu::Multiply, 0x0102_0408_1020_4080)] {
        a.wide(R0, number);
        a.alu(what, PARITIES, R0);
    }
    a.alu(Alu::ShiftRight, PARITIES, 56);
}

fn fold(a: &mut Assembler, register: Register, spare: Register, distance: i32) {
    a.alu(Alu::Move, spare, register);
    a.alu(Alu::ShiftRight, spare, distance);
    a.alu(Alu::Xor, register, spare);
}
