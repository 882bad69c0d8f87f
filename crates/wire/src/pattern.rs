//! A stream of bytes whose places tell what they are: what `push` sends, and `load sink` checks.
//!
//! It repeats after [`PERIOD`] bytes, so a sender needs no more memory than that, however long the stream is. A period is a prime number of pages. So what is
//! lost, doubled or shifted by any power of two of bytes is seen, and a sender whose pieces are whole pages sends whole pages.

/// Bytes of a page of memory.
pub const PAGE: usize = 4_096;

/// After so many bytes the stream repeats.
pub const PERIOD: usize = 13 * PAGE;

/// Bytes of the copy that the checker compares with: from each page of a period on it holds 16 KiB.
const COPY: usize = 16 * PAGE;

static BYTES: [u8; COPY] = make();

const fn make() -> [u8; COPY] {
    let mut bytes = [0; COPY];
    let mut at = 0;
    while at < COPY {
        let word = word((at % PERIOD / 8) as u64).to_be_bytes();
        bytes[at] = word[at % 8];
        at += 1;
    }
    bytes
}

/// Eight bytes of the stream, by their number: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
const fn word(number: u64) -> u64 {
    let mut mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Where in a period a position of the stream lies.
pub const fn place(position: u64) -> usize {
    (position % PERIOD as u64) as usize
}

/// What stands at `position`: `most` bytes, or fewer, but one at least where `most` is not 0.
pub fn piece(position: u64, most: usize) -> &'static [u8] {
    let start = place(position);
    &BYTES[start..start + most.min(COPY - start)]
}

/// Writes what stands from `position` on into all of `bytes`.
pub fn fill(mut position: u64, mut bytes: &mut [u8]) {
    while !bytes.is_empty() {
        let piece = piece(position, bytes.len());
        let (now, later) = bytes.split_at_mut(piece.len());
        now.copy_from_slice(piece);
        (position, bytes) = (position + piece.len() as u64, later);
    }
}

/// Whether `got` is what stands at `position`.
pub fn matches(mut position: u64, mut got: &[u8]) -> bool {
    while !got.is_empty() {
        let expected = piece(position, got.len());
        let (now, later) = got.split_at(expected.len());
        if now != expected {
            return false;
        }
        (position, got) = (position + expected.len() as u64, later);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// The first `length` bytes of the stream.
    fn stream(length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        fill(0, &mut bytes);
        bytes
    }

    #[test]
    fn the_stream_repeats_with_its_period_and_not_before() {
        let bytes = stream(2 * PERIOD);
        assert_eq!(bytes[..PERIOD], bytes[PERIOD..]);
        let words: HashSet<&[u8]> = bytes[..PERIOD].chunks(8).collect();
        assert_eq!(words.len(), PERIOD / 8, "no eight bytes stand at two places");
        assert_eq!(bytes[..8], 0xe220_a839_7b1d_cdaf_u64.to_be_bytes(), "the first word for seed 0 of the algorithm's authors");
    }

    #[test]
    fn what_is_filled_matches_wherever_it_begins_and_however_long_it_is() {
        let bytes = stream(3 * PERIOD);
        for start in [0, 1, 7, 4_095, PAGE, PERIOD - 1, PERIOD, PERIOD + 12_345] {
            for length in [0, 1, 8, PAGE, COPY - 1, COPY, COPY + 1, PERIOD + 3] {
                let mut part = vec![0; length];
                fill(start as u64, &mut part);
                assert_eq!(part, bytes[start..start + length], "{length} from {start} on");
                assert!(matches(start as u64, &part) && matches((start + 5 * PERIOD) as u64, &part));
            }
        }
    }

    #[test]
    fn a_shift_by_any_power_of_two_and_one_wrong_bit_are_seen() {
        let mut bytes = stream(PERIOD + 9_000);
        for shift in (0..40).map(|power| 1_u64 << power) {
            assert!(!matches(shift, &bytes[..8]), "{shift}");
        }
        for at in [0, PERIOD - 1, PERIOD, PERIOD + 8_999] {
            bytes[at] ^= 16;
            assert!(!matches(0, &bytes), "byte {at}");
            bytes[at] ^= 16;
        }
        assert!(matches(0, &bytes));
    }

    #[test]
    fn a_piece_is_never_empty_where_bytes_are_wanted() {
        for start in 0..PERIOD as u64 {
            assert!(piece(start, PAGE).len() == PAGE && piece(start, 0).is_empty() && !piece(start, usize::MAX).is_empty());
        }
    }
}
