//! Names for things that outlive a call: who asked (`Handle`), and what the driver made (`Socket`, `File`).

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

/// Names who submitted an operation: a work of the lane, a class of that work, an index in the owner's table, and the
/// generation of that entry. A driver returns it unread; the owner drops (and counts) a completion whose generation has passed.
///
/// Packed into 64 bits: 4 of work, 5 of class, 27 of generation, 28 of index. Classes are the work's own: a work makes
/// handles of nobody, and the lane writes its number into them as they pass ([`Handle::of`]).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(u64);

impl Handle {
    /// Names nobody: what ends with it is waited for by none.
    pub const NOBODY: Self = Self(0);
    /// Works that a lane may have; their numbers are 1 to this one, and 0 is nobody's.
    pub const WORKS_MAX: u8 = (1 << Self::WORK_BITS) - 1;
    /// Classes that a work may have, from 0.
    pub const CLASSES: u8 = 1 << Self::CLASS_BITS;
    /// The largest index.
    pub const INDEX_MAX: u32 = (1 << Self::INDEX_BITS) - 1;
    /// Bits of the generation; one counts modulo 2^27.
    pub const GENERATION_BITS: u32 = 27;
    const WORK_BITS: u32 = 4;
    const CLASS_BITS: u32 = 5;
    const INDEX_BITS: u32 = 28;
    const GENERATION_MASK: u32 = (1 << Self::GENERATION_BITS) - 1;
    const CLASS_SHIFT: u32 = Self::INDEX_BITS + Self::GENERATION_BITS;
    const WORK_SHIFT: u32 = Self::CLASS_SHIFT + Self::CLASS_BITS;

    /// Packs three parts, as a handle of nobody; `class` is below [`Handle::CLASSES`], `index` at most [`Handle::INDEX_MAX`], and
    /// `generation` is taken modulo 2^27.
    ///
    /// # Panics
    /// If class or index are out of range.
    pub const fn new(class: u8, index: u32, generation: u32) -> Self {
        assert!(class < Self::CLASSES, "a work has so many classes");
        assert!(index <= Self::INDEX_MAX, "a table of a work has so many entries");
        let generation = (generation & Self::GENERATION_MASK) as u64;
        Self((class as u64) << Self::CLASS_SHIFT | generation << Self::INDEX_BITS | index as u64)
    }

    /// The same handle, of the work of this number.
    ///
    /// # Panics
    /// If there can be no such work.
    pub const fn of(self, work: u8) -> Self {
        assert!(work <= Self::WORKS_MAX, "a lane has so many works");
        Self(self.0 & ((1 << Self::WORK_SHIFT) - 1) | (work as u64) << Self::WORK_SHIFT)
    }

    /// The number of the work, 0 for nobody.
    pub const fn work(self) -> u8 {
        (self.0 >> Self::WORK_SHIFT) as u8
    }

    /// The class of the owner in its work, below [`Handle::CLASSES`].
    pub const fn class(self) -> u8 {
        (self.0 >> Self::CLASS_SHIFT) as u8 & (Self::CLASSES - 1)
    }

    /// The index in the owner's table.
    pub const fn index(self) -> u32 {
        self.0 as u32 & Self::INDEX_MAX
    }

    /// The generation of the owner's entry, modulo 2^27.
    pub const fn generation(self) -> u32 {
        (self.0 >> Self::INDEX_BITS) as u32 & Self::GENERATION_MASK
    }

    /// The 64 bits, for a driver that must pass the handle through the kernel.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The handle that [`Handle::bits`] gave these bits for.
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The next generation after `generation`, modulo 2^27.
    pub const fn next_generation(generation: u32) -> u32 {
        generation.wrapping_add(1) & Self::GENERATION_MASK
    }
}

const _: () = assert!(Handle::WORK_SHIFT + Handle::WORK_BITS == u64::BITS, "the parts of a handle fill its 64 bits");

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.work() != Self::NOBODY.work() {
            write!(f, "{}/", self.work())?;
        }
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

/// A file that the driver owns; valid until it is closed. One that a service has opened closes with the last of its clones,
/// wherever they are: with a service, in an operation, in a chain that is being sent.
#[derive(Clone)]
pub struct File {
    /// Index in the driver's table.
    pub index: u32,
    /// Generation of that entry.
    pub generation: u32,
    holder: Option<Rc<Keeper>>,
}

/// The part that all clones of a held file share.
struct Keeper {
    index: u32,
    generation: u32,
    is_far: bool,
    unheld: Unheld,
}

/// Files whose last holder has gone: to be closed.
#[derive(Clone, Default)]
pub struct Unheld(Rc<RefCell<Vec<File>>>);

impl File {
    /// The file of that name, which nobody holds: it is closed by its name alone.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn new(index: u32, generation: u32) -> Self {
        Self { index, generation, holder: None }
    }

    /// The same file, which enters `unheld` when the last clone of this is dropped. Whether it [is far](crate::FileFacts::is_far) it knows from then on.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn held(self, unheld: &Unheld, is_far: bool) -> Self {
        let Self { index, generation, .. } = self;
        Self { holder: Some(Rc::new(Keeper { index, generation, is_far, unheld: unheld.clone() })), ..self }
    }

    /// Whether it is of a program or another machine (FUSE, NFS), as was seen when it was opened: parts of it are read before they are sent, since a send would wait.
    pub fn is_far(&self) -> bool {
        self.holder.as_ref().is_some_and(|holder| holder.is_far)
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

impl Drop for Keeper {
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
        let file = File::new(3, 1).held(&unheld, true);
        let clone = file.clone();
        drop(file);
        assert!(unheld.is_empty());
        drop(clone);
        assert_eq!((unheld.take(), unheld.is_empty()), (vec![File::new(3, 1)], true));
    }

    #[test]
    fn parts_survive_packing() {
        let most = (Handle::WORKS_MAX, Handle::CLASSES - 1, Handle::INDEX_MAX, (1 << Handle::GENERATION_BITS) - 1);
        for (work, class, index, generation) in
            [(0, 0, 0, 0), most, (15, 0, 0, 0), (0, 31, 0, 0), (0, 0, (1 << 28) - 1, 0), (0, 0, 0, most.3), (7, 3, 77, 12345)]
        {
            let handle = Handle::new(class, index, generation).of(work);
            assert_eq!((handle.work(), handle.class(), handle.index(), handle.generation()), (work, class, index, generation));
            assert_eq!((handle.of(0), handle.of(0).of(work)), (Handle::new(class, index, generation), handle));
        }
    }

    #[test]
    fn generations_wrap_within_their_bits() {
        assert_eq!(Handle::next_generation((1 << 27) - 1), 0);
        assert_eq!(Handle::new(1, 2, 1 << 27).generation(), 0);
        assert_eq!(Handle::new(1, 2, 1 << 27).class(), 1);
    }

    #[test]
    #[should_panic(expected = "a work has so many classes")]
    fn a_class_does_not_reach_into_the_work() {
        let _ = Handle::new(Handle::CLASSES, 0, 0);
    }

    #[test]
    #[should_panic(expected = "a table of a work has so many entries")]
    fn an_index_does_not_reach_into_the_generation() {
        let _ = Handle::new(0, Handle::INDEX_MAX + 1, 0);
    }
}
