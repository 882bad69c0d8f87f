//! Arrays and linked lists of bounded length, as views.

use super::{Decode, Encode, Reader, Writer};
use crate::Error;
use std::fmt;

/// A variable-length array of `MAX` elements at most (RFC 4506 section 4.13).
pub type Array<'a, T, const MAX: u32> = Sequence<'a, T, false, MAX>;

/// A linked list of `MAX` elements at most (RFC 4506 section 4.19).
pub type List<'a, T, const MAX: u32> = Sequence<'a, T, true, MAX>;

/// `MAX` elements at most, an [`Array`] or a [`List`]: a view over bytes that were checked, or over values to be written.
///
/// On the wire an array is a count and the elements; a list (`LINKED`) has a 1 before each element and a 0 after the last.
pub struct Sequence<'a, T, const LINKED: bool, const MAX: u32> {
    source: Source<'a, T>,
    count: u32,
}

/// Iterates over the elements of a [`Sequence`].
pub struct SequenceItems<'a, T, const LINKED: bool> {
    source: Source<'a, T>,
    left: u32,
}

enum Source<'a, T> {
    Checked(Reader<'a>),
    Values(&'a [T]),
}

// Derived, these would ask for `T: Clone`, and a view needs none.
impl<T> Clone for Source<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Source<'_, T> {}
impl<T, const LINKED: bool> Clone for SequenceItems<'_, T, LINKED> {
    fn clone(&self) -> Self {
        Self { source: self.source, left: self.left }
    }
}
impl<T, const LINKED: bool, const MAX: u32> Clone for Sequence<'_, T, LINKED, MAX> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, const LINKED: bool, const MAX: u32> Copy for Sequence<'_, T, LINKED, MAX> {}

impl<'a, T, const LINKED: bool, const MAX: u32> Sequence<'a, T, LINKED, MAX> {
    /// Views `values`.
    ///
    /// # Errors
    /// [`Error::Oversized`].
    pub fn new(values: &'a [T]) -> Result<Self, Error> {
        let count = u32::try_from(values.len()).ok().filter(|&count| count <= MAX);
        let count = count.ok_or(Error::Oversized { limit: MAX, got: values.len() })?;
        Ok(Self { source: Source::Values(values), count })
    }

    /// Number of elements.
    pub const fn len(&self) -> u32 {
        self.count
    }

    /// Whether there is no element.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements.
    pub const fn iter(&self) -> SequenceItems<'a, T, LINKED> {
        SequenceItems { source: self.source, left: self.count }
    }
}

impl<'a, T: Decode<'a> + Copy, const LINKED: bool> Iterator for SequenceItems<'a, T, LINKED> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.left = self.left.checked_sub(1)?;
        match &mut self.source {
            Source::Values(values) => values.split_off_first().copied(),
            // What is read here was read once when the sequence was, so it cannot fail.
            Source::Checked(reader) if LINKED => reader.boolean().and_then(|_| T::decode(reader)).ok(),
            Source::Checked(reader) => T::decode(reader).ok(),
        }
    }
}

impl<'a, T: Decode<'a> + Copy, const LINKED: bool, const MAX: u32> IntoIterator for &Sequence<'a, T, LINKED, MAX> {
    type Item = T;
    type IntoIter = SequenceItems<'a, T, LINKED>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, T: Decode<'a>, const LINKED: bool, const MAX: u32> Decode<'a> for Sequence<'a, T, LINKED, MAX> {
    fn decode(from: &mut Reader<'a>) -> Result<Self, Error> {
        let announced = if LINKED { 0 } else { from.length("array", MAX)? };
        let elements = *from;
        let mut count = 0;
        while if LINKED { from.boolean()? } else { count < announced } {
            count += 1;
            if count > MAX {
                return Err(Error::TooLong { what: "list", limit: MAX, got: count });
            }
            T::decode(from)?;
        }
        Ok(Self { source: Source::Checked(elements), count })
    }
}

impl<'a, T: Decode<'a> + Encode + Copy, const LINKED: bool, const MAX: u32> Encode for Sequence<'a, T, LINKED, MAX> {
    fn encode(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        if !LINKED {
            to.u32(self.len())?;
        }
        for item in self {
            if LINKED {
                to.boolean(true)?;
            }
            item.encode(to)?;
        }
        if LINKED { to.boolean(false) } else { Ok(()) }
    }
}

impl<'a, T: Decode<'a> + Copy + PartialEq, const LINKED: bool, const MAX: u32> PartialEq for Sequence<'a, T, LINKED, MAX> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a, T: Decode<'a> + Copy + Eq, const LINKED: bool, const MAX: u32> Eq for Sequence<'a, T, LINKED, MAX> {}

impl<'a, T: Decode<'a> + Copy + fmt::Debug, const LINKED: bool, const MAX: u32> fmt::Debug for Sequence<'a, T, LINKED, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: [u8; 16] = [0, 0, 0, 3, 0, 0, 0, 7, 0, 0, 0, 8, 0, 0, 0, 9];

    #[test]
    fn an_array_is_a_count_and_elements() {
        let mut reader = Reader::new(&THREE);
        let array: Array<'_, u32, 3> = reader.read().unwrap();
        assert_eq!((array.len(), reader.rest().len()), (3, 0));
        assert_eq!(array.iter().collect::<Vec<_>>(), [7, 8, 9]);
        assert_eq!(array, Array::new(&[7, 8, 9]).unwrap());
        let error = Error::TooLong { what: "array", limit: 2, got: 3 };
        assert_eq!(Reader::new(&THREE).read::<Array<'_, u32, 2>>(), Err(error));
    }

    #[test]
    fn a_list_is_a_chain() {
        let bytes = [0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 0];
        let list: List<'_, u32, 2> = Reader::new(&bytes).read().unwrap();
        assert_eq!(list.iter().collect::<Vec<_>>(), [7, 8]);
        let mut memory = [0; 20];
        let mut writer = Writer::new(&mut memory);
        List::<'_, u32, 2>::new(&[7, 8]).unwrap().encode(&mut writer).unwrap();
        assert_eq!(writer.written(), bytes);
        let error = Error::TooLong { what: "list", limit: 1, got: 2 };
        assert_eq!(Reader::new(&bytes).read::<List<'_, u32, 1>>(), Err(error));
    }

    #[test]
    fn a_chain_that_never_ends_is_bounded() {
        let bytes = [0, 0, 0, 1].repeat(100);
        let error = Error::TooLong { what: "list", limit: 9, got: 10 };
        assert_eq!(Reader::new(&bytes).read::<List<'_, (), 9>>(), Err(error));
    }

    #[test]
    fn a_count_beyond_the_bytes_is_found() {
        let error = Error::Truncated { expected: 4, got: 0 };
        assert_eq!(Reader::new(&[0, 0, 1, 0]).read::<Array<'_, u32, 1_000>>(), Err(error));
    }

    #[test]
    fn no_longer_sequence_can_be_made() {
        assert_eq!(Array::<'_, u32, 1>::new(&[1, 2]), Err(Error::Oversized { limit: 1, got: 2 }));
    }
}
