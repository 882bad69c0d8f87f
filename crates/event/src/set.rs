//! The epoll set behind a queue, and how it is given up.

use corelane_os::events::polling::{Bell, Readiness, Set};
use corelane_seam::slab::{Key, Slab};
use std::ops::Deref;
use std::sync::OnceLock;

/// The index that no entry of a slab has: a key with it names what is no origin.
const NO_ENTRY: u32 = u32::MAX;
const _: () = assert!(<Slab<()>>::ENTRIES_MAX <= NO_ENTRY as usize, "entries have lower indices");

/// What a reserved token names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// The ready list is not empty, or somebody is to be woken.
    Bell,
    /// A timer by the monotonic clock is due.
    Monotonic,
    /// One by the wall clock is.
    Wall,
    /// A watched file has changed.
    Files,
    /// Signals can be read.
    Signals,
    /// Another queue has read signals.
    Called,
    /// The set was given up.
    Retired,
    /// The inner set is readable, to the outer one.
    Inner,
    /// Processes have done something.
    Processes,
    /// Posters have posted.
    Posted,
}

impl Token {
    const ALL: [Self; 10] = [
        Self::Bell,
        Self::Monotonic,
        Self::Wall,
        Self::Files,
        Self::Signals,
        Self::Called,
        Self::Retired,
        Self::Inner,
        Self::Processes,
        Self::Posted,
    ];

    /// As the kernel carries it.
    pub fn word(self) -> u64 {
        Key::new(NO_ENTRY, self as u32).bits()
    }

    /// What `word` names; none if it names an origin.
    pub fn from_word(word: u64) -> Option<Self> {
        let key = Key::from_bits(word);
        if key.index != NO_ENTRY {
            return None;
        }
        let token = Self::ALL.get(key.generation as usize).copied();
        assert!(token.is_some(), "only tokens of our own come back, and {word:#x} is none");
        token
    }
}

/// A set that can be given up: who waits at it then is woken, for good.
pub struct Watched {
    set: Set,
    retired: OnceLock<Bell>,
}

impl Watched {
    pub fn new() -> Result<Self, i32> {
        Ok(Self { set: Set::new()?, retired: OnceLock::new() })
    }

    /// Wakes everybody who waits at it, now and later.
    pub fn retire(&self) -> Result<(), i32> {
        let bell = Bell::new()?;
        bell.ring();
        self.set.add(bell.number(), Readiness::IN, Token::Retired.word())?;
        let first = self.retired.set(bell);
        assert!(first.is_ok(), "a set is given up once");
        Ok(())
    }
}

impl Deref for Watched {
    type Target = Set;

    fn deref(&self) -> &Set {
        &self.set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_as_what_they_were() {
        for token in Token::ALL {
            assert_eq!(Token::from_word(token.word()), Some(token));
        }
        assert_eq!(Token::from_word(Key::new(NO_ENTRY - 1, 0).bits()), None);
    }
}
