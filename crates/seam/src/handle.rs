//! Names for things that outlive a call: who asked (`Handle`), and what the driver made (`Socket`, `File`).

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

/// Names who submitted an operation: a class of owner, an index in the owner's table, and the generation of that
/// entry. A driver returns it unread; the owner drops (and counts) a completion whose generation has passed.
///
/// Packed into 64 bits: 4 of class, 28 of generation, 32 of index.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(u64);

impl Handle {
    /// Bits of the generation; one counts modulo 2^28.
    pub const GENERATION_BITS: u32 = 28;
    const GENERATION_MASK: u32 = (1 << Self::GENERATION_BITS) - 1;

    /// Packs the three parts; `class` below 16, `generation` is taken modulo 2^28.
    pub const fn new(class: u8, index: u32, generation: u32) -> Self {
        assert!(class < 16);
        let high = ((class as u64) << Self::GENERATION_BITS) | (generation & Self::GENERATION_MASK) as u64;
        Self(high << 32 | index as u64)
    }

    /// The class of the owner, below 16.
    pub const fn class(self) -> u8 {
        (self.0 >> (32 + Self::GENERATION_BITS)) as u8
    }

    /// The index in the owner's table.
    pub const fn index(self) -> u32 {
        self.0 as u32
    }

    /// The generation of the owner's entry, modulo 2^28.
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32 & Self::GENERATION_MASK
    }

    /// The 64 bits, for a driver that must pass the handle through the kernel.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The next generation after `generation`, modulo 2^28.
    pub const fn next_generation(generation: u32) -> u32 {
        generation.wrapping_add(1) & Self::GENERATION_MASK
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}.{}", self.class(), self.index(), self.generation())
    }
}

/// A socket (listening, connected or datagram) that the driver owns; valid until its `Closed` completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Socket {
    /// Index in the driver's table.
    pub index: u32,
    /// Generation of that entry: a `Socket` kept after closing names nothing.
    pub generation: u32,
}

/// A file that the driver owns; valid until it is closed. One that is [held](File::held) closes with the last of its clones,
/// wherever they are: with a service, in an operation, in a chain that is being sent.
#[derive(Clone)]
pub struct File {
    /// Index in the driver's table.
    pub index: u32,
    /// Generation of that entry.
    pub generation: u32,
    #[expect(dead_code, reason = "kept for its drop")]
    holder: Option<Rc<Holder>>,
}

/// What all clones of a held file share.
struct Holder {
    index: u32,
    generation: u32,
    unheld: Unheld,
}

/// Files whose last holder has gone: to be closed.
#[derive(Clone, Default)]
pub struct Unheld(Rc<RefCell<Vec<File>>>);

impl File {
    /// The file of that name, which nobody holds: it is closed by its name alone.
    pub fn new(index: u32, generation: u32) -> Self {
        Self { index, generation, holder: None }
    }

    /// The same file, which enters `unheld` when the last clone of this is dropped.
    pub fn held(self, unheld: &Unheld) -> Self {
        let Self { index, generation, .. } = self;
        Self { holder: Some(Rc::new(Holder { index, generation, unheld: unheld.clone() })), ..self }
    }
}

impl PartialEq for File {
    fn eq(&self, other: &Self) -> bool {
        (self.index, self.generation) == (other.index, other.generation)
    }
}

impl Eq for File {}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "File {}.{}", self.index, self.generation)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.unheld.0.borrow_mut().push(File::new(self.index, self.generation));
    }
}

impl Unheld {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// All of them, to be closed now.
    pub fn take(&self) -> Vec<File> {
        std::mem::take(&mut self.0.borrow_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_unheld_when_its_last_clone_has_gone() {
        let unheld = Unheld::default();
        let file = File::new(3, 1).held(&unheld);
        let clone = file.clone();
        drop(file);
        assert!(unheld.is_empty());
        drop(clone);
        assert_eq!((unheld.take(), unheld.is_empty()), (vec![File::new(3, 1)], true));
    }

    #[test]
    fn parts_survive_packing() {
        for (class, index, generation) in [(0, 0, 0), (15, u32::MAX, (1 << 28) - 1), (3, 77, 12345)] {
            let handle = Handle::new(class, index, generation);
            assert_eq!((handle.class(), handle.index(), handle.generation()), (class, index, generation));
        }
    }

    #[test]
    fn generations_wrap_within_their_bits() {
        assert_eq!(Handle::next_generation((1 << 28) - 1), 0);
        assert_eq!(Handle::new(1, 2, 1 << 28).generation(), 0);
    }
}
