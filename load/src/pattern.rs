//! Bytes that tell where they belong: a pseudo-random sequence whose period is a prime, so that no message size, no buffer size
//! and no power of two is a multiple of it, and bytes shifted by any of them do not match.

/// Length after which the pattern repeats, a prime.
pub const PERIOD: usize = 8_191;

/// The most bytes that [`piece`] gives at once.
pub const PIECE_MAX: usize = 64 << 10;

static BYTES: [u8; PERIOD + PIECE_MAX] = make();

const fn make() -> [u8; PERIOD + PIECE_MAX] {
    let mut bytes = [0; PERIOD + PIECE_MAX];
    let mut state = 0x2545_f491_u32;
    let mut at = 0;
    while at < bytes.len() {
        // Marsaglia, "Xorshift RNGs", 2003.
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        bytes[at] = if at < PERIOD { (state >> 24) as u8 } else { bytes[at - PERIOD] };
        at += 1;
    }
    bytes
}

/// What stands at `position` of the pattern: `length` bytes, or [`PIECE_MAX`] if that is less.
pub fn piece(position: u64, length: usize) -> &'static [u8] {
    let start = (position % PERIOD as u64) as usize;
    &BYTES[start..start + length.min(PIECE_MAX)]
}

/// Whether `got` is what stands at `position`.
pub fn matches(position: u64, got: &[u8]) -> bool {
    let mut position = position;
    got.chunks(PIECE_MAX).all(|part| {
        let expected = piece(position, part.len());
        position += part.len() as u64;
        expected == part
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_repeats_with_its_period_and_not_before() {
        let start = piece(0, 64);
        assert_eq!(start, piece(PERIOD as u64, 64));
        assert_eq!((1..PERIOD as u64).find(|&position| piece(position, 64) == start), None);
    }

    #[test]
    fn a_shift_or_one_wrong_bit_does_not_match() {
        let mut got: Vec<u8> = [piece(100, PIECE_MAX), piece(100 + PIECE_MAX as u64, 10)].concat();
        assert!(matches(100, &got) && !matches(101, &got) && matches(100 + PERIOD as u64, &got));
        got[PIECE_MAX + 5] ^= 1;
        assert!(!matches(100, &got));
        assert!(matches(7, &[]));
    }
}
