//! Parcels on the lane where they have arrived.
//!
//! Holds a marked cell: a guest reads its parcel's bytes through a pointer, without looking its parcel up.
#![allow(unsafe_code)]

use super::Parcel;
use crate::slab::Slab;
use std::cell::RefCell;
use std::fmt;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::rc::Rc;

/// The parcels of other lanes that are on this one. Cloning gives another name of the same.
#[derive(Clone, Default)]
pub struct Guests(Rc<RefCell<GuestList>>);

#[derive(Default)]
struct GuestList {
    present: Slab<Present>,
    homeward: Vec<Parcel>,
}

struct Present {
    parcel: Parcel,
    references: u32,
}

impl Guests {
    /// Takes a parcel in.
    pub fn admit(&self, parcel: Parcel) -> Guest {
        let (at, length) = (parcel.at, parcel.length);
        let key = self.0.borrow_mut().present.insert(Present { parcel, references: 1 });
        Guest { guests: self.clone(), at, length, index: key.index }
    }

    /// Whether a parcel is to be brought home.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn has_homeward(&self) -> bool {
        !self.0.borrow().homeward.is_empty()
    }

    /// Moves the parcels that are to be brought home behind those in `to`.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn take_homeward(&self, to: &mut Vec<Parcel>) {
        to.append(&mut self.0.borrow_mut().homeward);
    }

    /// How many parcels are here, without those that are to be brought home.
    pub fn len(&self) -> usize {
        self.0.borrow().present.len()
    }

    /// Whether none is here.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn release(&self, index: u32) {
        let table = &mut *self.0.borrow_mut();
        let present = table.present.at_mut(index);
        present.references -= 1;
        if present.references == 0 {
            table.homeward.push(table.present.remove_at(index).parcel);
        }
    }
}

impl fmt::Debug for Guests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guests({})", self.len())
    }
}

/// A counted view of a parcel that has arrived; cloning adds a reference, within the lane only.
pub struct Guest {
    guests: Guests,
    at: NonNull<u8>,
    length: u32,
    index: u32,
}

impl Guest {
    /// A view of a part.
    ///
    /// # Panics
    /// If the range is not within the data.
    pub fn slice(&self, range: Range<usize>) -> Guest {
        let mut part = self.clone();
        part.skip(range.start);
        part.length =
            // reason: asserted for the caller, who names the part.
            u32::try_from(range.len()).ok().filter(|&length| length <= part.length).expect("a part lies within the whole");
        part
    }

    /// Drops the first `bytes` from the view.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn skip(&mut self, bytes: usize) {
        assert!(bytes <= self.length as usize, "{bytes} bytes skipped of {}", self.length);
        // SAFETY: the view stays within the parcel's bytes, or one behind them.
        self.at = unsafe { self.at.add(bytes) };
        self.length -= bytes as u32;
    }

    /// Drops all but the first `bytes` from the view.
    pub fn truncate(&mut self, bytes: usize) {
        self.length = self.length.min(bytes as u32);
    }

    /// The bytes of the view, to be written, if its parcel is exclusive and this is its only view.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        let table = self.guests.0.borrow();
        let present = table.present.at(self.index);
        let may_write = present.parcel.exclusive && present.references == 1;
        // SAFETY: nobody else on this lane has a view, nobody on another lane can reach the bytes, and `self` is borrowed exclusively.
        may_write.then(|| unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.length as usize) })
    }

    /// The lane that is its home.
    pub fn home(&self) -> usize {
        self.guests.0.borrow().present.at(self.index).parcel.home()
    }
}

impl Clone for Guest {
    fn clone(&self) -> Self {
        self.guests.0.borrow_mut().present.at_mut(self.index).references += 1;
        Self { guests: self.guests.clone(), at: self.at, length: self.length, index: self.index }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.guests.release(self.index);
    }
}

impl Deref for Guest {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the parcel is in the table as long as a view of it is there, and keeps its bytes as they are.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.length as usize) }
    }
}

impl fmt::Debug for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guest({} bytes of lane {})", self.length, self.home())
    }
}
