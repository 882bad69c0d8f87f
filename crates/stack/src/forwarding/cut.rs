//! Packets of IPv4 that are cut because the link that they leave by carries only shorter ones (RFC 791, section 3.2; RFC 1812, section 5.2.6), and packets that are laid into other
//! frames.

use crate::packet::{Ip, Packet};
use corelane_seam::{Frame, FrameMemory};
use corelane_wire::packet::checksum::Sum;
use corelane_wire::packet::{ethernet, ipv4};

/// Where the header has its length, the fragment's place, and the checksum.
const LENGTH: usize = 2;
const PLACE: usize = 6;
const CHECKSUM: usize = 10;
/// The field of the place: that others follow, where the fragment begins in units of eight bytes, and that no router may cut the packet.
const MORE: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;
const KEEP_WHOLE: u16 = 0x4000;
/// Options: the end, one without length, and the bit of those that stand in each fragment.
const END: u8 = 0;
const FILL: u8 = 1;
const COPIED: u8 = 0x80;
/// Bytes of the longest header.
const HEADER_BYTES_MAX: usize = 60;

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Whether a packet of IPv4 must not be cut.
pub(super) fn is_kept_whole(packet: &Packet) -> bool {
    word(&packet.first, PLACE) & KEEP_WHOLE != 0
}

/// Cuts a packet into fragments of at most `mtu` bytes, which may itself be one. Each lies in a frame of that memory, behind room for a header of the link. None if too few are
/// free; then none was taken.
pub(super) fn cut(memory: &FrameMemory, packet: &Packet, ip: &Ip, mtu: usize) -> Option<Vec<Frame>> {
    let room = memory.frame_bytes() - Frame::HEADROOM - ethernet::Header::BYTES;
    // What is cut must get shorter: eight bytes of data are in each.
    let part = (mtu.min(room).saturating_sub(ip.head) & !7).max(8);
    let count = ip.length.div_ceil(part);
    if memory.counts().free < count {
        return None;
    }
    let mut head = [0; HEADER_BYTES_MAX];
    let head = &mut head[..ip.head];
    head.copy_from_slice(packet.first.get(..ip.head)?);
    let place = word(head, PLACE);
    let mut frames = Vec::with_capacity(count);
    let mut data = Data { pieces: packet.transport(ip), rest: &[] };
    for number in 0..count {
        let (start, is_last) = (number * part, number + 1 == count);
        let length = part.min(ip.length - start);
        let more = if is_last { place & MORE } else { MORE };
        let offset = place & OFFSET;
        write(head, length, more | (offset + (start / 8) as u16) & OFFSET);
        let mut frame = memory.frame()?;
        frame.append(&[0; ethernet::Header::BYTES]);
        frame.append(head);
        data.take(length, |piece| frame.append(piece));
        frame.facts.hash = packet.first.facts.hash;
        frames.push(frame);
        if number == 0 {
            strip(&mut head[ipv4::Header::BYTES..]);
        }
    }
    Some(frames)
}

/// Copies so many bytes of a packet into frames of that memory, behind room for a header of the link; none if too few are free.
pub(super) fn relaid(memory: &FrameMemory, packet: &Packet, length: usize) -> Option<Vec<Frame>> {
    let (room, front) = (memory.frame_bytes() - Frame::HEADROOM, ethernet::Header::BYTES);
    let count = (front + length).div_ceil(room);
    if memory.counts().free < count {
        return None;
    }
    let mut data = Data { pieces: std::iter::once(&packet.first).chain(&packet.rest).map(|frame| &frame[..]), rest: &[] };
    let (mut frames, mut left) = (Vec::with_capacity(count), length);
    for number in 0..count {
        let mut frame = memory.frame()?;
        if number == 0 {
            frame.append(&[0; ethernet::Header::BYTES]);
            (frame.facts.hash, frame.facts.checksum) = (packet.first.facts.hash, packet.first.facts.checksum);
        }
        let some = left.min(frame.room());
        data.take(some, |piece| frame.append(piece));
        left -= some;
        frame.facts.continues = left > 0;
        frames.push(frame);
    }
    Some(frames)
}

/// Writes what differs from fragment to fragment.
fn write(head: &mut [u8], length: usize, place: u16) {
    let total = (head.len() + length) as u16;
    for (at, word) in [(LENGTH, total), (PLACE, place), (CHECKSUM, 0)] {
        head[at..at + 2].copy_from_slice(&word.to_be_bytes());
    }
    let checksum = Sum::of(head).checksum();
    head[CHECKSUM..CHECKSUM + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// Fills the place of options that stand in the first fragment alone.
fn strip(options: &mut [u8]) {
    let mut at = 0;
    while at < options.len() {
        let length = match options[at] {
            END => return,
            FILL => 1,
            _ => options.get(at + 1).map_or(0, |length| usize::from(*length)).clamp(1, options.len() - at),
        };
        if options[at] & COPIED == 0 {
            options[at..at + length].fill(FILL);
        }
        at += length;
    }
}

/// What the packet carries, piece by piece.
struct Data<'a, I> {
    pieces: I,
    rest: &'a [u8],
}

impl<'a, I: Iterator<Item = &'a [u8]>> Data<'a, I> {
    fn take(&mut self, mut length: usize, mut put: impl FnMut(&[u8])) {
        while length > 0 {
            if self.rest.is_empty() {
                // reason: a packet's pieces are as long as it is.
                self.rest = self.pieces.next().expect("a packet has all of its data");
            }
            let (piece, rest) = self.rest.split_at(length.min(self.rest.len()));
            put(piece);
            (self.rest, length) = (rest, length - piece.len());
        }
    }
}
