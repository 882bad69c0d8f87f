//! What a frame that leaves needs of software where no card does it: its checksum, and its VLAN tag.

use crate::link::TAG_BYTES;
use corelane_seam::{Checksum, Frame, VlanTag};

/// Bytes of the two addresses of an Ethernet header.
const ADDRESSES_BYTES: usize = 12;

/// Makes the bytes of a frame what its facts say; false if that cannot be, and it must be refused.
#[must_use]
pub fn settle(frame: &mut Frame, most: usize) -> bool {
    if frame.is_empty() || frame.len() > most || frame.facts.continues || !sum(frame) {
        return false;
    }
    frame.facts.vlan.take().is_none_or(|tag| put_in(frame, tag))
}

/// Computes the checksum that the facts ask for.
fn sum(frame: &mut Frame) -> bool {
    let Checksum::Partial { start, offset } = frame.facts.checksum else { return true };
    let (start, place) = (usize::from(start), usize::from(start) + usize::from(offset));
    if place + 2 > frame.len() {
        return false;
    }
    let mut total: u64 = 0;
    for word in frame[start..].chunks(2) {
        total += u64::from(word[0]) << 8 | u64::from(word.get(1).copied().unwrap_or_default());
    }
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    // A sum of UDP that comes to 0 is sent as all ones (RFC 768); elsewhere both stand for the same.
    let sum = match !(total as u16) {
        0 => 0xffff,
        sum => sum,
    };
    frame[place..place + 2].copy_from_slice(&sum.to_be_bytes());
    frame.facts.checksum = Checksum::Good;
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
        assert!(settle(&mut frame, 100));
        assert_eq!((&frame[12..], frame.facts.checksum), (&(!0xddf2_u16).to_be_bytes()[..], Checksum::Good));
    }

    #[test]
    fn a_checksum_outside_of_the_frame_is_refused() {
        for (start, offset) in [(4, 8), (13, 0), (200, 0), (u16::MAX, u16::MAX)] {
            let mut frame = frame(&[1; 13]);
            frame.facts.checksum = Checksum::Partial { start, offset };
            assert!(!settle(&mut frame, 100), "{start} {offset}");
        }
    }

    #[test]
    fn a_tag_goes_behind_the_addresses() {
        let mut frame = frame(b"destinsource##payload");
        frame.facts.vlan = Some(VlanTag { protocol: 0x8100, control: 0x2007 });
        assert!(settle(&mut frame, 100));
        assert_eq!(&*frame, b"destinsource\x81\x00\x20\x07##payload");
        assert_eq!(frame.facts.vlan, None);
    }

    #[test]
    fn what_cannot_leave_is_refused() {
        assert!(!settle(&mut frame(b""), 100));
        assert!(!settle(&mut frame(&[0; 101]), 100));
        let mut short = frame(b"short");
        short.facts.vlan = Some(VlanTag { protocol: 0x8100, control: 1 });
        assert!(!settle(&mut short, 100));
        let mut part = frame(&[0; 60]);
        part.facts.continues = true;
        assert!(!settle(&mut part, 100));
    }
}
