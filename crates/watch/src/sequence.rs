//! What a lane writes together, its readers see whole or know that they have not: a sequence number that is odd while the lane writes (a sequence lock as
//! in Linux's seqlock, Boehm 2012, "Can seqlocks get along with programming language memory models?"). The writer waits for nobody; a reader looks again.

use crate::memory::{AtomicU64, Ordering, fence};

/// How often a reader looks again while the lane writes. A lane that was killed there never ends its writing, and a reader waits for nobody.
const LOOKS_MAX: usize = 100;

/// Writes what belongs together.
///
/// # Panics
/// If it is called within itself, or after a panic in it.
#[inline]
pub(crate) fn write(sequence: &AtomicU64, write: impl FnOnce()) {
    let before = sequence.load(Ordering::Relaxed);
    assert!(before.is_multiple_of(2), "what belongs together is written at one time");
    sequence.store(before.wrapping_add(1), Ordering::Relaxed);
    // Release: a reader that sees any of what is written now sees the odd number, too.
    fence(Ordering::Release);
    write();
    sequence.store(before.wrapping_add(2), Ordering::Release);
}

/// Reads what belongs together, and says whether it was read in one piece.
pub(crate) fn read<T>(sequence: impl Fn() -> u64, read: impl Fn() -> T) -> (bool, T) {
    for _ in 1..LOOKS_MAX {
        let (true, found) = look(&sequence, &read) else { continue };
        return (true, found);
    }
    look(sequence, read)
}

/// Reads once. With fences, because an acquire load may not be made on memory that is mapped for reading only.
fn look<T>(sequence: impl Fn() -> u64, read: impl Fn() -> T) -> (bool, T) {
    let before = sequence();
    // Acquire: whoever sees that a writing has ended sees all of it.
    fence(Ordering::Acquire);
    let found = read();
    // Acquire: whoever saw any of a writing that goes on sees below that the number is another.
    fence(Ordering::Acquire);
    (before.is_multiple_of(2) && sequence() == before, found)
}

#[cfg(test)]
#[cfg(loom)]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    type Words = Arc<[AtomicU64; 3]>;

    /// Has a reader look at what is written. The reader is the thread that is spawned: loom, which reorders what depends on each other's last access, never
    /// lets a main thread read what another one has written before. Without any one of the fences, with a relaxed store at the end, or where a reader believes
    /// an odd number, this fails.
    fn looked_at(times: u64, check: fn(bool, (u64, u64))) -> Words {
        let words: Words = Arc::new([AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)]);
        let seen = words.clone();
        let reader = thread::spawn(move || {
            let word = |at: usize| seen[at].load(Ordering::Relaxed);
            let (is_whole, found) = look(|| word(0), || (word(1), word(2)));
            check(is_whole, found);
        });
        for time in 1..=times {
            write(&words[0], || {
                words[1].store(time, Ordering::Relaxed);
                words[2].store(time, Ordering::Relaxed);
            });
        }
        reader.join().unwrap();
        words
    }

    #[test]
    fn loom_what_is_written_together_is_read_together() {
        loom::model(|| {
            let words = looked_at(2, |is_whole, (one, other)| assert!(!is_whole || one == other, "{one} and {other}"));
            assert!(words.iter().map(|word| word.load(Ordering::Relaxed)).eq([4, 2, 2]));
        });
    }
}
