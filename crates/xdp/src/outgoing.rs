//! What a packet that leaves needs of software where no card does it: its checksum, and its VLAN tag.

use crate::link::TAG_BYTES;
use corelane_seam::{Checksum, Frame, VlanTag};
use corelane_wire::packet::checksum::Sum;

/// Bytes of the two addresses of an Ethernet header.
const ADDRESSES_BYTES: usize = 12;

/// Frames that a packet may lie in (`MAX_SKB_FRAGS`, as kernels are made unless somebody wants more): with more, the kernel drops it.
pub const PIECES_MAX: usize = 17;

/// Frames of which each has `room`, for a packet of so many bytes; 1 at the least.
pub fn pieces(bytes: usize, room: usize) -> usize {
    assert!(room > 0, "a frame has room");
    bytes.div_ceil(room).max(1)
}

/// Makes the bytes of a packet what its facts say; false if that cannot be, and it must be refused: it has more than `most` bytes, lies in more than
/// `pieces_max` frames, of which one is empty or the last is missing, or what it asks for lies outside of its first frame.
#[must_use]
pub fn settle(packet: &mut [Frame], most: usize, pieces_max: usize) -> bool {
    let bytes: usize = packet.iter().map(|frame| frame.len()).sum();
    let is_whole = packet.last().is_some_and(|last| !last.facts.continues) && packet.iter().all(|frame| !frame.is_empty());
    if !is_whole || packet.len() > pieces_max || bytes > most || !sum(packet) {
        return false;
    }
    packet[0].facts.vlan.take().is_none_or(|tag| put_in(&mut packet[0], tag))
}

/// Computes the checksum that the facts ask for; false if it belongs outside of the first frame.
pub fn sum(packet: &mut [Frame]) -> bool {
    let Checksum::Partial { start, offset } = packet[0].facts.checksum else { return true };
    let (start, place) = (usize::from(start), usize::from(start) + usize::from(offset));
    if place + 2 > packet[0].len() {
        return false;
    }
    let [first, rest @ ..] = packet else { unreachable!("a packet has a frame") };
    let sum = rest.iter().fold(Sum::of(&first[start..]), |sum, frame| sum.and(frame));
    first[place..place + 2].copy_from_slice(&sum.checksum_of_udp().to_be_bytes());
    first.facts.checksum = Checksum::Good;
    true
}

fn put_in(frame: &mut Frame, tag: VlanTag) -> bool {
    if frame.len() < ADDRESSES_BYTES || frame.headroom() < TAG_BYTES {
        return false;
    }
    frame.prepend(&[0; TAG_BYTES]);
    frame.copy_within(TAG_BYTES..TAG_BYTES + ADDRESSES_BYTES, 0);
    frame[ADDRESSES_BYTES..ADDRESSES_BYTES + 2].copy_from_slice(&tag.protocol.to_be_bytes());
    frame[ADDRESSES_BYTES + 2..ADDRESSES_BYTES + 4].copy_from_slice(&tag.control.to_be_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_seam::FrameMemory;
    use std::slice::from_mut;

    fn frame(bytes: &[u8]) -> Frame {
        let mut frame = FrameMemory::new(1, 2048).unwrap().frame().unwrap();
        frame.append(bytes);
        frame
    }

    /// The words of RFC 1071 section 3, behind a header of 4 bytes, with the place of the sum behind them.
    #[test]
    fn a_partial_checksum_is_finished() {
        let mut frame = frame(&[9, 9, 9, 9, 0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7, 0, 0]);
        frame.facts.checksum = Checksum::Partial { start: 4, offset: 8 };
        assert!(settle(from_mut(&mut frame), 100, 1));
        assert_eq!((&frame[12..], frame.facts.checksum), (&(!0xddf2_u16).to_be_bytes()[..], Checksum::Good));
    }

    #[test]
    fn a_checksum_outside_of_the_frame_is_refused() {
        for (start, offset) in [(4, 8), (13, 0), (200, 0), (u16::MAX, u16::MAX)] {
            let mut frame = frame(&[1; 13]);
            frame.facts.checksum = Checksum::Partial { start, offset };
            assert!(!settle(from_mut(&mut frame), 100, 1), "{start} {offset}");
        }
    }

    #[test]
    fn a_tag_goes_behind_the_addresses() {
        let mut frame = frame(b"destinsource##payload");
        frame.facts.vlan = Some(VlanTag { protocol: 0x8100, control: 0x2007 });
        assert!(settle(from_mut(&mut frame), 100, 1));
        assert_eq!(&*frame, b"destinsource\x81\x00\x20\x07##payload");
        assert_eq!(frame.facts.vlan, None);
    }

    #[test]
    fn what_cannot_leave_is_refused() {
        assert!(!settle(&mut [frame(b"")], 100, 1));
        assert!(!settle(&mut [frame(&[0; 101])], 100, 1));
        let mut short = frame(b"short");
        short.facts.vlan = Some(VlanTag { protocol: 0x8100, control: 1 });
        assert!(!settle(&mut [short], 100, 1));
        assert!(!settle(&mut [part(&[0; 60])], 100, 1), "a packet without its end");
    }

    fn part(bytes: &[u8]) -> Frame {
        let mut part = frame(bytes);
        part.facts.continues = true;
        part
    }

    #[test]
    fn a_packet_in_pieces_leaves_if_they_are_few_and_whole_and_not_too_long() {
        assert!(settle(&mut [part(&[0; 60]), part(&[0; 30]), frame(&[0; 10])], 100, 3));
        assert!(!settle(&mut [part(&[0; 60]), part(&[0; 30]), frame(&[0; 10])], 100, 2), "too many");
        assert!(!settle(&mut [part(&[0; 60]), part(&[0; 30]), frame(&[0; 10])], 99, 3), "too long");
        assert!(!settle(&mut [part(&[0; 60]), part(&[]), frame(&[0; 10])], 100, 3), "an empty one");
        assert!(!settle(&mut [part(&[0; 60]), part(&[0; 30])], 100, 3), "the last is missing");
    }

    /// The same sum as in one piece, wherever the packet is cut.
    #[test]
    fn a_partial_checksum_goes_over_all_pieces() {
        let bytes = [9, 9, 9, 9, 0, 0, 0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        for cut in 6..bytes.len() {
            for next in cut..bytes.len() {
                let pieces = [&bytes[..cut], &bytes[cut..next], &bytes[next..]];
                let mut packet: Vec<_> = pieces.into_iter().filter(|piece| !piece.is_empty()).map(part).collect();
                packet.last_mut().unwrap().facts.continues = false;
                packet[0].facts.checksum = Checksum::Partial { start: 4, offset: 0 };
                assert!(settle(&mut packet, 100, 3));
                assert_eq!(packet[0][4..6], (!0xddf2_u16).to_be_bytes(), "cut at {cut} and {next}");
            }
        }
    }

    /// RFC 768: a checksum of 0 says that there is none.
    #[test]
    fn a_checksum_that_comes_to_zero_is_sent_as_ones() {
        let mut frame = frame(&[0, 0, 0xff, 0xf0, 0x00, 0x0f]);
        frame.facts.checksum = Checksum::Partial { start: 0, offset: 0 };
        assert!(settle(from_mut(&mut frame), 100, 1));
        assert_eq!(frame[..2], [0xff, 0xff]);
    }
}
