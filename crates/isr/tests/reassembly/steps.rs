//! Arbitrary steps against a table with small limits: what must hold after each. The fuzz target runs this too.

use corelane_isr::reassembly::{Admission, Limits, Memory, Reassembly};
use corelane_seam::Instant;
use std::time::Duration;

/// Bytes of data in a fragment's memory, and the memory.
#[derive(Debug)]
pub struct Lump {
    bytes: Vec<u8>,
}

impl Memory for Lump {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    fn skip(&mut self, bytes: usize) {
        self.bytes.drain(..bytes);
    }

    fn truncate(&mut self, length: usize) {
        assert!(length <= self.bytes.len());
        self.bytes.truncate(length);
    }

    fn held(&self) -> usize {
        64
    }
}

/// A fragment as six bytes of the input say, of one of few datagrams.
fn packet(step: &[u8; 6]) -> Vec<u8> {
    let [kind, name, offset, length, fill, odd] = *step;
    let (is_v6, more, ecn) = (kind & 1 == 1, kind & 2 == 2, kind >> 2 & 3);
    let offset = u16::from(offset) * if odd & 0x80 != 0 { 31 } else { 1 };
    let data = vec![fill; usize::from(length & 31) * 8 + usize::from(odd & 7)];
    let mut packet = Vec::new();
    if is_v6 {
        packet.extend([0x60, ecn << 4, 0, 0]);
        packet.extend((data.len() as u16 + 8).to_be_bytes());
        packet.extend([44, 64]);
        packet.extend([0; 31]);
        packet.push(name & 7);
        packet.extend([if odd & 8 == 8 { 17 } else { 253 }, 0]);
        packet.extend((offset << 3 | u16::from(more)).to_be_bytes());
        packet.extend([0, 0, 0, name >> 3 & 7]);
    } else {
        packet.extend([0x45, ecn]);
        packet.extend((data.len() as u16 + 20).to_be_bytes());
        packet.extend([0, name >> 3 & 7]);
        packet.extend((offset | u16::from(more) << 13).to_be_bytes());
        packet.extend([64, if odd & 8 == 8 { 6 } else { 253 }, 0, 0]);
        packet.extend([10, 0, 0, name & 7, 10, 0, 0, 1]);
    }
    packet.extend(data);
    packet
}

/// Runs the steps that `bytes` say: six bytes a step; a packet as it lies where the first is 0xff.
pub fn run(bytes: &[u8]) {
    let limits = Limits::for_frames(32 * 24, 64).with_datagrams(8).with_fragments_each(5).with_bytes(20 * 64);
    let mut table = Reassembly::new(limits, 7);
    let (mut now, mut into) = (0_u64, Vec::new());
    for step in bytes.as_chunks::<6>().0 {
        now += u64::from(step[5] & 0x70) * 100_000_000;
        let at = Instant::from_nanoseconds(now);
        let due = table.due();
        let expired = table.expire(at, |first: Lump| assert!(!first.bytes().is_empty(), "it begins with its header"));
        assert!(expired == 0 || due.is_some_and(|due| due <= at));
        assert!(table.due().is_none_or(|due| at < due && due <= at + Duration::from_secs(60)));
        let bytes = if step[0] == 0xff { step[1..].repeat(9) } else { packet(step) };
        match table.arrive(at, u16::from(step[5] & 0x0f == 0x0f), Lump { bytes }, &mut into) {
            Admission::Whole(datagram) => look(&into, datagram.pieces, datagram.header_bytes + datagram.data_bytes),
            Admission::Held => assert!(into.is_empty() && table.waiting().1 > 0),
            Admission::Dropped(..) | Admission::NoFragment(_) => assert!(into.is_empty()),
        }
        into.clear();
        hold(&table, &limits);
    }
    table.set_limits(limits.with_fragments(0));
    assert_eq!(table.waiting(), (0, 0, 0), "turning it off drains it");
    let counts = table.counts();
    assert_eq!(counts.fragments, counts.dropped + counts.joined);
}

/// What a complete datagram must be.
fn look(pieces: &[Lump], number: usize, length: usize) {
    let whole: Vec<u8> = pieces.iter().flat_map(|piece| piece.bytes().iter().copied()).collect();
    assert_eq!((pieces.len(), whole.len()), (number, length));
    let said = match whole[0] >> 4 {
        4 => usize::from(u16::from_be_bytes([whole[2], whole[3]])),
        _ => 40 + usize::from(u16::from_be_bytes([whole[4], whole[5]])),
    };
    assert_eq!(said, length, "its header says how long it is");
    assert!(whole[0] >> 4 == 6 || whole[6] & 0x3f == 0 && whole[7] == 0, "and that it is no fragment");
}

/// What must hold after each step.
fn hold(table: &Reassembly<Lump>, limits: &Limits) {
    let (datagrams, fragments, held) = table.waiting();
    assert!(datagrams <= limits.datagrams && fragments <= limits.fragments && held <= limits.bytes);
    assert!(fragments <= datagrams * limits.fragments_each && held == fragments * 64);
    let counts = table.counts();
    assert_eq!(counts.fragments, counts.dropped + counts.joined + fragments as u64, "each fragment is somewhere: {counts:?}");
}

#[cfg(test)]
mod tests {
    #[test]
    fn random_steps_keep_what_must_hold() {
        let mut state = 1_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as u8
        };
        for _ in 0..300 {
            let bytes: Vec<u8> = (0..6 * 400).map(|_| next()).collect();
            super::run(&bytes);
            // Few datagrams, close to each other, so that some are completed.
            let close: Vec<u8> = bytes
                .as_chunks::<6>()
                .0
                .iter()
                .flat_map(|&[kind, name, offset, length, fill, odd]| {
                    [kind & 0x0b & !8, name & 9, offset & 3, length & 3, fill, odd & 0x10]
                })
                .collect();
            super::run(&close);
        }
    }
}
