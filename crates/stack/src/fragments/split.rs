//! Fragments that are longer than a frame.

use crate::packet::{HEADER_BYTES_V6, Ip, Parts};
use corelane_seam::Frame;
use corelane_wire::packet::checksum::Sum;

/// Bytes of the longest headers in front of a fragment's data.
const HEAD_BYTES_MAX: usize = 80;
/// Bytes that a frame hands on to the next at most.
const CARRY_MAX: usize = 7;
/// Where a header says what differs between fragments (RFC 791, section 3.1; RFC 8200, sections 3 and 4.5).
const V4_LENGTH: usize = 2;
const V4_FRAGMENT: usize = 6;
const V4_CHECKSUM: usize = 10;
const V6_LENGTH: usize = 4;
/// Bytes of the fragment header, the last one before the data, and where in it the offset stands.
const V6_FRAGMENT_BYTES: usize = 8;
const V6_OFFSET: usize = 2;
/// The field's bits: of IPv4 the offset has 13, in units of eight bytes; of IPv6 it stands three bits higher.
const V4_MORE: u16 = 0x2000;
const V4_OFFSET_BITS: u16 = 0x1fff;
const V6_MORE: u16 = 1;

/// Makes a fragment of each frame in which a fragment lies: its data move by less than eight bytes, into the headroom of the next, for all but the last have
/// a multiple of that. A frame that is left without data is empty. False if the headers do not fit in front of each, and it must be dropped.
/// One that lies in one frame stays as it is.
#[must_use]
pub(crate) fn split(packet: &mut Parts, ip: &Ip) -> bool {
    let Parts { first, rest, .. } = packet;
    if rest.is_empty() {
        return true;
    }
    let needed = ip.head + CARRY_MAX;
    if ip.head > HEAD_BYTES_MAX || first.len() < ip.head || rest.iter().any(|frame| frame.headroom() < needed) {
        return false;
    }
    let mut head = [0; HEAD_BYTES_MAX];
    head[..ip.head].copy_from_slice(&first[..ip.head]);
    first.skip(ip.head);
    let mut cut = Cut::new(&mut head[..ip.head], ip.length);
    std::iter::once(first).chain(rest).all(|frame| cut.take(frame)) && cut.left == 0
}

/// How far a fragment is cut.
struct Cut<'a> {
    head: &'a mut [u8],
    is_v4: bool,
    /// Where the field with the offset stands, and what it was.
    field_at: usize,
    field: u16,
    /// Bytes of data that have their fragment, and that are to come.
    done: usize,
    left: usize,
    /// Bytes of the frame before, which had too many for a multiple of eight.
    carried: [u8; CARRY_MAX],
    carry: usize,
}

impl<'a> Cut<'a> {
    fn new(head: &'a mut [u8], length: usize) -> Self {
        let is_v4 = head[0] >> 4 == 4;
        let field_at = if is_v4 { V4_FRAGMENT } else { head.len() - V6_FRAGMENT_BYTES + V6_OFFSET };
        let field = u16::from_be_bytes([head[field_at], head[field_at + 1]]);
        Self { head, is_v4, field_at, field, done: 0, left: length, carried: [0; CARRY_MAX], carry: 0 }
    }

    /// Makes a fragment of a frame with data. False if there is none with such an offset.
    fn take(&mut self, frame: &mut Frame) -> bool {
        frame.set_length(frame.len().min(self.left - self.carry));
        frame.prepend(&self.carried[..self.carry]);
        frame.facts.continues = false;
        let is_last = frame.len() == self.left;
        self.carry = if is_last { 0 } else { frame.len() % 8 };
        let length = frame.len() - self.carry;
        self.carried[..self.carry].copy_from_slice(&frame[length..]);
        frame.set_length(length);
        if length == 0 {
            return true;
        }
        let is_written = self.write_head(length, is_last);
        frame.prepend(self.head);
        (self.done, self.left) = (self.done + length, self.left - length);
        is_written
    }

    /// Changes the headers for the next so many bytes; false if their offset is beyond what there is.
    fn write_head(&mut self, length: usize, is_last: bool) -> bool {
        let units = (self.done / 8) as u16;
        // That others follow is the fragment's word for its last piece, and true of all before.
        let (moved, more, behind) = match self.is_v4 {
            true => (self.field.checked_add(units), V4_MORE, self.head.len()),
            false => (self.field.checked_add(8 * units), V6_MORE, self.head.len() - HEADER_BYTES_V6),
        };
        let is_beyond = self.is_v4 && (self.field & V4_OFFSET_BITS) + units > V4_OFFSET_BITS;
        let Some(field) = moved.filter(|_| !is_beyond) else { return false };
        let field = if is_last { field } else { field | more };
        let length_at = if self.is_v4 { V4_LENGTH } else { V6_LENGTH };
        self.put(self.field_at, field);
        self.put(length_at, (behind + length) as u16);
        if self.is_v4 {
            self.put(V4_CHECKSUM, 0);
            self.put(V4_CHECKSUM, Sum::of(self.head).checksum());
        }
        true
    }

    fn put(&mut self, at: usize, word: u16) {
        self.head[at..at + 2].copy_from_slice(&word.to_be_bytes());
    }
}
